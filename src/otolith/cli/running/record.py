"""Which cells of a file a session has run: kept in the session itself, with each step.

    .workspace/runs/NAME    ["KEY HEAD", …]    cells in order, and the commit each was run on

A cell is entered before it is run and committed together with what it did, so whatever kills the
process, what was run and what is noted agree. Whether the last cell failed is said by its commit.
`-` stands for a cell that says nothing about the next time, because one before it had failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from otolith.agent import Versioned
from otolith.cli.running.cells import Cell
from otolith.core import WORKSPACE, Commit

_NOTHING = "-"


class Failed(NamedTuple):
    """A cell that failed, by its number, and the commit of what it did before that."""

    number: int
    commit: Commit


class Record:
    """What a session knows of its runs of one file.

    `failed` is the last cell that was run, if it failed.
    """

    def __init__(self, state: Versioned, name: str) -> None:
        self._state = state
        self._path = (WORKSPACE, "runs", name)
        entries, writer = self._entries(), self._writer()
        is_run = writer is not None and writer.kind == "run"
        is_ok = is_run and writer is not None and bool(writer.meta.get("ok"))
        self._done = entries if is_ok else entries[:-1]
        self.failed: Failed | None = None
        if is_run and writer is not None and not is_ok and not entries[-1].startswith(_NOTHING):
            self.failed = Failed(len(entries), writer)

    def done(self, cells: Sequence[Cell]) -> int:
        """Return how many cells, from the first one on, were run with the source they have."""
        known = [entry.partition(" ")[0] for entry in self._done]
        pairs = zip(known, (cell.key for cell in cells), strict=False)
        return next((at for at, (old, new) in enumerate(pairs) if old != new), self._shorter(cells))

    def _shorter(self, cells: Sequence[Cell]) -> int:
        return min(len(self._done), len(cells))

    def keep(self, count: int) -> None:
        """Forget all but the first so many cells."""
        self._done = self._done[:count]

    def enter(self, cell: Cell, *, counts: bool) -> None:
        """Stage that a cell is run; `counts` if it need not be run another time."""
        head = self._state.head.short if self._state.head is not None else ""
        # The head makes each entry a new one: a cell that is run again changes the record.
        entry = f"{cell.key if counts else _NOTHING} {head}"
        staged = self._state.cells.put([*self._done, entry])
        self._state.write_reserved(self._path, staged)
        if counts:
            self._done = [*self._done, entry]

    def _entries(self) -> list[str]:
        cell = self._state.cell_at(self._path)
        entries = [] if cell is None else self._state.cells.load(cell)
        return [str(entry) for entry in entries] if isinstance(entries, list) else []

    def _writer(self) -> Commit | None:
        """Return the commit that the record is of."""
        writer = next(self._state.log(path=self._path, limit=1), None)
        while writer is not None and writer.kind == "rollback":
            goal = self._state.resolve(str(writer.meta["to"]))
            writer = next(self._state.log(goal, path=self._path, limit=1), None)
        return writer
