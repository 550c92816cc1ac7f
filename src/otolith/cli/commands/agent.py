"""Runs of agents: `resume` and `replay` them, list and settle `effects`, list `events`.

`run` of an agent begins here too (`begin`). The user's code runs in this process; see
`cli/run/agents.py`. Exit codes: 0 done, 1 the run ended with an error, 8 it is not finished.

`resume` and `replay` without `--with` only show: no code of the user is imported, and the store is
opened read-only. So are `effects` without `--settle`, and `events`. All but `events` ignore staged
edits, because an agent commits while a person has edits staged.

JSON:

    resume      an outcome; without --with: runs (name -> head), open (keys of unsettled effects)
    --abandon   abandoned (names), open
    replay      an outcome, and branch, replayed, asked, refused; without --with: run, replies
    effects     effects (key, the fields of a ledger entry, rolled_back)
    events      events

Whether an effect happened is never guessed: a person finds out, and records it with `--settle`.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from itertools import chain, count
from typing import Any

import click

from otolith.agent import (
    AgentState,
    LedgerEntry,
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
from otolith.cli.address import time_or_commit
from otolith.cli.errors import ExitCode, terminal_error
from otolith.cli.format.history import format_time, plural
from otolith.cli.format.runs import (
    event_json,
    event_lines,
    outcome_json,
    outcome_lines,
    recorded_json,
    recorded_lines,
    run_lines,
)
from otolith.cli.format.values import one_line, to_json
from otolith.cli.location import command_line, open_current
from otolith.cli.options import (
    GlobalOptions,
    SessionCommand,
    json_option,
    reject_options,
    session_argument,
)
from otolith.cli.run.agents import (
    KEY_LETTERS,
    OpenRun,
    ResumeHint,
    open_run,
    run_errors,
    run_name,
    unknown_effect_lines,
    unknown_effects,
)
from otolith.cli.terminal import escape, output, page, table
from otolith.core import Commit
from otolith.errors import Invalid, KeyNotFound
from otolith.session import Versioned
from otolith.state import events as events_of

# How a run ended -> exit code; all other endings are unfinished.
_CODES = {"done": ExitCode.OK, "error": ExitCode.FAILED}
_LIMITS = ("max_steps", "max_seconds")

with_option = click.option(
    "--with", "code", metavar="CODE", help="What runs: FILE.py:NAME or package.module:NAME."
)
max_steps_option = click.option(
    "--max-steps", type=click.IntRange(min=0), default=50, show_default=True, metavar="N",
    help="Stop after N steps.",
)  # fmt: skip
max_seconds_option = click.option(
    "--max-seconds", type=click.FloatRange(min=0), metavar="N", help="Stop after N seconds."
)


@click.command("resume", cls=SessionCommand)
@session_argument
@with_option
@click.option("--answer", metavar="TEXT", help="The answer to the question that it waits with.")
@click.option("--to", metavar="ID", help="The id of the question that --answer is for.")
@click.option("--force", is_flag=True, help="Resume even if other code began the run.")
@click.option("--abandon", is_flag=True, help="End the run where it is; the session is free again.")
@max_steps_option
@max_seconds_option
@json_option
@click.pass_context
def resume(
    ctx: click.Context, /, *, code: str | None, answer: str | None, to: str | None, force: bool,
    abandon: bool, **limits: Any,
) -> None:  # fmt: skip
    """Resume a run that was interrupted, paused or stopped.

    `--with` names your code of the run; it runs in this process. Without it, the runs of the
    session are shown. Exits with 1 if the run ended with an error, with 8 if it is not finished.
    """
    options: GlobalOptions = ctx.obj
    if abandon:
        reject_options(ctx, ("answer", "to", "force", *_LIMITS), "does not apply to --abandon")
        _abandon(options, None if code is None else run_name(options, code))
        return
    if code is None:
        why = "applies to a run that is resumed: add --with FILE.py:NAME"
        reject_options(ctx, ("answer", "to", "force", *_LIMITS), why)
        ctx.exit(_show_runs(options))
    with open_run(options, code) as run:
        if not force:
            _check_code(run, code)
        with run_errors(run.hint, run.state):
            outcome = run.orchestrator.resume(run.state.session, answer, to=to, **limits)
        _finish(ctx, run, outcome)


def _check_code(run: OpenRun, code: str) -> None:
    """Refuse code that did not begin the run: it may read another meaning into its state.

    A run that an agent began in Python says no more than that: an agent does not know its name.
    """
    began, now = run_code_name(run.state, run.orchestrator.name), run.orchestrator.code_name
    is_some_agent = began == "Agent" and ":" in now
    if began not in ("", now) and not is_some_agent:
        raise Invalid(
            f"{began} began this run, and {code} is {now}",
            hint=f"name {began}; or use --force, if it was renamed",
        )


def begin(ctx: click.Context, code: str, input: str, *, again: bool, **limits: Any) -> None:
    """Begin a run of the user's code, or resume the one that has the same input."""
    with open_run(ctx.obj, code, input) as run:
        with run_errors(run.hint, run.state):
            outcome = run.orchestrator.run(
                run.input, session=run.state.session, again=again, **limits
            )
        _finish(ctx, run, outcome)


