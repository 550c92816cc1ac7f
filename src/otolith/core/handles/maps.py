"""A handle on a dict with keys of any plain type."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from otolith.core.handles.base import Handle, equal_numbers, in_one_turn
from otolith.core.trees.cells import EMPTY_MAP
from otolith.errors import KeyNotFound


class MapHandle(Handle, MutableMapping[Any, Any]):
    """A dict with keys of any plain type, in key order."""

    _noun = "map"

    def _fits(self, cell: bytes) -> bool:
        return self._cells.kind(cell) == "map"

    def _current(self) -> bytes:
        cell = self._cell()
        return EMPTY_MAP if cell is None else cell

    def __len__(self) -> int:
        return self._cells.length(self._current())

    def __getitem__(self, key: Any) -> Any:
        cell = self._state.cell_at((*self._path, self._known(key)))
        if cell is None:
            raise KeyNotFound(f"{self.path} has no key {key!r}", hint=f"see {self.path}'s keys()")
        return self._cells.load(cell)

    def __contains__(self, key: object) -> bool:
        return self._state.cell_at((*self._path, self._known(key))) is not None

    @in_one_turn
    def __setitem__(self, key: Any, value: Any) -> None:
        self._state.write_cell((*self._path, self._known(key)), self._put(value))

    @in_one_turn
    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyNotFound(f"{self.path} has no key {key!r}", hint=f"see {self.path}'s keys()")
        self._state.write_cell((*self._path, self._known(key)), None)

    def _known(self, key: Any) -> Any:
        """Return the key that this one is kept under: to a dict, 1, 1.0 and True are the same."""
        if type(key) is str:
            return key
        same = (each for each in equal_numbers(key) if self._state.cell_at((*self._path, each)))
        return next(same, key)

    def __iter__(self) -> Iterator[Any]:
        for key, _ in self._cells.entries(self._current()):
            yield self._cells.encoding.unkey(key)

    def scan(self, prefix: str = "", *, start: str | None = None) -> Iterator[tuple[str, Any]]:
        """Yield the str keys with a prefix and their values, in order, reading no others."""
        first = (start if start is not None else prefix).encode()
        for key, cell in self._cells.entries_from(self._current(), first):
            if not key.startswith(prefix.encode()) or key[:1] == b"\xff":
                return
            yield key.decode(), self._cells.load(cell)
