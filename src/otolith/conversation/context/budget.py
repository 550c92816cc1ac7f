"""What units cost: tokens as they were counted before, or are counted now.

A count is believed only if it was made with the same counter. What a provider says a reply took is
no size of its message: most of it may be reasoning that is never sent again. What providers count
is for `anchors.py`, where whole requests are compared with what they were estimated at.
"""

from __future__ import annotations

from collections.abc import Iterable

from otolith.agent.conversation.anchors import Scale
from otolith.agent.conversation.context.source import Rules, Source
from otolith.agent.conversation.context.units import Unit
from otolith.agent.conversation.counting import ESTIMATED
from otolith.agent.conversation.message import Message, Part, Reasoning, Role
from otolith.agent.conversation.naming import name_of

_BLANKED = 16
_SILENT = {"openai": ("reasoning_content",), "plain": ()}
"""Providers that are not sent any reasoning, but for some that came to them as it is."""


class Costs:
    """Counts units for one context."""

    def __init__(self, rules: Rules, source: Source) -> None:
        self.counter = rules.counter
        self._name = name_of(rules.counter.count)
        self._known = source.counts
        self._aloud = _SILENT.get(rules.for_)
        self._counted: dict[int, tuple[Message, int]] = {}
        self._scale = source.scale if rules.counter is ESTIMATED else Scale()

    def unit(self, unit: Unit) -> int:
        """Return how many tokens a unit takes, as providers would count them."""
        if unit.tokens < 0:
            unit.tokens = sum(self.scaled(at, self.message(each)) for at, each in unit.messages())
        return unit.tokens

    def scaled(self, at: int, tokens: int) -> int:
        """Return tokens of a message as providers would count them."""
        return self._scale.apply(at, tokens)

    def counted(self, tokens: int) -> int:
        """Return what providers would count as so many tokens, as it is counted here."""
        return int(tokens / self._scale.whole)

    def least(self, at: int, message: Message, limit: int) -> int:
        """Return about what a message takes at least, once all tiers were applied."""
        tokens = self.message(message)
        if message.role in (Role.TOOL, Role.USER) and message.results:
            return self.scaled(at, min(tokens, _BLANKED * len(message.results)))
        return self.scaled(at, min(tokens, limit // 2))

    def total(self, units: Iterable[Unit]) -> int:
        """Return how many tokens units take."""
        return sum(map(self.unit, units))

    def unscaled(self, units: Iterable[Unit]) -> int:
        """Return how many tokens units take, as they were counted here."""
        return sum(self.message(each) for unit in units for _, each in unit.messages())

    def message(self, message: Message) -> int:
        """Return how many tokens a message takes, as it was counted here."""
        counter, tokens = self.counter, message.tokens
        if tokens is None:
            return self._count(message)
        is_ours = tokens.counter == counter.name
        total = tokens.count if is_ours else self._count_once(message)
        if self._aloud is not None and message.role is Role.ASSISTANT and not message.meta:
            total -= sum(counter.part(part) for part in message.parts if self._is_silent(part))
        return max(total, 1)

    def _is_silent(self, part: Part) -> bool:
        """Tell whether a part is reasoning that is not sent."""
        said = self._aloud or ()
        return isinstance(part, Reasoning) and part.extra.get("from") not in said

    def _count_once(self, message: Message) -> int:
        """Count a message that is as it was when it was added, whatever contexts it is in."""
        key = self._name, message.id
        if not message.id or key not in self._known:
            self._known[key] = self._count(message)
        return self._known[key]

    def _count(self, message: Message) -> int:
        """Count a message, once; it is held so that no other gets its identity."""
        found = self._counted.get(id(message))
        if found is None:
            found = self._counted[id(message)] = message, self.counter.message(message)
        return found[1]
