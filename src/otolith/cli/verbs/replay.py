"""`replay`: a run repeated from any commit on a branch of its own, or what is on record of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from typing import Any

import click

from otolith.agent import Outcome, Versioned, replay, replies_in, runs_in
from otolith.cli.asked import Asked
from otolith.cli.failures import worded
from otolith.cli.given import refuse
from otolith.cli.place import Desk, at_hand
from otolith.cli.running.agents import running
from otolith.cli.running.going import typed, under_way
from otolith.cli.safety import safe
from otolith.cli.screen.output import emit, json_option, page
from otolith.cli.screen.runs import outcome_json, outcome_lines, recorded_json, recorded_lines
from otolith.cli.screen.words import counted
from otolith.cli.verbs.agents import exit_code_of, max_steps_option, with_option
from otolith.core import Commit, Reading
from otolith.errors import KeyNotFound

_REFUSED = "and this is a replay"


@click.command("replay")
@click.argument("session", required=False)
@click.option(
    "--at", "ref", metavar="REF", help="From this commit.  [default: where the run began]"
)
@click.option("--run", "name", default="main", show_default=True, metavar="NAME", help="Which run.")
@with_option
@click.option("--to", "branch", metavar="BRANCH", help="The branch to replay on, a new one.")
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
    asked: Asked = ctx.obj if session is None else ctx.obj._replace(session=session)
    if given is None:
        why = "is for a run that is repeated: say --with FILE.py:NAME, too"
        refuse(ctx, ("branch", "fresh", "act", "max_steps"), why)
        _show_record(asked, name, ref, as_json=as_json)
        return
    with running(asked, None, given) as found:
        state, orchestrator, going = found.state, found.orchestrator, found.going
        orchestrator.name = name
        begin = state.resolve(ref) if ref is not None else _first(state, name)
        with under_way(going, state, repeats=True):
            made = replay(
                orchestrator,
                state,
                at=begin,
                branch=branch or _free(state, f"replay-{begin.short}"),
                model=orchestrator.model if fresh else None,
                may_act=act,
                max_steps=max_steps,
            )
        counts = {"branch": made.state.name, "replayed": made.replayed, "asked": made.asked}
        counts |= {"refused": _refused(made.outcome)}
        _tell(made.outcome, counts, asked, as_json=as_json)
        ctx.exit(exit_code_of(made.outcome))


def _tell(outcome: Outcome, counts: dict[str, Any], asked: Asked, *, as_json: bool) -> None:
    if as_json:
        emit(outcome_json(outcome) | counts)
        return
    recorded = counted(counts["replayed"], "answer")
    told = f"on branch {counts['branch']}: {recorded} on record, {counts['asked']} new"
    if counts["refused"]:
        told += f"; {counted(counts['refused'], 'call')} refused, which --act lets happen"
    page([*outcome_lines(outcome), safe(told)], asked)


def _refused(outcome: Outcome) -> int:
    """Return how many calls were refused because they would act on the world."""
    return sum(_REFUSED in call.error for call in outcome.state.memory.tool_calls)


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
    with at_hand(asked, read_only=True, is_staged=False) as desk:
        desk.head()
        state = desk.branch if ref is None else desk.repo.at(desk.commit(ref))
        if name not in runs_in(state):
            known = ", ".join(runs_in(state)) or "none"
            raise worded(KeyNotFound(f"there is no run {name}", hint=f"the runs are: {known}"))
        recorded = replies_in(state, name)
        if as_json:
            emit({"run": name, "replies": list(map(recorded_json, recorded))})
        else:
            silent = _silent(desk, state, name, asked)
            page(recorded_lines(recorded) if recorded else silent, asked)


def _silent(desk: Desk, state: Reading, name: str, asked: Asked) -> Iterator[str]:
    """Yield that a run asked no model, and how to see what others asked."""
    yield f"run {safe(name)} asked no model"
    for other in (each for each in runs_in(state) if replies_in(state, each)):
        shown = typed(asked, "replay", desk.branch.session, "--run", other)
        yield f"  {safe(other)} did: {shown}"
