"""How two values become one: the merge policies that look inside a value.

Each function takes the cells of base (None if absent), ours and theirs, and returns the cell of
the merged value, or raises `Undecided`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from otolith.core.merging.hunks import combine_lines, combine_lists, combine_logs
from otolith.core.merging.policy import Resolver
from otolith.core.trees.cells import EMPTY_LIST, Cells
from otolith.types import Tag


class Undecided(Exception):
    """The policy has no answer; the message says why."""


def add_up(cells: Cells, base: bytes | None, ours: bytes, theirs: bytes) -> bytes:
    """Add what each side added to the base."""
    start, mine, yours = values(cells, base, ours, theirs)
    kinds = {type(number) for number in (0 if start is None else start, mine, yours)}
    if not (kinds <= {int, float} or kinds <= {int, Decimal}):
        raise Undecided("policy counter needs numbers of one type")
    try:
        return cells.put(mine + yours - (0 if start is None else start))
    except ArithmeticError:  # infinities, or an int that no float can hold
        raise Undecided("policy counter cannot add these numbers") from None


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
