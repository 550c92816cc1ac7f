"""Bytes to Hash, and keys to the height at which they end a node; nothing else."""

from __future__ import annotations

from blake3 import blake3
from xxhash import xxh3_64_intdigest

from otolith.types import Hash

FANOUT_BITS = 5
"""A node holds 2**5 entries on average."""

_MASK = (1 << FANOUT_BITS) - 1
_TALLEST = 64 // FANOUT_BITS


def digest(data: bytes) -> Hash:
    """Name an object by the BLAKE3-256 of its plain bytes."""
    return Hash(blake3(data).digest())


def height(key: bytes, salt: int) -> int:
    """Return how many levels of nodes a key ends: the zero bits its hash ends with, by fives."""
    bits = xxh3_64_intdigest(key, salt)
    levels = 0
    while bits & _MASK == 0 and levels < _TALLEST:
        levels += 1
        bits >>= FANOUT_BITS
    return levels


def is_cut(item: bytes, salt: int) -> bool:
    """Tell whether an element of a sequence may end a node."""
    return xxh3_64_intdigest(item, salt) & _MASK == 0
