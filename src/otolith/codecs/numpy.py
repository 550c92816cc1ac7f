"""Arrays: the type of their elements, their shape, and their memory, which is handed over as it is.

    ndarray    dtype, shape, order, and one of
               data     raw bytes, in the order of memory: "C" or "F"
               text     the strings, None and NaN of an array of objects, see `texts`
               items    other objects, in C order, in lists of 64
               fields   one array for each field, where some fields are objects

An array that is not contiguous becomes so. Bytes that are no part of a value, as between fields,
are kept too: an array that was not touched is the same bytes each time it is looked at.

Generators of random numbers: where in its sequence each of them stands.

PCG64, MT19937, …   state, seed (a SeedSequence, or None)
Generator           bits
RandomState         state
SeedSequence        state

The types of elements of arrays, as plain data.

A form is one of

    "<f8"                       a simple type, as numpy writes it: byte order, kind, bytes, [unit]
    "<q"                        the same by its letter, where two types have the same bytes
    "<f16/63"                   a long double, with the bits of its mantissa: machines differ
    {"strings": bool}           StringDType, and whether it converts; "na" is its missing value
    {"of": form, "shape": [int]}        an array within each element
    {"of": form, "metadata": {…}}       any type with metadata
    {"names", "formats", "offsets", "itemsize", "aligned", "record"}    fields; "titles" if any

What else numpy has besides arrays: scalars, types, and the subclasses of arrays it brings along.

scalar        dtype, data: bytes; of str_ and bytes_ the str or bytes; with objects: an array
dtype         dtype
matrix        as ndarray
recarray      as ndarray
MaskedArray   data, mask, fill, hard, info
masked        nothing: numpy has one of it

The door of arrays: what numpy has, lowered to its type, shape and memory.

CODEC         arrays, scalars, types, masked arrays, matrices, records, random generators
lower_array   the form of one array
lift_array    the array of one form
"""

from __future__ import annotations

import re
from math import isnan, nan, prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy import random

from otolith.codecs.base import Form, Forming, Forms, Reading, check, demand, identical
from otolith.codecs.buffers import fill, fold, pour, unfold, weigh
from otolith.errors import BadValue, UnknownType
from otolith.types import Piece, Raw, Tag

_BITS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (random.MT19937, random.PCG64, random.PCG64DXSM, random.Philox, random.SFC64)
}
# Where a state says it stands in a buffer, and how long that is: numpy itself does not look.
_BUFFERS = {"pos": 624, "buffer_pos": 4}


def _lower_bits(bits: Any) -> Form:
    seed = bits._seed_seq  # noqa: SLF001  # older numpy has no other name for it
    return {"type": type(bits).__name__, "state": bits.state, "seed": seed}


def _lift_bits(form: Form) -> object:
    state, seed = check(form, state=dict, seed=(random.SeedSequence, type(None)))
    demand(state.get("bit_generator") == form["type"], "the state of another generator")
    bits = _BITS[form["type"]](0 if seed is None else seed)
    if seed is None:
        bits._seed_seq = None  # noqa: SLF001
    _place(state, bits)
    return bits


def _place(state: dict[Any, Any], bits: Any) -> None:
    for name, limit in _BUFFERS.items():
        for part in (state, state.get("state")):
            within = not isinstance(part, dict) or 0 <= part.get(name, 0) <= limit
            demand(within, "a random generator stands outside its buffer")
    bits.state = state
    demand(_same(bits.state, state), "the state of a random generator is not one")


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return identical(left, right)


def _lower_generator(generator: random.Generator) -> Form:
    return {"type": "Generator", "bits": generator.bit_generator}


def _lift_generator(form: Form) -> random.Generator:
    (bits,) = check(form, bits=tuple(_BITS.values()))
    return random.Generator(bits)


def _lower_state(generator: random.RandomState) -> Form:
    return {"type": "RandomState", "state": generator.get_state(legacy=False)}


