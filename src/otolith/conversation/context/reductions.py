"""Reductions: what is done to units so that more of them fit, the mildest first.

clamp    a huge part keeps its head and its tail
repeat   a result that a later call of the same tool with the same arguments gave again is left out
blank    an old result, or an old attachment, is left out

System messages and pinned ones are never touched, and of the last units only huge parts are.

A clamped text, result or text file is cut in the middle. Clamped arguments are still an object:
first the texts in them are cut; if that is not enough, each long value becomes the text of its
JSON, cut as well; and if there are too many of them, the last ones are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import is_
from typing import Any

from otolith.conversation.context.budget import TokenCosts, roundest
from otolith.conversation.context.source import ContextRules
from otolith.conversation.context.units import APPROVAL, REDACTED, Unit
from otolith.conversation.formats import without_unknown_fields
from otolith.conversation.formats.parts import (
    attachment_line,
    compact_json,
    content_text,
    part_text,
    sorted_json,
)
from otolith.conversation.message import (
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
from otolith.conversation.token_counts import TokenCounter
from otolith.frozen import thaw
from otolith.text.tokens import LETTERS_PER_TOKEN, shorten

REPEATED = "[the same as the result of a later call]"
BLANKED = "[left out: an old result]"
MIN_CLAMP = 48
"""The tokens that a clamped part keeps in any case."""

_CLAMPED = "\n[… left out …]\n"
_MIN_BLANKED_LETTERS = 60
"""A shorter result is not worth leaving out."""
_TEXT_ITEMS = (None, "custom_tool_call", "custom_tool_call_output")
"""Items of OpenAI's responses that hold text; None stands for functions and their results."""
_MIN_ARGUMENT_TOKENS = 12
_BLANK_STEP = 16
"""By how many messages the line before which results are blanked may stay behind."""


