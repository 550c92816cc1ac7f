"""Time limits and retries for calls of user code: tools, models, questions about effects.

Python cannot stop a function that blocks. When its time is up the caller stops waiting, and the
function runs on in a daemon thread that ends with the process; a `LateEnd` gets to know how it ends
after all. A coroutine is cancelled; it runs in an event loop and a thread that are made for it,
because the caller may be inside a loop already.

Two attempts never overlap: before another one, the caller waits for the last to end, once more as
long as its time limit. If it ends, its result counts; if not, there is no other attempt.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from otolith.errors import TimedOut

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
T = TypeVar("T")


class DeadlinePassed(BaseException):
    """Ends the wait for a thread. No Exception, so that user code does not catch it by accident."""


class LateEnd(Protocol):
    """Gets to know about a call whose caller has stopped waiting."""

    def abandoned(self) -> None:
        """Is called when the caller stops waiting, before `ended`."""

    def ended(self, result: Any, error: BaseException | None) -> None:
        """Is called when the call ends after that, usually in its thread."""


def call_with_retries(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    timeout_seconds: float | None = None,
    retries: int = 0,
    sleep: Callable[[float], None] = time.sleep,
    late: LateEnd | None = None,
) -> Any:
    """Call a function, await its result if needed, and call it again after an exception.

    `retries` is the number of further attempts; the pauses between them grow.

    Raises:
        TimedOut: the last attempt took longer than `timeout_seconds`, or an earlier one still runs.
    """
    pause = _FIRST_PAUSE_SECONDS
    for left in reversed(range(retries + 1)):
        try:
            return _call(function, arguments, timeout_seconds, waits_twice=left > 0, late=late)
        except Exception as error:
            is_running = isinstance(error.__cause__, DeadlinePassed)
            if not left or is_running:
                raise
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    raise AssertionError("the last attempt returns or raises")


def await_if_needed(result: Any) -> Any:
    """Return the result of an awaitable, and any other value unchanged."""
    return _call(lambda: result, {}, None) if inspect.isawaitable(result) else result


class ThreadCall(Generic[T]):
    """A call in a daemon thread, for which its caller may stop waiting.

    `work` gets a function that sends a piece of text back to the caller. Once the caller has
    stopped waiting, that function raises.
    """

    def __init__(self, work: Callable[[Callable[[str], None]], T], name: str) -> None:
        self._work = work
        self._replies: SimpleQueue[str | _End] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_abandoned = self._is_taken = False
        self._end: _End | None = None
        self._late: LateEnd | None = None
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(self._run,), name=f"otolith {name}", daemon=True
        ).start()

    def result(self, seconds: float | None, on_text: Callable[[str], None] | None = None) -> T:
        """Return the result, or raise what the call raised; pieces of text go to `on_text`.

        Raises:
            DeadlinePassed: it has not ended within `seconds`; `result` may be called again.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise DeadlinePassed
            try:
                reply = self._replies.get(timeout=left)
            except Empty:
                raise DeadlinePassed from None
            if isinstance(reply, _End):
                self._is_taken = True
                if reply.error is not None:
                    raise reply.error
                result: T = reply.result
                return result
            if on_text is not None:
                on_text(reply)

    def abandon(self, late: LateEnd | None = None) -> None:
        """Stop waiting; `late` gets to know the end, unless `result` returned or raised it."""
        with self._lock:
            self._is_abandoned = True
            if self._is_taken or late is None:
                return
            late.abandoned()
            if self._end is None:
                self._late = late
                return
        late.ended(self._end.result, self._end.error)

    def _run(self) -> None:
        try:
            end = _End(self._work(self._send_text), None)
        except BaseException as error:  # noqa: BLE001  # raised in the thread that waits
            end = _End(None, error)
        with self._lock:
            self._end, late = end, self._late
        self._replies.put(end)
        if late is not None:
            late.ended(end.result, end.error)

    def _send_text(self, piece: str) -> None:
        if self._is_abandoned:
            raise DeadlinePassed
        self._replies.put(piece)


@dataclass(frozen=True, slots=True)
class _End:
    """How a call in a thread ended."""

    result: Any
    error: BaseException | None


def run_in_thread(
    work: Callable[[Callable[[str], None]], T],
    *,
    name: str,
    seconds: float | None,
    on_text: Callable[[str], None] | None = None,
) -> T:
    """Run `work` as a `ThreadCall` and return its result, or raise what it raised.

    Raises:
        DeadlinePassed: there was no result within `seconds`.
    """
    call = ThreadCall(work, name)
    try:
        return call.result(seconds, on_text)
    finally:
        call.abandon()


def _call(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    seconds: float | None,
    *,
    waits_twice: bool = False,
    late: LateEnd | None = None,
) -> Any:
    if seconds is None and not inspect.iscoroutinefunction(function):
        result = function(**arguments)
        if not inspect.isawaitable(result):
            return result
        function, arguments = (lambda: result), {}
    name = getattr(function, "__name__", "tool")

    def work(_: object) -> Any:
        result = function(**arguments)
        return asyncio.run(_await(result, name, seconds)) if inspect.isawaitable(result) else result

    call = ThreadCall(work, name)
    try:
        try:
            return call.result(seconds)
        except DeadlinePassed:
            if not waits_twice:
                raise
            return call.result(seconds)
    except DeadlinePassed as deadline:
        raise _timed_out(name, seconds) from deadline
    finally:
        call.abandon(late)


async def _await(result: Any, name: str, seconds: float | None) -> Any:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await result
    except TimeoutError as error:
        if limit.expired():  # otherwise the coroutine itself raised it
            raise _timed_out(name, seconds) from error
        raise


def _timed_out(name: str, seconds: float | None) -> TimedOut:
    return TimedOut(
        f"{name} took longer than {seconds or 0:g} s", hint="give it more time, or less to do"
    )
