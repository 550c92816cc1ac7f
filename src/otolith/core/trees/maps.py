"""The persistent ordered map: get, scan, apply, diff; its shape depends on its content alone.

Rule 1: a key ends a node of level n if its salted hash ends in at least 5 (n + 1) zero bits.
Rule 2: the last node of a level ends where the keys end, whatever its last key is.
Rule 3: the root is the one node of the lowest level that has up to 32 entries, whatever its keys,
or the one node of a level that rule 1 does not cut. So most maps are one leaf.

Theory of operation. The rules depend on keys only, never on neighbours, sizes or history, so two
maps with equal content have equal nodes, whatever edits led to them. That makes equality one
comparison, and a diff skips everything the two share. An edit decides by one hash whether it
splits a node, and a removal whether it opens one; no other entry has to be scanned.

`apply` walks down once with all its (sorted) edits, rebuilds the nodes on the way up, cuts them
where rule 1 demands it, and joins a node whose last key vanished with its right neighbour: such a
node is *open*. Only the last node of a level may stay open (rule 2). Counts and sizes travel in
the links, so they are updated by differences; entries that did not change are not read.

Nodes have 32 entries on average and their size is geometric. No rule bounds it: the salt is
secret to the repo, so a node of more than 1,000 entries has a probability below 10**-13.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from otolith.core.trees.encoding import FSCK
from otolith.core.trees.layout import MAP, Link, Node, check_parts, entry_size, height, read_link
from otolith.core.trees.objects import Buffer
from otolith.errors import Corrupt
from otolith.types import Hash

LinkEntry: TypeAlias = tuple[bytes, Link]
"""A node as its parent sees it: its last key, and the link to it."""

Edit: TypeAlias = tuple[bytes, bytes | None]
"""Key bytes and the new cell, or None to remove it."""

Difference: TypeAlias = tuple[bytes, bytes | None, bytes | None]
"""Key bytes, the cell before and the cell after."""

SMALL = 32
"""A root has at most so many entries, unless no key cuts it (rule 3)."""

_MANY_EDITS = 64
"""From so many edits of one leaf on, merging them all at once is faster than one by one."""


class _Row(NamedTuple):
    """Nodes of one level of a tree."""

    level: int
    hashes: list[Hash]

    def without(self, shared: set[Hash]) -> _Row:
        """Return the row without nodes that another tree has as well."""
        return _Row(self.level, [hash for hash in self.hashes if hash not in shared])


class MapTree:
    """Reads map trees, and builds new ones into a buffer of objects."""

    def __init__(self, objects: Buffer, salt: int) -> None:
        self._objects = objects
        self._salt = salt

    # Reading

    def get(self, link: Link, key: bytes) -> bytes | None:
        """Return the cell at a key, or None."""
        node = self._objects.node(link.hash)
        while True:
            at = bisect_left(node.keys, key)
            if at == len(node.keys):
                return None
            if node.level == 0:
                return node.payloads[at] if node.keys[at] == key else None
            node = self._objects.node(Hash(node.payloads[at][:32]))

    def prefetch(self, link: Link, keys: Iterable[bytes]) -> None:
        """Read the nodes on the way to some keys, with one call of the store for each level."""
        row = [(link.hash, key) for key in keys]
        while row:
            self._objects.prefetch(dict(row))
            nodes = [(self._objects.node(hash), key) for hash, key in row]
            steps = [(node, bisect_left(node.keys, key), key) for node, key in nodes if node.level]
            row = [
                (Hash(node.payloads[at][:32]), key)
                for node, at, key in steps
                if at < len(node.keys)
            ]

    def last_key(self, link: Link, without: Collection[bytes] = ()) -> bytes | None:
        """Return the last key that is not one of these, or None if there is no other."""
        node = self._objects.node(link.hash)
        for key, payload in zip(reversed(node.keys), reversed(node.payloads), strict=True):
            found = self.last_key(read_link(payload), without) if node.level else key
            if found is not None and found not in without:
                return found
        return None

    def last_items(self, link: Link, count: int) -> list[tuple[bytes, bytes]]:
        """Return the last keys and cells, in order, up to a number of them."""
        node = self._objects.node(link.hash)
        if node.level == 0:
            return [*zip(node.keys, node.payloads, strict=True)][-count:] if count else []
        found: list[tuple[bytes, bytes]] = []
        for payload in reversed(node.payloads):
            found[:0] = self.last_items(read_link(payload), count - len(found))
            if len(found) >= count:
                break
        return found

    def items(self, link: Link, *, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and cells in order, from the first key that is not before `start`."""
        yield from self._items(self._objects.node(link.hash), start)

    def _items(self, node: Node, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of a node from a key on."""
        at = bisect_left(node.keys, start)
        if node.level == 0:
            yield from zip(node.keys[at:], node.payloads[at:], strict=True)
            return
        children = [Hash(payload[:32]) for payload in node.payloads[at:]]
        if node.level == 1:
            self._objects.prefetch(children)
        for key, hash in zip(node.keys[at:], children, strict=True):
            child = self._objects.child(node, hash)
            # No two children have one last key: none is entered twice, however they are linked.
            if child.keys[-1] != key:
                raise Corrupt("a node of a map does not end at its parent's key", hint=FSCK)
            yield from self._items(child, start)

    def diff(self, old: Link | None, new: Link | None) -> list[Difference]:
        """Return what differs, in key order, reading only nodes that the two do not share."""
        before, after = self._unshared(old, new)
        keys = sorted(before.keys() | after.keys())
        pairs = ((key, before.get(key), after.get(key)) for key in keys)
        found = [
            (key, old_cell, new_cell) for key, old_cell, new_cell in pairs if old_cell != new_cell
        ]
        # So that a walk into what differs ends: its parts take no more than the sizes at the top.
        check_parts(old, (cell for _, cell, _ in found if cell is not None))
        check_parts(new, (cell for _, _, cell in found if cell is not None))
        return found

    def _unshared(
        self, old: Link | None, new: Link | None
    ) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
        """Walk both trees down together, level by level, never entering what they share."""
        left, right = self._top(old), self._top(new)
        while True:
            if left.level == right.level:
                shared = set(left.hashes) & set(right.hashes)
                left, right = left.without(shared), right.without(shared)
            level = max(left.level, right.level)
            if level == 0 or not (left.hashes or right.hashes):
                return self._leaves(left), self._leaves(right)
            left, right = self._down(left, level), self._down(right, level)

    def _top(self, link: Link | None) -> _Row:
        return _Row(self._objects.node(link.hash).level, [link.hash]) if link else _Row(0, [])

    def _down(self, row: _Row, level: int) -> _Row:
        """Return the row below one of this level; a row further down waits for the other."""
        if row.level < level:
            return row
        nodes = self._objects.nodes(row.hashes)
        below = [Hash(entry[:32]) for node in nodes for entry in node.payloads]
        if len(set(below)) != len(below):
            raise Corrupt("a map links to one node twice", hint=FSCK)
        return _Row(level - 1, below)

    def _leaves(self, row: _Row) -> dict[bytes, bytes]:
        """Return the entries of the leaves of a row."""
        cells: dict[bytes, bytes] = {}
        for node in self._objects.nodes(row.hashes):
            cells.update(zip(node.keys, node.payloads, strict=True))
        return cells

    # Writing

    def build(self, items: Iterable[tuple[bytes, bytes]]) -> Link | None:
        """Return the tree of these items, which come in key order."""
        pairs = list(items)
        return self._grow(0, [key for key, _ in pairs], [cell for _, cell in pairs], None)

    def apply(self, link: Link | None, edits: list[Edit]) -> Link | None:
        """Return the tree with these edits, which come in key order; None if nothing is left."""
        if link is None:
            return self.build((key, cell) for key, cell in edits if cell is not None)
        if not edits:
            return link
        if len(edits) == 1 and (changed := self._replace(link, *edits[0])) is not None:
            return changed
        node = self._objects.node(link.hash)
        if node.level == 0:
            return self._grow(0, *_edited(node, edits), link.hash)
        keys, links = _split(self._joined(node, self._edit_children(node, edits)))
        if any(cell is None for _, cell in edits):
            return self._shrink(node.level, keys, links, link.hash)
        return self._grow(node.level, keys, links, link.hash)

    def _replace(self, link: Link, key: bytes, cell: bytes | None) -> Link | None:
        """Change the cell at a key that exists, where no node changes its shape; else return None.

        Most commits do only this, so it has a fast path: down to the leaf, and up again.
        """
        way: list[tuple[Link, Node, int]] = []
        node = self._objects.node(link.hash)
        while True:
            at = bisect_left(node.keys, key)
            if at == len(node.keys):
                return None
            way.append((link, node, at))
            if node.level == 0:
                break
            link = read_link(node.payloads[at])
            node = self._objects.node(link.hash)
        if cell is None or node.keys[at] != key:
            return None
        grown = entry_size(key, cell) - entry_size(key, node.payloads[at])
        changed = link
        for old, node, at in reversed(way):
            payloads = node.payloads.copy()
            payloads[at] = cell
            totals = (old.length, old.size + grown)
            changed = self._entry(node.level, node.keys, payloads, totals, old.hash)[1]
            cell = changed.encode()
        return changed

    def _grow(
        self, level: int, keys: list[bytes], payloads: list[bytes], base: Hash | None
    ) -> Link | None:
        """Build upwards from all entries of a level, which is the root's or below it (rule 3)."""
        while len(keys) > SMALL:
            entries = self._cut(level, keys, payloads, base)
            if len(entries) == 1:
                return entries[0][1]
            keys, payloads = _split(entries)
            level, base = level + 1, None
        return self._measured(level, keys, payloads, base)[1] if keys else None

    def _shrink(
        self, level: int, keys: list[bytes], links: list[bytes], base: Hash | None
    ) -> Link | None:
        """Go down from all entries of a level to the lowest level that is small (rule 3)."""
        while level and keys and len(keys) <= SMALL:
            below_keys: list[bytes] = []
            below: list[bytes] = []
            for link in links:
                node = self._objects.node(Hash(link[:32]))
                below_keys += node.keys
                below += node.payloads
                if len(below) > SMALL and len(links) > 1:
                    return self._grow(level, keys, links, base)
            keys, links, level = below_keys, below, level - 1
        return self._grow(level, keys, links, base)

    def _ends(self, key: bytes, level: int) -> bool:
        """Tell whether a key ends a node of this level (rule 1)."""
        return height(key, self._salt) > level

    def _edit(self, link: Link, edits: list[Edit]) -> list[LinkEntry]:
        """Return the nodes that take the place of one."""
        node = self._objects.node(link.hash)
        if node.level == 0:
            if len(edits) > _MANY_EDITS:
                return self._cut(0, *_edited(node, edits), link.hash)
            return self._edit_leaf(link, node, edits)
        changed = self._edit_children(node, edits)
        if all(len(new) == 1 and new[0][0] == node.keys[at] for at, new in changed):
            return [self._relink(link, node, changed)]
        return self._cut(node.level, *_split(self._joined(node, changed)), link.hash)

    def _edit_leaf(self, link: Link, node: Node, edits: list[Edit]) -> list[LinkEntry]:
        """Apply edits to a leaf; it is cut again only where a boundary may have changed."""
        keys, cells = node.keys.copy(), node.payloads.copy()
        count, size, recut = link.length, link.size, False
        for key, cell in edits:
            at = bisect_left(keys, key)
            present = at < len(keys) and keys[at] == key
            if present:
                size -= entry_size(key, cells[at])
            if cell is not None:
                size += entry_size(key, cell)
            if present and cell is not None:
                cells[at] = cell
            elif present:
                del keys[at], cells[at]
                count -= 1
            elif cell is not None:
                recut = recut or at == len(keys) or self._ends(key, 0)
                keys.insert(at, key)
                cells.insert(at, cell)
                count += 1
        if recut:
            return self._cut(0, keys, cells, link.hash)
        return [self._entry(0, keys, cells, (count, size), link.hash)] if keys else []

    def _edit_children(self, node: Node, edits: list[Edit]) -> list[tuple[int, list[LinkEntry]]]:
        """Edit the children that edits belong to; the last child takes what is beyond its key."""
        changed: list[tuple[int, list[LinkEntry]]] = []
        last, start = len(node.keys) - 1, 0
        while start < len(edits):
            at = min(bisect_left(node.keys, edits[start][0]), last)
            stop = len(edits)
            if at < last:
                stop = bisect_left(edits, (node.keys[at] + b"\0",), lo=start)
            changed.append((at, self._edit(read_link(node.payloads[at]), edits[start:stop])))
            start = stop
        return changed

    def _joined(self, node: Node, changed: list[tuple[int, list[LinkEntry]]]) -> list[LinkEntry]:
        """Return the children of a node, with the changed ones in their places and none open."""
        entries: list[LinkEntry] = []
        done = 0
        for at, new in changed:
            entries += _link_entries(node, done, at)
            entries += new
            done = at + 1
        entries += _link_entries(node, done)
        return self._join(entries, node.level)

    def _relink(
        self, link: Link, node: Node, changed: list[tuple[int, list[LinkEntry]]]
    ) -> LinkEntry:
        """Replace children whose last keys stayed, which keeps the shape of this node."""
        payloads = node.payloads.copy()
        count, size = link.length, link.size
        for at, new in changed:
            before, after = read_link(payloads[at]), new[0][1]
            count += after.length - before.length
            size += after.size - before.size
            payloads[at] = after.encode()
        return self._entry(node.level, node.keys, payloads, (count, size), link.hash)

    def _join(self, entries: list[LinkEntry], level: int) -> list[LinkEntry]:
        """Join children of a node of this level that were left open with what follows them."""
        joined: list[LinkEntry] = []
        for entry in entries:
            if joined and not self._ends(joined[-1][0], level - 1):
                joined[-1] = self._fuse(joined[-1], entry, level - 1)
            else:
                joined.append(entry)
        return joined

    def _fuse(self, left: LinkEntry, right: LinkEntry, level: int) -> LinkEntry:
        """Join two neighbouring nodes into one."""
        a, b = self._objects.node(left[1].hash), self._objects.node(right[1].hash)
        keys, payloads = a.keys + b.keys, a.payloads + b.payloads
        count, size = left[1].length + right[1].length, left[1].size + right[1].size
        if level:
            children = self._join(_link_entries(a) + _link_entries(b), level)
            keys, payloads = _split(children)
        return self._entry(level, keys, payloads, (count, size), left[1].hash)

    def _cut(
        self, level: int, keys: list[bytes], payloads: list[bytes], base: Hash | None
    ) -> list[LinkEntry]:
        """Write entries of a level as nodes, cut where rule 1 demands it."""
        ends = [at + 1 for at, key in enumerate(keys[:-1]) if self._ends(key, level)]
        return [
            self._measured(level, keys[start:stop], payloads[start:stop], base)
            for start, stop in pairwise([0, *ends, len(keys)])
            if start < stop
        ]

    def _measured(
        self, level: int, keys: list[bytes], payloads: list[bytes], base: Hash | None
    ) -> LinkEntry:
        """Write a node whose count and size are not known yet."""
        if level == 0:
            totals = len(keys), sum(map(entry_size, keys, payloads))
        else:
            links = [read_link(payload) for payload in payloads]
            totals = sum(link.length for link in links), sum(link.size for link in links)
        return self._entry(level, keys, payloads, totals, base)

    def _entry(
        self,
        level: int,
        keys: list[bytes],
        payloads: list[bytes],
        totals: tuple[int, int],
        base: Hash | None,
    ) -> LinkEntry:
        """Write a node; `totals` are the elements and encoded bytes below it."""
        hash = self._objects.put_node(MAP, level, keys, payloads, base=base)
        return keys[-1], Link(hash, *totals)


def _split(entries: list[LinkEntry]) -> tuple[list[bytes], list[bytes]]:
    """Return the keys of entries, and their links as they stand in a node."""
    return [key for key, _ in entries], [link.encode() for _, link in entries]


def _edited(node: Node, edits: list[Edit]) -> tuple[list[bytes], list[bytes]]:
    """Return the keys and cells of a leaf with edits applied all at once."""
    cells = dict(zip(node.keys, node.payloads, strict=True))
    for key, cell in edits:
        if cell is None:
            cells.pop(key, None)
        else:
            cells[key] = cell
    keys = sorted(cells)
    return keys, [cells[key] for key in keys]


def _link_entries(node: Node, start: int = 0, stop: int | None = None) -> list[LinkEntry]:
    """Return children of a node, with their links decoded."""
    pairs = zip(node.keys[start:stop], node.payloads[start:stop], strict=True)
    return [(key, read_link(payload)) for key, payload in pairs]
