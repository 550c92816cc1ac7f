"""Units: what goes into a context or stays out of it as one.

Rule 1: an assistant's message with calls is a unit with all their results, and with messages of
nothing but reasoning right before it. Any other message is a unit by itself.
A request for approval of a server's tool goes with its answer in the same way.
Rule 2: results follow their calls at once, whatever was said in between; that comes after them.
Rule 3: a call without a result gets one that says so, or is left out if that cannot be said in
words. A result without a call, or the second one to a call, is left out, as is a message that says
nothing, and reasoning that nothing follows. A log that only `chat` has written has no wrong result,
but two branches that were merged may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeGuard

from otolith.conversation.formats import without_residue
from otolith.conversation.message import (
    Extra,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)

_ANSWERING = (Role.TOOL, Role.USER)
INTERRUPTED = "[interrupted: the tool gave no result]"
REDACTED = "anthropic:redacted_thinking"
_CUSTOM = "custom_tool_call"
APPROVAL = "responses:mcp_approval_request"
_APPROVED = "responses:mcp_approval_response"


class Reason(NamedTuple):
    """What was done with messages, and why."""

    start: int
    stop: int
    done: str
    """kept, clamped, repeated, blanked, summarised, dropped, interrupted, orphaned, empty or
    foreign."""
    why: str


@dataclass(slots=True)
class Unit:
    """Messages that belong together."""

    at: int
    said: list[tuple[int, Message]]
    results: list[tuple[int, Message]] = field(default_factory=list)
    stays: bool = False
    """Whether it is in the context whatever the budget."""
    is_turn: bool = False
    """Whether it stays only because it is what the user said last; then it may be clamped."""
    tokens: int = field(default=-1, init=False)
    """What it costs, once that was counted."""

    @property
    def head(self) -> Message:
        """The message that the unit is about."""
        return self.said[-1][1]

    def messages(self) -> list[tuple[int, Message]]:
        """Return all of them, in the order in which they are sent."""
        return self.said + self.results

    def answered(self) -> set[str]:
        """Return the ids of the calls that have a result."""
        return {result.call_id for _, each in self.results for result in each.results}

    def completed(self) -> Unit:
        """Return the unit with a result for every call."""
        if self.head.role is not Role.ASSISTANT:
            return self
        there = self.answered()
        missing = [call for call in self.head.calls if call.id not in there]
        if not missing:
            return self
        told = tuple(_interrupted(call) for call in missing if _is_told(call))
        silent = {call.id for call in missing if not _is_told(call)}
        done = self._without(silent) if silent else self
        return replace(done, results=[*self.results, (self.at, Message(Role.TOOL, told))])

    def _without(self, calls: set[str]) -> Unit:
        """Return the unit without some calls."""
        at, head = self.said[-1]
        parts = (p for p in head.parts if not isinstance(p, ToolCall) or p.id not in calls)
        return replace(self, said=[*self.said[:-1], (at, _with(head, tuple(parts), head.role))])

    @property
    def is_thought(self) -> bool:
        """Whether all of it is reasoning."""
        return all(map(_is_thought, (part for _, each in self.messages() for part in each.parts)))


class Gathering:
    """Units of messages that are given in their order."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.reasons: list[Reason] = []
        self._open: dict[str, Unit] = {}
        self._known: set[str] = set()

    @classmethod
    def of(cls, items: Iterable[tuple[int, Message]]) -> Gathering:
        """Return messages as units."""
        found = cls()
        for at, message in items:
            found.add(at, message)
        found.finish()
        return found

    def add(self, at: int, message: Message) -> None:
        """Take one more message."""
        has_results = message.role in _ANSWERING and any(map(_answers, message.parts))
        message = _cleaned(self._answer(at, message) if has_results else message)
        if not message.parts:
            if not has_results:
                self.reasons.append(Reason(at, at + 1, "empty", "it says nothing"))
            return
        if message.role is Role.ASSISTANT and self._is_reasoned():
            unit = self.units[-1]
            unit.said.append((at, message))
        else:
            unit = Unit(at, [(at, message)], stays=message.role is Role.SYSTEM)
            self.units.append(unit)
        if message.role is Role.ASSISTANT:
            self._call(at, unit)

    def _call(self, at: int, unit: Unit) -> None:
        """Note the calls of a message, which wait for results; one of each id."""
        message = unit.head
        ids = [call.id for call in message.calls]
        if len(set(ids)) < len(ids):
            parts = {_key(at, part): part for at, part in enumerate(message.parts)}
            unit.said[-1] = at, _with(message, tuple(parts.values()), message.role)
            self.reasons.append(Reason(at, at + 1, "orphaned", "two calls have one id"))
        for id in filter(None, map(_asks, message.parts)):
            self._open[id] = unit
            self._known.add(id)

    def finish(self) -> None:
        """Give every call a result, and leave out reasoning that led to nothing."""
        self._complete()
        for unit in self.units:
            if unit.is_thought:
                why = "reasoning that nothing follows"
                self.reasons += (Reason(at, at + 1, "orphaned", why) for at, _ in unit.said)
        self.units = [unit for unit in self.units if not unit.is_thought]

    def _complete(self) -> None:
        for place, unit in enumerate(self.units):
            done = unit.completed()
            if done is not unit:
                self.units[place] = done
                why = "a call has no result"
                self.reasons.append(Reason(unit.at, unit.at + 1, "interrupted", why))

    def _is_reasoned(self) -> bool:
        """Tell whether the last unit is reasoning that something must follow."""
        if not self.units or self.units[-1].head.role is not Role.ASSISTANT:
            return False
        return all(map(_is_thought, self.units[-1].head.parts))

    def _answer(self, at: int, message: Message) -> Message:
        """Put results with their calls; return what else the message says."""
        answers = [(found, part) for part in message.parts if (found := _answers(part))]
        orphans = [name for name, _ in answers if name not in self._open]
        if orphans:
            why = "its call is not in the context"
            if orphans[0] in self._known:
                why = "its call was answered before"
            self.reasons.append(Reason(at, at + 1, "orphaned", why))
        taken: dict[int, list[Part]] = {}
        units: dict[int, Unit] = {}
        for name, part in answers:
            unit = self._open.pop(name, None)
            if unit is not None:
                units[id(unit)] = unit
                taken.setdefault(id(unit), []).append(part)
        rest = tuple(part for part in message.parts if not _answers(part))
        for key, results in taken.items():
            whole = not rest and len(results) == len(message.parts)
            part_of = message if whole else _with(message, tuple(results), Role.TOOL)
            units[key].results.append((at, part_of))
        role = Role.USER if message.role is Role.TOOL else message.role
        return _with(message, rest, role)


