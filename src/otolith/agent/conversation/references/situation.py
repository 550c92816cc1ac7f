"""When a phrase is said, what had been spoken of by then, and how far away that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from otolith.agent.conversation.entities import Known, Mention, Moment, Register

NEAR = 0.84
"""What is left of a chance with each message in between, for a pronoun."""
FAR = 0.95
"""The same for a noun, which finds what is further away."""
MOST_RECENT = 40
BEFORE, _SAME_CLAUSE, THEME, ASIDE = 0.85, 0.5, 1.2, 0.75
"""What was said in another message counts less; "an aisle seat on it" does not speak of the seat;
what a topic began with counts more; what was only spoken of in passing counts less."""
_ELSEWHERE = 3
"""How much further away something is that belongs to another topic."""
FORMS = {
    "reference": 1.0,
    "name": 1.0,
    "noun": 0.85,
    "bare": 0.6,
    "item": 0.45,
    "value": 0.2,
    "variable": 0.3,
}
SOURCES = {"user": 1.0, "assistant": 0.9, "tool": 0.7, "system": 0.5, "variable": 0.3}
VALUES = ("price", "number", "date", "time")


@dataclass(frozen=True, slots=True)
class Weighed:
    """Something that a phrase may mean: one thing, or several together."""

    known: tuple[Known, ...]
    score: float
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Situation:
    """When a phrase was said, and what had been spoken of by then."""

    register: Register
    moment: Moment
    clock: Sequence[int]
    """For each message, how many were said before it; results of tools are not counted."""
    around: str = ""
    """What stands before and after the phrase."""
    clause: int = 0
    """Where the clause begins in which the phrase stands."""
    topic: Sequence[tuple[int, int]] = ()
    """The messages that are about what is spoken of: from, and up to but not with."""
    variables: list[Known] = field(default_factory=list)

    def distance(self, message: int) -> int:
        """Return how many messages ago a message was."""
        last = len(self.clock) - 1
        if not 0 <= message <= last:
            return 0
        here = min(self.moment[0], last)
        if not any(start <= message < stop for start, stop in self.topic):
            further = _ELSEWHERE if self.topic else 0
            return max(0, self.clock[here] - self.clock[message]) + further
        return sum(
            self.clock[min(stop, here)] - self.clock[max(start, message)]
            for start, stop in self.topic
            if stop > message and start <= here
        )

    def nearness(self, mention: Mention) -> float:
        """Return less for what is in another message, and for what stands in the same clause."""
        if mention.message != self.moment[0]:
            return BEFORE
        return _SAME_CLAUSE if mention.start >= self.clause and self.around else 1.0

    def is_theme(self, mention: Mention) -> bool:
        """Tell whether a mention comes first in the message that opened the topic."""
        opened = self.topic[0][0] if self.topic else -1
        return mention.is_first and mention.message == opened != self.moment[0]

    def latest(self, known: Known) -> tuple[int, int]:
        """Return how far the last mention is, and how many there are."""
        mentions = known.before(self.moment)
        return (self.distance(mentions[-1].message) if mentions else 0), len(mentions)
