"""Adding messages to a thread: checked all at once, then staged all at once.

A call needs an id that no other call of the thread has; a result needs a call that waits for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from otolith.agent.conversation.checking import check
from otolith.agent.conversation.counting import ESTIMATED
from otolith.agent.conversation.files import Files
from otolith.agent.conversation.message import Message, Role, Tokens, ToolCall, ToolResult
from otolith.agent.conversation.record import ABOUT, CALLS, STAYS, Record, lowered
from otolith.errors import BadMessage


class Adding:
    """Messages on their way into a thread."""

    def __init__(self, record: Record, *, now: int, limit_bytes: int, allow_empty: bool) -> None:
        self._record = record
        self._now = now
        self._limit_bytes = limit_bytes
        self._allow_empty = allow_empty
        self._calls: dict[str, int] = {}
        self._answers: dict[str, int] = {}
        self._stays: dict[str, tuple[int, bool]] = {}
        self._turn = record.turn()
        self._turn_id = ""
        self._known_stays: set[int] | None = None

    def run(self, messages: Sequence[Message]) -> list[Message]:
        """Check and stage messages; return them as they are kept, attachments with their bytes.

        Raises:
            BadMessage: one of them cannot be kept; then none is.
        """
        if not messages:
            return []
        start = self._record.length()
        for at, message in enumerate(messages, start):
            check(message, limit_bytes=self._limit_bytes, allow_empty=self._allow_empty)
            self._tie(at, message)
        kept = self._kept(start, messages)
        light = list(map(Files(self._record).emptied, kept))
        if not self._record.is_there:
            self._record.put({"time": self._now}, ABOUT)
        self._record.extend([self._data(at, each) for at, each in enumerate(light, start)])
        self._note()
        return kept

    def _data(self, at: int, message: Message) -> dict[str, Any]:
        """Return a message as it stands in the log."""
        if message.role is Role.USER:
            self._turn, self._turn_id = at, message.id
        return lowered(message, self._back(at))

    def _back(self, at: int) -> tuple[int, str] | None:
        """Return how far before a message the user spoke last, and the id of that."""
        if self._turn is None:
            return None
        if not self._turn_id:
            (said,) = self._record.read(self._turn, self._turn + 1)
            self._turn_id = said.id
        return at - self._turn, self._turn_id

    def _tie(self, at: int, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, ToolCall):
                self._add_call(at, part)
            elif isinstance(part, ToolResult):
                self._add_result(at, part)

    def _add_call(self, at: int, call: ToolCall) -> None:
        if not call.id:
            raise BadMessage(
                f"the call of {call.name} has no id", problem="no_id", hint="give it one"
            )
        before = self._find(call.id)
        if before is not None:
            raise BadMessage(
                f"message {before} has a call {call.id!r} already",
                problem="duplicate_call",
                hint="ids of calls are unique in a thread: a result names its call by it",
            )
        self._calls[call.id] = at

    def _add_result(self, at: int, result: ToolResult) -> None:
        called = self._caller(result.call_id)
        if called is None:
            raise BadMessage(
                f"a result for {result.call_id!r}, which no message called",
                problem="no_call",
                hint="append the assistant's message with the call first",
            )
        before = self._answers.get(result.call_id)
        if before is None:
            before = self._record.answer(result.call_id, called)
        if before is not None:
            raise BadMessage(
                f"call {result.call_id!r} was answered already, by message {before}",
                problem="answered",
                hint="a call has one result; make another call",
            )
        self._answers[result.call_id] = at

    def _find(self, id: str) -> int | None:
        """Return where a call was made, if one was."""
        return self._calls[id] if id in self._calls else self._record.call(id)

    def _caller(self, id: str) -> int | None:
        """Return where a call is now."""
        return self._calls[id] if id in self._calls else self._record.caller(id)

    def _kept(self, start: int, messages: Sequence[Message]) -> list[Message]:
        """Return messages with their id, time and tokens."""
        kept, before = [], self._record.last_id()
        for at, message in enumerate(messages, start):
            timed = message if message.time else replace(message, time=self._now)
            tokens = message.tokens or Tokens(ESTIMATED.message(timed), ESTIMATED.name)
            before = self._record.next_id(timed, before)
            made = replace(timed, id=before, tokens=tokens)
            if made.role is Role.SYSTEM or made.is_pinned or self._answers_pinned(made):
                self._stays[made.id] = at, made.is_pinned
            kept.append(made)
        return kept

    def _answers_pinned(self, message: Message) -> bool:
        """Tell whether a message answers a call that stays: then it has to stay as well."""
        if not message.results:
            return False
        if self._known_stays is None:
            self._known_stays = set(self._record.staying())
        known = self._known_stays | {at for at, _ in self._stays.values()}
        return any(self._caller(result.call_id) in known for result in message.results)

    def _note(self) -> None:
        """Stage what is told from the log."""
        for id, at in self._calls.items():
            self._record.put(at, CALLS, id)
        for id, stay in self._stays.items():
            self._record.put(list(stay), STAYS, id)
