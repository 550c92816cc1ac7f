"""Acceptance: whether a chart would have taken a run that was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from otolith.agent.lifecycle.analysis.scripts import Cue, Item, cue_of
from otolith.agent.lifecycle.analysis.simulating import Refusal, Run, play
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.snapshot import Event
from otolith.errors import BadValue

Recorded: TypeAlias = Item | tuple[str, Any, int]
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
    model: Model,
    events: Iterable[Recorded],
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


def _cue(event: Recorded) -> Cue:
    if isinstance(event, Event) or not isinstance(event, tuple | list) or len(event) != 3:
        return cue_of(event)
    parts: Any = event
    name, data, time = parts
    if not isinstance(name, str) or type(time) is not int:
        raise BadValue(
            f"{event!r} is not a recorded event", hint="write (name, data, microseconds)"
        )
    return Cue(Event(name, data) if name else None, at=time)