class Reducer:
    """Makes units smaller, as far as the rules of a context allow."""

    def __init__(self, rules: ContextRules, costs: TokenCosts, room: int) -> None:
        self._rules = rules
        self._costs = costs
        self._room = room

    @property
    def limit(self) -> int:
        """The tokens from which on a part is huge, as the counter counts them."""
        return max(self._costs.unscale(self._room // 4), MIN_CLAMP)

    def fit(self, units: list[Unit]) -> list[Unit] | None:
        """Return all units with as few reductions as needed; None if they do not fit."""
        steps: tuple[Callable[[list[Unit]], list[Unit]], ...] = (
            list,
            lambda units: self._clamp(units, self.limit),
            self._leave_out_repeats,
            self._blank_most,
            lambda units: _blank_results(units, self._old_before(units)),
        )
        for step in steps:
            units = step(units)
            if self._costs.total(units) <= self._room:
                return units
        return None

    def reduce(self, units: list[Unit], limit: int) -> list[Unit]:
        """Return units with all reductions applied; `limit` is the size of a huge part."""
        return self._blank_most(self._leave_out_repeats(self._clamp(units, limit)))

    def _clamp(self, units: list[Unit], limit: int) -> list[Unit]:
        """Return units without huge parts; only messages over the limit are looked at."""
        clamp = Clamp(limit, self._costs.counter)
        return [
            clamp.unit(unit)
            if any(self._costs.message(each) > limit for _, each in unit.messages())
            else unit
            for unit in units
        ]

    def _leave_out_repeats(self, units: list[Unit]) -> list[Unit]:
        return _leave_out_repeats(units, len(units) - self._rules.keep_last)

    def _blank_most(self, units: list[Unit]) -> list[Unit]:
        """Blank what is old, before a line that stays where it is for some messages."""
        line = self._old_before(units)
        return _blank_results(units, roundest(max(line - _BLANK_STEP, 1), line)) if line else units

    def _old_before(self, units: list[Unit]) -> int:
        """Return the index before which results are old."""
        keep, last = self._rules.keep_results, self._rules.keep_last
        answered = [unit.index for unit in units if unit.results]
        if len(answered) <= keep:
            return 0
        line = answered[-keep] if keep else answered[-1] + 1
        return min([line, *(unit.index for unit in units[len(units) - last :])])


def _map_parts(message: Message, change: Callable[[Part], Part | None]) -> Message:
    """Return a message with its parts changed, or the same message; None takes a part out."""
    parts = tuple(new for part in message.parts if (new := change(part)) is not None)
    if len(parts) == len(message.parts) and all(map(is_, parts, message.parts)):
        return message
    return replace(without_unknown_fields(message), parts=parts, tokens=None)


# Repeated and old results


def _leave_out_repeats(units: Sequence[Unit], stop: int) -> list[Unit]:
    """Return units in which only the last of equal results is there; `stop` protects the last."""
    seen: set[tuple[str, str, str]] = set()
    found: list[Unit] = []
    for place in range(len(units) - 1, -1, -1):
        unit = units[place]
        repeated = _repeated_results(unit, seen) if unit.results else set()
        if repeated and place < stop and not unit.is_permanent:
            unit = _replace_results(unit, repeated, REPEATED)
        found.append(unit)
    return found[::-1]


def _repeated_results(unit: Unit, seen: set[tuple[str, str, str]]) -> set[str]:
    """Return the ids of calls whose results were seen in a later unit; note all others."""
    calls, repeated = {call.id: call for call in unit.head.calls}, set()
    for result in (each for _, m in unit.results for each in reversed(m.results)):
        call = calls.get(result.call_id)
        if call is not None and _is_worth_blanking(result):
            arguments = call.raw or sorted_json(thaw(call.arguments))
            key = call.name, arguments, content_text(result.content)
            if key in seen:
                repeated.add(result.call_id)
            seen.add(key)
    return repeated


def _blank_results(units: Sequence[Unit], stop: int) -> list[Unit]:
    """Return units in which results and attachments before an index are left out."""
    return [unit if unit.is_permanent or unit.index >= stop else _blank(unit) for unit in units]


def _blank(unit: Unit) -> Unit:
    """Return a unit without its long results and its attachments."""
    results = (result for _, each in unit.results for result in each.results)
    old = {result.call_id for result in results if _is_worth_blanking(result)}
    unit = _replace_results(unit, old, BLANKED) if old else unit
    if not any(isinstance(part, Attachment) for _, each in unit.messages() for part in each.parts):
        return unit

    def without_file(part: Part) -> Part:
        """Return a line in place of an attachment."""
        is_file = isinstance(part, Attachment)
        return Text(f"{attachment_line(part)} {BLANKED}") if is_file else part  # type: ignore[arg-type]

    return unit.map_messages(lambda message: _map_parts(message, without_file))


def _is_worth_blanking(result: ToolResult) -> bool:
    """Return whether leaving out a result saves tokens; items of built-in tools must stay."""
    if "item" in result.extra:
        return False
    return not isinstance(result.content, str) or len(result.content) > _MIN_BLANKED_LETTERS


def _replace_results(unit: Unit, call_ids: set[str], text: str) -> Unit:
    """Return a unit in which a text takes the place of some results."""

    def change(part: Part) -> Part:
        """Replace the content of a result."""
        if isinstance(part, ToolResult) and part.call_id in call_ids:
            return replace(part, content=text)
        return part

    return unit.map_messages(lambda message: _map_parts(message, change))


# Huge parts


@dataclass(frozen=True, slots=True)
class Clamp:
    """Cuts parts that have more than `limit` tokens."""

    limit: int
    counter: TokenCounter

    def unit(self, unit: Unit) -> Unit:
        """Return a unit without huge parts; a permanent one is changed only as the last user's."""
        if unit.is_permanent and not unit.is_last_user:
            return unit
        return unit.map_messages(self._message)

    def _message(self, message: Message) -> Message:
        """Return a message without huge parts."""
        if message.role is Role.ASSISTANT:
            for part in message.parts:
                if isinstance(part, Extra) and part.type != REDACTED and self._is_huge(part):
                    return _map_parts(message, self._without_server_tools)
        return _map_parts(message, self.part)

    def _without_server_tools(self, part: Part) -> Part | None:
        """Take out what a provider's server did, with the reasoning that led to it.

        A search without its findings, or reasoning without the search, is refused.
        """
        is_server = isinstance(part, Extra) and part.type not in (REDACTED, APPROVAL)
        if is_server or (isinstance(part, Reasoning) and part.extra.get("from") == "responses"):
            return None
        return self.part(part)

    def _is_huge(self, part: Part) -> bool:
        """Return whether a part is over the limit."""
        text = part.text if isinstance(part, Text) else getattr(part, "content", None)
        if isinstance(text, str) and self._is_long(text):
            return True
        return self.counter.part(part) > self.limit

    def _is_long(self, text: str) -> bool:
        """Return whether a text is over the limit; of a very long one, the head decides."""
        reach = (self.limit + 1) * LETTERS_PER_TOKEN
        return self.counter.count(text[:reach]) > self.limit or (
            len(text) > reach and self.counter.count(text) > self.limit
        )

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
            return self._file(part)
        if isinstance(part, Reasoning) or part.type in (REDACTED, APPROVAL):
            return part
        return Text(self.text(part_text(part)))

    def text(self, text: str) -> str:
        """Return a text within the limit, by the counter of the context."""
        if not self._is_long(text):
            return text
        room = self.limit
        while room >= 1:
            short = shorten(text, room, _CLAMPED)
            if self.counter.count(short) <= self.limit:
                return short
            room = room * 3 // 4
        return "…"

    def _result(self, part: ToolResult) -> ToolResult:
        """Return a shorter result; its parts share the limit evenly."""
        if part.extra.get("item") not in _TEXT_ITEMS:
            return part
        if isinstance(part.content, str):
            return replace(part, content=self.text(part.content))
        share = replace(self, limit=max(self.limit // max(len(part.content), 1), 1))
        inner = tuple(new for each in part.content if (new := share.part(each)) is not None)
        return replace(part, content=inner)

    def _file(self, part: Attachment) -> Part:
        """Return a shorter text file, or a line that names any other file."""
        overhead = self.counter.part(replace(part, data=b""))
        if part.data is not None and part.media_type.startswith("text/") and overhead < self.limit:
            inner = replace(self, limit=self.limit - overhead)
            return replace(part, data=inner.text(part.data.decode(errors="replace")).encode())
        return Text(self.text(attachment_line(part)))

    def _call(self, part: ToolCall) -> ToolCall:
        """Return a call with shorter arguments, which are still an object."""
        if part.extra.get("item") not in _TEXT_ITEMS:
            return part
        if part.raw and (part.extra.get("type") == "custom" or not part.arguments):
            return replace(part, arguments={}, raw=self.text(part.raw))
        texts = sum(1 for _ in _texts(part.arguments))
        share = replace(self, limit=max(self.limit // max(texts, 1), 1))
        arguments = _map_texts(part.arguments, share.text)
        if self._is_long(compact_json(arguments)):
            arguments = self._fewer_arguments(thaw(part.arguments))
        return replace(part, arguments=arguments, raw="")

    def _fewer_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of which each is short or a text; if there are too many, the first."""
        room = self.limit // max(len(arguments), 1)
        while room >= _MIN_ARGUMENT_TOKENS:
            shorter = replace(self, limit=room)
            short = {name: shorter.argument(value) for name, value in arguments.items()}
            if not self._is_long(compact_json(short)):
                return short
            room = room * 3 // 4
        shortest = replace(self, limit=_MIN_ARGUMENT_TOKENS)
        first = islice(arguments.items(), self.limit // 2)  # each takes at least two tokens
        short = {name: shortest.argument(value) for name, value in first}
        fits, too_many = 0, len(short) + 1
        while too_many - fits > 1:  # find how many fit by bisection, since counting is slow
            count = (fits + too_many) // 2
            if self._is_long(compact_json(dict(islice(short.items(), count)))):
                too_many = count
            else:
                fits = count
        return dict(islice(short.items(), fits))

    def argument(self, value: Any) -> Any:
        """Return an argument within the limit: unchanged, or its text or JSON, cut."""
        text = value if isinstance(value, str) else compact_json(value)
        return self.text(text) if self._is_long(text) else value


def _texts(value: Any) -> Iterable[str]:
    """Yield the texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain data with its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_texts(item, change) for item in value]
    return value
