"""Bookmarks: what was worked out of a thread by reading it, and up to where it was read.

A bookmark fits a log that begins with the messages that were read. The id of the last of them does
not tell: two branches that were merged are one log, in which a message may follow another than the
one it was said after. The cell of the first messages does, since equal lists have equal cells. It
is made of a few nodes of the log, so that a log of any length is compared at once.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from otolith.core import Cells

T = TypeVar("T")


class Bookmark(NamedTuple, Generic[T]):
    """What was worked out of the first messages of a log, how many they are, and their cell."""

    what: T
    length: int
    cell: bytes

    def fits(self, cells: Cells, log: bytes) -> bool:
        """Tell whether a log begins with the messages that were read."""
        length = cells.length(log)
        return self.length <= length and cells.same(self.cell, prefix(cells, log, self.length))


def prefix(cells: Cells, log: bytes, stop: int) -> bytes:
    """Return the cell of the first messages of a log, and of no other ones."""
    length = cells.length(log)
    return log if stop == length else cells.splice(log, stop, length, [])
