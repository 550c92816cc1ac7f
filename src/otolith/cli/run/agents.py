"""Agents, orchestrators and tasks in the user's files: found, opened on a session, resumed.

Their code runs in this process, without a sandbox. Whatever ends a run (an interrupt, an error of
the user's code, an effect of unknown outcome) is reported together with the command that resumes
it: `ResumeHint` writes these commands with the same options that this one was called with.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, NamedTuple

import click

from otolith.agent import Agent, LedgerEntry, Orchestrator, Outcome, Task
from otolith.cli.errors import report, terminal_error, user_code_errors, with_terminal_hint
from otolith.cli.format.history import plural
from otolith.cli.format.values import one_line
from otolith.cli.location import command_line, open_current
from otolith.cli.options import GlobalOptions
from otolith.cli.run.user_code import HOW_TO_NAME, import_code
from otolith.cli.terminal import escape
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


def load_code(options: GlobalOptions, name: str) -> tuple[Orchestrator | Agent | Task[Any], str]:
    """Import the user's file or module; return the object that `FILE.py:NAME` names, and its name.

    A class of orchestrators, or a function, is called without arguments. Without `:NAME`, the
    module must have exactly one orchestrator or agent. The name is `module:NAME`, however the
    module was found.

    Raises:
        Invalid: there is no such object, or it is something else.
    """
    source, _, attribute = name.rpartition(":") if ":" in name else (name, "", "")
    hint = "it is raised when it is imported; what it runs goes under __main__"
    with user_code_errors(name, hint):
        module = import_code(options.directory, source)
        if attribute and not hasattr(module, attribute):
            raise Invalid(f"{module.__name__} has no {attribute}", hint=HOW_TO_NAME)
        attribute = attribute or _only_runnable(module, name)
        found = getattr(module, attribute)
        is_class = isinstance(found, type) and issubclass(found, Orchestrator)
        if is_class or inspect.isfunction(found):
            found = _call(found, name)
    if not isinstance(found, Orchestrator | Agent | Task):
        raise Invalid(f"{name} is not an orchestrator, agent or task", hint=HOW_TO_NAME)
    return found, f"{module.__name__.rpartition('.')[2]}:{attribute}"


def run_name(options: GlobalOptions, code: str) -> str:
    """Return the name of the run that the user's code resumes."""
    found, _ = load_code(options, code)
    return found.name if isinstance(found, Orchestrator) else found.orchestrator().name


def _only_runnable(module: ModuleType, name: str) -> str:
    """Return the name of the one orchestrator or agent of a module, without imported classes.

    Raises:
        Invalid: it has none, or several.
    """

    def is_runnable(value: object) -> bool:
        """Return whether a value is an agent, an orchestrator, or a class of such defined here."""
        if isinstance(value, type) and issubclass(value, Orchestrator):
            return value.__module__ == module.__name__
        return isinstance(value, Agent | Orchestrator)

    found = {key: value for key, value in vars(module).items() if is_runnable(value)}
    if len(found) != 1:
        listed = ", ".join(found) or "none"
        message = f"{name} has {len(found)} orchestrators or agents: {listed}"
        raise Invalid(message, hint=HOW_TO_NAME)
    return next(iter(found))


def _call(factory: Any, name: str) -> Any:
    """Call a class or function without arguments.

    Raises:
        Invalid: it needs some.
    """
    try:
        inspect.signature(factory).bind()
    except TypeError:
        raise Invalid(
            f"{name} needs arguments, and the command line has none for it",
            hint=f"make one in the file, such as `booker = {factory.__name__}(…)`, and name that",
        ) from None
    return factory()


# ---------------------------------------------------------------- resuming

KEY_LETTERS = 10  # of an effect's key, enough to type; `--settle` refuses an ambiguous one


