"""One Arrow array, buffer by buffer, in a form that depends on what it shows and nothing else.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`). An array is a dict
with its `length`, its bitmap `valid` if it has nulls, and, by the layout of its type:

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

Two arrays that Arrow takes for equal can differ in memory. What is kept is trimmed to what is
shown; offsets start at 0; a bitmap without zeros is left out, and its last bits are zero; what
lies under a null is zero, empty or null itself; runs of one value are one run. Where none of this
needs mending, the buffers are handed over as they are, without a copy. Not mended is what lies
under a null struct in a union or in runs, for these have no nulls of their own.

The buffers of an Arrow array: cut to what it shows, and the layouts that are buffers only.

`arrow_arrays` says what the parts of each layout are.
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
from otolith.codecs.base import VERIFY
from otolith.codecs.buffers import gather
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Raw

Mask: TypeAlias = npt.NDArray[np.bool_] | None
"""Which elements are there to be seen; None means all."""

Numbers: TypeAlias = npt.NDArray[Any]
Form: TypeAlias = dict[str, object]


class Parts:
    """The data of an array, each part checked as it is taken."""

    def __init__(self, data: object) -> None:
        if type(data) is not dict or any(type(name) is not str for name in data):
            raise Corrupt("an array is not kept as a dict", hint=VERIFY)
        self._data: Form = data
        self.length = self._length()
        self.valid = self.buffer("valid", (self.length + 7) // 8) if "valid" in data else None

    def __getitem__(self, name: str) -> object:
        if name not in self._data:
            raise Corrupt(f"an array is kept without its {name}", hint=VERIFY)
        return self._data[name]

    def buffer(self, name: str, size: int | None = None) -> pa.Buffer:
        """Return raw bytes, which must be so many."""
        return pa.py_buffer(gather(self[name], size=size))

    def _length(self) -> int:
        length = self["length"]
        if type(length) is not int or not 0 <= length < 2**60:
            raise Corrupt(f"an array has the length {length!r:.40}", hint=VERIFY)
        return length


# Buffers


def cut(buffer: pa.Buffer | None, start: int, size: int) -> memoryview:
    """Return so many bytes of a buffer, not copied."""
    if buffer is None or size == 0:
        return memoryview(b"")
    if not buffer.is_cpu:
        raise BadValue("cannot keep an array that is not in main memory", hint="copy it to the CPU")
    return memoryview(buffer)[start : start + size]


def numbers(array: pa.Array, at: int, dtype: str, *, more: int = 0) -> Numbers:
    """Return a buffer of numbers, one for each element and `more`."""
    width, count = np.dtype(dtype).itemsize, len(array) + more
    data = cut(array.buffers()[at], array.offset * width, count * width)
    # An empty array need not have any offsets at all.
    return np.frombuffer(data, dtype) if data else np.zeros(count, dtype)


def bits(buffer: pa.Buffer | None, offset: int, length: int) -> npt.NDArray[np.bool_]:
    """Return so many bits of a bitmap, a byte each."""
    first, last = offset // 8, (offset + length + 7) // 8
    packed = np.frombuffer(cut(buffer, first, last - first), np.uint8)
    skip = offset % 8
    return np.unpackbits(packed, bitorder="little")[skip : skip + length].view(np.bool_)


def packed(bits: npt.NDArray[np.bool_]) -> Raw:
    """Return a bitmap; the bits after its last are zero."""
    return raw(np.packbits(bits, bitorder="little"))


def raw(numbers: Numbers) -> Raw:
    """Return numbers as the bytes they are."""
    return Raw(np.ascontiguousarray(numbers).data.cast("B") if numbers.size else b"")


def seen(array: pa.Array, shown: Mask) -> Mask:
    """Return what is neither null nor hidden by a parent, or None if that is all."""
    if array.null_count == 0:
        return None if shown is None or shown.all() else shown
    valid = bits(array.buffers()[0], array.offset, len(array))
    return valid if shown is None else valid & shown


def validity(valid: Mask) -> Form:
    """Return the part of an array that says where nulls are, if there are any."""
    return {} if valid is None else {"valid": packed(valid)}


# Flat layouts


def lower_null(array: pa.Array, shown: Mask) -> Form:
    return {}


def lower_bool(array: pa.Array, shown: Mask) -> Form:
    valid = seen(array, shown)
    values = bits(array.buffers()[1], array.offset, len(array))
    return {**validity(valid), "values": packed(values if valid is None else values & valid)}


def lower_fixed(array: pa.Array, shown: Mask) -> Form:
    width = array.type.bit_width // 8
    values = cut(array.buffers()[1], array.offset * width, len(array) * width)
    valid = seen(array, shown)
    if valid is None:
        return {"values": Raw(values)}
    cleared = _cleared(values, width, valid)
    return {**validity(valid), "values": raw(cleared)}


def _cleared(values: memoryview, width: int, valid: npt.NDArray[np.bool_]) -> Numbers:
    if width in {1, 2, 4, 8}:
        # A product is several times as fast as setting some of the elements.
        return np.frombuffer(values, f"u{width}") * valid
    rows = np.frombuffer(values, np.uint8).reshape(len(valid), width).copy()
    rows[~valid] = 0
    return rows


def make_fixed(kind: pa.DataType, parts: Parts) -> pa.Array:
    size = (parts.length * kind.bit_width + 7) // 8
    buffers = [parts.valid, parts.buffer("values", size)]
    return pa.Array.from_buffers(kind, parts.length, buffers)


def lower_binary(array: pa.Array, shown: Mask) -> Form:
    offsets = numbers(array, 1, offset_type(array.type), more=1)
    valid = seen(array, shown)
    values = cut(array.buffers()[2], int(offsets[0]), int(offsets[-1] - offsets[0]))
    if valid is not None and (lengths := np.diff(offsets))[~valid].any():
        values = np.frombuffer(values, np.uint8)[np.repeat(valid, lengths)].data
        offsets = summed(np.where(valid, lengths, 0), offsets.dtype)
    return {
        **validity(valid),
        "offsets": raw(offsets if offsets[0] == 0 else offsets - offsets[0]),
        "values": Raw(values),
    }


def make_binary(kind: pa.DataType, parts: Parts) -> pa.Array:
    buffers = [parts.valid, offsets_of(kind, parts), parts.buffer("values")]
    return pa.Array.from_buffers(kind, parts.length, buffers)


def offset_type(kind: pa.DataType) -> str:
    """Name the numbers that offsets of this type are."""
    large = of.is_large_binary(kind) or of.is_large_string(kind)
    return "<i8" if large or of.is_large_list(kind) or of.is_large_list_view(kind) else "<i4"


def offsets_of(kind: pa.DataType, parts: Parts) -> pa.Buffer:
    """Return the offsets, one more than there are elements."""
    return parts.buffer("offsets", (parts.length + 1) * np.dtype(offset_type(kind)).itemsize)


def summed(lengths: Numbers, dtype: Any) -> Numbers:
    """Return the offsets of elements of these lengths."""
    if lengths.sum(dtype="i8") > np.iinfo(dtype).max:
        raise BadValue("cannot keep lists that overlap so much", hint="cast them to large lists")
    offsets = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


class Layout(NamedTuple):
    """How arrays of some types are lowered, and made again."""

    fits: Callable[[pa.DataType], bool]
    lower: Callable[[pa.Array, Mask], Form]
    make: Callable[[pa.DataType, Parts], pa.Array]


def lower(array: pa.Array, *, shown: Mask = None) -> Form:
    """Return what an array shows; `shown` says what its parents let see of it."""
    return {"length": len(array), **_layout(array.type).lower(array, shown)}


def load(kind: pa.DataType, data: object) -> pa.Array:
    """Return an array of this type, all of it checked.

    Raises:
        Corrupt: the data is not that of such an array.
        UnknownType: the Arrow that is installed here cannot make one.
    """
    try:
        array = _made(kind, data)
        array.validate(full=True)
    except pa.ArrowNotImplementedError as error:
        raise UnknownType(
            f"pyarrow cannot make an array of {kind!s:.80} here: {error}", hint="upgrade pyarrow"
        ) from None
    except (*MISFITS, MemoryError) as error:
        raise Corrupt(f"an array of {kind!s:.80} is damaged: {error!s:.200}", hint=VERIFY) from None
    return array


def _layout(kind: pa.DataType) -> Layout:
    for layout in _LAYOUTS:
        if layout.fits(kind):
            return layout
    raise BadValue(f"cannot keep arrays of Arrow's type {kind}", hint="cast it to another type")


def _made(kind: pa.DataType, data: object) -> pa.Array:
    return _layout(kind).make(kind, Parts(data))


def _child(kind: pa.DataType, data: object, length: int) -> pa.Array:
    child = _made(kind, data)
    if len(child) != length:
        raise Corrupt(f"a child has {len(child)} elements instead of {length}", hint=VERIFY)
    return child


def _children(kind: pa.DataType, parts: Parts, lengths: list[int]) -> list[pa.Array]:
    children = parts["children"]
    if type(children) is not list or len(children) != kind.num_fields:
        raise Corrupt(f"an array does not have its {kind.num_fields} children", hint=VERIFY)
    kinds = [kind.field(at).type for at in range(kind.num_fields)]
    return list(map(_child, kinds, children, lengths))


def _joined(child: pa.Array, starts: Numbers, lengths: Numbers) -> pa.Array:
    """Return these stretches of an array in one; those that follow each other are one slice."""
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
    offsets = numbers(array, 1, offset_type(array.type), more=1)
    return _lower_lists(array, shown, offsets[:-1], np.diff(offsets))


def _lower_list_view(array: pa.Array, shown: Mask) -> Form:
    dtype = offset_type(array.type)
    return _lower_lists(array, shown, numbers(array, 1, dtype), numbers(array, 2, dtype))


def _lower_lists(array: pa.Array, shown: Mask, starts: Numbers, lengths: Numbers) -> Form:
    valid = seen(array, shown)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    return {
        **validity(valid),
        "offsets": raw(summed(lengths, offset_type(array.type))),
        "items": lower(_joined(array.values, starts, lengths)),
    }


def _make_list(kind: pa.DataType, parts: Parts) -> pa.Array:
    items = _made(_item_type(kind), parts["items"])
    buffers = [parts.valid, offsets_of(kind, parts)]
    return pa.Array.from_buffers(kind, parts.length, buffers, children=[items])


def _make_list_view(kind: pa.DataType, parts: Parts) -> pa.Array:
    items = _made(kind.value_type, parts["items"])
    offsets = np.frombuffer(offsets_of(kind, parts), offset_type(kind))
    pair = [pa.py_buffer(raw(each).view) for each in (offsets[:-1], np.diff(offsets))]
    return pa.Array.from_buffers(kind, parts.length, [parts.valid, *pair], children=[items])


def _item_type(kind: pa.DataType) -> pa.DataType:
    return pa.struct([kind.key_field, kind.item_field]) if of.is_map(kind) else kind.value_type


def _lower_fixed_list(array: pa.Array, shown: Mask) -> Form:
    size, valid = array.type.list_size, seen(array, shown)
    items = array.values.slice(array.offset * size, len(array) * size)
    return {
        **validity(valid),
        "items": lower(items, shown=None if valid is None else np.repeat(valid, size)),
    }


def _make_fixed_list(kind: pa.DataType, parts: Parts) -> pa.Array:
    items = _child(kind.value_type, parts["items"], parts.length * kind.list_size)
    return pa.Array.from_buffers(kind, parts.length, [parts.valid], children=[items])


def _lower_struct(array: pa.Array, shown: Mask) -> Form:
    valid = seen(array, shown)
    children = [lower(array.field(at), shown=valid) for at in range(array.type.num_fields)]
    return {**validity(valid), "children": children}


def _make_struct(kind: pa.DataType, parts: Parts) -> pa.Array:
    children = _children(kind, parts, [parts.length] * kind.num_fields)
    return pa.Array.from_buffers(kind, parts.length, [parts.valid], children=children)


def _lower_sparse(array: pa.Array, shown: Mask) -> Form:
    codes = numbers(array, 1, "i1")
    children = [
        lower(array.field(at), shown=codes == code) for at, code in enumerate(array.type.type_codes)
    ]
    return {"codes": raw(codes), "children": children}


def _make_sparse(kind: pa.DataType, parts: Parts) -> pa.Array:
    children = _children(kind, parts, [parts.length] * kind.num_fields)
    buffers = [None, parts.buffer("codes", parts.length)]
    return pa.Array.from_buffers(kind, parts.length, buffers, children=children)


def _lower_dense(array: pa.Array, shown: Mask) -> Form:
    codes, places = numbers(array, 1, "i1"), numbers(array, 2, "<i4")
    children = []
    for at, code in enumerate(array.type.type_codes):
        starts = places[codes == code]
        children.append(lower(_joined(array.field(at), starts, np.ones_like(starts))))
    return {"codes": raw(codes), "children": children}


def _make_dense(kind: pa.DataType, parts: Parts) -> pa.Array:
    buffer = parts.buffer("codes", parts.length)
    codes = np.frombuffer(buffer, "i1")
    places, counts = np.zeros(parts.length, "<i4"), []
    for code in kind.type_codes:
        mine = codes == code
        counts.append(int(mine.sum()))
        places[mine] = np.arange(counts[-1])
    children = _children(kind, parts, counts)
    buffers = [None, buffer, pa.py_buffer(raw(places).view)]
    return pa.Array.from_buffers(kind, parts.length, buffers, children=children)


def _lower_dictionary(array: pa.Array, shown: Mask) -> Form:
    return {"indices": lower(array.indices, shown=shown), "dictionary": lower(array.dictionary)}


def _make_dictionary(kind: pa.DataType, parts: Parts) -> pa.Array:
    indices = _child(kind.index_type, parts["indices"], parts.length)
    dictionary = load(kind.value_type, parts["dictionary"])
    return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=kind.ordered, safe=True)


def _lower_runs(array: pa.Array, shown: Mask) -> Form:
    first, count = array.find_physical_offset(), array.find_physical_length()
    ends, values = array.run_ends.slice(first, count), array.values.slice(first, count)
    last = _last_of_equals(values)
    ends = np.minimum(ends.to_numpy().astype("i8").take(last) - array.offset, len(array))
    starts = last.astype("i8")
    return {
        "ends": lower(pa.array(ends, array.type.run_end_type)),
        "values": lower(_joined(values, starts, np.ones_like(starts))),
    }


def _last_of_equals(values: pa.Array) -> Numbers:
    """Return where the last of each stretch of equal values is."""
    kind = values.type
    if of.is_floating(kind):
        # By their bits: 0.0 and -0.0 are not one value.
        values = values.view(f"uint{kind.bit_width}")
    earlier, later = values.slice(0, max(len(values) - 1, 0)), values.slice(1)
    try:
        alike = pc.equal(earlier, later)
    except pa.ArrowNotImplementedError:
        return np.arange(len(values))
    # Not Arrow's own encoding of runs, which looks at what lies under a null.
    nulls = pc.and_(earlier.is_null(), later.is_null())
    same = pc.or_(alike.fill_null(False), nulls).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return np.append(np.flatnonzero(~same), len(values) - 1)[: len(values)]


def _make_runs(kind: pa.DataType, parts: Parts) -> pa.Array:
    ends, values = load(kind.run_end_type, parts["ends"]), load(kind.value_type, parts["values"])
    array = pa.RunEndEncodedArray.from_arrays(ends, values, kind)
    if len(array) != parts.length:
        raise Corrupt(f"runs end at {len(array)} instead of {parts.length}", hint=VERIFY)
    return array


def _lower_view(array: pa.Array, shown: Mask) -> Form:
    return lower_binary(array.cast(_large(array.type)), shown)


def _make_view(kind: pa.DataType, parts: Parts) -> pa.Array:
    array = make_binary(_large(kind), parts)
    array.validate(full=True)
    return array.cast(kind)


def _large(kind: pa.DataType) -> pa.DataType:
    return pa.large_string() if of.is_string_view(kind) else pa.large_binary()


def _lower_extension(array: pa.Array, shown: Mask) -> Form:
    return _layout(array.type.storage_type).lower(array.storage, shown)


def _make_extension(kind: pa.DataType, parts: Parts) -> pa.Array:
    storage = _layout(kind.storage_type).make(kind.storage_type, parts)
    return pa.ExtensionArray.from_storage(kind, storage)


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        of.is_string(kind)
        or of.is_binary(kind)
        or of.is_large_string(kind)
        or of.is_large_binary(kind)
    )


def _is_view(kind: pa.DataType) -> bool:
    return bool(of.is_string_view(kind) or of.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(of.is_list(kind) or of.is_large_list(kind) or of.is_map(kind))


def _is_list_view(kind: pa.DataType) -> bool:
    return bool(of.is_list_view(kind) or of.is_large_list_view(kind))


def _is_sparse(kind: pa.DataType) -> bool:
    return bool(of.is_union(kind) and kind.mode == "sparse")


def _has_width(kind: pa.DataType) -> bool:
    return bool(of.is_primitive(kind) or of.is_decimal(kind) or of.is_fixed_size_binary(kind))


def _make_null(kind: pa.DataType, parts: Parts) -> pa.Array:
    return pa.nulls(parts.length)


_LAYOUTS = (
    Layout(_is_extension, _lower_extension, _make_extension),
    Layout(of.is_null, lower_null, _make_null),
    Layout(of.is_boolean, lower_bool, make_fixed),
    Layout(_has_width, lower_fixed, make_fixed),
    Layout(_is_binary, lower_binary, make_binary),
    Layout(_is_view, _lower_view, _make_view),
    Layout(_is_list, _lower_list, _make_list),
    Layout(_is_list_view, _lower_list_view, _make_list_view),
    Layout(of.is_fixed_size_list, _lower_fixed_list, _make_fixed_list),
    Layout(of.is_struct, _lower_struct, _make_struct),
    Layout(_is_sparse, _lower_sparse, _make_sparse),
    Layout(of.is_union, _lower_dense, _make_dense),
    Layout(of.is_dictionary, _lower_dictionary, _make_dictionary),
    Layout(of.is_run_end_encoded, _lower_runs, _make_runs),
)
