"""The form of an object in its row: plain, compressed, or as a difference from an older row.

Layout of `object.data`. Byte 0 holds the kind (low 3 bits) and the depth of the chain (high 5):

    0 PLAIN    the bytes
    1 ZSTD     a zstd frame of the bytes
    2 SPLICE   base row id (5 bytes), prefix and suffix length (2 each), the first four bytes,
               the middle; the object is: four bytes + base[4:4+prefix] + middle + base[-suffix:]
    3 PATCH    base row id (5 bytes), a zstd frame whose dictionary is the base
    4 STRIDED  a zstd frame of the bytes in another order: the first of every eight, then the second
               of every eight, and so on

Numbers are little endian. The first four bytes of an object are a header that changes while the
rest stays, so a splice carries its own copy of them. Frames declare their size: nothing is
allocated that a corrupt frame merely claims to need.

Rules
1. A base has a smaller row id than its difference, so chains end; they have at most 31 differences.
2. The depth of a difference is one more than that of its base.
3. Only objects of 48 to 65,535 bytes become differences: shorter ones would not get shorter, and
   longer ones are chunks whose neighbours are not alike.

Columns of eight-byte numbers have their high bytes alike, which zstd sees only when those stand
side by side (STRIDED). Whether that pays is measured on a piece of every eighth long object.
"""

from __future__ import annotations

from struct import Struct
from threading import local
from typing import Literal, NamedTuple

import zstandard

from otolith.stores.base import OBJECT_LIMIT_BYTES

PLAIN, ZSTD, SPLICE, PATCH, STRIDED = range(5)
DEPTH_LIMIT = 31
DELTA_LIMIT_BYTES = 0xFFFF

_HEADER = 4
_SPLICE_ROW = Struct("<BIBHH4s")
_BASE_ROW = Struct("<BIB")
_DELTA_FROM_BYTES = 48  # below this a difference is not shorter than the object
_ZSTD_FROM_BYTES = 200  # a commit is shorter, and mostly hashes
_MIDDLE_BYTES = 192  # a middle this small is not worth a frame
_STRIDE_FROM_BYTES = 16 << 10  # so long are only chunks of raw bytes, and texts
_PROBE_BYTES = 4096
_PROBE_EVERY = 8  # chunks that follow each other are mostly of one column
_STRIDE = 8
_WINDOW = 256  # as many bytes are compared as one number
_RAW = zstandard.DICT_TYPE_RAWCONTENT


class StoredObject(NamedTuple):
    """An object that has a row: the id of the row, its depth in the chain, and the plain bytes."""

    id: int
    depth: int
    data: bytes


class DamagedRow(Exception):
    """A row cannot be decoded."""


def encode(data: bytes, base: StoredObject | None) -> bytes:
    """Return the shortest row for an object, given a stored object that resembles it."""
    if (
        base is None
        or base.depth >= DEPTH_LIMIT
        or not _DELTA_FROM_BYTES <= len(data) <= DELTA_LIMIT_BYTES
        or not _HEADER < len(base.data) <= DELTA_LIMIT_BYTES
    ):
        return _encode_alone(data)
    row, middle = _splice(data, base)
    if middle <= _MIDDLE_BYTES:
        return row if len(row) <= len(data) else _encode_alone(data)
    patch = _patch(data, base)
    if len(patch) < len(row):
        row = patch
    if middle * 4 > len(data):
        return min(row, _encode_alone(data), key=len)
    return row


def kind_of(row: bytes) -> int:
    """Return which of the five forms a row has, or -1."""
    return row[0] & 7 if row else -1  # also for NULL, which rot can make of a blob


def depth_of(row: bytes) -> int:
    """Return how many rows are below this one in its chain."""
    return row[0] >> 3


def with_depth(row: bytes, depth: int) -> bytes:
    """Return the same row with another depth."""
    return bytes((row[0] & 7 | depth << 3,)) + row[1:]


def base_of(row: bytes) -> int | None:
    """Return the id of the row this one is a difference from, or None."""
    if kind_of(row) not in (SPLICE, PATCH):
        return None
    if len(row) < _BASE_ROW.size:
        raise DamagedRow("a difference was cut short")
    _, low, high = _BASE_ROW.unpack_from(row)
    return int(low | high << 32)


def decode(row: bytes, base: bytes) -> bytes:
    """Return the object in a row. `base` is the object it differs from, empty if none.

    Raises:
        DamagedRow: the row is not one that `encode` makes.
    """
    kind = kind_of(row)
    if kind in (SPLICE, PATCH) and len(base) > DELTA_LIMIT_BYTES:
        raise DamagedRow(f"a difference from {len(base)} bytes")
    if kind == SPLICE:
        return _unsplice(row, base)
    if kind == PLAIN:
        return row[1:]
    try:
        if kind == ZSTD:
            return _decompress(_zstd.decompressor, row[1:], OBJECT_LIMIT_BYTES)
        if kind == STRIDED:
            return _unstrided(_decompress(_zstd.decompressor, row[1:], OBJECT_LIMIT_BYTES))
        if kind == PATCH:
            dictionary = zstandard.ZstdCompressionDict(base, dict_type=_RAW)
            decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)
            return _decompress(decompressor, row[_BASE_ROW.size :], DELTA_LIMIT_BYTES)
    except zstandard.ZstdError as error:
        raise DamagedRow(str(error)) from error
    raise DamagedRow(f"a row of unknown kind {kind}")


