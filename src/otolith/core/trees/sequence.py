"""The persistent list: get, slice, splice, compare; long lists share all but what changed.

Rule 1: a node ends after an element whose salted hash ends in five zero bits, once it has at
least 8 entries, and in any case after 128. The count restarts at each node.
Rule 2: the links to the nodes of a level are the elements of the level above.
Rule 3: a root has more than one entry, or is a leaf.

Theory of operation. A node's end depends on its own entries only, so once an edit's new nodes end
where an old node ended, everything after it is unchanged. `splice` starts at the node that holds
the first changed element, feeds it what stays, what is new and what follows, and stops at the
first such meeting point. The links that changed are a splice of the level above.

A *measure* returns what an element of level 0 counts for: a list element counts one, a chunk of a
blob counts its bytes. That is the only difference between the two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from otolith.core.trees.encoding import FSCK
from otolith.core.trees.layout import Link, Node, check_size, full_size, is_cut, read_link
from otolith.core.trees.objects import Buffer
from otolith.errors import Corrupt, TooLarge
from otolith.types import Hash

SHORTEST, LONGEST = 8, 128
ELEMENT_BYTES = 64  # what the cell of an element takes in memory, at least

Measure: TypeAlias = Callable[[bytes], tuple[int, int]]
"""What one element counts for, and how many bytes its full encoding takes."""


def one_element(cell: bytes) -> tuple[int, int]:
    """Measure an element of a list."""
    return 1, full_size(cell)


def chunk_bytes(link: bytes) -> tuple[int, int]:
    """Measure a chunk of a blob, or a node of any sequence."""
    _, count, size = read_link(link)
    return count, size


def ends_node(item: bytes, length: int, salt: int) -> bool:
    """Tell whether a node of this length ends after this entry (rule 1)."""
    return length >= LONGEST or (length >= SHORTEST and is_cut(item, salt))


class _Step(NamedTuple):
    """One node on the way from a root to a position, and the entry taken there."""

    link: Link
    node: Node
    at: int


class _Row(NamedTuple):
    """Entries of one level of a sequence; those of level -1 are its elements."""

    level: int
    items: list[bytes]


class Sequence:
    """Reads sequences, and builds new ones into a buffer of objects."""

    def __init__(
        self, objects: Buffer, salt: int, *, kind: bytes, measure: Measure = one_element
    ) -> None:
        self.objects = objects
        self.salt = salt
        self.kind = kind
        self._measure = measure

    def measure_at(self, level: int) -> Measure:
        """Return how entries of nodes of this level are measured."""
        return self._measure if level == 0 else chunk_bytes

    # Reading

    def items(self, link: Link, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the elements that overlap this range of the count."""
        stop = link.length if stop is None else min(stop, link.length)
        if start < stop:
            yield from self._items(self.objects.node(link.hash), start, stop)

    def _items(self, node: Node, start: int, stop: int) -> Iterator[bytes]:
        """Yield the elements of a node in a range."""
        ends = self.offsets(node)
        first, last = bisect_right(ends, start), bisect_right(ends, stop - 1)
        if node.level == 0:
            yield from node.payloads[first : last + 1]
            return
        children = [Hash(payload[:32]) for payload in node.payloads[first : last + 1]]
        if node.level == 1:
            self.objects.prefetch(children)
        for at, hash in enumerate(children, first):
            before = ends[at - 1] if at else 0
            child = self.objects.child(node, hash)
            yield from self._items(child, max(start - before, 0), min(stop, ends[at]) - before)

    def offsets(self, node: Node) -> list[int]:
        """Return where each entry of a node ends."""
        if node.offsets is None:
            measure = self.measure_at(node.level)
            counts = [measure(payload)[0] for payload in node.payloads]
            if 0 in counts:
                raise Corrupt("a node of a list has nothing below it", hint=FSCK)
            node.offsets = list(accumulate(counts))
        return node.offsets

    def middle(self, old: Link | None, new: Link | None) -> tuple[int, list[bytes], list[bytes]]:
        """Return where two sequences begin to differ, and what each has up to their common end.

        What they share at both ends is not read.
        """
        left, right = self._top(old), self._top(new)
        start = 0
        while True:
            if left.level == right.level:
                measure = self.measure_at(left.level + 1)
                front, left, right = _without_shared_ends(left, right)
                start += sum(measure(item)[0] for item in front)
            self._check(left, old)
            self._check(right, new)
            if left.level < 0 and right.level < 0:
                return start, left.items, right.items
            tallest = max(left.level, right.level)
            left, right = self._down(left, tallest), self._down(right, tallest)

    def _top(self, link: Link | None) -> _Row:
        if link is None:
            return _Row(-1, [])
        return _Row(self.objects.node(link.hash).level, [link.encode()])

    def _down(self, row: _Row, level: int) -> _Row:
        """Return the row below one of this level; a row further down waits for the other."""
        if row.level < level or row.level < 0:
            return row
        nodes = self.objects.nodes([Hash(item[:32]) for item in row.items])
        return _Row(level - 1, [payload for node in nodes for payload in node.payloads])

    def _check(self, row: _Row, link: Link | None) -> None:
        """Refuse what takes more bytes than its link claims, or than memory may hold."""
        measures = list(map(self.measure_at(row.level + 1), row.items))
        check_size(link, sum(size for _, size in measures))
        count, most = sum(count for count, _ in measures), self.objects.load_limit_bytes
        if self._measure is one_element and count * ELEMENT_BYTES > most:
            raise TooLarge(
                f"{count} elements differ, which take more than {most} bytes to compare",
                hint="open the repo with a higher load_limit_bytes",
            )

    # Writing

    def build(self, items: Iterable[bytes]) -> Link | None:
        """Return the sequence of these elements, or None if there are none."""
        return self._root(_NodeWriter(self, 0).write(items), 0)

    def splice(self, link: Link | None, start: int, stop: int, items: list[bytes]) -> Link | None:
        """Return the sequence with the elements from `start` to `stop` replaced by these.

        Both are counts, and lie between elements.
        """
        if link is None or (start == 0 and stop == link.length):
            return self.build(items)
        left, right = self._path(link, start), self._path(link, stop)
        for depth in reversed(range(len(left))):
            items = self._splice_level(left, right, depth, items)
        return self._root(items, left[0].node.level)

    def _splice_level(
        self, left: list[_Step], right: list[_Step], depth: int, items: list[bytes]
    ) -> list[bytes]:
        """Return the links to the nodes of one level that take the place of those on the paths."""
        first, last = left[depth], right[depth]
        writer = _NodeWriter(self, first.node.level, base=first.link.hash)
        writer.resume(first)
        writer.feed(items)
        writer.feed(last.node.payloads[last.at + (1 if last.node.level else 0) :])
        while writer.is_open and (following := self._advance(right, depth)) is not None:
            writer.feed(following.payloads)
        return writer.write(())

    def _path(self, link: Link, position: int) -> list[_Step]:
        """Walk to a position; one past the last element is at the end of the last node."""
        steps: list[_Step] = []
        while True:
            node = self.objects.node(link.hash)
            ends = self.offsets(node)
            at = bisect_right(ends, position)
            if node.level == 0:
                return [*steps, _Step(link, node, at)]
            at = min(at, len(ends) - 1)
            steps.append(_Step(link, node, at))
            position -= ends[at - 1] if at else 0
            link = read_link(node.payloads[at])

    def _advance(self, path: list[_Step], depth: int) -> Node | None:
        """Move a path to the next node at this depth; the levels above move with it."""
        up = depth - 1
        while up >= 0 and path[up].at + 1 == len(path[up].node.payloads):
            up -= 1
        if up < 0:
            return None
        path[up] = path[up]._replace(at=path[up].at + 1)
        for level in range(up + 1, depth + 1):
            parent = path[level - 1]
            link = read_link(parent.node.payloads[parent.at])
            path[level] = _Step(link, self.objects.node(link.hash), 0)
        return path[depth].node

    def _root(self, links: list[bytes], level: int) -> Link | None:
        """Return the root over the nodes of a level (rules 2 and 3)."""
        if not links:
            return None
        while len(links) > 1:
            level += 1
            links = _NodeWriter(self, level).write(links)
        link = read_link(links[0])
        node = self.objects.node(link.hash)
        while node.level and len(node.payloads) == 1:
            link = read_link(node.payloads[0])
            node = self.objects.node(link.hash)
        return link


