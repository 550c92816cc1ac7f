"""Canonical bytes for values: equal values have equal encodings, in every process.

Plain data is MessagePack in its shortest form, with three rules that make it canonical: a float
is always 64 bits, those of a NaN as they are; a dict has its entries in its own order, which is
part of the value; a value that is not plain is an extension whose payload is the encoding of the
plainer data its codec returns. Where that data is a dict, it is a *form* (or the elements of a
set): it has no order of its own, and its keys are sorted.

*Key bytes* sort keys: a str key is its UTF-8, any other key is 0xFF (which UTF-8 never contains)
and its encoding. So strings sort by code point and come first.

Theory of operation. A large dict or list is first examined level by level (`encode_plain`): if C
would write nothing in it differently, C writes all of it. Otherwise `Encoding._plain` rebuilds the
value from parts that msgspec packs canonically, and counts them against the limit on the way, so
that a value that is going to be split is not encoded as a whole first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from gc import get_referents
from itertools import chain, islice
from operator import itemgetter, lt
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

from otolith.errors import BadValue, Corrupt, Error
from otolith.types import Raw, Tag, Tagged

MAX_DEPTH = 200
"""Deeper values are refused: they are nearly always cycles."""

KEY_LIMIT_BYTES = 1 << 20

FSCK = "run otolith fsck"
"""The hint of every error about damaged bytes."""

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_NO_LIMIT = 1 << 62
_OTHER_KEY = b"\xff"
_EXTENSIONS = frozenset({*range(0xC7, 0xCA), *range(0xD4, 0xD9)})  # first bytes of tagged values
_EXACT_FLOAT = 1 << 53
_UNREADABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError, OverflowError)

_CONTAINERS = frozenset({dict, list})
_PLAIN = frozenset({type(None), bool, int, float, str, bytes}) | _CONTAINERS

_first = itemgetter(0)
_pack = Encoder().encode


Validator: TypeAlias = Callable[[object], str]
"""Returns why a value breaks the rules of its class, or an empty text."""


class ValueCodec(Protocol):
    """What the core needs from `codecs`: one step down for a value, one step up for a tag, and
    the rules of a class of models.
    """

    def lower(self, value: object) -> Tagged:
        """Return the code and the plainer data of a value that is not plain."""

    def lift(self, code: int, data: object) -> object:
        """Return the value that has this code and this data."""

    def opaque(self) -> ValueCodec:
        """Return a codec that lifts what cannot be read here to a stand-in."""

    def validator(self, name: str) -> Validator | None:
        """Return what checks models of the class with this name; None if nothing does."""


class TooBig(Exception):
    """The value does not fit the limit; the caller splits it."""


class Encoding:
    """Encodes and decodes whole values. Stateless, so threads may share it."""

    def __init__(self, codec: ValueCodec) -> None:
        self.codec = codec
        self._pack = _pack
        self._unpack: Callable[[bytes | memoryview], Any] = Decoder(
            ext_hook=lambda code, data: codec.lift(code, self._unpack(data))
        ).decode
        self._slices = Decoder(list[msgspec.Raw]).decode

    def encode(self, value: object, *, limit: int | None = None) -> bytes:
        """Return the canonical bytes.

        Raises:
            BadValue: some part cannot be stored; the message names its path in the value.
            TooBig: it is certain to be longer than `limit`.
        """
        kind = type(value)
        if kind is bool or value is None or (kind is str and value.isascii()):  # type: ignore[attr-defined]
            return self._pack(value)
        most = _NO_LIMIT if limit is None else limit
        plain = encode_plain(value, most) if _is_large(value) else None
        if plain is not None:
            return plain
        try:
            return self._pack(self._plain(value, 0, [most]))
        except BadValue as error:
            raise self._located(value, error) from None

    def reencode(self, value: object) -> bytes:
        """Return the canonical bytes of a stored value; edits by path may have made it deeper."""
        return self._pack(self._plain(value, -MAX_DEPTH, [_NO_LIMIT]))

    def decode(self, data: bytes) -> object:
        """Return the value these bytes encode."""
        try:
            return self._unpack(data)
        except Error:
            raise
        except _UNREADABLE as error:
            raise Corrupt(f"a value cannot be decoded: {error}", hint=FSCK) from None

    def key(self, key: object) -> bytes:
        """Return the key bytes of one key of a map, or of one element of a set.

        Raises:
            BadValue: it is not hashable, or too long.
        """
        data = _utf8(key) if type(key) is str else None
        if data is None:
            try:
                hash(key)
            except TypeError:
                raise BadValue(f"{key!r} cannot be a key", hint="a key is hashable") from None
            data = _OTHER_KEY + self.encode(key)
        if len(data) > KEY_LIMIT_BYTES:
            raise BadValue(
                f"a key or an element of a set takes {len(data)} bytes, at most {KEY_LIMIT_BYTES}",
                hint="store it as a value, under a short key or in a list",
            )
        return data

    def equal_keys(self, data: bytes) -> list[bytes]:
        """Return the other key bytes that equal this key in Python: 1, 1.0 and True are one key."""
        if data[:1] != _OTHER_KEY or data[1] in _EXTENSIONS:
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
            raise Corrupt(f"a key is not text: {error}", hint=FSCK) from None

    def split_map(self, data: bytes) -> dict[bytes, bytes]:
        """Cut the encoding of a map into key bytes and encoded values, in the map's order.

        Nothing is decoded.
        """
        count, start = _map_length(data)
        flat = self._cut(_header(count * 2, 0x90, 0xDC) + data[start:])
        return dict(zip(map(key_bytes, flat[::2]), flat[1::2], strict=True))

    def split_list(self, data: bytes) -> list[bytes]:
        """Cut the encoding of a list into encoded elements, without decoding them."""
        return self._cut(data)

    def tagged(self, data: bytes) -> tuple[int, bytes]:
        """Cut an extension into its code and the encoding of its data."""
        first = data[0]
        at = 1 if first >= 0xD4 else {0xC7: 2, 0xC8: 3, 0xC9: 5}[first]
        return data[at], data[at + 1 :]

    def _cut(self, data: bytes) -> list[bytes]:
        """Return the encoded parts of a container."""
        try:
            return [bytes(part) for part in self._slices(data)]
        except _UNREADABLE as error:
            raise Corrupt(f"a container cannot be decoded: {error}") from None

    def _plain(self, value: Any, depth: int, room: list[int]) -> Any:
        """Return a value as msgspec packs it canonically; `room[0]` is how many parts may come."""
        kind = type(value)
        if kind is str:
            if value.isascii() or _utf8(value) is not None:
                return value
            return self._lower(value, depth, room)
        if kind is bool or value is None or kind is bytes:
            return value
        if kind is int:
            return value if _INT_MIN <= value <= _INT_MAX else self._lower(value, depth, room)
        if kind is float:
            return value
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

    def _map(
        self, value: dict[Any, Any], depth: int, room: list[int], *, is_form: bool = False
    ) -> Any:
        """Return a dict as it is packed: in its own order, or in key order if it is a form."""
        if all(type(key) is str and key.isascii() for key in value):
            names = sorted(value) if is_form else value
            return {key: self._plain(value[key], depth, room) for key in names}
        keys = [self.key(key) for key in value]
        check_distinct(keys)
        pairs = zip(keys, value.values(), strict=True)
        parts = sorted(pairs, key=_first) if is_form else pairs
        return msgspec.Raw(
            join_map((key, self._pack(self._plain(part, depth, room))) for key, part in parts)
        )

    @staticmethod
    def is_form(code: int, data: object) -> bool:
        """Tell whether the data of a tag is a dict without an order; that of a graph has one."""
        return type(data) is dict and code != Tag.GRAPH

    def in_key_order(self, form: dict[Any, Any]) -> dict[Any, Any]:
        """Return the data of a tag that is a dict with its keys sorted, as a form is stored."""
        is_text = all(type(key) is str and key.isascii() for key in form)
        names = sorted(form) if is_text else sorted(form, key=self.key)
        return {name: form[name] for name in names}

    def _lower(self, value: object, depth: int, room: list[int]) -> Ext:
        _enter(0, depth, room)
        code, data = self.codec.lower(value)
        if type(data) is not dict or not self.is_form(code, data):
            return Ext(int(code), self._pack(self._plain(data, depth + 1, room)))
        _enter(len(data), depth + 1, room)
        return Ext(int(code), self._pack(self._map(data, depth + 2, room, is_form=True)))

    def _located(self, value: Any, error: BadValue) -> BadValue:
        """Return an error that names the part that cannot be stored, by its path in the value."""
        trail: list[str] = []
        while (step := self._broken_part(value)) is not None and len(trail) <= MAX_DEPTH:
            trail.append(step[0])
            value = step[1]
        if not trail:
            return error
        return BadValue(f"at {'/'.join(trail[:8])}: {error.message}", hint=error.hint)

    def _broken_part(self, value: Any) -> tuple[str, Any] | None:
        """Return the first part of a container that cannot be encoded."""
        parts: Iterable[tuple[Any, Any]] = ()
        if type(value) is dict:
            parts = value.items()
        elif type(value) in (list, tuple):
            parts = enumerate(value)
        for name, part in parts:
            try:
                self._pack(self._plain(part, 0, [_NO_LIMIT]))
            except BadValue:
                return str(name), part
        return None


def _is_large(value: Any) -> bool:
    """Tell whether examining a value level by level pays."""
    if type(value) is dict:
        parts: Iterable[Any] = value.values()
    elif type(value) is list:
        parts = value
    else:
        return False
    return len(value) > 8 or not _CONTAINERS.isdisjoint(map(type, parts))


def encode_plain(value: object, most: int) -> bytes | None:
    """Encode a dict or list in C, or return None if C would write a part of it differently.

    Whole levels are examined together, so that the loops run in C as well.

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
            try:
                data = _pack(value)
            except (TypeError, ValueError, OverflowError, RecursionError):
                return None  # a number of more than 64 bits, or text with lone surrogates
            return data
        dicts = [part for part in level if type(part) is dict]
        if not set(map(type, chain.from_iterable(dicts))) <= {str}:
            return None
        level = get_referents(*dicts, *(part for part in level if type(part) is list))
    return None


