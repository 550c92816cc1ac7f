"""A prompt on a workspace: reads input until it is whole, runs it as a step, obeys `:` commands.

Lines as they are typed: with history and editing on a terminal, from a pipe without.

The history is kept in otolith/history under $XDG_STATE_HOME, or else ~/.local/state.
"""

from __future__ import annotations

import os
import sys
from codeop import compile_command
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import format_exception_only
from typing import Protocol
from warnings import catch_warnings, simplefilter

import click

from otolith.cli.errors import hint_of, report, worded
from otolith.cli.format.history import oneline, size
from otolith.cli.format.workspace import (
    Printer,
    description,
    difference_lines,
    is_worth_telling,
    known,
    lines_of,
    one_of,
    summary,
)
from otolith.cli.run.workspace import OpenWorkspace, stopping
from otolith.cli.terminal import safe, table
from otolith.core import WORKSPACE
from otolith.errors import Error, Invalid, RefExists

_LONGEST_HISTORY = 10_000


class Lines(Protocol):
    """Gives one line after another."""

    is_terminal: bool

    def next(self, prompt: str) -> str | None:
        """Return the next line, or None if there is no more."""
        ...


class Typed:
    """Lines from a terminal."""

    is_terminal = True

    def next(self, prompt: str) -> str | None:
        try:
            return input(prompt)
        except EOFError:
            print()
            return None


class Piped:
    """Lines from a file or a pipe: nothing is prompted for."""

    is_terminal = False

    def next(self, prompt: str) -> str | None:
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None


@contextmanager
def lines_in() -> Iterator[Lines]:
    """Return what is typed; a terminal remembers it for the next time."""
    if not sys.stdin.isatty():
        yield Piped()
        return
    with _history(history_file()):
        yield Typed()


def history_file() -> Path:
    """Return where this user's history is kept."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = given if given.is_absolute() else Path.home() / ".local" / "state"
    return base / "otolith" / "history"


@contextmanager
def _history(file: Path) -> Iterator[None]:
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

_HELP = {
    ":vars [NAME]": "the variables, or all that is known of one",
    ":diff [A [B]]": "what the last step did, or what differs between two commits",
    ":log [NAME]": "the last steps, or those that changed a variable",
    ":files": "the files of the work folder, as they are kept",
    ":undo": "take the last step back: variables and files",
    ":fork NAME": "start a branch here, and go on there",
    ":help": "this",
    ":quit": "leave; so does Ctrl-D",
}


class Repl:
    """One conversation."""

    def __init__(self, bench: OpenWorkspace, lines: Lines) -> None:
        self._state = bench.state
        self._workspace = bench.workspace
        self._lines = lines
        self._is_over = False
        # What a command does, and how many words it takes at least and at most.
        self._commands: dict[str, tuple[Callable[..., Iterable[str]], int, int]] = {
            ":vars": (self._vars, 0, 1),
            ":diff": (self._diff, 0, 2),
            ":log": (self._log, 0, 1),
            ":files": (self._files, 0, 0),
            ":undo": (self._undo, 0, 0),
            ":fork": (self._fork, 1, 1),
            ":help": (self._help, 0, 0),
            ":quit": (self._quit, 0, 0),
        }

    def loop(self) -> None:
        """Read and run until there is no more input."""
        if self._lines.is_terminal:
            self._greet()
        try:
            while not self._is_over:
                self._turn()
        finally:
            self._workspace.close()

    def _turn(self) -> None:
        try:
            source = self._read()
            if source is None:
                self._is_over = True
            elif source.startswith(":"):
                self._obey(source)
            elif source.strip():
                self._run(source)
        except KeyboardInterrupt:
            click.echo("\nKeyboardInterrupt", err=True)
        except Error as error:
            report(error.message, hint_of(error))
        except SyntaxError as error:
            click.echo("".join(format_exception_only(error)).rstrip(), err=True)

    def _greet(self) -> None:
        where = safe(f"Session {self._state.session}, branch {self._state.name}")
        head = self._state.head
        click.echo(f"{where}: {oneline(head, {}) if head is not None else 'nothing yet'}")
        click.echo("Each input is a commit. :help lists what else there is; Ctrl-D leaves.")

    # Reading

    def _read(self) -> str | None:
        """Return the next input that is whole, or None if there is no more.

        Raises:
            SyntaxError: what was typed is no Python.
        """
        line = self._lines.next(f"{self._state.name}>>> ")
        if line is None or line.startswith(":"):
            return line
        lines = [line]
        while not _is_whole("\n".join(lines)):
            line = self._lines.next("... ".rjust(len(self._state.name) + 4))
            if line is None:
                break
            lines.append(line)
        return "\n".join(lines)

    def _run(self, source: str) -> None:
        printer = Printer()
        with stopping(self._workspace):
            step = self._workspace.run(source, on_output=printer)
        printer.outcome(step)
        if is_worth_telling(step):
            click.echo(summary(step, self._state.name), err=True)

    # Commands

    def _obey(self, line: str) -> None:
        name, *words = line.split()
        command, least, most = self._commands.get(name, (None, 0, 0))
        if command is None or not least <= len(words) <= most:
            raise worded(Invalid(f"{line} is no command", hint=":help lists what there is"))
        for text in command(*words):
            click.echo(text)

    def _vars(self, name: str | None = None) -> Iterable[str]:
        found = known(self._state)
        return lines_of(found) if name is None else description(one_of(found, name))

    def _diff(self, old: str | None = None, new: str | None = None) -> Iterable[str]:
        return difference_lines(self._workspace.diff(old, new))

    def _log(self, name: str | None = None) -> Iterable[str]:
        return (oneline(commit, {}) for commit in self._workspace.log(var=name, limit=_LOG_LINES))

    def _files(self) -> Iterable[str]:
        path = (WORKSPACE, "files")
        cell = self._state.cell_at(path)
        if cell is None:
            return []
        return table([list(self._file(str(name))) for name in self._state.map(path)], right=(1,))

    def _file(self, name: str) -> Iterator[str]:
        kept = self._state.map((WORKSPACE, "files", name))
        yield safe(name)
        if "data" in kept:
            yield size(len(self._state.blob((WORKSPACE, "files", name, "data"))))
        else:
            yield safe(f"-> {kept['link']}") if "link" in kept else "folder"

    def _undo(self) -> Iterable[str]:
        now = self._workspace.undo()
        yield f"{self._state.name} is at {oneline(now, {}) if now is not None else 'nothing'}"

    def _fork(self, name: str) -> Iterable[str]:
        try:
            state = self._state.fork(name)
        except RefExists as error:
            hint = f"`otolith -b {name} shell {self._state.session}` goes there"
            raise worded(RefExists(error.message, hint=hint)) from None
        runner = self._workspace.runner
        self._workspace.close()
        self._state, self._workspace = state, state.workspace(runner=runner)
        yield f"On branch {name}, in {self._workspace.path}"

    def _help(self) -> Iterable[str]:
        return table([[name, what] for name, what in _HELP.items()])

    def _quit(self) -> Iterable[str]:
        self._is_over = True
        return []


def _is_whole(source: str) -> bool:
    """Tell whether Python needs no further line to run this."""
    with catch_warnings():
        simplefilter("ignore")  # the step itself will warn
        try:
            return compile_command(source) is not None
        except (ValueError, OverflowError) as error:
            raise SyntaxError(str(error)) from None
