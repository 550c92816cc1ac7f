"""One Arrow array, buffer by buffer, in a form that depends on its visible elements only.

Form (it never changes, see `docs/reference/format-v1.md`). An array is a dict with its `length`,
its bitmap `valid` if it has nulls, and, by the layout of its type:

    null                  nothing
    bool                  values: a bitmap
    of a fixed width      values
    binary, string        offsets, values
    list, map             offsets; items: an array
    list of a fixed size  items: an array
    struct                children: arrays
    union, sparse         codes; children: arrays of full length
    union, dense          codes; children: arrays of those of its values that are shown, in order
    dictionary            indices: an array; dictionary: an array
    run-end encoded       ends: an array; values: an array
    views                 as large binary, large string, list and large list
    extension             as its storage

Rules. Two arrays that are equal to Arrow can differ in memory, so a form is normalized:
1. It is cut to the visible elements, and offsets start at 0.
2. A bitmap without zeros is left out, and its bits after the last element are zero.
3. What lies under a null is zero, empty or null itself. Not so under a null struct in a union or in
   runs, which have no nulls themselves.
4. Runs of one value are one run.
Buffers that are normal already are passed on as they are, without a copy.

`lower_array` and `lift_array` walk over an array by the table `_LAYOUTS`: one line for each layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyarrow import types as of

from otolith.codecs.arrow.types import MISFITS
from otolith.codecs.base import VERIFY, in_key_order
from otolith.codecs.buffers import join_chunks
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Raw

Mask: TypeAlias = npt.NDArray[np.bool_] | None
"""Which elements are visible; None means all."""

Numbers: TypeAlias = npt.NDArray[Any]
Form: TypeAlias = dict[str, object]


class ArrayForm:
    """The form of an array, each part checked when it is read."""

    def __init__(self, data: object) -> None:
        if type(data) is not dict or any(type(name) is not str for name in data):
            raise Corrupt("an array is not stored as a dict", hint=VERIFY)
        self._data: Form = data
        length = self["length"]
        if type(length) is not int or not 0 <= length < 2**60:
            raise Corrupt(f"an array has the length {length!r:.40}", hint=VERIFY)
        self.length = length
        self.valid = self.buffer("valid", (self.length + 7) // 8) if "valid" in data else None

    def __getitem__(self, name: str) -> object:
        if name not in self._data:
            raise Corrupt(f"an array is stored without its {name}", hint=VERIFY)
        return self._data[name]

    def buffer(self, name: str, size: int | None = None) -> pa.Buffer:
        """Return raw bytes; `size` is how many there must be."""
        return pa.py_buffer(join_chunks(self[name], size=size))


# Buffers


def _slice_bytes(buffer: pa.Buffer | None, start: int, size: int) -> memoryview:
    """Return `size` bytes of a buffer, not copied."""
    if buffer is None or size == 0:
        return memoryview(b"")
    if not buffer.is_cpu:
        raise BadValue(
            "cannot store an array that is not in main memory", hint="copy it to the CPU"
        )
    return memoryview(buffer)[start : start + size]


def _read_numbers(array: pa.Array, at: int, dtype: str, *, more: int = 0) -> Numbers:
    """Return a buffer of numbers, one for each element and `more`."""
    width, count = np.dtype(dtype).itemsize, len(array) + more
    data = _slice_bytes(array.buffers()[at], array.offset * width, count * width)
    # An empty array need not have any offsets at all.
    return np.frombuffer(data, dtype) if data else np.zeros(count, dtype)


def _unpack_bits(buffer: pa.Buffer | None, offset: int, length: int) -> npt.NDArray[np.bool_]:
    """Return `length` bits of a bitmap, a byte each."""
    first, last = offset // 8, (offset + length + 7) // 8
    packed = np.frombuffer(_slice_bytes(buffer, first, last - first), np.uint8)
    skip = offset % 8
    return np.unpackbits(packed, bitorder="little")[skip : skip + length].view(np.bool_)


def _pack_bits(bits: npt.NDArray[np.bool_]) -> Raw:
    """Return a bitmap; the bits after its last are zero."""
    return _raw(np.packbits(bits, bitorder="little"))


def _raw(numbers: Numbers) -> Raw:
    """Return numbers as the bytes they are."""
    return Raw(np.ascontiguousarray(numbers).data.cast("B") if numbers.size else b"")


def _visible(array: pa.Array, shown: Mask) -> Mask:
    """Return which elements are neither null nor hidden by a parent, or None for all."""
    if array.null_count == 0:
        return None if shown is None or shown.all() else shown
    valid = _unpack_bits(array.buffers()[0], array.offset, len(array))
    return valid if shown is None else valid & shown


def _validity(valid: Mask) -> Form:
    """Return the part of a form that says where nulls are, if there are any."""
    return {} if valid is None else {"valid": _pack_bits(valid)}


# Flat layouts


def _lower_bool(array: pa.Array, shown: Mask) -> Form:
    """Return the form of booleans, with hidden values cleared."""
    valid = _visible(array, shown)
    values = _unpack_bits(array.buffers()[1], array.offset, len(array))
    return {**_validity(valid), "values": _pack_bits(values if valid is None else values & valid)}


def _lower_fixed(array: pa.Array, shown: Mask) -> Form:
    """Return the form of values of a fixed width, with hidden values cleared."""
    width = array.type.bit_width // 8
    values = _slice_bytes(array.buffers()[1], array.offset * width, len(array) * width)
    valid = _visible(array, shown)
    if valid is None:
        return {"values": Raw(values)}
    if width in {1, 2, 4, 8}:
        # A product is several times as fast as setting some of the elements.
        cleared = np.frombuffer(values, f"u{width}") * valid
    else:
        cleared = np.frombuffer(values, np.uint8).reshape(len(valid), width).copy()
        cleared[~valid] = 0
    return {**_validity(valid), "values": _raw(cleared)}


def _make_fixed(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    """Return an array of values of a fixed width."""
    size = (parts.length * kind.bit_width + 7) // 8
    buffers = [parts.valid, parts.buffer("values", size)]
    return pa.Array.from_buffers(kind, parts.length, buffers)


def _lower_binary(array: pa.Array, shown: Mask) -> Form:
    """Lower strings or bytes; those under a null are cut out."""
    offsets = _read_numbers(array, 1, _offset_dtype(array.type), more=1)
    valid = _visible(array, shown)
    values = _slice_bytes(array.buffers()[2], int(offsets[0]), int(offsets[-1] - offsets[0]))
    if valid is not None and (lengths := np.diff(offsets))[~valid].any():
        values = np.frombuffer(values, np.uint8)[np.repeat(valid, lengths)].data
        offsets = _offsets(np.where(valid, lengths, 0), offsets.dtype)
    return {
        **_validity(valid),
        "offsets": _raw(offsets if offsets[0] == 0 else offsets - offsets[0]),
        "values": Raw(values),
    }


def _make_binary(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    buffers = [parts.valid, _offset_buffer(kind, parts), parts.buffer("values")]
    return pa.Array.from_buffers(kind, parts.length, buffers)


def _offset_dtype(kind: pa.DataType) -> str:
    """Return the dtype of the offsets of a type."""
    large = of.is_large_binary(kind) or of.is_large_string(kind)
    return "<i8" if large or of.is_large_list(kind) or of.is_large_list_view(kind) else "<i4"


def _offset_buffer(kind: pa.DataType, parts: ArrayForm) -> pa.Buffer:
    """Return the offsets, one more than there are elements."""
    return parts.buffer("offsets", (parts.length + 1) * np.dtype(_offset_dtype(kind)).itemsize)


def _offsets(lengths: Numbers, dtype: Any) -> Numbers:
    """Return the offsets of elements with these lengths."""
    if lengths.sum(dtype="i8") > np.iinfo(dtype).max:
        raise BadValue("cannot store lists that overlap so much", hint="cast them to large lists")
    offsets = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


class ArrayLayout(NamedTuple):
    """How arrays of some types are lowered and made."""

    fits: Callable[[pa.DataType], bool]
    lower: Callable[[pa.Array, Mask], Form]
    make: Callable[[pa.DataType, ArrayForm], pa.Array]


def lower_array(array: pa.Array, *, shown: Mask = None) -> Form:
    """Return the form of an array; `shown` says which elements its parents show."""
    return in_key_order({"length": len(array), **_layout(array.type).lower(array, shown)})


def lift_array(kind: pa.DataType, data: object) -> pa.Array:
    """Return an array of this type, all of it checked.

    Raises:
        Corrupt: the data is not that of such an array.
        UnknownType: the Arrow that is installed here cannot make one.
    """
    try:
        array = _lift(kind, data)
        array.validate(full=True)
    except pa.ArrowNotImplementedError as error:
        raise UnknownType(
            f"pyarrow cannot make an array of {kind!s:.80} here: {error}", hint="upgrade pyarrow"
        ) from None
    except (*MISFITS, MemoryError) as error:
        raise Corrupt(f"an array of {kind!s:.80} is damaged: {error!s:.200}", hint=VERIFY) from None
    return array


def _layout(kind: pa.DataType) -> ArrayLayout:
    """Return how arrays of a type are stored."""
    if (known := _BY_ID.get(kind.id)) is not None:
        return known
    for layout in _LAYOUTS:
        if layout.fits(kind):
            _BY_ID[kind.id] = layout
            return layout
    raise BadValue(f"cannot store arrays of Arrow's type {kind}", hint="cast it to another type")


def _lift(kind: pa.DataType, data: object) -> pa.Array:
    return _layout(kind).make(kind, ArrayForm(data))


def _child(kind: pa.DataType, data: object, length: int) -> pa.Array:
    """Return a child array, once it has the right length."""
    child = _lift(kind, data)
    if len(child) != length:
        raise Corrupt(f"a child has {len(child)} elements instead of {length}", hint=VERIFY)
    return child


def _children(kind: pa.DataType, parts: ArrayForm, lengths: list[int]) -> list[pa.Array]:
    """Return the children of a nested array, checked against their lengths."""
    children = parts["children"]
    if type(children) is not list or len(children) != kind.num_fields:
        raise Corrupt(f"an array does not have its {kind.num_fields} children", hint=VERIFY)
    kinds = [kind.field(at).type for at in range(kind.num_fields)]
    return list(map(_child, kinds, children, lengths))


def _concatenate(child: pa.Array, starts: Numbers, lengths: Numbers) -> pa.Array:
    """Return slices of an array as one array; adjacent slices are joined before they are copied."""
    starts, lengths = starts[lengths > 0], lengths[lengths > 0]
    breaks = np.flatnonzero(starts[1:] != starts[:-1] + lengths[:-1]) + 1
    firsts, ends = np.append(0, breaks)[: len(starts)], np.append(breaks, len(starts)) - 1
    slices = [
        child.slice(int(starts[first]), int(starts[end] + lengths[end] - starts[first]))
        for first, end in zip(firsts, ends, strict=False)
    ]
    if len(slices) == 1:
        return slices[0]
    return pa.concat_arrays(slices) if slices else child.slice(0, 0)


def _lower_list(array: pa.Array, shown: Mask) -> Form:
    offsets = _read_numbers(array, 1, _offset_dtype(array.type), more=1)
    return _lower_lists(array, shown, offsets[:-1], np.diff(offsets))


def _lower_list_view(array: pa.Array, shown: Mask) -> Form:
    """Return the form of list views, stored as lists."""
    dtype = _offset_dtype(array.type)
    return _lower_lists(
        array, shown, _read_numbers(array, 1, dtype), _read_numbers(array, 2, dtype)
    )


def _lower_lists(array: pa.Array, shown: Mask, starts: Numbers, lengths: Numbers) -> Form:
    """Lower lists of any kind, given where each one starts and how long it is."""
    valid = _visible(array, shown)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    return {
        **_validity(valid),
        "offsets": _raw(_offsets(lengths, _offset_dtype(array.type))),
        "items": lower_array(_concatenate(array.values, starts, lengths)),
    }


def _make_list(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    """Return an array of lists or maps."""
    entry = pa.struct([kind.key_field, kind.item_field]) if of.is_map(kind) else kind.value_type
    items = _lift(entry, parts["items"])
    buffers = [parts.valid, _offset_buffer(kind, parts)]
    return pa.Array.from_buffers(kind, parts.length, buffers, children=[items])


def _make_list_view(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    """Return an array of list views."""
    items = _lift(kind.value_type, parts["items"])
    offsets = np.frombuffer(_offset_buffer(kind, parts), _offset_dtype(kind))
    pair = [pa.py_buffer(_raw(each).view) for each in (offsets[:-1], np.diff(offsets))]
    return pa.Array.from_buffers(kind, parts.length, [parts.valid, *pair], children=[items])


def _lower_fixed_list(array: pa.Array, shown: Mask) -> Form:
    """Return the form of lists of one length."""
    size, valid = array.type.list_size, _visible(array, shown)
    items = array.values.slice(array.offset * size, len(array) * size)
    return {
        **_validity(valid),
        "items": lower_array(items, shown=None if valid is None else np.repeat(valid, size)),
    }


def _make_fixed_list(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    items = _child(kind.value_type, parts["items"], parts.length * kind.list_size)
    return pa.Array.from_buffers(kind, parts.length, [parts.valid], children=[items])


def _lower_struct(array: pa.Array, shown: Mask) -> Form:
    """Return the form of structs; a field is hidden where its struct is."""
    valid = _visible(array, shown)
    children = [lower_array(array.field(at), shown=valid) for at in range(array.type.num_fields)]
    return {**_validity(valid), "children": children}


def _make_struct(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    children = _children(kind, parts, [parts.length] * kind.num_fields)
    return pa.Array.from_buffers(kind, parts.length, [parts.valid], children=children)


def _lower_sparse(array: pa.Array, shown: Mask) -> Form:
    """Return the form of a sparse union; of each child, only its own values."""
    codes = _read_numbers(array, 1, "i1")
    children = [
        lower_array(array.field(at), shown=codes == code)
        for at, code in enumerate(array.type.type_codes)
    ]
    return {"codes": _raw(codes), "children": children}


def _make_sparse(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    """Return a sparse union."""
    children = _children(kind, parts, [parts.length] * kind.num_fields)
    buffers = [None, parts.buffer("codes", parts.length)]
    return pa.Array.from_buffers(kind, parts.length, buffers, children=children)


def _lower_dense(array: pa.Array, shown: Mask) -> Form:
    """Lower a dense union: each child has only the values that are visible, in order."""
    codes, places = _read_numbers(array, 1, "i1"), _read_numbers(array, 2, "<i4")
    children = []
    for at, code in enumerate(array.type.type_codes):
        starts = places[codes == code]
        children.append(lower_array(_concatenate(array.field(at), starts, np.ones_like(starts))))
    return {"codes": _raw(codes), "children": children}


def _make_dense(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    """Return a dense union; its offsets follow from the codes."""
    buffer = parts.buffer("codes", parts.length)
    codes = np.frombuffer(buffer, "i1")
    places, counts = np.zeros(parts.length, "<i4"), []
    for code in kind.type_codes:
        mine = codes == code
        counts.append(int(mine.sum()))
        places[mine] = np.arange(counts[-1])
    children = _children(kind, parts, counts)
    buffers = [None, buffer, pa.py_buffer(_raw(places).view)]
    return pa.Array.from_buffers(kind, parts.length, buffers, children=children)


def _lower_dictionary(array: pa.Array, shown: Mask) -> Form:
    """Return the form of a dictionary array."""
    return {
        "indices": lower_array(array.indices, shown=shown),
        "dictionary": lower_array(array.dictionary),
    }


def _make_dictionary(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    """Return a dictionary array."""
    indices = _child(kind.index_type, parts["indices"], parts.length)
    dictionary = lift_array(kind.value_type, parts["dictionary"])
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=kind.ordered, safe=True)


def _lower_runs(array: pa.Array, shown: Mask) -> Form:
    """Lower runs, with neighbours of one value joined."""
    first, count = array.find_physical_offset(), array.find_physical_length()
    ends, values = array.run_ends.slice(first, count), array.values.slice(first, count)
    last = _last_of_equals(values)
    ends = np.minimum(ends.to_numpy().astype("i8").take(last) - array.offset, len(array))
    starts = last.astype("i8")
    return {
        "ends": lower_array(pa.array(ends, array.type.run_end_type)),
        "values": lower_array(_concatenate(values, starts, np.ones_like(starts))),
    }


def _last_of_equals(values: pa.Array) -> Numbers:
    """Return the position of the last of each run of equal values."""
    kind = values.type
    if of.is_floating(kind):
        # By their bits: 0.0 and -0.0 are not one value.
        values = values.view(f"uint{kind.bit_width}")
    earlier, later = values.slice(0, max(len(values) - 1, 0)), values.slice(1)
    try:
        alike = pc.equal(earlier, later)
    except pa.ArrowNotImplementedError:
        return np.arange(len(values))
    # Arrow's run-end encoding would look at what lies under a null.
    nulls = pc.and_(earlier.is_null(), later.is_null())
    same = pc.or_(alike.fill_null(False), nulls).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return np.append(np.flatnonzero(~same), len(values) - 1)[: len(values)]


def _make_runs(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    """Return a run-end encoded array, checked against its length."""
    ends, values = (
        lift_array(kind.run_end_type, parts["ends"]),
        lift_array(kind.value_type, parts["values"]),
    )
    array = pa.RunEndEncodedArray.from_arrays(ends, values, kind)
    if len(array) != parts.length:
        raise Corrupt(f"runs end at {len(array)} instead of {parts.length}", hint=VERIFY)
    return array


def _make_view(kind: pa.DataType, parts: ArrayForm) -> pa.Array:
    """Return a view of strings or bytes, made of large ones."""
    array = _make_binary(_large(kind), parts)
    array.validate(full=True)
    return array.cast(kind)


def _large(kind: pa.DataType) -> pa.DataType:
    return pa.large_string() if of.is_string_view(kind) else pa.large_binary()


def _is_any(*tests: Callable[[pa.DataType], bool]) -> Callable[[pa.DataType], bool]:
    return lambda kind: any(test(kind) for test in tests)


_LAYOUTS = (
    ArrayLayout(
        lambda kind: isinstance(kind, pa.BaseExtensionType),
        lambda array, shown: _layout(array.type.storage_type).lower(array.storage, shown),
        lambda kind, parts: pa.ExtensionArray.from_storage(
            kind, _layout(kind.storage_type).make(kind.storage_type, parts)
        ),
    ),
    ArrayLayout(of.is_null, lambda array, shown: {}, lambda kind, parts: pa.nulls(parts.length)),
    ArrayLayout(of.is_boolean, _lower_bool, _make_fixed),
    ArrayLayout(
        _is_any(of.is_primitive, of.is_decimal, of.is_fixed_size_binary), _lower_fixed, _make_fixed
    ),
    ArrayLayout(
        _is_any(of.is_string, of.is_binary, of.is_large_string, of.is_large_binary),
        _lower_binary,
        _make_binary,
    ),
    ArrayLayout(
        _is_any(of.is_string_view, of.is_binary_view),
        lambda array, shown: _lower_binary(array.cast(_large(array.type)), shown),
        _make_view,
    ),
    ArrayLayout(_is_any(of.is_list, of.is_large_list, of.is_map), _lower_list, _make_list),
    ArrayLayout(_is_any(of.is_list_view, of.is_large_list_view), _lower_list_view, _make_list_view),
    ArrayLayout(of.is_fixed_size_list, _lower_fixed_list, _make_fixed_list),
    ArrayLayout(of.is_struct, _lower_struct, _make_struct),
    ArrayLayout(
        lambda kind: of.is_union(kind) and kind.mode == "sparse", _lower_sparse, _make_sparse
    ),
    ArrayLayout(of.is_union, _lower_dense, _make_dense),
    ArrayLayout(of.is_dictionary, _lower_dictionary, _make_dictionary),
    ArrayLayout(of.is_run_end_encoded, _lower_runs, _make_runs),
)

_BY_ID: dict[int, ArrayLayout] = {}