def _lift_state(form: Form) -> random.RandomState:
    (state,) = check(form, state=dict)
    name = state.get("bit_generator")
    demand(type(name) is str and name in _BITS, "there is no such generator")
    generator = random.RandomState(_BITS[name](0))
    _place({k: part for k, part in state.items() if k not in _GAUSS}, _BITS[name](0))
    generator.set_state(state)
    demand(_same(generator.get_state(legacy=False), state), "not the state of a RandomState")
    return generator


_GAUSS = {"has_gauss", "gauss"}


def _lower_seed(seed: random.SeedSequence) -> Form:
    return {"type": "SeedSequence", "state": seed.state}


def _lift_seed(form: Form) -> random.SeedSequence:
    (state,) = check(form, state=dict)
    seed = random.SeedSequence(**state)
    demand(_same(seed.state, state), "the state of a SeedSequence is not one")
    return seed


RANDOM_LOWER: dict[type, Forming] = {
    **dict.fromkeys(_BITS.values(), _lower_bits),
    random.Generator: _lower_generator,
    random.RandomState: _lower_state,
    random.SeedSequence: _lower_seed,
}

RANDOM_LIFT: dict[str, Reading] = {
    **dict.fromkeys(_BITS, _lift_bits),
    "Generator": _lift_generator,
    "RandomState": _lift_state,
    "SeedSequence": _lift_seed,
}


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
        return {"of": _lower_bare(dtype), "metadata": dict(dtype.metadata)}
    return _lower_bare(dtype)


def lift_dtype(form: object) -> Dtype:
    """Return the type that has this form.

    Raises:
        Corrupt: there is no such type.
        UnknownType: this machine or this numpy has no such type.
    """
    dtype = _lift_named(form) if type(form) is str else _lift_made(form)
    demand(identical(lower_dtype(dtype), form), f"{str(form)[:80]} is not a type of numpy")
    return dtype


def _lower_bare(dtype: Dtype) -> object:
    if dtype.names is not None:
        return _lower_fields(dtype)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"of": lower_dtype(base), "shape": list(shape)}
    if dtype.char in "gG":
        return f"{dtype.str}/{_MANTISSA}"
    if dtype.kind == "T":
        return _lower_strings(dtype)
    plain = np.dtype(dtype.str)
    if plain.type is dtype.type:
        return dtype.str
    lettered = dtype.str[0] + dtype.char
    if _SIMPLE.fullmatch(lettered) and np.dtype(lettered).type is dtype.type:
        return lettered
    raise BadValue(
        f"cannot keep an array of {dtype.type.__module__}.{dtype.type.__qualname__}",
        hint="convert it with astype to a type of numpy's own",
    )


