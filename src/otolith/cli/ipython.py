"""The IPython and Jupyter extension: after `%load_ext otolith`, every cell commits the variables.

The code runs in the user's own process. Only data is stored: functions, classes and modules are
not. A variable that cannot be stored is reported once, and stays in the kernel.

Theory of operation. `VariableSync` remembers which object it last staged under each name. After a
cell it stages the names that are bound to another object now, and deletes those that are gone; the
commit finds what was changed in place. An undo or rollback works the other way: the state moves,
and its values replace the variables. Errors are printed, never raised into the user's cell.
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
from otolith.cli.errors import hint_of, report, terminal_error
from otolith.cli.format.history import oneline, plural
from otolith.cli.format.state_difference import StateDifference
from otolith.cli.format.values import describe, is_data, one_line
from otolith.cli.line_commands import LineCommands
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
        """Stage what differs from the state: new, rebound and deleted variables.

        Objects that were changed in place are found by the commit itself.
        """
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
        """Yield the variables of the state; one that cannot be loaded is reported and left out."""
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
        self._commands = LineCommands("%otolith ", {
            "open PATH SESSION [BRANCH]": (
                self._open, "store the variables of this kernel there, and load those"
            ),
            "status": (self._status, "show the session, and the variables that are not stored"),
            "vars": (self._vars, "list the variables, and why one is not stored"),
            "log [NAME]": (self._log, "list the last cells, or those that changed a variable"),
            "diff [A [B]]": (
                self._diff, "show the changes of the last cell, or between two commits"
            ),
            "undo": (lambda: self._move(Versioned.undo), "undo the last cell"),
            "rollback [COMMIT]": (
                lambda commit=None: self._move(lambda state: state.rollback(commit)),
                "restore the variables of a commit, or those before the last cell, as a new commit",
            ),
            "fork NAME": (self._fork, "create a branch here, and continue there"),
            "close": (self._close, "stop storing variables"),
        })  # fmt: skip

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
            name, *words = shlex.split(line) or ["help"]
        except ValueError:  # a quote that is not closed
            name, words = line, []
        typed = f"%otolith {line}"
        try:
            for text in self._commands.run(name, words, line=typed, hint="%otolith lists them"):
                click.echo(text)
        except Error as error:
            report(error.message, hint_of(error))

    def _open(self, path: str, session: str, branch: str = "main") -> Iterable[str]:
        """Open a session, and load its variables that the kernel does not have."""
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
        """Return the open session.

        Raises:
            Invalid: there is none.
        """
        if self._sync is None:
            raise terminal_error(Invalid, "no store is open", "%otolith open PATH SESSION")
        return self._sync

    def _commit_first(self) -> VariableSync:
        """Commit the changes of the cell so far, and return the sync."""
        sync = self._open_sync()
        sync.commit("before %otolith")
        return sync

    def _status(self) -> Iterable[str]:
        """Yield the session, its head, and the variables that are not stored."""
        sync = self._open_sync()
        state = sync.state
        head = oneline(state.head) if state.head is not None else "no commit yet"
        yield f"Session {state.session}, branch {state.name}: {head}"
        stored = sync.variables().keys() - sync.unstored.keys()
        yield f"{plural(len(stored), 'variable')}, each cell a commit."
        for name, why in sync.unstored.items():
            yield f"Not stored: {name}, {why}"

    def _vars(self) -> Iterable[str]:
        """Return the variables as a table: name, type, and a preview or why it is not stored."""
        sync = self._open_sync()
        rows = []
        for name, value in sorted(sync.variables().items()):
            preview = describe(value) if is_data(value) else one_line(value, _PREVIEW)
            rows.append([name, type(value).__name__, sync.unstored.get(name) or preview])
        return table(rows)

    def _log(self, name: str | None = None) -> Iterable[str]:
        """Yield the last commits, or those that changed a variable."""
        path = None if name is None else (name,)
        found = self._open_sync().state.log(path=path, limit=_LOG_LINES)
        return (oneline(commit) for commit in found)

    def _diff(self, old: str | None = None, new: str | None = None) -> Iterable[str]:
        """Yield the changes of the last cell, or between two commits."""
        state = self._commit_first().state
        if old is None and state.head is not None and not state.head.parents:
            return (f"+ {name}" for name in state)
        return StateDifference.of(state.diff(old or "@~1", new or "@")).lines()

    def _move(self, move: Callable[[Versioned], Commit]) -> Iterable[str]:
        """Undo, or restore a commit; then replace the variables by those of the state."""
        sync = self._commit_first()
        now = move(sync.state)
        sync.reload()
        yield f"{sync.state.name} is at {oneline(now)}"

    def _fork(self, name: str) -> Iterable[str]:
        """Create a branch at the current commit, and continue there."""
        sync = self._commit_first()
        sync.switch(sync.state.fork(name))
        return self._status()

    def _close(self) -> Iterable[str]:
        """Close the store, if one is open. The variables stay in the kernel."""
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
