"""How a plain object is mirrored: each verb of it as a coroutine that runs in a lane.

The threads that do the work of one repo, and the lanes that keep its calls in order.

Rule 1: a call runs in a thread. The event loop waits for no disk, no lock and no encoding.
Rule 2: calls on one state run one at a time, in the order in which they were made: its lane.
Rule 3: lanes run side by side, so that sessions which commit at the same time share one write.
Rule 4: a call that has not begun can be cancelled, and then never begins. One that has begun is
        finished first, and the caller is told that it was cancelled when that is known.

Without rule 4 a caller could not tell whether its commit landed, and the next call would meet a
state that a thread is still at work on.

What is being opened: wait for it with `await`, or open and close it with `async with`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial, wraps
from time import monotonic
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from otolith.errors import Closed, Error, Invalid

R = TypeVar("R")

_MOST_THREADS = 8
"""With four or more, commits meet in one write; with 32, the event loop waits longer for its turn
at the interpreter and nothing is gained. Both were measured, with 100 sessions on two cores."""


class Threads:
    """The threads of one repo. They start when they are needed, and belong to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="otolith")
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._is_closed = self._is_over = False
        self._closing = asyncio.Lock()

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call, so that closing waits for it.

        Raises:
            Closed: the repo was closed.
            Invalid: this is not the event loop that the repo was opened in.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise Invalid(
                "this was opened in another event loop",
                hint="open the store in this one as well; several may have it open",
            )
        if self._is_closed:
            raise Closed("this repo was closed", hint="open it again")
        self._calls += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()

    async def do(self, work: Callable[[], R]) -> R:
        """Do something in a thread, with the context variables of the caller."""
        return await _finished(self._pool.submit(copy_context().run, work))

    async def close(self, last: Callable[[], None]) -> None:
        """Take no more calls, wait for those that were made, and do one last thing, once."""
        self._is_closed = True
        await self._quiet.wait()
        async with self._closing:
            if not self._is_over:
                self._is_over = True
                job = self._pool.submit(last)
                self._pool.shutdown(wait=False)
                await _finished(job, must_begin=True)


class Lane:
    """Calls that wait for one another."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], R]) -> R:
        """Do something in a thread, once all that was asked for earlier is done."""
        with self.threads.call():
            async with self._turn:
                return await self.threads.do(work)


async def _finished(job: Future[R], *, must_begin: bool = False) -> R:
    """Return what a job comes to, or raise what it raises; be cancelled only when it is over."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    job.add_done_callback(lambda _: loop.call_soon_threadsafe(over.set))
    cancelled: asyncio.CancelledError | None = None
    while not over.is_set():
        try:
            await over.wait()
        except asyncio.CancelledError as error:
            if not must_begin and job.cancel():
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled from job.exception()
    return job.result()


S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
P = ParamSpec("P")

_PATIENCE_SECONDS = 0.002
"""How long a thread goes on reading ahead for a loop over many things."""


class Mirror(Generic[S_co]):
    """Something whose verbs are awaited. `reach` gives the plain thing, inside a thread."""

    def __init__(self, reach: Callable[[], S_co], lane: Lane) -> None:
        self._reach = reach
        self._lane = lane

    async def run(
        self, function: Callable[Concatenate[S_co, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call a function with the plain object, in a thread, with no other call in between."""
        return await self._lane.run(lambda: function(self._reach(), *args, **kwargs))

    async def _walk(self, begin: Callable[[S_co], Iterator[R]]) -> AsyncIterator[R]:
        """Yield what an iterator yields; it is run in the thread, and a little ahead."""
        iterator = await self.run(begin)
        end: Exception | None = None
        while end is None:
            found, end = await self._lane.run(lambda: _some(iterator))
            for each in found:
                yield each
        if isinstance(end, Error):
            raise end


class Owner:
    """What a mirror of something with a store has: it is closed when the calls on it are done."""

    plain: Any
    _lane: Lane

    async def close(self) -> None:
        """Wait for the calls that were made, and close the store."""
        await self._lane.threads.close(self.plain.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def awaited(
    verb: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[Mirror[S], P], Coroutine[Any, Any, R]]:
    """Return a verb as a coroutine with the same signature."""

    @wraps(verb)
    async def run(self: Mirror[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def call(plain: S) -> R:
            own: Callable[P, R] = getattr(plain, verb.__name__)  # a subclass may have its own
            return own(*args, **kwargs)

        return await self.run(call)

    return run


def _some(iterator: Iterator[R]) -> tuple[list[R], Exception | None]:
    """Return at least one thing, and all that can be had in a moment; and how it ended, if so."""
    found: list[R] = []
    until = monotonic() + _PATIENCE_SECONDS
    while not found or monotonic() < until:
        try:
            found.append(next(iterator))
        except (StopIteration, Error) as end:
            return found, end
    return found, None


class Plain(Protocol):
    """Something that is closed when it is done with."""

    def close(self) -> None: ...


class Awaitable(Protocol):
    """Its mirror."""

    async def close(self) -> None: ...


PlainT = TypeVar("PlainT", bound=Plain)
M = TypeVar("M", bound=Awaitable)


class Opening(Generic[M]):
    """A repo or state that is opened once it is awaited or entered, in a thread of its own."""

    def __init__(self, make: Callable[[], PlainT], mirror: Callable[[PlainT, Threads], M]) -> None:
        async def start() -> M:
            threads, made = Threads(), list[PlainT]()
            try:
                await threads.do(lambda: made.append(make()))
                return mirror(made[0], threads)
            except BaseException:  # cancelled, too: nobody else could close it
                await threads.close(made[0].close if made else _nothing)
                raise

        self._start = start
        self._opened: M | None = None

    def __await__(self) -> Generator[Any, None, M]:
        return self._start().__await__()

    async def __aenter__(self) -> M:
        self._opened = await self
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def opening(
    make: Callable[P, PlainT], mirror: Callable[[PlainT, Threads], M]
) -> Callable[P, Opening[M]]:
    """Return a function that opens, with the signature of the plain one."""

    @wraps(make)
    def begin(*args: P.args, **kwargs: P.kwargs) -> Opening[M]:
        return Opening(partial(make, *args, **kwargs), mirror)

    return begin


def _nothing() -> None:
    """There is nothing to close."""
