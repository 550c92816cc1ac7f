"""A look at the memory of a state: where it is, and what time it is."""

from __future__ import annotations

from otolith.agent.memory.record import Record
from otolith.agent.times import clock_of
from otolith.core import Reading, Snapshot
from otolith.types import Clock


class View:
    """A part of the memory of a state; of one that is only read, as late as its commit."""

    def __init__(self, state: Reading, *, clock: Clock | None = None) -> None:
        self.state = state
        self._clock = clock_of(state) if clock is None else clock
        self._record = Record(state)

    def _now(self) -> int:
        if self._clock is not None:
            return self._clock()
        return self.state.commit.time if isinstance(self.state, Snapshot) else 0
