"""Canonical bytes for values: one value, one encoding, whoever wrote it.

Plain data is MessagePack in its shortest form, with three rules that make it canonical: a float
is always 64 bits and a NaN always the same one; a dict is sorted by key bytes; a value that is
not plain is an extension whose payload is the encoding of the plainer data its codec gives.

*Key bytes* order every map: a str key is its UTF-8, any other key is 0xFF (which UTF-8 never
contains) and its encoding. So strings sort by code point and come first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from gc import get_referents
from itertools import chain
from typing import Any, Protocol

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

from otolith.errors import BadValue, Corrupt, Error
from otolith.types import Raw, Tagged

MAX_DEPTH = 200
"""Deeper values are refused: they are nearly always cycles."""

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_pack = Encoder().encode
_OTHER_KEY = b"\xff"
KEY_LIMIT_BYTES = 1 << 20
_TAGGED_BYTES = frozenset({*range(0xC7, 0xCA), *range(0xD4, 0xD9)})  # MessagePack extensions
_EXACT_FLOAT = 1 << 53
_UNREADABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError, OverflowError)


class ValueCodec(Protocol):
    """What the core needs from `codecs`: one step down for a value, one step up for a tag."""

    def lower(self, value: object) -> Tagged: ...

    def lift(self, code: int, data: object) -> object: ...


class TooBig(Exception):
    """The value does not fit the limit; the caller splits it."""


class Encoding:
    """Encodes and decodes whole values. Stateless, so threads may share it."""

    def __init__(self, codec: ValueCodec) -> None:
        self.codec = codec
        self._pack = Encoder().encode
        self._unpack = Decoder(ext_hook=self._lift).decode
        self._slices = Decoder(list[msgspec.Raw]).decode

    def encode(self, value: object, *, limit: int | None = None) -> bytes:
        """Return the canonical bytes.

        Raises:
            BadValue: some part cannot be kept; the message names it by its place in the value.
            TooBig: it is certain to be longer than `limit`.
        """
        kind = type(value)
        if kind is bool or value is None or (kind is str and value.isascii()):  # type: ignore[attr-defined]
            return self._pack(value)
        most = limit if limit is not None else 1 << 62
        quick = quickly(value, most) if _is_large(value) else None
        if quick is not None:
            return quick
        try:
            return self._pack(self._plain(value, 0, [most]))
        except BadValue as error:
            raise self._located(value, error) from None

    def reencode(self, value: object) -> bytes:
        """Return the canonical bytes of a value that is stored; paths may have made it deeper."""
        return self._pack(self._plain(value, -MAX_DEPTH, [1 << 62]))

    def decode(self, data: bytes) -> object:
        """Return the value these bytes encode."""
        try:
            return self._unpack(data)
        except Error:
            raise
        except _UNREADABLE as error:
            raise Corrupt(f"a value cannot be decoded: {error}", hint="run otolith fsck") from None

    def key(self, key: object) -> bytes:
        """Return the key bytes of one key of a map, or of one element of a set.

        Raises:
            BadValue: it is not hashable, or too long.
        """
        data = self._key(key)
        if len(data) > KEY_LIMIT_BYTES:
            raise BadValue(
                f"a key or an element of a set takes {len(data)} bytes, at most {KEY_LIMIT_BYTES}",
                hint="keep it as a value, under a short key or in a list",
            )
        return data

    def _key(self, key: object) -> bytes:
        if type(key) is str:
            try:
                return key.encode()
            except UnicodeEncodeError:
                pass
        try:
            hash(key)
        except TypeError:
            raise BadValue(f"{key!r} cannot be a key", hint="a key is hashable") from None
        return _OTHER_KEY + self.encode(key)

    def equal_keys(self, data: bytes) -> list[bytes]:
        """Return the other key bytes that Python takes for this key: 1, 1.0 and True are one."""
        if data[:1] != _OTHER_KEY or data[1] in _TAGGED_BYTES:
            return []
        key = self.unkey(data)
        if not isinstance(key, int | float) or not -_EXACT_FLOAT <= key <= _EXACT_FLOAT:
            return []
        forms = [form for kind in (bool, int, float) if (form := kind(key)) == key]
        return [other for form in forms if (other := self.key(form)) != data]

    def unkey(self, data: bytes) -> object:
        """Return the key these key bytes stand for."""
        if data[:1] == _OTHER_KEY:
            return self.decode(data[1:])
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise Corrupt(f"a key is not text: {error}", hint="run otolith fsck") from None

    def split_map(self, data: bytes) -> dict[bytes, bytes]:
        """Cut the encoding of a map into key bytes and encoded values, without decoding them."""
        count, start = _map_length(data)
        flat = self._cut(_header(count * 2, 0x90, 0xDC) + data[start:])
        return dict(zip(map(_key_of, flat[::2]), flat[1::2], strict=True))

    def split_list(self, data: bytes) -> list[bytes]:
        """Cut the encoding of a list into encoded elements, without decoding them."""
        return self._cut(data)

    def tagged(self, data: bytes) -> tuple[int, bytes]:
        """Cut an extension into its code and the encoding of its data."""
        first = data[0]
        at = 1 if first >= 0xD4 else {0xC7: 2, 0xC8: 3, 0xC9: 5}[first]
        return data[at], data[at + 1 :]

    def _cut(self, data: bytes) -> list[bytes]:
        try:
            return [bytes(part) for part in self._slices(data)]
        except _UNREADABLE as error:
            raise Corrupt(f"a container cannot be decoded: {error}") from None

    def _plain(self, value: Any, depth: int, room: list[int]) -> Any:
        kind = type(value)
        if kind is str:
            return value if value.isascii() else self._text(value, depth, room)
        if kind is bool or value is None or kind is bytes:
            return value
        if kind is int:
            return value if _INT_MIN <= value <= _INT_MAX else self._lower(value, depth, room)
        if kind is float:
            return value if value == value else math.nan
        if kind is list:
            _enter(len(value), depth, room)
            return [self._plain(part, depth + 1, room) for part in value]
        if kind is dict:
            _enter(len(value), depth, room)
            return self._map(value, depth + 1, room)
        if kind is Raw:
            _enter(value.view.nbytes, depth, room)
            return value.chunks()
        return self._lower(value, depth, room)

    def _text(self, value: str, depth: int, room: list[int]) -> Any:
        try:
            value.encode()
        except UnicodeEncodeError:
            return self._lower(value, depth, room)
        return value

    def _map(self, value: dict[Any, Any], depth: int, room: list[int]) -> Any:
        if all(type(key) is str and key.isascii() for key in value):
            return {key: self._plain(value[key], depth, room) for key in sorted(value)}
        parts = sorted((self.key(key), part) for key, part in _keyed(value))
        check_distinct([key for key, _ in parts])
        return msgspec.Raw(
            join_map((key, self._pack(self._plain(part.value, depth, room))) for key, part in parts)
        )

    def _lower(self, value: object, depth: int, room: list[int]) -> Ext:
        _enter(0, depth, room)
        code, data = self.codec.lower(value)
        return Ext(int(code), self._pack(self._plain(data, depth + 1, room)))

    def _lift(self, code: int, data: memoryview) -> object:
        return self.codec.lift(code, self._unpack(data))

    def _located(self, value: Any, error: BadValue) -> BadValue:
        """Find the part that cannot be kept, now that one is known to be there."""
        trail: list[str] = []
        while (step := self._broken_part(value)) is not None and len(trail) <= MAX_DEPTH:
            trail.append(step[0])
            value = step[1]
        if not trail:
            return error
        return BadValue(f"at {'/'.join(trail[:8])}: {error.message}", hint=error.hint)

    def _broken_part(self, value: Any) -> tuple[str, Any] | None:
        parts: Iterable[tuple[Any, Any]] = ()
        if type(value) is dict:
            parts = value.items()
        elif type(value) in (list, tuple):
            parts = enumerate(value)
        for name, part in parts:
            try:
                self._pack(self._plain(part, 0, [1 << 62]))
            except BadValue:
                return str(name), part
        return None


def _is_large(value: Any) -> bool:
    """Tell whether it pays to look at a value level by level first."""
    if type(value) is dict:
        parts: Iterable[Any] = value.values()
    elif type(value) is list:
        parts = value
    else:
        return False
    return len(value) > 8 or not _CONTAINERS.isdisjoint(map(type, parts))


def quickly(value: object, most: int) -> bytes | None:
    """Encode a dict or list in C, if nothing is in it that C would write in another way.

    Whole levels are looked at together, so that the loops are those of C as well.

    Raises:
        TooBig: it is certain to be longer than `most`.
    """
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        most -= len(level)
        if most < 0:
            raise TooBig
        kinds = set(map(type, level))
        if not kinds <= _PLAIN:
            return None
        if not kinds & _CONTAINERS:
            return _in_c(value)
        dicts = [part for part in level if type(part) is dict]
        if not set(map(type, chain.from_iterable(dicts))) <= _TEXT:
            return None
        level = get_referents(*dicts, *(part for part in level if type(part) is list))
    return None


def _in_c(value: object) -> bytes | None:
    try:
        data = _sorting(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None  # a number of more than 64 bits, or text with lone surrogates
    return None if _PERHAPS_NAN.search(data) else data


_CONTAINERS = frozenset({dict, list})
_TEXT = frozenset({str})
_PLAIN = frozenset({type(None), bool, int, float, str, bytes}) | _CONTAINERS
_PERHAPS_NAN = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]", re.DOTALL)
_sorting = Encoder(order="deterministic").encode


class _Part:
    """A map's value that sorting by key never compares."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __lt__(self, other: object) -> bool:
        return False


