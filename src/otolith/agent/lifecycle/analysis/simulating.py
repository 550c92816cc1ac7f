"""Simulating: a script played on a chart with a virtual clock, step by step.

Nothing waits and nothing outside is done: effects are in the steps that asked for them. What the
chart does not accept, and what fails, ends the run with a report instead of an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from otolith.agent.lifecycle.analysis.scripts import Cue, Item, cues_of
from otolith.agent.lifecycle.effects import Effect
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.snapshot import Microstep, Snapshot
from otolith.agent.lifecycle.stepping import Step, advance, start, step
from otolith.errors import BadValue, IllegalTransition, StepFailed


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a run: what was done to the chart, and what came of it."""

    item: Item | None
    """The item of the script; None for the start."""
    snapshot: Snapshot
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
    def snapshot(self) -> Snapshot | None:
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
    model: Model,
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
    model: Model,
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


def _step(model: Model, snapshot: Snapshot, cue: Cue, *, is_strict: bool) -> Step:
    now = snapshot.time + cue.wait if cue.at is None else cue.at
    if cue.event is None:
        return advance(model, snapshot, now)
    return step(model, snapshot, cue.event, now, is_strict=is_strict)


def _stage(item: Item | None, found: Step) -> Stage:
    return Stage(item, found.snapshot, found.effects, found.trace)


def _refusal(
    model: Model,
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
