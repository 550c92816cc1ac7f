"""Time limits and retries for calls of user code: tools, models, questions about effects.

Python cannot stop a function that blocks. When its time is up the caller stops waiting, and the
function runs on in a daemon thread that ends with the process. A coroutine is cancelled; it runs in
an event loop and a thread that are made for it, because the caller may be inside a loop already.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from otolith.errors import TimedOut

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
T = TypeVar("T")


class DeadlinePassed(BaseException):
    """Ends the wait for a thread. No Exception, so that user code does not catch it by accident."""


def call_with_retries(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    timeout_seconds: float | None = None,
    retries: int = 0,
    sleep: Callable[[float], None] = time.sleep,
) -> Any:
    """Call a function, await its result if needed, and call it again after an exception.

    `retries` is the number of further attempts; the pauses between them grow.

    Raises:
        TimedOut: the last attempt took longer than `timeout_seconds`.
    """
    pause = _FIRST_PAUSE_SECONDS
    for _ in range(retries):
        try:
            return _call(function, arguments, timeout_seconds)
        except Exception:  # noqa: BLE001  # a user's function may raise anything
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    return _call(function, arguments, timeout_seconds)


def await_if_needed(result: Any) -> Any:
    """Return the result of an awaitable, and any other value unchanged."""
    return _call(lambda: result, {}, None) if inspect.isawaitable(result) else result


def run_in_thread(
    work: Callable[[Callable[[str], None]], T],
    *,
    name: str,
    seconds: float | None,
    on_text: Callable[[str], None] | None = None,
) -> T:
    """Run `work` in a daemon thread and return its result, or raise what it raised.

    `work` gets a function that sends a piece of text back: `on_text` is called with it in the
    thread of the caller. Once the caller has stopped waiting, that function raises.

    Raises:
        DeadlinePassed: there was no result within `seconds`.
    """
    replies: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    is_abandoned = threading.Event()

    def send_text(piece: str) -> None:
        if is_abandoned.is_set():
            raise DeadlinePassed
        replies.put(("text", piece))

    def run() -> None:
        try:
            replies.put(("result", work(send_text)))
        except BaseException as error:  # noqa: BLE001  # raised in the thread that waits
            replies.put(("error", error))

    deadline = None if seconds is None else time.monotonic() + seconds
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name=f"otolith {name}", daemon=True).start()
    try:
        while True:
            kind, value = _next_reply(replies, deadline)
            if kind == "error":
                raise value
            if kind == "result":
                result: T = value
                return result
            if on_text is not None:
                on_text(value)
    finally:
        is_abandoned.set()


def _next_reply(replies: SimpleQueue[tuple[str, Any]], deadline: float | None) -> tuple[str, Any]:
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        raise DeadlinePassed
    try:
        return replies.get(timeout=left)
    except Empty:
        raise DeadlinePassed from None


def _call(function: Callable[..., Any], arguments: Mapping[str, Any], seconds: float | None) -> Any:
    if seconds is None and not inspect.iscoroutinefunction(function):
        result = function(**arguments)
        if not inspect.isawaitable(result):
            return result
        function, arguments = (lambda: result), {}
    name = getattr(function, "__name__", "tool")

    def work(_: object) -> Any:
        result = function(**arguments)
        return asyncio.run(_await(result, name, seconds)) if inspect.isawaitable(result) else result

    try:
        return run_in_thread(work, name=name, seconds=seconds)
    except DeadlinePassed:
        raise _timed_out(name, seconds) from None


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
