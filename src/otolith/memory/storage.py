"""The stored form of a memory: one reserved subtree of a state.

    .memory / goal           the goal, a text
              task / id      the name of the task
                     status  how the task ended, if that was reported
              data / NAME    data that the task has gathered
              plan / ID      a step: [text, state, place, time, why]
              notes / KEY    a note, see `notes.py`; a forgotten note leaves its key and the time
              calls          tool calls, the oldest first

When two branches merge, the goal, the task and its data are taken from the later writer, plans are
merged step by step, notes one by one, and all tool calls stay: see `merge.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.core import MEMORY, Path, StateReader
from otolith.errors import BadValue
from otolith.memory.notes import Note
from otolith.memory.plan import Plan
from otolith.shapes import mapping

GOAL, TASK, DATA, PLAN, NOTES, CALLS = "goal", "task", "data", "plan", "notes", "calls"
ID, STATUS = "id", "status"


class StoredMemory:
    """Reads and stages the parts of a memory. Callers hold the lock of the state."""

    def __init__(self, state: StateReader) -> None:
        self._state = state

    def cell(self, *path: str) -> bytes | None:
        """Return the cell at a path below `.memory`; None if there is none."""
        return self._state.cell_at((MEMORY, *path))

    def value(self, *path: str) -> Any:
        """Return the value at a path below `.memory`; None if there is none."""
        cell = self.cell(*path)
        return None if cell is None else self._state.cells.load(cell)

    def put(self, value: Any, *path: str) -> None:
        """Stage a value at a path; an equal value is not written again.

        Raises:
            BadValue: the value cannot be stored.
            ReadOnly: the state is a snapshot.
        """
        where: Path = (MEMORY, *path)
        try:
            cell = self._state.cells.put(value)
        except BadValue as error:
            raise BadValue(f"{'/'.join(path)}: {error.message}", hint=error.hint) from None
        if self._state.cell_at(where) != cell:
            self._state.write_reserved(where, cell)

    def remove(self, *path: str) -> None:
        """Stage the removal of a path; a path without a value is left alone."""
        if self.cell(*path) is not None:
            self._state.write_reserved((MEMORY, *path), None)

    def equals(self, value: Any, *path: str) -> bool:
        """Return whether a path has this value, compared by their stored form."""
        stored, cells = self.cell(*path), self._state.cells
        return stored is not None and cells.same(stored, cells.put(value))

    def plan(self) -> Plan:
        """Return the plan; it has no steps if none is stored."""
        stored = self.value(PLAN)
        return Plan.from_data({} if stored is None else mapping(stored, ".memory/plan", list))

    def note(self, key: str) -> Note | None:
        """Return a note, forgotten or not."""
        stored = self.value(NOTES, key)
        return None if stored is None else Note.from_data(key, stored)

    def put_note(self, note: Note) -> None:
        """Stage a note under its key."""
        self.put(note.to_data(), NOTES, note.key)

    def notes(self) -> Iterator[Note]:
        """Yield all notes, forgotten ones included, in the order of their keys."""
        cells, cell = self._state.cells, self.cell(NOTES)
        for key, stored in () if cell is None else cells.entries(cell):
            data: Any = cells.load(stored)
            yield Note.from_data(str(cells.encoding.unkey(key)), data)
