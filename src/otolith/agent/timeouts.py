"""Calling a function within a time, more than once if it may fail.

Python cannot stop a function that blocks: after the time-out nobody waits for it any more, and it
runs on by itself in a thread that ends with the process. A coroutine is cancelled.

A coroutine runs in a loop of its own, in a thread of its own: whoever calls may be in a loop too.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from otolith.errors import TimedOut

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0


def call_with_retries(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    timeout_seconds: float | None = None,
    retries: int = 0,
    sleep: Callable[[float], None] = time.sleep,
) -> Any:
    """Return what a function returns, or awaits; one that raises is called again `retries` times.

    Raises:
        TimedOut: it did not return in its time.
    """
    pause = _FIRST_PAUSE_SECONDS
    for _ in range(retries):
        try:
            return _once(function, arguments, timeout_seconds)
        except Exception:  # noqa: BLE001  # whatever a user's function raises
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    return _once(function, arguments, timeout_seconds)


def _once(
    function: Callable[..., Any], arguments: Mapping[str, Any], timeout_seconds: float | None
) -> Any:
    if timeout_seconds is None and not inspect.iscoroutinefunction(function):
        return await_if_needed(function(**arguments))
    return _in_a_thread(function, arguments, timeout_seconds)


def await_if_needed(result: Any) -> Any:
    """Return what an awaitable comes to; anything else as it is."""
    if not inspect.isawaitable(result):
        return result
    return _in_a_thread(lambda: result, {}, None)


def _in_a_thread(
    function: Callable[..., Any], arguments: Mapping[str, Any], timeout_seconds: float | None
) -> Any:
    ended: list[tuple[bool, Any]] = []
    name = getattr(function, "__name__", "tool")

    def work() -> None:
        try:
            result = function(**arguments)
            if inspect.isawaitable(result):
                result = _awaited(result, name, timeout_seconds)
            ended.append((True, result))
        except BaseException as error:  # noqa: BLE001  # handed over to the thread that waits
            ended.append((False, error))

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name=f"otolith {name}", daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    if not ended:
        raise _too_long(name, timeout_seconds)
    is_ok, result = ended[0]
    if is_ok:
        return result
    raise result


def _too_long(name: str, seconds: float | None) -> TimedOut:
    return TimedOut(
        f"{name} took longer than {seconds or 0:g} s", hint="give it more time, or less to do"
    )


def _awaited(result: Any, name: str, seconds: float | None) -> Any:
    async def wait() -> Any:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await result
        except TimeoutError as error:
            if limit.expired():  # and not a TimeoutError of its own
                raise _too_long(name, seconds) from error
            raise

    return asyncio.run(wait())
