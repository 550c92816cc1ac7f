"""The simulation of a chart: scripts and recorded runs, played with a virtual clock.

Nothing waits and nothing outside is done: effects are in the steps that asked for them. An event
that the chart does not accept, and a step that fails, end the run with a report instead of an
error.

`accepts` plays a run that was recorded, with its times. `coverage` reports which states,
transitions and pairs of transitions runs have been through. A pair is two transitions taken one
right after the other; the possible pairs are those that `explore` finds with guards answering both
ways, and if it stopped early, `limits` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Literal, TypeAlias

from otolith.errors import BadValue, IllegalTransition, StepFailed
from otolith.shapes import check_argument
from otolith.statecharts.analysis.explore import StateGraph, explore
from otolith.statecharts.analysis.inputs import ParsedItem, ScriptItem, parse_item
from otolith.statecharts.engine.compiled_chart import CompiledChart
from otolith.statecharts.engine.step import advance, start, step
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, Effect, Microstep

RecordedEvent: TypeAlias = ScriptItem | tuple[str, Any, int]
"""A recorded event: name, data and time in microseconds; or an item of a script.

An empty name means that time passed, so `machine.log()` can be passed as it is."""

_Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SimulationStep:
    """One step of a run: the item of the script, and its result."""

    item: ScriptItem | None
    """The item of the script; None for the start."""
    snapshot: ChartSnapshot
    effects: tuple[Effect, ...]
    trace: tuple[Microstep, ...]

    @property
    def phase(self) -> str:
        """The active state after the step; of several regions, joined by a comma."""
        return self.snapshot.phase

    @property
    def time(self) -> int:
        """When it happened on the virtual clock, in microseconds."""
        return self.snapshot.time


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a run ended before its script did."""

    kind: Literal["refused", "failed"]
    """refused: the chart does not accept the event. failed: the step raised an error."""
    index: int
    """Which item of the script it was; -1 for the start."""
    item: ScriptItem | None
    phase: str
    """Where the chart was, and still is."""
    allowed: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """The result of a script: its steps, the start first, and why it ended early if it did."""

    stages: tuple[SimulationStep, ...]
    refusal: Refusal | None = None

    def __repr__(self) -> str:
        end = "" if self.refusal is None else f", {self.refusal.kind}: {self.refusal.message}"
        return f"<SimulationRun {len(self.stages)} steps to {self.phase or 'nowhere'}{end}>"

    @property
    def is_accepted(self) -> bool:
        """Whether the chart took the whole script."""
        return self.refusal is None

    @property
    def snapshot(self) -> ChartSnapshot | None:
        """The snapshot at the end; None if the chart could not start."""
        return self.stages[-1].snapshot if self.stages else None

    @property
    def phase(self) -> str:
        """The active state at the end; "" if the chart could not start."""
        return self.stages[-1].phase if self.stages else ""

    @property
    def phases(self) -> tuple[str, ...]:
        """The active states after each step."""
        return tuple(stage.phase for stage in self.stages)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects of all steps."""
        return tuple(effect for stage in self.stages for effect in stage.effects)

    @property
    def trace(self) -> tuple[Microstep, ...]:
        """The microsteps of all steps."""
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
        events: Names, pairs of a name and data, and times to let pass; `inputs.py` lists their
            forms.
        data: The data that the chart is started with.
        now: When it is started, in microseconds since 1970.
        is_strict: Whether an event that no transition takes ends the run; by default not in SCXML,
            which drops it.

    Raises:
        BadValue: an item is none of these.
    """
    check_argument(events, "events", Iterable, "a list of events and times")
    items = [parse_item(item) for item in events]
    if is_strict is None:
        is_strict = not chart.definition.is_scxml
    return _play(chart, items, data=data, now=now, is_strict=is_strict)


def _play(
    chart: CompiledChart,
    items: Iterable[ParsedItem],
    *,
    data: Mapping[str, Any] | None,
    now: int,
    is_strict: bool,
) -> SimulationRun:
    """Make the steps of a script, up to the first that is refused or fails."""
    stages: list[SimulationStep] = []
    item: ScriptItem | None = None
    try:
        stages.append(SimulationStep(None, *start(chart, data, now=now)))
        for parsed in items:
            item, snapshot = parsed.item, stages[-1].snapshot
            now = snapshot.time + parsed.wait if parsed.at is None else parsed.at
            if parsed.event is None:
                result = advance(chart, snapshot, now)
            else:
                result = step(chart, snapshot, parsed.event, now, is_strict=is_strict)
            stages.append(SimulationStep(item, *result))
    except (IllegalTransition, StepFailed, BadValue) as error:
        return SimulationRun(tuple(stages), _refusal(chart, stages, item, error))
    return SimulationRun(tuple(stages))