def _lower_fields(dtype: Dtype) -> dict[str, object]:
    fields = [dtype.fields[name] for name in dtype.names or () if dtype.fields]
    form: dict[str, object] = {
        "names": list(dtype.names or ()),
        "formats": [lower_dtype(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
        "record": dtype.type is np.record,
    }
    titles = [field[2] if len(field) > 2 else None for field in fields]
    return {**form, "titles": titles} if any(title is not None for title in titles) else form


def _lower_strings(dtype: Any) -> dict[str, object]:
    form: dict[str, object] = {"strings": dtype.coerce}
    return {**form, "na": dtype.na_object} if hasattr(dtype, "na_object") else form


def _lift_named(form: str) -> Dtype:
    if long := _LONG.fullmatch(form):
        if int(long[2]) != _MANTISSA:
            raise UnknownType(
                f"a long double of {long[2]} bits cannot be read on this machine",
                hint="read it where it was written, and keep it as float64",
            )
        return _long_double(long[1])
    demand(_SIMPLE.fullmatch(form), f"{form[:80]!r} is not a type of numpy")
    return np.dtype(form)


def _long_double(name: str) -> Dtype:
    return np.dtype(name[0] + ("g" if name[1] == "f" else "G"))


def _lift_made(form: object) -> Dtype:
    demand(type(form) is dict, "a type of numpy is neither a str nor a dict")
    parts: dict[Any, Any] = form  # type: ignore[assignment]  # looked at one line above
    if "names" in parts:
        return _lift_dtype_fields(parts)
    if "strings" in parts:
        return _lift_strings(parts)
    if "metadata" in parts:
        return np.dtype(lift_dtype(parts["of"]), metadata=parts["metadata"])
    return np.dtype((lift_dtype(parts["of"]), tuple(parts["shape"])))


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31


def _lift_dtype_fields(parts: dict[Any, Any]) -> Dtype:
    spec = {name: parts[name] for name in ("names", "offsets", "itemsize")}
    spec["formats"] = formats = [lift_dtype(each) for each in parts["formats"]]
    offsets, size = parts["offsets"], parts["itemsize"]
    # numpy adds these as ints of C: an offset that overflows would lead outside of the array.
    fits = type(offsets) is list and len(offsets) == len(formats) and _is_size(size)
    demand(
        fits
        and all(
            _is_size(start) and start + each.itemsize <= size
            for start, each in zip(offsets, formats, strict=True)
        ),
        "a field of a dtype is outside of it",
    )
    demand(type(parts["aligned"]) is bool, "a dtype is neither aligned nor not")
    if "titles" in parts:
        spec["titles"] = parts["titles"]
    dtype: Dtype = np.dtype(spec, align=parts["aligned"])  # type: ignore[call-overload]
    return np.dtype((np.record, dtype)) if parts["record"] else dtype


def _lift_strings(parts: dict[Any, Any]) -> Dtype:
    if _STRINGS is None:
        raise UnknownType("this numpy has no StringDType", hint="install numpy 2 or newer")
    options = {"na_object": parts["na"]} if "na" in parts else {}
    made: Dtype = _STRINGS(coerce=parts["strings"], **options)
    return made


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
    return {**form, **_lower_objects(array.reshape(-1).tolist())}


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
    demand(len(rest) == 1, "an array is kept with too much, or without its content")
    kind = rest.pop()
    lift = _CONTENT.get(kind)
    demand(lift, f"an array has no {str(kind)[:40]!r}")
    described, dimensions, order, content = check(form, **_HEAD, **{kind: (list, dict, Piece)})
    dtype, shape = lift_dtype(described), shape_of(dimensions)
    array = lift(dtype, shape, order, content)  # type: ignore[misc]  # demanded above
    fits = array.dtype == dtype and order == ("F" if array.flags.fnc else "C")
    demand(fits, "the order of an array is not what its shape allows")
    return array


def shape_of(dimensions: list[Any]) -> tuple[int, ...]:
    """Return a shape, once it is known to be one."""
    fits = all(type(each) is int and 0 <= each <= _LAST_DIMENSION for each in dimensions)
    demand(fits, "the shape of an array is not a list of lengths")
    return tuple(dimensions)


def filled(dtype: Dtype, shape: tuple[int, ...], order: Any, chunks: object) -> Array:
    """Return memory with these bytes in it: new memory, or that of a piece."""
    demand(not dtype.hasobject, "an array of objects is kept as raw bytes")
    size = prod(shape) * dtype.itemsize
    demand(weigh(chunks) == size, f"an array of {size} bytes has {weigh(chunks)}")
    if size and type(chunks) is Piece:
        return np.ndarray(shape, dtype, chunks.view, order=order)
    # np.empty makes the elements of empty strings one byte long.
    array: Array = np.empty(shape, dtype, order) if size else np.ndarray(shape, dtype, order=order)
    if size:
        pour(chunks, raw(array).view)
    return array


def _lower_objects(values: list[Any]) -> Form:
    return {"text": _text(values)} if _is_text(values) else {"items": _grouped(values)}


def _is_text(values: list[Any]) -> bool:
    if len(values) < _TEXT_ROWS:
        return False
    kinds = set(map(type, values))
    if not kinds <= {str, type(None), float}:
        return False
    return float not in kinds or all(type(each) is not float or isnan(each) for each in values)


def _text(values: list[Any]) -> Form:
    if set(map(type, values)) == {str}:
        return fold(values)
    kinds = (0 if type(each) is str else _NONE if each is None else _NAN for each in values)
    missing = np.fromiter(kinds, np.uint8, len(values))
    return fold([each if type(each) is str else "" for each in values], missing)


def _grouped(values: list[Any]) -> list[list[Any]]:
    return [values[start : start + _GROUP] for start in range(0, len(values), _GROUP)]


def _lift_text(dtype: Dtype, shape: tuple[int, ...], order: Any, form: Any) -> Array:
    demand(type(form) is dict and form.keys() == {"lengths", "missing", "groups"}, "not a text")
    strings, missing = unfold(form, gaps=_NAN)
    demand(len(strings) >= _TEXT_ROWS, "a short array of strings is kept as a long one")
    values = fill(strings, missing, lambda kind: None if kind == _NONE else nan)
    return _shaped(values, dtype, shape, order)


def _lift_items(dtype: Dtype, shape: tuple[int, ...], order: Any, groups: Any) -> Array:
    demand(type(groups) is list and all(type(each) is list for each in groups), "not in groups")
    values = [value for group in groups for value in group]
    lengths = [len(group) for group in groups]
    demand(lengths == [len(group) for group in _grouped(values)], "objects are grouped otherwise")
    demand(not _is_text(values), "an array of strings is kept as one of objects")
    return _shaped(np.fromiter(values, np.object_, len(values)), dtype, shape, order)


def _shaped(values: Array, dtype: Dtype, shape: tuple[int, ...], order: Any) -> Array:
    demand(dtype.kind in "OT", "objects are kept in an array of something else")
    demand(prod(shape) == len(values), "an array has more or fewer objects than its shape")
    array: Array = np.empty(shape, dtype, order)
    array[...] = values.reshape(shape)
    return array


def _lift_fields(dtype: Dtype, shape: tuple[int, ...], order: Any, fields: Any) -> Array:
    demand(dtype.hasobject and dtype.names and type(fields) is list, "not the fields of an array")
    for name, field in zip(dtype.names or (), fields, strict=True):
        kind = dtype[name]
        fits = type(field) is np.ndarray and field.dtype == kind.base
        demand(fits and field.shape == shape + kind.shape, f"the field {name!r} does not fit")
    array: Array = np.zeros(shape, dtype, order)
    for name, field in zip(dtype.names or (), fields, strict=True):
        array[name] = field
    return array


_CONTENT = {"data": filled, "text": _lift_text, "items": _lift_items, "fields": _lift_fields}


_TEXTS: dict[str, type] = {"U": np.str_, "S": np.bytes_}
_EXTENDED = 63  # bits of the mantissa of a long double that has bytes which mean nothing


def _lower_scalar(value: np.generic[Any]) -> Form:
    dtype = value.dtype
    if dtype.hasobject:
        return {"type": "scalar", "dtype": lower_dtype(dtype), "data": np.asarray(value)}
    return {"type": "scalar", "dtype": lower_dtype(dtype), "data": _meant(value.tobytes(), dtype)}


def _meant(data: bytes, dtype: Dtype) -> bytes:
    """Return the bytes of a scalar; those that only fill up a long double change by themselves."""
    if dtype.char not in "gG" or np.finfo(np.longdouble).nmant != _EXTENDED:
        return data
    size = np.dtype("g").itemsize
    halves = [data[start : start + 10] for start in range(0, len(data), size)]
    return b"".join(half.ljust(size, b"\0") for half in halves)


def _lower_text(value: np.str_ | np.bytes_) -> Form:
    # An array strips the zeros at the end of a string; a scalar has them.
    if isinstance(value, str):
        return {"type": "scalar", "dtype": "U", "data": str.__str__(value)}
    return {"type": "scalar", "dtype": "S", "data": bytes(value)}


def _lift_scalar(form: Form) -> object:
    described, data = check(form, dtype=(str, dict), data=(bytes, str, np.ndarray))
    if described in ("U", "S"):
        demand(type(data) is (str if described == "U" else bytes), "a text is no text")
        return _TEXTS[described](data)
    dtype = lift_dtype(described)
    demand(dtype.kind not in "OSUT" and dtype.subdtype is None, "not the type of a scalar")
    if dtype.hasobject:
        demand(type(data) is np.ndarray and data.dtype == dtype and not data.shape, "no scalar")
        return data[()]
    demand(type(data) is bytes and _meant(data, dtype) == data, "a scalar is not kept as bytes")
    return filled(dtype, (), "C", [data] if data else [])[()]


def _lower_view(name: str) -> Forming:
    def lower(array: Array) -> Form:
        if odd := vars(array).keys() - {"_getitem"}:  # a matrix leaves this one behind
            raise BadValue(
                f"cannot keep the attributes of a {name}: {', '.join(sorted(odd))}",
                hint="keep them beside it, under names of their own",
            )
        return {**lower_array(array.view(np.ndarray)), "type": name}

    return lower


def _lift_matrix(form: Form) -> object:
    array = lift_array(form)
    demand(array.ndim == 2, "a matrix has not two dimensions")
    return array.view(np.matrix)


def _lift_recarray(form: Form) -> object:
    array = lift_array(form)
    demand(array.dtype.names is None or array.dtype.type is np.record, "not of records")
    return array.view(np.recarray)


def _lower_masked(array: np.ma.MaskedArray[Any, Any]) -> Form:
    mask = np.ma.getmask(array)
    fill = array._fill_value  # type: ignore[attr-defined]  # noqa: SLF001  # asking aloud sets it
    return {
        "type": "MaskedArray",
        "data": array.data,
        "mask": None if mask is np.ma.nomask else mask,
        "fill": None if fill is None else np.asarray(fill, array.dtype),
        "hard": array.hardmask,
        "info": array._optinfo,  # type: ignore[attr-defined]  # noqa: SLF001
    }


def _lift_masked(form: Form) -> object:
    kinds = {"mask": (np.ndarray, type(None)), "fill": (np.ndarray, type(None))}
    data, mask, fill, hard, info = check(form, data=np.ndarray, **kinds, hard=bool, info=dict)
    if mask is not None:
        fits = mask.shape == data.shape and mask.dtype == np.ma.make_mask_descr(data.dtype)
        demand(fits, "the mask of an array does not fit it")
    demand(fill is None or (fill.dtype == data.dtype and not fill.shape), "a fill does not fit")
    given: Any = np.ma.nomask if mask is None else mask
    array: Any = np.ma.MaskedArray(data, mask=given, hard_mask=hard, copy=False)
    array._fill_value = fill  # noqa: SLF001  # as it was, even where numpy would choose another
    array._optinfo = info  # noqa: SLF001
    return array


def _lower_constant(_: object) -> Form:
    return {"type": "masked"}


def _lift_constant(form: Form) -> object:
    check(form)
    return np.ma.masked


def _lower_type(dtype: Dtype) -> Form:
    return {"type": "dtype", "dtype": lower_dtype(dtype)}


def _lift_type(form: Form) -> Dtype:
    (described,) = check(form, dtype=(str, dict))
    return lift_dtype(described)


def _kinds_of_dtypes() -> set[type]:
    scalars = {kind for kind in np.sctypeDict.values() if kind is not np.object_}
    named = {kind for kind in vars(np.dtypes).values() if isinstance(kind, type)}
    return {type(np.dtype(kind)) for kind in (*scalars, np.object_, np.record)} | named


RELATED_LOWER: dict[type, Forming] = {
    **dict.fromkeys((*np.sctypeDict.values(), np.record), _lower_scalar),
    **dict.fromkeys(_kinds_of_dtypes(), _lower_type),
    np.str_: _lower_text,
    np.bytes_: _lower_text,
    np.matrix: _lower_view("matrix"),
    np.recarray: _lower_view("recarray"),
    np.ma.MaskedArray: _lower_masked,
    type(np.ma.masked): _lower_constant,
}

RELATED_LIFT: dict[str, Reading] = {
    "scalar": _lift_scalar,
    "dtype": _lift_type,
    "matrix": _lift_matrix,
    "recarray": _lift_recarray,
    "MaskedArray": _lift_masked,
    "masked": _lift_constant,
}


CODEC = Forms(
    Tag.ARRAY,
    {np.ndarray: lower_array, **RELATED_LOWER, **RANDOM_LOWER},
    {"ndarray": lift_array, **RELATED_LIFT, **RANDOM_LIFT},
)
