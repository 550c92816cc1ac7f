"""The buffers of an Arrow array: cut to what it shows, and the layouts that are buffers only.

`arrow_arrays` says what the parts of each layout are.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import types as of

from otolith.codecs.chunks import gather
from otolith.codecs.exact import VERIFY
from otolith.errors import BadValue, Corrupt
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
