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

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from random import Random
from typing import Any, Literal, TypeAlias

from otolith.errors import BadValue, IllegalTransition, StepFailed
from otolith.statecharts.analysis.explore import Graph, explore
from otolith.statecharts.analysis.findings import arc_named
from otolith.statecharts.analysis.inputs import SECOND, Alphabet, Cue, Item, cue_of, cues_of
from otolith.statecharts.engine.compiled_chart import CompiledChart
from otolith.statecharts.engine.step import StepResult, advance, is_enabled, start, step
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, Effect, Microstep


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a run: what was done to the chart, and what came of it."""

    item: Item | None
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
    item: Item | None
    phase: str
    """Where the chart was, and still is."""
    allowed: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a script: its steps, the start first, and why it ended early if it did."""

    stages: tuple[Stage, ...]
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
    model: CompiledChart,
    events: Iterable[Item],
    *,
    data: Mapping[str, Any] | None = None,
    now: int = 0,
    is_strict: bool | None = None,
) -> Run:
    """Return what a script makes of a chart.

    Args:
        model: The chart.
        events: Names, pairs of a name and data, and `("after", seconds)` to let time pass.
        data: What the chart is started with.
        now: When it is started, in microseconds since 1970.
        is_strict: Whether an event that nobody takes ends the run; None: not in SCXML, which
            drops it.

    Raises:
        BadValue: an item is none of these.
    """
    return play(model, cues_of(events), data=data, now=now, is_strict=is_strict)


def play(
    model: CompiledChart,
    cues: Iterable[Cue],
    *,
    data: Mapping[str, Any] | None = None,
    now: int = 0,
    is_strict: bool | None = None,
) -> Run:
    """Play what was read of a script, or recorded."""
    if is_strict is None:
        is_strict = not model.definition.is_scxml
    stages: list[Stage] = []
    item: Item | None = None
    try:
        stages.append(_stage(None, start(model, data, now=now)))
        for cue in cues:
            item = cue.item
            found = _step(model, stages[-1].snapshot, cue, is_strict=is_strict)
            stages.append(_stage(item, found))
    except (IllegalTransition, StepFailed, BadValue) as error:
        return Run(tuple(stages), _refusal(model, stages, item, error))
    return Run(tuple(stages))


def _step(
    model: CompiledChart, snapshot: ChartSnapshot, cue: Cue, *, is_strict: bool
) -> StepResult:
    now = snapshot.time + cue.wait if cue.at is None else cue.at
    if cue.event is None:
        return advance(model, snapshot, now)
    return step(model, snapshot, cue.event, now, is_strict=is_strict)


def _stage(item: Item | None, found: StepResult) -> Stage:
    return Stage(item, found.snapshot, found.effects, found.trace)


def _refusal(
    model: CompiledChart,
    stages: list[Stage],
    item: Item | None,
    error: IllegalTransition | StepFailed | BadValue,
) -> Refusal:
    index = len(stages) - 1  # the start is a stage, and no item
    if isinstance(error, IllegalTransition):
        return Refusal("refused", index, item, error.state, error.allowed, error.message)
    allowed: tuple[str, ...] = ()
    if stages and stages[-1].snapshot.status == "running":
        allowed = model.allowed(model.mask_of(stages[-1].snapshot.configuration))
    phase = stages[-1].phase if stages else ""
    return Refusal("failed", index, item, phase, allowed, str(error))


RecordedEvent: TypeAlias = Item | tuple[str, Any, int]
"""An event that happened: name, data and when, in microseconds; or an item of a script.

Without a name, time went by: so `machine.log()` can be handed over as it is."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a chart takes a recorded run; if not, the first event it does not take, and why."""

    is_accepted: bool
    phase: str
    """Where the run ends, or where the chart was when it refused."""
    refusal: Refusal | None
    run: Run

    @property
    def index(self) -> int | None:
        """Which event was not taken; None if all were."""
        return None if self.refusal is None else self.refusal.index

    @property
    def event(self) -> str | None:
        """The name of the event that was not taken."""
        if self.refusal is None or self.refusal.item is None:
            return None
        event = cue_of(self.refusal.item).event
        return None if event is None else event.name

    @property
    def allowed(self) -> tuple[str, ...]:
        """What would have been taken instead."""
        return () if self.refusal is None else self.refusal.allowed

    def __bool__(self) -> bool:
        return self.is_accepted


