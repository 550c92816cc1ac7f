"""Asking a model within a time: nobody waits for one that hangs.

With a deadline the model is asked in a thread of its own, which is left behind when its time is up
and ends with the process. What it says is handed on in the thread that asked.
"""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any

from otolith.agent.conversation.message import Message
from otolith.agent.loop.calling import settled
from otolith.agent.loop.models.checking import checked
from otolith.agent.loop.models.model import Model, OnText, Reply, reply_of
from otolith.agent.loop.outcome import Ended
from otolith.agent.loop.tools import Tool
from otolith.errors import ModelFailed


class Stopped(BaseException):
    """Ends a step that is to end: somebody called `stop`, or its time is up; only loops see it."""

    def __init__(self, ended: Ended = "stopped", why: str = "") -> None:
        super().__init__(ended)
        self.ended: Ended = ended
        self.why = why


def asked(
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    on_text: OnText | None,
    deadline: float | None,
) -> Reply:
    """Return what a model answers, checked; `deadline` is a time of `time.monotonic`.

    Raises:
        Stopped: the time is up.
        BadReply: it is no answer.
    """

    def ask(tell: OnText | None) -> Reply:
        # The word of a protocol is not proof: a user's model may return anything, or a coroutine.
        try:
            return checked(reply_of(settled(model.complete(messages, tools=tools, on_text=tell))))
        except CancelledError as error:  # no Exception, so that nobody would record it
            raise ModelFailed("the model was cancelled", hint="run it again") from error

    if deadline is None:
        return ask(on_text)
    try:
        return _asked_aside(ask, on_text, deadline)
    except Stopped as stop:
        stop.why = getattr(model, "trouble", "")
        raise


def _asked_aside(
    ask: Callable[[OnText | None], Reply], on_text: OnText | None, deadline: float
) -> Reply:
    told: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    is_left = threading.Event()

    def tell(piece: str) -> None:
        if is_left.is_set():
            raise Stopped
        told.put(("text", piece))

    def work() -> None:
        try:
            told.put(("reply", ask(None if on_text is None else tell)))
        except BaseException as error:  # noqa: BLE001  # handed over to the thread that waits
            told.put(("error", error))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="otolith model", daemon=True).start()
    try:
        return _heard(told, on_text, deadline)
    finally:
        is_left.set()


def _heard(
    told: queue.SimpleQueue[tuple[str, Any]], on_text: OnText | None, deadline: float
) -> Reply:
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Stopped("seconds")
        try:
            kind, said = told.get(timeout=left)
        except queue.Empty:
            continue
        if kind == "error":
            raise said
        if kind == "reply":
            reply: Reply = said
            return reply
        assert on_text is not None
        on_text(said)
