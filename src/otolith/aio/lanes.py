"""Threads and lanes: where the blocking calls of one repo run, and in which order.

Rule 1: a call runs in a thread. The event loop waits for no disk, no lock and no encoding.
        Where the store can wait for its server without a thread, all calls share one, and as many
        are under way as the store has connections (`otolith/greenlets.py`).
Rule 2: calls on one state run one at a time, in the order in which they were made: its lane.
Rule 3: lanes run side by side, so that sessions which commit at the same time share one write.
Rule 4: a call that has not started can be cancelled, and then never starts. One that has started
        is finished first, and only then the caller gets its CancelledError.
Rule 5: calls that can take minutes (steps of code) have a thread of their own, so that they keep no
        thread from others, and a way to be stopped, so that they can be cancelled. The thread
        lives as long as the processes that it started: Linux ends those with it.
Rule 6: what may have to be waited for (leases, slots, changes) is waited for without any thread
        (`waits.py`).

Without rule 4 a caller could not know whether its commit landed, and the next call would meet a
state that a thread is still changing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial, wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from otolith.aio.waits import Waits
from otolith.errors import Closed, Invalid
from otolith.greenlets import GreenletPool
from otolith.stores import Store

P = ParamSpec("P")
R = TypeVar("R")

_MOST_THREADS = 8
"""With four or more, commits meet in one write; with 32, the event loop waits longer for its turn
at the interpreter and nothing is gained. Both were measured, with 100 sessions on two cores."""


class Threads:
    """The threads of one repo. They start on demand, and belong to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="otolith")
        self._greenlets: GreenletPool | None = None
        self._waits: Waits | None = None
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._is_closed = self._is_over = False
        self._closing = asyncio.Lock()

    @property
    def are_shared(self) -> bool:
        """Whether all calls run in one thread, in which locks keep nobody out."""
        return self._greenlets is not None

    @property
    def waits(self) -> Waits:
        """How tasks wait for what is not there yet."""
        assert self._waits is not None, "the store is open"
        return self._waits

    def serve(self, store: Store) -> None:
        """Run the calls of a store; all in one thread, if it waits for none of them there."""
        self._waits = Waits(self, store, self._loop)
        if store.capabilities.awaits:
            self._greenlets = GreenletPool()

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

    async def do(self, work: Callable[[], R], *, calls_out: bool = False) -> R:
        """Run a function in a thread, with the context variables of the caller.

        One that `calls_out`, to code of the user that may block, has the thread for itself.
        """
        pool = self._pool if self._greenlets is None or calls_out else self._greenlets
        return await _finished(pool.submit(copy_context().run, work))

    async def finish(self, work: Callable[[], R]) -> R:
        """Run a function in a thread to its end, whatever happens to the caller."""
        return await _finished(self._pool.submit(copy_context().run, work), must_begin=True)

    async def close(self, last: Callable[[], object]) -> None:
        """Refuse further calls, wait for those in progress, and run one last function, once."""
        self._is_closed = True
        if self._waits is not None:
            self._waits.news.close()
        await self._quiet.wait()
        async with self._closing:
            if not self._is_over:
                self._is_over = True
                job = self._pool.submit(self._end, last)
                self._pool.shutdown(wait=False)
                if self._greenlets is not None:
                    self._greenlets.shutdown(wait=False)
                await _finished(job, must_begin=True)

    def _end(self, last: Callable[[], object]) -> None:
        if self._waits is not None:
            self._waits.news.stop()
        last()


class Lane:
    """A queue of calls that run one after the other."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.turn = asyncio.Lock()

    async def run(
        self, work: Callable[[], R], *, calls_out: bool = False, beside: Lane | None = None
    ) -> R:
        """Run a function in a thread, after all earlier calls of this lane, and of another one."""
        with self.threads.call():
            async with self.turn:
                if beside is None or beside is self:
                    return await self.threads.do(work, calls_out=calls_out)
                async with beside.turn:
                    return await self.threads.do(work, calls_out=calls_out)

    async def run_in(self, thread: Executor, work: Callable[[], R], stop: Callable[[], Any]) -> R:
        """Run a function that may take long, after all earlier calls of this lane (rule 5)."""
        with self.threads.call():
            async with self.turn:
                return await _finished(thread.submit(copy_context().run, work), stop=stop)


_STOP_AGAIN_SECONDS = 0.05
"""How soon a call is stopped again: one that was just begun may have nothing to stop yet."""


async def _finished(
    job: Future[R], *, must_begin: bool = False, stop: Callable[[], object] | None = None
) -> R:
    """Return the result of a job or raise its error; be cancelled only when it is over."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    job.add_done_callback(lambda _: loop.call_soon_threadsafe(over.set))
    cancelled: asyncio.CancelledError | None = None
    while not over.is_set():
        try:
            async with asyncio.timeout(_STOP_AGAIN_SECONDS if stop and cancelled else None):
                await over.wait()
        except TimeoutError:
            assert stop is not None
            stop()
        except asyncio.CancelledError as error:
            if not must_begin and job.cancel():
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled from job.exception()
    return job.result()


class Closable(Protocol):
    """A repo or a state of a repo: it has a store to close."""

    def close(self) -> None:
        """Close the store."""


C = TypeVar("C", bound=Closable)
M = TypeVar("M")


class Opener(Generic[C, M]):
    """Opens a repo or state in a thread: `await` it, or enter it with `async with`."""

    def __init__(self, open: Callable[[], C], mirror: Callable[[C, Threads], M]) -> None:
        self._open = open
        self._mirror = mirror
        self._opened: tuple[C, Threads] | None = None

    async def _start(self) -> M:
        threads, opened = Threads(), list[C]()
        try:
            await threads.do(lambda: opened.append(self._open()))
            self._opened = opened[0], threads
            repo: Any = getattr(opened[0], "repo", opened[0])
            threads.serve(repo.store)
            return self._mirror(*self._opened)
        except BaseException:  # cancelled, too: the caller has nothing that it could close
            await threads.close(lambda: [each.close() for each in opened])
            raise

    def __await__(self) -> Generator[Any, None, M]:
        return self._start().__await__()

    async def __aenter__(self) -> M:
        return await self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            plain, threads = self._opened
            await threads.close(plain.close)


def opener(open: Callable[P, C], mirror: Callable[[C, Threads], M]) -> Callable[P, Opener[C, M]]:
    """Return a function that makes openers, with the signature of the plain function."""

    @wraps(open)
    def make(*args: P.args, **kwargs: P.kwargs) -> Opener[C, M]:
        return Opener(partial(open, *args, **kwargs), mirror)

    return make
