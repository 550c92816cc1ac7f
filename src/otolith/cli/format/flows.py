"""Runs of flows as text and JSON: how far each is, its tasks, its graph, and what workers do.

JSON objects that programs read; points in time are microseconds since 1970, and spans of time are
seconds:

    run         session, key, flow, status, why, done, total, percent, counts, created, running,
                questions, failures
    task        name, status, after, call, goal, attempt, failures, lost, worker, began, ended,
                waited, ran, retried, error, feedback, question, asked, answered, answered_by
    estimate    low, expected, high
    report      a line of `worker`: kind, session, key, flow, status; and task, run, text with hint
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from otolith.cli.format.history import format_time, plural, screen_width
from otolith.cli.format.values import one_line
from otolith.cli.terminal import escape, pick, table
from otolith.flows import (
    Estimate,
    RunProgress,
    TaskGraph,
    TaskView,
    WhatIf,
    WorkReport,
    path_text,
    seconds_text,
)
from otolith.text import clip

MOST_LISTED = 50  # tasks of a run
_MOST_NAMES = 8  # on one line
_LEAST_WORDS = 24  # letters of an error in a table
_DEEPEST = 20  # levels of a tree
_COLOURS = {
    "done": "green", "skipped": "green", "failed": "red", "cancelled": "red", "waiting": "yellow",
    "corrupt": "red", "paused": "yellow", "left": "yellow", "running": "cyan", "leased": "cyan",
    "checking": "cyan",
}  # fmt: skip


def _bold(text: str) -> str:
    return click.style(escape(text), bold=True)


def _status(status: str) -> str:
    colour = _COLOURS.get(status)
    return escape(status) if colour is None else click.style(status, fg=colour)


def _line(text: str, limit: int) -> str:
    """Return a text on one line, cut."""
    return escape(clip(" ".join(text.split()), limit))


def _span(microseconds: int) -> str:
    return seconds_text(microseconds / 1e6) if microseconds else ""


def worker_text(worker: str) -> str:
    """Return the machine and process of a worker."""
    return escape("/".join(worker.rpartition("@")[0].split("/")[:2]))


# Runs


def run_json(session: str, progress: RunProgress) -> dict[str, Any]:
    """Return how far a run is as JSON data."""
    names = ("key", "flow", "status", "why", "done", "total", "percent", "created")
    maps = ("counts", "running", "questions", "failures")
    return {
        "session": session,
        **pick(progress, *names),
        **{name: dict(getattr(progress, name)) for name in maps},
    }


def run_rows(runs: Iterable[tuple[str, RunProgress]], *, has_sessions: bool) -> list[list[str]]:
    """Return runs as rows of a table, with a heading."""
    head = ["run", "flow", "status", "done", "%", "since"]
    rows = [["session", *head] if has_sessions else head]
    for session, each in runs:
        row = [
            _bold(each.key),
            escape(each.flow),
            _status(each.status),
            f"{each.done:,} of {each.total:,}",
            f"{each.percent:.0f}",
            format_time(each.created) if each.created else "",
        ]
        rows.append([escape(session), *row] if has_sessions else row)
    return rows


def heading(progress: RunProgress) -> str:
    """Return how far a run is on one line."""
    done = f"{progress.done:,} of {plural(progress.total, 'task')} done"
    status = _status(progress.status) + (f" ({escape(progress.why)})" if progress.why else "")
    flow = "" if progress.flow == progress.key else f" of {escape(progress.flow)}"
    return f"Run {_bold(progress.key)}{flow}: {status}, {done}, {progress.percent:.0f} %"


def run_lines(
    progress: RunProgress,
    tasks: Sequence[TaskView],
    facts: Sequence[str],
    typed: Callable[..., str],
    limit: int,
) -> Iterator[str]:
    """Yield a run with its tasks, and what a person can do next.

    `typed` returns a command to type: `typed("retry", "trip-42")`.
    """
    yield heading(progress)
    yield f"Since   {format_time(progress.created)}"
    yield from facts
    if tasks:
        yield ""
        yield from table(_task_rows(tasks[:limit]), right=(2, 4, 5, 6))
    if len(tasks) > limit:
        yield f"… and {plural(len(tasks) - limit, 'more task')}: --limit {len(tasks)} lists them"
    yield from _next_lines(progress, typed)


def _task_rows(tasks: Iterable[TaskView]) -> list[list[str]]:
    rows = [["task", "status", "attempts", "worker", "waited", "ran", "retried", ""]]
    plain = []
    for each in tasks:
        record = each.record
        worker = worker_text(record.worker) if record.worker else ""
        times = [_span(record.waited), _span(record.ran), _span(record.retried)]
        attempts = str(record.attempt) if record.attempt else ""
        rows.append([_bold(each.name), _status(each.status), attempts, worker, *times, ""])
        plain.append(record.question or record.error)
    widths = [max(len(click.unstyle(row[at])) for row in rows) + 2 for at in range(7)]
    room = max(_LEAST_WORDS, screen_width() - sum(widths))
    for row, text in zip(rows[1:], plain, strict=True):
        row[-1] = _line(text, room)
    return rows


def _next_lines(progress: RunProgress, typed: Callable[..., str]) -> Iterator[str]:
    """Yield the commands that let a run go on that waits, failed, or was stopped."""
    questions = list(progress.questions.items())
    if questions:
        yield ""
    for name, question in questions[:_MOST_NAMES]:
        yield f"{_bold(name)} asks: {_line(question, 200)}"
        yield f"    {typed('answer', progress.key, name)} VALUE"
    if progress.failures and progress.status == "failed":
        yield ""
        yield f"`{typed('retry', progress.key)}` tries again what failed."
    if progress.status in ("paused", "cancelled"):
        yield ""
        yield f"`{typed('resume', progress.key)}` lets it go on."


def workers_lines(workers: Mapping[str, Mapping[str, Any]], progress: RunProgress) -> Iterator[str]:
    """Yield who works on the session of a run; or how somebody does, if it goes on by itself."""
    if not workers and progress.status == "running":
        yield "Workers none: `otolith worker --code FILE.py:FLOW` works on it"
    if not workers:
        return
    slots = sum(each["slots"] for each in workers.values())
    names = [worker_text(name) for name in workers]
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    yield f"Workers {', '.join(names[:_MOST_NAMES])}{more}: {plural(slots, 'slot')}"


def forecast_lines(path: Iterable[str], estimate: Estimate | None) -> Iterator[str]:
    """Yield what a run hangs on, and when it ends."""
    yield f"Path    {escape(path_text([*path]))}"
    if estimate is not None:
        yield f"Ends    {estimate_text(estimate)}"


def estimate_text(estimate: Estimate) -> str:
    """Return when a run ends, and how sure that is."""
    low, high = seconds_text(estimate.low), seconds_text(estimate.high)
    between = "" if low == high else f", between {low} and {high} in 8 of 10 cases"
    return f"in about {seconds_text(estimate.expected)}{between}"


def estimate_json(estimate: Estimate | None) -> dict[str, float] | None:
    """Return when a run ends as JSON data, in seconds from now."""
    return None if estimate is None else pick(estimate, "low", "expected", "high")


# Tasks


def task_json(task: TaskView) -> dict[str, Any]:
    """Return a task as JSON data."""
    spec, record = task.spec, task.record
    return {
        **pick(task, "name", "status"),
        "after": list(spec.waits_for),
        **pick(spec, "call", "goal"),
        **pick(record, "attempt", "failures", "lost", "worker", "began", "ended"),
        **{name: getattr(record, name) / 1e6 for name in ("waited", "ran", "retried")},
        **pick(record, "error", "feedback", "question", "asked", "answered", "answered_by"),
    }


def task_lines(run: str, task: TaskView, result: object, *, has_result: bool) -> Iterator[str]:
    """Yield all that is known of a task."""
    spec, record = task.spec, task.record
    yield f"Task {_bold(task.name)} of {escape(run)}: {_status(task.status)}"
    began = format_time(record.began) if record.began else ""
    ended = format_time(record.ended) if record.ended else ""
    facts = {
        "after": escape(", ".join(spec.waits_for)),
        "calls": "" if spec.call in ("", task.name) else escape(spec.call),
        "goal": escape(spec.goal),
        "needs": escape(", ".join(f"{name} {units}" for name, units in spec.needs.items())),
        "attempts": _attempts(task),
        "worker": escape(record.worker),
        "began": began,
        "ended": ended,
        "waited": _span(record.waited),
        "ran": _span(record.ran),
        "retried": _span(record.retried),
        "asks": escape(record.question),
        "answered": _answered(task),
        "feedback": escape(record.feedback),
    }
    yield from table([[name, value] for name, value in facts.items() if value])
    if has_result:
        yield f"result    {one_line(result, 400)}"
    if record.error:
        yield ""
        yield from (click.style(line, fg="red") for line in escape(record.error).splitlines())


def _answered(task: TaskView) -> str:
    record = task.record
    by = f" by {escape(record.answered_by)}" if record.answered_by else ""
    return f"{format_time(record.answered)}{by}" if record.answered else ""


def _attempts(task: TaskView) -> str:
    record = task.record
    counts = {"failed": record.failures, "lost": record.lost, "sent back": record.backs}
    more = [f"{count} {word}" for word, count in counts.items() if count]
    text = f"{record.attempt} of {1 + task.spec.retries}" if task.spec.call else ""
    return f"{text} ({', '.join(more)})" if more else text


# Graphs


def tree_lines(
    graph: TaskGraph, tasks: Sequence[TaskView], critical: frozenset[str]
) -> Iterator[str]:
    """Yield the graph as a tree: each task once, below the first one that it comes after."""
    left = [number for number in reversed(range(len(graph))) if not graph.before[number]]
    depth = dict.fromkeys(left, 0)
    while left:
        number = left.pop()
        name, status = graph.names[number], tasks[number].status
        mark = click.style("* ", fg="yellow", bold=True) if name in critical else "  "
        others = [graph.names[each] for each in graph.before[number][1:]]
        also = f"  (also after {_names(others)})" if others else ""
        ran = _span(tasks[number].record.ran) if status == "done" else ""
        indent = "  " * min(depth[number], _DEEPEST)
        yield f"{mark}{indent}{_bold(name)}  {_status(status)} {ran}".rstrip() + also
        for each in reversed(graph.after[number]):
            if graph.before[each][0] == number:
                depth[each] = depth[number] + 1
                left.append(each)


def _names(names: Sequence[str]) -> str:
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return escape(", ".join(names[:_MOST_NAMES])) + more


def path_lines(key: str, path: Mapping[str, float], tasks: Iterable[TaskView]) -> Iterator[str]:
    """Yield a critical path, with what each task of it took, or is expected to take."""
    total, statuses = sum(path.values()), {each.name: each.status for each in tasks}
    yield f"Run {_bold(key)} takes {seconds_text(total)} or longer, because of these tasks:"
    rows = [["task", "status", "seconds", "part", ""]]
    for name, seconds in path.items():
        part = f"{100 * seconds / total:.0f} %" if total else ""
        note = "" if statuses[name] == "done" else "expected"
        rows.append([_bold(name), _status(statuses[name]), f"{seconds:.3f}", part, note])
    yield from table(rows, right=(2, 3))


def what_if_lines(status: str, factors: Mapping[str, float], result: WhatIf) -> Iterator[str]:
    """Yield how long a run takes, and how long if tasks took another time."""
    what = "takes" if status == "done" else "has left"
    yield f"It {what} {seconds_text(result.before)}."
    changed = ", ".join(f"{_bold(name)} x {factor:g}" for name, factor in factors.items())
    word = "less" if result.saved >= 0 else "more"
    difference = seconds_text(abs(result.saved))
    yield f"With {changed} it would be {seconds_text(result.after)}: {difference} {word}."


# Workers


def report_json(report: WorkReport) -> dict[str, Any]:
    """Return what a worker did, or saw, as JSON data."""
    data: dict[str, Any] = pick(report, "kind", "session", "key", "flow", "status")
    if report.task is not None:
        data["task"] = task_json(report.task)
    if report.progress is not None:
        data["run"] = run_json(report.session, report.progress)
    if report.text:
        data |= pick(report, "text", "hint")
    return data


def report_line(report: WorkReport, hint: str) -> str:
    """Return what a worker did, or saw, on one line."""
    if report.kind in ("away", "back"):
        is_away = report.kind == "away"
        return f"{_line(report.text, 300)}; trying again" if is_away else "it goes on"
    name = f"{_bold(f'{report.session}/{report.key}')}  {_status(report.status)}"
    if report.progress is None:
        text = f"  {_line(report.text, 300)}" + (f" ({_line(hint, 300)})" if hint else "")
        return f"{name}{text}"
    progress = report.progress
    line = f"{name}  {progress.done:,} of {plural(progress.total, 'task')} done"
    whys: Mapping[str, str] = progress.failures or progress.questions
    if report.status in ("failed", "waiting") and whys:
        first = next(iter(whys))
        line += f"  {escape(first)}: {_line(whys[first], 200)}"
    return line
