"""Raw bytes of a state put together in sealed memory, for workers to map.

Nobody can change sealed memory, whoever has a descriptor of it, so one copy serves all workers of a
host. It is a cache within a limit: what is dropped is put together from its chunks again.
"""

from __future__ import annotations

import os
from collections import OrderedDict

from otolith.agent.workspace.sealed import seal
from otolith.core import Cells
from otolith.errors import Invalid
from otolith.types import CHUNK_BYTES


class Pieces:
    """Memory by the cell whose raw bytes are in it."""

    def __init__(self, *, limit_bytes: int = 2 << 30) -> None:
        self._limit = limit_bytes
        self._known: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        self._total = 0

    def get(self, cells: Cells, cell: bytes) -> tuple[int, int]:
        """Return a descriptor of the raw bytes of a cell, and how many there are.

        Raises:
            Invalid: they are not raw bytes.
        """
        if cell not in self._known:
            made, size = _put_together(cells, cell)
            self._make_room(size)
            self._known[cell] = made, size
            self._total += size
        self._known.move_to_end(cell)
        return self._known[cell]

    def close(self) -> None:
        """Give all memory back."""
        self._make_room(self._limit + self._total)

    def _make_room(self, size: int) -> None:
        while self._known and self._total + size > self._limit:
            _, (descriptor, freed) = self._known.popitem(last=False)
            os.close(descriptor)
            self._total -= freed


def _is_raw(cells: Cells, cell: bytes) -> bool:
    """Tell by its first element whether a list may be raw bytes; only that is read."""
    first = next(iter(cells.elements(cell, 0, 1)), None)
    if first is not None and cells.kind(first) == "list":
        first = next(iter(cells.elements(first, 0, 1)), None)
    return first is not None and cells.kind(first) == "bytes"


def _put_together(cells: Cells, cell: bytes) -> tuple[int, int]:
    if not _is_raw(cells, cell):
        raise Invalid("a list is no raw bytes", hint="read it chunk by chunk")
    return seal(_raws(cells.load_all(cells.elements(cell))))


def _raws(parts: list[object]) -> list[list[bytes]]:
    """Return raw bytes, each as its chunks: one, or the many that a long text is cut into."""
    raws: list[list[bytes]] = []
    for each in [parts] if parts and type(parts[0]) is bytes else parts:
        if type(each) is not list or any(type(chunk) is not bytes for chunk in each):
            raise Invalid("a list is no raw bytes", hint="read it chunk by chunk")
        if any(len(chunk) != CHUNK_BYTES for chunk in each[:-1]):
            raise Invalid("raw bytes are cut at other places", hint="read it chunk by chunk")
        raws.append(each)
    return raws
