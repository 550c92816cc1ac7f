"""Teams, awaited: `team = await repo.team("research", member="planner")`.

    await team.transact(edit)
    async for change in team.watch("plan/"): ...
    async with team.lease("browser"): ...        as many tasks as you like may wait; see `waits.py`
    async with team: ...

What a lease or slot lets commits carry is a context variable. It is set and reset in the task that
is in the `async with`, never in the thread that acquired it: commits of the task carry it, and
those of tasks that it starts inside; others do not. `teams.pyi` has the types.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, Self

from otolith import core, teams
from otolith.aio.lanes import Lane
from otolith.aio.mirror import Mirror, next_few
from otolith.aio.surface import Versioned
from otolith.aio.waits import Bell
from otolith.durations import Duration, wait_seconds
from otolith.errors import Error, Fenced, Invalid


def _look_seconds() -> float:
    """Return how long to trust silence: a connection may have died without a word."""
    return 5.0


class WatchedChange(
    Mirror,
    plain=teams.WatchedChange,
    known=("path", "keys", "kind", "by", "commit", "cursor"),
):
    """One path that a commit changed. Its values are read when they are asked for."""

    def __repr__(self) -> str:
        return f"<aio.WatchedChange {self.kind} {self.path} by {self.by}>"


class Watch(Mirror, plain=teams.Watch):
    """The changes of a team, without end: `async for change in team.watch("plan/")`.

    It begins when it is entered with `async with`, or asked for the first change. Between changes
    it holds nothing: who leaves an `async for`, or is cancelled, need not close it.
    """

    def __init__(self, begin: Callable[[], teams.Watch], lane: Lane, label: str) -> None:
        super().__init__(begin, Lane(lane.threads), label)
        self._team_lane = lane
        self._begun: teams.Watch | None = None
        self._ahead: deque[teams.WatchedChange] = deque()
        self._cursor: str | None = None
        self._bells: set[Bell] = set()
        self._is_closed = False

    @property
    def plain(self) -> teams.Watch:
        """The plain watch; it is begun if it was not."""
        if self._begun is None:
            self._begun = self._reach()
            self._cursor = self._begun.cursor
            if self._is_closed:
                self._begun.close()
        return self._begun

    @property
    def cursor(self) -> str | None:
        """Where to go on after the last change; None before there was a commit."""
        is_ahead = self._begun is None or self._ahead
        return self._cursor if is_ahead else self.plain.cursor

    @wraps(teams.Watch.next)
    async def next(self, timeout_seconds: Duration | None = None) -> WatchedChange | None:
        """Return the next change; None if there was none for so long."""
        longest = None if timeout_seconds is None else wait_seconds(timeout_seconds, "timeout")
        deadline = self._lane.threads.waits.deadline(longest)
        while not self._ahead:
            if not await self._is_ready(deadline):
                return None
        found = self._ahead.popleft()
        self._cursor = found.cursor
        return WatchedChange(lambda: found, self._lane)

    async def _is_ready(self, deadline: float | None) -> bool:
        """Wait for changes; return whether there were some in time."""
        threads, bell = self._lane.threads, Bell()
        self._bells.add(bell)
        try:
            with threads.call():
                await self._begin()
                return await threads.waits.until(
                    self._look, bell, self.plain.ref, pause=_look_seconds, deadline=deadline
                )
        finally:
            self._bells.discard(bell)

    async def _begin(self) -> None:
        if self._begun is None:
            await self._team_lane.run(lambda: self.plain)

    async def _look(self) -> bool:
        """Read the next few changes."""
        present = iter(lambda: self.plain.next(0), None)
        found, end = await self._lane.run(lambda: next_few(present))
        self._ahead += [each for each in found if each is not None]
        if isinstance(end, Error) and not found:
            raise end
        return bool(self._ahead)

    async def close(self) -> None:
        """End the watch; a task that waits in it gets Closed."""
        self._is_closed = True
        if self._begun is not None:
            self._begun.close()
        for bell in self._bells:
            bell.ring()

    aclose = close

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchedChange:
        found = await self.next()
        assert found is not None
        return found

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class _Holder(Mirror):
    """What is waited for and held: a lease, or the slots of a queue."""

    async def _ask(self) -> Any:
        """Return a new request; the plain object finds out whether the member may ask."""
        return await self._lane.run(self.plain.request)

    async def _wait(self, request: teams.Request) -> None:
        """Wait for a request, and let the commits of this task carry what was granted."""
        try:
            await self._lane.threads.waits.wait_for(request)
        except Fenced:
            await self._lane.run(request.explain)
            raise
        request.carry()

    async def _give_back(self, request: teams.Request) -> None:
        """Give something back, even if the task is cancelled meanwhile."""
        request.drop()
        with self._lane.threads.call():
            await self._lane.threads.finish(request.give_back)


class TeamLease(_Holder, plain=teams.TeamLease, known=("name", "token", "is_held")):
    """A lease in use: `async with team.lease("browser") as lease:`.

    Inside, every commit of this task, and of tasks that it starts there, to any state of the repo
    carries its token, and is refused with `Fenced` once somebody else has the lease.
    """

    def __init__(self, plain: teams.TeamLease, lane: Lane) -> None:
        super().__init__(lambda: plain, lane, plain.name)
        self._request: teams.Request | None = None

    def __repr__(self) -> str:
        return f"<aio.{repr(self.plain)[1:]}"

    @wraps(teams.TeamLease.acquire)
    async def acquire(self) -> Self:
        """Wait until the lease is free, and take it."""
        request = await self._ask()
        self.plain.hold(request)
        self._request = request
        await self._wait(request)
        return self

    @wraps(teams.TeamLease.renew)
    async def renew(self) -> None:
        """Renew the lease now."""
        with self._lane.threads.call():
            await self._lane.threads.do(self.plain.renew, calls_out=True)

    @wraps(teams.TeamLease.release)
    async def release(self) -> None:
        """Give the lease back."""
        if self._request is not None:
            await self._give_back(self._request)

    async def __aenter__(self) -> Self:
        return await self.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.release()


class FairQueue(_Holder, plain=teams.FairQueue, known=("name", "slots")):
    """A queue of a team: `async with team.queue("gpu", slots=2) as slot:` waits for a turn.

    Tasks may share it. Inside, every commit of the task carries the token of its slot.
    """

    def __init__(self, plain: teams.FairQueue, lane: Lane) -> None:
        super().__init__(lambda: plain, lane, plain.name)
        self._uses: list[tuple[asyncio.Task[Any] | None, teams.Request]] = []

    @wraps(teams.FairQueue.acquire)
    async def acquire(self) -> teams.QueueSlot:
        """Wait for a slot, and take it."""
        request = await self._ask()
        await self._wait(request)
        self._uses.append((asyncio.current_task(), request))
        found: teams.QueueSlot = request.slot
        return found

    @wraps(teams.FairQueue.release)
    async def release(self) -> None:
        """Give the slot back that this task has acquired last; without one, that of another."""
        if not self._uses:
            raise Invalid(f"no slot of queue {self.name} was acquired here", hint="acquire one")
        task = asyncio.current_task()
        own = next((use for use in reversed(self._uses) if use[0] is task), self._uses[-1])
        self._uses.remove(own)
        await self._give_back(own[1])

    async def __aenter__(self) -> teams.QueueSlot:
        return await self.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.release()


class InboxConflict(
    Mirror,
    plain=teams.InboxConflict,
    known=(
        *("id", "path", "keys", "kind", "why", "absent", "note", "time", "is_changed"),
        *("our_author", "their_author", "our_commit", "their_commit", "base_commit"),
    ),
):
    """A path that two members changed, and that nobody has decided: `await conflict.theirs()`."""

    def __repr__(self) -> str:
        return f"<aio.{repr(self.plain)[1:]}"


class Proposal(
    Mirror,
    plain=teams.Proposal,
    known=(
        *("id", "title", "by", "time", "status", "votes", "lapsed", "needed", "voters"),
        *("vetoers", "until", "why", "effect"),
    ),
):
    """A change that members vote on: `await proposal.approve()`, `await proposal.diff()`."""

    def __repr__(self) -> str:
        return f"<aio.{repr(self.plain)[1:]}"


class Team(Mirror, plain=teams.Team, has_lane=True, known=("id", "member")):
    """What a team shares, as one member: `await repo.team("research", member="planner")`.

    Tasks may share it. `async with team:` shows the others that the member is present.
    """

    def __init__(self, reach: Callable[[], Any], lane: Lane) -> None:
        super().__init__(reach, lane)
        self._presences: list[teams.Request] = []

    def __repr__(self) -> str:
        return f"<aio.{repr(self.plain)[1:]}"

    async def state(self) -> Versioned:
        """Return the state that the team shares; its calls have their order with the team's."""
        plain = await self._run(lambda team: team.state)
        return Versioned(lambda: plain, self._lane)

    async def inbox(self) -> teams.Inbox[InboxConflict]:
        """Return the conflicts that nobody has decided, the oldest first."""
        found = await self._run(lambda team: team.inbox)
        return found.map(lambda conflict: InboxConflict(lambda: conflict, self._lane))

    @wraps(teams.Team.watch)
    def watch(self, prefix: str = "", *, since: core.Commit | str | None = None) -> Watch:
        """Return an endless iterator over what members change below a path, in order."""
        begin = lambda: self.plain.watch(prefix, since=since)  # noqa: E731 - it runs in a thread
        return Watch(begin, self._lane, prefix)

    @wraps(teams.Team.lease)
    def lease(self, name: str, **options: Any) -> TeamLease:
        """Return a lease to use in an `async with`."""
        return TeamLease(self.plain.lease(name, **options), self._lane)

    @wraps(teams.Team.queue)
    def queue(self, name: str, **options: Any) -> FairQueue:
        """Return a queue for something scarce."""
        return FairQueue(self.plain.queue(name, **options), self._lane)

    @wraps(teams.Team.handoff)
    async def handoff(self, session: Any, *, to: str, note: object = None) -> teams.SessionOwner:
        """Give a session to another member, after all earlier calls on it."""
        plain, beside = session, None
        if isinstance(session, Versioned):
            plain, beside = session.plain, session._lane  # noqa: SLF001 - it is a mirror, too
        return await self._lane.run(
            lambda: self.plain.handoff(plain, to=to, note=note), beside=beside
        )

    async def __aenter__(self) -> Self:
        presence = await self._run(lambda team: team.presence())
        await self._lane.threads.waits.wait_for(presence)
        self._presences.append(presence)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        presence = self._presences.pop()
        with self._lane.threads.call():
            await self._lane.threads.finish(presence.give_back)