def _utf8(text: str) -> bytes | None:
    """Return the UTF-8 of a str, or None if it has lone surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def check_distinct(keys: list[bytes]) -> None:
    """Refuse a map in which two keys have the same key bytes, as NaNs of the same bits do."""
    if len(set(keys)) != len(keys):
        raise BadValue("two of its keys have the same encoding", hint="do not use NaN as a key")


def _enter(parts: int, depth: int, room: list[int]) -> None:
    """Count the parts of a container against the limits on depth and size."""
    if depth >= MAX_DEPTH:
        raise BadValue(
            f"nested deeper than {MAX_DEPTH} levels",
            hint="does it contain itself? store parts of it under separate paths",
        )
    room[0] -= parts
    if room[0] < 0:
        raise TooBig


def is_key_order(names: Collection[bytes]) -> bool:
    """Tell whether key bytes are in ascending order."""
    return all(map(lt, names, islice(names, 1, None)))


def join_map(parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Put key bytes and encoded values together, in this order, as the encoding of a map."""
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
    if key[:1] == _OTHER_KEY:
        return key[1:]
    size = len(key)
    return (bytes((0xA0 | size,)) if size < 32 else _sized(size, 0xD9, (1, 2, 4))) + key


def key_bytes(encoded: bytes) -> bytes:
    """Return the key bytes of the key that has this encoding."""
    first = encoded[0]
    if first & 0xE0 == 0xA0:
        return encoded[1:]
    if 0xD9 <= first <= 0xDB:
        return encoded[{0xD9: 2, 0xDA: 3, 0xDB: 5}[first] :]
    return _OTHER_KEY + encoded


