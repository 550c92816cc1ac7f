"""Frames and tables in a state: read a column at a time, and merged column by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otolith.codecs import FRAMES, labels
from otolith.codecs import column as read_column
from otolith.core import Path, StateReader, format_path
from otolith.errors import BadPath, KeyNotFound
from otolith.types import Tag

_COLUMNS = "columns"
_LIBRARIES = {Tag.FRAME: "pandas", Tag.TABLE: "pyarrow", Tag.POLARS: "polars"}


class Frame(Mapping[Any, Any]):
    """The columns of a stored frame, by label; reading one reads no other.

    A column is what its library calls one: a Series of pandas or polars, a ChunkedArray of Arrow.
    It is a copy; to change the frame, change the frame.
    """

    def __init__(self, state: StateReader, path: Path) -> None:
        self._cells = state.cells
        self.path = format_path(path)
        cell = state.cell_at(path)
        if cell is None:
            raise KeyNotFound(f"nothing at {self.path}", hint="list(state) shows what is there")
        tagged = self._cells.tag(cell)
        if tagged is None or tagged.code not in FRAMES or not isinstance(tagged.data, bytes):
            raise self._no_frame(state.kind(path))
        self._code = tagged.code
        parts = {key.decode(): part for key, part in self._cells.entries(tagged.data)}
        if _COLUMNS not in parts:
            raise self._no_frame(f"{self.library} value without columns")
        self._columns = parts.pop(_COLUMNS)
        self._head: dict[str, Any] = {k: self._cells.load(part) for k, part in parts.items()}
        self._labels = labels(self._code, self._head)

    @property
    def library(self) -> str:
        """The library of the frame: pandas, polars or pyarrow."""
        return _LIBRARIES[Tag(self._code)]

    @property
    def columns(self) -> list[Any]:
        """The labels of the columns, in order."""
        return self._labels

    def __len__(self) -> int:
        return len(self._labels)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._labels)

    def __getitem__(self, label: Any) -> Any:
        if label not in self._labels:
            raise KeyNotFound(
                f"{self.path} has no column {label!r}", hint="see .columns for those it has"
            )
        return self.at(self._labels.index(label))

    def at(self, position: int) -> Any:
        """Return the column at a position."""
        if not 0 <= position < len(self._labels):
            raise KeyNotFound(f"{self.path} has {len(self)} columns, there is none at {position}")
        data = self._cells.load(self._cells.element(self._columns, position))
        return read_column(self._code, self._head, position, data)

    def _no_frame(self, what: str) -> BadPath:
        return BadPath(
            f"{self.path} is a {what}, not a frame", hint="list(state) lists the names at the top"
        )

    def __repr__(self) -> str:
        return f"<{self.library} frame {self.path}, {len(self)} columns>"


def merge_frames(base: Any, ours: Any, theirs: Any) -> Any:
    """Return a frame with the columns that either side changed; NotImplemented if both did.

    Frames can be merged by columns only if they have the same type and rows, and unique labels.
    """
    sides = (base, ours, theirs)
    if len(set(map(type, sides))) > 1 or type(ours).__name__ != "DataFrame":
        return NotImplemented
    if any(len(set(frame.columns)) < len(list(frame.columns)) for frame in sides):
        return NotImplemented
    if not _have_same_rows(*sides):
        return NotImplemented
    columns = {label: ours[label] for label in ours.columns}
    for label in dict.fromkeys([*base.columns, *theirs.columns]):
        before, mine, yours = (
            frame[label] if label in list(frame.columns) else None for frame in sides
        )
        if _are_same(before, yours) or _are_same(mine, yours):
            continue
        if not _are_same(before, mine):
            return NotImplemented
        if yours is None:
            columns.pop(label, None)
        else:
            columns[label] = yours
    if not hasattr(ours, "index"):
        return type(ours)(columns)
    frame = ours.drop(columns=[label for label in ours.columns if label not in columns])
    for label, column in columns.items():
        frame[label] = column
    return frame


def _are_same(a: Any, b: Any) -> bool:
    """Tell whether two columns, or two indexes, are equal; missing values are equal."""
    if a is None or b is None:
        return a is b
    return type(a) is type(b) and a.dtype == b.dtype and a.name == b.name and bool(a.equals(b))


def _have_same_rows(base: Any, ours: Any, theirs: Any) -> bool:
    if not hasattr(ours, "index"):  # polars: rows have positions, not labels
        return len(base) == len(ours) == len(theirs)
    return _are_same(base.index, ours.index) and _are_same(base.index, theirs.index)
