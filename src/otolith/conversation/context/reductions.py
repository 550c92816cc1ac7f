"""Clamping: a part that is huge keeps its head and its tail, and stays what it was.

A text, a result and a file of text are cut in the middle. Arguments stay an object: first the texts
in them are cut; if that is not enough, what is long is said as the text of its JSON, cut as well;
and if there are too many of them, the last ones are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from otolith.agent.conversation.context.tiers import changed, each_message
from otolith.agent.conversation.context.units import APPROVAL, REDACTED, Unit
from otolith.agent.conversation.counting import Counter
from otolith.agent.conversation.estimating import LETTERS_PER_TOKEN, shorten
from otolith.agent.conversation.formats.media import compact
from otolith.agent.conversation.formats.words import named, words
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
from otolith.agent.lifecycle.values import thaw

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
