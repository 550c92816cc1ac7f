"""Documents as format 1 stores them: their characters, and their texts where the order is plain.

Written from the page of the format alone; what two writers put in at one place is not put in order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

Id = tuple[int, int]
"""A writer, and the number of an edit."""


class Change(NamedTuple):
    """Edits of one writer, and what they were made on."""

    time: int
    first: Id
    length: int
    deps: list[Id]
    edits: list[tuple[Any, ...]]  # (position, text), or (position, n, first of the characters)


class Document:
    """The edits of a document, given as pairs of keys and runs."""

    def __init__(self, entries: list[tuple[bytes, Any]]) -> None:
        counts: dict[int, int] = {}
        self.changes: list[Change] = []
        for key, run in entries:
            writer, start, stop = struct.unpack(">QII", key)
            if counts.get(writer, 0) != start or not start < stop < 2**31:
                raise ValueError("the runs of a writer follow each other")
            counts[writer] = stop
            self.changes += _changes(writer, start, stop, run)
        self.changes.sort()
        self._check(counts)

    def _check(self, counts: dict[int, int]) -> None:
        times = {
            (each.first[0], each.first[1] + at): each.time + at
            for each in self.changes
            for at in range(each.length)
        }
        for each in self.changes:
            if each.time != max((times[dep] + 1 for dep in each.deps), default=0):
                raise ValueError("a change is one later than what it was made on")
        if len(times) != sum(counts.values()):
            raise ValueError("an edit comes twice")

    def characters(self) -> list[str]:
        """Return the characters that were put in and not taken out, sorted."""
        found: dict[Id, str] = {}
        gone: set[Id] = set()
        for id, edit in self._numbered():
            if isinstance(edit[1], str):
                found |= {(id[0], id[1] + at): letter for at, letter in enumerate(edit[1])}
            else:
                writer, number = edit[2]
                gone |= {(writer, number + at) for at in range(abs(edit[1]))}
        return sorted(letter for id, letter in found.items() if id not in gone)

    def _numbered(self) -> Iterator[tuple[Id, tuple[Any, ...]]]:
        for each in self.changes:
            writer, number = each.first
            for edit in each.edits:
                yield (writer, number), edit
                number += len(edit[1]) if isinstance(edit[1], str) else abs(edit[1])

    def is_one_line(self) -> bool:
        """Tell whether each change was made on all the others before it."""
        ends = [(each.first[0], each.first[1] + each.length - 1) for each in self.changes]
        pairs = zip(self.changes[1:], ends, strict=False)
        return all(before in change.deps for change, before in pairs)

    def text(self) -> str:
        """Return the text, made edit by edit; only if it is one line."""
        text = ""
        for _, (position, what, *_) in self._numbered():
            if isinstance(what, str):
                text = text[:position] + what + text[position:]
            else:
                start = position if what > 0 else position + what + 1
                text = text[:start] + text[start + abs(what) :]
        return text


def _changes(writer: int, start: int, stop: int, run: Any) -> Iterator[Change]:
    others, changes = run
    writers = [writer, *struct.unpack(f">{len(others) // 8}Q", others)]
    for time, deps, numbers, text in changes:
        first, at, rest = start, 0, list(numbers)
        edits: list[tuple[Any, ...]] = []
        while rest:
            position, count = rest[:2]
            if count:
                edits.append((position, text[at : at + count]))
                at, rest = at + count, rest[2:]
            else:
                count, index, number = rest[2:5]
                edits.append((position, count, (writers[index], number)))
                rest = rest[5:]
            start += abs(count)
        made_on = [(writers[deps[at]], deps[at + 1]) for at in range(0, len(deps), 2)]
        yield Change(time, (writer, first), start - first, made_on, edits)
    if start != stop:
        raise ValueError("a run has as many edits as its key says")
