"""Hands: calls tools for a step, each at most as often as its effects allow.

See `ledger.py` for what is committed when. For a tool with effects:

    no entry             what is intended is committed, then the tool is called
    ended                it is not called: what came of it then is what comes of it now
    begun, asks=         the tool is asked; if it did not happen, it is called
    begun, idempotent    it is called again, with the same key
    begun, once          EffectUnknown: `settle` decides
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from otolith.agent.conversation.message import ToolCall
from otolith.agent.lifecycle.values import thaw
from otolith.agent.loop.calling import called
from otolith.agent.loop.ledger import Entry
from otolith.agent.loop.record import Base
from otolith.agent.loop.signature import plain
from otolith.agent.loop.tools import KEY, Tool, Toolbox
from otolith.agent.loop.working import Observation
from otolith.errors import BadValue, EffectUnknown, Error, KeyNotFound, TimedOut

_MOST_LETTERS = 4000


class Booking(Protocol):
    """Where effects are written down."""

    name: str

    def now(self) -> int: ...
    def key(self, base: Base, *parts: Any) -> str: ...
    def entry(self, key: str) -> Entry | None: ...
    def write(self, key: str, entry: Entry | None, base: Base | None = None) -> None: ...


class Hands:
    """Calls tools in one step."""

    def __init__(self, toolbox: Toolbox, book: Booking, base: Base) -> None:
        self._toolbox = toolbox
        self._book = book
        self._base = base
        self.number = 0
        """How many calls there were in this step."""

    def call(self, call: ToolCall) -> Observation:
        """Call a tool as a model asks for it; whatever goes wrong is told to the model.

        Raises:
            EffectUnknown: it was begun before, must not happen twice, and nobody knows if it did.
        """
        self.number += 1
        try:
            tool = self._toolbox.find(call.name)
            if call.raw and not call.arguments:
                raise BadValue(
                    f"the arguments of {call.name} are not a JSON object: {call.raw[:200]}",
                    hint="send one object",
                )
            arguments = tool.signature.arguments(call.arguments)
        except (KeyNotFound, BadValue) as error:
            return self._seen(call, call.arguments, error=str(error))
        if tool.effects == "none":
            return self._run(call, tool, arguments, key="")
        return self._with_effects(call, tool, arguments)

    def _with_effects(self, call: ToolCall, tool: Tool, arguments: dict[str, Any]) -> Observation:
        asked = plain(call.arguments)
        key = self._book.key(self._base, self.number, tool.name, asked)
        entry = self._book.entry(key)
        if entry is not None and entry.status != "begun":
            return entry.observation(call.id)
        if entry is None:
            entry = Entry(
                key, tool.name, tool.effects, asked, call_id=call.id, run=self._book.name,
                iteration=self._base.iteration, time=self._book.now(),
            )  # fmt: skip
            self._book.write(key, entry, self._base)
        else:
            found = self._asked(tool, entry)
            if found is not None:
                return self._ended(call, found)
        seen = self._run(call, tool, arguments, key=key)
        status = _status(tool, seen)
        return self._ended(
            call,
            entry.ended(status, result=seen.result, error=seen.error, duration_ms=seen.duration_ms),
        )

    def _asked(self, tool: Tool, entry: Entry) -> Entry | None:
        """Return how a call ended that another process began; None if it is to be called."""
        if tool.asks is not None:
            try:
                answer = tool.asks(entry.key, thaw(entry.arguments))
            except Exception as error:  # whatever a user's function raises
                raise _unknown(entry, f"asking failed: {error!r}") from error
            if answer is None or answer is False:
                return None
            return entry.ended("done", result=None if answer is True else plain(answer))
        if tool.effects == "idempotent":
            return None
        raise _unknown(entry, "the process that began it has died")

    def _ended(self, call: ToolCall, entry: Entry) -> Observation:
        self._book.write(entry.key, entry, self._base)
        return entry.observation(call.id)

    def _run(
        self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], *, key: str
    ) -> Observation:
        given = {**arguments, KEY: key} if tool.takes_key else arguments
        began, start = self._book.now(), time.perf_counter()
        error, result = "", None
        try:
            result = plain(
                called(
                    tool.function,
                    given,
                    timeout_seconds=tool.timeout_seconds,
                    retries=tool.retries,
                )
            )
        except TimedOut as failure:
            error = f"TimedOut: {failure}"
            if tool.effects == "once":
                error += "; it is not known whether it happened"
        except Exception as failure:  # noqa: BLE001  # whatever a user's function raises
            error = _told(failure)
        took = round((time.perf_counter() - start) * 1000, 3)
        return self._seen(call, call.arguments, result, error=error, took=took, began=began)

    def _seen(
        self,
        call: ToolCall,
        arguments: Mapping[str, Any],
        result: Any = None,
        *,
        error: str = "",
        took: float = 0.0,
        began: int = 0,
    ) -> Observation:
        time = began or self._book.now()
        return Observation(call.id, call.name, arguments, result, error, took, time)


def _status(tool: Tool, seen: Observation) -> Any:
    if not seen.error:
        return "done"
    is_open = seen.error.startswith("TimedOut: ")
    return "unknown" if is_open else "failed"


def _told(error: Exception) -> str:
    text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return text[:_MOST_LETTERS]


def _unknown(entry: Entry, why: str) -> EffectUnknown:
    return EffectUnknown(
        f"{entry.tool}({_shown(entry.arguments)}) was begun, and may have happened: {why}",
        key=entry.key,
        hint=f"find out, then orchestrator.settle({entry.key!r}, happened=True or False)",
    )


def _shown(arguments: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return text if len(text) <= 120 else f"{text[:119]}…"