def check_distinct(keys: list[bytes]) -> None:
    """Refuse a map of which two keys are one in the store, as two NaNs are."""
    if len(set(keys)) != len(keys):
        raise BadValue("two of its keys have the same encoding", hint="do not use NaN as a key")


def _keyed(value: dict[Any, Any]) -> Iterable[tuple[Any, _Part]]:
    return ((key, _Part(part)) for key, part in value.items())


def _enter(parts: int, depth: int, room: list[int]) -> None:
    if depth >= MAX_DEPTH:
        raise BadValue(
            f"nested deeper than {MAX_DEPTH} levels",
            hint="does it contain itself? keep parts of it under paths of their own",
        )
    room[0] -= parts
    if room[0] < 0:
        raise TooBig


def join_map(parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Put key bytes and encoded values, already sorted, together as the encoding of a map."""
    flat = [piece for key, value in parts for piece in (encoded_key(key), value)]
    return _header(len(flat) // 2, 0x80, 0xDE) + b"".join(flat)


def join_list(parts: list[bytes]) -> bytes:
    """Put encoded elements together as the encoding of a list."""
    return _header(len(parts), 0x90, 0xDC) + b"".join(parts)


def join_tagged(code: int, data: bytes) -> bytes:
    """Put a code and the encoding of its data together as an extension."""
    return _pack(Ext(int(code), data))


def encoded_key(key: bytes) -> bytes:
    """Return the encoding of the key that has these key bytes."""
    return key[1:] if key[:1] == _OTHER_KEY else text_header(len(key)) + key


def bytes_header(size: int) -> bytes:
    """Return the MessagePack header of so many bytes."""
    if size < 256:
        return bytes((0xC4, size))
    if size < 65536:
        return b"\xc5" + size.to_bytes(2, "big")
    return b"\xc6" + size.to_bytes(4, "big")


def text_header(size: int) -> bytes:
    """Return the MessagePack header of a str of so many bytes."""
    if size < 32:
        return bytes((0xA0 | size,))
    if size < 256:
        return bytes((0xD9, size))
    if size < 65536:
        return b"\xda" + size.to_bytes(2, "big")
    return b"\xdb" + size.to_bytes(4, "big")


def container_header_size(count: int) -> int:
    """Return the length of the header of a map or list of so many parts."""
    return 1 if count < 16 else 3 if count < 65536 else 5


def extension_header_size(payload: int) -> int:
    """Return the length of the header of an extension with a payload of so many bytes."""
    if payload in (1, 2, 4, 8, 16):
        return 2
    return 3 if payload < 256 else 4 if payload < 65536 else 6


def _header(count: int, fix: int, long: int) -> bytes:
    if count < 16:
        return bytes((fix | count,))
    if count < 65536:
        return bytes((long,)) + count.to_bytes(2, "big")
    return bytes((long + 1,)) + count.to_bytes(4, "big")


def _map_length(data: bytes) -> tuple[int, int]:
    """Return how many entries a map has, and where they start."""
    first = data[0]
    if first & 0xF0 == 0x80:
        return first & 0x0F, 1
    if first == 0xDE:
        return int.from_bytes(data[1:3], "big"), 3
    if first == 0xDF and len(data) >= 5 + int.from_bytes(data[1:5], "big"):
        return int.from_bytes(data[1:5], "big"), 5
    raise Corrupt("a map was expected, and something else is there", hint="run otolith fsck")


def _key_of(encoded: bytes) -> bytes:
    first = encoded[0]
    if first & 0xE0 == 0xA0:
        return encoded[1:]
    if 0xD9 <= first <= 0xDB:
        return encoded[{0xD9: 2, 0xDA: 3, 0xDB: 5}[first] :]
    return _OTHER_KEY + encoded
