"""Chances: many random runs of a chart with a virtual clock, and what they come to.

Each event is a clock of its own that strikes at random, on average `weight` times a second: the
next one is drawn among those the chart accepts, and so is the time until it. A timer that is due
before that fires first. So weights say both how often events happen and how long states last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from otolith.agent.lifecycle.analysis.scripts import SECOND, Item, cues_of
from otolith.agent.lifecycle.analysis.surroundings import Alphabet
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.snapshot import Event, Microstep, Snapshot
from otolith.agent.lifecycle.stepping import advance, selects, start, step
from otolith.errors import BadValue, StepFailed


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
    model: Model,
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
        self, model: Model, random: Random, rates: dict[str, float], alphabet: Alphabet
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

    def _next(self, forecast: Forecast, before: Snapshot) -> Snapshot | str:
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

    def _choices(self, snapshot: Snapshot) -> list[tuple[Event, float]]:
        found: list[tuple[Event, float]] = []
        for move in self._alphabet.moves(self._model, snapshot).values():
            event, rate = Event(move.event, move.data), self._rates.get(move.event, 1.0)
            if rate and self._is_taken(snapshot, event):
                found.append((event, rate))
        return found

    def _is_taken(self, snapshot: Snapshot, event: Event) -> bool:
        choice = self._model.choice(self._model.mask_of(snapshot.configuration), event.name)
        if choice.groups and choice.is_sure:
            return True
        try:
            return selects(self._model, snapshot, event)
        except StepFailed:
            return True  # the step will say what is wrong

    def _count(self, forecast: Forecast, trace: tuple[Microstep, ...]) -> None:
        for line in trace:
            if not line.session:
                forecast.visits.update(line.entered)
                self._entered.update(line.entered)

    def _wait(self, forecast: Forecast, snapshot: Snapshot, until: int) -> None:
        passed = (until - snapshot.time) / SECOND
        mask = self._model.mask_of(snapshot.configuration)
        for node in self._model.nodes_of(mask):
            forecast.dwell[node.id] = forecast.dwell.get(node.id, 0.0) + passed
