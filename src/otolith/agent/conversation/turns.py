"""Turns: what a user said, and all that followed until the user spoke again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from otolith.agent.conversation.message import Message, Role

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user with what it led to; before the first of them, whatever there was."""

    start: int
    messages: tuple[Message, ...]

    @property
    def user(self) -> Message | None:
        """What the user said."""
        first = self.messages[0]
        return first if first.role is Role.USER else None

    @property
    def text(self) -> str:
        """The last thing that was said to the user."""
        said = (each.text for each in reversed(self.messages) if each.role is Role.ASSISTANT)
        return next(filter(None, said), "")

    def __len__(self) -> int:
        return len(self.messages)


class Turns(Sequence[Turn]):
    """The turns of a thread: the last ones are found from the end, others by reading it all."""

    def __init__(self, read: Callable[[int, int], list[Message]], length: int) -> None:
        self._read = read
        self._length = length

    def __iter__(self) -> Iterator[Turn]:
        begun: list[Message] = []
        start = 0
        for at, message in enumerate(self._messages()):
            if message.role is Role.USER and begun:
                yield Turn(start, tuple(begun))
                start, begun = at, []
            begun.append(message)
        if begun:
            yield Turn(start, tuple(begun))

    def __reversed__(self) -> Iterator[Turn]:
        later: list[Message] = []
        for stop in range(self._length, 0, -_AT_ONCE):
            start = max(stop - _AT_ONCE, 0)
            for at, message in reversed(list(enumerate(self._read(start, stop), start))):
                later.append(message)
                if message.role is Role.USER or at == 0:
                    yield Turn(at, tuple(reversed(later)))
                    later = []

    def _messages(self) -> Iterator[Message]:
        for start in range(0, self._length, _AT_ONCE):
            yield from self._read(start, min(start + _AT_ONCE, self._length))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> list[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | list[Turn]:
        if isinstance(index, slice):
            return list(self)[index]
        way, steps = (reversed(self), -index) if index < 0 else (iter(self), index + 1)
        for count, turn in enumerate(way, 1):
            if count == steps:
                return turn
        raise IndexError(f"there is no turn {index}")
