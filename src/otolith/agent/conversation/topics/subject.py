"""Turns and topics while they grow."""

from __future__ import annotations

from dataclasses import dataclass, field

from otolith.agent.conversation.topics.cohesion import Vocabulary
from otolith.agent.conversation.topics.topic import Span


@dataclass(slots=True)
class Turn:
    """Something that a user says, with the answers to it."""

    start: int
    stop: int
    asked: Vocabulary = field(default_factory=Vocabulary)
    all: Vocabulary = field(default_factory=Vocabulary)
    cues: dict[str, str] = field(default_factory=dict)
    things: list[list[str]] = field(default_factory=list)
    """The words of each thing that is spoken of as new: "a hotel"."""
    gap: int = 0
    after: str = ""
    """What the answer before it did last: it asked something back, or it ended a matter."""


@dataclass(slots=True)
class Subject:
    """A topic as it grows."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    last: Vocabulary = field(default_factory=Vocabulary)
    """What its last turn said."""
    spans: list[Span] = field(default_factory=list)
    is_closed: bool = False
    turns: int = 0

    def take(self, turn: Turn) -> None:
        """Add a turn."""
        self.vocabulary.take(turn.all)
        self.last = turn.all
        self.is_closed = "close" in turn.cues
        self.turns += 1

    @property
    def is_young(self) -> bool:
        """Whether there was only one turn about it: people seldom ask one thing only."""
        return self.turns < 2
