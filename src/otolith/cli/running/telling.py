"""What a run of many cells says: which cell it is at, what each did, and where it failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from otolith.cli.failures import report
from otolith.cli.running.batch import Ran
from otolith.cli.running.cells import Cell
from otolith.cli.safety import tame
from otolith.cli.screen.output import emit, end_progress, progress_line
from otolith.cli.screen.steps import Printer, step_json, summary
from otolith.cli.screen.words import counted


class Telling:
    """Tells of one run on standard error; with `is_silent`, in one JSON object at its end."""

    def __init__(
        self, branch: str, file: str, count: int, skipped: int, *, is_silent: bool
    ) -> None:
        self._branch = branch
        self._file = file
        self._count = count
        self._skipped = skipped
        self._is_silent = is_silent
        self._printer = Printer()
        self._progress = None if is_silent else progress_line()
        self._steps: list[dict[str, Any]] = []
        self.failed: list[Ran] = []
        self.was_stopped = False

    def begin(self, *, is_resumed: bool, was_taken_back: bool) -> None:
        """Say what is left out: because it was run already, or because the user said so."""
        why = "run already" if is_resumed else "left out"
        if self._skipped:
            self._say(f"{self._skipped} of {counted(self._count, 'cell')} {why}")
        if was_taken_back:
            self._say(f"cell {self._skipped + 1} failed the last time: what it did is taken back")

    def before(self, cell: Cell) -> Printer | None:
        """Say which cell is next; return what prints its output."""
        self._say(f"[{cell.number}/{self._count}] {cell.title}")
        for note in cell.notes:
            self._say(f"  not run: {note}")
        if self._progress is not None:
            self._progress("cell", cell.number, self._count)
        self._printer = Printer()
        return None if self._is_silent else self._printer

    def after(self, ran: Ran, saved: Sequence[Path]) -> None:
        """Say what a cell came to."""
        cell, step, was_stopped = ran
        self.was_stopped = self.was_stopped or was_stopped
        if not step.ok:
            self.failed.append(ran)
        if self._is_silent:
            told = {"cell": cell.number, "line": cell.line, "not_run": list(cell.notes)}
            self._steps.append(told | step_json(step, saved))
            return
        self._printer.outcome(step)
        self._say(summary(step, self._branch, saved))

    def end(self) -> None:
        """Say how it went."""
        end_progress()
        if self._is_silent:
            emit({
                "ok": not self.failed,
                "file": self._file,
                "branch": self._branch,
                "cells": self._count,
                "skipped": self._skipped,
                "steps": self._steps,
            })  # fmt: skip
            return
        for number, ran in enumerate(self.failed, start=1):
            hint = "mend it and say the same again: what was run already is left out"
            report(self._failure(ran), hint if number == len(self.failed) else "")

    def _failure(self, ran: Ran) -> str:
        cell, step, _ = ran
        error = step.error
        what = "" if error is None else f": {error.type}: {error.message}"
        where = ""
        if error is not None and error.line is not None:
            where = f", line {cell.line + error.line - 1}"
        return f"{self._file}, cell {cell.number} of {self._count}{where}{what}"

    def _say(self, text: str) -> None:
        if not self._is_silent:
            end_progress()
            click.echo(tame(click.style(text, dim=True)), err=True)
