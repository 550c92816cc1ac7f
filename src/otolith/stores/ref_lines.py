"""Lines at refs: writers that race for one take turns from reading it to moving it.

Who loses a race has read, merged and encoded in vain, and does so again: of eight writers without a
line, seven work in vain each time, and whoever is slower starves. So who has lost one lines up
before it reads again, and those behind it read nothing until it has written.

Rules
1. A line is advice. It keeps nobody from writing: what is right is decided by swaps.
2. A writer alone never waits. Only who has lost a race lines up, and then until it has met nobody
   for a while; so does who finds others in line (`is_occupied`).
3. Only the outermost turn of a writer waits, so two writers cannot wait for each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple, Self

_QUIET_TURNS = 100
_MOST_REFS = 10_000

_is_in_line: ContextVar[bool] = ContextVar("otolith_is_in_line", default=False)


class LinePlace(NamedTuple):
    """The first place in the line at a ref: how to leave it, and whether others were there."""

    leave: Callable[[], None]
    has_met: bool


class RefLines(ABC):
    """The lines at the refs of one store, for the writers of one process."""

    def __init__(self) -> None:
        self._turns_left: dict[str, int] = {}  # for how many more turns it lines up, by ref

    def turn(self, name: str) -> LineTurn:
        """Lend a turn at a ref, for the length of a block."""
        return LineTurn(self, name)

    def is_busy(self, name: str) -> bool:
        """Tell whether there was a race for a ref lately, or somebody is in line."""
        return name in self._turns_left or self.is_occupied(name)

    @abstractmethod
    def line_up(self, name: str) -> LinePlace | None:
        """Wait until those who came before have left; None if there can be no line."""

    def is_occupied(self, name: str) -> bool:
        """Tell whether somebody is in line, if that can be told in no time."""
        return False

    def note_race(self, name: str) -> None:
        """Line up at a ref for some turns."""
        if len(self._turns_left) >= _MOST_REFS:
            self._turns_left.clear()
        self._turns_left[name] = _QUIET_TURNS

    def note_turn(self, name: str) -> None:
        """Count a turn in which nobody else was met."""
        left = self._turns_left.get(name, 0) - 1
        if left > 0:
            self._turns_left[name] = left
        else:
            self._turns_left.pop(name, None)


class LineTurn:
    """The turn of one writer at one ref; it has waited if there was a race for it lately."""

    __slots__ = ("_lines", "_name", "_place")

    def __init__(self, lines: RefLines, name: str) -> None:
        self._lines = lines
        self._name = name
        self._place: LinePlace | None = None

    def __enter__(self) -> Self:
        if self._lines.is_busy(self._name):
            self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._place is not None:
            place, self._place = self._place, None
            _is_in_line.set(False)
            place.leave()

    def wait(self) -> None:
        """Line up after a race that was lost; the turn then lasts until its block ends."""
        self._lines.note_race(self._name)
        self._begin()

    def _begin(self) -> None:
        """Line up, unless this writer has lined up already."""
        if self._place is not None or _is_in_line.get():
            return
        self._place = self._lines.line_up(self._name)
        if self._place is None:
            return
        _is_in_line.set(True)
        if self._place.has_met:
            self._lines.note_race(self._name)
        else:
            self._lines.note_turn(self._name)
