"""The threads that do the work of one repo, and the lanes that keep its calls in order.

Rule 1: a call runs in a thread. The event loop waits for no disk, no lock and no encoding.
Rule 2: calls on one state run one at a time, in the order in which they were made: its lane.
Rule 3: lanes run side by side, so that sessions which commit at the same time share one write.
Rule 4: a call that has not begun can be cancelled, and then never begins. One that has begun is
        finished first, and the caller is told that it was cancelled when that is known.

Without rule 4 a caller could not tell whether its commit landed, and the next call would meet a
state that a thread is still at work on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

from otolith.errors import Closed, Invalid

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
