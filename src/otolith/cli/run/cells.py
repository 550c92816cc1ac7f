"""Notebooks and scripts, run cell by cell; cells that a session has run already are skipped.

A notebook (`.ipynb`) has its cells; a script is divided by `# %%` lines, and is one cell without
any. Cells without code are left out, the others are numbered from 1. A line that only IPython
understands (`%…`, `!…`, `name?`) becomes a comment, so that line numbers stay the same.

The session itself records which cells of a file it has run:

    .workspace/runs/NAME    ["KEY HEAD", …]    cells in order, and the commit each was run on

A cell is recorded before it runs, and committed together with its changes. So the record and the
changes agree, whatever kills the process. Whether the last cell failed is in its commit. `-` stands
for a cell that must run again next time, because one before it had failed.

JSON: ok, file, branch, cells, skipped, steps. A step has the number, first line and `not_run` lines
of its cell beside what `exec` reports.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click

from otolith.cli.errors import report
from otolith.cli.format.history import plural
from otolith.cli.format.workspace import Printer, step_json, summary
from otolith.cli.run.workspace import handle_interrupts
from otolith.cli.terminal import emit, end_progress, escape_line, pick, progress_line
from otolith.core import WORKSPACE, Branch, Commit, digest
from otolith.errors import Invalid, NotFound
from otolith.session import Versioned
from otolith.workspace import Step, Workspace

_MARK = re.compile(r"#\s?%%")
_MAGIC = re.compile(r"\s*(?:[%!?]|[A-Za-z_][\w.,\s]*=\s*[%!]|[\w.]+\?{1,2}\s*$)")
_PYTHON_CELLS = frozenset({"%%time", "%%capture"})
"""Cell magics that run the code below them unchanged."""


class Cell(NamedTuple):
    """Code that runs as one step. `line` is where it begins in the file, 1 in a notebook."""

    number: int
    source: str
    line: int = 1
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A hash of the source."""
        return digest(self.source.encode("utf-8", "surrogatepass")).hex()[:24]

    @property
    def title(self) -> str:
        """The first line that is not empty."""
        lines = (line.strip() for line in self.source.splitlines())
        return next(filter(None, lines), "")[:80]


def cells_of(path: Path) -> list[Cell]:
    """Return the cells of a notebook or script.

    Raises:
        Invalid: there is no such file, or it is not a notebook or script.
    """
    try:
        parts = _notebook(path) if path.suffix == ".ipynb" else _script(path)
        with_code = (part for part in parts if _has_code(part[0]))
        return [Cell(number, *part) for number, part in enumerate(with_code, start=1)]
    except FileNotFoundError:
        raise Invalid(f"there is no file {path}", hint="name a notebook or a script") from None
    except (ValueError, SyntaxError, AttributeError, TypeError, KeyError) as error:
        what = "notebook" if path.suffix == ".ipynb" else "script"
        raise Invalid(f"{path} is not a {what}: {error}", hint="name an .ipynb or a .py") from None


def source_of(path: Path) -> str:
    """Return the text of a script, decoded as its first lines declare."""
    with tokenize.open(path) as file:
        return file.read()


_Part = tuple[str, int, tuple[str, ...]]
"""Source, line, and the lines that are not run."""


def _notebook(path: Path) -> Iterator[_Part]:
    """Yield the code cells of a notebook, without the lines that only IPython understands.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is not a notebook of Python.
    """
    book = json.loads(path.read_bytes())
    if book.get("nbformat", 0) < 4:
        raise ValueError("only notebooks of format 4 are read; `jupyter nbconvert` makes one")
    language = book.get("metadata", {}).get("language_info", {}).get("name", "python")
    if language != "python":
        raise ValueError(f"its language is {language}")
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            source, notes = without_magics("".join(cell["source"]))  # a text, or its lines
            yield source, 1, notes


def _script(path: Path) -> Iterator[_Part]:
    """Yield the parts of a script between its marks; one that is only a docstring is left out."""
    text = source_of(path)
    lines = text.splitlines()
    marks = _marks(text)
    for start, end in zip([0, *(mark + 1 for mark in marks)], [*marks, len(lines)], strict=True):
        part = lines[start:end]
        empty = next((at for at, line in enumerate(part) if line.strip()), len(part))
        source = "\n".join(part[empty:]).rstrip()
        tree = _parse(source)
        is_docstring = tree and len(tree.body) == 1 and ast.get_docstring(tree) is not None
        if not is_docstring:
            yield source, start + empty + 1, ()


