"""The budget of a context: what units cost in tokens, and where to cut so that the cut stays.

A stored count is used only if it was made with the same counter. The tokens that a provider
reports for a reply are not used as the size of its message: most of them may be reasoning that is
never sent again. Counts of whole requests correct estimates (`Calibration`).

A provider reads a prompt from its cache as long as it begins as the last one did. A window that
moves with every message breaks that every time. So a cut is not made as far back as fits: of the
places that leave the window at least three quarters full, it is the one whose index is the roundest
number (the most zeros at its end, in binary), and it stays there for many messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from otolith.conversation.context.source import ContextRules, MessageSource
from otolith.conversation.context.units import Unit
from otolith.conversation.function_identity import function_identity
from otolith.conversation.message import Message, Part, Reasoning, Role
from otolith.conversation.token_counts import ESTIMATED, Calibration, TokenCounter

_BLANKED_TOKENS = 16
_MEMO_LETTERS = 100
"""Counts of shorter texts are not remembered."""
_SENT_REASONING = {"openai": ("reasoning_content",), "plain": ()}
"""Providers that are sent no reasoning, except what came from one of these fields."""


class TokenCosts:
    """Counts units for one context."""

    def __init__(self, rules: ContextRules, source: MessageSource) -> None:
        self.counter = replace(rules.counter, count=_memoised(rules.counter))
        """The counter of the context. It remembers texts, which reductions count many times."""
        self._rules = rules
        self._counts = source.counts
        self._sent_reasoning = _SENT_REASONING.get(rules.for_)
        self._known: dict[int, tuple[Message, int]] = {}
        is_estimate = rules.counter is ESTIMATED
        self._calibration = source.calibration if is_estimate else Calibration()

    def unit(self, unit: Unit) -> int:
        """Return the tokens of a unit, as providers would count them."""
        if unit.tokens < 0:
            unit.tokens = sum(self.scale(at, self.message(each)) for at, each in unit.messages())
        return unit.tokens

    def total(self, units: Iterable[Unit]) -> int:
        """Return the tokens of units, as providers would count them."""
        return sum(map(self.unit, units))

    def unscaled_total(self, units: Iterable[Unit]) -> int:
        """Return the tokens of units, as the counter counts them."""
        return sum(self.message(each) for unit in units for _, each in unit.messages())

    def scale(self, at: int, tokens: int) -> int:
        """Return counted tokens of a message as providers would count them."""
        return self._calibration.scale(at, tokens)

    def unscale(self, tokens: int) -> int:
        """Return tokens that providers would count as the counter counts them."""
        return int(tokens / self._calibration.overall)

    def minimum(self, at: int, message: Message, limit: int) -> int:
        """Return about how many tokens a message takes at least, after all reductions."""
        tokens = self.message(message)
        if message.role in (Role.TOOL, Role.USER) and message.results:
            return self.scale(at, min(tokens, _BLANKED_TOKENS * len(message.results)))
        return self.scale(at, min(tokens, limit // 2))

    def message(self, message: Message) -> int:
        """Return the tokens of a message, as the counter counts them."""
        tokens = message.tokens
        if tokens is None:
            return self._count(message)
        total = tokens.count if tokens.counter == self.counter.name else self._count_once(message)
        if self._sent_reasoning is not None and message.role is Role.ASSISTANT and not message.meta:
            total -= sum(self.counter.part(part) for part in message.parts if self._is_unsent(part))
        return max(total, 1)

    def _is_unsent(self, part: Part) -> bool:
        """Return whether a part is reasoning that this provider is not sent."""
        sent = self._sent_reasoning or ()
        return isinstance(part, Reasoning) and part.extra.get("from") not in sent

    def _count_once(self, message: Message) -> int:
        """Count a stored message once for all contexts."""
        key = self._counter_identity, message.id
        if not message.id or key not in self._counts:
            self._counts[key] = self._count(message)
        return self._counts[key]

    @cached_property
    def _counter_identity(self) -> str:
        return function_identity(self._rules.counter.count)

    def _count(self, message: Message) -> int:
        """Count a message once; it is referenced, so that no other message gets its id()."""
        found = self._known.get(id(message))
        if found is None:
            found = self._known[id(message)] = message, self.counter.message(message)
        return found[1]


def _memoised(counter: TokenCounter) -> Callable[[str], int]:
    """Return a function that counts as a counter does, and remembers long texts."""
    count, known = counter.count, dict[str, int]()

    def memoised(text: str) -> int:
        """Count a text, a long one once."""
        if len(text) < _MEMO_LETTERS:
            return count(text)
        found = known.get(text)
        if found is None:
            found = known[text] = count(text)
        return found

    return memoised


def roundest(low: int, high: int) -> int:
    """Return the number from low to high with the most zeros at its end, in binary."""
    for zeros in range(high.bit_length(), 0, -1):
        found = high >> zeros << zeros
        if found >= low:
            return found
    return high


def stable_cut(units: Sequence[Unit], first: int, last: int) -> int:
    """Return the place of the unit to begin with, from first to last.

    A message of the user is a better beginning than the middle of the replies to it.
    """
    places = list(range(first, last + 1))
    places = [place for place in places if units[place].head.role is Role.USER] or places
    aim = roundest(units[places[0]].index, units[places[-1]].index)
    return next((place for place in places if units[place].index >= aim), places[-1])
