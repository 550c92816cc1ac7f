r"""The graph beside the log: one lane for each line of descent that is still going on.

A lane waits for a commit. When it comes, lanes that wait for the same one are folded into the
first; its own lane then waits for its first parent, and new lanes to the right for the others.

    *      a commit                  |\     a merge opens a lane
    |      a lane goes by            |/     two lanes had the same ancestor
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import click

from otolith.core import Commit

_COLORS = ("red", "green", "blue", "magenta", "cyan")


class Lanes:
    """What is drawn so far, as the commits that lanes wait for."""

    def __init__(self) -> None:
        self._waiting: list[str] = []

    def rows(self, commit: Commit, text: Sequence[str]) -> Iterator[str]:
        """Yield the lines for the next commit, its text beside them."""
        for row in self._fold(commit.id):
            yield _tinted(row.rstrip())
        drawn = [self._mark(commit.id), *self._descend(commit)]
        rest = "| " * len(self._waiting)
        width = max(map(len, [*drawn, rest]))
        for drawing, words in zip_longest(drawn, text):
            row = (rest if drawing is None else drawing).ljust(width)
            yield _tinted(row) + words if words else _tinted(row.rstrip())

    def _fold(self, id: str) -> Iterator[str]:
        """Let all lanes that wait for this commit run into the first of them."""
        if id not in self._waiting:
            self._waiting.append(id)
        first = self._waiting.index(id)
        while self._waiting.count(id) > 1:
            last = len(self._waiting) - 1 - self._waiting[::-1].index(id)
            yield self._shift_left(last, towards=first)
            del self._waiting[last]

    def _mark(self, id: str) -> str:
        return " ".join("*" if waiting == id else "|" for waiting in self._waiting) + " "

    def _descend(self, commit: Commit) -> Iterator[str]:
        """Let the lane wait for the first parent, and open lanes for the others."""
        at = self._waiting.index(commit.id)
        if not commit.parents:
            if at < len(self._waiting) - 1:
                yield self._shift_left(at, towards=at)
            del self._waiting[at]
            return
        self._waiting[at] = commit.parents[0]
        for parent in commit.parents[1:]:
            bars = ["| "] * at + ["|\\"] + [" \\"] * (len(self._waiting) - at - 1)
            self._waiting.insert(at + 1, parent)
            yield "".join(bars) + " "

    def _shift_left(self, lane: int, *, towards: int) -> str:
        """Draw how a lane runs into another, and those to the right of it close the gap."""
        row = [" "] * (2 * len(self._waiting))
        for at in range(len(self._waiting)):
            if at < lane or (at == towards and at != lane):
                row[2 * at] = "|"
            elif 2 * at - 1 > 0 and not (at == lane == towards):
                row[2 * at - 1] = "/"
        for at in range(2 * towards + 1, 2 * lane - 2):
            row[at] = "_" if row[at] == " " else row[at]
        return "".join(row)


def _tinted(row: str) -> str:
    """Colour each lane by where it is."""
    return "".join(
        char if char in " *" else click.style(char, fg=_COLORS[at // 2 % len(_COLORS)])
        for at, char in enumerate(row)
    )
