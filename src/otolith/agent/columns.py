"""Frames that two branches have changed, merged column by column where their rows agree."""

from __future__ import annotations

from typing import Any


def merge_frames(base: Any, ours: Any, theirs: Any) -> Any:
    """Return a frame with the columns that either side changed; NotImplemented if both did.

    A frame whose rows, type or labels are not those of the others cannot be told apart by columns.
    """
    sides = (base, ours, theirs)
    if len(set(map(type, sides))) > 1 or type(ours).__name__ != "DataFrame":
        return NotImplemented
    if not all(map(_has_unique_labels, sides)) or not _have_same_rows(*sides):
        return NotImplemented
    columns = {label: ours[label] for label in ours.columns}
    for label in dict.fromkeys([*base.columns, *theirs.columns]):
        before, mine, yours = (_column(frame, label) for frame in sides)
        if _are_same(before, yours) or _are_same(mine, yours):
            continue
        if not _are_same(before, mine):
            return NotImplemented
        if yours is None:
            columns.pop(label, None)
        else:
            columns[label] = yours
    return _frame(ours, columns)


def _are_same(a: Any, b: Any) -> bool:
    """Tell whether two columns, or two indexes, are the same; a missing value is like another."""
    if a is None or b is None:
        return a is b
    return type(a) is type(b) and a.dtype == b.dtype and a.name == b.name and bool(a.equals(b))


def _column(frame: Any, label: Any) -> Any:
    return frame[label] if label in list(frame.columns) else None


def _has_unique_labels(frame: Any) -> bool:
    return len(set(frame.columns)) == len(list(frame.columns))


def _have_same_rows(base: Any, ours: Any, theirs: Any) -> bool:
    if not hasattr(ours, "index"):  # polars: rows have no labels, only places
        return len(base) == len(ours) == len(theirs)
    return _are_same(base.index, ours.index) and _are_same(base.index, theirs.index)


def _frame(like: Any, columns: dict[Any, Any]) -> Any:
    if not hasattr(like, "index"):
        return type(like)(columns)
    frame = like.drop(columns=[label for label in like.columns if label not in columns])
    for label, column in columns.items():
        frame[label] = column
    return frame
