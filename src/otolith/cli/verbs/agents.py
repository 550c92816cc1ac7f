"""What agents did, and going on with it: `events`, `resume` and `replay`; `run` begins a run."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import chain, count
from typing import Any

import click

from otolith.agent import Outcome, Versioned, code_in, replay, replies_in, run_in, runs_in
from otolith.agent import events as events_of
from otolith.cli.asked import Asked
from otolith.cli.failures import worded
from otolith.cli.place import at_hand
from otolith.cli.running.agents import running
from otolith.cli.screen.chats import (
    event_json,
    event_line,
    outcome_json,
    outcome_lines,
    recorded_json,
    recorded_lines,
    run_lines,
)
from otolith.cli.screen.output import emit, json_option, page
from otolith.core import Commit
from otolith.errors import Invalid, KeyNotFound

_UNFINISHED, _FAILED = 8, 1  # errors leave with 1 to 7
_CODES = {"done": 0, "error": _FAILED}

_with = click.option(
    "--with", "given", metavar="CODE", help="What runs: FILE.py:NAME or package.module:NAME."
)
max_steps_option = click.option(
    "--max-steps", type=click.IntRange(min=0), default=50, show_default=True, metavar="N",
    help="End after so many steps.",
)  # fmt: skip
max_seconds_option = click.option(
    "--max-seconds", type=click.FloatRange(min=0), metavar="N", help="End after so long."
)


@click.command("events")
@click.argument("session", required=False)
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind; repeatable.")
@click.option("--agent", metavar="NAME", help="Only of this agent.")
@click.option("--since", metavar="WHEN", help="A time (ISO 8601), or a commit: what came after it.")
@click.option("--until", metavar="WHEN", help="A time, or a commit: what it contains.")
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="The last N.")
@json_option
@click.pass_obj
def events(
    asked: Asked,
    *,
    session: str | None,
    kinds: tuple[str, ...],
    agent: str | None,
    since: str | None,
    until: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List what happened in a session, the oldest first."""
    asked = asked if session is None else asked._replace(session=session)
    with at_hand(asked, read_only=True) as desk:
        desk.head()  # says so if there is no such session
        found = events_of(
            desk.branch,
            kind=kinds or None,
            agent=agent,
            since=_moment(since),
            until=_moment(until),
            limit=limit,
        )
        if as_json:
            emit({"events": list(map(event_json, found))})
        else:
            page(map(event_line, found), asked)


def _moment(text: str | None) -> datetime | str | None:
    """Return a time that has its zone, or what names a commit."""
    if text is None or not re.match(r"\d{4}-\d\d-\d\d", text):
        return text
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"{text!r} is no time: {error}\nwrite 2026-11-16T09:30") from None
    return found if found.tzinfo is not None else found.astimezone()


@click.command("resume")
@click.argument("session", required=False)
@_with
@click.option("--answer", metavar="TEXT", help="What to say to the question that it waits with.")
@click.option("--force", is_flag=True, help="Even if other code has begun it.")
@max_steps_option
@max_seconds_option
@json_option
@click.pass_context
def resume(
    ctx: click.Context,
    *,
    session: str | None,
    given: str | None,
    answer: str | None,
    force: bool,
    max_steps: int,
    max_seconds: float | None,
    as_json: bool,
) -> None:
    """Go on with a run that was cut off, paused or stopped.

    The code of the run is yours: `--with` says where it is. Without it, only what is known of the
    run is shown. Leaves with 1 if the run ended with an error, and with 8 if it is not over.
    """
    if given is None:
        if answer is not None:
            raise click.UsageError("an answer needs somebody to hear it: say --with FILE.py:NAME")
        ctx.exit(_show_run(_in(ctx.obj, session), as_json=as_json))
    with running(ctx.obj, session, given) as (state, orchestrator, _):
        began = code_in(state, orchestrator.name)
        if began not in ("", orchestrator.code) and not force:
            raise Invalid(
                f"{began} has begun this run, and {given} is {orchestrator.code}",
                hint=f"name {began}; or say --force, if it has another name now",
            )
        outcome = orchestrator.resume(
            state.session, answer, max_steps=max_steps, max_seconds=max_seconds
        )
        _tell(ctx, outcome, as_json=as_json)


def _in(asked: Asked, session: str | None) -> Asked:
    return asked if session is None else asked._replace(session=session)


