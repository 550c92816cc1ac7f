"""The IPython and Jupyter extension: after `%load_ext otolith`, every cell commits the variables.

The code runs in the user's own process. Only data is stored: functions, classes and modules are
not. A variable that cannot be stored is reported once, and stays in the kernel.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import click

from otolith import opening
from otolith import session as session_room
from otolith.cli.errors import hint_of, report, with_terminal_hint
from otolith.cli.format.history import changes_text, oneline, plural
from otolith.cli.format.values import describe, is_data, one_line
from otolith.cli.terminal import table
from otolith.core import Commit
from otolith.errors import Error, Invalid
from otolith.session import Versioned

Namespace = dict[str, Any]
Say = Callable[[str], None]

_CODE = (ModuleType, FunctionType, BuiltinFunctionType, MethodType, type)


class VariableSync:
    """Keeps the variables of a kernel and a state in step: changes go in, rollbacks come out."""

    def __init__(self, state: Versioned, namespace: Namespace, hidden: Namespace, say: Say) -> None:
        self.state = state
        self.unstored: dict[str, str] = {}
        self._namespace = namespace
        self._hidden = hidden
        self._say = say
        self._bound: Namespace = {}  # the objects that the state has, by name

    def variables(self) -> Namespace:
        """Return the user's variables that may be data."""
        nothing = object()
        return {
            name: value
            for name, value in self._namespace.items()
            if _is_user_name(name)
            and self._hidden.get(name, nothing) is not value
            and not isinstance(value, _CODE)
        }

    def resume(self) -> list[str]:
        """Load the variables of the state; return the names that the kernel has already."""
        mine = self.variables()
        theirs = dict(self._values(name for name in self.state if name not in mine))
        self._namespace.update(theirs)
        self._bound = theirs
        return [name for name in self.state if name in mine]

    def commit(self, message: str, *, is_ok: bool = True) -> Commit | None:
        """Commit changed variables; return the commit, or None if none changed.

        Raises:
            MergeConflict: another process has changed the same variables.
        """
        self._stage()
        before, count = self.state.head, len(self.state.events)
        commit = self.state.commit(message, kind="cell", meta={"ok": is_ok}, skip_unstorable=True)
        for event in self.state.events[count:]:
            if event.kind == "skipped":
                self.unstored[event.data["path"]] = event.data["why"]
                self._say(f"not stored: {event.data['path']}, {event.data['why']}")
        return None if commit == before else commit

    def _stage(self) -> None:
        mine = self.variables()
        for name in self._bound.keys() - mine.keys():
            if name in self.state:
                del self.state[name]
        for name, value in mine.items():
            if name not in self._bound or self._bound[name] is not value:
                self.unstored.pop(name, None)
                self.state[name] = value
        self.unstored = {name: why for name, why in self.unstored.items() if name in mine}
        self._bound = mine

    def reload(self) -> None:
        """Replace the variables by those of the state, which has moved."""
        found = dict(self._values(self.state))
        for name in self._bound.keys() - found.keys():
            self._namespace.pop(name, None)
        self._namespace.update(found)
        self._bound = found
        self.unstored = {name: why for name, why in self.unstored.items() if name in found}

    def switch(self, state: Versioned) -> None:
        """Continue on another branch, which is at the same commit."""
        self.state = state
        # What cannot be stored is known there already; the rest must be staged there again.
        self._bound = {name: value for name, value in self._bound.items() if name in self.unstored}

    def _values(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        for name in list(filter(_is_user_name, names)):
            try:
                yield name, self.state[name]
            except Error as error:  # the value is lost, or its class is not defined in this kernel
                self._say(f"not loaded: {error.message}")


def _is_user_name(name: str) -> bool:
    """Return whether a name can be a variable of the user; others are IPython's."""
    return name.isidentifier() and not name.startswith("_")


_LOG_LINES = 20
_PREVIEW = 60

_HELP = {
    "open PATH SESSION [BRANCH]": "store the variables of this kernel there, and load those",
    "status": "show the session, and the variables that are not stored",
    "vars": "list the variables, and why one is not stored",
    "log [NAME]": "list the last cells, or those that changed a variable",
    "diff [A [B]]": "show the changes of the last cell, or between two commits",
    "undo": "undo the last cell",
    "checkout COMMIT": "restore the variables of a commit, as a new commit",
    "fork NAME": "create a branch here, and continue there",
    "close": "stop storing variables",
}


class Shell(Protocol):
    """The part of IPython's InteractiveShell that is used."""

    user_ns: dict[str, Any]
    user_ns_hidden: dict[str, Any]
    events: Any
    magics_manager: Any

    def register_magic_function(
        self, func: Callable[[str], None], magic_kind: str, magic_name: str
    ) -> None:
        """Add a magic."""


class Extension:
    """The magic `%otolith`, and the hook that commits after every cell."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._repo: session_room.Repo | None = None
        self._sync: VariableSync | None = None
        # The function of a command, and its least and most number of words.
        self._commands: dict[str, tuple[Callable[..., Iterable[str]], int, int]] = {
            "open": (self._open, 2, 3),
            "status": (self._status, 0, 0),
            "vars": (self._vars, 0, 0),
            "log": (self._log, 0, 1),
            "diff": (self._diff, 0, 2),
            "undo": (self._undo, 0, 0),
            "checkout": (self._checkout, 1, 1),
            "fork": (self._fork, 1, 1),
            "close": (self._close, 0, 0),
            "help": (lambda: table([[f"%otolith {k}", v] for k, v in _HELP.items()]), 0, 0),
        }

    def start(self) -> None:
        """Add the magic and the hook to the kernel."""
        self._shell.register_magic_function(self.magic, "line", "otolith")
        self._shell.events.register("post_run_cell", self.after_cell)

    def stop(self) -> None:
        """Remove them, and close the store."""
        self._shell.events.unregister("post_run_cell", self.after_cell)
        self._shell.magics_manager.magics["line"].pop("otolith", None)
        list(self._close())

    def after_cell(self, result: Any) -> None:
        """Commit the variables after a cell. Errors are printed, and the kernel continues."""
        if self._sync is None:
            return
        lines = str(result.info.raw_cell).strip().splitlines()
        try:
            self._sync.commit(lines[0][:100] if lines else "", is_ok=bool(result.success))
        except Error as error:
            report(error.message, hint_of(error))

    def magic(self, line: str) -> None:
        """Commit the variables of this kernel after each cell: %otolith open PATH SESSION."""
        try:
            for text in self._run_command(line):
                click.echo(text)
        except Error as error:
            report(error.message, hint_of(error))

    def _run_command(self, line: str) -> Iterable[str]:
        try:
            name, *words = shlex.split(line) or ["help"]
        except ValueError:  # a quote that is not closed
            name, words = line, []
        command, least, most = self._commands.get(name, (None, 0, 0))
        if command is None or not least <= len(words) <= most:
            raise with_terminal_hint(
                Invalid(f"%otolith {line} is not a command", hint="%otolith lists them")
            )
        return command(*words)

    def _open(self, path: str, session: str, branch: str = "main") -> Iterable[str]:
        yield from self._close()
        place = path if ":" in path else Path(path).expanduser()
        self._repo = opening.open(place)
        state = self._repo.session(session, branch=branch)
        names = self._shell.user_ns, self._shell.user_ns_hidden
        self._sync = VariableSync(state, *names, say=lambda text: click.echo(f"otolith: {text}"))
        own = self._sync.resume()
        yield from self._status()
        if own:
            yield f"This kernel already has {', '.join(own)}; the session stores these from now on."

    def _open_sync(self) -> VariableSync:
        if self._sync is None:
            raise with_terminal_hint(Invalid("no store is open", hint="%otolith open PATH SESSION"))
        return self._sync

    def _commit_first(self) -> VariableSync:
        """Commit the changes of the cell so far, and return the sync."""
        sync = self._open_sync()
        sync.commit("before %otolith")
        return sync

    def _status(self) -> Iterable[str]:
        sync = self._open_sync()
        state = sync.state
        head = oneline(state.head, {}) if state.head is not None else "no commit yet"
        yield f"Session {state.session}, branch {state.name}: {head}"
        stored = sync.variables().keys() - sync.unstored.keys()
        yield f"{plural(len(stored), 'variable')}, each cell a commit."
        for name, why in sync.unstored.items():
            yield f"Not stored: {name}, {why}"

    def _vars(self) -> Iterable[str]:
        sync = self._open_sync()
        rows = []
        for name, value in sorted(sync.variables().items()):
            preview = describe(value) if is_data(value) else one_line(value, _PREVIEW)
            rows.append([name, type(value).__name__, sync.unstored.get(name) or preview])
        return table(rows)

    def _log(self, name: str | None = None) -> Iterable[str]:
        path = None if name is None else (name,)
        found = self._open_sync().state.log(path=path, limit=_LOG_LINES)
        return (oneline(commit, {}) for commit in found)

    def _diff(self, old: str | None = None, new: str | None = None) -> Iterable[str]:
        state = self._commit_first().state
        if old is None and state.head is not None and not state.head.parents:
            return (f"+ {name}" for name in state)
        return changes_text(state.diff(old or "@~1", new or "@"))

    def _undo(self) -> Iterable[str]:
        sync = self._commit_first()
        now = sync.state.undo()
        sync.reload()
        yield f"{sync.state.name} is at {oneline(now, {})}"

    def _checkout(self, target: str) -> Iterable[str]:
        sync = self._commit_first()
        now = sync.state.rollback(target)
        sync.reload()
        yield f"{sync.state.name} is at {oneline(now, {})}"

    def _fork(self, name: str) -> Iterable[str]:
        sync = self._commit_first()
        sync.switch(sync.state.fork(name))
        return self._status()

    def _close(self) -> Iterable[str]:
        if self._sync is not None and self._repo is not None:
            state = self._sync.state
            self._repo.close()
            yield f"Closed session {state.session}."
        self._sync = self._repo = None


_loaded: WeakKeyDictionary[Shell, Extension] = WeakKeyDictionary()


def load(shell: Shell) -> None:
    """Add the magic and the hook to a kernel."""
    if shell not in _loaded:
        _loaded[shell] = Extension(shell)
        _loaded[shell].start()


def unload(shell: Shell) -> None:
    """Remove them again, and close the store."""
    extension = _loaded.pop(shell, None)
    if extension is not None:
        extension.stop()