class _Zstd(local):
    """Compressors of this thread: they are not thread safe, and making one is slow."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1, write_checksum=False)
        self.decompressor = zstandard.ZstdDecompressor()
        self.strides = False
        self.unprobed = 0

    def pays_to_stride(self, data: bytes) -> bool:
        """Return whether long objects like this one get shorter in the other order."""
        if not self.unprobed:
            middle = len(data) // 2
            piece = data[middle : middle + _PROBE_BYTES]
            compress = self.compressor.compress
            self.strides = len(compress(_strided(piece))) < len(compress(piece))
        self.unprobed = (self.unprobed + 1) % _PROBE_EVERY
        return self.strides


_zstd = _Zstd()


def _encode_alone(data: bytes) -> bytes:
    """Return the row of an object that differs from none."""
    if len(data) >= _ZSTD_FROM_BYTES:
        strided = len(data) >= _STRIDE_FROM_BYTES and _zstd.pays_to_stride(data)
        frame = _zstd.compressor.compress(_strided(data) if strided else data)
        if len(frame) < len(data):
            return (b"\x04" if strided else b"\x01") + frame
    return b"\x00" + data


def _strided(data: bytes) -> bytes:
    return b"".join([data[at::_STRIDE] for at in range(_STRIDE)])


def _unstrided(data: bytes) -> bytes:
    out, start = bytearray(len(data)), 0
    for at in range(_STRIDE):
        stop = start + len(range(at, len(data), _STRIDE))
        out[at::_STRIDE] = data[start:stop]
        start = stop
    return bytes(out)


def _splice(data: bytes, base: StoredObject) -> tuple[bytes, int]:
    """Return a row that shares its start and end with the base, and the length of the middle."""
    old, most = base.data, min(len(data), len(base.data))
    start = common_prefix(old, data, _HEADER, most)
    suffix = common_suffix(old, data, most - start)
    middle = data[start : len(data) - suffix]
    first = SPLICE | (base.depth + 1) << 3
    low, high = base.id & 0xFFFFFFFF, base.id >> 32
    row = _SPLICE_ROW.pack(first, low, high, start - _HEADER, suffix, data[:_HEADER])
    return row + middle, len(middle)


def _unsplice(row: bytes, base: bytes) -> bytes:
    if len(row) < _SPLICE_ROW.size:
        raise DamagedRow("a splice was cut short")
    _, _, _, prefix, suffix, head = _SPLICE_ROW.unpack_from(row)
    if _HEADER + prefix + suffix > len(base):
        raise DamagedRow("a splice reaches past its base")
    middle = row[_SPLICE_ROW.size :]
    return bytes(head + base[_HEADER : _HEADER + prefix] + middle + base[len(base) - suffix :])


def _patch(data: bytes, base: StoredObject) -> bytes:
    dictionary = zstandard.ZstdCompressionDict(base.data, dict_type=_RAW)
    compressor = zstandard.ZstdCompressor(
        level=1, dict_data=dictionary, write_checksum=False, write_dict_id=False
    )
    first = PATCH | (base.depth + 1) << 3
    return _BASE_ROW.pack(first, base.id & 0xFFFFFFFF, base.id >> 32) + compressor.compress(data)


def _decompress(decompressor: zstandard.ZstdDecompressor, frame: bytes, limit: int) -> bytes:
    """Decompress a frame, after a look at the size that it claims."""
    size = zstandard.frame_content_size(frame)
    if not 0 <= size <= limit:
        raise DamagedRow(f"a frame claims {size} bytes")
    return decompressor.decompress(frame)


def common_prefix(a: bytes, b: bytes, start: int, end: int) -> int:
    """Return where two byte strings that agree before `start` first differ, at most `end`."""
    step = _WINDOW
    while start + step <= end and a[start : start + step] == b[start : start + step]:
        start += step
        step *= 2
    while step > _WINDOW:
        step >>= 1
        if start + step <= end and a[start : start + step] == b[start : start + step]:
            start += step
    stop = min(start + _WINDOW, end)
    return start + _count_equal(a[start:stop], b[start:stop], "little")


def common_suffix(a: bytes, b: bytes, most: int) -> int:
    """Return how many bytes at the end are the same, at most `most`."""
    end_a, end_b, step = len(a), len(b), _WINDOW
    last = end_a - most
    while end_a - step >= last and a[end_a - step : end_a] == b[end_b - step : end_b]:
        end_a, end_b = end_a - step, end_b - step
        step *= 2
    while step > _WINDOW:
        step >>= 1
        if end_a - step >= last and a[end_a - step : end_a] == b[end_b - step : end_b]:
            end_a, end_b = end_a - step, end_b - step
    size = min(_WINDOW, end_a - last)
    same = _count_equal(a[end_a - size : end_a], b[end_b - size : end_b], "big")
    return len(a) - end_a + same


def _count_equal(a: bytes, b: bytes, order: Literal["little", "big"]) -> int:
    """Return how many bytes two strings of one length share, counted from the low end."""
    differing = int.from_bytes(a, order) ^ int.from_bytes(b, order)
    if not differing:
        return len(a)
    return (differing & -differing).bit_length() - 1 >> 3
