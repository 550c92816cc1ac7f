"""What makes a batch well formed, the same for every store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge

from blake3 import blake3

from otolith.errors import BadRef, Invalid
from otolith.stores.base import Batch, Move, Object, Swap
from otolith.types import Hash

HASH_BYTES = 32
FIND_BYTES = 2
TOKEN_LIMIT = 1 << 63


def check_batch(batch: Batch) -> None:
    """Refuse a batch that no store could keep its promises for.

    Raises:
        Invalid: an object is not what its hash says, a ref is swapped twice, a hash or token
            has the wrong size.
        BadRef: a ref has no name, or one that is not text.
    """
    for item in batch.objects:
        check_object(item)
    check_frame(batch)


def check_object(item: Object) -> None:
    """Refuse an object that is not what its hash says.

    Raises:
        Invalid: it is not.
    """
    if blake3(item.data).digest() != item.hash:
        raise Invalid(
            f"object {item.hash.hex()[:12]} does not hash to its name",
            hint="name an object by the BLAKE3 of its bytes",
        )


def check_frame(batch: Batch) -> None:
    """Refuse a batch for anything but its objects.

    Raises:
        Invalid, BadRef: as `check_batch` says.
    """
    if batch.swaps:
        _check_swaps(batch.swaps)
    if not _is_text(batch.note):
        raise Invalid("the note of a batch is not text", hint="leave out lone surrogates")
    for needed in batch.needs:
        _check_hash(needed)
    for name, token in batch.fences.items():
        if not 0 <= token < TOKEN_LIMIT or not _is_text(name):
            raise Invalid(
                f"fence {name!r}: token {token} is not one of 63 bits", hint="count up from 0"
            )


def check_prefix(prefix: bytes) -> None:
    """Refuse a prefix so short that it would match everything.

    Raises:
        Invalid: it has fewer than two bytes, or more than a hash.
    """
    if not FIND_BYTES <= len(prefix) <= HASH_BYTES:
        raise Invalid(
            f"a prefix of {len(prefix)} bytes cannot be looked up",
            hint=f"give {FIND_BYTES} to {HASH_BYTES} bytes of the hash",
        )


def digest(data: bytes) -> Hash:
    """Return the name of an object."""
    return Hash(blake3(data).digest())


def _check_swaps(swaps: Sequence[Swap]) -> None:
    names: set[str] = set()
    for name, old, new in swaps:
        if not name or "\0" in name or not _is_text(name):
            raise BadRef(f"{name!r} cannot be the name of a ref", hint="use readable text")
        if name in names:
            raise Invalid(f"{name} is swapped twice in one batch", hint="swap it once")
        names.add(name)
        for side in (old, new):
            if side is not None:
                _check_hash(side)


def _is_text(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_hash(value: bytes) -> None:
    if len(value) != HASH_BYTES:
        raise Invalid(f"{value.hex()[:16]!r} is not a hash of {HASH_BYTES} bytes")


def newest_first(histories: Iterable[Sequence[Move]]) -> list[Move]:
    """Return the histories of several refs, each newest first, as one."""
    return list(merge(*histories, key=lambda move: -move.time))
