"""A Python prompt on a workspace: complete inputs run as steps, `:` commands show and undo them.

An input that Python needs more lines for is read on, as in Python's own prompt. Each complete input
is one step, and a commit if it changed anything. An interrupt ends the step, not the prompt.

The history is stored in otolith/history under $XDG_STATE_HOME, or else ~/.local/state.
"""

from __future__ import annotations

import os
import sys
from codeop import compile_command
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import format_exception_only
from typing import Protocol
from warnings import catch_warnings, simplefilter

import click

from otolith.cli.errors import hint_of, report, terminal_error
from otolith.cli.format.history import oneline
from otolith.cli.format.workspace import (
    Printer,
    describe_variables,
    description,
    difference_lines,
    find_variable,
    has_changes,
    summary,
    variable_lines,
)
from otolith.cli.line_commands import LineCommands
from otolith.cli.run.workspace import OpenWorkspace, handle_interrupts
from otolith.cli.terminal import escape, table
from otolith.core import WORKSPACE
from otolith.errors import Error, RefExists
from otolith.text import size_text

_LONGEST_HISTORY = 10_000


class InputLines(Protocol):
    """Where a prompt reads its lines."""

    is_terminal: bool

    def next(self, prompt: str) -> str | None:
        """Return the next line, or None at the end of the input."""
        ...


class TerminalInput:
    """Lines from a terminal."""

    is_terminal = True

    def next(self, prompt: str) -> str | None:
        """Return what the user types, or None for Ctrl-D."""
        try:
            return input(prompt)
        except EOFError:
            print()
            return None


class PipeInput:
    """Lines from a file or a pipe; no prompt is printed."""

    is_terminal = False

    def next(self, prompt: str) -> str | None:
        """Return the next line without its end, or None at the end of the file."""
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None


@contextmanager
def input_lines() -> Iterator[InputLines]:
    """Return the lines of standard input; those of a terminal are stored in the history."""
    if not sys.stdin.isatty():
        yield PipeInput()
        return
    with _history(history_file()):
        yield TerminalInput()


def history_file() -> Path:
    """Return the path of this user's history."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = given if given.is_absolute() else Path.home() / ".local" / "state"
    return base / "otolith" / "history"


@contextmanager
def _history(file: Path) -> Iterator[None]:
    """Load the history of earlier prompts, and store it when this one ends."""
    try:
        import readline
    except ImportError:  # not on Windows
        yield
        return
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_LONGEST_HISTORY)
    try:
        yield
    finally:
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.write_history_file(file)


_LOG_LINES = 20


class Repl:
    """Reads inputs and runs them, until the input ends."""

    def __init__(self, opened: OpenWorkspace, lines: InputLines) -> None:
        self._state = opened.state
        self._workspace = opened.workspace
        self._lines = lines
        self._is_over = False
        self._commands = LineCommands(":", {
            "vars [NAME]": (self._vars, "list the variables, or describe one"),
            "diff [A [B]]": (
                lambda *commits: difference_lines(self._workspace.diff(*commits)),
                "show the changes of the last step, or between two commits",
            ),
            "log [NAME]": (self._log, "list the last steps, or those that changed a variable"),
            "files": (self._files, "list the files of the work folder, as committed"),
            "undo": (self._undo, "undo the last step: variables and files"),
            "fork NAME": (self._fork, "create a branch here, and continue there"),
            "help": (self._help, "show this list"),
            "quit": (self._quit, "leave; so does Ctrl-D"),
        })  # fmt: skip

    def loop(self) -> None:
        """Read and run until the input ends."""
        if self._lines.is_terminal:
            head = self._state.head
            where = escape(f"Session {self._state.session}, branch {self._state.name}")
            click.echo(f"{where}: {oneline(head) if head is not None else 'no commit yet'}")
            click.echo("Each input is a commit. :help lists the commands; Ctrl-D leaves.")
        try:
            while not self._is_over:
                self._read_and_run()
        finally:
            self._workspace.close()

    def _read_and_run(self) -> None:
        """Run the next input: a step or a command. Errors are reported, not raised."""
        try:
            source = self._read()
            if source is None:
                self._is_over = True
            elif source.startswith(":"):
                name, *words = source.split()
                found = self._commands.run(name[1:], words, line=source, hint=":help lists them")
                for text in found:
                    click.echo(text)
            elif source.strip():
                printer = Printer()
                with handle_interrupts(self._workspace):
                    step = self._workspace.run(source, on_output=printer)
                printer.outcome(step)
                if has_changes(step):
                    click.echo(summary(step, self._state.name), err=True)
        except KeyboardInterrupt:
            click.echo("\nKeyboardInterrupt", err=True)
        except Error as error:
            report(error.message, hint_of(error))
        except SyntaxError as error:
            click.echo("".join(format_exception_only(error)).rstrip(), err=True)

    def _read(self) -> str | None:
        """Return the next complete input, or None at the end.

        Raises:
            SyntaxError: the input is not Python.
        """
        line = self._lines.next(f"{self._state.name}>>> ")
        if line is None or line.startswith(":"):
            return line
        lines = [line]
        while not _is_complete("\n".join(lines)):
            line = self._lines.next("... ".rjust(len(self._state.name) + 4))
            if line is None:
                break
            lines.append(line)
        return "\n".join(lines)

    def _vars(self, name: str | None = None) -> Iterable[str]:
        """Return the variables as a table, or the description of one."""
        found = describe_variables(self._state)
        return variable_lines(found) if name is None else description(find_variable(found, name))

    def _log(self, name: str | None = None) -> Iterable[str]:
        """Yield the last steps, or those that changed a variable."""
        return (oneline(commit) for commit in self._workspace.log(var=name, limit=_LOG_LINES))

    def _files(self) -> Iterable[str]:
        """Return the committed files with their sizes; links with their targets."""
        path = (WORKSPACE, "files")
        if self._state.cell_at(path) is None:
            return []
        rows = []
        for name in self._state.map(path):
            entry = self._state.map((*path, name))
            if "data" in entry:
                shown = size_text(len(self._state.blob((*path, name, "data"))))
            else:
                shown = escape(f"-> {entry['link']}") if "link" in entry else "folder"
            rows.append([escape(str(name)), shown])
        return table(rows, right=(1,))

    def _undo(self) -> Iterable[str]:
        """Undo the last step, in the variables and in the work folder."""
        now = self._workspace.undo()
        yield f"{self._state.name} is at {oneline(now) if now is not None else 'no commit'}"

    def _fork(self, name: str) -> Iterable[str]:
        """Create a branch here, and open its workspace, which has a folder of its own."""
        try:
            state = self._state.fork(name)
        except RefExists as error:
            hint = f"`otolith -b {name} shell {self._state.session}` opens it"
            raise terminal_error(RefExists, error.message, hint) from None
        runner = self._workspace.runner
        self._workspace.close()
        self._state, self._workspace = state, state.workspace(runner=runner)
        yield f"On branch {name}, in {self._workspace.path}"

    def _help(self) -> Iterable[str]:
        """Return the commands as a table."""
        return self._commands.help()

    def _quit(self) -> Iterable[str]:
        """End the loop after this command."""
        self._is_over = True
        return []


def _is_complete(source: str) -> bool:
    """Return whether Python can run this without a further line.

    Raises:
        SyntaxError: no further line would make it Python.
    """
    with catch_warnings():
        simplefilter("ignore")  # the step itself will warn
        try:
            return compile_command(source) is not None
        except (ValueError, OverflowError) as error:
            raise SyntaxError(str(error)) from None
