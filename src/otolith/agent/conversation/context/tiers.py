"""Tiers: what is done to units so that more of them fit, the mildest first.

clamp    a part that is huge keeps its head and its tail, see clamping.py
repeat   a result that a later call of the same tool with the same arguments gave again says so
blank    an old result, or an old attachment, says that it was left out

System messages and what was pinned are never touched, and of the last units only huge parts are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from otolith.agent.conversation.context.units import Unit
from otolith.agent.conversation.formats import without_residue
from otolith.agent.conversation.formats.media import arguments_text
from otolith.agent.conversation.formats.words import named, spoken
from otolith.agent.conversation.message import (
    Attachment,
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
)

REPEATED = "[the same as the result of a later call]"
BLANKED = "[left out: an old result]"
WORTH = 60
"""A result of fewer characters is not worth leaving out."""


def changed(message: Message, change: Callable[[Part], Part | None]) -> Message:
    """Return a message with its parts changed; None takes one out."""
    parts = tuple(new for part in message.parts if (new := change(part)) is not None)
    if len(parts) == len(message.parts) and all(map(_is, parts, message.parts)):
        return message
    return replace(without_residue(message), parts=parts, tokens=None)


def _is(one: object, other: object) -> bool:
    return one is other


def each_message(unit: Unit, change: Callable[[Message], Message]) -> Unit:
    """Return a unit with its messages changed."""
    said = [(at, change(message)) for at, message in unit.said]
    results = [(at, change(message)) for at, message in unit.results]
    news, olds = [*said, *results], unit.messages()
    if all(new is old for (_, new), (_, old) in zip(news, olds, strict=True)):
        return unit
    return replace(unit, said=said, results=results)


# Repeated and old results


def without_repeats(units: Sequence[Unit], protected: int) -> list[Unit]:
    """Return units in which only the last of equal results says what it was."""
    seen: set[tuple[str, str, str]] = set()
    out: list[Unit] = []
    for place in range(len(units) - 1, -1, -1):
        unit = units[place]
        if unit.results:
            calls = {call.id: call for call in unit.head.calls}
            again = {
                result.call_id
                for _, message in unit.results
                for result in reversed(message.results)
                if _is_again(calls.get(result.call_id), result, seen)
            }
            if again and place < protected and not unit.stays:
                unit = _saying(unit, again, REPEATED)
        out.append(unit)
    return out[::-1]


def _is_again(call: ToolCall | None, result: ToolResult, seen: set[tuple[str, str, str]]) -> bool:
    if call is None or not _is_worth(result):
        return False
    key = call.name, arguments_text(call), spoken(result.content)
    if key in seen:
        return True
    seen.add(key)
    return False


def without_old_results(units: Sequence[Unit], before: int) -> list[Unit]:
    """Return units in which results and attachments before an index are left out."""
    return [unit if unit.stays or unit.at >= before else _blanked(unit) for unit in units]


def _blanked(unit: Unit) -> Unit:
    old = {
        result.call_id for _, each in unit.results for result in each.results if _is_worth(result)
    }
    unit = _saying(unit, old, BLANKED) if old else unit
    if not any(isinstance(part, Attachment) for _, each in unit.messages() for part in each.parts):
        return unit
    return each_message(unit, lambda each: changed(each, _without_file))


def _without_file(part: Part) -> Part:
    return Text(f"{named(part)} {BLANKED}") if isinstance(part, Attachment) else part


def _is_worth(result: ToolResult) -> bool:
    if "item" in result.extra:
        return False
    return not isinstance(result.content, str) or len(result.content) > WORTH


def _saying(unit: Unit, ids: set[str], text: str) -> Unit:
    def change(part: Part) -> Part:
        if isinstance(part, ToolResult) and part.call_id in ids:
            return replace(part, content=text)
        return part

    return each_message(unit, lambda message: changed(message, change))
