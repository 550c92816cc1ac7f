"""Reading a state, awaitable; and a state as it was at a commit."""

from __future__ import annotations

from typing import Any, TypeVar

from otolith import agent, core
from otolith.aio.events import EventLog
from otolith.aio.handles import (
    BlobHandle,
    CounterHandle,
    FrameHandle,
    ListHandle,
    MapHandle,
    Mapped,
    SetHandle,
)
from otolith.aio.lanes import Lane, Threads
from otolith.aio.mirror import awaited
from otolith.core import Commit, Path

T = TypeVar("T", bound=agent.Versioned | agent.Then)


class Reading(Mapped[T]):
    """A state that is read: `await state["budget"]`, `async for name in state`."""

    def __init__(self, plain: T, threads: Threads) -> None:
        super().__init__(lambda: plain, Lane(threads))
        self.plain: T = plain

    names = awaited(core.Reading.names)
    size = awaited(core.Reading.size)
    kind = awaited(core.Reading.kind)
    to_dict = awaited(core.Reading.to_dict)

    async def __getitem__(self, path: str | Path) -> Any:
        return await self.run(lambda plain: plain[path])

    async def get(self, path: str | Path, default: Any = None) -> Any:
        """Return the value at a path, or the default if nothing is there."""
        return await self.run(lambda plain: plain.get(path, default))  # type: ignore[arg-type]

    def list(self, path: str | Path) -> ListHandle:
        """Return a handle on a list. This looks at nothing; its verbs do."""
        return ListHandle(lambda: self.plain.list(path), self._lane)

    def map(self, path: str | Path) -> MapHandle:
        """Return a handle on a dict; its keys may be of any plain type."""
        return MapHandle(lambda: self.plain.map(path), self._lane)

    def set(self, path: str | Path) -> SetHandle:
        """Return a handle on a set."""
        return SetHandle(lambda: self.plain.set(path), self._lane)

    def counter(self, path: str | Path) -> CounterHandle:
        """Return a handle on a number that merges by adding up."""
        return CounterHandle(lambda: self.plain.counter(path), self._lane)

    def blob(self, path: str | Path) -> BlobHandle:
        """Return a handle on a long bytes value."""
        return BlobHandle(lambda: self.plain.blob(path), self._lane)

    def frame(self, path: str | Path) -> FrameHandle:
        """Return a handle on a frame or table that reads only the columns it is asked for."""
        return FrameHandle(lambda: self.plain.frame(path), self._lane)

    @property
    def events(self) -> EventLog:
        """What happened, in order; recorded with `await state.events.append(kind, …)`."""
        return EventLog(lambda: self.plain.events, self._lane)

    def __repr__(self) -> str:
        return repr(self.plain)


class Snapshot(Reading[agent.Then]):
    """What `await state.at(target)` returns: a state as it was, read-only."""

    @property
    def commit(self) -> Commit:
        """The commit that it is the state of."""
        return self.plain.commit

    async def user(self) -> Snapshot:
        """Return the user's state that the commit saw."""
        return Snapshot(await self.run(lambda plain: plain.user), self._lane.threads)

    async def app(self) -> Snapshot:
        """Return the application's state that the commit saw."""
        return Snapshot(await self.run(lambda plain: plain.app), self._lane.threads)