def bytes_header(size: int) -> bytes:
    """Return the MessagePack header of so many bytes."""
    return _sized(size, 0xC4, (1, 2, 4))


def _header(count: int, short: int, long: int) -> bytes:
    """Return the MessagePack header of a map or list of so many parts."""
    return bytes((short | count,)) if count < 16 else _sized(count, long, (2, 4))


def _sized(size: int, code: int, widths: tuple[int, ...]) -> bytes:
    """Return a header with the size in the smallest width that holds it; codes count up."""
    at = next(at for at, width in enumerate(widths) if size >> 8 * width == 0)
    return bytes((code + at,)) + size.to_bytes(widths[at], "big")


def container_header_size(count: int) -> int:
    """Return the length of the header of a map or list of so many parts."""
    return 1 if count < 16 else 3 if count < 65536 else 5


def extension_header_size(payload: int) -> int:
    """Return the length of the header of an extension with a payload of so many bytes."""
    if payload in (1, 2, 4, 8, 16):
        return 2
    return 3 if payload < 256 else 4 if payload < 65536 else 6


def _map_length(data: bytes) -> tuple[int, int]:
    """Return how many entries a map has, and where they start."""
    first = data[0]
    if first & 0xF0 == 0x80:
        return first & 0x0F, 1
    if first == 0xDE:
        return int.from_bytes(data[1:3], "big"), 3
    if first == 0xDF and len(data) >= 5 + int.from_bytes(data[1:5], "big"):
        return int.from_bytes(data[1:5], "big"), 5
    raise Corrupt("a map was expected, and something else is there", hint=FSCK)