def _without_shared_ends(left: _Row, right: _Row) -> tuple[list[bytes], _Row, _Row]:
    """Return the entries that two rows share at their front, and both without what they share."""
    a, b = left.items, right.items
    most = min(len(a), len(b))
    front = back = 0
    while front < most and a[front] == b[front]:
        front += 1
    while back < most - front and a[-1 - back] == b[-1 - back]:
        back += 1
    level = left.level
    return a[:front], _Row(level, a[front : len(a) - back]), _Row(level, b[front : len(b) - back])


class _NodeWriter:
    """Cuts a stream of entries of one level into nodes."""

    def __init__(self, tree: Sequence, level: int, *, base: Hash | None = None) -> None:
        self._tree = tree
        self._level = level
        self._base = base
        self._measure = tree.measure_at(level)
        self._links: list[bytes] = []
        self._open: list[bytes] = []
        self._offsets: list[int] = []
        self._length = self._size = 0

    @property
    def is_open(self) -> bool:
        """Whether the last node has not ended yet."""
        return bool(self._open)

    def resume(self, step: _Step) -> None:
        """Start with the entries of an old node that stay; only the last of them may be an end."""
        node, at = step.node, step.at
        self._open, self._offsets = node.payloads[:at], self._tree.offsets(node)[:at]
        self._length = self._offsets[-1] if at else 0
        self._size = step.link.size - sum(self._measure(item)[1] for item in node.payloads[at:])
        if at == len(node.payloads) and ends_node(self._open[-1], at, self._tree.salt):
            self._end()

    def feed(self, items: Iterable[bytes]) -> None:
        """Add entries; nodes end where rule 1 demands it."""
        for item in items:
            count, size = self._measure(item)
            self._length += count
            self._size += size
            self._open.append(item)
            self._offsets.append(self._length)
            if ends_node(item, len(self._open), self._tree.salt):
                self._end()

    def write(self, items: Iterable[bytes]) -> list[bytes]:
        """Add the last entries, end the last node, and return the links to all nodes."""
        self.feed(items)
        if self._open:
            self._end()
        return self._links

    def _end(self) -> None:
        """Write the open node, and add its link to the level above."""
        hash = self._tree.objects.put_node(
            self._tree.kind, self._level, [], self._open, offsets=self._offsets, base=self._base
        )
        self._links.append(Link(hash, self._length, self._size).encode())
        self._open, self._offsets = [], []
        self._length = self._size = 0
