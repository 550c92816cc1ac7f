"""The magic `%otolith`, and the hook that commits after every cell."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import click

from otolith import agent, opening
from otolith.cli.failures import hint_of, report, worded
from otolith.cli.notebook.keeper import Keeper
from otolith.cli.screen.data import describe, is_data
from otolith.cli.screen.output import table
from otolith.cli.screen.values import one_line
from otolith.cli.screen.words import changes_text, counted, oneline
from otolith.errors import Error, Invalid

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
        self._repo: agent.Repo | None = None
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
