"""Objects by their hash: stored ones, decoded once and cached, and new ones not written yet.

`Objects` reads a store; all branches of a repo share it. A `Buffer` is one branch's view: new
objects on top of the stored ones. Trees are built into a buffer, a commit writes the part of it
that the new root reaches, and `settle` moves that part into the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from otolith.core.trees.encoding import FSCK
from otolith.core.trees.layout import (
    NODES,
    Node,
    cell_links,
    child_hashes,
    decode_node,
    digest,
    encode_node,
)
from otolith.errors import Corrupt
from otolith.stores import Object, Store
from otolith.types import Hash

LOAD_LIMIT_BYTES = 1 << 36

_FEW = 12
"""So many new objects are searched faster than they are parsed."""


class Objects:
    """Objects of a store, decoded once, in a cache that is bounded in bytes.

    The cache has two generations instead of a list of uses: when the young one is full it becomes
    the old one. That needs no lock, and a lookup is one dict access.
    """

    def __init__(
        self,
        store: Store,
        *,
        cache_bytes: int = 64 << 20,
        load_limit_bytes: int = LOAD_LIMIT_BYTES,
    ) -> None:
        self.store = store
        self.load_limit_bytes = load_limit_bytes
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
            raise Corrupt(f"object {hash.hex()[:12]} is not a node", hint=FSCK)
        return found

    def data(self, hash: Hash) -> bytes:
        """Return the bytes of a packed value, chunk or commit."""
        found = self._lookup(hash)
        if found is None:
            found = self._load(hash)
        if isinstance(found, Node):
            raise Corrupt(f"object {hash.hex()[:12]} is a node", hint=FSCK)
        return found

    def prefetch(self, hashes: Iterable[Hash]) -> None:
        """Read what is not in the cache in one call of the store."""
        missing = [hash for hash in hashes if self._lookup(hash) is None]
        if missing:
            for hash, data in self.store.read(missing).items():
                self._add(hash, data)

    def _lookup(self, hash: Hash) -> Node | bytes | None:
        """Return an object from the cache; one of the older half moves to the younger."""
        found = self._young.get(hash)
        if found is None:
            found = self._old.get(hash)
            if found is not None:
                self._young[hash] = found
        return found

    def _load(self, hash: Hash) -> Node | bytes:
        """Read an object from the store, or raise Corrupt if it is missing."""
        data = self.store.read([hash]).get(hash)
        if data is None:
            raise Corrupt(
                f"object {hash.hex()[:12]} is missing",
                hint="run otolith fsck; a replica can repair it",
            )
        return self._add(hash, data)

    def _add(self, hash: Hash, data: bytes) -> Node | bytes:
        """Check the hash of an object, decode it, and add it to the cache."""
        if not self.store.capabilities.verified and digest(data) != hash:
            raise Corrupt(f"object {hash.hex()[:12]} has the wrong bytes", hint=FSCK)
        found = data if is_leaf(data) else decode_node(data)
        self.remember(hash, found, len(data))
        return found

    def remember(self, hash: Hash, found: Node | bytes, size: int) -> None:
        """Put something that is known to be stored into the cache."""
        self._young[hash] = found
        # A decoded node takes about three times its bytes.
        self._young_bytes += size * 3 if isinstance(found, Node) else size
        if self._young_bytes > self._half:
            self._old, self._young, self._young_bytes = self._young, {}, 0


class Buffer:
    """New objects on top of stored ones, not written yet."""

    def __init__(self, objects: Objects) -> None:
        self.stored = objects
        self.fresh: dict[Hash, Object] = {}
        self._nodes: dict[Hash, Node] = {}

    @property
    def load_limit_bytes(self) -> int:
        """How long the full encoding of what is read in one go may be."""
        return self.stored.load_limit_bytes

    # Reading

    def node(self, hash: Hash) -> Node:
        """Return a node, new or stored."""
        found = self._nodes.get(hash)
        return found if found is not None else self.stored.node(hash)

    def child(self, parent: Node, hash: Hash) -> Node:
        """Return a node that must be one level below another."""
        child = self.node(hash)
        if child.level != parent.level - 1 or child.kind != parent.kind:
            raise Corrupt("a node is not one level below its parent", hint=FSCK)
        return child

    def nodes(self, hashes: Sequence[Hash]) -> list[Node]:
        """Return several nodes, read together."""
        self.prefetch(hashes)
        return [self.node(hash) for hash in hashes]

    def data(self, hash: Hash) -> bytes:
        """Return the bytes of a packed value, chunk or commit, new or stored."""
        found = self.fresh.get(hash)
        return found.data if found is not None else self.stored.data(hash)

    def prefetch(self, hashes: Iterable[Hash]) -> None:
        """Read what is neither new nor in the cache in one call of the store."""
        self.stored.prefetch([hash for hash in hashes if hash not in self.fresh])

    # Writing

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
        offsets: list[int] | None = None,
        base: Hash | None = None,
    ) -> Hash:
        """Add a node; `offsets` are where its entries end, if that is known already."""
        hash = self.put(encode_node(kind, level, keys, payloads), base=base)
        node = self._nodes[hash] = Node(kind, level, keys, payloads)
        node.offsets = offsets
        return hash

    def take(self, hash: Hash, data: bytes, *, base: Hash | None = None) -> None:
        """Add an object that another process made, and that was hashed already."""
        if hash not in self.fresh:
            self.fresh[hash] = Object(hash, data, base)
        if not is_leaf(data):
            self._nodes[hash] = decode_node(data)

    def reachable(self, root: Hash) -> list[Object]:
        """Return the new objects that `root` needs, each after what it needs itself."""
        if len(self.fresh) <= _FEW:
            # Parents were made after their children, and hold their hashes unchanged.
            found: list[Object] = []
            for new in reversed(self.fresh.values()):
                if new.hash == root or any(parent.data.find(new.hash) >= 0 for parent in found):
                    found.append(new)
            return found[::-1]
        needed: set[Hash] = set()
        queue = [root]
        while queue:
            hash = queue.pop()
            if hash in self.fresh and hash not in needed:
                needed.add(hash)
                node = self._nodes.get(hash)
                queue += child_hashes(node) if node is not None else ()
        return [new for hash, new in self.fresh.items() if hash in needed]

    def needed(self, cells: Iterable[bytes]) -> list[Object]:
        """Return the new objects that cells need, each after what it needs itself."""
        roots = [link for cell in cells for link in cell_links(cell)]
        wanted = {new.hash for root in roots for new in self.reachable(root)}
        return [new for hash, new in self.fresh.items() if hash in wanted]

    def settle(self, written: Iterable[Object]) -> None:
        """Move what was written into the cache of stored objects, and forget the rest."""
        for hash, data, _ in written:
            self.stored.remember(hash, self._nodes.get(hash, data), len(data))
        self.clear()

    def copy(self) -> Buffer:
        """Return a buffer with the same new objects."""
        same = Buffer(self.stored)
        same.fresh, same._nodes = self.fresh.copy(), self._nodes.copy()
        return same

    def clear(self) -> None:
        """Forget all new objects."""
        self.fresh = {}
        self._nodes = {}


def is_leaf(data: bytes) -> bool:
    """Tell whether an object is not a node: a packed value, a chunk, or a commit."""
    return data[:1] not in NODES
