"""A repo, awaitable: everything in one store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otolith import opening as plainly
from otolith import session as session_room
from otolith.aio.mirror import Lane, Mirror, Owner, Threads, awaited, opening
from otolith.aio.state import Snapshot, Versioned
from otolith.core import Target


class Repo(Mirror[session_room.Repo], Owner):
    """What `await aio.open(url)` returns. Tasks may share it, and the states it gives."""

    def __init__(self, plain: session_room.Repo, threads: Threads) -> None:
        super().__init__(lambda: plain, Lane(threads))
        self.plain = plain

    async def session(
        self,
        id: str,
        *,
        branch: str = "main",
        user: str | None = None,
        app: str | None = None,
        schema: Any = None,
    ) -> Versioned:
        """Return the state of a session; its first commit makes it."""
        return await self._state(
            lambda plain: plain.session(id, branch=branch, user=user, app=app, schema=schema)
        )

    async def user(self, id: str, *, branch: str = "main", schema: Any = None) -> Versioned:
        """Return what is kept about a user, across sessions."""
        return await self._state(lambda plain: plain.user(id, branch=branch, schema=schema))

    async def app(self, name: str, *, branch: str = "main", schema: Any = None) -> Versioned:
        """Return what is kept for an application, across users."""
        return await self._state(lambda plain: plain.app(name, branch=branch, schema=schema))

    async def _state(
        self, find: Callable[[session_room.Repo], session_room.Versioned]
    ) -> Versioned:
        # In a lane of its own: a state that is migrated as it is opened keeps no others waiting.
        lane = Lane(self._lane.threads)
        return Versioned(await lane.run(lambda: find(self.plain)), lane.threads)

    async def at(self, target: Target) -> Snapshot:
        """Return the state at a commit, read-only."""
        then = await self.run(lambda plain: plain.at(target))
        return Snapshot(then, self._lane.threads)

    sessions = awaited(session_room.Repo.sessions)
    branches = awaited(session_room.Repo.branches)
    delete_branch = awaited(session_room.Repo.delete_branch)
    tag = awaited(session_room.Repo.tag)
    tags = awaited(session_room.Repo.tags)
    delete_tag = awaited(session_room.Repo.delete_tag)
    resolve = awaited(session_room.Repo.resolve)
    resolver = awaited(session_room.Repo.resolver)


open = opening(plainly.open, Repo)
