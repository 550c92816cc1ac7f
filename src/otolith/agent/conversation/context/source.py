"""A log as a context is made from it: read from its end, as far back as is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from otolith.agent.conversation.anchors import Scale
from otolith.agent.conversation.counting import ESTIMATED, Counter
from otolith.agent.conversation.message import Message, Role
from otolith.agent.conversation.summarising import Summariser, Summary


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
    scale: Scale = field(default_factory=Scale)
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
        stays = tuple(at for at, each in said if each.role is Role.SYSTEM or each.is_pinned)
        users = [at for at, each in said if each.role is Role.USER]
        turn = users[-1] if users else None
        return cls(len(messages), lambda a, b: list(messages[a:b]), stays, turn=turn)

    def until(self, stop: int, scale: Scale) -> Source:
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
