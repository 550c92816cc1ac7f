"""What was read of conversations lately, so that it is not read again.

A shelf belongs to the cells of one state. What is on it is named by content (a cell, or the id of a
message), so it never has to be thrown away because something changed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from otolith.agent.conversation.bookmarks import Bookmark
from otolith.agent.conversation.message import Message
from otolith.agent.conversation.searching import Index
from otolith.core import Cells

if TYPE_CHECKING:
    from otolith.agent.conversation.references import Tracker

_MOST, _LONGEST = 4096, 1 << 16
_MOST_COUNTS = 1 << 16


class Shelf:
    """Messages by their cells, and what was worked out of whole threads."""

    def __init__(self) -> None:
        self.messages: OrderedDict[bytes, Message] = OrderedDict()
        self.indices: dict[str, Bookmark[Index]] = {}
        """The words of threads, by name."""
        self.trackers: dict[str, Bookmark[Tracker]] = {}
        """What threads speak of, by name."""
        self.counts: dict[tuple[str, str], int] = {}
        """What other counters than the estimate said, by how they count and the id of a message."""
        self.silent: dict[str, Bookmark[None]] = {}
        """By the name of a thread: up to where no user has spoken."""
        self.totals: dict[str, Bookmark[int]] = {}
        """By the name of a thread: its tokens."""

    @classmethod
    def of(cls, cells: Cells) -> Shelf:
        """Return the shelf of a state."""
        return _SHELVES.setdefault(cells, cls())

    def keep(self, cell: bytes, message: Message, size: int) -> None:
        """Keep a message, if it is not very long; the oldest goes when there are many."""
        if size > _LONGEST:
            return
        self.messages[cell] = message
        if len(self.counts) > _MOST_COUNTS:
            self.counts.clear()
        if len(self.messages) > _MOST:
            self.messages.popitem(last=False)


_SHELVES: WeakKeyDictionary[Cells, Shelf] = WeakKeyDictionary()
