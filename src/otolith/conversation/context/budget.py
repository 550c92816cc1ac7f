"""What units cost: tokens as they were counted before, or are counted now.

A count is believed only if it was made with the same counter. What a provider says a reply took is
no size of its message: most of it may be reasoning that is never sent again. What providers count
is for `conversation/token_counts.py`, where whole requests are compared with what they were
estimated at.

A log as a context is made from it: read from its end, as far back as is needed.

Where to cut, so that the next cut is likely to be at the same place.

A provider reads a prompt from its cache as long as it begins as the last one did. A window that
moves on with every message breaks that every time. So a cut is not made as far back as fits: of the
places that leave the window at least three quarters full, it takes the one whose index is the
roundest number (the most zeros at its end, in binary), and it stays there for many messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from otolith.conversation.context.units import Unit, with_partners
from otolith.conversation.message import Message, Part, Reasoning, Role
from otolith.conversation.summaries import Summariser, Summary, name_of
from otolith.conversation.token_counts import ESTIMATED, Calibration, Counter


def _as_it_is(message: Message) -> Message:
    return message


def _no_summary(low: int, high: int) -> Summary | None:
    return None


def _no_last_summary(before: int) -> Summary | None:
    return None


def _not_kept(summary: Summary) -> None:
    return


@dataclass(frozen=True, slots=True)
class Source:
    """Where messages come from, and what is known of them."""

    length: int
    read: Callable[[int, int], list[Message]]
    stays: tuple[int, ...] = ()
    """The indices of messages that stay, whatever the budget."""
    stayed: Callable[[int], tuple[int, ...]] | None = None
    """Returns what stayed when there were so many messages; without it, what stays now did."""
    turn: int | None = None
    """The index of what the user said last."""
    filled: Callable[[Message], Message] = _as_it_is
    """Returns a message with the bytes of its attachments."""
    scale: Calibration = field(default_factory=Calibration)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """What counters said of messages that are as they were, so that each is counted once."""
    has_summaries: bool = False
    find_summary: Callable[[int, int], Summary | None] = _no_summary
    """Returns the first summary that ends at one of some indices: what began with it still does."""
    last_summary: Callable[[int], Summary | None] = _no_last_summary
    """Returns the longest summary that ends before an index."""
    keep_summary: Callable[[Summary], None] = _not_kept

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Source:
        """Return a list of messages as a source."""
        said = list(enumerate(messages))
        pinned = [at for at, each in said if each.role is Role.SYSTEM or each.is_pinned]
        stays = tuple(sorted(with_partners(pinned, messages)))
        users = [at for at, each in said if each.role is Role.USER]
        turn = users[-1] if users else None
        return cls(len(messages), lambda a, b: list(messages[a:b]), stays, turn=turn)

    def until(self, stop: int, scale: Calibration) -> Source:
        """Return the source as it was when the log was shorter."""
        turn = self.turn if self.turn is not None and self.turn < stop else None
        then = self.stays if self.stayed is None else self.stayed(stop)
        stays = tuple(at for at in then if at < stop)
        return replace(self, length=stop, stays=stays, turn=turn, scale=scale)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a context must be."""

    budget: int
    for_: str = "plain"
    tools_tokens: int = 0
    keep_last: int = 4
    """How many of the last units are left alone as long as there is any way."""
    keep_results: int = 5
    """How many of the last units with results keep them when old ones are blanked."""
    slack: float = 0.25
    """What share of the window may be given up for a cut that stays where it is."""
    summariser: Summariser | None = None
    counter: Counter = ESTIMATED


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
        self._scale = source.scale if rules.counter is ESTIMATED else Calibration()

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


def roundest(low: int, high: int) -> int:
    """Return the number from low to high with the most zeros at its end, in binary."""
    for zeros in range(high.bit_length(), 0, -1):
        found = high >> zeros << zeros
        if found >= low:
            return found
    return high


def stable_cut(units: Sequence[Unit], first: int, last: int) -> int:
    """Return which unit to begin with, of those from first to last.

    Where a user begins to speak is better than the middle of what followed.
    """
    aim = roundest(units[first].at, units[last].at)
    places = range(first, last + 1)
    users = [place for place in places if units[place].head.role is Role.USER]
    if users:
        aim = roundest(units[users[0]].at, units[users[-1]].at)
        places_of_users = [place for place in users if units[place].at >= aim]
        return places_of_users[0] if places_of_users else users[-1]
    return next((place for place in places if units[place].at >= aim), last)
