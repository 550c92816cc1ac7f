"""The bytes of every object: nodes, packed values, chunks, commits.

Layout. Byte 0 says what an object is:

    p  packed value   the encoding of a value that is too long to sit in a node
    c  chunk          a piece of a long str or bytes, as it is
    m  map node       header, then key bytes and payload in turn, each a MessagePack bin
    l  list node      header, then payloads, each a MessagePack bin
    b  blob node      as a list node; its payloads at level 0 are links to chunks
    C  commit         see graph.py

The header of a node is 4 bytes: the letter, the level (0 at the leaves), the number of entries
(16 bits, little endian). Above level 0 every payload is a *link*: the hash of a child (32 bytes),
the elements below it and the encoded bytes below it (two varints). At level 0 of a map or list it
is a *cell* (see cells.py): an encoded value, or a link to one, marked by the byte 0xC1 that
MessagePack never uses.

Bytes to Hash, and keys to the height at which they end a node; nothing else.

How many bytes a cell would take if it were encoded in full; the inline rule needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import lt
from typing import NamedTuple

from blake3 import blake3
from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder
from xxhash import xxh3_64_intdigest

from otolith.core.trees.encoding import extension_header_size
from otolith.errors import Corrupt
from otolith.types import Hash

PACKED, CHUNK, MAP, LIST, BLOB, COMMIT = b"p", b"c", b"m", b"l", b"b", b"C"
MARK = 0xC1

TAGGED_KIND = 5
"""The kind byte of a cell that is a tag around another cell."""

_MARK, _TAGGED = bytes((MARK,)), bytes((TAGGED_KIND,))
_SHORTEST_LINK = 34
_DEEPEST_TAGS = 3 * 64
_FSCK = "run otolith fsck"

_pack = Encoder().encode
_unpack = Decoder(list[bytes]).decode


class Link(NamedTuple):
    """A child: its hash, the elements below it, and the bytes their encoding takes."""

    hash: Hash
    length: int
    size: int

    def encode(self) -> bytes:
        """Return the link as it stands in a node."""
        return self.hash + varint(self.length) + varint(self.size)


class Node:
    """A decoded node. Nobody changes a node; an edit makes another."""

    __slots__ = ("keys", "kind", "level", "offsets", "payloads")

    def __init__(self, kind: bytes, level: int, keys: list[bytes], payloads: list[bytes]) -> None:
        self.kind = kind
        self.level = level
        self.keys = keys
        self.payloads = payloads
        self.offsets: list[int] | None = None  # where each entry of a sequence ends, on demand


def varint(number: int) -> bytes:
    """Encode a number, seven bits a byte, lowest first."""
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := data[at]) >= 0x80:
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return number | byte << shift, at + 1


def read_link(data: bytes, start: int = 0) -> Link:
    """Decode the link that starts here."""
    try:
        count, at = _read_varint(data, start + 32)
        size, _ = _read_varint(data, at)
    except IndexError:
        raise Corrupt("a link is cut short", hint=_FSCK) from None
    return Link(Hash(data[start : start + 32]), count, size)


def encode_node(kind: bytes, level: int, keys: list[bytes], payloads: list[bytes]) -> bytes:
    """Return the bytes of a node."""
    flat = payloads
    if kind == MAP:
        flat = [b""] * (2 * len(keys))
        flat[::2], flat[1::2] = keys, payloads
    body = _pack(flat)
    first = body[0]
    start = 1 if first & 0xF0 == 0x90 else 3 if first == 0xDC else 5
    return kind + bytes((level,)) + len(payloads).to_bytes(2, "little") + body[start:]


def decode_node(data: bytes) -> Node:
    """Return the node these bytes are.

    Raises:
        Corrupt: they are none. A hash proves that bytes are those that were written, not that
            whoever wrote them meant well.
    """
    kind, level, count = data[:1], data[1], int.from_bytes(data[2:4], "little")
    items = count * 2 if kind == MAP else count
    try:
        flat = _unpack(b"\xdd" + items.to_bytes(4, "big") + data[4:])
    except MsgspecError as error:
        raise Corrupt(f"a node cannot be decoded: {error}", hint=_FSCK) from None
    keys, payloads = (flat[::2], flat[1::2]) if kind == MAP else ([], flat)
    if level or kind == BLOB:
        _check_links(payloads)
        if kind == MAP and not all(map(lt, keys, keys[1:])):
            raise Corrupt("the keys of a map are not in order", hint=_FSCK)
    else:
        check_cells(payloads)
    return Node(kind, level, keys, payloads)


def _check_links(payloads: list[bytes]) -> None:
    if not payloads or min(map(len, payloads)) < _SHORTEST_LINK:
        raise Corrupt("a node has no entries, or a link that is cut short", hint=_FSCK)


def check_cells(cells: list[bytes]) -> None:
    """Refuse cells that cannot be followed."""
    if not cells or b"" in cells:
        raise Corrupt("a node has no entries, or an empty one", hint=_FSCK)
    for cell in cells:
        if cell[0] == MARK and not _is_sound(cell):
            raise Corrupt("a cell is malformed", hint=_FSCK)


def _is_sound(cell: bytes) -> bool:
    start = 0
    while cell[start + 1 : start + 2] == _TAGGED and start < _DEEPEST_TAGS:
        start += 3
        if cell[start : start + 1] != _MARK:
            return False
    kind = cell[start + 1 : start + 2]
    return kind < _TAGGED and len(cell) >= start + 2 + _SHORTEST_LINK


_NODE_KINDS = {MAP: "map", LIST: "list", BLOB: "blob", PACKED: "packed", CHUNK: "chunk"}


def node_kind(data: bytes) -> str:
    """Name what an object is: map, list, blob, packed, chunk or commit."""
    return _NODE_KINDS.get(data[:1], "commit")


def is_link(cell: bytes) -> bool:
    """Tell whether a cell links to a value instead of holding it."""
    return cell[0] == MARK


def cell_links(cell: bytes) -> Iterator[Hash]:
    """Yield the hash a cell links to, if it does."""
    if cell[0] == MARK:
        start = 2
        while cell[start - 1] == TAGGED_KIND:  # 0xC1, kind, code, then the inner cell
            start += 3
        yield Hash(cell[start : start + 32])


def node_links(data: bytes) -> Iterator[Hash]:
    """Yield the hashes that a node, packed value or chunk needs."""
    kind = data[:1]
    if kind in (PACKED, CHUNK):
        return
    if kind not in (MAP, LIST, BLOB):
        raise Corrupt(f"an object starts with the unknown byte {kind!r}", hint="run otolith fsck")
    node = decode_node(data)
    if node.level or kind == BLOB:
        yield from (Hash(payload[:32]) for payload in node.payloads)
    else:
        for cell in node.payloads:
            yield from cell_links(cell)


def check_parts(link: Link | None, cells: Iterable[bytes]) -> None:
    """Refuse a tree whose parts take more than the whole of it.

    Objects are shared, so few of them can be parts of more than any memory holds. Sizes tell that,
    if they are right. Only cells that lead to objects are counted: the others are in memory.
    """
    if link is not None:
        check_size(link, sum(full_size(cell) for cell in cells if cell[0] == MARK))


def check_size(link: Link | None, size: int) -> None:
    """Refuse a tree that is longer than it says."""
    if link is not None and size > link.size:
        raise Corrupt("a value is longer than it says", hint=_FSCK)


FANOUT_BITS = 5
"""A node holds 2**5 entries on average."""

_MASK = (1 << FANOUT_BITS) - 1
_TALLEST = 64 // FANOUT_BITS


def digest(data: bytes) -> Hash:
    """Name an object by the BLAKE3-256 of its plain bytes."""
    return Hash(blake3(data).digest())


def height(key: bytes, salt: int) -> int:
    """Return how many levels of nodes a key ends: the zero bits its hash ends with, by fives."""
    bits = xxh3_64_intdigest(key, salt)
    levels = 0
    while bits & _MASK == 0 and levels < _TALLEST:
        levels += 1
        bits >>= FANOUT_BITS
    return levels


def is_cut(item: bytes, salt: int) -> bool:
    """Tell whether an element of a sequence may end a node."""
    return xxh3_64_intdigest(item, salt) & _MASK == 0


def full_size(cell: bytes) -> int:
    """Return the length of the full encoding of the value in a cell."""
    if cell[0] != MARK:
        return len(cell)
    if cell[1] == TAGGED_KIND:
        payload = full_size(cell[3:])
        return extension_header_size(payload) + payload
    return read_link(cell, 2).size


def entry_size(key: bytes, cell: bytes) -> int:
    """Return the length of one entry of a map, encoded in full."""
    size = len(key)
    if key[:1] == b"\xff":
        size -= 1
    else:
        size += 1 if size < 32 else 2 if size < 256 else 3 if size < 65536 else 5
    return size + (len(cell) if cell[0] != MARK else full_size(cell))
