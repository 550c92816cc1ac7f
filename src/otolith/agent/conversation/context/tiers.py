"""Tiers: what is done to units so that more of them fit, the mildest first.

clamp    a part that is huge keeps its head and its tail
repeat   a result that a later call of the same tool with the same arguments gave again says so
blank    an old result, or an old attachment, says that it was left out

System messages and what was pinned are never touched, and of the last units only huge parts are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from otolith.agent.conversation.context.units import REDACTED, Unit
from otolith.agent.conversation.counting import Counter
from otolith.agent.conversation.estimating import LETTERS_PER_TOKEN, shorten
from otolith.agent.conversation.formats import without_residue
from otolith.agent.conversation.formats.media import arguments_text
from otolith.agent.conversation.formats.words import named, spoken, words
from otolith.agent.conversation.message import (
    Attachment,
    Extra,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)

CLAMPED = "\n[… left out …]\n"
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


# Clamping


@dataclass(frozen=True, slots=True)
class Clamp:
    """Cuts parts that are longer than so many tokens."""

    limit: int
    counter: Counter

    def unit(self, unit: Unit) -> Unit:
        """Return a unit without huge parts."""
        return unit if unit.stays else each_message(unit, self._message)

    def _message(self, message: Message) -> Message:
        if message.role is not Role.ASSISTANT or not any(map(self._is_bound, message.parts)):
            return changed(message, self.part)
        return changed(message, self._unbound)

    def _is_bound(self, part: Part) -> bool:
        """Tell whether a part is huge and goes only with what its provider has put around it."""
        return isinstance(part, Extra) and part.type != REDACTED and self._is_huge(part)

    def _is_huge(self, part: Part) -> bool:
        said = part.text if isinstance(part, Text) else getattr(part, "content", None)
        if isinstance(said, str) and self._is_long(said):
            return True
        return self.counter.part(part) > self.limit

    def _is_long(self, text: str) -> bool:
        """Tell whether a text is over the limit; of a very long one, its head tells."""
        reach = (self.limit + 1) * LETTERS_PER_TOKEN
        return self.counter.count(text[:reach]) > self.limit or (
            len(text) > reach and self.counter.count(text) > self.limit
        )

    def _unbound(self, part: Part) -> Part | None:
        """Take out what the server of a provider did, with the reasoning that led to it.

        A search without what it found, or reasoning without the search, is refused.
        """
        is_bound = isinstance(part, Extra) and part.type != REDACTED
        if is_bound or (isinstance(part, Reasoning) and part.extra.get("from") == "responses"):
            return None
        return self.part(part)

    def part(self, part: Part) -> Part | None:
        """Return a part that is not huge."""
        if not self._is_huge(part):
            return part
        if isinstance(part, Text):
            return Text(self.text(part.text))
        if isinstance(part, ToolResult):
            return self._result(part)
        if isinstance(part, ToolCall):
            return self._call(part)
        if isinstance(part, Attachment):
            return Text(self.text(named(part)))
        if isinstance(part, Reasoning) or part.type == REDACTED:
            return part
        return Text(self.text(words(part)))

    def text(self, text: str) -> str:
        """Return a text within the limit, by the counter that counts."""
        if not self._is_long(text):
            return text
        room = self.limit
        while room >= 1:
            short = shorten(text, room, CLAMPED)
            if self.counter.count(short) <= self.limit:
                return short
            room = room * 3 // 4
        return "…"

    def _result(self, part: ToolResult) -> ToolResult:
        if "item" in part.extra:
            return part  # not text, whatever it is
        if isinstance(part.content, str):
            return replace(part, content=self.text(part.content))
        share = replace(self, limit=max(self.limit // max(len(part.content), 1), 1))
        inner = tuple(new for each in part.content if (new := share.part(each)) is not None)
        return replace(part, content=inner)

    def _call(self, part: ToolCall) -> ToolCall:
        if "item" in part.extra:
            return part
        if part.raw and not part.arguments:
            return replace(part, raw=self.text(part.raw))
        texts = list(_texts(part.arguments))
        room = max(self.limit // max(len(texts), 1), 1)
        inner = replace(self, limit=room)
        arguments: Any = _shortened(part.arguments, inner.text)
        return replace(part, arguments=arguments, raw="")


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _shortened(value: Any, shorter: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return shorter(value)
    if isinstance(value, dict):
        return {key: _shortened(item, shorter) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item, shorter) for item in value]
    return value


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
