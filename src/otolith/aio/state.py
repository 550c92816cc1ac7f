"""A state that can be written to, awaitable.

What happened to an agent, awaitable: recorded, looked up, and folded into values.

Reading a state, awaitable; and a state as it was at a commit.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Collection, Coroutine
from datetime import datetime
from typing import Any, TypeAlias, TypeVar, overload

from otolith import core, session, state
from otolith.aio.handles import (
    BlobHandle,
    CounterHandle,
    FrameHandle,
    ListHandle,
    MapHandle,
    Mapped,
    SetHandle,
)
from otolith.aio.mirror import Lane, Mirror, Owner, Threads, awaited, opening
from otolith.core import Commit, Merge, Path, PathConflict, Target

Bound: TypeAlias = datetime | int | Commit | str | None
"""A moment: with its zone, in microseconds since 1970, or a commit or an expression for one."""


class Event(Mirror[state.Event]):
    """One thing that happened. What it was recorded with is read when it is asked for."""

    def __init__(self, plain: state.Event, lane: Lane) -> None:
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


class EventLog(Mirror[state.EventLog]):
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

    rebuild = awaited(state.EventLog.rebuild)

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

    def _event(self, plain: state.Event) -> Event:
        return Event(plain, self._lane)


T = TypeVar("T", bound=session.Versioned | session.SessionSnapshot)


class Reading(Mapped[T]):
    """A state that is read: `await state["budget"]`, `async for name in state`."""

    def __init__(self, plain: T, threads: Threads) -> None:
        super().__init__(lambda: plain, Lane(threads))
        self.plain: T = plain

    names = awaited(core.StateReader.names)
    size = awaited(core.StateReader.size)
    kind = awaited(core.StateReader.kind)
    to_dict = awaited(core.StateReader.to_dict)

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


class Snapshot(Reading[session.SessionSnapshot]):
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


_UNSET: Any = object()


class Change(Mirror[core.Change]):
    """One path that differs. Its values are read when they are asked for."""

    def __init__(self, plain: core.Change, lane: Lane) -> None:
        super().__init__(lambda: plain, lane)
        self.path, self.keys, self.kind = plain.path, plain.keys, plain.kind

    async def old(self) -> Any:
        """Return the value before; None if it was added."""
        return await self.run(lambda plain: plain.old)

    async def new(self) -> Any:
        """Return the value after; None if it was removed."""
        return await self.run(lambda plain: plain.new)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.path}>"


def _mirror(plain: session.Versioned, threads: Threads) -> Versioned:
    return Versioned(plain, threads)


class Versioned(Reading[session.Versioned], Owner):
    """What an agent knows: `await repo.session(id)`, or `await Versioned.open("agent.db")`."""

    def __init__(self, plain: session.Versioned, threads: Threads) -> None:
        super().__init__(plain, threads)
        self.ref, self.scope = plain.ref, plain.scope
        self.session, self.name = plain.session, plain.name
        self._scopes: dict[str, Versioned] = {}

    open = staticmethod(opening(session.Versioned, _mirror))

    # Known without looking

    @property
    def head(self) -> Commit | None:
        """The last commit this handle knows of."""
        return self.plain.head

    @property
    def merging(self) -> Commit | None:
        """The commit whose merge waits for decisions, or to be committed."""
        return self.plain.merging

    @property
    def user(self) -> Versioned:
        """The state of the user whose session this is; it is committed by itself."""
        return self._scope("user", self.plain.user)

    @property
    def app(self) -> Versioned:
        """The state of the application that this session is of; it is committed by itself."""
        return self._scope("app", self.plain.app)

    def _scope(self, name: str, plain: session.Versioned) -> Versioned:
        if name not in self._scopes:
            self._scopes[name] = Versioned(plain, self._lane.threads)
        return self._scopes[name]

    # Writing

    @overload
    def set(self, path: str | Path) -> SetHandle: ...
    @overload
    def set(self, path: str | Path, value: Any) -> Coroutine[Any, Any, None]: ...
    def set(self, path: str | Path, value: Any = _UNSET) -> SetHandle | Coroutine[Any, Any, None]:
        """Set the value at a path: `await state.set(path, value)`.

        Without a value it is a handle on a set, as it is for a plain state.
        """
        if value is _UNSET:
            return super().set(path)
        return self.run(lambda plain: plain.__setitem__(path, value))

    async def delete(self, path: str | Path) -> None:
        """Remove what is at a path."""
        await self.run(lambda plain: plain.__delitem__(path))

    async def pop(self, path: str | Path, *default: Any) -> Any:
        """Remove what is at a path and return it, or the default if nothing is there."""
        return await self.run(lambda plain: plain.pop(path, *default))  # type: ignore[arg-type]

    async def setdefault(self, path: str | Path, default: Any = None) -> Any:
        """Return the value at a path; it is set if nothing is there."""
        return await self.run(lambda plain: plain.setdefault(path, default))  # type: ignore[arg-type]

    update = awaited(session.Versioned.update)
    popitem = awaited(session.Versioned.popitem)
    clear = awaited(session.Versioned.clear)
    discard = awaited(session.Versioned.discard)
    policy = awaited(session.Versioned.policy)
    policies = awaited(session.Versioned.policies)

    # Looking

    async def is_clean(self) -> bool:
        """Tell whether there is nothing to commit."""
        return await self.run(lambda plain: plain.is_clean)

    async def conflicts(self) -> list[PathConflict]:
        """Return what the merge in progress leaves to decide."""
        return await self.run(lambda plain: plain.conflicts)

    async def status(self) -> list[Change]:
        """Return the staged edits, and what changed in place."""
        return self._changes(await self.run(lambda plain: plain.status()))

    async def diff(self, old: Target | None = None, new: Target | None = None) -> list[Change]:
        """Return what changed from one commit to another.

        `new` is the staged state by default, `old` the head.
        """
        return self._changes(await self.run(lambda plain: plain.diff(old, new)))

    def _changes(self, plain: list[core.Change]) -> list[Change]:
        return [Change(each, self._lane) for each in plain]

    async def at(self, target: Target) -> Snapshot:
        """Return the state as it was, with what it saw of its user and application."""
        return Snapshot(await self.run(lambda plain: plain.at(target)), self._lane.threads)

    async def checkout(self, target: Target) -> Snapshot:
        """Return the state as it was at a commit, read-only: another word for `at`."""
        return await self.at(target)

    def log(
        self,
        target: Target | None = None,
        *,
        limit: int | None = None,
        path: str | Path | None = None,
    ) -> AsyncIterator[Commit]:
        """Yield commits, the latest first; with `path`, those that changed it."""
        return self._walk(lambda plain: plain.log(target, limit=limit, path=path))

    resolve = awaited(session.Versioned.resolve)
    blame = awaited(session.Versioned.blame)

    # History

    commit = awaited(session.Versioned.commit)
    rollback = awaited(session.Versioned.rollback)
    undo = awaited(session.Versioned.undo)
    redo = awaited(session.Versioned.redo)
    stash = awaited(session.Versioned.stash)
    unstash = awaited(session.Versioned.unstash)
    refresh = awaited(session.Versioned.refresh)
    resolve_conflict = awaited(session.Versioned.resolve_conflict)

    async def fork(self, name: str, *, at: Target = "@") -> Versioned:
        """Start another branch at a commit, and return it. Staged edits stay here."""
        plain = await self.run(lambda plain: plain.fork(name, at=at))
        return Versioned(plain, self._lane.threads)

    async def merge(
        self, other: Versioned | Target, *, message: str = "", author: str | None = None
    ) -> Merge:
        """Merge another branch or commit into this one.

        Without conflicts this is a commit. With conflicts nothing is committed: the merged state
        is staged, `conflicts` lists the paths, and `commit` goes through once each is settled.
        """
        theirs = other.plain if isinstance(other, Versioned) else other
        return await self.run(lambda plain: plain.merge(theirs, message=message, author=author))
