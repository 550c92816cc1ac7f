"""The order of a dict that has a map tree: a list of keys beside the tree, if it is needed.

Python's dicts have an order, and it is part of their value. A short dict is stored in its order. A
map tree is in the order of its keys, so a dict with a tree says beside it how its own order
differs. The keys of a dict begin with an ascending run, its *head*: all of them, if it is in key
order. The *tail* is the rest. A dict without a tail is the tree alone; one with a tail is tagged
`Tag.ORDERED`, and its data is a list: the tree, and the list of the keys of the tail.

The head needs no list: it is the keys that are not in the tail, in key order. So a key that is
added to a large dict is one element more in a list, and a dict that was in key order does not pay
for the keys it had. Both parts depend on the dict alone, never on how it came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import lt
from typing import Protocol

from otolith.core.trees.encoding import FSCK, encoded_key, is_key_order, key_bytes
from otolith.core.trees.layout import Link
from otolith.core.trees.maps import MapTree
from otolith.errors import Corrupt

_EMPTY = b"\x90"
_FEW = 16
"""So many keys are removed from a tail one by one."""


class ListCells(Protocol):
    """What a tail needs of `Cells`: it is the cell of a list."""

    def kind(self, cell: bytes) -> str:
        """Name what a cell holds."""

    def length(self, cell: bytes) -> int:
        """Return how many elements a list has."""

    def loosen(self, cell: bytes) -> bytes:
        """Return a settled cell as a loose one."""

    def settle(self, cell: bytes) -> bytes:
        """Return a loose cell as it stands in a tree."""

    def all_elements(self, cell: bytes) -> list[bytes]:
        """Return the cells of a list."""

    def splice(self, cell: bytes, start: int, stop: int, parts: list[bytes]) -> bytes:
        """Return a list with elements replaced by these loose cells."""


class Tails:
    """Reads and makes tails: loose cells of lists of keys."""

    def __init__(self, cells: ListCells, maps: MapTree) -> None:
        self._cells = cells
        self._maps = maps

    def names(self, tail: bytes) -> list[bytes]:
        """Return the key bytes in a tail."""
        if tail == _EMPTY:
            return []
        if self._cells.kind(tail) != "list":
            raise Corrupt("the order of a dict is not a list of keys", hint=FSCK)
        loosen = self._cells.loosen
        return [
            part[1:] if part[0] & 0xE0 == 0xA0 else key_bytes(loosen(part))  # short text: most are
            for part in self._cells.all_elements(tail)
        ]

    def of(self, names: Sequence[bytes]) -> bytes:
        """Return the tail of all the key bytes of a dict, in their order."""
        tail = names[head_length(names) :]
        return self._cells.splice(_EMPTY, 0, 0, [encoded_key(name) for name in tail])

    def replaced(self, tail: bytes, names: Sequence[bytes]) -> bytes:
        """Return the tail of key bytes in this order, made from one that it resembles."""
        return self._spliced(tail, self.names(tail), names[head_length(names) :])

    def after(
        self, tail: bytes, old: Link, new: Link, edits: Mapping[bytes, bytes | None]
    ) -> bytes:
        """Return the tail after edits of a map; `old` and `new` are its tree before and after."""
        removed = [key for key, cell in edits.items() if cell is None]
        gone = {key for key in removed if self._maps.get(old, key) is not None}
        added: list[bytes] = []
        if new.length - old.length + len(gone):
            put = [key for key, cell in edits.items() if cell is not None]
            added = [key for key in put if self._maps.get(old, key) is None]
        if gone and tail != _EMPTY:
            tail = self._without(tail, gone, new, set(added))
        if not added:
            return tail
        if tail == _EMPTY:
            last = self._maps.last_key(old, gone)
            return self.of(added if last is None else [last, *added])
        end = self._cells.length(tail)
        return self._cells.splice(tail, end, end, [encoded_key(key) for key in added])

    def _without(self, tail: bytes, gone: set[bytes], new: Link, added: set[bytes]) -> bytes:
        """Return a tail without keys that were removed from the map; `added` will follow it."""
        parts = self._cells.all_elements(tail)
        lost = {self._cells.settle(encoded_key(key)) for key in gone}
        places = [at for at, part in enumerate(parts) if part in lost]
        first = key_bytes(self._cells.loosen(parts[0]))
        if len(places) == len(gone) <= _FEW and 0 not in places:
            for at in reversed(places):
                tail = self._cells.splice(tail, at, at + 1, [])
            return tail
        if not places and max(gone) < first:
            return tail  # the head had a higher key, and has it still
        old = self.names(tail)
        names = [key for key in old if key not in gone]
        hidden = added.union(names)
        higher = (key for key, _ in self._maps.items(new, start=names[0])) if names else ()
        if all(key in hidden for key in higher):  # the head ends before the tail begins
            names = names[head_length(names) :]
        return self._spliced(tail, old, names)

    def _spliced(self, tail: bytes, old: Sequence[bytes], new: Sequence[bytes]) -> bytes:
        """Return a tail with the names that it has now, writing only what differs."""
        start, old_stop, new_stop = _middle(old, new)
        if start == old_stop == new_stop:
            return tail
        parts = [encoded_key(name) for name in new[start:new_stop]]
        return self._cells.splice(tail, start, old_stop, parts)


def head_length(names: Sequence[bytes]) -> int:
    """Return how many of these key bytes, from the first, are in ascending order."""
    if is_key_order(names):
        return len(names)
    ascends = map(lt, names, islice(names, 1, None))
    return next(at for at, is_next in enumerate(ascends, 1) if not is_next)


def ordered_entries(
    entries: Iterable[tuple[bytes, bytes]], tail: Sequence[bytes]
) -> list[tuple[bytes, bytes]]:
    """Return the entries of a tree in the order that a tail gives them.

    Raises:
        Corrupt: the tail names a key that is not in the tree, or one twice, or begins too early.
    """
    found, late = dict(entries), set(tail)
    head = [key for key in found if key not in late]
    if len(late) != len(tail):
        raise Corrupt("the order of a dict names a key twice", hint=FSCK)
    if len(head) + len(late) != len(found):
        raise Corrupt("the order of a dict names a key that the dict does not have", hint=FSCK)
    if not head or not tail or tail[0] > head[-1]:
        raise Corrupt("the order of a dict names keys that are in key order", hint=FSCK)
    return [(key, found[key]) for names in (head, tail) for key in names]


def _middle(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int, int]:
    """Return where two lists begin to differ, and where their common end begins in each."""
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    end = next((at for at in range(most - start) if old[-1 - at] != new[-1 - at]), most - start)
    return start, len(old) - end, len(new) - end