def _refusal(
    chart: CompiledChart,
    stages: list[SimulationStep],
    item: ScriptItem | None,
    error: IllegalTransition | StepFailed | BadValue,
) -> Refusal:
    """Return the report for the item at which a run ended."""
    index = len(stages) - 1  # the first step is the start, which is not an item
    if isinstance(error, IllegalTransition):
        return Refusal("refused", index, item, error.state, error.allowed, error.message)
    allowed: tuple[str, ...] = ()
    if stages and stages[-1].snapshot.status == "running":
        allowed = chart.allowed(chart.mask_of(stages[-1].snapshot.configuration))
    phase = stages[-1].phase if stages else ""
    return Refusal("failed", index, item, phase, allowed, str(error))


# ---------------------------------------------------------------- recorded runs


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
        """The events that would have been taken instead."""
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
        chart: The chart, perhaps a newer one than the run was made with.
        events: The recorded events: (name, data, time), with the time in microseconds.
        start_data: The data that the run was started with.
        started: When; by default at the time of the first event.
        is_strict: Whether an event that the chart would drop counts as refused.
    """
    items = [_parse_recorded(event) for event in events]
    if started is None:
        started = next((item.at for item in items if item.at is not None), 0)
    run = _play(chart, items, data=start_data, now=started, is_strict=is_strict)
    refusal = run.refusal
    return Verdict(refusal is None, refusal.phase if refusal else run.phase, refusal, run)


def _parse_recorded(event: RecordedEvent) -> ParsedItem:
    """Return what a recorded event means: it comes at its own time."""
    if isinstance(event, ChartEvent) or not isinstance(event, tuple | list) or len(event) != 3:
        return parse_item(event)
    parts: Any = event
    name, data, time = parts
    if not isinstance(name, str) or type(time) is not int:
        hint = "write (name, data, microseconds)"
        raise BadValue(f"{event!r} is not a recorded event", hint=hint)
    return ParsedItem(ChartEvent(name, data) if name else None, at=time)


# ---------------------------------------------------------------- coverage


@dataclass(frozen=True, slots=True)
class CoverageShare:
    """Which things were covered and which were not, in words and in document order."""

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
    """How many runs the chart did not take to their end; their steps until then count."""
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
    played = [run if isinstance(run, SimulationRun) else accepts(chart, run).run for run in runs]
    graph = explore(chart, max_configurations=max_configurations)
    entered: set[str] = set()
    taken: set[int] = set()
    pairs: set[_Pair] = set()
    for run in played:
        lines = [line for line in run.trace if not line.session]
        entered.update(id for line in lines for id in line.entered)
        taken.update(index for line in lines for index in line.taken)
        pairs.update(_pairs(lines))
    known = sorted(_possible_pairs(graph) | pairs)
    ids = [node.id for node in chart.order[1:] if node.kind != "history"]
    names = [str(transition) for transition in chart.transitions]
    return Coverage(
        runs=len(played),
        refused=sum(not run.is_accepted for run in played),
        states=_share((id, id in entered) for id in ids),
        transitions=_share((name, index in taken) for index, name in enumerate(names)),
        pairs=_share((f"{names[a]}, then {names[b]}", (a, b) in pairs) for a, b in known),
        limits=tuple(graph.limits),
    )


def _share(found: Iterable[tuple[str, bool]]) -> CoverageShare:
    """Return names as covered or missing."""
    rows = list(found)
    return CoverageShare(
        tuple(name for name, is_covered in rows if is_covered),
        tuple(name for name, is_covered in rows if not is_covered),
    )


def _pairs(lines: Iterable[Microstep]) -> Iterator[_Pair]:
    """Yield the pairs of transitions of consecutive microsteps."""
    for before, after in pairwise(line.taken for line in lines if line.taken):
        yield from product(before, after)


def _possible_pairs(graph: StateGraph) -> set[_Pair]:
    """Return the pairs inside of steps, and those of two steps that meet in a configuration."""
    found: set[_Pair] = set()
    last: list[set[int]] = [set() for _ in graph.configurations]
    first: list[set[int]] = [set() for _ in graph.configurations]
    steps = [(-1, *opening) for opening in graph.opening]
    steps += [(edge.source, edge.target, edge.trace) for edge in graph.edges]
    for source, target, trace in steps:
        lines = [line for line in trace if not line.session and line.taken]
        found.update(_pairs(lines))
        if lines:
            last[target].update(lines[-1].taken)
        if lines and source >= 0:
            first[source].update(lines[0].taken)
    for before, after in zip(last, first, strict=True):
        found.update(product(before, after))
    return found
