"""The magic `%otolith`, and the hook that commits after every cell.

The variables of a kernel in a state: what changed is committed, what was there comes back.

The code runs in the user's own process. What it defines (functions, classes, modules) is not kept,
only data is; what cannot be kept is named once, and stays in the kernel.

In IPython and Jupyter: `%load_ext otolith`, and every cell is a commit of the variables.

Read `cli/ipython.py` (the magic and the hook), then `cli/ipython.py` (variables to state, and
back).
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
from otolith.cli.errors import hint_of, report, worded
from otolith.cli.format.history import changes_text, counted, oneline
from otolith.cli.format.values import describe, is_data, one_line
from otolith.cli.terminal import table
from otolith.core import Commit
from otolith.errors import Error, Invalid
from otolith.session import Versioned

Namespace = dict[str, Any]
Say = Callable[[str], None]

_CODE = (ModuleType, FunctionType, BuiltinFunctionType, MethodType, type)


class Keeper:
    """A namespace and a state that follow each other."""

    def __init__(self, state: Versioned, namespace: Namespace, hidden: Namespace, say: Say) -> None:
        self.state = state
        self.unkept: dict[str, str] = {}
        self._namespace = namespace
        self._hidden = hidden
        self._say = say
        self._bound: Namespace = {}  # what the state holds, by name, as the very objects

    def variables(self) -> Namespace:
        """Return the variables of the user that may be data, the latest objects they name."""
        nothing = object()
        return {
            name: value
            for name, value in self._namespace.items()
            if _is_own(name)
            and self._hidden.get(name, nothing) is not value
            and not isinstance(value, _CODE)
        }

    def resume(self) -> list[str]:
        """Bring in what the state has; return the names for which the kernel has its own value."""
        mine = self.variables()
        theirs = dict(self._values(name for name in self.state if name not in mine))
        self._namespace.update(theirs)
        self._bound = theirs
        return [name for name in self.state if name in mine]

    def keep(self, message: str, *, is_ok: bool = True) -> Commit | None:
        """Commit what changed; return the commit, or None if nothing did.

        Raises:
            MergeConflict: somebody else has changed the same variables.
        """
        self._stage()
        before, count = self.state.head, len(self.state.events)
        commit = self.state.commit(message, kind="cell", meta={"ok": is_ok}, skip_unstorable=True)
        for event in self.state.events[count:]:
            if event.kind == "skipped":
                self.unkept[event.data["path"]] = event.data["why"]
                self._say(f"not kept: {event.data['path']}, {event.data['why']}")
        return None if commit == before else commit

    def _stage(self) -> None:
        mine = self.variables()
        for name in self._bound.keys() - mine.keys():
            if name in self.state:
                del self.state[name]
        for name, value in mine.items():
            if name not in self._bound or self._bound[name] is not value:
                self.unkept.pop(name, None)
                self.state[name] = value
        self.unkept = {name: why for name, why in self.unkept.items() if name in mine}
        self._bound = mine

    def bring_back(self) -> None:
        """Make the variables those of the state, which has moved; others are gone."""
        found = dict(self._values(self.state))
        for name in self._bound.keys() - found.keys():
            self._namespace.pop(name, None)
        self._namespace.update(found)
        self._bound = found
        self.unkept = {name: why for name, why in self.unkept.items() if name in found}

    def go_on(self, state: Versioned) -> None:
        """Go on with another branch, which is at the same commit."""
        self.state = state
        # What cannot be kept has its note there already; the rest has to be held there as well.
        self._bound = {name: value for name, value in self._bound.items() if name in self.unkept}

    def _values(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        for name in list(filter(_is_own, names)):
            try:
                yield name, self.state[name]
            except Error as error:  # it was lost, or its class is not defined in this kernel
                self._say(f"not brought back: {error.message}")


def _is_own(name: str) -> bool:
    """Tell whether a name can be a variable of the user's; the others are IPython's."""
    return name.isidentifier() and not name.startswith("_")


_LOG_LINES = 20
_PREVIEW = 60

_HELP = {
    "open PATH SESSION [BRANCH]": "keep the variables of this kernel there; bring in what it has",
    "status": "where the variables are kept, and which are not",
    "vars": "the variables, and whether they are kept",
    "log [NAME]": "the last cells, or those that changed a variable",
    "diff [A [B]]": "what the last cell did, or what differs between two commits",
    "undo": "take the last cell back",
    "checkout COMMIT": "make the variables what they were, by a new commit",
    "fork NAME": "start a branch here, and go on there",
    "close": "keep nothing any more",
}


class Shell(Protocol):
    """What is used of IPython's InteractiveShell."""

    user_ns: dict[str, Any]
    user_ns_hidden: dict[str, Any]
    events: Any
    magics_manager: Any

    def register_magic_function(
        self, func: Callable[[str], None], magic_kind: str, magic_name: str
    ) -> None: ...


