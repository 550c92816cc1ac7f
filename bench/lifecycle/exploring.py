"""Every configuration of a large chart, found by exploring it."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

from bench.ground import Ground, tell
from bench.lifecycle.charts import Drawing
from bench.lifecycle.engines import tried
from bench.lifecycle.large import wide
from bench.table import Absent, Row, compared, time_of
from bench.timing import Samples
from otolith.statecharts import Chart

PEER = "xstate-statemachine"
NOTE = (
    "In CPU time, from a chart that was read just before. Ours keeps every edge with its trace;"
    " xstate-statemachine, by shortest_paths, a path to every configuration."
)


def rows(ground: Ground) -> Iterator[Row]:
    drawing = wide(ground.sizes.wide_wings)
    states = len(drawing.places)
    tell(f"exploring {states} states")
    small = wide(2)
    found = _ours(small)  # what is imported by the way is not counted
    there = tried(PEER, _agreeing, small, found)
    mine, theirs = Samples(), Samples()
    for _ in range(ground.sizes.explorations):
        began = process_time()
        found = _ours(drawing)
        mine.blocks.append([process_time() - began])
        if not isinstance(there, Absent):
            there = tried(PEER, _agreeing, drawing, found)
        if not isinstance(there, Absent):
            theirs.blocks.append([there])
    work = f"{states} states in two regions, explored: {found:,} configurations"
    if isinstance(there, Absent):
        yield Row("explore", work, time_of(mine), PEER, there, note=NOTE)
    else:
        yield compared("explore", work, mine, PEER, theirs, note=NOTE)


def _agreeing(drawing: Drawing, expected: int) -> float:
    """Return how long the peer takes, if it finds as many configurations."""
    began = process_time()
    found = _theirs(drawing)
    seconds = process_time() - began
    if found != expected:
        raise RuntimeError(f"found {found:,}, not {expected:,}")
    return seconds


def _ours(drawing: Drawing) -> int:
    graph = Chart.from_data(drawing.xstate()).explore()
    if not graph.is_complete:
        raise RuntimeError(f"not explored to the end: {graph.limits}")
    return len(graph.configurations)


def _theirs(drawing: Drawing) -> int:
    from xstate_statemachine import MachineLogic, create_machine
    from xstate_statemachine.graph import shortest_paths

    machine: Any = create_machine(drawing.xstate(), logic=MachineLogic())
    return len(shortest_paths(machine, max_depth=10_000))
