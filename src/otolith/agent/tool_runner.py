"""Hands: calls tools for a step, each at most as often as its effects allow.

See `ledger.py` for what is committed when. For a tool with effects:

    no entry             what is intended is committed, then the tool is called
    ended                it is not called: what came of it then is what comes of it now
    begun, and alive     Busy: another process is in the middle of it
    begun, asks=         the tool is asked; if it did not happen, it is called
    begun, idempotent    it is called again, with the same key
    begun, once          EffectUnknown: `settle` decides

A call is the same as one before if the step, the tool and the arguments are the same, and it is the
first, second … such call of its step: in which order a step makes different calls does not matter.
"""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, Protocol

from otolith.agent.ledger import Entry, Status, is_alive
from otolith.agent.run_store import Base
from otolith.agent.state import Observation
from otolith.agent.timeouts import await_if_needed, call_with_retries
from otolith.agent.tools import KEY, Tool, Toolbox, packed, plain, whole
from otolith.conversation.message import ToolCall
from otolith.errors import BadValue, Busy, EffectUnknown, Error, KeyNotFound, TimedOut
from otolith.frozen import thaw

_MOST_LETTERS = 4000
_TIMED_OUT = "TimedOut: "


class EffectLog(Protocol):
    """Where effects are written down."""

    name: str
    sign: str

    def now(self) -> int: ...
    def key(self, base: Base, *parts: Any) -> str: ...
    def entry(self, key: str) -> Entry | None: ...
    def begin(self, entry: Entry, was: Entry | None, base: Base) -> None: ...
    def write(self, key: str, entry: Entry | None, base: Base | None = None) -> None: ...


class ToolRunner:
    """Calls tools in one step."""

    def __init__(self, toolbox: Toolbox, book: EffectLog, base: Base) -> None:
        self._toolbox = toolbox
        self._book = book
        self._base = base
        self.number = 0
        """How many calls there were in this step."""
        self.keys: set[str] = set()
        """The calls with effects among them."""
        self._alike: Counter[bytes] = Counter()
        self._counting = Lock()  # a step may call from several threads

    def call(self, call: ToolCall) -> Observation:
        """Call a tool as a model asks for it; whatever goes wrong is told to the model.

        Raises:
            EffectUnknown: it was begun before, must not happen twice, and nobody knows if it did.
        """
        with self._counting:
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
        key = self._key(tool, asked)
        entry = self._book.entry(key)
        if entry is not None and entry.status != "begun":
            return entry.observation(call.id)
        if entry is None:
            entry = Entry(
                key, tool.name, tool.effects, asked, call_id=call.id, run=self._book.name,
                iteration=self._base.iteration, time=self._book.now(), by=self._book.sign,
            )  # fmt: skip
            self._book.begin(entry, None, self._base)
        else:
            found = self._asked(tool, entry)
            if found is not None:
                return self._ended(call, found)
            was, entry = entry, replace(entry, by=self._book.sign)
            self._book.begin(entry, was, self._base)  # so that no third one begins it as well
        seen = self._run(call, tool, arguments, key=key)
        return self._ended(
            call,
            entry.ended(
                _status(seen), result=seen.result, error=seen.error, duration_ms=seen.duration_ms
            ),
        )

    def _key(self, tool: Tool, asked: Any) -> str:
        same = packed([tool.name, asked])
        with self._counting:
            self._alike[same] += 1
            key = self._book.key(self._base, self._alike[same], tool.name, asked)
            self.keys.add(key)
        return key

    def _asked(self, tool: Tool, entry: Entry) -> Entry | None:
        """Return how a call ended that another process began; None if it is to be called."""
        if entry.by != self._book.sign and is_alive(entry.by):
            raise Busy(
                f"another process runs this session, and is in the middle of {entry.tool}",
                hint="let it end; run again if it dies",
            )
        if tool.asks is not None:
            try:
                answer = await_if_needed(tool.asks(entry.key, thaw(entry.arguments)))
            except Exception as error:  # whatever a user's function raises
                raise _unknown(entry, f"asking failed: {error!r}") from error
            if answer is None or answer is False:
                return None
            return entry.ended("done", result=None if answer is True else plain(answer))
        if tool.effects == "idempotent":
            return None
        raise _unknown(entry, "whoever began it did not live to tell")

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
                call_with_retries(
                    tool.function,
                    given,
                    timeout_seconds=tool.timeout_seconds,
                    retries=tool.retries,
                )
            )
        except (TimedOut, TimeoutError) as failure:
            error = f"{_TIMED_OUT}{failure}"
            if tool.effects == "once":
                error += "; it is not known whether it happened"
        except (Exception, CancelledError, SystemExit) as failure:  # noqa: BLE001  # whatever
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


def _status(seen: Observation) -> Status:
    if not seen.error:
        return "done"
    return "unknown" if seen.error.startswith(_TIMED_OUT) else "failed"


def _told(error: BaseException) -> str:
    text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    return whole(text)[:_MOST_LETTERS]


def _unknown(entry: Entry, why: str) -> EffectUnknown:
    return EffectUnknown(
        f"{entry.tool}({_shown(entry.arguments)}) was begun, and may have happened: {why}",
        key=entry.key,
        hint=f"find out, then settle({entry.key!r}, happened=True or False), or `otolith effects`",
    )


def _shown(arguments: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return text if len(text) <= 120 else f"{text[:119]}…"
