"""Chances: many random runs of a chart with a virtual clock, and what they come to.

Each event is a clock of its own that strikes at random, on average `weight` times a second: the
next one is drawn among those the chart accepts, and so is the time until it. A timer that is due
before that fires first. So weights say both how often events happen and how long states last.

Simulating: a script played on a chart with a virtual clock, step by step.

Nothing waits and nothing outside is done: effects are in the steps that asked for them. What the
chart does not accept, and what fails, ends the run with a report instead of an error.

Acceptance: whether a chart would have taken a run that was recorded.

Coverage: which states, transitions and pairs of transitions runs have been through.

A pair is two transitions taken one right after the other. What pairs there are is what `explore`
finds with guards answering both ways; if it was cut, `limits` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Literal, TypeAlias

from otolith.errors import BadValue, IllegalTransition, StepFailed
from otolith.statecharts.analysis.explore import StateGraph, explore
from otolith.statecharts.analysis.inputs import (
    ParsedItem,
    ScriptItem,
    parse_item,
    parse_script,
)
from otolith.statecharts.engine.compiled_chart import CompiledChart
from otolith.statecharts.engine.step import StepResult, advance, start, step
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, Effect, Microstep


@dataclass(frozen=True, slots=True)
class SimulationStep:
    """One step of a run: what was done to the chart, and what came of it."""

    item: ScriptItem | None
    """The item of the script; None for the start."""
    snapshot: ChartSnapshot
    effects: tuple[Effect, ...]
    trace: tuple[Microstep, ...]

    @property
    def phase(self) -> str:
        return self.snapshot.phase

    @property
    def time(self) -> int:
        """When it happened on the virtual clock, in microseconds."""
        return self.snapshot.time


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a run ended before its script did."""

    kind: Literal["refused", "failed"]
    """refused: the chart does not accept the event. failed: the step did not succeed."""
    index: int
    """Which item of the script it was; -1 for the start."""
    item: ScriptItem | None
    phase: str
    """Where the chart was, and still is."""
    allowed: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """What became of a script: its steps, the start first, and why it ended early if it did."""

    stages: tuple[SimulationStep, ...]
    refusal: Refusal | None = None

    @property
    def is_accepted(self) -> bool:
        return self.refusal is None

    @property
    def snapshot(self) -> ChartSnapshot | None:
        """The machine at the end; None if it could not even start."""
        return self.stages[-1].snapshot if self.stages else None

    @property
    def phase(self) -> str:
        return self.stages[-1].phase if self.stages else ""

    @property
    def phases(self) -> tuple[str, ...]:
        return tuple(stage.phase for stage in self.stages)

    @property
    def effects(self) -> tuple[Effect, ...]:
        return tuple(effect for stage in self.stages for effect in stage.effects)

    @property
    def trace(self) -> tuple[Microstep, ...]:
        return tuple(line for stage in self.stages for line in stage.trace)


def simulate(
    chart: CompiledChart,
    events: Iterable[ScriptItem],
    *,
    data: Mapping[str, Any] | None = None,
    now: int = 0,
    is_strict: bool | None = None,
) -> SimulationRun:
    """Return what a script makes of a chart.

    Args:
        chart: The chart.
        events: Names, pairs of a name and data, and `("after", seconds)` to let time pass.
        data: What the chart is started with.
        now: When it is started, in microseconds since 1970.
        is_strict: Whether an event that nobody takes ends the run; None: not in SCXML, which
            drops it.

    Raises:
        BadValue: an item is none of these.
    """
    return play(chart, parse_script(events), data=data, now=now, is_strict=is_strict)


def play(
    chart: CompiledChart,
    items: Iterable[ParsedItem],
    *,
    data: Mapping[str, Any] | None = None,
    now: int = 0,
    is_strict: bool | None = None,
) -> SimulationRun:
    """Play what was read of a script, or recorded."""
    if is_strict is None:
        is_strict = not chart.definition.is_scxml
    stages: list[SimulationStep] = []
    item: ScriptItem | None = None
    try:
        stages.append(_stage(None, start(chart, data, now=now)))
        for parsed in items:
            item = parsed.item
            found = _step(chart, stages[-1].snapshot, parsed, is_strict=is_strict)
            stages.append(_stage(item, found))
    except (IllegalTransition, StepFailed, BadValue) as error:
        return SimulationRun(tuple(stages), _refusal(chart, stages, item, error))
    return SimulationRun(tuple(stages))


def _step(
    chart: CompiledChart, snapshot: ChartSnapshot, parsed: ParsedItem, *, is_strict: bool
) -> StepResult:
    now = snapshot.time + parsed.wait if parsed.at is None else parsed.at
    if parsed.event is None:
        return advance(chart, snapshot, now)
    return step(chart, snapshot, parsed.event, now, is_strict=is_strict)


def _stage(item: ScriptItem | None, found: StepResult) -> SimulationStep:
    return SimulationStep(item, found.snapshot, found.effects, found.trace)


def _refusal(
    chart: CompiledChart,
    stages: list[SimulationStep],
    item: ScriptItem | None,
    error: IllegalTransition | StepFailed | BadValue,
) -> Refusal:
    index = len(stages) - 1  # the start is a stage, and no item
    if isinstance(error, IllegalTransition):
        return Refusal("refused", index, item, error.state, error.allowed, error.message)
    allowed: tuple[str, ...] = ()
    if stages and stages[-1].snapshot.status == "running":
        allowed = chart.allowed(chart.mask_of(stages[-1].snapshot.configuration))
    phase = stages[-1].phase if stages else ""
    return Refusal("failed", index, item, phase, allowed, str(error))


