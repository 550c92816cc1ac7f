"""MessagePack as format 1 uses it: parsed and written by hand, canonical or refused."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

GRAPH = 32


class Ext(NamedTuple):
    """A tagged value: its code and the encoding of its data."""

    code: int
    data: bytes


class Map(list[tuple[Any, Any]]):
    """The entries of a map, in the order in which they are stored."""


def parse(data: bytes) -> Any:
    """Return the one value these bytes encode."""
    value, at = _parse(data, 0)
    if at != len(data):
        raise ValueError("bytes are left over")
    return value


def _parse(data: bytes, at: int) -> tuple[Any, int]:
    first = data[at]
    if first < 0x80:
        return first, at + 1
    if first >= 0xE0:
        return first - 256, at + 1
    if first < 0x90:
        return _map(data, at + 1, first & 15)
    if first < 0xA0:
        return _list(data, at + 1, first & 15)
    if first < 0xC0:
        return _text(data, at + 1, first & 31)
    if first in _CONSTANTS:
        return _CONSTANTS[first], at + 1
    if first == 0xCB:
        return struct.unpack_from(">d", data, at + 1)[0], at + 9
    if first in _INTS:
        code, size = _INTS[first]
        return struct.unpack_from(code, data, at + 1)[0], at + 1 + size
    if 0xD4 <= first <= 0xD8:
        return _ext(data, at + 1, 1 << (first - 0xD4))
    width, read = _SIZED[first]
    size = int.from_bytes(data[at + 1 : at + 1 + width], "big")
    value: tuple[Any, int] = read(data, at + 1 + width, size)
    return value


def _map(data: bytes, at: int, count: int) -> tuple[Map, int]:
    entries = Map()
    for _ in range(count):
        key, at = _parse(data, at)
        value, at = _parse(data, at)
        entries.append((key, value))
    return entries, at


def _list(data: bytes, at: int, count: int) -> tuple[list[Any], int]:
    parts = []
    for _ in range(count):
        part, at = _parse(data, at)
        parts.append(part)
    return parts, at


def _text(data: bytes, at: int, size: int) -> tuple[str, int]:
    return data[at : at + size].decode(), at + size


def _raw(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    return data[at : at + size], at + size


def _ext(data: bytes, at: int, size: int) -> tuple[Ext, int]:
    return Ext(data[at], data[at + 1 : at + 1 + size]), at + 1 + size


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_INTS = {
    0xCC: (">B", 1), 0xCD: (">H", 2), 0xCE: (">I", 4), 0xCF: (">Q", 8),
    0xD0: (">b", 1), 0xD1: (">h", 2), 0xD2: (">i", 4), 0xD3: (">q", 8),
}  # fmt: skip
_SIZED: dict[int, Any] = {
    0xC4: (1, _raw), 0xC5: (2, _raw), 0xC6: (4, _raw),
    0xC7: (1, _ext), 0xC8: (2, _ext), 0xC9: (4, _ext),
    0xD9: (1, _text), 0xDA: (2, _text), 0xDB: (4, _text),
    0xDC: (2, _list), 0xDD: (4, _list), 0xDE: (2, _map), 0xDF: (4, _map),
}  # fmt: skip


def canonical(value: Any) -> bytes:
    """Return the canonical encoding of what `parse` returned, by the rules of the specification."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return b"\xcb" + (struct.pack(">d", value) if value == value else _NAN)
    if isinstance(value, str):
        raw = value.encode()
        return text_header(len(raw)) + raw
    if isinstance(value, bytes):
        return _sized(len(value), (0xC4, 0xC5, 0xC6)) + value
    if isinstance(value, Ext):
        data = parse(value.data)
        canonical(data)
        if isinstance(data, Map) and value.code != GRAPH and not in_key_order(data):
            raise ValueError("the dict that is the data of a tag is not in key order")
        return _ext_header(len(value.data)) + bytes((value.code,)) + value.data
    if isinstance(value, Map):
        return _entries(value)
    return header(len(value), 0x90, 0xDC) + b"".join(map(canonical, value))


_NAN = bytes.fromhex("7ff8000000000000")


def _entries(entries: Map) -> bytes:
    if len({key_bytes(key) for key, _ in entries}) != len(entries):
        raise ValueError("a key comes twice")
    pieces = [canonical(part) for entry in entries for part in entry]
    return header(len(entries), 0x80, 0xDE) + b"".join(pieces)


def in_key_order(entries: Map) -> bool:
    """Tell whether the entries of a map ascend by their key bytes."""
    keys = [key_bytes(key) for key, _ in entries]
    return keys == sorted(keys)


def plain(value: Any) -> Any:
    """Return what `parse` returned as Python's dicts and lists; tags but that of order are lost."""
    if isinstance(value, Map):
        return {key: plain(part) for key, part in value}
    if isinstance(value, Ext):
        data = plain(parse(value.data))
        return _ordered(*data) if value.code == 34 else data
    return [plain(part) for part in value] if isinstance(value, list) else value


def _ordered(entries: dict[Any, Any], tail: list[Any]) -> dict[Any, Any]:
    head = {key: part for key, part in entries.items() if key not in tail}
    return head | {key: entries[key] for key in tail}


def key_bytes(key: Any) -> bytes:
    """Return what orders a key among others."""
    return key.encode() if isinstance(key, str) else b"\xff" + canonical(key)


def _integer(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value)
    kinds = (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3)
    for first in kinds:
        code, size = _INTS[first]
        limit = 1 << (8 * size if value >= 0 else 8 * size - 1)
        if -limit <= value < limit:
            return bytes((first,)) + struct.pack(code, value)
    raise ValueError("an integer of more than 64 bits is an extension")


def _sized(size: int, firsts: tuple[int, int, int]) -> bytes:
    for first, width in zip(firsts, (1, 2, 4), strict=True):
        if size < 1 << 8 * width:
            return bytes((first,)) + size.to_bytes(width, "big")
    raise ValueError("too long")


def _ext_header(size: int) -> bytes:
    if size in (1, 2, 4, 8, 16):
        return bytes((0xD4 + size.bit_length() - 1,))
    return _sized(size, (0xC7, 0xC8, 0xC9))


def text_header(size: int) -> bytes:
    """Return the header of a str of so many bytes."""
    return bytes((0xA0 | size,)) if size < 32 else _sized(size, (0xD9, 0xDA, 0xDB))


def header(count: int, short: int, long: int) -> bytes:
    """Return the header of a list or map of so many parts."""
    if count < 16:
        return bytes((short | count,))
    width = 2 if count < 65536 else 4
    return bytes((long + (width == 4),)) + count.to_bytes(width, "big")
