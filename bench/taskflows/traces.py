"""Schedules of recorded workflows in virtual time, and plans of many tasks.

The workflows are those that https://github.com/wfcommons/WfInstances publishes: real runs in
WfFormat, each task with the seconds that it took. `OTOLITH_WFINSTANCES` names a clone; nothing of
it is a part of this project. A schedule is measured by what none is shorter than: the critical
path, and the work by the number of slots. No schedule reaches that on all of them.
"""

from __future__ import annotations

import gc
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from time import process_time
from typing import NamedTuple, TypeVar

import networkx as nx

from bench.ground import Ground, tell
from bench.table import Absent, Budget, Figure, Row, against
from otolith.flows import TaskGraph, Work, best_priorities, simulate

SLOTS = {2: 1.027, 8: 1.083, 64: 1.079}
T = TypeVar("T")
_NOT_RUN = Absent("not run: OTOLITH_WFINSTANCES does not name a clone")


class Trace(NamedTuple):
    """A workflow that was run: what each task waits for, and the seconds it took."""

    tasks: dict[str, list[str]]
    seconds: list[float]


def rows(ground: Ground) -> Iterator[Row]:
    found = read(ground.sizes.traces)
    yield from _schedules(found)
    yield from _large(ground)


def read(most: int | None) -> list[Trace]:
    """Return the workflows of the clone, the first of them if there is a limit."""
    folder = os.environ.get("OTOLITH_WFINSTANCES")
    found = []
    for path in sorted(Path(folder).rglob("*.json")) if folder else []:
        workflow = json.loads(path.read_bytes()).get("workflow", {})
        if "specification" not in workflow or "execution" not in workflow:
            continue
        took = {task["id"]: task["runtimeInSeconds"] for task in workflow["execution"]["tasks"]}
        tasks = {task["id"]: task["parents"] for task in workflow["specification"]["tasks"]}
        found.append(Trace(tasks, [float(took[name]) for name in tasks]))
        if len(found) == most:
            break
    return found


def _schedules(traces: list[Trace]) -> Iterator[Row]:
    tasks = sum(len(trace.tasks) for trace in traces)
    tell(f"{len(traces)} workflows of {tasks:,} tasks")
    over = f"{len(traces)} public workflows" if traces else "public workflows"
    for slots, limit in SLOTS.items():
        name, budget = f"schedule-{slots}", Budget(limit, "x4")
        work = f"{over} on {slots} slots: mean makespan over max(critical path, work/slots)"
        if traces:
            yield from _on_slots(traces, slots, Row(name, work, _NOT_RUN, budget=budget))
        else:
            yield Row(name, work, _NOT_RUN, budget=budget)
    budget, work = Budget(0, ""), f"{over}: critical path is not the longest path of networkx"
    if not traces:
        yield Row("path-wrong", work, _NOT_RUN, budget=budget)
        return
    ours, mine = _timed(lambda: [*map(critical_path, traces)])
    theirs, peer = _timed(lambda: [*map(longest_path, traces)])
    wrong = sum(
        any(abs(each - oracle) > 1e-9 * oracle for each in found)
        for found, oracle in zip(ours, theirs, strict=True)
    )
    yield Row("path-wrong", work, Figure(wrong, ""), budget=budget)
    work = f"{over}: build, order and critical path, processor"
    yield against("path-time", work, Figure(mine, "s"), "networkx", Figure(peer, "s"))


def _on_slots(traces: list[Trace], slots: int, row: Row) -> Iterator[Row]:
    """Yield how short the schedules are, and how long the search for them takes."""
    works = [Work(TaskGraph(trace.tasks), trace.seconds, slots) for trace in traces]
    bounds = [each.bound for each in works]  # and the ranks, which both need
    plain, once = _timed(lambda: [simulate(each).makespan for each in works])
    found, searched = _timed(lambda: [*map(best_priorities, works)])
    best = [simulate(*each).makespan for each in zip(works, found, strict=True)]
    ours, theirs = (
        Figure(mean(a / b for a, b in zip(each, bounds, strict=True)), "x4")
        for each in (best, plain)
    )
    yield replace(row, ours=ours, peer="upward ranks", theirs=theirs)
    yield against(
        f"schedule-search-{slots}",
        f"{len(traces)} public workflows on {slots} slots: search for priorities, processor",
        Figure(searched, "s"),
        "one simulation",
        Figure(once, "s"),
    )


def critical_path(trace: Trace) -> tuple[float, float]:
    """Return the length of the critical path, and the seconds of the tasks on it."""
    graph = TaskGraph(trace.tasks)
    schedule = graph.schedule(trace.seconds)
    on_path = sum(trace.seconds[graph.number[name]] for name in schedule.critical_path)
    return schedule.length, on_path


def longest_path(trace: Trace) -> float:
    """Return the seconds of the longest path by networkx, which knows only lengths of edges."""
    graph = nx.DiGraph()
    took = dict(zip(trace.tasks, trace.seconds, strict=True))
    for two, many in trace.tasks.items():
        graph.add_edge((), two, weight=took[two])
        for one in many:
            graph.add_edge(one, two, weight=took[two])
    return float(nx.dag_longest_path_length(graph))


def _large(ground: Ground) -> Iterator[Row]:
    """Plan many tasks at once, and add one more to them."""
    count, chance = ground.sizes.graph_tasks, random.Random(1)
    tell(f"a plan of {count:,} tasks")
    tasks = {
        f"t{each}": [f"t{chance.randrange(max(0, each - 500), each)}" for _ in range(3)]
        if each
        else []
        for each in range(count)
    }
    seconds = [chance.expovariate(1) for _ in range(count)]
    ours, theirs, added = list[float](), list[float](), list[float]()
    for number in range(ground.sizes.plans):
        graph = TaskGraph()
        ours.append(_timed(partial(_plan, graph, tasks, seconds))[1])
        theirs.append(_timed(partial(longest_path, Trace(tasks, seconds)))[1])
        added.append(_timed(partial(graph.add, {f"new{number}": ["t5"]}))[1])
    yield Row(
        "plan-large",
        f"{count:,} tasks: build, order, slack and critical path, processor",
        Figure(median(ours), "s", min(ours), max(ours)),
        "networkx, path alone",
        Figure(median(theirs), "s", min(theirs), max(theirs)),
        median(ours) / median(theirs),
        Budget(1, "s"),
    )
    yield Row("expand-large", f"add a task to {count:,}, processor", Figure(median(added), "s"))


def _timed(step: Callable[[], T]) -> tuple[T, float]:
    """Return what a step returns, and the seconds of the processor."""
    gc.collect()  # what others have left
    began = process_time()
    found = step()
    return found, process_time() - began


def _plan(graph: TaskGraph, tasks: dict[str, list[str]], seconds: list[float]) -> None:
    graph.add(tasks)
    schedule = graph.schedule(seconds)
    assert schedule.critical_path
    assert len(schedule.slack) == len(graph)
