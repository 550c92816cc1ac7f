"""Plain functions that wait for a server without holding a thread.

    pool.submit(function)      run a plain function in a greenlet of the pool's one thread
    is_inside()                whether this code runs in such a greenlet
    wait_for(awaitable)        inside: let the others continue until the awaitable is done
    call(function)             inside: the same, for a function that blocks
    pause(seconds)             inside or not: wait for some time
    wait_until_done(future)    inside or not: wait for a future, for some time

A store that can wait in two ways asks `is_inside` first: the same code then serves programs with
threads, and thousands of sessions of an event loop. The functions of one pool run in one thread,
and change places only in `wait_for`: a lock of that thread keeps none of them out. So whoever
submits work must not have two functions at work on one object; the lanes of `otolith.aio` see to
that.

What only a pool needs is imported in it: asyncio takes longer to load than a store.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import TIMEOUT_MAX, Thread
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar

from otolith.errors import MissingExtra

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

    from greenlet import greenlet

R = TypeVar("R")

_inside: set[int] = set()  # the ids of greenlets that a pool has begun


def is_inside() -> bool:
    """Tell whether this code runs in a greenlet that may wait."""
    module = sys.modules.get("greenlet")
    return bool(_inside) and module is not None and id(module.getcurrent()) in _inside


def wait_for(awaitable: Awaitable[R]) -> R:
    """Return the result of an awaitable; other functions of the pool continue meanwhile."""
    import greenlet

    parent = greenlet.getcurrent().parent
    assert parent is not None, "call it where is_inside() is true"
    result: R = parent.switch(awaitable)
    return result


def call(function: Callable[[], R]) -> R:
    """Return what a function returns; inside it may block, for it runs in a thread."""
    if not is_inside():
        return function()
    import asyncio

    return wait_for(asyncio.to_thread(function))


def pause(seconds: float) -> None:
    """Wait for some time; inside, other functions of the pool continue meanwhile."""
    if is_inside():
        import asyncio

        wait_for(asyncio.sleep(seconds))
    else:
        sleep(seconds)


def wait_until_done(future: Future[Any], seconds: float) -> None:
    """Wait until a future is done, or its time is over."""
    if is_inside():
        import asyncio

        wait_for(asyncio.wait([asyncio.wrap_future(future)], timeout=seconds))
    else:
        with suppress(TimeoutError):
            future.exception(min(seconds, TIMEOUT_MAX))


class GreenletPool:
    """One thread with an event loop, in which plain functions run side by side.

    It is used like a `ThreadPoolExecutor`: `submit` and `shutdown`.
    """

    def __init__(self) -> None:
        try:
            from greenlet import greenlet
        except ImportError:
            raise MissingExtra(
                "awaiting a server needs greenlet", hint="pip install 'otolith[postgres]'"
            ) from None
        import asyncio

        self._greenlet: type[greenlet] = greenlet
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = False
        self._thread = Thread(target=self._serve, name="otolith-greenlets", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., R], *arguments: Any) -> Future[R]:
        """Run a function; one that has not begun can be cancelled."""
        from concurrent.futures import Future

        job: Future[R] = Future()
        self._loop.call_soon_threadsafe(self._begin, job, partial(function, *arguments))
        return job

    def shutdown(self, *, wait: bool = True) -> None:
        """End the thread once everything that was submitted is done."""
        self._loop.call_soon_threadsafe(self._end)
        if wait:
            self._thread.join()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _begin(self, job: Future[R], work: Callable[[], R]) -> None:
        if job.set_running_or_notify_cancel():
            task = self._loop.create_task(self._run(job, work))
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._is_ending and not self._tasks:
            self._loop.stop()

    def _end(self) -> None:
        self._is_ending = True
        if not self._tasks:
            self._loop.stop()

    async def _run(self, job: Future[R], work: Callable[[], R]) -> None:
        child = self._greenlet(work)
        child.gr_context = copy_context()
        _inside.add(id(child))
        try:
            answer: Any = child.switch()
            while not child.dead:
                try:
                    found = await answer
                except BaseException as error:  # noqa: BLE001 - it is for the function to handle
                    answer = child.throw(error)
                else:
                    answer = child.switch(found)
        except BaseException as error:  # noqa: BLE001 - it is raised where the job is awaited
            job.set_exception(error)
        else:
            job.set_result(answer)
        finally:
            _inside.discard(id(child))
