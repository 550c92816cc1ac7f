"""The persistent list: get, slice, splice, compare; long lists share all but what changed.

Rule 1: a node ends after an element whose salted hash ends in five zero bits, once it has at
least 8 entries, and in any case after 128. The count starts anew at each node.
Rule 2: the links to the nodes of a level are the elements of the level above.
Rule 3: a root has more than one entry, or is a leaf.

Theory of operation. A node's end depends on its own entries only, so once an edit's new nodes end
where an old node ended, everything after is as it was. `splice` starts at the node that holds
the first changed element, feeds it what stays, what is new and what follows, and stops at the
first such meeting point. The links that changed are a splice of the level above.

A *measure* says what an element of level 0 counts for: a list element counts one, a chunk of a
blob counts its bytes. That is the only difference between the two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from otolith.core.trees.layout import Link, Node, check_size, full_size, is_cut, read_link
from otolith.core.trees.objects import Buffer, Objects
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


class Middle(NamedTuple):
    """What is left of two lists once their common ends are taken off."""

    start: int
    old: list[bytes]
    new: list[bytes]


class SequenceReader:
    """Reads sequences."""

    def __init__(self, objects: Objects | Buffer, *, measure: Measure = one_element) -> None:
        self._objects = objects
        self._measure = measure

    def items(self, link: Link, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the elements that overlap this range of the count."""
        stop = link.length if stop is None else min(stop, link.length)
        if start < stop:
            yield from self._items(self._objects.node(link.hash), start, stop)

    def _items(self, node: Node, start: int, stop: int) -> Iterator[bytes]:
        ends = self.offsets(node)
        first, last = bisect_right(ends, start), bisect_right(ends, stop - 1)
        if node.level == 0:
            yield from node.payloads[first : last + 1]
            return
        children = [Hash(payload[:32]) for payload in node.payloads[first : last + 1]]
        if node.level == 1:
            self._objects.prefetch(children)
        for at, child in enumerate(children, first):
            before = ends[at - 1] if at else 0
            yield from self._items(
                self._objects.child(node, child),
                max(start - before, 0),
                min(stop, ends[at]) - before,
            )

    def offsets(self, node: Node) -> list[int]:
        """Return where each entry of a node ends."""
        if node.offsets is None:
            measure = self._measure if node.level == 0 else chunk_bytes
            counts = [measure(payload)[0] for payload in node.payloads]
            if 0 in counts:
                raise Corrupt("a node of a list has nothing below it", hint="run otolith fsck")
            node.offsets = list(accumulate(counts))
        return node.offsets

    def middle(self, old: Link | None, new: Link | None) -> Middle:
        """Take off what two sequences share at both ends, without reading it."""
        left, right = _Front.of(self._objects, old), _Front.of(self._objects, new)
        start = 0
        while True:
            if left.level == right.level:
                start += _strip(left, right, self._measure if left.level < 0 else chunk_bytes)
            for front, link in ((left, old), (right, new)):
                self._check(front, link)
            if left.level < 0 and right.level < 0:
                return Middle(start, left.items, right.items)
            tallest = max(left.level, right.level)
            left, right = left.down(tallest), right.down(tallest)

    def _check(self, front: _Front, link: Link | None) -> None:
        """Refuse what is longer than it says, or than could be held."""
        measures = [(self._measure if front.level < 0 else chunk_bytes)(it) for it in front.items]
        check_size(link, sum(size for _, size in measures))
        count, most = sum(count for count, _ in measures), self._objects.load_limit_bytes
        if self._measure is one_element and count * ELEMENT_BYTES > most:
            raise TooLarge(
                f"{count} elements differ, which take more than {most} bytes to compare",
                hint="open the repo with a higher load_limit_bytes",
            )


class _Front:
    """The entries of one level of a sequence; level -1 are its elements."""

    def __init__(self, objects: Objects | Buffer, level: int, items: list[bytes]) -> None:
        self._objects = objects
        self.level = level
        self.items = items

    @classmethod
    def of(cls, objects: Objects | Buffer, link: Link | None) -> _Front:
        if link is None:
            return cls(objects, -1, [])
        return cls(objects, objects.node(link.hash).level, [link.encode()])

    def down(self, tallest: int) -> _Front:
        if self.level < tallest or self.level < 0:
            return self
        nodes = self._objects.nodes([Hash(item[:32]) for item in self.items])
        below = [payload for node in nodes for payload in node.payloads]
        return _Front(self._objects, self.level - 1, below)