def _finish(ctx: click.Context, run: OpenRun, outcome: Outcome) -> None:
    """Print how a run ended and the command that follows; exit with its code."""
    run.result_returned(outcome)
    next_command = []
    if outcome.ended == "paused":
        answer = ("--answer", "TEXT", "--to", outcome.question_id)
        next_command = [f"to answer: {run.hint.resume(*answer)}"]
    elif not outcome.state.is_over:
        next_command = [f"to resume: {run.hint.resume()}"]
    lines = chain(outcome_lines(outcome), next_command)
    output(ctx.obj, lambda: outcome_json(outcome), lines)
    ctx.exit(_CODES.get(outcome.ended, ExitCode.UNFINISHED))


def _show_runs(options: GlobalOptions) -> ExitCode:
    """Show the runs of a session; return the exit code of the least finished."""
    with open_current(options, read_only=True, unstash=False, must_exist=True) as current:
        state = current.branch
        found, hint = _runs(state), ResumeHint(options, state.session)
        unknown = unknown_effects(state)
        lines: list[str] = []
        for name, run in found.items():
            lines += run_lines(name, run)
            answer = ("--answer", "TEXT", "--to", run.question_id) if run.is_paused else ()
            lines += [] if run.is_over else [f"  to resume: {hint.resume(*answer)}"]
        lines += unknown_effect_lines(hint, unknown)
        runs = {name: run.head_data() for name, run in found.items()}
        output(options, lambda: {"runs": runs, "open": [entry.key for entry in unknown]}, lines)
        if not all(run.is_over for run in found.values()):
            return ExitCode.UNFINISHED
        return ExitCode.FAILED if any(run.error for run in found.values()) else ExitCode.OK


def _runs(state: Versioned, only: str | None = None) -> dict[str, AgentState]:
    """Return the runs of a session by name, or only one.

    Raises:
        KeyNotFound: there is none.
    """
    runs = {name: load_run(state, name) for name in list_runs(state) if only in (None, name)}
    found = {name: run for name, run in runs.items() if run is not None}
    if not found:
        what = "no run" if only is None else f"no run {only}"
        message = f"there is {what} in session {state.session}"
        raise terminal_error(KeyNotFound, message, "see `otolith log`")
    return found


def _abandon(options: GlobalOptions, only: str | None) -> None:
    """End the unfinished runs of a session, or only one. Stashed edits stay stashed."""
    with open_current(options, unstash=False, must_exist=True) as current:
        state = current.branch
        ended = [name for name, run in _runs(state, only).items() if not run.is_over]
        for name in ended:
            orchestrator = Orchestrator(state, name=name)
            orchestrator.code_name = run_code_name(state, name) or orchestrator.code_name
            orchestrator.abandon(state.session, "abandoned from a terminal")
        unknown = unknown_effects(state)
    lines = [f"{escape(name)} is ended; the session is free for another task" for name in ended]
    lines = lines or ["nothing to end: all runs are finished"]
    lines += unknown_effect_lines(ResumeHint(options, state.session), unknown)
    keys = [entry.key for entry in unknown]
    output(options, lambda: {"abandoned": ended, "open": keys}, lines)


