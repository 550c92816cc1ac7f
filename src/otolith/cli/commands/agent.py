"""`resume`: going on with what an agent does, or ending it; `run` of an agent begins here, too."""

from __future__ import annotations

from typing import Any

import click

from otolith.agent import AgentState, Orchestrator, Outcome, Versioned, code_in, run_in, runs_in
from otolith.cli.asked import Asked
from otolith.cli.failures import worded
from otolith.cli.given import refuse
from otolith.cli.place import Desk, at_hand, find, only_session, opened
from otolith.cli.running.agents import Running, running
from otolith.cli.running.code import name_of
from otolith.cli.running.going import Going, open_effects, open_lines, under_way
from otolith.cli.safety import safe
from otolith.cli.screen.output import emit, json_option, page
from otolith.cli.screen.runs import outcome_json, outcome_lines, run_lines
from otolith.errors import Invalid, KeyNotFound

_UNFINISHED, _FAILED = 8, 1  # errors leave with 1 to 7
_CODES = {"done": 0, "error": _FAILED}
_LIMITS = ("max_steps", "max_seconds")

with_option = click.option(
    "--with", "given", metavar="CODE", help="What runs: FILE.py:NAME or package.module:NAME."
)
max_steps_option = click.option(
    "--max-steps", type=click.IntRange(min=0), default=50, show_default=True, metavar="N",
    help="End after so many steps.",
)  # fmt: skip
max_seconds_option = click.option(
    "--max-seconds", type=click.FloatRange(min=0), metavar="N", help="End after so long."
)


@click.command("resume")
@click.argument("session", required=False)
@with_option
@click.option("--answer", metavar="TEXT", help="What to say to the question that it waits with.")
@click.option("--force", is_flag=True, help="Even if other code has begun it.")
@click.option("--abandon", is_flag=True, help="End it where it is: the session is free again.")
@max_steps_option
@max_seconds_option
@json_option
@click.pass_context
def resume(
    ctx: click.Context,
    /,
    *,
    session: str | None,
    given: str | None,
    answer: str | None,
    force: bool,
    abandon: bool,
    as_json: bool,
    **limits: Any,
) -> None:
    """Go on with a run that was cut off, paused or stopped.

    The code of the run is yours: `--with` says where it is, and it runs in this very process.
    Without it, only what is known of the run is shown. Leaves with 1 if the run ended with an
    error, and with 8 if it is not over.
    """
    asked = _in(ctx.obj, session)
    if abandon:
        refuse(ctx, ("answer", "force", *_LIMITS), "means nothing where a run is ended")
        _abandon(asked, None if given is None else name_of(asked, given), as_json=as_json)
        return
    if given is None:
        why = "is for a run that goes on: say --with FILE.py:NAME, too"
        refuse(ctx, ("answer", "force", *_LIMITS), why)
        ctx.exit(_show_run(asked, as_json=as_json))
    with running(asked, None, given) as found:
        if not force:
            _check_code(found, given)
        with under_way(found.going, found.state):
            outcome = found.orchestrator.resume(found.state.session, answer, **limits)
        found.hand_over(outcome)
        _tell(ctx, outcome, found.going, as_json=as_json)


def _in(asked: Asked, session: str | None) -> Asked:
    return asked if session is None else asked._replace(session=session)


def _check_code(found: Running, given: str) -> None:
    """Refuse code that has not begun the run: it may understand something else by its state."""
    began = code_in(found.state, found.orchestrator.name)
    if began not in ("", found.orchestrator.code):
        raise Invalid(
            f"{began} has begun this run, and {given} is {found.orchestrator.code}",
            hint=f"name {began}; or say --force, if it has another name now",
        )


def begin(
    ctx: click.Context, given: str, told: str, *, session: str | None, again: bool, as_json: bool,
    **limits: Any,
) -> None:  # fmt: skip
    """Begin a run of the user's code, or go on with it if it was told the same before."""
    with running(ctx.obj, session, given, told) as found:
        name = found.state.session
        with under_way(found.going, found.state):
            outcome = found.orchestrator.run(found.told, session=name, again=again, **limits)
        found.hand_over(outcome)
        _tell(ctx, outcome, found.going, as_json=as_json)


def _tell(ctx: click.Context, outcome: Outcome, going: Going, *, as_json: bool) -> None:
    if as_json:
        emit(outcome_json(outcome))
    else:
        page([*outcome_lines(outcome), *_next_move(outcome, going)], ctx.obj)
    ctx.exit(exit_code_of(outcome))


def _next_move(outcome: Outcome, going: Going) -> list[str]:
    if outcome.ended == "paused":
        return [f"to answer: {going.on('--answer', 'TEXT')}"]
    return [] if outcome.state.is_over else [f"to go on: {going.on()}"]


def exit_code_of(outcome: Outcome) -> int:
    """Return what a verb leaves with that ran something."""
    return _CODES.get(outcome.ended, _UNFINISHED)


def _show_run(asked: Asked, *, as_json: bool) -> int:
    """Show the runs of a session; return the exit code of the one that is furthest from its end."""
    with at_hand(asked, read_only=True, is_staged=False) as desk:
        desk.head()
        state = desk.branch
        assert isinstance(state, Versioned)
        found, going = _runs(state), Going(asked, state.session)
        unsettled = open_effects(state)
        if as_json:
            runs = {name: run.head_data() for name, run in found.items()}
            emit({"runs": runs, "open": [entry.key for entry in unsettled]})
        else:
            lines = (line for name, run in found.items() for line in _run_lines(name, run, going))
            page([*lines, *open_lines(going, unsettled)], asked)
        if not all(run.is_over for run in found.values()):
            return _UNFINISHED
        return _FAILED if any(run.error for run in found.values()) else 0


def _run_lines(name: str, run: AgentState, going: Going) -> list[str]:
    answer = ("--answer", "TEXT") if run.is_paused else ()
    go_on = [] if run.is_over else [f"  to go on: {going.on(*answer)}"]
    return [*run_lines(name, run), *go_on]


def _runs(state: Versioned, only: str | None = None) -> dict[str, AgentState]:
    """Return where the runs of a session are, by name."""
    runs = {name: run_in(state, name) for name in runs_in(state) if only in (None, name)}
    found = {name: run for name, run in runs.items() if run is not None}
    if not found:
        what = "nothing" if only is None else f"no {only}"
        message = f"{what} ran in session {state.session}"
        raise worded(KeyNotFound(message, hint="see `otolith log`"))
    return found


def _abandon(asked: Asked, only: str | None, *, as_json: bool) -> None:
    """End the runs of a session that are not over, or only one. What is staged stays staged."""
    place = find(asked)
    with opened(place.url) as repo:
        state = repo.session(place.session or only_session(repo), branch=place.branch)
        Desk(place, repo, state).head()
        ended = [name for name, run in _runs(state, only).items() if not run.is_over]
        for name in ended:
            orchestrator = Orchestrator(state, name=name)
            orchestrator.code = code_in(state, name) or orchestrator.code
            orchestrator.abandon(state.session, "abandoned from a terminal")
        unsettled = open_effects(state)
    if as_json:
        emit({"abandoned": ended, "open": [entry.key for entry in unsettled]})
        return
    told = [f"{safe(name)} is ended; the session is free for another task" for name in ended]
    going = Going(asked, state.session)
    page([*(told or ["nothing to end: all runs are over"]), *open_lines(going, unsettled)], asked)
