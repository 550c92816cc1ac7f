"""Following key bytes down from a cell, through maps and lists."""

from __future__ import annotations

from typing import TypeAlias

from otolith.core.trees.cells import Cells

Names: TypeAlias = tuple[bytes, ...]
"""A path as key bytes."""


def walk(cells: Cells, cell: bytes, names: Names) -> bytes | None:
    """Follow key bytes down from a cell."""
    at: bytes | None = cell
    for name in names:
        kind = cells.kind(at) if at is not None else ""
        if at is not None and kind == "map":
            at = cells.entry(at, name)
        elif at is not None and kind == "list":
            found = index_in(cells.encoding.unkey(name), cells.length(at))
            at = None if found is None else cells.element(at, found)
        else:
            return None
    return at


def index_in(key: object, length: int) -> int | None:
    """Return the index that a key of a path names in a list of this length."""
    if isinstance(key, str) and key.removeprefix("-").isdecimal():
        key = int(key)
    if type(key) is not int or not -length <= key < length:
        return None
    return key % length
