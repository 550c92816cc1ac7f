"""What units cost: tokens as they were counted before, or are counted now."""

from __future__ import annotations

from collections.abc import Iterable

from otolith.agent.conversation.anchors import Scale
from otolith.agent.conversation.context.source import Rules, Source
from otolith.agent.conversation.context.units import Unit
from otolith.agent.conversation.counting import ESTIMATED
from otolith.agent.conversation.message import Message, Reasoning, Role

_BLANKED = 16
_SILENT = ("openai", "plain")
"""Providers that are not sent any reasoning."""


class Costs:
    """Counts units for one context."""

    def __init__(self, rules: Rules, source: Source) -> None:
        self.counter = rules.counter
        self._known = source.counts
        self._is_silent = rules.for_ in _SILENT
        self._counted: dict[int, tuple[Message, int]] = {}
        self._scale = source.scale if rules.counter is ESTIMATED else Scale()

    def unit(self, unit: Unit) -> int:
        """Return how many tokens a unit takes, as providers would count them."""
        if unit.tokens < 0:
            counted = ((at, self.message(each)) for at, each in unit.messages())
            unit.tokens = sum(self._scale.apply(at, tokens) for at, tokens in counted)
        return unit.tokens

    def least(self, message: Message, limit: int) -> int:
        """Return about what a message takes at least, once all tiers were applied."""
        tokens = self.message(message)
        if message.role in (Role.TOOL, Role.USER) and message.results:
            return min(tokens, _BLANKED * len(message.results))
        return min(tokens, limit // 2)

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
        if tokens.counter != counter.name and counter is not ESTIMATED:
            return self._count_once(message)
        total = tokens.count
        if self._is_silent and message.role is Role.ASSISTANT and not message.meta:
            silent = [part for part in message.parts if isinstance(part, Reasoning)]
            if silent and tokens.counter == counter.name:
                total -= sum(map(counter.part, silent))
        return total or 1

    def _count_once(self, message: Message) -> int:
        """Count a message that is as it was when it was added, whatever contexts it is in."""
        key = self.counter.count, message.id
        if not message.id or key not in self._known:
            self._known[key] = self._count(message)
        return self._known[key]

    def _count(self, message: Message) -> int:
        """Count a message, once; it is held so that no other gets its identity."""
        found = self._counted.get(id(message))
        if found is None:
            found = self._counted[id(message)] = message, self.counter.message(message)
        return found[1]
