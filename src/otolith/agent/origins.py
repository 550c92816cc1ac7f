"""Which commit each event came with, found by walking back from the head and remembered.

The id of a commit is a hash over its events, so no event can hold it. A *span* is a run of events
that one commit contains, at a distance: at first all of them, in the head. To look at a span one
step closer is to hand what a parent contains as well on to the parent; what no parent contains
came with the commit itself. Only the span in question is looked at closer, so asking about
recent events reads recent history.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from otolith.core import EVENTS, Cells, Commit, decode_commit, list_middle
from otolith.types import Hash

_KEY = EVENTS.encode()


class Run(NamedTuple):
    """Elements `start` to `stop` of a list; in an earlier one they are `shift` places before."""

    start: int
    stop: int
    shift: int


class Shared(NamedTuple):
    """What a list has in common with an earlier one: its front, its end, and a run in between."""

    front: Run
    between: Run
    end: Run

    def place(self, index: int) -> int | None:
        """Return where an element of the later list is in the earlier one."""
        return next((index - run.shift for run in self if run.start <= index < run.stop), None)


def all_of(length: int) -> Shared:
    """Return what a list has in common with itself."""
    return Shared(Run(0, length, 0), Run(length, length, 0), Run(length, length, 0))


def shared(cells: Cells, old: bytes | None, new: bytes) -> Shared:
    """Return what a list has in common with an earlier one, None if there was none."""
    length = cells.length(new)
    if old is None:
        return Shared(Run(0, 0, 0), Run(0, 0, 0), Run(length, length, 0))
    if cells.same(old, new):
        return all_of(length)
    start, before, after = list_middle(cells, old, new)
    ahead = _alike(before, after)  # short lists have not been stripped of their ends
    before, after, start = before[ahead:], after[ahead:], start + ahead
    back = _alike(before[::-1], after[::-1])
    stop = start + len(after) - back
    end = Run(stop, length, len(after) - len(before))
    # After a merge, what the later side has is followed by what came since.
    at = _found(before[: len(before) - back], after[: len(after) - back])
    between = Run(stop, stop, 0)
    if at is not None:
        between = Run(start + at, start + at + len(before) - back, at)
    return Shared(Run(0, start, 0), between, end)


def _found(run: list[bytes], items: list[bytes]) -> int | None:
    """Return where a run of elements is in a list."""
    places = range(len(items) - len(run) + 1) if run else ()
    return next((at for at in places if items[at : at + len(run)] == run), None)


def _alike(one: list[bytes], other: list[bytes]) -> int:
    """Return how many elements two lists begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


class _Span(NamedTuple):
    """Events `start` to `stop` of the tip; in the commit they are `shift` places before."""

    start: int
    stop: int
    id: str
    shift: int = 0
    commit: Commit | None = None  # None if it is settled that they came with it


class Origins:
    """The spans of one state, from its head."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._tip = ""
        self._spans: list[_Span] = []  # the latest first: those that are looked at are at the end
        self._older: tuple[str, list[_Span]] = "", []

    def log(self, commit: Commit) -> bytes | None:
        """Return the list of events of a commit."""
        return self._cells.entry(commit.cell, _KEY)

    def find(self, tip: Commit, index: int) -> str:
        """Return the id of the commit that an event of this one came with."""
        if tip.id != self._tip:
            self._start(tip)
        while True:
            at = bisect_left(self._spans, -index, key=lambda span: -span.start)
            span = self._spans[at]
            if span.commit is None:
                return span.id
            self._spans[at : at + 1] = sorted(self._closer(span, span.commit), reverse=True)

    def _start(self, tip: Commit) -> None:
        cell = self.log(tip)
        length = 0 if cell is None else self._cells.length(cell)
        self._older = self._tip, self._spans
        self._tip, self._spans = tip.id, [_Span(0, length, tip.id, commit=tip)]

    def _closer(self, span: _Span, commit: Commit) -> Iterator[_Span]:
        """Yield what becomes of a span: its parts in the parents, and what is in none of them."""
        cell = self.log(commit)
        rest = [(span.start, span.stop)]
        for id in commit.parents if cell is not None else ():
            parent = decode_commit(hash := Hash(bytes.fromhex(id)), self._cells.objects.data(hash))
            for run in self._shared(commit, self.log(parent), cell or b""):
                shift = span.shift + run.shift
                part = _Span(span.shift + run.start, span.shift + run.stop, id, shift, parent)
                inherited, rest = _cut(rest, part)
                for start, stop in inherited:
                    yield from self._known(part._replace(start=start, stop=stop))
        yield from (_Span(start, stop, commit.id) for start, stop in rest)

    def _shared(self, commit: Commit, old: bytes | None, new: bytes) -> Shared:
        """Return what a commit's events have in common with a parent's; a step only appends."""
        if old is None or len(commit.parents) > 1 or commit.kind == "rollback":
            return shared(self._cells, old, new)
        return all_of(min(self._cells.length(old), self._cells.length(new)))

    def _known(self, span: _Span) -> Iterator[_Span]:
        """Yield a span, or what is known of it already from when its commit was the tip."""
        id, spans = self._older
        if id != span.id:
            yield span
            return
        for old in spans:
            start, stop = old.start + span.shift, old.stop + span.shift
            start, stop = max(start, span.start), min(stop, span.stop)
            if start < stop:
                yield old._replace(start=start, stop=stop, shift=old.shift + span.shift)


def _cut(
    ranges: list[tuple[int, int]], part: _Span
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Split ranges into what is inside a part, and what is not."""
    inside: list[tuple[int, int]] = []
    outside: list[tuple[int, int]] = []
    for start, stop in ranges:
        first, last = max(start, part.start), min(stop, part.stop)
        if first >= last:
            outside.append((start, stop))
            continue
        inside.append((first, last))
        outside += [(a, b) for a, b in ((start, first), (last, stop)) if a < b]
    return inside, outside
