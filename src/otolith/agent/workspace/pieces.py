"""Raw bytes of a state put together in sealed memory, for workers to map.

Nobody can change sealed memory, whoever has a descriptor of it, so one copy serves all workers of a
host. It is a cache within a limit: what is dropped is put together from its chunks again.
"""

from __future__ import annotations

import fcntl
import os
from collections import OrderedDict

from otolith.core import Cells
from otolith.errors import Invalid
from otolith.types import CHUNK_BYTES

_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # nobody seals, shrinks, grows or writes to it any more
_ADD_SEALS = 1033


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


def _put_together(cells: Cells, cell: bytes) -> tuple[int, int]:
    descriptor = os.memfd_create("otolith", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        size = 0
        chunks = cells.load_all(cells.elements(cell))
        for at, chunk in enumerate(chunks):
            is_last = at == len(chunks) - 1
            if type(chunk) is not bytes or not (is_last or len(chunk) == CHUNK_BYTES):
                raise Invalid("a list is no raw bytes", hint="read it chunk by chunk")
            os.writev(descriptor, [chunk])
            size += len(chunk)
        fcntl.fcntl(descriptor, _ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, size
