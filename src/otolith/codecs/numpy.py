"""Values of numpy: arrays, scalars, types, masked arrays, matrices, records, random generators.

Forms (they never change, see `docs/reference/format-v1.md`). ARRAY is a dict with a "type" and

    ndarray    dtype, shape, order, and one of
               data     raw bytes, in the order of memory: "C" or "F"
               text     the strings, None and NaN of an array of objects, see `buffers`
               items    other objects, in C order, in lists of 64
               shared   the same, where one object is in several places: items, places
               fields   one array for each field, where some fields are objects
    matrix, recarray    as ndarray
    MaskedArray         data, mask, fill, hard, info
    masked              nothing: numpy has one of it
    scalar              dtype, data: bytes; a str or bytes of str_, bytes_; an array if of objects
    dtype               dtype
    PCG64, MT19937, …   state, seed (a SeedSequence, or None)
    Generator           bits
    RandomState, SeedSequence    state

A dtype is one of

    "<f8"                       a simple type, as numpy writes it: byte order, kind, bytes, [unit]
    "<q"                        the same by its letter, where two types have the same bytes
    "<f16/63"                   a long double, with the bits of its mantissa: machines differ
    {"strings": bool}           StringDType, and whether it converts; "na" is its missing value
    {"of": form, "shape": [int]}        an array within each element
    {"of": form, "metadata": {…}}       any type with metadata
    {"names", "formats", "offsets", "itemsize", "aligned", "record"}    fields; "titles" if any

An array that is not contiguous is copied. Bytes that are not part of a value, as between fields,
are stored too: an array that was not touched has the same bytes each time it is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from math import isnan, nan, prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy import random

from otolith.codecs.base import Form, FormCodec, FormLayout, check, identical, in_key_order, require
from otolith.codecs.buffers import copy_chunks, count_bytes, pack_strings, unpack_strings, with_gaps
from otolith.errors import BadValue, UnknownType
from otolith.types import Piece, Raw, Tag

_BIT_GENERATORS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (random.MT19937, random.PCG64, random.PCG64DXSM, random.Philox, random.SFC64)
}
# The positions of a state in its buffers, and their limits: numpy does not check them.
_BUFFERS = {"pos": 624, "buffer_pos": 4}


_GAUSS = {"has_gauss", "gauss"}


def _lower_bit_generator(bits: Any) -> Form:
    seed = bits._seed_seq  # noqa: SLF001  # older numpy has no other name for it
    return {"state": in_key_order(bits.state), "seed": seed}


def _lift_bit_generator(name: str, state: dict[Any, Any], seed: Any) -> object:
    require(state.get("bit_generator") == name, "the state of another generator")
    bits = _BIT_GENERATORS[name](0 if seed is None else seed)
    if seed is None:
        bits._seed_seq = None  # noqa: SLF001
    _set_state(bits, state)
    return bits


def _set_state(bits: Any, state: dict[Any, Any]) -> None:
    """Set the state of a bit generator, once it is known to be one."""
    for name, limit in _BUFFERS.items():
        for part in (state, state.get("state")):
            within = not isinstance(part, dict) or 0 <= part.get(name, 0) <= limit
            require(within, "a random generator is outside of its buffer")
    bits.state = state
    require(_same_state(bits.state, state), "not the state of a random generator")


def _same_state(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same_state(left[k], right[k]) for k in left)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return identical(left, right)


def _lift_random_state(state: dict[Any, Any]) -> random.RandomState:
    name: Any = state.get("bit_generator")
    require(type(name) is str and name in _BIT_GENERATORS, "numpy has no such generator")
    generator = random.RandomState(_BIT_GENERATORS[name](0))
    _set_state(_BIT_GENERATORS[name](0), {k: part for k, part in state.items() if k not in _GAUSS})
    generator.set_state(state)
    require(_same_state(generator.get_state(legacy=False), state), "not the state of a RandomState")
    return generator


def _lift_seed(state: dict[Any, Any]) -> random.SeedSequence:
    seed = random.SeedSequence(**state)
    require(_same_state(seed.state, state), "not the state of a SeedSequence")
    return seed


# Types


Dtype: TypeAlias = np.dtype[Any]

_SIMPLE = re.compile(r"[<>|](?:[biufcmMSUVO]\d+(?:\[\d*[a-zA-Z]+\])?|[mMSUVO]|[bhilqpBHILQP])")
_LONG = re.compile(r"([<>][fc]\d+)/(\d+)")
_MANTISSA = int(np.finfo(np.longdouble).nmant)
_STRINGS = getattr(np.dtypes, "StringDType", None)


def lower_dtype(dtype: Dtype) -> object:
    """Return the form of a type.

    Raises:
        BadValue: it comes from elsewhere than numpy.
    """
    if dtype.metadata:
        return {"metadata": dict(dtype.metadata), "of": _lower_bare(dtype)}
    return _lower_bare(dtype)


def lift_dtype(form: object) -> Dtype:
    """Return the type that has this form.

    Raises:
        Corrupt: there is no such type.
        UnknownType: this machine or this numpy has no such type.
    """
    dtype = _lift_named(form) if type(form) is str else _lift_made(form)
    # Stores that were written before dicts had an order have the keys of a form sorted.
    is_same = identical(lower_dtype(dtype), form, ordered=False)
    require(is_same, f"{str(form)[:80]} is not a type of numpy")
    return dtype


def _lower_bare(dtype: Dtype) -> object:
    """Return the form of a type, without its metadata."""
    if dtype.names is not None:
        return _lower_fields(dtype)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"of": lower_dtype(base), "shape": list(shape)}
    if dtype.char in "gG":
        return f"{dtype.str}/{_MANTISSA}"
    if dtype.kind == "T":
        missing = {"na": dtype.na_object} if hasattr(dtype, "na_object") else {}
        return {**missing, "strings": dtype.coerce}  # type: ignore[attr-defined]
    plain = np.dtype(dtype.str)
    if plain.type is dtype.type:
        return dtype.str
    lettered = dtype.str[0] + dtype.char
    if _SIMPLE.fullmatch(lettered) and np.dtype(lettered).type is dtype.type:
        return lettered
    raise BadValue(
        f"cannot store an array of {dtype.type.__module__}.{dtype.type.__qualname__}",
        hint="convert it with astype to a type of numpy",
    )


def _lower_fields(dtype: Dtype) -> dict[str, object]:
    """Return the form of a dtype with fields."""
    fields = [dtype.fields[name] for name in dtype.names or () if dtype.fields]
    form: dict[str, object] = {
        "aligned": dtype.isalignedstruct,
        "formats": [lower_dtype(field[0]) for field in fields],
        "itemsize": dtype.itemsize,
        "names": list(dtype.names or ()),
        "offsets": [field[1] for field in fields],
        "record": dtype.type is np.record,
    }
    titles = [field[2] if len(field) > 2 else None for field in fields]
    return {**form, "titles": titles} if any(title is not None for title in titles) else form


def _lift_named(form: str) -> Dtype:
    if long := _LONG.fullmatch(form):
        if int(long[2]) != _MANTISSA:
            raise UnknownType(
                f"a long double of {long[2]} bits cannot be read on this machine",
                hint="read it where it was written, and store it as float64",
            )
        return np.dtype(long[1][0] + ("g" if long[1][1] == "f" else "G"))
    require(_SIMPLE.fullmatch(form), f"{form[:80]!r} is not a type of numpy")
    return np.dtype(form)


def _lift_made(form: object) -> Dtype:
    require(type(form) is dict, "a type of numpy is neither a str nor a dict")
    parts: dict[Any, Any] = form  # type: ignore[assignment]  # looked at one line above
    if "names" in parts:
        return _lift_dtype_fields(parts)
    if "strings" in parts:
        if _STRINGS is None:
            raise UnknownType("this numpy has no StringDType", hint="install numpy 2 or newer")
        options = {"na_object": parts["na"]} if "na" in parts else {}
        made: Dtype = _STRINGS(coerce=parts["strings"], **options)
        return made
    if "metadata" in parts:
        return np.dtype(lift_dtype(parts["of"]), metadata=parts["metadata"])
    return np.dtype((lift_dtype(parts["of"]), tuple(parts["shape"])))


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31


def _lift_dtype_fields(parts: dict[Any, Any]) -> Dtype:
    """Return a dtype with fields, once all of them lie inside of it."""
    spec = {name: parts[name] for name in ("names", "offsets", "itemsize")}
    spec["formats"] = formats = [lift_dtype(each) for each in parts["formats"]]
    offsets, size = parts["offsets"], parts["itemsize"]
    # numpy adds these as ints of C: an offset that overflows would lead outside of the array.
    fits = type(offsets) is list and len(offsets) == len(formats) and _is_size(size)
    require(
        fits
        and all(
            _is_size(start) and start + each.itemsize <= size
            for start, each in zip(offsets, formats, strict=True)
        ),
        "a field of a dtype is outside of it",
    )
    require(type(parts["aligned"]) is bool, "aligned is not a bool in a dtype")
    if "titles" in parts:
        spec["titles"] = parts["titles"]
    dtype: Dtype = np.dtype(spec, align=parts["aligned"])  # type: ignore[call-overload]
    return np.dtype((np.record, dtype)) if parts["record"] else dtype


# Arrays


Array: TypeAlias = npt.NDArray[Any]

_GROUP = 64
"""How many objects are one value to the store: about as many as fit in one packed object."""

_TEXT_ROWS = 64
"""From how many strings on buffers are shorter than a list."""

_NONE, _NAN = 1, 2
_HEAD: dict[str, Any] = {"dtype": (str, dict), "shape": list, "order": str}
_LAST_DIMENSION = 2**63 - 1


def lower_array(array: Array) -> Form:
    """Return the form of an array."""
    dtype, flags = array.dtype, array.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        array = array.copy(order="K")
    order = "F" if array.flags.fnc else "C"
    form = {
        "type": "ndarray",
        "dtype": lower_dtype(dtype),
        "shape": list(array.shape),
        "order": order,
    }
    if not dtype.hasobject:
        return {**form, "data": raw(array)}
    if dtype.names is not None:
        return {**form, "fields": [array[name] for name in dtype.names]}
    values = array.reshape(-1).tolist()
    if _is_text(values):
        return {**form, "text": _pack_text(values)}
    places = _places(values)
    if places is None:
        return {**form, "items": _grouped(values)}
    _, first = np.unique(places, return_index=True)
    return {**form, "shared": {"items": _grouped([values[at] for at in first]), "places": places}}


def raw(array: Array) -> Raw:
    """Return the memory of an array without objects; only what is not contiguous is copied."""
    if not array.nbytes:
        return Raw(b"")
    flat = array.reshape(-1, order="F" if array.flags.fnc else "C")
    return Raw(flat.view(np.uint8).data)


def lift_array(form: Form) -> Array:
    """Return the array of a form.

    Raises:
        Corrupt: the form is not that of an array.
    """
    rest = form.keys() - {"type", *_HEAD}
    require(len(rest) == 1, "an array is stored with too many parts, or without its content")
    kind = rest.pop()
    lift = _CONTENT.get(kind)
    require(lift, f"an array has no {str(kind)[:40]!r}")
    described, dimensions, order, content = check(form, **_HEAD, **{kind: (list, dict, Piece)})
    dtype, shape = lift_dtype(described), shape_of(dimensions)
    array = lift(dtype, shape, order, content)  # type: ignore[misc]  # demanded above
    fits = array.dtype == dtype and order == ("F" if array.flags.fnc else "C")
    require(fits, "the order of an array is not what its shape allows")
    return array


def shape_of(dimensions: list[Any]) -> tuple[int, ...]:
    """Return a shape, once it is known to be one."""
    fits = all(type(each) is int and 0 <= each <= _LAST_DIMENSION for each in dimensions)
    require(fits, "the shape of an array is not a list of lengths")
    return tuple(dimensions)


def filled(dtype: Dtype, shape: tuple[int, ...], order: Any, chunks: object) -> Array:
    """Return an array with these bytes, in new memory or in that of a piece."""
    require(not dtype.hasobject, "an array of objects is stored as raw bytes")
    size = prod(shape) * dtype.itemsize
    found = count_bytes(chunks)
    require(found == size, f"an array of {size} bytes has {found}")
    if size and type(chunks) is Piece:
        return np.ndarray(shape, dtype, chunks.view, order=order)
    # np.empty makes the elements of empty strings one byte long.
    array: Array = np.empty(shape, dtype, order) if size else np.ndarray(shape, dtype, order=order)
    if size:
        copy_chunks(chunks, raw(array).view)
    return array


def _is_text(values: list[Any]) -> bool:
    """Return whether these objects are enough strings, None and NaN to be stored as text."""
    if len(values) < _TEXT_ROWS:
        return False
    kinds = set(map(type, values))
    if not kinds <= {str, type(None), float}:
        return False
    return float not in kinds or all(type(each) is not float or isnan(each) for each in values)


def _pack_text(values: list[Any]) -> Form:
    """Return strings as buffers, with numbers for None and NaN."""
    if set(map(type, values)) == {str}:
        return pack_strings(values)
    kinds = (0 if type(each) is str else _NONE if each is None else _NAN for each in values)
    missing = np.fromiter(kinds, np.uint8, len(values))
    return pack_strings([each if type(each) is str else "" for each in values], missing)


def _grouped(values: list[Any]) -> list[list[Any]]:
    return [values[start : start + _GROUP] for start in range(0, len(values), _GROUP)]


def _ungrouped(groups: Any) -> Array:
    """Return the objects of groups, as `_grouped` makes them."""
    require(type(groups) is list and all(type(each) is list for each in groups), "not in groups")
    values = [value for group in groups for value in group]
    lengths = [len(group) for group in groups]
    require(lengths == [len(group) for group in _grouped(values)], "objects are grouped otherwise")
    return np.fromiter(values, np.object_, len(values))


def _places(values: list[Any]) -> Array | None:
    """Return a number for each object, the same for the same one; None if each is another one."""
    with_identity = {kind for kind in set(map(type, values)) if _has_identity(kind)}
    if not with_identity:
        return None
    numbers: dict[object, int] = {}
    places = [
        numbers.setdefault(id(each) if type(each) in with_identity else ("at", at), len(numbers))
        for at, each in enumerate(values)
    ]
    return np.array(places, np.int64) if len(numbers) < len(values) else None


def _has_identity(kind: type) -> bool:
    """Tell whether two equal objects of a type are two: they can change, or are never equal.

    What is hashed by its content, as a date, may as well be one object or two.
    """
    hashed: object = kind.__hash__
    return kind is not type(None) and (hashed is None or hashed is object.__hash__)


def _lift_text(dtype: Dtype, shape: tuple[int, ...], order: Any, form: Any) -> Array:
    require(type(form) is dict and form.keys() == {"lengths", "missing", "groups"}, "not a text")
    strings, missing = unpack_strings(form, gaps=_NAN)
    require(len(strings) >= _TEXT_ROWS, "a short array of strings is stored as a long one")
    values = with_gaps(strings, missing, lambda kind: None if kind == _NONE else nan)
    return _shaped(values, dtype, shape, order)


def _lift_items(dtype: Dtype, shape: tuple[int, ...], order: Any, groups: Any) -> Array:
    values = _ungrouped(groups)
    require(not _is_text(values.tolist()), "an array of strings is stored as one of objects")
    return _shaped(values, dtype, shape, order)


def _lift_shared(dtype: Dtype, shape: tuple[int, ...], order: Any, form: Any) -> Array:
    require(type(form) is dict and form.keys() == {"items", "places"}, "not shared objects")
    values, places = _ungrouped(form["items"]), form["places"]
    is_list = type(places) is np.ndarray and places.dtype == np.int64 and places.ndim == 1
    require(is_list, "the places of shared objects are not numbers")
    is_complete = [*dict.fromkeys(places.tolist())] == [*range(len(values))]
    require(is_complete and len(values) < len(places), "shared objects are not in their places")
    return _shaped(values[places], dtype, shape, order)


def _shaped(values: Array, dtype: Dtype, shape: tuple[int, ...], order: Any) -> Array:
    """Return an array of objects in its shape and order."""
    require(dtype.kind in "OT", "objects are stored in an array of something else")
    require(prod(shape) == len(values), "an array has more or fewer objects than its shape")
    array: Array = np.empty(shape, dtype, order)
    array[...] = values.reshape(shape)
    return array


def _lift_fields(dtype: Dtype, shape: tuple[int, ...], order: Any, fields: Any) -> Array:
    require(dtype.hasobject and dtype.names and type(fields) is list, "not the fields of an array")
    for name, field in zip(dtype.names or (), fields, strict=True):
        kind = dtype[name]
        fits = type(field) is np.ndarray and field.dtype == kind.base
        require(fits and field.shape == shape + kind.shape, f"the field {name!r} does not fit")
    array: Array = np.zeros(shape, dtype, order)
    for name, field in zip(dtype.names or (), fields, strict=True):
        array[name] = field
    return array


_CONTENT = {
    "data": filled,
    "text": _lift_text,
    "items": _lift_items,
    "shared": _lift_shared,
    "fields": _lift_fields,
}


# Scalars, and relatives of arrays


_EXTENDED = 63  # bits of the mantissa of a long double that has bytes which mean nothing


def _lower_scalar(value: np.generic[Any]) -> Form:
    if isinstance(
        value, str
    ):  # an array strips the zeros at the end of a string; a scalar has them
        return {"type": "scalar", "dtype": "U", "data": str.__str__(value)}
    if isinstance(value, bytes):
        return {"type": "scalar", "dtype": "S", "data": bytes(value)}
    dtype = value.dtype
    data = np.asarray(value) if dtype.hasobject else _without_padding(value.tobytes(), dtype)
    return {"type": "scalar", "dtype": lower_dtype(dtype), "data": data}


def _without_padding(data: bytes, dtype: Dtype) -> bytes:
    """Return the bytes of a scalar; those that only fill up a long double are arbitrary."""
    if dtype.char not in "gG" or np.finfo(np.longdouble).nmant != _EXTENDED:
        return data
    size = np.dtype("g").itemsize
    halves = [data[start : start + 10] for start in range(0, len(data), size)]
    return b"".join(half.ljust(size, b"\0") for half in halves)


def _lift_scalar(described: Any, data: Any) -> object:
    if described == "U":
        require(type(data) is str, "a str_ is not stored as a str")
        return np.str_(data)
    if described == "S":
        require(type(data) is bytes, "a bytes_ is not stored as bytes")
        return np.bytes_(data)
    dtype = lift_dtype(described)
    require(dtype.kind not in "OSUT" and dtype.subdtype is None, "not the type of a scalar")
    if dtype.hasobject:
        fits = type(data) is np.ndarray and data.dtype == dtype and not data.shape
        require(fits, "a scalar with objects is not stored as an array without dimensions")
        return data[()]
    fits = type(data) is bytes and _without_padding(data, dtype) == data
    require(fits, "a scalar is not stored as bytes")
    return filled(dtype, (), "C", [data] if data else [])[()]


def _lower_view(name: str) -> Callable[[Array], Form]:
    def lower(array: Array) -> Form:
        if odd := vars(array).keys() - {"_getitem"}:  # a matrix leaves this one behind
            raise BadValue(
                f"cannot store the attributes of a {name}: {', '.join(sorted(odd))}",
                hint="store them beside it, under other names",
            )
        return {**lower_array(array.view(np.ndarray)), "type": name}

    return lower


def _lift_matrix(form: Form) -> object:
    array = lift_array(form)
    require(array.ndim == 2, "a matrix does not have two dimensions")
    return array.view(np.matrix)


def _lift_recarray(form: Form) -> object:
    array = lift_array(form)
    require(array.dtype.names is None or array.dtype.type is np.record, "not of records")
    return array.view(np.recarray)


def _lower_masked(array: np.ma.MaskedArray[Any, Any]) -> Form:
    mask = np.ma.getmask(array)
    return {
        "data": array.data,
        "mask": None if mask is np.ma.nomask else mask,
        "fill": _fill(array),
        "hard": array.hardmask,
        "info": array._optinfo,  # type: ignore[attr-defined]  # noqa: SLF001
    }


def _fill(array: np.ma.MaskedArray[Any, Any]) -> Array | None:
    """Return the fill value of an array; None for the usual one, which a repr sets."""
    fill = array._fill_value  # type: ignore[attr-defined]  # noqa: SLF001  # asking aloud sets it
    if fill is None:
        return None
    own = np.asarray(fill, array.dtype)
    usual = np.asarray(np.ma.default_fill_value(array), array.dtype)
    if array.dtype.hasobject:
        return None if repr(own.tolist()) == repr(usual.tolist()) else own
    return None if own.tobytes() == usual.tobytes() else own


def _lift_masked(data: Array, mask: Array | None, fill: Array | None, *rest: Any) -> object:
    """Return a masked array over its data, once the mask and the fill value fit it."""
    hard, info = rest
    if mask is not None:
        fits = mask.shape == data.shape and mask.dtype == np.ma.make_mask_descr(data.dtype)
        require(fits, "the mask of an array does not fit it")
    require(fill is None or (fill.dtype == data.dtype and not fill.shape), "a fill does not fit")
    given: Any = np.ma.nomask if mask is None else mask
    array: Any = np.ma.MaskedArray(data, mask=given, hard_mask=hard, copy=False)
    array._fill_value = fill  # noqa: SLF001  # the stored one, even where numpy would choose another
    array._optinfo = info  # noqa: SLF001
    return array


def _types_of_dtypes() -> set[type]:
    scalars = {kind for kind in np.sctypeDict.values() if kind is not np.object_}
    named = {kind for kind in vars(np.dtypes).values() if isinstance(kind, type)}
    return {type(np.dtype(kind)) for kind in (*scalars, np.object_, np.record)} | named


_OPTIONAL = (np.ndarray, type(None))

CODEC = FormCodec(
    Tag.ARRAY,
    (
        FormLayout(np.ndarray, lift_array, lower=lower_array),
        FormLayout(np.matrix, _lift_matrix, lower=_lower_view("matrix")),
        FormLayout(np.recarray, _lift_recarray, lower=_lower_view("recarray")),
        FormLayout(
            np.ma.MaskedArray,
            _lift_masked,
            {"data": np.ndarray, "mask": _OPTIONAL, "fill": _OPTIONAL, "hard": bool, "info": dict},
            _lower_masked,
        ),
        FormLayout(type(np.ma.masked), lambda: np.ma.masked, {}, name="masked"),
        FormLayout(
            (*np.sctypeDict.values(), np.record),
            _lift_scalar,
            {"dtype": (str, dict), "data": (bytes, str, np.ndarray)},
            _lower_scalar,
            name="scalar",
        ),
        FormLayout(
            tuple(_types_of_dtypes()),
            lift_dtype,
            {"dtype": (str, dict)},
            lambda dtype: {"dtype": lower_dtype(dtype)},
            name="dtype",
        ),
        *(
            FormLayout(
                kind,
                partial(_lift_bit_generator, name),
                {"state": dict, "seed": (random.SeedSequence, type(None))},
                _lower_bit_generator,
            )
            for name, kind in _BIT_GENERATORS.items()
        ),
        FormLayout(
            random.Generator,
            random.Generator,
            {"bits": tuple(_BIT_GENERATORS.values())},
            lambda generator: {"bits": generator.bit_generator},
        ),
        FormLayout(
            random.RandomState,
            _lift_random_state,
            {"state": dict},
            lambda generator: {"state": in_key_order(generator.get_state(legacy=False))},
        ),
        FormLayout(
            random.SeedSequence,
            _lift_seed,
            {"state": dict},
            lambda seed: {"state": in_key_order(seed.state)},
        ),
    ),
)
