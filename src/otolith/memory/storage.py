"""What an agent works with, as it is kept in a state.

    .memory / goal           what is to be reached, a text
              task / id      the name of the task
                     status  how it ended, if somebody said so
              data / NAME    what the task has gathered
              plan / ID      a step: [text, state, place, time, why]
              notes / KEY    a note, see `notes.py`; a forgotten one leaves its key and the time
              calls          the calls of tools, the oldest first

Two branches merge the goal, the task and its data by who wrote last, a plan by its steps, notes
each by its time, and calls by keeping all of them: see `merge.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from otolith.core import MEMORY, Path, StateReader
from otolith.errors import BadValue
from otolith.memory.notes import Note
from otolith.memory.plan import Step, in_order
from otolith.shapes import mapping

GOAL, TASK, DATA, PLAN, NOTES, CALLS = "goal", "task", "data", "plan", "notes", "calls"
ID, STATUS = "id", "status"


class Record:
    """The place of a memory in a state."""

    def __init__(self, state: StateReader) -> None:
        self._state = state

    def value(self, *path: str) -> Any:
        """Return what is at a place; None if nothing is."""
        cell = self._state.cell_at((MEMORY, *path))
        return None if cell is None else self._state.cells.load(cell)

    def cell(self, *path: str) -> bytes | None:
        """Return what is at a place, as a cell."""
        return self._state.cell_at((MEMORY, *path))

    def put(self, value: Any, *path: str) -> None:
        """Stage a value at a place.

        Raises:
            BadValue: it cannot be kept.
            ReadOnly: this is a state as it was.
        """
        where: Path = (MEMORY, *path)
        try:
            cell = self._state.cells.put(value)
        except BadValue as error:
            raise BadValue(f"{'/'.join(path)}: {error.message}", hint=error.hint) from None
        if self._state.cell_at(where) != cell:
            self._state.write_reserved(where, cell)

    def remove(self, *path: str) -> None:
        """Stage that nothing is at a place."""
        if self.cell(*path) is not None:
            self._state.write_reserved((MEMORY, *path), None)

    def steps(self) -> tuple[Step, ...]:
        """Return the plan."""
        kept = self.value(PLAN)
        plan = {} if kept is None else mapping(kept, ".memory/plan", list)
        return in_order(Step.from_data(id, data) for id, data in plan.items())

    def keep_steps(self, steps: Iterable[Step]) -> None:
        """Stage a whole plan."""
        self.put({step.id: step.to_data() for step in steps}, PLAN)

    def note(self, key: str) -> Note | None:
        """Return a note, forgotten or not."""
        kept = self.value(NOTES, key)
        return None if kept is None else Note.from_data(key, kept)

    def keep_note(self, note: Note) -> None:
        """Stage a note."""
        self.put(note.to_data(), NOTES, note.key)

    def note_cells(self) -> Iterator[tuple[str, bytes]]:
        """Yield the keys of all notes, and each as a cell; those that are forgotten, too."""
        cell = self.cell(NOTES)
        for key, each in () if cell is None else self._state.cells.entries(cell):
            yield str(self._state.cells.encoding.unkey(key)), each

    def load_note(self, key: str, cell: bytes) -> Note:
        """Return the note in a cell."""
        kept: Any = self._state.cells.load(cell)
        return Note.from_data(key, kept)
