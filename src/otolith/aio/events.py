"""What happened to an agent, awaitable: recorded, looked up, and folded into values."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Collection
from datetime import datetime
from typing import Any, TypeAlias, overload

from otolith import agent
from otolith.aio.lanes import Lane
from otolith.aio.mirror import Mirror, awaited
from otolith.core import Commit

Bound: TypeAlias = datetime | int | Commit | str | None
"""A moment: with its zone, in microseconds since 1970, or a commit or an expression for one."""


class Event(Mirror[agent.Event]):
    """One thing that happened. What it was recorded with is read when it is asked for."""

    def __init__(self, plain: agent.Event, lane: Lane) -> None:
        super().__init__(lambda: plain, lane)
        self.kind, self.time, self.agent = plain.kind, plain.time, plain.agent
        self.index, self.when = plain.index, plain.when

    async def data(self) -> dict[str, Any]:
        """Return what it was recorded with."""
        return await self.run(lambda plain: plain.data)

    async def commit(self) -> str | None:
        """Return the id of the commit that it came with; None as long as it is not committed."""
        return await self.run(lambda plain: plain.commit)

    async def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return await self.run(lambda plain: plain.to_dict())

    def __repr__(self) -> str:
        by = f" by {self.agent}" if self.agent else ""
        return f"<event {self.index} {self.kind}{by}>"


class EventLog(Mirror[agent.EventLog]):
    """The events of a state, the oldest first: `await state.events[-1]`."""

    async def append(self, kind: str, /, *, agent: str = "", **data: Any) -> Event:
        """Record that something happened; it is committed with everything else."""
        return self._event(await self.run(lambda plain: plain.append(kind, agent=agent, **data)))

    async def list(
        self,
        *,
        kind: str | Collection[str] | None = None,
        since: Bound = None,
        until: Bound = None,
        agent: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[Event]:
        """Return events, the oldest first; with `limit`, the last so many of those that fit."""
        found = await self.run(
            lambda plain: plain.list(kind=kind, since=since, until=until, agent=agent, limit=limit)
        )
        return [self._event(each) for each in found]

    rebuild = awaited(agent.EventLog.rebuild)

    @overload
    async def __getitem__(self, at: int) -> Event: ...
    @overload
    async def __getitem__(self, at: slice) -> builtins.list[Event]: ...
    async def __getitem__(self, at: int | slice) -> Event | builtins.list[Event]:
        if isinstance(at, slice):
            return [self._event(each) for each in await self.run(lambda plain: plain[at])]
        return self._event(await self.run(lambda plain: plain[at]))

    async def length(self) -> int:
        """Return how many events there are."""
        return await self.run(len)

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for each in self._walk(iter):
            yield self._event(each)

    def _event(self, plain: agent.Event) -> Event:
        return Event(plain, self._lane)
