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

A call that timed out still runs: its outcome is unknown until it ends, and its end is recorded when
it comes. The same call of a tool that must not happen twice, in a later step, is not made before
its caller was told the outcome of the first:

    unknown, still runs      the caller is told so, also if it runs in another process
    unknown                  `asks` is asked; without it the caller is told so
    known by now             the caller gets the result of the first call; it is then told

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
from otolith.agent.timeouts import (
    DeadlinePassed,
    LateEnd,
    await_if_needed,
    call_with_retries,
)
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
from otolith.owners import is_owner_alive, is_owner_here
from otolith.text import clip

_ERROR_LETTERS = 4000
_TIMED_OUT = "TimedOut: "
_RUNNING: set[str] = set()
"""The keys of calls that still run in this process, and for which nobody waits."""


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
            tool = self._toolbox.find(call.name, for_model=objects is None)
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
        if stored is None:
            told = self._outcome_of_untold(call, tool, entry)
            if told is not None:
                return told
        else:
            ended = self._end_of(tool, stored)
            if ended is not None:
                return self._finish(call, ended)
            entry = replace(stored, by=journal.owner_id)
        journal.begin_call(entry, stored, self._base)
        seen = self._run(call, tool, arguments, key=key, late=_LateCall(journal, entry))
        results = {"result": seen.result, "error": seen.error, "duration_ms": seen.duration_ms}
        if seen.error.startswith(_TIMED_OUT):
            by = entry.by if key in _RUNNING else ""  # whose process may still be in the call
            ended = journal.end_call(entry.ended("unknown", by=by, **results), self._base)
            return ended.observation(call.id)
        status: Status = "failed" if seen.error else "done"
        return self._finish(call, entry.ended(status, **results))

    def _outcome_of_untold(
        self, call: ToolCall, tool: Tool, entry: LedgerEntry
    ) -> Observation | None:
        """Return how the same call in an earlier step ended, if nobody was told; else None."""
        journal = self._journal
        found = journal.untold_call(tool.name, entry.arguments) if tool.effects == "once" else None
        if found is None:
            return None
        earlier = found.entry
        is_told = found.told_to not in ("", entry.key)
        if not is_told and earlier.status in ("begun", "unknown"):
            if self._still_runs(earlier) or tool.asks is None or tool.is_replayed:
                return self._still_unknown(call, earlier)
            earlier = self._asked(tool, earlier) or earlier.ended("failed", error="did not happen")
            journal.write_entry(earlier.key, earlier, self._base)
        if is_told or earlier.status == "failed":
            journal.mark_told(earlier, None, self._base)
            return None
        journal.mark_told(earlier, entry.key, self._base)
        return earlier.observation(call.id)

    def _still_runs(self, entry: LedgerEntry) -> bool:
        """Tell whether a process is, or may be, in the middle of a call that nobody waits for."""
        is_elsewhere = not is_owner_here(entry.by) and is_owner_alive(entry.by)
        return entry.key in _RUNNING or is_elsewhere

    def _still_unknown(self, call: ToolCall, earlier: LedgerEntry) -> Observation:
        how = "still runs" if self._still_runs(earlier) else "has an unknown outcome"
        error = (
            f"{_TIMED_OUT}the same call of {call.name} before this one {how}, and must not happen"
            " twice: it was not made again. A person can settle it"
        )
        now = self._journal.now()
        return Observation(call.id, call.name, call.arguments, error=error, time=now)

    def _key(self, tool: Tool, data: Any) -> str:
        same = canonical_bytes([tool.name, data])
        with self._lock:
            self._same_calls[same] += 1
            key = self._journal.key(self._base, self._same_calls[same], tool.name, data)
            self.effect_keys.add(key)
        return key

    def _end_of(self, tool: Tool, entry: LedgerEntry) -> LedgerEntry | None:
        """Return how a call ended that another process began; None if it is to be called."""
        if entry.key in _RUNNING:
            raise Busy(
                f"{entry.tool} still runs in this process, though nobody waits for it",
                hint="let it end, and run again: its result is recorded",
            )
        if entry.by != self._journal.owner_id and is_owner_alive(entry.by):
            raise Busy(
                f"another process runs this session, and is in the middle of {entry.tool}",
                hint="let it end; run again if it dies",
            )
        if tool.asks is not None:
            return self._asked(tool, entry)
        if tool.effects == "idempotent":
            return None
        raise _unknown(entry, "the process that began it has died")

    def _asked(self, tool: Tool, entry: LedgerEntry) -> LedgerEntry | None:
        """Return how a call ended, as the tool answers; None if it did not happen."""
        assert tool.asks is not None
        try:
            answer = await_if_needed(tool.asks(entry.key, thaw(entry.arguments)))
        except Exception as error:  # a user's function may raise anything
            raise _unknown(entry, f"asking failed: {error!r}") from error
        if answer is None or answer is False:
            return None
        result = None if answer is True else to_plain(answer)
        return entry.ended("done", result=result, error="")

    def _finish(self, call: ToolCall, entry: LedgerEntry) -> Observation:
        self._journal.write_entry(entry.key, entry, self._base)
        return entry.observation(call.id)

    def _run(
        self,
        call: ToolCall,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        key: str,
        late: LateEnd | None = None,
    ) -> Observation:
        if tool.takes_key:
            arguments = {**arguments, KEY_PARAMETER: key}
        began, start = self._journal.now(), time.perf_counter()
        limits: dict[str, Any] = {"timeout_seconds": tool.timeout_seconds, "retries": tool.retries}
        error, result = "", None
        try:
            result = to_plain(call_with_retries(tool.function, arguments, late=late, **limits))
        except (TimedOut, TimeoutError) as failure:
            error = f"{_TIMED_OUT}{failure}"
            if tool.effects == "once":
                error += "; it is not known whether it happened"
        except (Exception, CancelledError, SystemExit) as failure:  # noqa: BLE001  # anything
            error = _error_text(failure)
        took = round((time.perf_counter() - start) * 1000, 3)
        return Observation(call.id, call.name, call.arguments, result, error, took, began)


