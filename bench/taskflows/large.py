"""A run of very many tasks: to begin it, to look at it, and to go on one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter, process_time

import otolith
from bench.ground import Ground, tell
from bench.table import Budget, Figure, Row
from otolith.flows import Flow, FlowRun, FlowTask, InlineExecutor

_STEPS = 7  # then it is known that tasks are short, and many share a turn
_WIDTH = 1000


def rows(ground: Ground) -> Iterator[Row]:
    count = ground.sizes.graph_tasks
    tell(f"a run of {count:,} tasks")
    flow = layers(count)
    with otolith.open(ground.place("large"), durability="fast") as repo:
        state = repo.session("bench")
        took = {"begin": _timed(lambda: state.flow(flow))}
        runs: list[FlowRun] = []
        took["open"] = _timed(lambda: runs.append(state.flow(key="large")))
        run = runs[0]
        took["progress"] = _timed(run.progress)
        took["path"] = _timed(run.critical_path)
        grown = [_timed(partial(_expand, run, number))[0] for number in range(_STEPS)]
        worked = state.flow(flow)
        steps, looks = [], []
        with worked._presence(1, 3600.0) as presence:
            worker = worked.worker(InlineExecutor(), presence)
            for _ in range(_STEPS):
                steps.append(_timed(worker.turn)[0])
                looks.append(_timed(run.progress)[0])
    what = {
        "begin": "begin the run",
        "open": "open the run, and plan it",
        "progress": "ask for progress",
        "path": "critical path",
    }
    for name, (wall, cpu) in took.items():
        yield Row(f"large-{name}", f"{count:,} tasks: {what[name]}", Figure(wall, "s"))
        yield Row(
            f"large-{name}-cpu", f"{count:,} tasks: {what[name]}, processor", Figure(cpu, "s")
        )
    whole = Figure(sum(cpu for _, cpu in took.values()), "s")
    work = f"{count:,} tasks: begin, plan, progress and critical path, processor"
    yield Row("large-all", work, whole, budget=Budget(1, "s"))
    work = f"{count:,} tasks: progress after one more result"
    yield Row("large-more", work, _figure(looks), budget=Budget(0.01, "s"))
    work = f"{count:,} tasks: add one with run.expand, and ask for progress, SQLite fast"
    yield Row("large-expand", work, _figure(grown))
    yield Row("large-step", f"{count:,} tasks: one step, SQLite fast", _figure(steps))


def _expand(run: FlowRun, number: int) -> None:
    """Add a task to a run, and look at it."""
    run.expand(None, [FlowTask(f"more{number}", call="t0", inputs={"number": number})])
    run.progress()


def layers(count: int) -> Flow:
    """Return a flow of layers, in which each task comes after two of the layer before."""
    flow = Flow("large")
    first = flow.add(FlowTask("t0", function=_one, inputs={"number": 0}))
    for number in range(1, count):
        above = [number - _WIDTH, number - _WIDTH + 1 - _WIDTH * ((number + 1) % _WIDTH == 0)]
        after = [f"t{each}" for each in above if each >= 0]
        flow.add(FlowTask(f"t{number}", call=first, inputs={"number": number}, after=after))
    return flow


def _one(number: int) -> int:
    return number + 1


def _timed(step: Callable[[], object]) -> tuple[float, float]:
    """Return how many seconds a step takes, and how many of the processor."""
    began, spent = perf_counter(), process_time()
    step()
    return perf_counter() - began, process_time() - spent


def _figure(seconds: list[float]) -> Figure:
    return Figure(median(seconds), "s", min(seconds), max(seconds))
