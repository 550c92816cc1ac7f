"""A session opened for the user's code to run in, and the arguments that a terminal gives it.

Orchestrators, agents and tasks of the user's own code, found by name.

Going on with a run, as it is typed: the commands that resume it, answer it and settle it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click

from otolith import opening
from otolith.agent import Agent, Entry, Orchestrator, Outcome, Task
from otolith.cli.errors import report, theirs, worded
from otolith.cli.format.history import counted
from otolith.cli.format.values import one_line
from otolith.cli.location import OpenBranch, find, only_session
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import safe
from otolith.errors import (
    BadValue,
    Conflict,
    EffectUnknown,
    Error,
    Invalid,
    KeyNotFound,
    MergeConflict,
    RefExists,
)
from otolith.session import Versioned

_HOW = "name it as FILE.py:NAME or package.module:NAME"


def code_of(asked: GlobalOptions, given: str) -> Orchestrator | Agent | Task[Any]:
    """Return the orchestrator, agent or task that `FILE.py:NAME` names, of the user's.

    Raises:
        Invalid: there is no such thing, or it is something else.
    """
    place, _, name = given.rpartition(":") if ":" in given else (given, "", "")
    with theirs(given, "it is raised when it is imported; what it runs goes under __main__"):
        module = _module(asked, place)
        found = _named(module, name) if name else _only(module, given)
        if _makes(found):
            found = _made(found, given)
    if not isinstance(found, Orchestrator | Agent | Task):
        raise Invalid(f"{given} is no orchestrator, agent or task", hint=_HOW)
    return found


def name_of(asked: GlobalOptions, given: str) -> str:
    """Return the name of the run that code of the user's goes on with."""
    found = code_of(asked, given)
    return found.name if isinstance(found, Orchestrator) else found.acting().name


def _makes(found: object) -> bool:
    """Tell a class of orchestrators, or a function that may return one, from anything else."""
    return inspect.isfunction(found) or (
        isinstance(found, type) and issubclass(found, Orchestrator)
    )


def _made(found: Any, given: str) -> Any:
    try:
        inspect.signature(found).bind()
    except TypeError:
        raise Invalid(
            f"{given} needs arguments, which nobody has here",
            hint=f"make one in the file, such as `booker = {found.__name__}(…)`, and name that",
        ) from None
    return found()


def _module(asked: GlobalOptions, place: str) -> ModuleType:
    if not place.endswith(".py"):
        return _imported(asked.directory.resolve(), place)
    path = (asked.directory / place).resolve()
    if not path.is_file():
        raise Invalid(f"there is no file {place}", hint=_HOW)
    return _loaded(path)


def _imported(directory: Path, place: str) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise Invalid(f"{place!r} is no module", hint=_HOW)
    sys.path.insert(0, str(directory))
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if f"{place}.".startswith(f"{error.name}."):
            raise Invalid(f"there is no module {error.name}", hint=_HOW) from None
        raise  # it is there, and imports something that is not
    finally:
        sys.path.pop(0)


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    is_new = sys.modules.setdefault(path.stem, module) is module  # its classes are found by name
    # As Python does for a script: it may import its neighbours.
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if is_new:  # half a module is none
            del sys.modules[path.stem]
        raise
    return module


def _named(module: ModuleType, name: str) -> Any:
    if not hasattr(module, name):
        raise Invalid(f"{module.__name__} has no {name}", hint=_HOW)
    return getattr(module, name)


def _only(module: ModuleType, given: str) -> Any:
    """Return the one orchestrator or agent of a module."""
    own = {name: value for name, value in vars(module).items() if _runs(value, module)}
    if len(own) != 1:
        named = ", ".join(own) or "none"
        raise Invalid(f"{given} has {len(own)} orchestrators or agents: {named}", hint=_HOW)
    return next(iter(own.values()))


def _is_ready(value: object) -> bool:
    """Tell an orchestrator, an agent or a task from what makes one."""
    return isinstance(value, Orchestrator | Agent | Task)


def _runs(value: object, module: ModuleType) -> bool:
    if isinstance(value, type):
        return issubclass(value, Orchestrator) and value.__module__ == module.__name__
    return isinstance(value, Agent | Orchestrator)


KEY_LETTERS = 10
_SOME_CODE = "FILE.py:NAME"


def typed(asked: GlobalOptions, *words: str) -> str:
    """Return a command as it is typed, with what came before the verb this time."""
    options: list[str] = []
    if asked.store is not None and asked.store != os.environ.get("OTOLITH_STORE"):
        options += ["--store", asked.store]
    if asked.branch is not None:
        options += ["-b", asked.branch]
    if str(asked.directory) != ".":
        options += ["-C", str(asked.directory)]
    return safe(shlex.join(["otolith", *options, *words]))


