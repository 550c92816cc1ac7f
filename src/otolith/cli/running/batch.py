"""The cells of a file run one by one: each a step, those that were run already left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from otolith.agent import Step, Workspace
from otolith.cli.running.cells import Cell
from otolith.cli.running.record import Record
from otolith.cli.running.stopping import stopping
from otolith.core import Branch
from otolith.errors import NotFound

OnOutput = Callable[[str, str], None]


class Ran(NamedTuple):
    """A cell, and what it came to; `was_stopped` if the user did not want it to go on."""

    cell: Cell
    step: Step
    was_stopped: bool


class Batch:
    """A run of the cells of one file."""

    def __init__(
        self, workspace: Workspace, record: Record, name: str, cells: list[Cell], *, start: int
    ) -> None:
        """Make a run that starts with the cell of this number, from 1."""
        self._workspace = workspace
        self._state: Branch = workspace.state
        self._record = record
        self._name = name
        self._cells = cells
        self._start = start
        self._known = min(record.done(cells), start - 1)
        # A cell counts as run only if all before it do.
        self._counts = self._known == start - 1
        record.keep(self._known)

    def take_back(self) -> bool:
        """Take back the step of the first cell, if it failed the last time and nothing followed.

        Then the cell finds what it would find if it was run for the first time.
        """
        failed, head = self._record.failed, self._state.head
        if failed is None or failed.number != self._start or head != failed.commit:
            return False
        with suppress(NotFound):  # it was the first step of all: there is nothing to go back to
            self._workspace.undo()
            return True
        return False

    def steps(self, before: Callable[[Cell], OnOutput | None]) -> Iterator[Ran]:
        """Run cell after cell. `before` is told of each, and returns where its output goes."""
        for cell in self._cells[self._start - 1 :]:
            on_output = before(cell)
            self._workspace.restore()  # what was put into the folder is a commit before the cell's
            self._record.enter(cell, counts=self._counts)
            message = f"{self._name} {cell.number}/{len(self._cells)}: {cell.title}"
            with stopping(self._workspace) as stop:
                step = self._workspace.run(cell.source, message=message, on_output=on_output)
            if step.commit is None:
                self._state.discard()  # the record of it
            if not step.ok and self._counts:
                self._record.keep(cell.number - 1)
                self._counts = False
            yield Ran(cell, step, stop.was_asked)
