"""`resume`: going on with what an agent does, or ending it; `run` of an agent begins here, too.

`replay`: a run repeated from any commit on a branch of its own, or what is on record of it.

`effects`: what agents did to the world, and deciding about what nobody knows.

`events`: what happened in a session, in order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Sequence
from datetime import datetime
from itertools import chain, count
from typing import Any

import click

from otolith.agent import (
    AgentState,
    Entry,
    Orchestrator,
    Outcome,
    effects_after,
    ledger_in,
    list_runs,
    load_run,
    replay,
    replies_in,
    run_code_name,
)
from otolith.cli.errors import worded
from otolith.cli.format.history import counted, moment
from otolith.cli.format.runs import (
    event_json,
    event_line,
    outcome_json,
    outcome_lines,
    recorded_json,
    recorded_lines,
    run_lines,
)
from otolith.cli.format.values import one_line, to_json
from otolith.cli.location import OpenBranch, at_hand, find, only_session, opened
from otolith.cli.options import GlobalOptions, reject_options
from otolith.cli.run.agents import (
    KEY_LETTERS,
    Going,
    Running,
    name_of,
    open_effects,
    open_lines,
    running,
    typed,
    under_way,
)
from otolith.cli.terminal import emit, json_option, page, safe, table
from otolith.core import Commit, StateReader
from otolith.errors import Invalid, KeyNotFound
from otolith.session import Versioned
from otolith.state import events as events_of

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
        reject_options(ctx, ("answer", "force", *_LIMITS), "means nothing where a run is ended")
        _abandon(asked, None if given is None else name_of(asked, given), as_json=as_json)
        return
    if given is None:
        why = "is for a run that goes on: say --with FILE.py:NAME, too"
        reject_options(ctx, ("answer", "force", *_LIMITS), why)
        ctx.exit(_show_run(asked, as_json=as_json))
    with running(asked, None, given) as found:
        if not force:
            _check_code(found, given)
        with under_way(found.going, found.state):
            outcome = found.orchestrator.resume(found.state.session, answer, **limits)
        found.hand_over(outcome)
        _tell(ctx, outcome, found.going, as_json=as_json)


def _in(asked: GlobalOptions, session: str | None) -> GlobalOptions:
    return asked if session is None else asked._replace(session=session)


def _check_code(found: Running, given: str) -> None:
    """Refuse code that has not begun the run: it may understand something else by its state."""
    began = run_code_name(found.state, found.orchestrator.name)
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


def _show_run(asked: GlobalOptions, *, as_json: bool) -> int:
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
    runs = {name: load_run(state, name) for name in list_runs(state) if only in (None, name)}
    found = {name: run for name, run in runs.items() if run is not None}
    if not found:
        what = "nothing" if only is None else f"no {only}"
        message = f"{what} ran in session {state.session}"
        raise worded(KeyNotFound(message, hint="see `otolith log`"))
    return found


def _abandon(asked: GlobalOptions, only: str | None, *, as_json: bool) -> None:
    """End the runs of a session that are not over, or only one. What is staged stays staged."""
    place = find(asked)
    with opened(place.url) as repo:
        state = repo.session(place.session or only_session(repo), branch=place.branch)
        OpenBranch(place, repo, state).head()
        ended = [name for name, run in _runs(state, only).items() if not run.is_over]
        for name in ended:
            orchestrator = Orchestrator(state, name=name)
            orchestrator.code = run_code_name(state, name) or orchestrator.code
            orchestrator.abandon(state.session, "abandoned from a terminal")
        unsettled = open_effects(state)
    if as_json:
        emit({"abandoned": ended, "open": [entry.key for entry in unsettled]})
        return
    told = [f"{safe(name)} is ended; the session is free for another task" for name in ended]
    going = Going(asked, state.session)
    page([*(told or ["nothing to end: all runs are over"]), *open_lines(going, unsettled)], asked)


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
    asked: GlobalOptions = ctx.obj if session is None else ctx.obj._replace(session=session)
    if given is None:
        why = "is for a run that is repeated: say --with FILE.py:NAME, too"
        reject_options(ctx, ("branch", "fresh", "act", "max_steps"), why)
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
        _tell_replay(made.outcome, counts, asked, as_json=as_json)
        ctx.exit(exit_code_of(made.outcome))


def _tell_replay(
    outcome: Outcome, counts: dict[str, Any], asked: GlobalOptions, *, as_json: bool
) -> None:
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


def _show_record(asked: GlobalOptions, name: str, ref: str | None, *, as_json: bool) -> None:
    with at_hand(asked, read_only=True, is_staged=False) as desk:
        desk.head()
        state = desk.branch if ref is None else desk.repo.at(desk.commit(ref))
        if name not in list_runs(state):
            known = ", ".join(list_runs(state)) or "none"
            raise worded(KeyNotFound(f"there is no run {name}", hint=f"the runs are: {known}"))
        recorded = replies_in(state, name)
        if as_json:
            emit({"run": name, "replies": list(map(recorded_json, recorded))})
        else:
            silent = _silent(desk, state, name, asked)
            page(recorded_lines(recorded) if recorded else silent, asked)


def _silent(desk: OpenBranch, state: StateReader, name: str, asked: GlobalOptions) -> Iterator[str]:
    """Yield that a run asked no model, and how to see what others asked."""
    yield f"run {safe(name)} asked no model"
    for other in (each for each in list_runs(state) if replies_in(state, each)):
        shown = typed(asked, "replay", desk.branch.session, "--run", other)
        yield f"  {safe(other)} did: {shown}"


OPEN = ("begun", "unknown")


@click.command("effects")
@click.argument("session", required=False)
@click.option("--unknown", is_flag=True, help="Only those of which nobody knows if they happened.")
@click.option("--settle", "key", metavar="KEY", help="Decide about one; its first digits will do.")
@click.option("--happened", is_flag=True, help="For --settle: you found out that it happened.")
@click.option("--not-happened", is_flag=True, help="For --settle: you found out that it did not.")
@click.option("--result", metavar="JSON", help="What the tool returned, if it happened.")
@json_option
@click.pass_obj
def effects(
    asked: GlobalOptions,
    *,
    session: str | None,
    unknown: bool,
    key: str | None,
    happened: bool,
    not_happened: bool,
    result: str | None,
    as_json: bool,
) -> None:
    """List what agents did to the world in a session, the oldest first.

    What a rollback has left behind stays done, and is marked. A call that must not happen twice,
    and was begun by a process that died, may have happened or not. Find out, say so with
    `--settle`, and the run goes on. One that happened is not made again.
    """
    asked = asked if session is None else asked._replace(session=session)
    if key is not None and happened is not_happened:  # a guess could do it a second time
        raise click.UsageError("did it happen? say --happened or --not-happened, one of them")
    if key is None and (happened or not_happened or result is not None):
        raise click.UsageError("which one? say --settle KEY")
    if not_happened and result is not None:
        raise click.UsageError("what did not happen has no --result")
    with at_hand(asked, read_only=key is None, is_staged=False) as desk:
        desk.head()
        state = desk.branch
        assert isinstance(state, Versioned)
        if key is not None:
            told = _settled(state, key, happened=happened, result=_parsed(result))
            page([told], asked)
            return
        here = {entry.key: entry for entry in (*ledger_in(state), *open_effects(state))}
        ever = {entry.key: entry for entry in effects_after(state)} | here
        listed = [entry for entry in ever.values() if not unknown or entry.status in OPEN]
        listed.sort(key=lambda entry: entry.time)
        if as_json:
            emit({"effects": [_as_json(each, is_left=each.key not in here) for each in listed]})
        else:
            page(_lines(listed, here), asked)


def _settled(state: Versioned, start: str, *, happened: bool, result: Any) -> str:
    """Decide about the one open call whose key starts so; return what was decided."""
    known = {entry.key: entry for entry in open_effects(state)}
    fit = [entry for key, entry in known.items() if key.startswith(start)]
    if len(fit) != 1:
        keys = ", ".join(key[:KEY_LETTERS] for key in known) or "none"
        what = f"{start!r} is more than one call" if fit else f"no call {start!r} is open"
        raise worded(KeyNotFound(what, hint=f"open are: {keys}"))
    Orchestrator(state).settle(fit[0].key, happened=happened, result=result, session=state.session)
    return f"{safe(fit[0].tool)} {'happened' if happened else 'did not happen, and will be done'}"


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise Invalid(f"--result is not JSON: {error}", hint="quote texts: '\"done\"'") from None


def _lines(entries: Sequence[Entry], here: Container[str]) -> Iterator[str]:
    if not entries:
        yield "nothing was done to the world"
        return
    rows = [["when", "key", "status", "run", "step", "call"]]
    for each in entries:
        call = f"{safe(each.tool)} {one_line(dict(each.arguments))}"
        rows.append([
            moment(each.time), each.key[:KEY_LETTERS], _status(each, here), safe(each.run),
            str(each.iteration + 1), call,
        ])  # fmt: skip
    yield from table(rows)


def _status(entry: Entry, here: Container[str]) -> str:
    return entry.status if entry.key in here else f"{entry.status}, rolled back"


def _as_json(entry: Entry, *, is_left: bool) -> dict[str, Any]:
    data = {"key": entry.key, **entry.to_data(), "rolled_back": is_left}
    found: dict[str, Any] = to_json(data)
    return found


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
    asked: GlobalOptions,
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
            page([*map(event_line, found)] or ["no events"], asked)


def _moment(text: str | None) -> datetime | str | None:
    """Return a time that has its zone, or what names a commit."""
    if text is None or not re.match(r"\d{4}-\d\d-\d\d", text):
        return text
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"{text!r} is no time: {error}\nwrite 2026-11-16T09:30") from None
    return found if found.tzinfo is not None else found.astimezone()
