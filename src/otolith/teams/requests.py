"""Requests: what a member asks for, waits for, holds, and gives back: leases, slots, presence.

Rules
1. Who waits looks, and looks again when a ref has moved whose name starts with `news`, or after a
   pause, for owners that die tell nobody. `wait_for` does so in a thread, `otolith.aio` in a task.
2. Requests of one process in the same `line` wait for the same thing: one of them looks, for the
   others as well. So hundreds that wait cost the store as much as one.
3. What was asked for is given back, whatever happens: `give_back` withdraws what was not granted
   and releases what was. Doing it twice is harmless. What cannot be given back runs out.
4. Commits carry the fence of what the code around them holds. A context carries it, so `carry` and
   `drop` are called by whoever holds it, and not in a thread that acquires it for a task.
5. Who was removed from the team is granted nothing: what a request writes carries its member's
   fence. `look` raises Fenced then, and `explain` says why.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from random import random
from threading import Condition, Lock
from time import monotonic
from typing import Any, Self
from weakref import WeakKeyDictionary

from otolith.core import Backend
from otolith.errors import Error, Fenced, TimedOut
from otolith.signs_of_life import Renewal
from otolith.stores import Subscription, news_of
from otolith.teams.team_context import TeamContext

_LONGEST_PAUSE_SECONDS = 1.0


class Request(ABC):
    """One wait for something, and what was granted."""

    news: str
    line: object

    def __init__(
        self,
        context: TeamContext[Any],
        what: str,
        *,
        ttl_seconds: float,
        wait_seconds: float | None,
    ) -> None:
        self.backend = context.backend
        self.what = what
        self.ttl_seconds = ttl_seconds
        self.wait_seconds = wait_seconds
        self.member_fences = context.fences
        self.renewal: Renewal | None = None
        self.failure: Error | None = None  # found by another one of the line
        self.is_over = False
        self._context = context
        self._fence: tuple[str, int] | None = None
        self._carried: CarriedFence | None = None

    def __repr__(self) -> str:
        state = "given back" if self.is_over else "granted" if self.is_granted else "waiting"
        return f"<{type(self).__name__} {self.what} {state}>"

    @property
    def is_granted(self) -> bool:
        """Whether it was granted, and not given back."""
        return self.renewal is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it can be granted."""
        return not (self.is_granted or self.is_over or self.failure)

    @property
    def is_held(self) -> bool:
        """Whether it was granted and not lost, as far as is known here."""
        return self.renewal is not None and self.renewal.is_held

    def pause_seconds(self) -> float:
        """Return how long to wait until the next look, if there is no news."""
        return min(self.ttl_seconds / 3, _LONGEST_PAUSE_SECONDS) * (0.5 + random() / 2)

    @abstractmethod
    def look(self, others: Sequence[Self] = ()) -> bool:
        """Take what is free, and return whether it is granted; `others` are in the same line.

        Raises:
            Fenced: the member was removed.
        """

    @abstractmethod
    def give_back(self, others: Sequence[Self] = ()) -> None:
        """Withdraw the request, or release what was granted; the same for others of the line."""

    @abstractmethod
    def timed_out(self) -> TimedOut:
        """Return the error for a wait that was too long."""

    def explain(self) -> None:
        """Raise Denied if the member was removed from the team."""
        self._context.look_for_removal()

    def carry(self) -> None:
        """Let the commits of this context carry the fence of what was granted."""
        assert self._fence is not None, "it was granted"
        self._carried = carry_fence(self.backend, *self._fence)

    def drop(self) -> None:
        """Let the commits of this context carry it no longer."""
        if self._carried is not None:
            self._carried.drop()

    def grant(self, fence_name: str, token: int, renew: Callable[[], bool]) -> None:
        """Hold it from now on, and renew it."""
        self._fence = fence_name, token
        self.renewal = Renewal(self.backend, self.what, renew, self.ttl_seconds)

    def end(self) -> Renewal | None:
        """Hold it no longer; return its renewal if it was granted, and is to be released here."""
        self.is_over = True
        renewal, self.renewal = self.renewal, None
        return renewal if renewal is not None and renewal.close() else None