class ResumeHint(NamedTuple):
    """Writes the commands that resume, abandon or settle the run of a session."""

    options: GlobalOptions
    session: str
    code: str = "FILE.py:NAME"  # a placeholder where the user has not named it

    def resume(self, *more: str) -> str:
        """Return the command that resumes the run."""
        return command_line(self.options, "resume", self.session, "--with", self.code, *more)

    def abandon(self) -> str:
        """Return the command that ends the run where it is."""
        return command_line(self.options, "resume", self.session, "--abandon")

    def settle(self, key: str) -> str:
        """Return the command that records that a call happened."""
        words = ("effects", self.session, "--settle", key[:KEY_LETTERS], "--happened")
        return command_line(self.options, *words)

    def for_error(self, error: Error) -> str:
        """Return the command that follows an error, or nothing where its own hint is right.

        The library's hints name Python calls, such as `settle`; some errors are recognised by
        their message, because their class alone does not say what the user can do.
        """
        if isinstance(error, EffectUnknown):
            return f"find out, then `{self.settle(error.key)}`, or --not-happened"
        if isinstance(error, RefExists):
            return "choose another name for --to; without it one is found"
        if isinstance(error, KeyNotFound) and error.hint == "run(input)":
            words = ("run", self.code, "TASK", "--session", self.session)
            return f"`{command_line(self.options, *words)}` begins one"
        if type(error) is Conflict and "in the middle of" in error.message:
            resume, abandon = self.resume(), self.abandon()
            return f"`{resume}` resumes it, `{abandon}` ends it; or choose another --session"
        forked = re.match(r"the changes on branch (.+) conflict with", error.message)
        if isinstance(error, MergeConflict) and forked:
            merge = command_line(self.options, "-s", self.session, "merge", forked[1])
            return f"`{merge}`, resolve the conflicts, then `{self.resume()}`"
        return ""


def unknown_effects(state: Versioned) -> list[LedgerEntry]:
    """Return the calls of unknown outcome, those of sub-agents included."""
    return Orchestrator(state).unknown_effects(state.session)


def unknown_effect_lines(hint: ResumeHint, entries: list[LedgerEntry]) -> Iterator[str]:
    """Yield the calls of unknown outcome, each with the command that settles it."""
    if entries:
        calls = plural(len(entries), "call")
        yield f"{calls} may or may not have happened. Find out, then record it:"
    for each in entries:
        yield f"  {escape(each.tool)} {one_line(dict(each.arguments))}"
        yield f"    {hint.settle(each.key)}   (or --not-happened)"


@contextmanager
def run_errors(hint: ResumeHint, state: Versioned, *, is_replay: bool = False) -> Iterator[None]:
    """Report what ends a run, with the command that resumes it. A replay leaves its run alone."""
    again = "run the same command again" if is_replay else f"`{hint.resume()}` resumes the run"
    try:
        with user_code_errors(hint.code, f"fix it, then {again}"):
            yield
    except KeyboardInterrupt:
        if is_replay:
            raise
        click.echo(err=True)
        message = f"the run of session {hint.session} was interrupted"
        report(message, f"`{hint.resume()}` resumes it")
        with suppress(Error):  # the store may be unreachable; the interrupt is what counts
            for line in unknown_effect_lines(hint, unknown_effects(state)):
                click.echo(line, err=True)
        raise
    except Error as error:
        next_command = hint.for_error(error)
        if next_command:
            error.hint = next_command
            with_terminal_hint(error)
        raise


# ---------------------------------------------------------------- opening


class OpenRun(NamedTuple):
    """An open session, the orchestrator that runs in it, and its input."""

    state: Versioned
    orchestrator: Orchestrator
    input: str | None  # the prompt, for a task made from its arguments; None to resume
    hint: ResumeHint
    is_task: bool = False

    def result_returned(self, outcome: Outcome) -> None:
        """Record that the caller has the result of a task: the next call is a new run."""
        if self.is_task and outcome.state.is_over:
            self.orchestrator.mark_result_returned(self.state.session)


@contextmanager
def open_run(options: GlobalOptions, code: str, input: str | None = None) -> Iterator[OpenRun]:
    """Open a session with the user's classes, and put the object that `code` names to work in it.

    Without an input, the session must exist.
    """
    options.require_session()
    found, name = load_code(options, code)
    orchestrator = found if isinstance(found, Orchestrator) else found.orchestrator()
    if isinstance(found, Task) and input is not None:
        inputs = parse_inputs(found, input)
        input, orchestrator = found.prompt(inputs), found.orchestrator(inputs=inputs)
    if isinstance(found, Agent):
        orchestrator.code_name = name
    with open_current(options, unstash=False, must_exist=input is None, opaque=False) as current:
        state = orchestrator.where = current.branch
        hint = ResumeHint(options, state.session, code)
        yield OpenRun(state, orchestrator, input, hint, isinstance(found, Task))


def parse_inputs(task: Task[Any], text: str) -> dict[str, Any]:
    """Return the arguments of a task, from a JSON object.

    Raises:
        Invalid: the text is not a JSON object.
        BadValue: an argument is missing or has the wrong type; the message names it.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    names = ", ".join(f'"{name}": …' for name in task.signature.names if name != "state")
    hint = f"write {{{names}}}"
    if not isinstance(found, dict):
        message = f"the input of task {task.name} must be a JSON object, got {text!r}"
        raise Invalid(message, hint=hint)
    try:
        return task.inputs(found)
    except BadValue as error:
        raise terminal_error(BadValue, error.message, hint) from error
