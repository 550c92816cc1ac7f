"""Waiting for leases, slots and changes: any number of tasks, and one thread for all of a repo.

    RepoNews    a thread that waits for the news of the store, and rings the bells of tasks
    Line        the tasks that wait for the same thing
    Waits       the lines of one repo, and how a task waits in them

Rules
1. A task that waits has no thread and no lane. What it has to look at is read in short calls, when
   refs have moved, and after a pause.
2. The first in a line looks, for those behind it as well: two hundred tasks that wait for one lease
   or queue cost the store as much as one. When it leaves, the next one is the first.
3. Who leaves, however it comes, has given back what it asked for before its caller hears of it. A
   look and a giving back of one line exclude each other, so nothing is entered again afterwards.
4. When the thread begins to listen all tasks look once more, for what has moved before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from copy import copy
from functools import partial
from threading import Lock, Thread
from typing import Any, Protocol, TypeVar

from otolith.errors import Closed, Error, Fenced
from otolith.stores import Store, Subscription, news_of
from otolith.teams import Request

R = TypeVar("R")

_LINGER_SECONDS = 5.0
"""How long the thread stays when nobody waits: the next wait may begin soon."""


class Bell:
    """Wakes one task."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._failure: Error | None = None

    def ring(self, failure: Error | None = None) -> None:
        """Wake the task, or let it raise an error."""
        self._failure = self._failure or failure
        self._rung.set()

    async def wait(self, seconds: float | None) -> None:
        """Wait until it rings, or for some time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        self._rung.clear()
        if self._failure is not None:
            raise copy(self._failure)  # several tasks may raise it


class RepoNews:
    """Rings bells when refs move; its thread runs while there are bells, and a little longer."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._lock = Lock()
        self._bells: dict[Bell, str] = {}
        self._subscription: Subscription | None = None
        self._thread: Thread | None = None
        self._is_listening = self._is_closed = False

    @contextmanager
    def rings(self, bell: Bell, prefix: str) -> Iterator[None]:
        """Let a bell ring, inside of the block, when a ref moves whose name starts so."""
        with self._lock:
            if self._is_closed:
                raise _closed()
            self._bells[bell] = prefix
            if not self._is_listening:
                self._is_listening = True
                self._thread = Thread(target=self._listen, name="otolith-news", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._bells[bell]

    def close(self) -> None:
        """End all waits; `stop` ends the thread."""
        with self._lock:
            self._is_closed = True
        self._ring_all(_closed())

    def stop(self) -> None:
        """End the thread, and wait until it is over."""
        subscription, thread = self._subscription, self._thread
        if subscription is not None:
            subscription.close()
        if thread is not None:
            thread.join()

    def _ring(self, names: set[str]) -> None:
        for bell, prefix in self._bells.items():
            if any(name.startswith(prefix) for name in names):
                bell.ring()

    def _ring_all(self, failure: Error | None = None) -> None:
        for bell in self._bells:
            bell.ring(failure)

    # In the thread

    def _listen(self) -> None:
        try:
            with closing(news_of(self._store)) as self._subscription:
                self._call(self._ring_all)
                while self._is_wanted():
                    names = self._subscription.wait(_LINGER_SECONDS)
                    self._call(partial(self._ring, names))
        except Error as error:
            with self._lock:
                self._is_listening = False
            self._call(partial(self._ring_all, error))

    def _is_wanted(self) -> bool:
        """Tell whether to go on; who needs news after this starts another thread."""
        with self._lock:
            is_wanted = bool(self._bells) and not self._is_closed
            self._is_listening = is_wanted
            return is_wanted

    def _call(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function)


def _closed() -> Closed:
    return Closed("this repo was closed", hint="open it again")


class Calls(Protocol):
    """How to run functions in the threads of a repo."""

    def call(self) -> AbstractContextManager[None]:
        """Count a call, so that closing waits for it."""

    async def do(self, work: Callable[[], R], *, calls_out: bool = False) -> R:
        """Run a function in a thread."""

    async def finish(self, work: Callable[[], R]) -> R:
        """Run a function in a thread to its end, whatever happens to the caller."""


class _Place:
    """The place of a task in a line."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.bell = Bell()


class Line:
    """Tasks that wait for the same thing; what runs in threads, runs one at a time."""

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.left: list[Request] = []  # by those who have left, to be given back
        self._lock = Lock()

    def look(self) -> bool:
        """Look for all; return whether the first one was granted what it asked for."""
        with self._lock:
            first, *others = [place.request for place in [*self.places]]
            return first.is_granted or first.look([each for each in others if each.is_waiting])

    def give_back(self) -> None:
        """Give back what those who have left had asked for; what cannot be given back runs out."""
        with self._lock:
            left, self.left = self.left, []
            if left:
                with suppress(Error):
                    left[0].give_back(left[1:])

    def ring(self, failure: Error | None = None) -> None:
        """Wake those whose wait is over, or let all raise an error."""
        for place in self.places:
            if failure is not None or not place.request.is_waiting:
                place.bell.ring(failure)

    def leave(self, place: _Place) -> None:
        """Leave the line; the next one may be the first now."""
        self.places.remove(place)
        if self.places:
            self.places[0].bell.ring()

    def pause_seconds(self) -> float:
        """Return how long to wait until the next look, if there is no news."""
        return min(place.request.pause_seconds() for place in self.places)


class Waits:
    """The waits of the tasks of one repo."""

    def __init__(self, calls: Calls, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.news = RepoNews(store, loop)
        self._calls = calls
        self._time = loop.time
        self._lines: dict[object, Line] = {}

    async def wait_for(self, request: Request) -> None:
        """Wait until a request is granted; however this ends otherwise, nothing is held.

        Raises:
            TimedOut: it was not, for as long as it wants to wait.
            Closed: the repo was closed meanwhile.
        """
        with self._calls.call():
            line = self._line(request)
            place = _Place(request)
            line.places.append(place)
            line.places[0].bell.ring()  # it looks for those who have come, too
            try:
                is_granted = await self._is_granted_in_time(line, place)
                if not is_granted:
                    raise await self._calls.do(request.timed_out, calls_out=True)
            except BaseException:
                self._leave(line, place)
                line.left.append(request)
                await self._calls.finish(line.give_back)
                raise
            self._leave(line, place)

    def _line(self, request: Request) -> Line:
        """Return the line for a request; who does not want to wait is alone in its own."""
        alone = request.wait_seconds == 0
        return Line() if alone else self._lines.setdefault(request.line, Line())

    def _leave(self, line: Line, place: _Place) -> None:
        line.leave(place)
        if not line.places and self._lines.get(place.request.line) is line:
            del self._lines[place.request.line]

    async def _is_granted_in_time(self, line: Line, place: _Place) -> bool:
        deadline = self.deadline(place.request.wait_seconds)
        while line.places[0] is not place and place.request.is_waiting:
            left = None if deadline is None else deadline - self._time()
            if left is not None and left <= 0:
                return False
            await place.bell.wait(left)
        if place.request.failure is not None:
            raise place.request.failure
        if place.request.is_granted:
            return True
        look, news, pause = partial(self._look, line), place.request.news, line.pause_seconds
        try:
            return await self.until(look, place.bell, news, pause=pause, deadline=deadline)
        except Fenced:
            raise  # its member was removed, and not those of the others
        except Error as error:
            line.ring(error)
            raise

    async def _look(self, line: Line) -> bool:
        is_granted = await self._calls.do(line.look, calls_out=True)
        line.ring()
        return is_granted

    def deadline(self, seconds: float | None) -> float | None:
        """Return when a wait is too long, by the time of the loop."""
        return None if seconds is None else self._time() + seconds

    async def until(
        self,
        look: Callable[[], Coroutine[Any, Any, bool]],
        bell: Bell,
        prefix: str,
        *,
        pause: Callable[[], float],
        deadline: float | None,
    ) -> bool:
        """Look, and again whenever there is news, until there is something or time is over."""
        if await look():
            return True
        if deadline is not None and deadline <= self._time():
            return False
        with self.news.rings(bell, prefix):
            while not await look():
                left = pause() if deadline is None else min(pause(), deadline - self._time())
                if left <= 0:
                    return False
                await bell.wait(left)
        return True