RecordedEvent: TypeAlias = ScriptItem | tuple[str, Any, int]
"""An event that happened: name, data and when, in microseconds; or an item of a script.

Without a name, time went by: so `machine.log()` can be handed over as it is."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a chart takes a recorded run; if not, the first event it does not take, and why."""

    is_accepted: bool
    phase: str
    """Where the run ends, or where the chart was when it refused."""
    refusal: Refusal | None
    run: SimulationRun

    @property
    def index(self) -> int | None:
        """Which event was not taken; None if all were."""
        return None if self.refusal is None else self.refusal.index

    @property
    def event(self) -> str | None:
        """The name of the event that was not taken."""
        if self.refusal is None or self.refusal.item is None:
            return None
        event = parse_item(self.refusal.item).event
        return None if event is None else event.name

    @property
    def allowed(self) -> tuple[str, ...]:
        """What would have been taken instead."""
        return () if self.refusal is None else self.refusal.allowed

    def __bool__(self) -> bool:
        return self.is_accepted


def accepts(
    chart: CompiledChart,
    events: Iterable[RecordedEvent],
    *,
    start_data: Mapping[str, Any] | None = None,
    started: int | None = None,
    is_strict: bool = True,
) -> Verdict:
    """Return whether a chart would have taken a recorded run.

    Timers fire at their times between the events, as they would have.

    Args:
        chart: The chart, a newer one than the run was made with perhaps.
        events: What happened: (name, data, time), with the time in microseconds.
        start_data: What the run was started with.
        started: When; the time of the first event if it is not known.
        is_strict: Whether an event that the chart would drop counts as refused.
    """
    items = [_cue(event) for event in events]
    if started is None:
        started = next((parsed.at for parsed in items if parsed.at is not None), 0)
    run = play(chart, items, data=start_data, now=started, is_strict=is_strict)
    refusal = run.refusal
    phase = run.phase if refusal is None else refusal.phase
    return Verdict(refusal is None, phase, refusal, run)


def _cue(event: RecordedEvent) -> ParsedItem:
    if isinstance(event, ChartEvent) or not isinstance(event, tuple | list) or len(event) != 3:
        return parse_item(event)
    parts: Any = event
    name, data, time = parts
    if not isinstance(name, str) or type(time) is not int:
        raise BadValue(
            f"{event!r} is not a recorded event", hint="write (name, data, microseconds)"
        )
    return ParsedItem(ChartEvent(name, data) if name else None, at=time)


Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CoverageShare:
    """What was covered of something and what was not, in words and in document order."""

    covered: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def share(self) -> float:
        """From 0 to 1; 1 if there was nothing to cover."""
        total = len(self.covered) + len(self.missing)
        return len(self.covered) / total if total else 1.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a chart some runs have been through."""

    runs: int
    refused: int
    """How many runs the chart did not take to their end; what they did before counts."""
    states: CoverageShare
    transitions: CoverageShare
    pairs: CoverageShare
    limits: tuple[str, ...] = ()


def coverage(
    chart: CompiledChart,
    runs: Iterable[SimulationRun | Iterable[RecordedEvent]],
    *,
    max_configurations: int = 10_000,
) -> Coverage:
    """Return what recorded or simulated runs have covered of a chart."""
    played = [
        each if isinstance(each, SimulationRun) else accepts(chart, each).run for each in runs
    ]
    graph = explore(chart, max_configurations=max_configurations)
    entered: set[str] = set()
    taken: set[int] = set()
    pairs: set[Pair] = set()
    for run in played:
        lines = [line for line in run.trace if not line.session]
        entered.update(name for line in lines for name in line.entered)
        taken.update(transition for line in lines for transition in line.taken)
        pairs.update(_pairs(lines))
    known = sorted(_all_pairs(graph) | pairs)
    ids = [node.id for node in chart.order[1:] if node.kind != "history"]
    named = [str(transition) for transition in chart.transitions]
    return Coverage(
        runs=len(played),
        refused=sum(not run.is_accepted for run in played),
        states=_share((id, id in entered) for id in ids),
        transitions=_share(
            (named[transition.index], transition.index in taken) for transition in chart.transitions
        ),
        pairs=_share((f"{named[a]}, then {named[b]}", (a, b) in pairs) for a, b in known),
        limits=tuple(graph.limits),
    )


def _share(found: Iterable[tuple[str, bool]]) -> CoverageShare:
    listed = list(found)
    return CoverageShare(
        tuple(name for name, is_covered in listed if is_covered),
        tuple(name for name, is_covered in listed if not is_covered),
    )


def _pairs(lines: Iterable[Microstep]) -> Iterator[Pair]:
    taken = [line.taken for line in lines if line.taken]
    for before, after in pairwise(taken):
        yield from product(before, after)


def _all_pairs(graph: StateGraph) -> set[Pair]:
    found: set[Pair] = set()
    arriving: list[set[int]] = [set() for _ in graph.configurations]
    leaving: list[set[int]] = [set() for _ in graph.configurations]
    steps = [(-1, *opening) for opening in graph.opening]
    steps += [(edge.source, edge.target, edge.trace) for edge in graph.edges]
    for source, target, trace in steps:
        lines = [line for line in trace if not line.session and line.taken]
        found.update(_pairs(lines))
        if lines:
            arriving[target].update(lines[-1].taken)
        if lines and source >= 0:
            leaving[source].update(lines[0].taken)
    for before, after in zip(arriving, leaving, strict=True):
        found.update(product(before, after))
    return found
