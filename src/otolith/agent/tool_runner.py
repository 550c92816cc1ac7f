"""ToolRunner: calls the tools of a step, each at most as often as its effects allow.

`ledger.py` says what is committed when. What the ledger has decides about a call with effects:

    no entry                 commit that it begins, then call the tool
    ended                    do not call it: return the stored result or error
    begun, owner alive       Busy: another process is in the middle of it
    begun, tool has `asks`   ask whether it happened; call the tool only if it did not
    begun, idempotent        call the tool again, with the same key
    begun, once              EffectUnknown: the user decides with `settle`

The ledger is that of the branch and, for a call that must happen once, of all branches of the
session: `Journal.known_call`.

Two calls are the same if the step, the tool and the arguments are the same, and both are the first
(second, …) such call of the step: the order of different calls in a step does not matter.
"""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any

from otolith.agent.journal import StepBase
from otolith.agent.ledger import LedgerEntry, Status
from otolith.agent.live_run import AgentJournal
from otolith.agent.state import Observation
from otolith.agent.timeouts import await_if_needed, call_with_retries
from otolith.agent.tools import (
    KEY_PARAMETER,
    Tool,
    Toolbox,
    canonical_bytes,
    to_plain,
    valid_text,
)
from otolith.conversation import ToolCall
from otolith.errors import BadValue, Busy, EffectUnknown, Error, KeyNotFound, TimedOut
from otolith.frozen import thaw
from otolith.owners import is_owner_alive
from otolith.text import clip

_ERROR_LETTERS = 4000
_TIMED_OUT = "TimedOut: "


class ToolRunner:
    """Calls tools in one step."""

    def __init__(self, toolbox: Toolbox, journal: AgentJournal, base: StepBase) -> None:
        self._toolbox = toolbox
        self._journal = journal
        self._base = base
        self.call_count = 0
        """The number of calls in this step."""
        self.effect_keys: set[str] = set()
        """The keys of those with effects."""
        self._same_calls: Counter[bytes] = Counter()
        self._lock = Lock()  # a step may call from several threads

    def call(self, call: ToolCall, objects: Mapping[str, Any] | None = None) -> Observation:
        """Call a tool as a model asks for it; errors of the tool are returned, for the model.

        `objects` are the arguments of a Python caller, of which the call has the plain form.

        Raises:
            EffectUnknown: it was begun before, must not happen twice, and its outcome is unknown.
            Busy: another process is in the middle of it.
        """
        with self._lock:
            self.call_count += 1
        try:
            tool = self._toolbox.find(call.name)
            if call.raw and not call.arguments:
                raise BadValue(
                    f"the arguments of {call.name} are not a JSON object: {call.raw[:200]}",
                    hint="send one object",
                )
            arguments = tool.signature.arguments(call.arguments, objects)
        except (KeyNotFound, BadValue) as error:
            now = self._journal.now()
            return Observation(call.id, call.name, call.arguments, error=str(error), time=now)
        if tool.effects == "none":
            return self._run(call, tool, arguments, key="")
        return self._call_with_effects(call, tool, arguments)

    def _call_with_effects(
        self, call: ToolCall, tool: Tool, arguments: dict[str, Any]
    ) -> Observation:
        journal, data = self._journal, to_plain(call.arguments)
        key = self._key(tool, data)
        entry = LedgerEntry(
            key, tool.name, tool.effects, data, call_id=call.id, run=journal.name,
            iteration=self._base.iteration, time=journal.now(), by=journal.owner_id,
        )  # fmt: skip
        stored = journal.known_call(entry, self._base)
        if stored is not None and stored.status != "begun":
            return stored.observation(call.id)
        if stored is not None:
            ended = self._end_of(tool, stored)
            if ended is not None:
                return self._finish(call, ended)
            entry = replace(stored, by=journal.owner_id)
        journal.begin_call(entry, stored, self._base)
        seen = self._run(call, tool, arguments, key=key)
        status: Status = "failed" if seen.error else "done"
        if seen.error.startswith(_TIMED_OUT):
            status = "unknown"
        results = {"result": seen.result, "error": seen.error, "duration_ms": seen.duration_ms}
        return self._finish(call, entry.ended(status, **results))

    def _key(self, tool: Tool, data: Any) -> str:
        same = canonical_bytes([tool.name, data])
        with self._lock:
            self._same_calls[same] += 1
            key = self._journal.key(self._base, self._same_calls[same], tool.name, data)
            self.effect_keys.add(key)
        return key

    def _end_of(self, tool: Tool, entry: LedgerEntry) -> LedgerEntry | None:
        """Return how a call ended that another process began; None if it is to be called."""
        if entry.by != self._journal.owner_id and is_owner_alive(entry.by):
            raise Busy(
                f"another process runs this session, and is in the middle of {entry.tool}",
                hint="let it end; run again if it dies",
            )
        if tool.asks is not None:
            try:
                answer = await_if_needed(tool.asks(entry.key, thaw(entry.arguments)))
            except Exception as error:  # a user's function may raise anything
                raise _unknown(entry, f"asking failed: {error!r}") from error
            if answer is None or answer is False:
                return None
            return entry.ended("done", result=None if answer is True else to_plain(answer))
        if tool.effects == "idempotent":
            return None
        raise _unknown(entry, "the process that began it has died")

    def _finish(self, call: ToolCall, entry: LedgerEntry) -> Observation:
        self._journal.write_entry(entry.key, entry, self._base)
        return entry.observation(call.id)

    def _run(
        self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], *, key: str
    ) -> Observation:
        if tool.takes_key:
            arguments = {**arguments, KEY_PARAMETER: key}
        began, start = self._journal.now(), time.perf_counter()
        limits: dict[str, Any] = {"timeout_seconds": tool.timeout_seconds, "retries": tool.retries}
        error, result = "", None
        try:
            result = to_plain(call_with_retries(tool.function, arguments, **limits))
        except (TimedOut, TimeoutError) as failure:
            error = f"{_TIMED_OUT}{failure}"
            if tool.effects == "once":
                error += "; it is not known whether it happened"
        except (Exception, CancelledError, SystemExit) as failure:  # noqa: BLE001  # anything
            name = "" if isinstance(failure, Error) else f"{type(failure).__name__}: "
            error = valid_text(f"{name}{failure}")[:_ERROR_LETTERS]
        took = round((time.perf_counter() - start) * 1000, 3)
        return Observation(call.id, call.name, call.arguments, result, error, took, began)


def _unknown(entry: LedgerEntry, why: str) -> EffectUnknown:
    arguments = ", ".join(f"{name}={value!r}" for name, value in entry.arguments.items())
    return EffectUnknown(
        f"{entry.tool}({clip(arguments, 120)}) was begun, and may have happened: {why}",
        key=entry.key,
        hint=f"find out, then settle({entry.key!r}, happened=True or False), or `otolith effects`",
    )
