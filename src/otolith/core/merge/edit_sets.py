"""The merge of documents: each side is a set of edits, and the merge has those of both.

A document is stored as runs of edits by their writers (`types.RunKey`). The edits of a writer are
numbered, and a side that has one of them has all before it; so what a side has of a writer is told
by one number, and the merge is decided writer by writer, without looking at the edits:

1. The side with more edits of a writer wins. Runs that are cut otherwise but have the same edits
   are taken from the side with fewer of them.
2. A side with fewer than the base went back (a rollback). What it took away stays away, unless the
   other side went on from there.
3. An edit is made on others, of any writer. Those that an edit in the merge was made on are in the
   merge, too, whoever took them away: without them it has no place.

By rule 1 alone the merge is the least upper bound of both sides, so it makes no difference who
merges whom, in which order, and how often.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from otolith.core.trees.cells import EMPTY_MAP, Cells
from otolith.core.trees.encoding import FSCK
from otolith.errors import Corrupt
from otolith.types import RunKey

_Run: TypeAlias = tuple[RunKey, bytes]
"""A run, and the cell of its edits."""

_Runs: TypeAlias = list[_Run]
"""The runs of one writer, in their order."""


class DocumentMerge:
    """The merge of one document; each side is the cell of a map of runs, and the base may be None.

    Raises:
        Corrupt: a side is not made of runs.
    """

    def __init__(self, cells: Cells, base: bytes | None, ours: bytes, theirs: bytes) -> None:
        self._cells = cells
        self._base = EMPTY_MAP if base is None else base
        self._sides = ours, theirs
        self._chosen: dict[int, _Runs] = {}

    def merged(self) -> bytes:
        """Return the cell of the merged runs."""
        new: _Runs = []
        has_gone_back = False
        for writer in self._changed_writers():
            base, *sides = (self._runs(each, writer) for each in (self._base, *self._sides))
            self._chosen[writer] = chosen = self._choice(_count(base), sides)
            in_all = min(_count(base), *map(_count, sides))
            new += [run for run in chosen if run[0].stop > in_all]
            has_gone_back |= in_all < _count(base)
        if has_gone_back:
            self._bring_back(new)
        edits: dict[bytes, bytes | None] = {}
        for writer, chosen in self._chosen.items():
            ours = self._runs(self._sides[0], writer)
            edits |= {self._key(run): None for run, _ in ours}
            edits |= {self._key(run): self._cells.loosen(cell) for run, cell in chosen}
        return self._cells.edit_map(self._sides[0], edits, is_table=True)

    def _changed_writers(self) -> list[int]:
        """Return the writers of which a side has other runs than the base."""
        differences = (self._cells.map_differences(self._base, side) for side in self._sides)
        return sorted({self._run(key).writer for found in differences for key, _, _ in found})

    def _choice(self, before: int, sides: list[_Runs]) -> _Runs:
        """Return the runs of a writer that are merged (rules 1 and 2); the base has `before`."""
        counts = list(map(_count, sides))
        count = max(counts) if max(counts) > before else min(counts)
        return self._simplest([side for side in sides if _count(side) == count])

    def _simplest(self, sides: list[_Runs]) -> _Runs:
        """Return the fewest runs, of some with the same edits; the same whoever is asked first."""
        if len(sides) == 1 or sides[0] == sides[1]:
            return sides[0]
        settle = self._cells.settle
        return min(sides, key=lambda runs: (len(runs), [(run, settle(c)) for run, c in runs]))

    def _bring_back(self, new: _Runs) -> None:
        """Choose the runs, too, that those not in all three were made on (rule 3)."""
        waiting = list(new)
        while waiting:
            for writer, number in self._made_on(waiting.pop()):
                chosen = self._chosen.get(writer)
                if chosen is None or _count(chosen) > number:
                    continue
                found = [
                    runs[: at + 1]
                    for runs in (self._runs(side, writer) for side in self._sides)
                    for at, (run, _) in enumerate(runs)
                    if run.start <= number < run.stop
                ]
                if found:  # else the store is damaged, and reading the document says so
                    self._chosen[writer] = more = self._simplest(found)
                    waiting += [run for run in more if run[0].stop > _count(chosen)]

    def _made_on(self, run: _Run) -> Iterator[tuple[int, int]]:
        """Yield which edits, by writer and number, the edits of a run were made on."""
        key, stored = run[0], cast("Any", self._cells.load(run[1]))
        try:
            others, changes = stored
            starts = range(0, len(others), 8)
            writers = [key.writer, *(int.from_bytes(others[at : at + 8], "big") for at in starts)]
            for _, deps, _, _ in changes:
                yield from ((writers[w], n) for w, n in zip(deps[::2], deps[1::2], strict=True))
        except (TypeError, ValueError, LookupError):
            raise _corrupt() from None

    def _runs(self, side: bytes, writer: int) -> _Runs:
        """Return the runs of a writer on one side."""
        found: _Runs = []
        for name, cell in self._cells.entries_from(side, self._key(RunKey(writer, 0, 0))):
            run = self._run(name)
            if run.writer != writer:
                break
            found.append((run, cell))
        return found

    def _run(self, name: bytes) -> RunKey:
        found = RunKey.load(self._cells.encoding.unkey(name))
        if found is None:
            raise _corrupt()
        return found

    def _key(self, run: RunKey) -> bytes:
        return self._cells.encoding.key(run.dump())


def _count(runs: _Runs) -> int:
    """Return how many edits of a writer there are."""
    return runs[-1][0].stop if runs else 0


def _corrupt() -> Corrupt:
    return Corrupt("a document is not stored as runs of edits", hint=FSCK)
