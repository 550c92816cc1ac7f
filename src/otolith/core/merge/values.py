"""Merge policies that look inside a value: counters, extremes, lists, texts, and user functions.

`ValueMerger` takes the cells of base (None if absent), ours and theirs, and returns the cell of
the merged value, or raises `NoDecision`. Lists and texts are merged as edits of one sequence: each
side is a list of replacements of base elements, and `combine` interleaves the two lists.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, localcontext
from difflib import SequenceMatcher
from typing import Any, TypeVar

from otolith.core.merge.diff import list_hunks
from otolith.core.merge.policies import CALL, Resolver
from otolith.core.trees.cells import EMPTY_LIST, Cells

Part = TypeVar("Part")
Edit = tuple[int, int, list[Part]]
"""Elements `start` to `stop` of the base, and what replaced them."""

_EXACT = Context(prec=1000, traps=[Inexact, InvalidOperation, Overflow])
"""Adds decimals without rounding, whatever context this thread has set for itself."""


class NoDecision(Exception):
    """The policy has no answer; the message is the reason."""


class ValueMerger:
    """Merges two values that both sides changed, by the policy of their path."""

    def __init__(
        self, cells: Cells, resolvers: Mapping[str, Resolver], *, ours_first: bool
    ) -> None:
        self._cells = cells
        self._resolvers = resolvers
        self._ours_first = ours_first

    def merge(
        self, policy: str, base: bytes | None, ours: bytes, theirs: bytes, *, keep_twins: bool
    ) -> bytes:
        """Return the merged value; with `keep_twins`, equal insertions into a list are two."""
        match policy:
            case "append":
                return self._lists(base, ours, theirs, keep_twins=keep_twins)
            case "log":
                return self._lists(base, ours, theirs, keep_twins=True, unite=True)
            case "counter":
                return self.counter(base, ours, theirs)
            case "max" | "min":
                return self._extreme(policy, ours, theirs)
            case "text":
                return self._text(base, ours, theirs)
            case "error":
                raise NoDecision("")
        if policy.startswith(CALL):
            return self._call(policy.removeprefix(CALL), base, ours, theirs)
        raise NoDecision(f"no policy is called {policy!r}")

    def _values(self, *cells: bytes | None) -> list[Any]:
        return [None if cell is None else self._cells.load(cell) for cell in cells]

    def counter(self, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        """Add what each side added to the base."""
        start, mine, yours = self._values(base, ours, theirs)
        start = 0 if start is None else start
        kinds = {type(number) for number in (start, mine, yours)}
        if not (kinds <= {int, float} or kinds <= {int, Decimal}):
            raise NoDecision("policy counter needs numbers of one type")
        try:
            with localcontext(_EXACT):
                total = mine + yours - start
        except ArithmeticError:  # infinities, too many digits, or an int too large for a float
            raise NoDecision("policy counter cannot add these numbers") from None
        if type(total) is float and not math.isfinite(total):
            raise NoDecision("policy counter cannot add these numbers")
        return self._cells.put(total)

    def _extreme(self, policy: str, ours: bytes, theirs: bytes) -> bytes:
        """Choose the larger or the smaller value."""
        mine, yours = self._values(ours, theirs)
        try:
            if mine == yours:  # 1 and 1.0: any choice is right if both sides make the same
                return min(ours, theirs)
            if mine < yours or yours < mine:  # neither for NaN, nor for sets that overlap
                return ours if (mine > yours) == (policy == "max") else theirs
        except (TypeError, ArithmeticError):
            pass
        raise NoDecision("the two values cannot be compared")

    def _lists(
        self,
        base: bytes | None,
        ours: bytes,
        theirs: bytes,
        *,
        keep_twins: bool,
        unite: bool = False,
    ) -> bytes:
        """Apply the edits of both sides to a list; with `unite`, also those that overlap."""
        if self._cells.kind(ours) != "list" or self._cells.kind(theirs) != "list":
            raise NoDecision("policy append needs lists")
        start = base if base is not None and self._cells.kind(base) == "list" else EMPTY_LIST
        ours_first = self._ours_first
        merged = combine_lists(
            self._cells,
            start,
            ours,
            theirs,
            ours_first=ours_first,
            keep_twins=keep_twins,
            unite=unite,
        )
        if merged is None:
            raise NoDecision("both sides edited the same elements")
        return merged

    def log(self, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes:
        """Return a log with what either side recorded, without what either removed.

        A side without a list went back to before there was any.
        """
        start, mine, yours = (EMPTY_LIST if cell is None else cell for cell in (base, ours, theirs))
        if any(self._cells.kind(cell) != "list" for cell in (start, mine, yours)):
            raise NoDecision("a log is a list")
        first, second = (mine, yours) if self._ours_first else (yours, mine)
        return _add(self._cells, first, _ListEdits(self._cells, start, second))

    def _text(self, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        """Apply the edits of both sides to a text, line by line."""
        start, mine, yours = self._values(base, ours, theirs)
        start = "" if start is None else start
        if not (isinstance(start, str) and isinstance(mine, str) and isinstance(yours, str)):
            raise NoDecision("policy text needs str")
        merged = combine_lines(start, mine, yours, ours_first=self._ours_first)
        if merged is None:
            raise NoDecision("both sides edited the same lines")
        return self._cells.put(merged)

    def _call(self, name: str, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
        """Call a registered function."""
        resolver = self._resolvers.get(name)
        if resolver is None:
            raise NoDecision("its resolver is not registered here")
        merged = resolver(*self._values(base, ours, theirs))
        if merged is NotImplemented:
            raise NoDecision("its resolver leaves it to you")
        return self._cells.put(merged)


# Edits of one sequence


def combine(
    ours: Sequence[Edit[Part]],
    theirs: Sequence[Edit[Part]],
    *,
    ours_first: bool,
    keep_twins: bool = False,
) -> list[Edit[Part]] | None:
    """Return both lists of edits as one, in order, or None if two of them overlap."""
    edits: list[Edit[Part]] = []
    mine, yours = list(ours), list(theirs)
    while mine and yours:
        a, b = mine[0], yours[0]
        both_insert = a[0] == a[1] == b[0] == b[1]
        if a == b and not (both_insert and keep_twins):
            edits.append(a)
            del mine[0], yours[0]
        elif both_insert:
            edits.append((a[0], a[1], a[2] + b[2] if ours_first else b[2] + a[2]))
            del mine[0], yours[0]
        elif a[1] <= b[0] and (a[0], a[1]) < (b[0], b[1]):
            edits.append(mine.pop(0))
        elif b[1] <= a[0] and (b[0], b[1]) < (a[0], a[1]):
            edits.append(yours.pop(0))
        else:
            return None
    return edits + mine + yours


def united(
    ours: Sequence[Edit[Part]], theirs: Sequence[Edit[Part]], *, ours_first: bool
) -> list[Edit[Part]]:
    """Return both lists of edits as one, in order; edits that overlap become one.

    What either side removed is gone, and what either side inserted is there. Where both replaced
    the same by the same, it is there once.
    """
    sided = [*((edit, 0) for edit in ours), *((edit, 1) for edit in theirs)]
    groups: list[tuple[list[Edit[Part]], list[Edit[Part]]]] = []
    start = stop = -1
    for edit, side in sorted(sided, key=lambda each: (each[0][:2], each[1])):
        if edit[0] >= stop and edit[:2] != (start, stop):
            groups.append(([], []))
            start, stop = edit[:2]
        groups[-1][side].append(edit)
        stop = max(stop, edit[1])
    edits: list[Edit[Part]] = []
    for mine, yours in groups:
        both = [*mine, *yours]
        first, last = min(edit[0] for edit in both), max(edit[1] for edit in both)
        if mine == yours and first < last:
            both = mine
        elif not ours_first:
            both = [*yours, *mine]
        edits.append((first, last, [part for edit in both for part in edit[2]]))
    return edits


def combine_lines(base: str, ours: str, theirs: str, *, ours_first: bool) -> str | None:
    """Return a text with the edits of both sides, line by line, or None if they touch the same.

    A line that ends without a newline, and would be followed by another, touches that one.
    """
    lines = base.splitlines(keepends=True)
    edits = combine(line_edits(lines, ours), line_edits(lines, theirs), ours_first=ours_first)
    if edits is None:
        return None
    for first, last, parts in reversed(edits):
        lines[first:last] = parts
    is_glued = any(line.splitlines() == [line] for line in lines[:-1])
    return None if is_glued else "".join(lines)


def line_edits(lines: list[str], text: str) -> list[Edit[str]]:
    """Return how lines became those of a text."""
    new = text.splitlines(keepends=True)
    blocks = SequenceMatcher(None, lines, new, autojunk=False).get_opcodes()
    return [(a, b, new[c:d]) for tag, a, b, c, d in blocks if tag != "equal"]


def combine_lists(
    cells: Cells,
    base: bytes,
    ours: bytes,
    theirs: bytes,
    *,
    ours_first: bool,
    keep_twins: bool,
    unite: bool = False,
) -> bytes | None:
    """Return a list with the edits of both sides, or None if they touch the same elements.

    With `unite` edits of the same elements are joined: it is never None.

    What both sides insert at the same place stays, the earlier side's first. Where both insert
    the same, it is one edit, unless `keep_twins` makes it two.

    Histories that crossed can have the same elements in different orders, and then an element
    that only moved looks like one removed and one inserted. With `keep_twins` such lists are
    joined by what each side has more or less of, so that no element is there twice.
    """
    mine, yours = _ListEdits(cells, base, ours), _ListEdits(cells, base, theirs)
    if keep_twins and (mine.moved() or yours.moved()):
        return _add(cells, ours, yours) if ours_first else _add(cells, theirs, mine)
    if unite:
        edits: list[Edit[bytes]] | None = united(mine.edits, yours.edits, ours_first=ours_first)
    else:
        edits = combine(mine.edits, yours.edits, ours_first=ours_first, keep_twins=keep_twins)
    if edits is None:
        return None
    moved_by_both = mine.moved() & yours.moved()
    if moved_by_both:
        added = Counter(part for _, _, parts in edits for part in parts)
        if (added - _removed(cells, base, edits)) & moved_by_both:
            return None  # the element would be there twice
    for first, last, parts in reversed(edits):
        base = cells.splice(base, first, last, [cells.loosen(part) for part in parts])
    return base


class _ListEdits:
    """How one side changed a list."""

    def __init__(self, cells: Cells, base: bytes, side: bytes) -> None:
        hunks = list_hunks(cells, base, side)
        self.edits: list[Edit[bytes]] = [(hunk.start, hunk.stop, hunk.new) for hunk in hunks]
        self.added = [part for hunk in hunks for part in hunk.new]
        self.removed = _removed(cells, base, self.edits)

    def moved(self) -> Counter[bytes]:
        """Return the elements that are still there, at another place."""
        return self.removed & Counter(self.added)


def _removed(cells: Cells, base: bytes, edits: list[Edit[bytes]]) -> Counter[bytes]:
    spans = (cells.elements(base, start, stop) for start, stop, _ in edits if start < stop)
    return Counter(cells.settle(part) for span in spans for part in span)


def _add(cells: Cells, first: bytes, second: _ListEdits) -> bytes:
    """Return one side's list with what the other added at its end, without what it removed."""
    gone = second.removed - Counter(second.added)
    if gone:
        parts = map(cells.settle, cells.elements(first))
        places = [at for at, part in enumerate(parts) if _take_out(gone, part)]
        for at in reversed(places):
            first = cells.splice(first, at, at + 1, [])
    moved = second.moved()
    more = [cells.loosen(part) for part in second.added if not _take_out(moved, part)]
    end = cells.length(first)
    return cells.splice(first, end, end, more)


def _take_out(bag: Counter[bytes], part: bytes) -> bool:
    """Take a part out of a bag; return whether it was there."""
    found = bag[part] > 0
    if found:
        bag[part] -= 1
    return found
