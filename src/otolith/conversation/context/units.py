"""Units: messages that go into a context, or stay out of it, together.

Rule 1: an assistant's message with calls is one unit with all their results, and with messages of
nothing but reasoning right before it. Any other message is a unit by itself. A request to approve a
server's tool goes with its answer in the same way.
Rule 2: results follow their calls at once; messages that came in between come after them.
Rule 3: a call without a result gets one that reports the interruption, or is left out if its result
cannot be text. A result without a call, a second result of a call, an empty message, and reasoning
that nothing follows are left out. Appending prevents wrong results, but two branches that were
merged may have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeGuard

from otolith.conversation.formats import without_unknown_fields
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

INTERRUPTED = "[interrupted: the tool gave no result]"
REDACTED = "anthropic:redacted_thinking"
APPROVAL = "responses:mcp_approval_request"
_APPROVED = "responses:mcp_approval_response"
_CUSTOM = "custom_tool_call"


class Reason(NamedTuple):
    """A change that a context made to some messages, and why."""

    start: int
    stop: int
    done: str
    """kept, clamped, repeated, blanked, summarised, dropped, replaced, interrupted, orphaned, empty
    or foreign."""
    why: str


@dataclass(slots=True)
class Unit:
    """Messages that belong together, each with its index in the log."""

    index: int
    leading: list[tuple[int, Message]]
    """The message that the unit is about, after messages of nothing but reasoning."""
    results: list[tuple[int, Message]] = field(default_factory=list)
    is_permanent: bool = False
    """Whether it is in the context whatever the budget."""
    is_last_user: bool = False
    """Whether it is permanent only as the user's last message; then it may be clamped."""
    tokens: int = field(default=-1, init=False)
    """Its cost, once it was counted."""

    @property
    def head(self) -> Message:
        """The message that the unit is about."""
        return self.leading[-1][1]

    def messages(self) -> list[tuple[int, Message]]:
        """Return all of its messages, in the order in which they are sent."""
        return self.leading + self.results

    def map_messages(self, change: Callable[[Message], Message]) -> Unit:
        """Return the unit with its messages changed, or the same unit if none was."""
        leading = [(at, change(message)) for at, message in self.leading]
        results = [(at, change(message)) for at, message in self.results]
        changed = zip([*leading, *results], self.messages(), strict=True)
        if all(new is old for (_, new), (_, old) in changed):
            return self
        return replace(self, leading=leading, results=results)

    def with_all_results(self) -> Unit:
        """Return the unit with a result for every call, or the same unit if none is missing."""
        if self.head.role is not Role.ASSISTANT:
            return self
        answered = {result.call_id for _, each in self.results for result in each.results}
        missing = [call for call in self.head.calls if call.id not in answered]
        if not missing:
            return self
        results = tuple(_interrupted(call) for call in missing if _takes_text(call))
        removed = {call.id for call in missing if not _takes_text(call)}
        unit = self
        if removed:
            at, head = self.leading[-1]
            parts = [p for p in head.parts if not isinstance(p, ToolCall) or p.id not in removed]
            unit = replace(self, leading=[*self.leading[:-1], (at, _with_parts(head, parts))])
        return replace(unit, results=[*self.results, (self.index, Message(Role.TOOL, results))])


def group_units(messages: Iterable[tuple[int, Message]]) -> tuple[list[Unit], list[Reason]]:
    """Return messages, given with their indices, as units; and what was left out or added."""
    grouper = _Grouper()
    for at, message in messages:
        grouper.add(at, message)
    return grouper.finish()


