"""Topics: what a conversation is about, from which message to which."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class TopicStatus(StrEnum):
    """Where a topic stands."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class Span(NamedTuple):
    """Messages in a row: from `start` up to, and not with, `stop`."""

    start: int
    stop: int
    why: str
    """Why a topic begins here."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Something that a conversation is about."""

    id: int
    label: str
    keywords: tuple[str, ...]
    spans: tuple[Span, ...]
    status: TopicStatus

    @property
    def first(self) -> int:
        """The message that opened it."""
        return self.spans[0].start

    @property
    def last(self) -> int:
        """The last message that is about it."""
        return self.spans[-1].stop - 1

    @property
    def returns(self) -> int:
        """How often the conversation came back to it."""
        return len(self.spans) - 1

    def __contains__(self, message: object) -> bool:
        return isinstance(message, int) and any(s.start <= message < s.stop for s in self.spans)
