"""What a state keeps of a workspace, table by table.

vars        what is known of each variable
data        variables that are data
objects     pickles of those that are not; `signatures` of them
classes     which pickle has a class; `code` has the sources
files       the work folder
ambient     modules, random numbers, environment
resources   variables that are made anew, and by what
last        the code, value and output of the last step
"""

from __future__ import annotations

from typing import Any

from otolith.agent.workspace.handover import TABLES
from otolith.core import WORKSPACE, Reading


class Tables:
    """The workspace in a state, as it is now."""

    def __init__(self, state: Reading) -> None:
        self._state = state

    def cell(self, *path: str) -> bytes | None:
        """Return the cell at a place, or None."""
        return self._state.cell_at((WORKSPACE, *path))

    def entry(self, *path: str) -> Any:
        """Return what is at a place, or None."""
        cell = self.cell(*path)
        return None if cell is None else self._state.cells.load(cell)

    def names(self, table: str) -> list[str]:
        """Return the keys of a table."""
        cell = self.cell(table)
        if cell is None:
            return []
        unkey = self._state.cells.encoding.unkey
        return [str(unkey(key)) for key, _ in self._state.cells.entries(cell)]

    def roots(self) -> dict[str, bytes]:
        """Return the tables that a worker reads, by the cells at their tops."""
        found = {name: self.cell(name) for name in (*TABLES, "signatures")}
        settle = self._state.cells.settle
        return {name: settle(cell) for name, cell in found.items() if cell is not None}

    def config(self) -> bytes:
        """Return the constants of the repo."""
        store = self._state.cells.objects.stored.store
        hash = store.ref(".config")
        assert hash is not None
        return store.read([hash])[hash]

    @property
    def number(self) -> int:
        """How many steps there were."""
        number = self.entry("last", "step")
        return number if isinstance(number, int) else 0

    @property
    def modules(self) -> list[str]:
        """What steps have imported."""
        ambient = self.entry("ambient") or {}
        return [name for name in ambient.get("modules", []) if isinstance(name, str)]

    @property
    def resources(self) -> dict[str, str]:
        """Variables that are made anew in each process, and the factories that make them."""
        return dict(self.entry("resources") or {})