@click.command("replay", cls=SessionCommand)
@session_argument
@click.option(
    "--at", "ref", metavar="REF", help="From this commit.  [default: where the run began]"
)
@click.option("--run", "name", default="main", show_default=True, metavar="NAME", help="Which run.")
@with_option
@click.option("--to", "branch", metavar="BRANCH", help="The new branch to replay on.")
@click.option("--fresh", is_flag=True, help="Ask the model again, ignoring recorded answers.")
@click.option("--act", is_flag=True, help="Let tools have effects where no result is recorded.")
@max_steps_option
@json_option
@click.pass_context
def replay_command(
    ctx: click.Context, *, ref: str | None, name: str, code: str | None, branch: str | None,
    fresh: bool, act: bool, max_steps: int,
) -> None:  # fmt: skip
    """Repeat a run from a commit on a new branch; the run itself does not change.

    Answers of models and results of tools with effects are recorded. Without `--with`, the record
    is shown. With it, the run is repeated with that code: its prompt, tools and model.
    """
    options: GlobalOptions = ctx.obj
    if code is None:
        why = "applies to a run that is repeated: add --with FILE.py:NAME"
        reject_options(ctx, ("branch", "fresh", "act", "max_steps"), why)
        _show_record(options, name, ref)
        return
    with open_run(options, code) as run:
        state, orchestrator = run.state, run.orchestrator
        orchestrator.name = name
        start = state.resolve(ref) if ref is not None else _first_commit(state, name)
        names = chain([""], map("-{}".format, count(2)))
        taken = state.repo.branches(state.session)
        unused = (f"replay-{start.short}{suffix}" for suffix in names)
        with run_errors(run.hint, state, is_replay=True):
            made = replay(
                orchestrator,
                state,
                at=start,
                branch=branch or next(each for each in unused if each not in taken),
                model=orchestrator.model if fresh else None,
                may_act=act,
                max_steps=max_steps,
            )
    outcome = made.outcome
    refused = sum(_REPLAY_REFUSAL in call.error for call in outcome.state.memory.tool_calls)
    counts = {"branch": made.state.name, "replayed": made.replayed, "asked": made.asked}
    line = f"on branch {made.state.name}: {plural(made.replayed, 'recorded answer')}, "
    line += f"{made.asked} new"
    if refused:
        line += f"; {plural(refused, 'call')} refused: --act lets them happen"
    lines = chain(outcome_lines(outcome), [escape(line)])
    output(options, lambda: outcome_json(outcome) | counts | {"refused": refused}, lines)
    ctx.exit(_CODES.get(outcome.ended, ExitCode.UNFINISHED))


# How the error of a call ends that a replay refused, because it would have effects.
_REPLAY_REFUSAL = "and this is a replay"


def _first_commit(state: Versioned, name: str) -> Commit:
    """Return the first commit of a run.

    Raises:
        KeyNotFound: there is no such run.
    """
    commits = [commit for commit in state.log() if commit.meta.get("run") == name]
    if not commits:
        message = f"there is no run {name}"
        raise terminal_error(KeyNotFound, message, "`otolith resume` lists them")
    return commits[-1]


def _show_record(options: GlobalOptions, name: str, ref: str | None) -> None:
    """Show the recorded replies of a run; if it has none, name the runs that have some."""
    with open_current(options, read_only=True, unstash=False, must_exist=True) as current:
        state = current.branch if ref is None else current.at(ref)
        runs = list_runs(state)
        if name not in runs:
            hint = f"the runs are: {', '.join(runs) or 'none'}"
            raise terminal_error(KeyNotFound, f"there is no run {name}", hint)
        recorded = replies_in(state, name)
        lines = list(recorded_lines(recorded))
        if not recorded:
            lines = [f"run {escape(name)} asked no model"]
            for other in (each for each in runs if replies_in(state, each)):
                words = ("replay", current.branch.session, "--run", other)
                lines.append(f"  {escape(other)} did: {command_line(options, *words)}")
        output(options, lambda: {"run": name, "replies": [*map(recorded_json, recorded)]}, lines)


_UNSETTLED = ("begun", "unknown")


