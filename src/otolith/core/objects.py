"""The immutable objects: nodes, packed values, chunks, commits; their bytes, cache and buffer.

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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder

from otolith.core.hashing import digest
from otolith.errors import Corrupt
from otolith.stores import Object, Store
from otolith.types import Hash

PACKED, CHUNK, MAP, LIST, BLOB, COMMIT = b"p", b"c", b"m", b"l", b"b", b"C"
MARK = 0xC1

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
    count, at = _read_varint(data, start + 32)
    size, _ = _read_varint(data, at)
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
    """Return the node these bytes are."""
    kind, level, count = data[:1], data[1], int.from_bytes(data[2:4], "little")
    items = count * 2 if kind == MAP else count
    try:
        flat = _unpack(b"\xdd" + items.to_bytes(4, "big") + data[4:])
    except MsgspecError as error:
        raise Corrupt(f"a node cannot be decoded: {error}", hint="run otolith fsck") from None
    if kind == MAP:
        return Node(kind, level, flat[::2], flat[1::2])
    return Node(kind, level, [], flat)


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


TAGGED_KIND = 5
"""The kind byte of a cell that is a tag around another cell."""

CommitLinks = Callable[[bytes], Iterable[Hash]]


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


class Objects:
    """Objects of a store, decoded once and kept in a cache that is bounded in bytes.

    The cache has two generations instead of a list of uses: when the young one is full it becomes
    the old one. That needs no lock, and a lookup is one dict access.
    """

    def __init__(self, store: Store, *, cache_bytes: int = 64 << 20) -> None:
        self.store = store
        self._half = cache_bytes // 2
        self._young: dict[Hash, Node | bytes] = {}
        self._old: dict[Hash, Node | bytes] = {}
        self._young_bytes = 0

    def node(self, hash: Hash) -> Node:
        """Return a node."""
        found = self._lookup(hash)
        if found is None:
            found = self._load(hash)
        if not isinstance(found, Node):
            raise Corrupt(f"object {hash.hex()[:12]} is not a node", hint="run otolith fsck")
        return found

    def nodes(self, hashes: Sequence[Hash]) -> list[Node]:
        """Return several nodes, read together."""
        self.prefetch(hashes)
        return [self.node(hash) for hash in hashes]

    def data(self, hash: Hash) -> bytes:
        """Return the bytes of a packed value, chunk or commit."""
        found = self._lookup(hash)
        if found is None:
            found = self._load(hash)
        if isinstance(found, Node):
            raise Corrupt(f"object {hash.hex()[:12]} is a node", hint="run otolith fsck")
        return found

    def prefetch(self, hashes: Iterable[Hash]) -> None:
        """Read what is not in the cache in one go."""
        missing = [hash for hash in hashes if self._lookup(hash) is None]
        if missing:
            for hash, data in self.store.read(missing).items():
                self._keep(hash, data)

    def has(self, hash: Hash) -> bool:
        """Tell whether an object is there."""
        return self._lookup(hash) is not None or bool(self.store.read([hash]))

    def _lookup(self, hash: Hash) -> Node | bytes | None:
        found = self._young.get(hash)
        if found is None:
            found = self._old.get(hash)
            if found is not None:
                self._young[hash] = found
        return found

    def _load(self, hash: Hash) -> Node | bytes:
        data = self.store.read([hash]).get(hash)
        if data is None:
            raise Corrupt(
                f"object {hash.hex()[:12]} is missing",
                hint="run otolith fsck; a replica can repair it",
            )
        return self._keep(hash, data)

    def _keep(self, hash: Hash, data: bytes) -> Node | bytes:
        if not self.store.capabilities.verified and digest(data) != hash:
            raise Corrupt(f"object {hash.hex()[:12]} has the wrong bytes", hint="run otolith fsck")
        found: Node | bytes = decode_node(data) if data[:1] in (MAP, LIST, BLOB) else data
        self.remember(hash, found, len(data))
        return found

    def remember(self, hash: Hash, found: Node | bytes, size: int) -> None:
        """Put something that is known to be stored into the cache."""
        self._young[hash] = found
        self._young_bytes += size * 3  # a decoded node takes about three times its bytes
        if self._young_bytes > self._half:
            self._old, self._young, self._young_bytes = self._young, {}, 0


class Buffer:
    """New objects on top of stored ones, not written yet."""

    def __init__(self, objects: Objects) -> None:
        self.stored = objects
        self.fresh: dict[Hash, Object] = {}
        self._nodes: dict[Hash, Node] = {}

    def put(self, data: bytes, *, base: Hash | None = None) -> Hash:
        """Add an object; `base` is an older one that it resembles."""
        hash = digest(data)
        if hash not in self.fresh:
            self.fresh[hash] = Object(hash, data, base)
        return hash

    def put_node(
        self,
        kind: bytes,
        level: int,
        keys: list[bytes],
        payloads: list[bytes],
        *,
        base: Hash | None = None,
    ) -> Hash:
        """Add a node."""
        hash = self.put(encode_node(kind, level, keys, payloads), base=base)
        self._nodes[hash] = Node(kind, level, keys, payloads)
        return hash

    def node(self, hash: Hash) -> Node:
        """Return a node, new or stored."""
        found = self._nodes.get(hash)
        return found if found is not None else self.stored.node(hash)

    def nodes(self, hashes: Sequence[Hash]) -> list[Node]:
        """Return several nodes, new or stored."""
        self.prefetch(hashes)
        return [self.node(hash) for hash in hashes]

    def data(self, hash: Hash) -> bytes:
        """Return the bytes of a packed value, chunk or commit, new or stored."""
        found = self.fresh.get(hash)
        return found.data if found is not None else self.stored.data(hash)

    def prefetch(self, hashes: Iterable[Hash]) -> None:
        """Read what is neither new nor in the cache in one go."""
        self.stored.prefetch([hash for hash in hashes if hash not in self.fresh])

    def reachable(self, root: Hash) -> list[Object]:
        """Return the new objects that `root` needs, each after what it needs itself."""
        needed: set[Hash] = set()
        queue = [root] if root in self.fresh else []
        while queue:
            hash = queue.pop()
            if hash not in needed:
                needed.add(hash)
                queue += self._fresh_below(hash)
        return [new for hash, new in self.fresh.items() if hash in needed]

    def _fresh_below(self, hash: Hash) -> list[Hash]:
        node = self._nodes.get(hash)
        if node is None:
            return []
        if node.level or node.kind == BLOB:
            below = [payload[:32] for payload in node.payloads]
        else:
            below = [link for cell in node.payloads if cell[0] == MARK for link in cell_links(cell)]
        return [Hash(link) for link in below if link in self.fresh]

    def settle(self, written: Iterable[Object]) -> None:
        """Move what was written into the cache of stored objects, and forget the rest."""
        for hash, data, _ in written:
            node = self._nodes.get(hash)
            self.stored.remember(hash, node if node is not None else data, len(data))
        self.clear()

    def clear(self) -> None:
        """Forget all new objects."""
        self.fresh = {}
        self._nodes = {}
