"""Clamping: a part that is huge keeps its head and its tail, and stays what it was.

A text, a result and a file of text are cut in the middle. Arguments stay an object: first the texts
in them are cut; if that is not enough, what is long is said as the text of its JSON, cut as well;
and if there are too many of them, the last ones are left out.

Tiers: what is done to units so that more of them fit, the mildest first.

clamp    a part that is huge keeps its head and its tail, see reductions.py
repeat   a result that a later call of the same tool with the same arguments gave again says so
blank    an old result, or an old attachment, says that it was left out

System messages and what was pinned are never touched, and of the last units only huge parts are.

Reducing units: which tier touches which of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from otolith.conversation.context.budget import Costs, Rules, roundest
from otolith.conversation.context.units import APPROVAL, REDACTED, Unit
from otolith.conversation.formats import without_residue
from otolith.conversation.formats.parts import arguments_text, compact, named, spoken, words
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
from otolith.conversation.token_counts import Counter
from otolith.frozen import thaw
from otolith.text.tokens import LETTERS_PER_TOKEN, shorten

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


CLAMPED = "\n[… left out …]\n"
_IN_WORDS = (None, "custom_tool_call", "custom_tool_call_output")
"""Items of a provider that are words, beside functions and their results."""
_LEAST_ARGUMENT = 12


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
        if isinstance(said, str) and self.is_long(said):
            return True
        return self.counter.part(part) > self.limit

    def is_long(self, text: str) -> bool:
        """Tell whether a text is over the limit; of a very long one, its head tells."""
        reach = (self.limit + 1) * LETTERS_PER_TOKEN
        return self.counter.count(text[:reach]) > self.limit or (
            len(text) > reach and self.counter.count(text) > self.limit
        )

    def _unbound(self, part: Part) -> Part | None:
        """Take out what the server of a provider did, with the reasoning that led to it.

        A search without what it found, or reasoning without the search, is refused.
        """
        is_bound = isinstance(part, Extra) and part.type not in (REDACTED, APPROVAL)
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
            return self._file(part)
        if isinstance(part, Reasoning) or part.type in (REDACTED, APPROVAL):
            return part
        return Text(self.text(words(part)))

    def text(self, text: str) -> str:
        """Return a text within the limit, by the counter that counts."""
        if not self.is_long(text):
            return text
        room = self.limit
        while room >= 1:
            short = shorten(text, room, CLAMPED)
            if self.counter.count(short) <= self.limit:
                return short
            room = room * 3 // 4
        return "…"

    def _result(self, part: ToolResult) -> ToolResult:
        if part.extra.get("item") not in _IN_WORDS:
            return part
        if isinstance(part.content, str):
            return replace(part, content=self.text(part.content))
        share = replace(self, limit=max(self.limit // max(len(part.content), 1), 1))
        inner = tuple(new for each in part.content if (new := share.part(each)) is not None)
        return replace(part, content=inner)

    def _file(self, part: Attachment) -> Part:
        """Return a file of text that is shorter, or a line that names any other one."""
        around = self.counter.part(replace(part, data=b""))
        if part.data is not None and part.media_type.startswith("text/") and around < self.limit:
            inner = replace(self, limit=self.limit - around)
            return replace(part, data=inner.text(part.data.decode(errors="replace")).encode())
        return Text(self.text(named(part)))

    def _call(self, part: ToolCall) -> ToolCall:
        if part.extra.get("item") not in _IN_WORDS:
            return part
        is_text = part.extra.get("type") == "custom"
        if part.raw and (is_text or not part.arguments):
            return replace(part, arguments={}, raw=self.text(part.raw))
        texts = list(_texts(part.arguments))
        room = max(self.limit // max(len(texts), 1), 1)
        shorter = _shortened(part.arguments, replace(self, limit=room).text)
        if self.is_long(compact(shorter)):
            shorter = self._fewer(thaw(part.arguments))
        return replace(part, arguments=shorter, raw="")

    def _fewer(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments of which each is short or a text, and as many as there is room for."""
        room = self.limit // max(len(given), 1)
        while room >= _LEAST_ARGUMENT:
            told = {name: self._told(value, room) for name, value in given.items()}
            if not self.is_long(compact(told)):
                return told
            room = room * 3 // 4
        kept: dict[str, Any] = {}
        for name, value in given.items():
            longer = kept | {name: self._told(value, _LEAST_ARGUMENT)}
            if self.is_long(compact(longer)):
                break
            kept = longer
        return kept

    def _told(self, value: Any, room: int) -> Any:
        """Return a value as it is, or what is left of its JSON as text."""
        inner, text = replace(self, limit=room), value if isinstance(value, str) else compact(value)
        return inner.text(text) if inner.is_long(text) else value


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


LEAST_CLAMP = 48
_STEP = 16


class Reducing:
    """Makes units smaller, as far as the rules of a context allow."""

    def __init__(self, rules: Rules, costs: Costs, room: int) -> None:
        self._rules = rules
        self._costs = costs
        self._room = room

    @property
    def limit(self) -> int:
        """How long a part may be, as it is counted here, before it is huge."""
        return max(self._costs.counted(self._room // 4), LEAST_CLAMP)

    def mildest(self, units: list[Unit]) -> list[Unit] | None:
        """Return all units with as few tiers applied as are needed; None if they never fit."""
        for step in (list, self._clamped, self._repeats, self._old, self._all_old):
            units = step(units)
            if self._costs.total(units) <= self._room:
                return units
        return None

    def all_tiers(self, units: list[Unit], limit: int) -> list[Unit]:
        """Return units with all tiers applied."""
        return self._old(self._repeats(self.clamped(units, limit)))

    def clamped(self, units: list[Unit], limit: int) -> list[Unit]:
        """Return units without parts of more than so many tokens."""
        clamp = Clamp(limit, self._costs.counter)
        return [self._clamped_unit(unit, clamp) for unit in units]

    def _clamped(self, units: list[Unit]) -> list[Unit]:
        return self.clamped(units, self.limit)

    def _clamped_unit(self, unit: Unit, clamp: Clamp) -> Unit:
        if all(self._costs.message(each) <= clamp.limit for _, each in unit.messages()):
            return unit
        if unit.stays and unit.is_turn:
            return replace(clamp.unit(replace(unit, stays=False)), stays=True)
        return clamp.unit(unit)

    def _repeats(self, units: list[Unit]) -> list[Unit]:
        return without_repeats(units, len(units) - self._rules.keep_last)

    def _old(self, units: list[Unit]) -> list[Unit]:
        """Blank what is old, by a line that stays where it is for some messages."""
        line = self._line(units)
        return without_old_results(units, roundest(max(line - _STEP, 1), line)) if line else units

    def _all_old(self, units: list[Unit]) -> list[Unit]:
        return without_old_results(units, self._line(units))

    def _line(self, units: list[Unit]) -> int:
        """Return the index before which results are old: not among the last, nor the last units."""
        keep, last = self._rules.keep_results, self._rules.keep_last
        answered = [unit.at for unit in units if unit.results]
        if len(answered) <= keep:
            return 0
        line = answered[-keep] if keep else answered[-1] + 1
        return min([line, *(unit.at for unit in units[len(units) - last :])])