class Extension:
    """What `%load_ext otolith` adds to a kernel."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._repo: session_room.Repo | None = None
        self._keeper: Keeper | None = None
        # What a command does, and how many words it takes at least and at most.
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
            "help": (_help, 0, 0),
        }

    def start(self) -> None:
        self._shell.register_magic_function(self.magic, "line", "otolith")
        self._shell.events.register("post_run_cell", self.after_cell)

    def stop(self) -> None:
        self._shell.events.unregister("post_run_cell", self.after_cell)
        self._shell.magics_manager.magics["line"].pop("otolith", None)
        list(self._close())

    def after_cell(self, result: Any) -> None:
        """Commit what a cell did. Whatever goes wrong is said, and the kernel goes on."""
        if self._keeper is None:
            return
        lines = str(result.info.raw_cell).strip().splitlines()
        try:
            self._keeper.keep(lines[0][:100] if lines else "", is_ok=bool(result.success))
        except Error as error:
            report(error.message, hint_of(error))

    def magic(self, line: str) -> None:
        """Keep the variables of this kernel as commits: %otolith open PATH SESSION."""
        try:
            for text in self._obey(line):
                click.echo(text)
        except Error as error:
            report(error.message, hint_of(error))

    def _obey(self, line: str) -> Iterable[str]:
        try:
            name, *words = shlex.split(line) or ["help"]
        except ValueError:  # a quote that is not closed
            name, words = line, []
        command, least, most = self._commands.get(name, (None, 0, 0))
        if command is None or not least <= len(words) <= most:
            raise worded(Invalid(f"%otolith {line} is no command", hint="%otolith lists them"))
        return command(*words)

    # Commands

    def _open(self, path: str, session: str, branch: str = "main") -> Iterable[str]:
        yield from self._close()
        place = path if ":" in path else Path(path).expanduser()
        self._repo = opening.open(place)
        state = self._repo.session(session, branch=branch)
        names = self._shell.user_ns, self._shell.user_ns_hidden
        self._keeper = Keeper(state, *names, say=lambda text: click.echo(f"otolith: {text}"))
        own = self._keeper.resume()
        yield from self._status()
        if own:
            yield f"This kernel has its own {', '.join(own)}; the session keeps that from now on."

    def _opened(self) -> Keeper:
        if self._keeper is None:
            raise worded(Invalid("no store is open", hint="%otolith open PATH SESSION"))
        return self._keeper

    def _settled(self) -> Keeper:
        """Return the keeper after what the cell did so far is committed."""
        keeper = self._opened()
        keeper.keep("before %otolith")
        return keeper

    def _status(self) -> Iterable[str]:
        keeper = self._opened()
        state = keeper.state
        head = oneline(state.head, {}) if state.head is not None else "no commit yet"
        yield f"Session {state.session}, branch {state.name}: {head}"
        kept = keeper.variables().keys() - keeper.unkept.keys()
        yield f"{counted(len(kept), 'variable')}, each cell a commit."
        for name, why in keeper.unkept.items():
            yield f"Not kept: {name}, {why}"

    def _vars(self) -> Iterable[str]:
        keeper = self._opened()
        return table([
            [name, type(value).__name__, keeper.unkept.get(name) or _preview(value)]
            for name, value in sorted(keeper.variables().items())
        ])  # fmt: skip

    def _log(self, name: str | None = None) -> Iterable[str]:
        path = None if name is None else (name,)
        found = self._opened().state.log(path=path, limit=_LOG_LINES)
        return (oneline(commit, {}) for commit in found)

    def _diff(self, old: str | None = None, new: str | None = None) -> Iterable[str]:
        state = self._settled().state
        if old is None and state.head is not None and not state.head.parents:
            return (f"+ {name}" for name in state)
        return changes_text(state.diff(old or "@~1", new or "@"))

    def _undo(self) -> Iterable[str]:
        keeper = self._settled()
        now = keeper.state.undo()
        keeper.bring_back()
        yield f"{keeper.state.name} is at {oneline(now, {})}"

    def _checkout(self, target: str) -> Iterable[str]:
        keeper = self._settled()
        now = keeper.state.rollback(target)
        keeper.bring_back()
        yield f"{keeper.state.name} is at {oneline(now, {})}"

    def _fork(self, name: str) -> Iterable[str]:
        keeper = self._settled()
        keeper.go_on(keeper.state.fork(name))
        return self._status()

    def _close(self) -> Iterable[str]:
        if self._keeper is not None and self._repo is not None:
            state = self._keeper.state
            self._repo.close()
            yield f"Closed session {state.session}."
        self._keeper = self._repo = None


def _help() -> Iterable[str]:
    return table([[f"%otolith {name}", what] for name, what in _HELP.items()])


def _preview(value: object) -> str:
    return describe(value) if is_data(value) else one_line(value, _PREVIEW)


_loaded: WeakKeyDictionary[Shell, Extension] = WeakKeyDictionary()


def load(shell: Shell) -> None:
    """Add the magic and the hook to a kernel."""
    if shell not in _loaded:
        _loaded[shell] = Extension(shell)
        _loaded[shell].start()


def unload(shell: Shell) -> None:
    """Take them away again, and close the store."""
    extension = _loaded.pop(shell, None)
    if extension is not None:
        extension.stop()
