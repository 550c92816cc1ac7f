"""`flow`: the runs of flows in a session: how far they are, and what a person can do with them.

What changes a run (retry, cancel, pause, resume, answer) is committed at once, beside what is
staged. A worker does the tasks: `otolith worker`. No code of the user is imported here.

JSON: `format/flows.py` describes the objects.

    list        runs
    show        a run, with workers, path, estimate, tasks; with a TASK: a task, with result
    path        session, key, seconds, path (name, seconds)
    what-if     session, key, factors, before, after, saved (seconds)
    graph       session, key, path (names), tasks
    retry       a run, with again: the tasks that are pending again
    the others  a run
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import click

from otolith.cli.errors import terminal_error, with_terminal_hint
from otolith.cli.format.flows import (
    MOST_LISTED,
    estimate_json,
    forecast_lines,
    heading,
    path_lines,
    run_json,
    run_lines,
    run_rows,
    task_json,
    task_lines,
    tree_lines,
    what_if_lines,
    workers_lines,
)
from otolith.cli.format.values import parse_value, to_json
from otolith.cli.location import (
    OpenBranch,
    command_line,
    find,
    open_current,
    open_repo,
)
from otolith.cli.options import GlobalOptions, SessionCommand, json_option
from otolith.cli.terminal import escape, output, pick, table
from otolith.errors import Corrupt, IllegalTransition, KeyNotFound
from otolith.flows import (
    STATUSES,
    FlowRun,
    RunProgress,
    gantt_svg,
    graph_svg,
    mermaid,
    report_html,
    run_keys,
)
from otolith.session import MAIN


@click.group("flow")
def flow() -> None:
    """See and steer the runs of flows: `otolith worker` works on them."""


_key_argument = click.argument("key")
_tasks_argument = click.argument("tasks", nargs=-1, metavar="[TASK...]")
_FILE = click.Path(dir_okay=False, allow_dash=True)
_why_option = click.option("--why", metavar="TEXT", default="", help="The reason.")


class _OpenRun(NamedTuple):
    """A run, where it is, and how the commands on it are typed."""

    current: OpenBranch
    run: FlowRun
    typed: Callable[..., str]


def _typed(options: GlobalOptions, *words: str) -> str:
    """Return a command of this group to type, with the options of this call."""
    session = () if options.session is None else ("-s", options.session)
    return command_line(options, *session, "flow", *words)


@contextmanager
def _open(options: GlobalOptions, key: str, *, read_only: bool = True) -> Iterator[_OpenRun]:
    """Open the session and a run in it.

    Raises:
        KeyNotFound: there is no such run; the hint suggests the nearest name.
    """
    options.require_session()
    typed = partial(_typed, options)
    with open_current(options, read_only=read_only, unstash=False, must_exist=True) as current:
        known = run_keys(current.branch)
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"`{typed('list')}` lists the runs" if known else _BEGIN
            message = f"{current.owner} has no run {key}"
            raise terminal_error(KeyNotFound, message, f"did you mean {near[0]}?" if near else hint)
        try:
            yield _OpenRun(current, current.branch.flow(key=key), typed)
        except IllegalTransition as error:
            error.hint = f"`{typed('show', key)}` shows its tasks"
            raise with_terminal_hint(error) from None


_BEGIN = "a run begins in Python: state.flow(flow, key=…)"


# Looking


@flow.command("list", cls=SessionCommand)
@click.option("--all", "everything", is_flag=True, help="Of all sessions of the store.")
@json_option
@click.pass_obj
def list_runs(options: GlobalOptions, everything: bool) -> None:
    """List the runs: of which flow each is, how far, and since when."""
    options.require_session()
    if everything:
        if options.session is not None or options.branch is not None:
            raise click.UsageError("--all is of all sessions\nomit -s and -b")
        with open_repo(find(options).url, read_only=True) as repo:
            ids = [each.id for each in repo.sessions() if MAIN in each.branches]
            runs = [(id, _progress(run)) for id in ids for run in repo.session(id).flows()]
    else:
        with open_current(options, read_only=True, unstash=False, must_exist=True) as current:
            branch = current.branch
            runs = [(branch.session, _progress(run)) for run in branch.flows()]
    lines = table(run_rows(runs, has_sessions=everything)) if runs else [f"No runs; {_BEGIN}."]
    output(options, lambda: {"runs": [run_json(*each) for each in runs]}, lines)


def _progress(run: FlowRun) -> RunProgress:
    """Return how far a run is; one that cannot be read hides no other."""
    try:
        return run.progress()
    except Corrupt as error:
        return RunProgress.unreadable(run.key, error.message)


@flow.command("show", cls=SessionCommand)
@_key_argument
@click.argument("task", required=False)
@click.option(
    "--status", "statuses", type=click.Choice(STATUSES), multiple=True,
    help="Only tasks with this status; may be repeated.",
)  # fmt: skip
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="At most N tasks.")
@json_option
@click.pass_obj
def show(
    options: GlobalOptions, key: str, task: str | None, statuses: tuple[str, ...], limit: int | None
) -> None:
    """Show a run with its tasks; or one TASK, with its result and all that went wrong."""
    with _open(options, key) as opened:
        run = opened.run
        if task is not None:
            _show_task(options, run, task)
            return
        progress, tasks = run.progress(), run.tasks()
        if statuses:
            tasks = [each for each in tasks if each.status in statuses]
        workers, path = run.workers(), list(run.critical_path())
        estimate = run.eta() if progress.status == "running" else None
        facts = [*workers_lines(workers, progress), *forecast_lines(path, estimate)]
        session = opened.current.branch.session
        output(
            options,
            lambda: {
                **run_json(session, progress),
                "workers": [
                    {"worker": name, "slots": each["slots"], "since": each["since"]}
                    for name, each in workers.items()
                ],
                "path": path,
                "estimate": estimate_json(estimate),
                "tasks": [task_json(each) for each in tasks[:limit]],
            },
            run_lines(
                progress, tasks, facts, opened.typed, MOST_LISTED if limit is None else limit
            ),
        )


def _show_task(options: GlobalOptions, run: FlowRun, name: str) -> None:
    task = run.task(name)
    has_result = task.status == "done"
    result = run.result(name) if has_result else None
    output(
        options,
        lambda: {**task_json(task), **({"result": to_json(result)} if has_result else {})},
        task_lines(run.key, task, result, has_result=has_result),
    )


# Steering


def _print_run(options: GlobalOptions, opened: _OpenRun, **more: Any) -> None:
    progress = opened.run.progress()
    session = opened.current.branch.session
    output(options, lambda: {**run_json(session, progress), **more}, [heading(progress)])


@flow.command("path", cls=SessionCommand)
@_key_argument
@json_option
@click.pass_obj
def path(options: GlobalOptions, key: str) -> None:
    """Show the tasks that make a run as long as it is, with what each took or will take."""
    with _open(options, key) as opened:
        found, tasks = opened.run.critical_path(), opened.run.tasks()
        session = opened.current.branch.session
    steps = [{"name": name, "seconds": seconds} for name, seconds in found.items()]
    total = sum(found.values())
    output(
        options,
        lambda: {"session": session, "key": key, "seconds": total, "path": steps},
        path_lines(key, found, tasks),
    )


@flow.command("what-if", cls=SessionCommand)
@_key_argument
@click.argument("words", nargs=-1, required=True, metavar="NAME=FACTOR...")
@json_option
@click.pass_obj
def what_if(options: GlobalOptions, key: str, words: tuple[str, ...]) -> None:
    """Show how long a run would take if tasks took a FACTOR of their time: `search=0.5`.

    NAME is a task, or a function that several tasks call. Of a run that goes on it is the time that
    is left, of one that is done the time of the whole, on the slots that there are.
    """
    factors = _factors(words)
    with _open(options, key) as opened:
        result, status = opened.run.what_if(factors), opened.run.status
        session = opened.current.branch.session
    times = pick(result, "before", "after", "saved")
    output(
        options,
        lambda: {"session": session, "key": key, "factors": factors, **times},
        what_if_lines(status, factors, result),
    )


def _factors(words: tuple[str, ...]) -> dict[str, float]:
    """Return the factors that a user typed, by name.

    Raises:
        UsageError: a word is something else.
    """
    found = {}
    for word in words:
        name, sign, text = word.rpartition("=")
        try:
            found[name] = float(text)
        except ValueError:
            sign = ""
        if not sign or not name or not isfinite(found[name]):
            raise click.UsageError(f"{word} is not a factor\nwrite search=0.5 for half of the time")
    return found


@flow.command("graph", cls=SessionCommand)
@_key_argument
@click.option("--mermaid", "as_mermaid", is_flag=True, help="As a Mermaid flowchart.")
@click.option("--svg", type=_FILE, metavar="FILE", help="Write a picture of the graph.")
@click.option("--gantt", type=_FILE, metavar="FILE", help="Write a picture of what happened when.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write a page with both, and all tasks.")
@json_option
@click.pass_obj
def graph(options: GlobalOptions, /, *, key: str, as_mermaid: bool, **files: str | None) -> None:
    """Show which task of a run comes after which; those of the critical path have a `*`.

    By default as a tree: a task is below the first one that it comes after. FILE may be `-`.
    """
    chosen = {kind: file for kind, file in files.items() if file is not None}
    if as_mermaid + bool(chosen) + options.as_json > 1:
        raise click.UsageError("--mermaid, --json and files are given\nchoose one of them")
    with _open(options, key) as opened:
        for kind, file in chosen.items():
            _write(options, file, _picture(opened.run, kind))
        if as_mermaid:
            click.echo(mermaid(opened.run.picture()), nl=False)
        if chosen or as_mermaid:
            return
        run, session = opened.run, opened.current.branch.session
        path, tasks = list(run.critical_path()), run.tasks()
        output(
            options,
            lambda: {
                "session": session, "key": key, "path": path,
                "tasks": [task_json(each) for each in tasks],
            },
            tree_lines(run.graph, tasks, frozenset(path)),
        )  # fmt: skip


def _picture(run: FlowRun, kind: str) -> str:
    """Return a picture of a run, or a page."""
    if kind == "html":
        return report_html(run.picture(), estimate=run.eta(), bottlenecks=run.bottlenecks())
    return {"svg": graph_svg, "gantt": gantt_svg}[kind](run.picture())


def _write(options: GlobalOptions, file: str, text: str) -> None:
    """Write a text to a file of the user, or to standard output."""
    if file == "-":
        click.echo(text, nl=False)
    else:
        (options.directory / file).write_text(text, encoding="utf-8")
        click.echo(f"Wrote {escape(file)}.", err=True)


@flow.command("retry", cls=SessionCommand)
@_key_argument
@_tasks_argument
@json_option
@click.pass_obj
def retry(options: GlobalOptions, key: str, tasks: tuple[str, ...]) -> None:
    """Do tasks again, and what was made from them; without a TASK, all that failed.

    What comes after is done again only if it gets something else than before.
    """
    with _open(options, key, read_only=False) as opened:
        again = opened.run.retry(*tasks)
        if not again and not options.as_json:
            click.echo("No task has failed.")
        _print_run(options, opened, again=again)


@flow.command("cancel", cls=SessionCommand)
@_key_argument
@_tasks_argument
@_why_option
@json_option
@click.pass_obj
def cancel(options: GlobalOptions, key: str, tasks: tuple[str, ...], why: str) -> None:
    """Cancel a run, or some of its tasks: what runs is not waited for."""
    with _open(options, key, read_only=False) as opened:
        opened.run.cancel(*tasks, why=why)
        _print_run(options, opened)


@flow.command("pause", cls=SessionCommand)
@_key_argument
@_why_option
@json_option
@click.pass_obj
def pause(options: GlobalOptions, key: str, why: str) -> None:
    """Begin nothing more in a run; what runs is finished."""
    with _open(options, key, read_only=False) as opened:
        opened.run.pause(why)
        _print_run(options, opened)


@flow.command("resume", cls=SessionCommand)
@_key_argument
@json_option
@click.pass_obj
def resume(options: GlobalOptions, key: str) -> None:
    """Let a run go on that was paused or cancelled."""
    with _open(options, key, read_only=False) as opened:
        opened.run.resume()
        _print_run(options, opened)


@flow.command("answer", cls=SessionCommand)
@_key_argument
@click.argument("task")
@click.argument("value")
@click.option(
    "--type", "kind", type=click.Choice(["auto", "json", "str"]), default="auto",
    help="How VALUE is read: as by `set`.",
)  # fmt: skip
@json_option
@click.pass_obj
def answer(options: GlobalOptions, key: str, task: str, value: str, kind: str) -> None:
    """Answer what a task asks: VALUE is JSON, or else text."""
    with _open(options, key, read_only=False) as opened:
        opened.run.answer(task, parse_value(value, kind))
        _print_run(options, opened)
