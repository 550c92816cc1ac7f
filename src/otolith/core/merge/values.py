"""Joining two edits of one sequence: of list elements, or of lines of text.

How two values become one: the merge policies that look inside a value.

Each function takes the cells of base (None if absent), ours and theirs, and returns the cell of
the merged value, or raises `Undecided`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, localcontext
from difflib import SequenceMatcher
from typing import Any, TypeVar

from otolith.core.merge.diff import list_hunks
from otolith.core.merge.policies import Resolver
from otolith.core.trees.cells import EMPTY_LIST, Cells
from otolith.types import Tag

Part = TypeVar("Part")
Edit = tuple[int, int, list[Part]]
"""Elements `start` to `stop` of the base, and what they became."""


def combine_lists(
    cells: Cells,
    base: bytes | None,
    ours: bytes,
    theirs: bytes,
    *,
    ours_first: bool,
    keep_twins: bool = False,
) -> bytes | None:
    """Return a list with the edits of both sides, or None if they touch the same elements.

    What both sides insert at the same place is kept, the earlier side's first. Where both
    insert the same, it is one edit, unless `keep_twins` says that they are two.

    Histories that crossed can keep the same elements in different orders, and then an element
    that only stands elsewhere looks like one removed and one inserted. With `keep_twins` such
    lists are joined by what each side has more or less of, so that nothing is kept twice.
    """
    start = EMPTY_LIST if base is None else base
    mine, yours = _Edits(cells, start, ours), _Edits(cells, start, theirs)
    if keep_twins and (mine.moved() or yours.moved()):
        return _add(cells, ours, yours) if ours_first else _add(cells, theirs, mine)
    edits = combine(mine.edits, yours.edits, ours_first=ours_first, keep_twins=keep_twins)
    if edits is None or _doubled(cells, start, edits, mine.moved() & yours.moved()):
        return None
    merged = start
    for first, last, parts in reversed(edits):
        merged = cells.splice(merged, first, last, [cells.loosen(part) for part in parts])
    return merged


def combine_logs(cells: Cells, base: bytes, first: bytes, second: bytes) -> bytes:
    """Return a list with what each side added, without what either removed: always an answer."""
    return _add(cells, first, _Edits(cells, base, second))


class _Edits:
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


def _doubled(cells: Cells, base: bytes, edits: list[Edit[bytes]], moved: Counter[bytes]) -> bool:
    """Tell whether an element that each side moved elsewhere would now be there twice."""
    if not moved:
        return False
    added = Counter(part for _, _, parts in edits for part in parts)
    return bool((added - _removed(cells, base, edits)) & moved)


def _add(cells: Cells, first: bytes, second: _Edits) -> bytes:
    """Return one side's list with what the other has more at its end, and without what it lacks."""
    gone = second.removed - Counter(second.added)
    staying = second.moved()
    merged = _without(cells, first, gone) if gone else first
    more = [part for part in second.added if not _taken(staying, part)]
    end = cells.length(merged)
    return cells.splice(merged, end, end, [cells.loosen(part) for part in more])


def _without(cells: Cells, list: bytes, gone: Counter[bytes]) -> bytes:
    parts = map(cells.settle, cells.elements(list))
    places = [at for at, part in enumerate(parts) if _taken(gone, part)]
    for at in reversed(places):
        list = cells.splice(list, at, at + 1, [])
    return list


def _taken(some: Counter[bytes], part: bytes) -> bool:
    """Take a part out of a bag, if it is there."""
    found = some[part] > 0
    if found:
        some[part] -= 1
    return found


def combine_lines(base: str, ours: str, theirs: str, *, ours_first: bool) -> str | None:
    """Return a text with the edits of both sides, line by line, or None if they touch the same.

    A line that ends without a newline, and would be followed by another, touches that one.
    """
    lines = base.splitlines(keepends=True)
    edits = combine(_line_edits(lines, ours), _line_edits(lines, theirs), ours_first=ours_first)
    if edits is None:
        return None
    for first, last, parts in reversed(edits):
        lines[first:last] = parts
    is_glued = any(line.splitlines() == [line] for line in lines[:-1])
    return None if is_glued else "".join(lines)


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


def _line_edits(lines: list[str], text: str) -> list[Edit[str]]:
    new = text.splitlines(keepends=True)
    blocks = SequenceMatcher(None, lines, new, autojunk=False).get_opcodes()
    return [(a, b, new[c:d]) for tag, a, b, c, d in blocks if tag != "equal"]


