"""A handle on a list: appending costs what is appended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence
from typing import Any, overload

from otolith.core.handles.base import Handle, in_one_turn
from otolith.core.trees.cells import EMPTY_LIST
from otolith.errors import BadValue


class ListHandle(Handle, MutableSequence[Any]):
    """A list. Appending costs the same at element ten and ten million."""

    _noun = "list"

    def _fits(self, cell: bytes) -> bool:
        return self._cells.kind(cell) == "list"

    def _current(self) -> bytes:
        cell = self._cell()
        return EMPTY_LIST if cell is None else cell

    def __len__(self) -> int:
        return self._cells.length(self._current())

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        cell = self._current()
        if isinstance(at, slice):
            start, stop, step = at.indices(self._cells.length(cell))
            if step != 1:
                return [self[index] for index in range(start, stop, step)]
            return self._cells.load_all(self._cells.elements(cell, start, stop))
        index = self._index(at, cell)
        return self._cells.load(self._cells.element(cell, index))

    @overload
    def __setitem__(self, at: int, value: Any) -> None: ...
    @overload
    def __setitem__(self, at: slice, value: Iterable[Any]) -> None: ...
    @in_one_turn
    def __setitem__(self, at: int | slice, value: Any) -> None:
        cell = self._current()
        if isinstance(at, slice):
            self._splice(cell, *self._span(at, cell), list(value))
        else:
            index = self._index(at, cell)
            self._splice(cell, index, index + 1, [value])

    @in_one_turn
    def __delitem__(self, at: int | slice) -> None:
        cell = self._current()
        if isinstance(at, slice):
            self._splice(cell, *self._span(at, cell), [])
        else:
            index = self._index(at, cell)
            self._splice(cell, index, index + 1, [])

    def __iter__(self) -> Iterator[Any]:
        return map(self._cells.load, self._cells.elements(self._current()))

    @in_one_turn
    def insert(self, index: int, value: Any) -> None:
        """Insert before an index."""
        cell = self._current()
        start, _, _ = slice(index, None).indices(self._cells.length(cell))
        self._splice(cell, start, start, [value])

    def append(self, value: Any) -> None:
        """Append one element."""
        self.extend([value])

    @in_one_turn
    def extend(self, values: Iterable[Any]) -> None:
        """Append elements. A list that starts this way merges by keeping both sides' elements."""
        self._state.extend_cell(self._path, [self._put(value) for value in values])

    def _splice(self, cell: bytes, start: int, stop: int, values: list[Any]) -> None:
        parts = [self._put(value) for value in values]
        self._state.write_cell(self._path, self._cells.splice(cell, start, stop, parts))

    def _index(self, at: int, cell: bytes) -> int:
        length = self._cells.length(cell)
        if not -length <= at < length:
            raise IndexError(f"{self.path} has {length} elements, there is none at {at}")
        return at % length

    def _span(self, at: slice, cell: bytes) -> tuple[int, int]:
        start, stop, step = at.indices(self._cells.length(cell))
        if step != 1:
            raise BadValue(f"{self.path}: a slice that is written to has no step")
        return start, max(start, stop)
