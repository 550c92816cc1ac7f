"""A handle on a number that several branches add to."""

from __future__ import annotations

from typing import Any

from otolith.core.handles.base import Handle


class CounterHandle(Handle):
    """A number to which several branches add at the same time; a merge adds up what each added."""

    _noun = "number"

    def _fits(self, cell: bytes) -> bool:
        return self._cells.kind(cell) in ("scalar", "tagged")

    @property
    def value(self) -> Any:
        """The number; 0 if nothing was added yet."""
        cell = self._cell()
        return 0 if cell is None else self._cells.load(cell)

    def add(self, amount: Any = 1) -> Any:
        """Add to the number and return it."""
        self._state.adopt_policy(self._path, "counter")
        value = self.value + amount
        self._state.write_cell(self._path, self._put(value))
        return value

    def __int__(self) -> int:
        return int(self.value)