@click.command("effects", cls=SessionCommand)
@session_argument
@click.option("--unknown", is_flag=True, help="Only those of unknown outcome.")
@click.option(
    "--settle", "key", metavar="KEY",
    help="Record the outcome of one, by the first digits of its key.",
)  # fmt: skip
@click.option("--happened", is_flag=True, help="For --settle: you found out that it happened.")
@click.option("--not-happened", is_flag=True, help="For --settle: you found out that it did not.")
@click.option("--result", metavar="JSON", help="What the tool returned, if it happened.")
@json_option
@click.pass_obj
def effects(
    options: GlobalOptions, *, unknown: bool, key: str | None, happened: bool, not_happened: bool,
    result: str | None,
) -> None:  # fmt: skip
    """List the effects of tools in a session, oldest first.

    Effects that a rollback left behind remain, and are marked. A call that must not happen twice,
    and was begun by a process that died, may or may not have happened. Find out, record it with
    `--settle`, and the run resumes. A call that happened is not repeated.
    """
    if key is not None and happened is not_happened:  # a guess could repeat the effect
        raise click.UsageError("did it happen? give --happened or --not-happened, one of them")
    if key is None and (happened or not_happened or result is not None):
        raise click.UsageError("which call? give --settle KEY")
    if not_happened and result is not None:
        raise click.UsageError("a call that did not happen has no --result")
    try:
        value = None if result is None else json.loads(result)
    except ValueError as error:
        raise Invalid(f"--result is not JSON: {error}", hint="quote texts: '\"done\"'") from None
    only_list = key is None
    with open_current(options, read_only=only_list, unstash=False, must_exist=True) as current:
        state = current.branch
        if key is not None:
            page([_settle(state, key, happened=happened, result=value)], options)
            return
        here = {entry.key: entry for entry in (*ledger_in(state), *unknown_effects(state))}
        ever = {entry.key: entry for entry in effects_after(state)} | here
        listed = [entry for entry in ever.values() if not unknown or entry.status in _UNSETTLED]
        listed.sort(key=lambda entry: entry.time)
        data = [
            {"key": each.key, **each.to_data(), "rolled_back": each.key not in here}
            for each in listed
        ]
        output(options, lambda: {"effects": to_json(data)}, _effect_lines(listed, here))


def _settle(state: Versioned, prefix: str, *, happened: bool, result: Any) -> str:
    """Record the outcome of the one unsettled call whose key starts with a prefix; report it.

    Raises:
        KeyNotFound: there is no such call, or several.
    """
    unsettled = {entry.key: entry for entry in unknown_effects(state)}
    found = [entry for key, entry in unsettled.items() if key.startswith(prefix)]
    if len(found) != 1:
        keys = ", ".join(key[:KEY_LETTERS] for key in unsettled) or "none"
        what = f"{prefix!r} names several calls" if found else f"there is no open call {prefix!r}"
        raise terminal_error(KeyNotFound, what, f"open calls: {keys}")
    entry = found[0]
    Orchestrator(state).settle(entry.key, happened=happened, result=result, session=state.session)
    return f"{escape(entry.tool)} {'happened' if happened else 'did not happen, and will be done'}"


def _effect_lines(entries: Sequence[LedgerEntry], here: Container[str]) -> Iterator[str]:
    """Yield effects as a table; those that are not `here` were left behind by a rollback."""
    if not entries:
        yield "no effects"
        return
    rows = [["when", "key", "status", "run", "step", "call"]]
    for each in entries:
        status = each.status if each.key in here else f"{each.status}, rolled back"
        call = f"{escape(each.tool)} {one_line(dict(each.arguments))}"
        rows.append([
            format_time(each.time), each.key[:KEY_LETTERS], status, escape(each.run),
            str(each.iteration + 1), call,
        ])  # fmt: skip
    yield from table(rows)


@click.command("events", cls=SessionCommand)
@session_argument
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind; repeatable.")
@click.option("--agent", metavar="NAME", help="Only events of this agent.")
@click.option("--since", metavar="WHEN", help="After this time (ISO 8601) or commit.")
@click.option("--until", metavar="WHEN", help="Up to this time, or commit.")
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="The last N.")
@json_option
@click.pass_obj
def events(
    options: GlobalOptions, *, kinds: tuple[str, ...], agent: str | None, since: str | None,
    until: str | None, limit: int | None,
) -> None:  # fmt: skip
    """List the events of a session, oldest first."""
    with open_current(options, read_only=True, must_exist=True) as current:
        found = events_of(
            current.branch,
            kind=kinds or None,
            agent=agent,
            since=time_or_commit(since),
            until=time_or_commit(until),
            limit=limit,
        )
        lines = event_lines(found) if found else ["no events"]
        output(options, lambda: {"events": [*map(event_json, found)]}, lines)
