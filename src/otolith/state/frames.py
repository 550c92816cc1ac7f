"""A frame or table in a state, read a column at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otolith.codecs import FRAMES, column, labels
from otolith.core import Path, Reading, format_path, parse_path
from otolith.errors import BadPath, KeyNotFound
from otolith.types import Tag

_COLUMNS = "columns"
_LIBRARIES = {Tag.FRAME: "pandas", Tag.TABLE: "pyarrow", Tag.POLARS: "polars"}


class Frame(Mapping[Any, Any]):
    """The columns of a stored frame, by label; reading one reads no other.

    A column is what its library calls one: a Series of pandas or polars, a ChunkedArray of Arrow.
    It is a copy; to change the frame, change the frame.
    """

    def __init__(self, state: Reading, path: Path) -> None:
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
        """Whose frame it is: pandas, polars or pyarrow."""
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
        return column(self._code, self._head, position, data)

    def _no_frame(self, what: str) -> BadPath:
        return BadPath(f"{self.path} is a {what}, not a frame", hint="see `otolith ls`")

    def __repr__(self) -> str:
        return f"<{self.library} frame {self.path}, {len(self)} columns>"


class HasFrames(Reading):
    """A state whose frames can be read by columns."""

    def frame(self, path: str | Path) -> Frame:
        """Return a handle on a frame or table that reads only the columns it is asked for."""
        return Frame(self, parse_path(path))
