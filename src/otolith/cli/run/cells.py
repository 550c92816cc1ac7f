"""Notebooks and scripts as cells: what each says, where it begins, and what of it cannot be run.

A notebook (`.ipynb`) has its cells, a script those that `# %%` divides it into; without such a line
it is one cell. Cells that hold no code are left out, the others are counted from 1. A line that
only IPython understands (`%…`, `!…`, `name?`) becomes a comment, in its place, so that the numbers
of lines stay as they are.

Which cells of a file a session has run: kept in the session itself, with each step.

    .workspace/runs/NAME    ["KEY HEAD", …]    cells in order, and the commit each was run on

A cell is entered before it is run and committed together with what it did, so whatever kills the
process, what was run and what is noted agree. Whether the last cell failed is said by its commit.
`-` stands for a cell that says nothing about the next time, because one before it had failed.

The cells of a file run one by one: each a step, those that were run already left out.

What a run of many cells says: which cell it is at, what each did, and where it failed.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import click

from otolith.cli.errors import report
from otolith.cli.format.history import counted
from otolith.cli.format.workspace import Printer, step_json, summary
from otolith.cli.run.workspace import stopping
from otolith.cli.terminal import emit, end_progress, progress_line, tame
from otolith.core import WORKSPACE, Branch, Commit, digest
from otolith.errors import Invalid, NotFound
from otolith.session import Versioned
from otolith.workspace import Step, Workspace

_MARK = re.compile(r"#\s?%%")
_MAGIC = re.compile(r"\s*(?:[%!?]|[A-Za-z_][\w.,\s]*=\s*[%!]|[\w.]+\?{1,2}\s*$)")
_PYTHON_CELLS = frozenset({"%%time", "%%capture"})
"""Cell magics that run what is below them as it is."""


class Cell(NamedTuple):
    """Code to be run as one step; `line` is that of the file, or 1 in a notebook."""

    number: int
    source: str
    line: int = 1
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What tells this source from others."""
        return digest(self.source.encode("utf-8", "surrogatepass")).hex()[:24]

    @property
    def title(self) -> str:
        """The first line that says something."""
        lines = (line.strip() for line in self.source.splitlines())
        return next(filter(None, lines), "")[:80]


def cells_of(path: Path) -> list[Cell]:
    """Return the cells of a file.

    Raises:
        Invalid: it cannot be read as what its name says.
    """
    try:
        pieces = _notebook(path) if path.suffix == ".ipynb" else _script(path)
        coded = (piece for piece in pieces if not _is_blank(piece[0]))
        return [Cell(number, *piece) for number, piece in enumerate(coded, start=1)]
    except FileNotFoundError:
        raise Invalid(f"there is no file {path}", hint="name a notebook or a script") from None
    except (ValueError, SyntaxError, AttributeError, TypeError, KeyError) as error:
        what = "notebook" if path.suffix == ".ipynb" else "script"
        raise Invalid(f"{path} is no {what}: {error}", hint="name an .ipynb or a .py") from None


def source_of(path: Path) -> str:
    """Return the text of a script, in the encoding that it names."""
    with tokenize.open(path) as file:
        return file.read()


Piece = tuple[str, int, tuple[str, ...]]


def _notebook(path: Path) -> Iterator[Piece]:
    book = json.loads(path.read_bytes())
    if book.get("nbformat", 0) < 4:
        raise ValueError("only notebooks of format 4 are read; `jupyter nbconvert` makes one")
    language = book.get("metadata", {}).get("language_info", {}).get("name", "python")
    if language != "python":
        raise ValueError(f"its language is {language}")
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            source, notes = without_magics(_joined(cell["source"]))
            yield source, 1, notes


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _script(path: Path) -> Iterator[Piece]:
    text = source_of(path)
    lines = text.splitlines()
    marks = _marks(text)
    for start, end in zip([0, *(mark + 1 for mark in marks)], [*marks, len(lines)], strict=True):
        piece = lines[start:end]
        empty = next((at for at, line in enumerate(piece) if line.strip()), len(piece))
        source = "\n".join(piece[empty:]).rstrip()
        if not _is_docstring(source):
            yield source, start + empty + 1, ()


def _is_docstring(source: str) -> bool:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return len(tree.body) == 1 and ast.get_docstring(tree) is not None


def _marks(text: str) -> list[int]:
    """Return which lines divide a script, from 0; one inside of a text does not."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return [at for at, line in enumerate(text.splitlines()) if _MARK.match(line)]
    comments = (token for token in tokens if token.type == tokenize.COMMENT)
    return [token.start[0] - 1 for token in comments if _MARK.match(token.line)]


def _is_blank(source: str) -> bool:
    """Tell whether there is nothing but comments; one that stands for a magic is no such."""
    lines = (line.strip() for line in source.splitlines())
    return all(not line or (line.startswith("#") and _NOT_RUN not in line) for line in lines)


# Magics

_NOT_RUN = "# not run: "


def without_magics(source: str) -> tuple[str, tuple[str, ...]]:
    """Return source with what only IPython understands as comments, and what that was."""
    if _is_python(source):
        return source, ()
    lines = source.splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%") and first.split()[0] not in _PYTHON_CELLS:
        return "\n".join(_NOT_RUN + line for line in lines), (f"{first} and all below it",)
    kept: list[str] = []
    notes: list[str] = []
    goes_on = False
    for line in lines:
        is_rest = goes_on
        is_magic = is_rest or (_MAGIC.match(line) is not None and not _is_inside(kept))
        goes_on = is_magic and line.endswith("\\")
        if is_magic:
            notes.append(line.strip())
        kept.append(_silenced(line, is_rest=is_rest) if is_magic else line)
    return "\n".join(kept), tuple(notes)


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _silenced(line: str, *, is_rest: bool) -> str:
    """Return a magic, or the rest of one, as a comment; in a block, something must stand there."""
    text = line.lstrip()
    indent = "" if is_rest else line[: len(line) - len(text)]
    # A backslash would make the next line part of this one for those who look at it.
    comment = _NOT_RUN + text.rstrip("\\")
    return f"{indent}pass  {comment}" if indent else comment


def _is_inside(lines: list[str]) -> bool:
    """Tell whether the next line goes on with a text, a bracket or a line that was begun."""
    if lines and lines[-1].endswith("\\"):
        return True
    try:
        list(tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline))
    except tokenize.TokenError as error:
        return "multi-line" in str(error) or "triple-quoted" in str(error)
    except SyntaxError:
        return False
    return False


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
