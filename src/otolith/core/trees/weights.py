"""How many bytes a cell would take if it were encoded in full; the inline rule needs it."""

from __future__ import annotations

from otolith.core.trees.encoding import extension_header_size
from otolith.core.trees.layout import MARK, TAGGED_KIND, read_link


def full_size(cell: bytes) -> int:
    """Return the length of the full encoding of the value in a cell."""
    if cell[0] != MARK:
        return len(cell)
    if cell[1] == TAGGED_KIND:
        payload = full_size(cell[3:])
        return extension_header_size(payload) + payload
    return read_link(cell, 2).size


def entry_size(key: bytes, cell: bytes) -> int:
    """Return the length of one entry of a map, encoded in full."""
    size = len(key)
    if key[:1] == b"\xff":
        size -= 1
    else:
        size += 1 if size < 32 else 2 if size < 256 else 3 if size < 65536 else 5
    return size + (len(cell) if cell[0] != MARK else full_size(cell))