def begin(
    ctx: click.Context, given: str, told: str, *, session: str | None, again: bool, as_json: bool,
    **limits: Any,
) -> None:  # fmt: skip
    """Begin a run of the user's code, or go on with it if it was told the same before."""
    with running(ctx.obj, session, given, told) as (state, orchestrator, task):
        outcome = orchestrator.run(task, session=state.session, again=again, **limits)
        _tell(ctx, outcome, as_json=as_json)


def _tell(ctx: click.Context, outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        emit(outcome_json(outcome))
    else:
        page(outcome_lines(outcome), ctx.obj)
    ctx.exit(_CODES.get(outcome.ended, _UNFINISHED))


def _show_run(asked: Asked, *, as_json: bool) -> int:
    """Show the runs of a session; return the exit code of the one that is furthest from its end."""
    with at_hand(asked, read_only=True) as desk:
        desk.head()
        runs = {name: run_in(desk.branch, name) for name in runs_in(desk.branch)}
        found = {name: state for name, state in runs.items() if state is not None}
        if not found:
            session = desk.branch.session
            raise worded(KeyNotFound(f"nothing ran in session {session}", hint="see `otolith log`"))
        if as_json:
            emit({"runs": {name: state.head_data() for name, state in found.items()}})
        else:
            page([line for name, state in found.items() for line in run_lines(name, state)], asked)
        if not all(state.is_over for state in found.values()):
            return _UNFINISHED
        return _FAILED if any(state.error for state in found.values()) else 0


@click.command("replay")
@click.argument("session", required=False)
@click.option("--at", "ref", metavar="REF", help="From this commit.  [default: the first]")
@click.option("--run", "name", default="main", show_default=True, metavar="NAME", help="Which run.")
@_with
@click.option("--to", "branch", metavar="BRANCH", help="The branch to replay on.")
@click.option("--fresh", is_flag=True, help="Ask the model anew, also what is on record.")
@click.option("--act", is_flag=True, help="Let tools act on the world where nothing is on record.")
@max_steps_option
@json_option
@click.pass_context
def replaying(
    ctx: click.Context,
    *,
    session: str | None,
    ref: str | None,
    name: str,
    given: str | None,
    branch: str | None,
    fresh: bool,
    act: bool,
    max_steps: int,
    as_json: bool,
) -> None:
    """Repeat a run from a commit, on a branch of its own; the run itself stays as it is.

    What models answered is on record, and so is what tools with effects came to. Without `--with`,
    the record is shown. With it, the run is repeated with that code: its prompt, tools and model.
    """
    asked: Asked = ctx.obj
    if given is None:
        _show_record(_in(asked, session), name, ref, as_json=as_json)
        return
    with running(asked, session, given) as (state, orchestrator, _):
        orchestrator.name = name
        begin = state.resolve(ref) if ref is not None else _first(state, name)
        made = replay(
            orchestrator,
            state,
            at=begin,
            branch=branch or _free(state, f"replay-{begin.short}"),
            model=orchestrator.model if fresh else None,
            may_act=act,
            max_steps=max_steps,
        )
        told = f"on branch {made.state.name}: {made.replayed} answers on record, {made.asked} new"
        if as_json:
            extra = {"branch": made.state.name, "replayed": made.replayed, "asked": made.asked}
            emit(outcome_json(made.outcome) | extra)
        else:
            page([*outcome_lines(made.outcome), told], asked)
        ctx.exit(_CODES.get(made.outcome.ended, _UNFINISHED))


def _free(state: Versioned, name: str) -> str:
    """Return the name of a branch that there is not yet."""
    taken = state.repo.branches(state.session)
    return next(
        each for each in chain([name], map(f"{name}-{{}}".format, count(2))) if each not in taken
    )


def _first(state: Versioned, name: str) -> Commit:
    """Return the commit that a run began with."""
    began = [commit for commit in state.log() if commit.meta.get("run") == name]
    if not began:
        raise worded(KeyNotFound(f"there is no run {name}", hint="`otolith resume` lists them"))
    return began[-1]


def _show_record(asked: Asked, name: str, ref: str | None, *, as_json: bool) -> None:
    with at_hand(asked, read_only=True) as desk:
        desk.head()
        state = desk.branch if ref is None else desk.repo.at(desk.commit(ref))
        if name not in runs_in(state):
            known = ", ".join(runs_in(state)) or "none"
            raise worded(KeyNotFound(f"there is no run {name}", hint=f"the runs are: {known}"))
        recorded = replies_in(state, name)
        if as_json:
            emit({"run": name, "replies": list(map(recorded_json, recorded))})
        else:
            page(recorded_lines(recorded), asked)
