"""A handle on a number that several branches add to."""

from __future__ import annotations

from typing import Any

from otolith.core.handles.base import Handle, in_one_turn
from otolith.errors import BadValue


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

    @in_one_turn
    def add(self, amount: Any = 1) -> Any:
        """Add to the number and return it."""
        try:
            value = self.value + amount
        except TypeError as error:
            raise BadValue(f"{self.path}: {error}", hint="a counter adds numbers") from None
        self._state.write_cell(self._path, self._put(value))
        self._state.adopt_policy(self._path, "counter")
        return value

    def __int__(self) -> int:
        return int(self.value)