class Going(NamedTuple):
    """A session whose run goes on, and the code that it goes on with."""

    asked: GlobalOptions
    session: str
    code: str = _SOME_CODE

    def on(self, *more: str) -> str:
        """Return the command that goes on with the run."""
        return typed(self.asked, "resume", self.session, "--with", self.code, *more)

    def abandoning(self) -> str:
        """Return the command that ends the run where it is."""
        return typed(self.asked, "resume", self.session, "--abandon")

    def settling(self, key: str) -> str:
        """Return the command that says that a call happened."""
        return typed(
            self.asked, "effects", self.session, "--settle", key[:KEY_LETTERS], "--happened"
        )


def open_effects(state: Versioned) -> list[Entry]:
    """Return the calls of which nobody knows whether they happened, also of sub-agents."""
    return Orchestrator(state).unknown_effects(state.session)


def open_lines(going: Going, entries: list[Entry]) -> Iterator[str]:
    """Yield the calls that may have happened or not, each with the command that decides."""
    if not entries:
        return
    yield f"{counted(len(entries), 'call')} may have happened, or not. Find out, then say so:"
    for each in entries:
        yield f"  {safe(each.tool)} {one_line(dict(each.arguments))}"
        yield f"    {going.settling(each.key)}   (or --not-happened)"


@contextmanager
def under_way(going: Going, state: Versioned, *, repeats: bool = False) -> Iterator[None]:
    """Tell what ends a run in the words of a terminal: an interrupt, an error of theirs or ours.

    What only `repeats` a run leaves that run as it is.
    """
    mended = "say the same again" if repeats else f"`{going.on()}` goes on with the run"
    try:
        with theirs(going.code, f"mend it, then {mended}"):
            yield
    except KeyboardInterrupt:
        if not repeats:
            _interrupted(going, state)
        raise
    except Error as error:
        hint = _hint(error, going)
        if hint:
            error.hint = hint
            worded(error)
        raise


def _hint(error: Error, going: Going) -> str:
    """Return what to type next, where the library's own hint speaks Python."""
    if isinstance(error, EffectUnknown):
        return f"find out, then `{going.settling(error.key)}`, or --not-happened"
    if isinstance(error, RefExists):
        return "choose another name for --to; without it one is found"
    if isinstance(error, KeyNotFound) and error.hint == "run(input)":
        begin = typed(going.asked, "run", going.code, "TASK", "--session", going.session)
        return f"`{begin}` begins one"
    if type(error) is Conflict and "in the middle of" in error.message:
        goes_on, ends = going.on(), going.abandoning()
        return f"`{goes_on}` goes on with it, `{ends}` ends it; or choose another --session"
    forked = re.match(r"what (.+) did does not go with", error.message)
    if isinstance(error, MergeConflict) and forked:
        merge = typed(going.asked, "-s", going.session, "merge", forked[1])
        return f"`{merge}`, decide the conflicts, then `{going.on()}`"
    return ""


def _interrupted(going: Going, state: Versioned) -> None:
    click.echo(err=True)
    report(f"the run of session {going.session} was interrupted", f"`{going.on()}` goes on with it")
    with suppress(Error):  # an interrupt stays one, also where the store is out of reach
        for line in open_lines(going, open_effects(state)):
            click.echo(line, err=True)


_STATE = "state"


class Running(NamedTuple):
    """A session, what runs in it, what it is told to do, and how to go on with it."""

    state: Versioned
    orchestrator: Orchestrator
    told: str | None
    going: Going
    is_task: bool = False

    def hand_over(self, outcome: Outcome) -> None:
        """Note that the result of a task is told to whoever asked: the next call begins anew."""
        if self.is_task and outcome.state.is_over:
            self.orchestrator.hand_over(self.state.session)


@contextmanager
def running(
    asked: GlobalOptions, session: str | None, given: str, told: str | None = None
) -> Iterator[Running]:
    """Open a session with the user's classes, and what `FILE.py:NAME` names in it.

    A session that nothing is told must be there already.
    """
    found = code_of(asked, given)
    orchestrator = found if isinstance(found, Orchestrator) else found.acting()
    if isinstance(found, Task) and told is not None:
        inputs = inputs_of(found, told)
        told, orchestrator = found.prompt(inputs), found.acting(inputs=inputs)
    place = find(asked if session is None else asked._replace(session=session))
    with opening.open(place.url, create=False) as repo:
        state = repo.session(place.session or only_session(repo), branch=place.branch)
        if told is None:
            OpenBranch(place, repo, state).head()
        orchestrator.where = state
        going = Going(asked, state.session, given)
        yield Running(state, orchestrator, told, going, isinstance(found, Task))


def inputs_of(task: Task[Any], told: str) -> dict[str, Any]:
    """Return the arguments of a task, which a terminal gives as JSON, as the task wants them.

    Raises:
        Invalid: they are no arguments.
        BadValue: one does not fit; the message says which.
    """
    try:
        found = json.loads(told)
    except ValueError:
        found = None
    names = ", ".join(f'"{name}": …' for name in task.signature.names if name != _STATE)
    hint = f"write {{{names}}}"
    if not isinstance(found, dict):
        raise Invalid(f"{task.name} is a task, and {told!r} are no arguments", hint=hint)
    try:
        return task.inputs(found)
    except BadValue as error:
        raise worded(BadValue(error.message, hint=hint)) from error