def _strip(left: _Front, right: _Front, measure: Measure) -> int:
    """Drop equal entries from both ends; return what those at the front count for."""
    a, b = left.items, right.items
    front = 0
    most = min(len(a), len(b))
    while front < most and a[front] == b[front]:
        front += 1
    back = 0
    while back < most - front and a[-1 - back] == b[-1 - back]:
        back += 1
    counted = sum(measure(item)[0] for item in a[:front])
    left.items, right.items = a[front : len(a) - back], b[front : len(b) - back]
    return counted


class Sequence(SequenceReader):
    """Builds and edits sequences into a buffer of new objects."""

    def __init__(
        self, objects: Buffer, salt: int, *, kind: bytes, measure: Measure = one_element
    ) -> None:
        super().__init__(objects, measure=measure)
        self._buffer = objects
        self._salt = salt
        self._kind = kind

    def build(self, items: Iterable[bytes]) -> Link | None:
        """Return the sequence of these elements."""
        run = _Run(self, 0, None)
        run.feed(items)
        return self._root(run.close(), 0)

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
        first, last = left[depth], right[depth]
        run = _Run(self, first.node.level, first.link.hash)
        run.resume(first)
        run.feed(items)
        run.feed(last.node.payloads[last.at + (1 if last.node.level else 0) :])
        while run.is_open and (following := self._advance(right, depth)) is not None:
            run.feed(following.payloads)
        return run.close()

    def _path(self, link: Link, position: int) -> list[_Step]:
        """Walk to a position; one past the last element is at the end of the last node."""
        steps: list[_Step] = []
        while True:
            node = self._objects.node(link.hash)
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
            path[level] = _Step(link, self._objects.node(link.hash), 0)
        return path[depth].node

    def _root(self, links: list[bytes], level: int) -> Link | None:
        if not links:
            return None
        while len(links) > 1:
            level += 1
            run = _Run(self, level, None)
            run.feed(links)
            links = run.close()
        link = read_link(links[0])
        node = self._objects.node(link.hash)
        while node.level and len(node.payloads) == 1:
            link = read_link(node.payloads[0])
            node = self._objects.node(link.hash)
        return link

    def measure_at(self, level: int) -> Measure:
        """Return how to measure an entry of this level."""
        return self._measure if level == 0 else chunk_bytes

    def ends(self, item: bytes, length: int) -> bool:
        """Tell whether a node of this length ends after this entry."""
        return ends_node(item, length, self._salt)

    def put(
        self, level: int, payloads: list[bytes], *, offsets: list[int], base: Hash | None
    ) -> Hash:
        """Write one node, whose entries end at these offsets."""
        return self._buffer.put_node(self._kind, level, [], payloads, offsets=offsets, base=base)


class _Run:
    """Cuts a stream of entries of one level into nodes."""

    def __init__(self, tree: Sequence, level: int, base: Hash | None) -> None:
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
        return bool(self._open)

    def resume(self, step: _Step) -> None:
        """Start with the entries of an old node that stay: they hold no end, except the last."""
        node, at = step.node, step.at
        self._open, self._offsets = node.payloads[:at], self._tree.offsets(node)[:at]
        self._length = self._offsets[-1] if at else 0
        self._size = step.link.size - self._weight(node.payloads[at:])
        if at == len(node.payloads) and self._tree.ends(self._open[-1], at):
            self._end()

    def feed(self, items: Iterable[bytes]) -> None:
        for item in items:
            count, size = self._measure(item)
            self._length += count
            self._size += size
            self._open.append(item)
            self._offsets.append(self._length)
            if self._tree.ends(item, len(self._open)):
                self._end()

    def close(self) -> list[bytes]:
        """Return the links to all nodes; what is still open is the last one."""
        if self._open:
            self._end()
        return self._links

    def _weight(self, items: list[bytes]) -> int:
        return sum(self._measure(item)[1] for item in items)

    def _end(self) -> None:
        hash = self._tree.put(self._level, self._open, offsets=self._offsets, base=self._base)
        self._links.append(Link(hash, self._length, self._size).encode())
        self._open, self._offsets = [], []
        self._length = self._size = 0
