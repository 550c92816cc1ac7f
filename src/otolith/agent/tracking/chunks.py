"""The imprint of raw bytes: arrays, columns and buffers, a fingerprint to a chunk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xxhash import xxh3_128_intdigest

from otolith.agent.tracking.imprint import Imprint, Imprints, changing
from otolith.types import Raw


class Chunks(Imprint):
    """A fingerprint of all bytes, to see whether they changed; one of each chunk, to see where."""

    __slots__ = ("_prints", "_whole")

    def __init__(self, cell: bytes, whole: tuple[int, int], prints: list[int]) -> None:
        super().__init__(cell)
        self._whole = whole
        self._prints = prints

    @classmethod
    def of(cls, value: object, cell: bytes, how: Imprints) -> Imprint | None:
        if type(value) is not Raw:
            return None
        return cls(cell, _print(value), _prints(value))

    def describes(self, value: object) -> bool:
        return type(value) is Raw

    def again(self, value: Any, how: Imprints) -> Imprint:
        whole = _print(value)
        if whole == self._whole:
            return self
        prints, old = _prints(value), self._prints
        chunks, cell = value.chunks(), self.cell
        differ = [at for at, new in enumerate(prints) if at >= len(old) or new != old[at]]
        for start, stop in reversed(runs(differ)):
            cells = [how.cells.chunk_cell(chunk) for chunk in chunks[start:stop]]
            cell = how.cells.splice(cell, start, min(stop, len(old)), cells)
        if len(prints) < len(old):
            cell = how.cells.splice(cell, len(prints), len(old), [])
        if _prints(value) != prints or _print(value) != whole:
            raise changing(value)
        return Chunks(cell, whole, prints) if how.cells.is_grown(cell) else how.fresh(value)


def _print(raw: Raw) -> tuple[int, int]:
    return len(raw.view), xxh3_128_intdigest(raw.view)


def _prints(raw: Raw) -> list[int]:
    return [xxh3_128_intdigest(chunk) for chunk in raw.chunks()]


def runs(positions: Iterable[int]) -> list[tuple[int, int]]:
    """Return where positions that follow each other start and stop; they come in order."""
    found: list[tuple[int, int]] = []
    for at in positions:
        if found and found[-1][1] == at:
            found[-1] = (found[-1][0], at + 1)
        else:
            found.append((at, at + 1))
    return found