def wait_for(request: Request) -> None:
    """Wait in this thread until a request is granted.

    Raises:
        TimedOut: it was not, for as long as it wants to wait.
        Denied: the member was removed.
    """
    try:
        if not _is_granted_in_time(request):
            raise request.timed_out()
    except BaseException as error:
        with suppress(Error):  # it runs out
            request.give_back()
        if isinstance(error, Fenced):
            request.explain()
        raise


def _is_granted_in_time(request: Request) -> bool:
    longest = request.wait_seconds
    if request.look() or longest == 0:
        return request.is_granted
    deadline = None if longest is None else monotonic() + longest
    with _lines.join(request) as line:
        is_granted = line.look(request)  # it may have become free before
        while not is_granted:
            pause = line.pause_seconds()
            left = pause if deadline is None else min(pause, deadline - monotonic())
            if left <= 0:
                return False
            is_granted = line.wait(request, left)
        return True


class ThreadLine:
    """The threads of a process that wait for the same thing: one of them looks, for all (rule 2).

    So a change costs a process one look, however many of its threads wait.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.turn = Lock()  # of looks: who has left is not looked for any more
        self._changed = Condition()
        self._is_looking = False
        self._news: Subscription | None = None

    def listen(self, request: Request) -> None:
        """Subscribe to the news, unless another thread has."""
        with self._changed:
            if self._news is None:
                self._news = news_of(request.backend.store, request.news)

    def close(self) -> None:
        """End the subscription."""
        if self._news is not None:
            self._news.close()

    def pause_seconds(self) -> float:
        """Return how long to wait until the next look, if there is no news."""
        return min(request.pause_seconds() for request in [*self.requests])

    def look(self, request: Request) -> bool:
        """Look for all; return whether one request was granted."""
        with self.turn:
            others = [each for each in self.requests if each is not request]
            behind = [each for each in others if each.is_waiting]
            if request.failure is not None:
                raise request.failure
            return request.is_granted or request.look(behind)

    def wait(self, request: Request, seconds: float) -> bool:
        """Wait until there was another look; return whether a request was granted."""
        with self._changed:
            if self._is_looking:
                self._changed.wait(seconds)
                return request.is_granted
            self._is_looking, news = True, self._news
        try:
            if news is not None:
                news.wait(seconds)
            return self.look(request)
        finally:
            with self._changed:
                self._is_looking = False
                self._changed.notify_all()


class ThreadLines:
    """The lines of this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Leave all to the parent, in a forked child."""
        self._lock = Lock()
        self._by_repo: WeakKeyDictionary[Backend, dict[object, ThreadLine]] = WeakKeyDictionary()

    @contextmanager
    def join(self, request: Request) -> Iterator[ThreadLine]:
        """Let a request be in its line, with those of other threads."""
        with self._lock:
            lines = self._by_repo.setdefault(request.backend, {})
            line = lines.setdefault(request.line, ThreadLine())
            line.requests.append(request)
        try:
            line.listen(request)
            yield line
        finally:
            with line.turn, self._lock:
                line.requests.remove(request)
                is_last = not line.requests
                if is_last:
                    del lines[request.line]
            if is_last:
                line.close()


_lines = ThreadLines()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_lines.forget)


@dataclass(frozen=True, slots=True, eq=False)
class CarriedFence:
    """A fence that every commit of a context to a store has, until it is dropped."""

    backend: Backend
    name: str
    token: int

    def drop(self) -> None:
        """Carry it no longer; in whichever order several are dropped, the others stay."""
        _CARRIED.set(tuple(each for each in _CARRIED.get() if each is not self))


_CARRIED: ContextVar[tuple[CarriedFence, ...]] = ContextVar("otolith_fences", default=())


def carry_fence(backend: Backend, name: str, token: int) -> CarriedFence:
    """Let every commit of this context to a store have a fence, until it is dropped."""
    made = CarriedFence(backend, name, token)
    _CARRIED.set((*_CARRIED.get(), made))
    return made


def carry_in_commits(backend: Backend) -> None:
    """Let the commits of a repo have the fences of their context."""

    def fences() -> dict[str, int]:
        found: dict[str, int] = {}
        for each in _CARRIED.get():
            if each.backend is backend:  # of one name, the oldest token is the one to doubt
                found[each.name] = min(each.token, found.get(each.name, each.token))
        return found

    backend.fences = fences
