"""Folding messages into something, without beginning again for one message more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Generic, Protocol, TypeVar

from otolith.conversation.message import Message


class Fold(Protocol):
    """Something that messages are added to, one after the other."""

    def add(self, message: Message) -> None: ...


F = TypeVar("F", bound=Fold)
_MOST = 8


class Folds(Generic[F]):
    """The last few folds, found again by the messages that they are made of.

    A fold that has seen the first messages of a conversation is told the rest. One that has seen
    others, or more than may be seen, does not serve.
    """

    def __init__(self, make: Callable[[], F]) -> None:
        self._make = make
        self._known: list[tuple[list[Message], F]] = []
        self._lock = Lock()

    @contextmanager
    def upto(self, messages: Sequence[Message], at: int | None = None) -> Iterator[F]:
        """Give the fold of messages up to and with `at`; nobody else has it meanwhile."""
        stop = len(messages) if at is None else min(at + 1, len(messages))
        with self._lock:
            seen, fold = self._take(messages, stop)
            for place in range(len(seen), stop):
                fold.add(messages[place])
                seen.append(messages[place])
            self._known = [(seen, fold), *self._known][:_MOST]
            yield fold

    def _take(self, messages: Sequence[Message], stop: int) -> tuple[list[Message], F]:
        for place, (seen, _) in enumerate(self._known):
            if len(seen) <= stop and all(map(_is_same, seen, messages)):
                return self._known.pop(place)
        return [], self._make()


def _is_same(one: Message, other: Message) -> bool:
    return one is other or (
        one.role is other.role and one.time == other.time and one.parts == other.parts
    )
