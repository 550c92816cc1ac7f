"""Fingerprints of the parts of a long container, a few dozen parts to a mark.

A mark covers a run of parts. When the container is looked at again, the parts before and after
what was put in or taken out are found by identity; their marks are made anew and compared, and
where they differ some part has changed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import is_
from typing import NamedTuple, TypeAlias

RUN = 64
"""So many parts have one mark."""

MarkOf: TypeAlias = Callable[[int, int], "int | None"]
"""Returns the fingerprint of the parts from one position to another."""


class Mark(NamedTuple):
    """The fingerprint of a run of parts; without one, the run counts as changed."""

    length: int
    print: int | None


class Dirt(NamedTuple):
    """Parts that may have changed: where they were, where they are, and their marks of today."""

    start: int
    stop: int
    new_start: int
    new_stop: int
    marks: list[Mark]


def marks(start: int, stop: int, mark_of: MarkOf) -> list[Mark]:
    """Return the marks of the parts from one position to another."""
    ends = [(at, min(at + RUN, stop)) for at in range(start, stop, RUN)]
    return [Mark(end - at, mark_of(at, end)) for at, end in ends]


def unmarked(old: list[Mark], positions: Collection[int]) -> list[Mark]:
    """Return marks of which those that cover these positions are forgotten."""
    if not positions:
        return old
    fresh: list[Mark] = []
    start = 0
    for mark in old:
        stop = start + mark.length
        hit = any(start <= at < stop for at in positions)
        fresh.append(Mark(mark.length, None) if hit else mark)
        start = stop
    return fresh


def common_ends(old: list[object], new: list[object]) -> tuple[int, int]:
    """Return how many parts are the same at the beginning and, of the rest, at the end."""
    shorter = min(len(old), len(new))
    start = _same(old, new, shorter)
    end = _same(old[::-1], new[::-1], shorter - start) if start < shorter else 0
    return start, end


def _same(old: list[object], new: list[object], most: int) -> int:
    found = list(map(is_, old[:most], new[:most]))
    return found.index(False) if False in found else most


def look_again(
    old: list[Mark], ends: tuple[int, int], lengths: tuple[int, int], mark_of: MarkOf
) -> tuple[list[Mark], list[Dirt]]:
    """Return the marks of today, and the parts that may have changed, in order.

    `ends` are the parts known to be the same objects at the beginning and at the end, `lengths`
    the number of all parts then and now.
    """
    (start, end), (before, now) = ends, lengths
    if start == before == now <= RUN and len(old) == 1:
        today = Mark(now, mark_of(0, now))
        if today == old[0] and today.print is not None:
            return old, []  # the most frequent case, without the ado
    shift = now - before
    is_edited = start + end < max(before, now)
    head, tail = list[tuple[int, Mark]](), list[tuple[int, Mark]]()
    first, last = start, before - end
    at = 0
    for mark in old:
        stop = at + mark.length
        # A short run next to an edit joins it, or appending one by one would leave runs of one.
        is_short = is_edited and stop == start and mark.length < RUN // 2
        if stop <= start and not is_short:
            head.append((at, mark))
        elif at >= before - end:
            tail.append((at, mark))
        else:
            first, last = min(first, at), max(last, stop)
        at = stop
    fresh, dirt = list[Mark](), list[Dirt]()
    _compare(head, 0, mark_of, fresh, dirt)
    if is_edited:
        middle = marks(first, last + shift, mark_of)
        fresh += middle
        dirt.append(Dirt(first, last, first, last + shift, middle))
    _compare(tail, shift, mark_of, fresh, dirt)
    return fresh, dirt


def _compare(
    old: list[tuple[int, Mark]], shift: int, mark_of: MarkOf, fresh: list[Mark], dirt: list[Dirt]
) -> None:
    for at, mark in old:
        start, stop = at + shift, at + shift + mark.length
        today = Mark(mark.length, mark_of(start, stop))
        fresh.append(today)
        if today.print is None or today != mark:
            dirt.append(Dirt(at, at + mark.length, start, stop, [today]))