class _LateCall:
    """Records the end of a call that comes after its caller has stopped waiting."""

    def __init__(self, journal: AgentJournal, entry: LedgerEntry) -> None:
        self._journal = journal
        self._entry = entry
        self._began = time.perf_counter()

    def abandoned(self) -> None:
        """Note that the call still runs."""
        _RUNNING.add(self._entry.key)

    def ended(self, result: Any, error: BaseException | None) -> None:
        """Record the end; a time-out says no more than that the outcome is unknown."""
        took = round((time.perf_counter() - self._began) * 1000, 3)
        entry = self._entry.ended("done", result=to_plain(result), duration_ms=took)
        if error is not None:
            entry = self._entry.ended("failed", error=_error_text(error), duration_ms=took)
        try:
            if not isinstance(error, TimedOut | TimeoutError | CancelledError | DeadlinePassed):
                self._journal.end_call(entry)
        except Error:  # the store is closed or full: the outcome stays unknown, which is safe
            pass
        finally:
            _RUNNING.discard(self._entry.key)


def _error_text(failure: BaseException) -> str:
    name = "" if isinstance(failure, Error) else f"{type(failure).__name__}: "
    return valid_text(f"{name}{failure}")[:_ERROR_LETTERS]


def _unknown(entry: LedgerEntry, why: str) -> EffectUnknown:
    arguments = ", ".join(f"{name}={value!r}" for name, value in entry.arguments.items())
    return EffectUnknown(
        f"{entry.tool}({clip(arguments, 120)}) was begun, and may have happened: {why}",
        key=entry.key,
        hint=f"find out, then settle({entry.key!r}, happened=True or False)",
    )
