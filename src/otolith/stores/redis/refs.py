"""Refs and their histories on a Redis server, as moves.

A move is one byte that says which hashes follow (1: the old one, 2: the new one), these hashes, the
time in 8 bytes, and the note.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TypeVar

from otolith.errors import Corrupt
from otolith.stores.base import HASH_BYTES, Move
from otolith.stores.redis import scripts
from otolith.stores.redis.client import Client
from otolith.types import Hash

_T = TypeVar("_T")
_TIME = struct.Struct(">q")
_HAS_OLD, _HAS_NEW = 1, 2
_HISTORIES_TOGETHER = 500


def parts(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Yield items in parts of at most `size`, which one call can take."""
    return (items[at : at + size] for at in range(0, len(items), size))


def encode_stamp(time: int, note: str) -> bytes:
    """Return the end of a move, which all moves of a batch share: time and note."""
    return _TIME.pack(time) + note.encode()


def decode_move(name: str, entry: bytes) -> Move:
    """Return a move.

    Raises:
        Corrupt: it has other bytes.
    """
    try:
        flags, at = entry[0], 1
        sides: list[Hash | None] = []
        for flag in (_HAS_OLD, _HAS_NEW):
            sides.append(Hash(entry[at : at + HASH_BYTES]) if flags & flag else None)
            at += HASH_BYTES if flags & flag else 0
        (time,) = _TIME.unpack_from(entry, at)
        note = entry[at + _TIME.size :].decode()
    except (IndexError, struct.error, UnicodeDecodeError):
        raise Corrupt(f"a move of {name} cannot be read", hint="restore it from a backup") from None
    return Move(name, sides[0], sides[1], time, note)


def ref_names(client: Client, prefix: str = "") -> list[str]:
    """Return the names of all refs that exist or have a history, in order."""
    return [name.decode() for name in client.run(scripts.REFS, prefix, 1)[::2]]


def entries(
    client: Client, names: Sequence[str], last: int | None = None
) -> dict[str, list[bytes]]:
    """Return the histories of refs as they are stored, oldest first; only the last moves of each.

    A name whose ref has expired has none.
    """
    found: dict[str, list[bytes]] = {}
    for some in parts(names, _HISTORIES_TOGETHER):
        replies = client.run(scripts.MOVES, 0 if last is None else -last, *some)
        found.update(zip(some, replies, strict=True))
    return found


def histories(
    client: Client, names: Sequence[str], last: int | None = None
) -> dict[str, list[Move]]:
    """Return the histories of refs, oldest first; only the last moves of each."""
    found = entries(client, names, last)
    return {name: [decode_move(name, entry) for entry in past] for name, past in found.items()}