def _parse(source: str) -> ast.Module | None:
    """Return the syntax tree of source, or None if it is not Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _marks(text: str) -> list[int]:
    """Return the lines, from 0, that divide a script; one inside a string does not."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return [at for at, line in enumerate(text.splitlines()) if _MARK.match(line)]
    comments = (token for token in tokens if token.type == tokenize.COMMENT)
    return [token.start[0] - 1 for token in comments if _MARK.match(token.line)]


def _has_code(source: str) -> bool:
    """Return whether there is more than comments; one that replaces a magic counts as code."""
    lines = (line.strip() for line in source.splitlines())
    return any(line and (not line.startswith("#") or _NOT_RUN in line) for line in lines)


_NOT_RUN = "# not run: "


def without_magics(source: str) -> tuple[str, tuple[str, ...]]:
    """Return source with the lines that only IPython understands as comments, and those lines."""
    if _parse(source) is not None:
        return source, ()
    lines = source.splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%") and first.split()[0] not in _PYTHON_CELLS:
        return "\n".join(_NOT_RUN + line for line in lines), (f"{first} and all below it",)
    result: list[str] = []
    magics: list[str] = []
    continues = False
    for line in lines:
        is_continuation = continues
        is_magic = is_continuation or (_MAGIC.match(line) is not None and not _is_open(result))
        continues = is_magic and line.endswith("\\")
        if is_magic:
            magics.append(line.strip())
        result.append(_comment(line, is_continuation=is_continuation) if is_magic else line)
    return "\n".join(result), tuple(magics)


def _comment(line: str, *, is_continuation: bool) -> str:
    """Return a line of a magic as a comment; an indented one as `pass`, in case it is a block."""
    text = line.lstrip()
    indent = "" if is_continuation else line[: len(line) - len(text)]
    # A trailing backslash would make the next line part of this one for `_is_open`.
    comment = _NOT_RUN + text.rstrip("\\")
    return f"{indent}pass  {comment}" if indent else comment


def _is_open(lines: list[str]) -> bool:
    """Return whether the next line continues a string, a bracket or a line."""
    if lines and lines[-1].endswith("\\"):
        return True
    try:
        list(tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline))
    except tokenize.TokenError as error:
        return "multi-line" in str(error) or "triple-quoted" in str(error)
    except SyntaxError:
        return False
    return False


_RUN_AGAIN = "-"


class FailedCell(NamedTuple):
    """The number of a cell that failed, and the commit of its changes."""

    number: int
    commit: Commit


class RunRecord:
    """The cells of one file that a session has run; `failed` is the last one, if it failed."""

    def __init__(self, state: Versioned, name: str) -> None:
        """Read the record of a file; an entry counts only if the commit that wrote it is ok."""
        self._state = state
        self._path = (WORKSPACE, "runs", name)
        entries, last = self._entries(), self._last_commit()
        step = last if last is not None and last.kind == "run" else None
        is_ok = step is not None and bool(step.meta.get("ok"))
        self._done = entries if is_ok else entries[:-1]
        self.failed: FailedCell | None = None
        if step is not None and not is_ok and not entries[-1].startswith(_RUN_AGAIN):
            self.failed = FailedCell(len(entries), step)

    def done(self, cells: Sequence[Cell]) -> int:
        """Return how many cells, from the first, were run with the source they have now."""
        known = [entry.partition(" ")[0] for entry in self._done]
        pairs = zip(known, (cell.key for cell in cells), strict=False)
        shorter = min(len(known), len(cells))
        return next((at for at, (old, new) in enumerate(pairs) if old != new), shorter)

    def truncate(self, count: int) -> None:
        """Forget all but the first `count` cells."""
        self._done = self._done[:count]

    def add(self, cell: Cell, *, counts: bool) -> None:
        """Stage a cell that is about to run; `counts` if it need not run again next time."""
        head = self._state.head.short if self._state.head is not None else ""
        # The head makes each entry unique, so that running a cell again changes the record.
        entry = f"{cell.key if counts else _RUN_AGAIN} {head}"
        staged = self._state.cells.put([*self._done, entry])
        self._state.write_reserved(self._path, staged)
        if counts:
            self._done = [*self._done, entry]

    def _entries(self) -> list[str]:
        """Return the record as it is stored; none if it is absent or is not a list."""
        cell = self._state.cell_at(self._path)
        entries = [] if cell is None else self._state.cells.load(cell)
        return [str(entry) for entry in entries] if isinstance(entries, list) else []

    def _last_commit(self) -> Commit | None:
        """Return the commit that wrote the record, looking through rollbacks."""
        last = next(self._state.log(path=self._path, limit=1), None)
        while last is not None and last.kind == "rollback":
            target = self._state.resolve(str(last.meta["to"]))
            last = next(self._state.log(target, path=self._path, limit=1), None)
        return last


OnOutput = Callable[[str, str], None]