class _Grouper:
    """Groups messages that are added in their order."""

    def __init__(self) -> None:
        self._units: list[Unit] = []
        self._reasons: list[Reason] = []
        self._waiting: dict[str, Unit] = {}
        """Units by the name of a call that has no result yet."""
        self._called: set[str] = set()

    def add(self, at: int, message: Message) -> None:
        """Add the next message."""
        has_results = message.role in (Role.TOOL, Role.USER) and any(map(_answer, message.parts))
        message = _without_blank_text(self._take_results(at, message) if has_results else message)
        if not message.parts:
            if not has_results:
                self._reasons.append(Reason(at, at + 1, "empty", "it says nothing"))
            return
        is_assistant = message.role is Role.ASSISTANT
        last = self._units[-1] if self._units else None
        follows_assistant = is_assistant and last is not None and last.head.role is Role.ASSISTANT
        if last is not None and follows_assistant and all(map(_is_reasoning, last.head.parts)):
            unit = last  # reasoning that something must follow
            unit.leading.append((at, message))
        else:
            unit = Unit(at, [(at, message)], is_permanent=message.role is Role.SYSTEM)
            self._units.append(unit)
        if is_assistant:
            self._note_calls(at, unit)

    def _note_calls(self, at: int, unit: Unit) -> None:
        """Let the calls of a message wait for results; of calls with one id, the last one stays."""
        message = unit.head
        ids = [call.id for call in message.calls]
        if len(set(ids)) < len(ids):
            parts: dict[object, Part] = {}
            for place, part in enumerate(message.parts):
                parts[(part.id,) if isinstance(part, ToolCall) else place] = part
            unit.leading[-1] = at, _with_parts(message, parts.values())
            self._reasons.append(Reason(at, at + 1, "orphaned", "two calls have one id"))
        for name in filter(None, map(_question, message.parts)):
            self._waiting[name] = unit
            self._called.add(name)

    def _take_results(self, at: int, message: Message) -> Message:
        """Put results into the units of their calls; return the rest of the message."""
        answers = [(name, part) for part in message.parts if (name := _answer(part))]
        orphans = [name for name, _ in answers if name not in self._waiting]
        if orphans:
            is_second = orphans[0] in self._called
            why = "its call was answered before" if is_second else "its call is not in the context"
            self._reasons.append(Reason(at, at + 1, "orphaned", why))
        taken: dict[int, tuple[Unit, list[Part]]] = {}
        for name, part in answers:
            unit = self._waiting.pop(name, None)
            if unit is not None:
                taken.setdefault(id(unit), (unit, []))[1].append(part)
        rest = [part for part in message.parts if not _answer(part)]
        for unit, results in taken.values():
            is_whole = len(results) == len(message.parts)
            own = message if is_whole else _with_parts(message, results, Role.TOOL)
            unit.results.append((at, own))
        return _with_parts(message, rest, Role.USER if message.role is Role.TOOL else message.role)

    def finish(self) -> tuple[list[Unit], list[Reason]]:
        """Return the units, with a result for every call and without dangling reasoning."""
        units: list[Unit] = []
        for unit in self._units:
            complete = unit.with_all_results()
            if complete is not unit:
                why = "a call has no result"
                self._reasons.append(Reason(unit.index, unit.index + 1, "interrupted", why))
            if all(_is_reasoning(part) for _, each in complete.messages() for part in each.parts):
                why = "reasoning that nothing follows"
                self._reasons += (Reason(at, at + 1, "orphaned", why) for at, _ in complete.leading)
            else:
                units.append(complete)
        return units, self._reasons


def with_partners(indices: Iterable[int], messages: Sequence[Message]) -> set[int]:
    """Return indices of messages, with those of the calls and results that belong to them."""
    found = set(indices)
    for at in indices:
        parts = messages[at].parts
        later, earlier = range(at + 1, len(messages)), range(at - 1, -1, -1)
        found |= _nearest(messages, later, _answer, set(map(_question, parts)) - {""})
        found |= _nearest(messages, earlier, _question, set(map(_answer, parts)) - {""})
    return found


def _nearest(
    messages: Sequence[Message], places: range, name: Callable[[Part], str], wanted: set[str]
) -> set[int]:
    """Return the first places that have parts with the wanted names."""
    found: set[int] = set()
    for at in places if wanted else ():
        here = wanted.intersection(map(name, messages[at].parts))
        if here:
            found.add(at)
            wanted = wanted - here
    return found


def _question(part: Part) -> str:
    """Return the name by which an answer refers to a part; empty if the part expects none."""
    if isinstance(part, ToolCall):
        return f"call {part.id}"
    return f"approval {part.data.get('id')}" if _is_extra(part, APPROVAL) else ""


def _answer(part: Part) -> str:
    """Return the name of the part that a part answers; empty if it answers none."""
    if isinstance(part, ToolResult):
        return f"call {part.call_id}"
    is_approval = _is_extra(part, _APPROVED)
    return f"approval {part.data.get('approval_request_id')}" if is_approval else ""  # type: ignore[union-attr]


def _is_extra(part: Part, type: str) -> TypeGuard[Extra]:
    return isinstance(part, Extra) and part.type == type and isinstance(part.data, dict)


def _is_reasoning(part: Part) -> bool:
    return isinstance(part, Reasoning) or (isinstance(part, Extra) and part.type == REDACTED)


def _takes_text(call: ToolCall) -> bool:
    """Return whether the result of a call can be text: of a function, or of a custom tool."""
    return call.extra.get("item") in (None, _CUSTOM)


def _interrupted(call: ToolCall) -> ToolResult:
    """Return the result of a call that was interrupted, for a function or a custom tool."""
    extra = {"item": f"{_CUSTOM}_output"} if "item" in call.extra else {}
    return ToolResult(call.id, INTERRUPTED, is_error=True, extra=extra)


def _with_parts(message: Message, parts: Iterable[Part], role: Role | None = None) -> Message:
    """Return a message with other parts; its unknown fields and its count no longer hold."""
    plain = without_unknown_fields(message)
    return replace(plain, parts=tuple(parts), role=role or message.role, tokens=None)


def _without_blank_text(message: Message) -> Message:
    """Return a message without texts of nothing but spaces, which providers refuse."""
    for part in message.parts:
        if isinstance(part, Text) and (not part.text or part.text.isspace()):
            parts = [p for p in message.parts if not isinstance(p, Text) or p.text.strip()]
            return _with_parts(message, parts)
    return message
