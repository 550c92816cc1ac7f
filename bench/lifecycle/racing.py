"""One chart and one sequence of events, sent by every engine in alternating blocks."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import cycle, islice
from time import process_time
from typing import NamedTuple

from bench.ground import Ground, tell
from bench.lifecycle.charts import DRAWINGS, Drawing
from bench.lifecycle.engines import OURS, ROOMS, Engine, Run, made, tried
from bench.table import Absent, Budget, Figure, Row
from bench.timing import Samples, quiet_ratio, ratio

ENOUGH = Budget(300_000, "/s", at_least=True)
FASTER = Budget(5, "x", of="ratio", at_least=True)
JUDGED_ROUNDS = 20
SAMPLED_ROUNDS = 100

PLAIN = (
    "Events per second of CPU time, in memory. Our steps are pure: each makes a new snapshot and"
    " leaves the old one as it was; the others change the machine in place."
)
COUNTED = (
    "The same charts, but each transition asks a guard and adds one to a count, in Python:"
    " our step cannot be a mere look-up then."
)


def rows(ground: Ground) -> Iterator[Row]:
    for drawing in DRAWINGS:
        took = race(ground, drawing)
        budget = None if drawing.name == "flat" else ENOUGH
        name, work = f"events-{drawing.name}", f"events of a {drawing.name} chart"
        yield Row(name, work, _rate(_ours(took)), budget=budget, note=PLAIN)
        yield from _beside(name, work, took, FASTER, PLAIN)


def counting_rows(ground: Ground) -> Iterator[Row]:
    for drawing in DRAWINGS:
        took = race(ground, drawing.counting())
        work = f"events of a {drawing.name} chart, guarded and counted"
        yield from _beside(f"counted-{drawing.name}", work, took, None, COUNTED)


class Racer(NamedTuple):
    """An engine, and what sends it whole rounds of events."""

    engine: Engine
    run: Run
    events: int


def race(ground: Ground, drawing: Drawing) -> dict[str, Samples | Absent]:
    """Let all engines run a chart in turn; one that goes elsewhere than the drawing is out."""
    tell(f"events, {drawing.name}{', counted' if drawing.is_counting else ''}")
    seconds = ground.sizes.chart_seconds
    racers = {name: tried(name, _ready, name, drawing, seconds) for name in (OURS, *ROOMS)}
    running = {name: each for name, each in racers.items() if not isinstance(each, Absent)}
    took = {name: Samples() for name in running}
    gc.collect()
    gc.freeze()  # or each engine pays for walking the objects of all others
    for _ in range(ground.sizes.chart_blocks):
        for name, (_, run, events) in running.items():
            began = process_time()
            run()
            took[name].blocks.append([(process_time() - began) / events])
    gc.unfreeze()
    for name, racer in running.items():
        if racer.engine.places() != drawing.begin:
            raise Astray(f"{name} ended in {racer.engine.places()}")
    absent = {name: each for name, each in racers.items() if isinstance(each, Absent)}
    return {**took, **absent}


def _ready(name: str, drawing: Drawing, seconds: float) -> Racer:
    """See that an engine goes where it should; then have it ready for rounds of about that long."""
    engine = made(name, drawing)
    judge(engine, drawing)
    few = engine.run(drawing.round * SAMPLED_ROUNDS)
    few()
    began = process_time()
    few()
    each = (process_time() - began) / SAMPLED_ROUNDS
    events = drawing.round * max(1, round(seconds / each))
    return Racer(engine, engine.run(events), len(events))


def judge(engine: Engine, drawing: Drawing) -> None:
    """Follow an engine event by event through some rounds.

    Raises:
        Astray: it is not where the drawing says, or has counted something else.
    """
    places, counted = drawing.begin, engine.count()
    for event in islice(cycle(drawing.round), JUDGED_ROUNDS * len(drawing.round)):
        engine.run([event])()
        before, places = places, drawing.after(places, event)
        counted += len(before - places) if drawing.is_counting else 0
        if engine.places() != places or engine.count() != counted:
            raise Astray(f"{event} led to {engine.places()}, not {set(places)}")


class Astray(Exception):
    """An engine does not do what the drawing says."""


def _ours(took: dict[str, Samples | Absent]) -> Samples:
    mine = took[OURS]
    assert isinstance(mine, Samples)
    return mine


def _rate(samples: Samples) -> Figure:
    return Figure(1 / samples.p50, "/s", 1 / samples.at(0.9), 1 / samples.at(0.1))


def _beside(
    name: str, work: str, took: dict[str, Samples | Absent], budget: Budget | None, note: str
) -> Iterator[Row]:
    mine = _ours(took)
    for peer in ROOMS:
        row, theirs = f"{name}-{peer}", took[peer]
        if isinstance(theirs, Absent):
            yield Row(row, work, _rate(mine), peer, theirs, None, budget, note=note)
        else:
            between, quiet = ratio(theirs, mine), quiet_ratio(theirs, mine)
            other = _rate(theirs)
            yield Row(row, work, _rate(mine), peer, other, between, budget, quiet, note)