class CellResult(NamedTuple):
    """A cell, its step, and whether the user interrupted it."""

    cell: Cell
    step: Step
    was_interrupted: bool


class CellRun:
    """Runs the cells of one file in a workspace."""

    def __init__(
        self, workspace: Workspace, record: RunRecord, name: str, cells: list[Cell], *, start: int
    ) -> None:
        """Prepare a run that starts with the cell of a number, from 1."""
        self._workspace = workspace
        self._state: Branch = workspace.state
        self._record = record
        self._name = name
        self._cells = cells
        self._start = start
        known = min(record.done(cells), start - 1)
        # A cell counts as run only if all before it do.
        self._counts = known == start - 1
        record.truncate(known)

    def undo_failed(self) -> bool:
        """Undo the first cell's step if it failed last time and nothing followed.

        Then the cell runs in the state it would have had the first time.
        """
        failed, head = self._record.failed, self._state.head
        if failed is None or failed.number != self._start or head != failed.commit:
            return False
        with suppress(NotFound):  # the first step of a session has no state before it
            self._workspace.undo()
            return True
        return False

    def results(self, before: Callable[[Cell], OnOutput | None]) -> Iterator[CellResult]:
        """Run cell after cell. `before` is called with each, and returns where its output goes."""
        for cell in self._cells[self._start - 1 :]:
            on_output = before(cell)
            self._workspace.restore()  # files the user put into the folder are a commit before
            self._record.add(cell, counts=self._counts)
            message = f"{self._name} {cell.number}/{len(self._cells)}: {cell.title}"
            with handle_interrupts(self._workspace) as interrupts:
                step = self._workspace.run(cell.source, message=message, on_output=on_output)
            if step.commit is None:
                self._state.discard()  # the record of it
            if not step.ok and self._counts:
                self._record.truncate(cell.number - 1)
                self._counts = False
            yield CellResult(cell, step, interrupts.was_interrupted)


@dataclass
class CellReporter:
    """Reports a run on standard error; with `as_json`, as one JSON object at its end."""

    branch: str
    file: str
    count: int  # cells of the file
    skipped: int  # cells before the first that runs
    as_json: bool
    failed: list[CellResult] = field(default_factory=list)
    was_interrupted: bool = False
    _printer: Printer = field(default_factory=Printer)
    _steps: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, *, is_resumed: bool, was_undone: bool) -> None:
        """Report the cells that are skipped: run before, or before the one the user named."""
        why = "run before" if is_resumed else "skipped"
        if self.skipped:
            self._say(f"{self.skipped} of {plural(self.count, 'cell')} {why}")
        if was_undone:
            self._say(f"cell {self.skipped + 1} failed last time: its changes are undone")

    def before(self, cell: Cell) -> Printer | None:
        """Report the next cell; return what prints its output."""
        self._say(f"[{cell.number}/{self.count}] {cell.title}")
        for note in cell.notes:
            self._say(f"  not run: {note}")
        show_progress = None if self.as_json else progress_line()
        if show_progress is not None:
            show_progress("cell", cell.number, self.count)
        self._printer = Printer()
        return None if self.as_json else self._printer

    def after(self, result: CellResult, saved: Sequence[Path]) -> None:
        """Report the result of a cell, and the figures that were saved."""
        cell, step, was_interrupted = result
        self.was_interrupted = self.was_interrupted or was_interrupted
        if not step.ok:
            self.failed.append(result)
        if self.as_json:
            about = {"cell": cell.number, "line": cell.line, "not_run": list(cell.notes)}
            self._steps.append(about | step_json(step, saved))
            return
        self._printer.outcome(step)
        self._say(summary(step, self.branch, saved))

    def end(self) -> None:
        """Report the cells that failed, and how to continue."""
        end_progress()
        if self.as_json:
            found = {"ok": not self.failed, **pick(self, "file", "branch"), "cells": self.count}
            emit(found | {"skipped": self.skipped, "steps": self._steps})
            return
        for number, (cell, step, _) in enumerate(self.failed, start=1):
            error = step.error
            what = "" if error is None else f": {error.type}: {error.message}"
            where = ""
            if error is not None and error.line is not None:
                where = f", line {cell.line + error.line - 1}"
            is_last = number == len(self.failed)
            hint = "fix the cell and run the same command again; completed cells are skipped"
            message = f"{self.file}, cell {cell.number} of {self.count}{where}{what}"
            report(message, hint if is_last else "")

    def _say(self, text: str) -> None:
        """Print a dim line on standard error, over the progress; nothing with `as_json`."""
        if not self.as_json:
            end_progress()
            click.echo(escape_line(click.style(text, dim=True)), err=True)
