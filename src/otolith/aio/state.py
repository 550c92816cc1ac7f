"""A state that can be written to, awaitable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Any, overload

from otolith import agent, core
from otolith.aio.handles import SetHandle
from otolith.aio.lanes import Lane, Threads
from otolith.aio.mirror import Mirror, Owner, awaited
from otolith.aio.opening import opening
from otolith.aio.reading import Reading, Snapshot
from otolith.core import Commit, Conflict, Merge, Path, Target

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


def _mirror(plain: agent.Versioned, threads: Threads) -> Versioned:
    return Versioned(plain, threads)


class Versioned(Reading[agent.Versioned], Owner):
    """What an agent knows: `await repo.session(id)`, or `await Versioned.open("agent.db")`."""

    def __init__(self, plain: agent.Versioned, threads: Threads) -> None:
        super().__init__(plain, threads)
        self.ref, self.scope = plain.ref, plain.scope
        self.session, self.name = plain.session, plain.name
        self._scopes: dict[str, Versioned] = {}

    open = staticmethod(opening(agent.Versioned, _mirror))

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

    def _scope(self, name: str, plain: agent.Versioned) -> Versioned:
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

    update = awaited(agent.Versioned.update)
    popitem = awaited(agent.Versioned.popitem)
    clear = awaited(agent.Versioned.clear)
    discard = awaited(agent.Versioned.discard)
    policy = awaited(agent.Versioned.policy)
    policies = awaited(agent.Versioned.policies)

    # Looking

    async def is_clean(self) -> bool:
        """Tell whether there is nothing to commit."""
        return await self.run(lambda plain: plain.is_clean)

    async def conflicts(self) -> list[Conflict]:
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

    resolve = awaited(agent.Versioned.resolve)
    blame = awaited(agent.Versioned.blame)

    # History

    commit = awaited(agent.Versioned.commit)
    rollback = awaited(agent.Versioned.rollback)
    undo = awaited(agent.Versioned.undo)
    redo = awaited(agent.Versioned.redo)
    shelve = awaited(agent.Versioned.shelve)
    unshelve = awaited(agent.Versioned.unshelve)
    refresh = awaited(agent.Versioned.refresh)
    resolve_conflict = awaited(agent.Versioned.resolve_conflict)

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