_EXACT = Context(prec=1000, traps=[Inexact, InvalidOperation, Overflow])
"""Adds decimals without rounding, whatever this thread has set for its own sums."""


class Undecided(Exception):
    """The policy has no answer; the message says why."""


def add_up(cells: Cells, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
    """Add what each side added to the base."""
    start, mine, yours = values(cells, base, ours, theirs)
    kinds = {type(number) for number in (0 if start is None else start, mine, yours)}
    if not (kinds <= {int, float} or kinds <= {int, Decimal}):
        raise Undecided("policy counter needs numbers of one type")
    try:
        with localcontext(_EXACT):
            total = mine + yours - (0 if start is None else start)
    except (
        ArithmeticError
    ):  # infinities, digits beyond all bounds, or an int that no float can hold
        raise Undecided("policy counter cannot add these numbers") from None
    if type(total) is float and not math.isfinite(total):
        raise Undecided("policy counter cannot add these numbers")
    return cells.put(total)


def extreme(cells: Cells, ours: bytes, theirs: bytes, *, pick: Callable[..., Any]) -> bytes:
    """Keep the larger or the smaller value."""
    mine, yours = values(cells, ours, theirs)
    try:
        if mine == yours:  # 1 and 1.0: any choice will do if both sides make the same
            return min(ours, theirs)
        if mine < yours or yours < mine:  # not so for NaN, nor for sets that overlap
            return ours if pick(mine, yours) is mine else theirs
    except (TypeError, ArithmeticError):
        pass
    raise Undecided("the two values cannot be compared")


def append(
    cells: Cells,
    base: bytes | None,
    ours: bytes,
    theirs: bytes,
    *,
    ours_first: bool,
    keep_twins: bool,
) -> bytes:
    """Keep the edits of both sides of a list."""
    if cells.kind(ours) != "list" or cells.kind(theirs) != "list":
        raise Undecided("policy append needs lists")
    start = base if base is not None and cells.kind(base) == "list" else None
    merged = combine_lists(cells, start, ours, theirs, ours_first=ours_first, keep_twins=keep_twins)
    if merged is None:
        raise Undecided("both sides edited the same elements")
    return merged


def log(
    cells: Cells,
    base: bytes | None,
    ours: bytes | None,
    theirs: bytes | None,
    *,
    ours_first: bool,
) -> bytes:
    """Keep what both sides recorded; one without a list went back to before there was any."""
    lists = [EMPTY_LIST if cell is None else cell for cell in (base, ours, theirs)]
    if any(cells.kind(cell) != "list" for cell in lists):
        raise Undecided("a log is a list")
    start, mine, yours = lists
    return combine_logs(cells, start, *((mine, yours) if ours_first else (yours, mine)))


def text(
    cells: Cells, base: bytes | None, ours: bytes, theirs: bytes, *, ours_first: bool
) -> bytes:
    """Keep the edits of both sides of a text, line by line."""
    start, mine, yours = values(cells, base, ours, theirs)
    start = "" if start is None else start
    if not (isinstance(start, str) and isinstance(mine, str) and isinstance(yours, str)):
        raise Undecided("policy text needs str")
    merged = combine_lines(start, mine, yours, ours_first=ours_first)
    if merged is None:
        raise Undecided("both sides edited the same lines")
    return cells.put(merged)


def call(
    cells: Cells, resolver: Resolver | None, base: bytes | None, ours: bytes, theirs: bytes
) -> bytes:
    """Ask a registered function."""
    if resolver is None:
        raise Undecided("its resolver is not registered here")
    merged = resolver(*values(cells, base, ours, theirs))
    if merged is NotImplemented:
        raise Undecided("its resolver leaves it to you")
    return cells.put(merged)


def values(cells: Cells, *some: bytes | None) -> list[Any]:
    """Return the values of cells; an absent one is None."""
    return [None if cell is None else cells.load(cell) for cell in some]


def set_of(cells: Cells, cell: bytes | None) -> tuple[int, bytes] | None:
    """Return whether a cell is a set or a frozenset, and the map of its elements."""
    tag = cells.tag(cell) if cell is not None else None
    if tag is None or tag.code not in (Tag.SET, Tag.FROZENSET) or not isinstance(tag.data, bytes):
        return None
    return tag.code, tag.data
