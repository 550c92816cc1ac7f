"""Two edits of one list, joined by trying every pair of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from otolith.codecs import identical
from otolith.testing.model.changes import Edit, edits


def brute_list_merge(
    base: list[Any], ours: list[Any], theirs: list[Any], *, ours_first: bool, keep_twins: bool
) -> list[Any] | None:
    """Return a list with the edits of both sides, or None if they cannot be told apart."""
    first, second = (ours, theirs) if ours_first else (theirs, ours)
    if keep_twins and (_moved(base, ours) or _moved(base, theirs)):
        return _by_content(base, first, second)
    merged = by_place(base, ours, theirs, ours_first=ours_first, keep_twins=keep_twins)
    both = _moved(base, ours) & _moved(base, theirs)
    if merged is None or any(_bag(merged)[part] > _bag(base)[part] for part in both):
        return None
    return merged


def by_place(
    base: list[Any], ours: list[Any], theirs: list[Any], *, ours_first: bool, keep_twins: bool
) -> list[Any] | None:
    """Return a list with the edits of both sides where they were made; None if two overlap."""
    mine, yours = edits(base, ours), edits(base, theirs)
    if any(_clash(a, b) for a in mine for b in yours):
        return None
    merged: list[Any] = []
    at = 0
    while at <= len(base):
        sides = [mine, yours] if ours_first else [yours, mine]
        new = [edit.new for side in sides for edit in side if edit.start == edit.stop == at]
        if len(new) == 2 and identical(new[0], new[1]) and not keep_twins:
            new.pop()
        merged += [part for parts in new for part in parts]
        cut = next((edit for edit in mine + yours if edit.start == at < edit.stop), None)
        merged += base[at : at + 1] if cut is None else cut.new
        at = at + 1 if cut is None else cut.stop
    return merged


def _clash(a: Edit, b: Edit) -> bool:
    if a.start == a.stop and b.start == b.stop:
        return False
    if (a.start, a.stop) == (b.start, b.stop):
        return not identical(a.new, b.new)
    if a.start == a.stop or b.start == b.stop:
        insert, cut = (a, b) if a.start == a.stop else (b, a)
        return cut.start < insert.start < cut.stop
    return max(a.start, b.start) < min(a.stop, b.stop)


def _moved(base: list[Any], side: list[Any]) -> Counter[str]:
    """Return the elements that an edit removes and another one puts back."""
    some = edits(base, side)
    removed = [part for edit in some for part in base[edit.start : edit.stop]]
    return _bag(removed) & _bag([part for edit in some for part in edit.new])


def _by_content(base: list[Any], first: list[Any], second: list[Any]) -> list[Any]:
    """Return the first list, with what the second has more, and without what it has less."""
    known, other = _bag(base), _bag(second)
    gone, more = known - other, other - known
    merged = [part for part in first if not _take(gone, part)]
    fresh = [part for edit in edits(base, second) for part in edit.new]
    moved = _moved(base, second)
    extra = [part for part in fresh if not _take(moved, part)]
    return merged + [part for part in extra if _take(more, part)]


def _bag(parts: list[Any]) -> Counter[str]:
    return Counter(map(repr, parts))


def _take(bag: Counter[str], part: Any) -> bool:
    found = bag[repr(part)] > 0
    bag[repr(part)] -= found
    return found