def accepts(
    model: CompiledChart,
    events: Iterable[RecordedEvent],
    *,
    start_data: Mapping[str, Any] | None = None,
    started: int | None = None,
    is_strict: bool = True,
) -> Verdict:
    """Return whether a chart would have taken a recorded run.

    Timers fire at their times between the events, as they would have.

    Args:
        model: The chart, a newer one than the run was made with perhaps.
        events: What happened: (name, data, time), with the time in microseconds.
        start_data: What the run was started with.
        started: When; the time of the first event if it is not known.
        is_strict: Whether an event that the chart would drop counts as refused.
    """
    cues = [_cue(event) for event in events]
    if started is None:
        started = next((cue.at for cue in cues if cue.at is not None), 0)
    run = play(model, cues, data=start_data, now=started, is_strict=is_strict)
    refusal = run.refusal
    phase = run.phase if refusal is None else refusal.phase
    return Verdict(refusal is None, phase, refusal, run)


def _cue(event: RecordedEvent) -> Cue:
    if isinstance(event, ChartEvent) or not isinstance(event, tuple | list) or len(event) != 3:
        return cue_of(event)
    parts: Any = event
    name, data, time = parts
    if not isinstance(name, str) or type(time) is not int:
        raise BadValue(
            f"{event!r} is not a recorded event", hint="write (name, data, microseconds)"
        )
    return Cue(ChartEvent(name, data) if name else None, at=time)


@dataclass(slots=True)
class Forecast:
    """What random runs came to. Times are seconds of the virtual clock."""

    runs: int
    visits: Counter[str] = field(default_factory=Counter)
    """How often each state was entered."""
    reached: Counter[str] = field(default_factory=Counter)
    """In how many runs each state was entered at all."""
    dwell: dict[str, float] = field(default_factory=dict)
    """How long each state was active, over all runs."""
    ends: Counter[str] = field(default_factory=Counter)
    """How runs ended: "done in x", "stuck in x", "failed in x" or "cut"."""
    events: Counter[str] = field(default_factory=Counter)
    durations: list[float] = field(default_factory=list)
    """How long each run took that came to an end of its own."""

    def chance(self, state: str) -> float:
        """Return the share of runs that came to a state."""
        return self.reached[state] / self.runs if self.runs else 0.0

    def mean_dwell(self, state: str) -> float:
        """Return how long a visit of a state lasts on average."""
        return self.dwell.get(state, 0.0) / self.visits[state] if self.visits[state] else 0.0

    @property
    def mean_duration(self) -> float:
        """The time to the end on average, of the runs that came to one."""
        return sum(self.durations) / len(self.durations) if self.durations else 0.0


def monte_carlo(
    model: CompiledChart,
    seed: int,
    runs: int = 1_000,
    *,
    weights: Mapping[str, float] | None = None,
    events: Iterable[Item] | None = None,
    data: Mapping[str, Any] | None = None,
    max_steps: int = 1_000,
) -> Forecast:
    """Return what many random runs come to; the same seed gives the same answer.

    Args:
        model: The chart.
        seed: Where the chances come from.
        runs: How many runs to make.
        weights: How many times a second each event happens on average; 1 if it is not named.
        events: What may be sent, as names or pairs with data; else what the active states name.
        data: What each run is started with.
        max_steps: Where a run is cut that does not end.
    """
    rates = dict(weights or {})
    wrong = [name for name, rate in rates.items() if not 0 <= rate < float("inf")]
    if wrong:
        raise BadValue(f"{', '.join(wrong)}: a weight is a number from 0", hint="0 means never")
    cues = None if events is None else cues_of(events)
    alphabet = Alphabet(None if cues is None else [cue.event for cue in cues if cue.event])
    chances = _Chances(model, Random(seed), rates, alphabet)
    forecast = Forecast(runs)
    for _ in range(runs):
        chances.run(forecast, data, max_steps)
    return forecast


