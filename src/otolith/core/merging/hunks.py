"""Joining two edits of one sequence: of list elements, or of lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from otolith.core.merging.diff import Hunk, list_hunks
from otolith.core.trees.cells import EMPTY_LIST, Cells

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
    """
    start = EMPTY_LIST if base is None else base
    edits = combine(
        [_edit(hunk) for hunk in list_hunks(cells, start, ours)],
        [_edit(hunk) for hunk in list_hunks(cells, start, theirs)],
        ours_first=ours_first,
        keep_twins=keep_twins,
    )
    if edits is None:
        return None
    merged = start
    for first, last, parts in reversed(edits):
        merged = cells.splice(merged, first, last, [cells.loosen(part) for part in parts])
    return merged


def combine_lines(base: str, ours: str, theirs: str, *, ours_first: bool) -> str | None:
    """Return a text with the edits of both sides, line by line, or None if they touch the same."""
    lines = base.splitlines(keepends=True)
    edits = combine(_line_edits(lines, ours), _line_edits(lines, theirs), ours_first=ours_first)
    if edits is None:
        return None
    for first, last, parts in reversed(edits):
        lines[first:last] = parts
    return "".join(lines)


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


def _edit(hunk: Hunk) -> Edit[bytes]:
    return hunk.start, hunk.stop, hunk.new


def _line_edits(lines: list[str], text: str) -> list[Edit[str]]:
    new = text.splitlines(keepends=True)
    blocks = SequenceMatcher(None, lines, new, autojunk=False).get_opcodes()
    return [(a, b, new[c:d]) for tag, a, b, c, d in blocks if tag != "equal"]
