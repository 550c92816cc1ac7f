"""Going on with a run, as it is typed: the commands that resume it, answer it and settle it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import click

from otolith.agent import Entry, Orchestrator, Versioned
from otolith.cli.asked import Asked
from otolith.cli.failures import report, worded
from otolith.cli.running.theirs import theirs
from otolith.cli.safety import safe
from otolith.cli.screen.values import one_line
from otolith.cli.screen.words import counted
from otolith.errors import Conflict, EffectUnknown, Error, KeyNotFound, MergeConflict, RefExists

KEY_LETTERS = 10
_SOME_CODE = "FILE.py:NAME"


def typed(asked: Asked, *words: str) -> str:
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

    asked: Asked
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