class _Chances:
    def __init__(
        self, model: CompiledChart, random: Random, rates: dict[str, float], alphabet: Alphabet
    ) -> None:
        self._model = model
        self._random = random
        self._rates = rates
        self._alphabet = alphabet
        self._entered: set[str] = set()

    def run(self, forecast: Forecast, data: Mapping[str, Any] | None, max_steps: int) -> None:
        self._entered = set()
        try:
            snapshot, _, trace = start(self._model, data)
        except StepFailed:
            forecast.ends["failed at the start"] += 1
            return
        self._count(forecast, trace)
        end = "cut"
        for _ in range(max_steps):
            after = self._next(forecast, snapshot)
            if isinstance(after, str):
                end = after
                break
            snapshot = after
        else:
            end = f"done in {snapshot.phase}" if snapshot.status == "done" else "cut"
        forecast.ends[end] += 1
        if end.startswith("done"):
            forecast.durations.append(snapshot.time / SECOND)
        forecast.reached.update(self._entered)

    def _next(self, forecast: Forecast, before: ChartSnapshot) -> ChartSnapshot | str:
        """Return the next snapshot, or how the run ends here."""
        if before.status != "running":
            return f"{before.status} in {before.phase}"
        choices = self._choices(before)
        total = sum(rate for _, rate in choices)
        due = before.next_due
        wait = self._random.expovariate(total) if total else None
        try:
            if due is not None and (wait is None or before.time + wait * SECOND >= due):
                after, _, trace = advance(self._model, before, due)
            elif wait is None:
                return f"stuck in {before.phase}"
            else:
                event = self._random.choices(*zip(*choices, strict=True))[0]
                now = before.time + round(wait * SECOND)
                after, _, trace = step(self._model, before, event, now)
                forecast.events[event.name] += 1
        except StepFailed:
            return f"failed in {before.phase}"
        self._wait(forecast, before, after.time)
        self._count(forecast, trace)
        return after

    def _choices(self, snapshot: ChartSnapshot) -> list[tuple[ChartEvent, float]]:
        found: list[tuple[ChartEvent, float]] = []
        for move in self._alphabet.moves(self._model, snapshot).values():
            event, rate = ChartEvent(move.event, move.data), self._rates.get(move.event, 1.0)
            if rate and self._is_taken(snapshot, event):
                found.append((event, rate))
        return found

    def _is_taken(self, snapshot: ChartSnapshot, event: ChartEvent) -> bool:
        choice = self._model.candidates(self._model.mask_of(snapshot.configuration), event.name)
        if choice.groups and choice.unguarded is not None:
            return True
        try:
            return is_enabled(self._model, snapshot, event)
        except StepFailed:
            return True  # the step will say what is wrong

    def _count(self, forecast: Forecast, trace: tuple[Microstep, ...]) -> None:
        for line in trace:
            if not line.session:
                forecast.visits.update(line.entered)
                self._entered.update(line.entered)

    def _wait(self, forecast: Forecast, snapshot: ChartSnapshot, until: int) -> None:
        passed = (until - snapshot.time) / SECOND
        mask = self._model.mask_of(snapshot.configuration)
        for node in self._model.nodes_of(mask):
            forecast.dwell[node.id] = forecast.dwell.get(node.id, 0.0) + passed


Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Share:
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
    states: Share
    transitions: Share
    pairs: Share
    limits: tuple[str, ...] = ()


def coverage(
    model: CompiledChart,
    runs: Iterable[Run | Iterable[RecordedEvent]],
    *,
    max_configurations: int = 10_000,
) -> Coverage:
    """Return what recorded or simulated runs have covered of a chart."""
    played = [each if isinstance(each, Run) else accepts(model, each).run for each in runs]
    graph = explore(model, max_configurations=max_configurations)
    entered: set[str] = set()
    taken: set[int] = set()
    pairs: set[Pair] = set()
    for run in played:
        lines = [line for line in run.trace if not line.session]
        entered.update(name for line in lines for name in line.entered)
        taken.update(arc for line in lines for arc in line.taken)
        pairs.update(_pairs(lines))
    known = sorted(_all_pairs(graph) | pairs)
    ids = [node.id for node in model.order[1:] if node.kind != "history"]
    named = [arc_named(arc) for arc in model.transitions]
    return Coverage(
        runs=len(played),
        refused=sum(not run.is_accepted for run in played),
        states=_share((id, id in entered) for id in ids),
        transitions=_share((named[arc.index], arc.index in taken) for arc in model.transitions),
        pairs=_share((f"{named[a]}, then {named[b]}", (a, b) in pairs) for a, b in known),
        limits=tuple(graph.limits),
    )


def _share(found: Iterable[tuple[str, bool]]) -> Share:
    listed = list(found)
    return Share(
        tuple(name for name, is_covered in listed if is_covered),
        tuple(name for name, is_covered in listed if not is_covered),
    )


def _pairs(lines: Iterable[Microstep]) -> Iterator[Pair]:
    taken = [line.taken for line in lines if line.taken]
    for before, after in pairwise(taken):
        yield from product(before, after)


def _all_pairs(graph: Graph) -> set[Pair]:
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
