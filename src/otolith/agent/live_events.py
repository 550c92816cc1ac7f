"""Events in memory, for states without history."""

from __future__ import annotations

import builtins
from threading import Lock
from typing import Any

from otolith.agent.containers import copied
from otolith.agent.event import Event, EventLog, Reducer, check_words
from otolith.agent.kept import count_of
from otolith.agent.origins import Shared
from otolith.core import Commit
from otolith.errors import Unsupported
from otolith.types import Clock


class LiveEvents(EventLog):
    """Events in memory; their data is held by reference."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: list[Event] = []
        self._turns = Lock()

    def append(self, kind: str, /, *, agent: str = "", **data: Any) -> Event:
        check_words(kind, agent)
        with self._turns:
            event = _event(kind, self._clock(), agent, len(self._all), data)
            self._all.append(event)
        return event

    def extend(self, events: EventLog) -> None:
        """Take over the events of another log."""
        self._all += list(events)

    def clear(self) -> None:
        """Forget all events."""
        self._all = []

    def __len__(self) -> int:
        return len(self._all)

    def _read(self, start: int, stop: int) -> builtins.list[Event]:
        some = self._all[start:stop]
        return [_event(each.kind, each.time, each.agent, each.index, each.data) for each in some]

    def _common(self, target: Commit | str) -> Shared:
        raise _no_commit(target)

    def rebuild(
        self,
        reducer: Reducer,
        initial: Any = None,
        *,
        name: str | None = None,
        version: int = 1,
        upto: int | Commit | str | None = None,
    ) -> Any:
        """Fold all events into a value; there are no snapshots, so all of them are replayed."""
        if isinstance(upto, Commit | str):
            raise _no_commit(upto)
        value = copied(initial, {})
        for event in self[: len(self) if upto is None else count_of(upto)]:
            value = reducer(value, event)
        return value


def _event(kind: str, time: int, agent: str, index: int, data: dict[str, Any]) -> Event:
    return Event(kind, time, agent, index, data.copy, _never)


def _never() -> None:
    """Return the commit of an event that has none."""


def _no_commit(target: Commit | str) -> Unsupported:
    name = target.short if isinstance(target, Commit) else target
    return Unsupported(
        f"{name}: events in memory have no commits", hint="give a time or a count, or use Versioned"
    )
