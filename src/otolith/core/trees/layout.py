"""The bytes of every object: nodes, packed values, chunks, commits, and the hashes that name them.

Layout. Byte 0 of an object is its kind:

    p  packed value   the encoding of a value that is too long to sit in a node
    c  chunk          a piece of a long str or bytes, unchanged
    m  map node       header, then key bytes and payload in turn, each a MessagePack bin
    l  list node      header, then payloads, each a MessagePack bin
    b  blob node      as a list node; its payloads at level 0 are links to chunks
    C  commit         see history/commits.py

The header of a node is 4 bytes: the kind, the level (0 at the leaves), the number of entries
(16 bits, little endian). Above level 0 every payload is a *link*: the hash of a child (32 bytes),
the elements below it and the encoded bytes below it (two varints). At level 0 of a map or list it
is a *cell* (see cells.py): an encoded value, or a link to one, marked by the byte 0xC1 that
MessagePack never uses.

An object is named by the BLAKE3-256 of its bytes. A hash proves that the bytes are those that were
written, not that their writer followed the format: everything read here is checked before it is
followed, and what does not fit is `Corrupt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import lt
from typing import NamedTuple

from blake3 import blake3
from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder
from xxhash import xxh3_64_intdigest

from otolith.core.trees.encoding import FSCK, extension_header_size
from otolith.errors import Corrupt
from otolith.types import Hash

PACKED, CHUNK, MAP, LIST, BLOB, COMMIT = b"p", b"c", b"m", b"l", b"b", b"C"
NODES = (MAP, LIST, BLOB)
MARK = 0xC1

PACKED_KIND, MAP_KIND, LIST_KIND, BYTES_KIND, TEXT_KIND, TAGGED_KIND = range(6)
"""The second byte of a cell that is a link; a tagged one is a tag around another cell."""

_SHORTEST_LINK = 34
_MOST_TAGS = 64  # around one value

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
    """A decoded node. Nodes are shared and never changed; an edit makes another."""

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
    """Return the number that starts here, and where it ends."""
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
        raise Corrupt("a link is cut short", hint=FSCK) from None
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
    """Return the node these bytes encode.

    Raises:
        Corrupt: they do not encode a node whose links can be followed.
    """
    kind, level, count = data[:1], data[1], int.from_bytes(data[2:4], "little")
    items = count * 2 if kind == MAP else count
    try:
        flat = _unpack(b"\xdd" + items.to_bytes(4, "big") + data[4:])
    except MsgspecError as error:
        raise Corrupt(f"a node cannot be decoded: {error}", hint=FSCK) from None
    keys, payloads = (flat[::2], flat[1::2]) if kind == MAP else ([], flat)
    if not level and kind != BLOB:
        check_cells(payloads)
        return Node(kind, level, keys, payloads)
    if not payloads or min(map(len, payloads)) < _SHORTEST_LINK:
        raise Corrupt("a node has no entries, or a link that is cut short", hint=FSCK)
    if kind == MAP and not all(map(lt, keys, keys[1:])):
        raise Corrupt("the keys of a map are not in order", hint=FSCK)
    return Node(kind, level, keys, payloads)


def check_cells(cells: list[bytes]) -> None:
    """Refuse cells that cannot be followed."""
    if not cells or b"" in cells:
        raise Corrupt("a node has no entries, or an empty one", hint=FSCK)
    for cell in cells:
        if cell[0] == MARK and not _is_sound(cell):
            raise Corrupt("a cell is malformed", hint=FSCK)


def _is_sound(cell: bytes) -> bool:
    """Tell whether a cell that is a link has a known kind, and a link behind its tags."""
    start = 0
    while cell[start + 1 : start + 2] == bytes((TAGGED_KIND,)) and start < 3 * _MOST_TAGS:
        start += 3
        if cell[start : start + 1] != bytes((MARK,)):
            return False
    return len(cell) >= start + 2 + _SHORTEST_LINK and cell[start + 1] < TAGGED_KIND


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


def child_hashes(node: Node) -> list[Hash]:
    """Return the hashes that a node links to, by itself or from its cells."""
    if node.level or node.kind == BLOB:
        return [Hash(payload[:32]) for payload in node.payloads]
    return [link for cell in node.payloads if cell[0] == MARK for link in cell_links(cell)]


def object_links(data: bytes) -> list[Hash]:
    """Return the hashes that a node, packed value or chunk needs."""
    kind = data[:1]
    if kind in (PACKED, CHUNK):
        return []
    if kind not in NODES:
        raise Corrupt(f"an object starts with the unknown byte {kind!r}", hint=FSCK)
    return child_hashes(decode_node(data))


def check_parts(link: Link | None, cells: Iterable[bytes]) -> None:
    """Refuse a tree whose parts take more bytes than the whole of it.

    Objects are shared, so few of them can be parts of more than any memory holds. Sizes tell that,
    if they are right. Only cells that lead to objects are counted: the others are in memory.
    """
    if link is not None:
        check_size(link, sum(full_size(cell) for cell in cells if cell[0] == MARK))


def check_size(link: Link | None, size: int) -> None:
    """Refuse a tree that takes more bytes than its link claims."""
    if link is not None and size > link.size:
        raise Corrupt(f"a value takes {size} bytes, its link says {link.size}", hint=FSCK)


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
    """Return the length of the full encoding of the value in a cell, without reading it."""
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