def with_partners(stays: Iterable[int], messages: Sequence[Message]) -> set[int]:
    """Return places in a log, with those of the calls and results that belong to them."""
    found = set(stays)
    for at in stays:
        asked, answered = (
            {named(part) for part in messages[at].parts} - {""} for named in (_asks, _answers)
        )
        found |= _nearest(messages, range(at + 1, len(messages)), _answers, asked)
        found |= _nearest(messages, range(at - 1, -1, -1), _asks, answered)
    return found


def _nearest(
    messages: Sequence[Message], places: range, named: Callable[[Part], str], wanted: set[str]
) -> set[int]:
    """Return the first places where parts of these names are."""
    found: set[int] = set()
    for at in places:
        here = wanted.intersection(map(named, messages[at].parts))
        if here:
            found.add(at)
            wanted = wanted - here
    return found


def _asks(part: Part) -> str:
    """Return what an answer to a part would name it by; nothing if it asks for none."""
    if isinstance(part, ToolCall):
        return f"call {part.id}"
    return f"approval {part.data.get('id')}" if _is_extra(part, APPROVAL) else ""


def _answers(part: Part) -> str:
    """Return what a part is the answer to; nothing if it is none."""
    if isinstance(part, ToolResult):
        return f"call {part.call_id}"
    if not _is_extra(part, _APPROVED):
        return ""
    return f"approval {part.data.get('approval_request_id')}"


def _is_extra(part: Part, type: str) -> TypeGuard[Extra]:
    return isinstance(part, Extra) and part.type == type and isinstance(part.data, dict)


def _is_thought(part: Part) -> bool:
    return isinstance(part, Reasoning) or (isinstance(part, Extra) and part.type == REDACTED)


def _is_told(call: ToolCall) -> bool:
    """Tell whether words can be the result of a call: of a function, or of a tool of one's own."""
    return call.extra.get("item") in (None, _CUSTOM)


def _interrupted(call: ToolCall) -> ToolResult:
    extra = {"item": f"{_CUSTOM}_output"} if "item" in call.extra else {}
    return ToolResult(call.id, INTERRUPTED, is_error=True, extra=extra)


def _key(at: int, part: Part) -> object:
    """Return what tells a part from the others of its message: for a call, its id."""
    return (part.id,) if isinstance(part, ToolCall) else at


def _with(message: Message, parts: tuple[Part, ...], role: Role) -> Message:
    return replace(without_residue(message), parts=parts, role=role, tokens=None)


def _cleaned(message: Message) -> Message:
    """Return a message without texts that say nothing, which providers refuse."""
    for part in message.parts:
        if isinstance(part, Text) and (not part.text or part.text.isspace()):
            said = [p for p in message.parts if not isinstance(p, Text) or p.text.strip()]
            return _with(message, tuple(said), message.role)
    return message
