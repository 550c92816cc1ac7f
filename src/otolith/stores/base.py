"""The Store contract: immutable objects, named refs, and one atomic write.

A store keeps two things. *Objects* are bytes named by their hash: they never change, so they can
be cached, copied and retried freely. *Refs* are names for hashes: they are the only thing that
needs agreement. `write` is the only way in, and it is all or nothing.

`otolith.testing.StoreContract` proves an implementation; see `docs/how-to/write-a-store.md`.

What makes a batch well formed, the same for every store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import NamedTuple, Protocol, runtime_checkable

from blake3 import blake3

from otolith.errors import BadRef, Invalid
from otolith.types import Hash

Links = Callable[[bytes], Iterable[Hash]]
"""Given the bytes of an object, the hashes of the objects it needs."""


class Object(NamedTuple):
    """One object to write. `base` names an older object it resembles, as a hint for compression."""

    hash: Hash
    data: bytes
    base: Hash | None = None


class Swap(NamedTuple):
    """Move a ref from the hash it is known to have to another; None means absent."""

    name: str
    old: Hash | None
    new: Hash | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything one write does: all of it happens, or nothing.

    `objects` come in an order in which each follows those it needs (a collector drops them the
    other way round). `needs` are objects that are not part of the batch and must still be there
    when it lands, with everything below them. A ref appears in `swaps` once; a swap whose new value
    is its old one is a check and leaves no move.
    A fence is refused if the store has seen a higher token under that name.
    `time` (microseconds) and `note` go into the history of each swapped ref.
    """

    objects: Sequence[Object] = ()
    swaps: Sequence[Swap] = ()
    fences: Mapping[str, int] = field(default_factory=dict)
    needs: Sequence[Hash] = ()
    time: int = 0
    note: str = ""


class Move(NamedTuple):
    """One entry of a ref's history (the reflog)."""

    name: str
    old: Hash | None
    new: Hash | None
    time: int
    note: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do, as data."""

    verified: bool = False  # read() re-hashes, so a flipped bit is an error and never an answer
    durable: bool = False  # an acknowledged write survives the process
    shared: bool = False  # other processes may have it open too
    collects: bool = False  # it is also a Collector


@dataclass(frozen=True, slots=True)
class Usage:
    """How much a store holds. `stored_bytes` is what it takes at rest."""

    objects: int
    stored_bytes: int
    limit_bytes: int | None = None


class Store(Protocol):
    """Objects and refs. Safe to call from several threads."""

    @property
    def capabilities(self) -> Capabilities: ...

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; absent ones are left out.

        Raises:
            Corrupt: an object is there but its bytes are not what its hash says.
        """
        ...

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically. Writing an object again is harmless.

        Raises:
            StaleRef: a ref did not have its old value. Nothing was written.
            Fenced: a fence token is lower than one seen before. Nothing was written.
            NotFound: one of `needs` is gone. Nothing was written.
            Invalid: the batch is not well formed (see `rules`). Nothing was written.
            Full, Busy, ReadOnly, Closed: as they say. Nothing was written.
        """
        ...

    def ref(self, name: str) -> Hash | None:
        """Return the hash a ref names, or None."""
        ...

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        ...

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first; it outlives the ref."""
        ...

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` object hashes that start with these bytes (at least two)."""
        ...

    def usage(self) -> Usage:
        """Return how much is stored."""
        ...

    def close(self) -> None:
        """Release everything. Closing twice is harmless; any other call then raises Closed."""
        ...


@dataclass(frozen=True, slots=True)
class Collected:
    """What a garbage collection did."""

    kept_objects: int
    dropped_objects: int
    dropped_moves: int
    freed_bytes: int
    longest_block_seconds: float  # the longest time a writer could have been kept waiting
    erased: bool = False  # the store's own files hold no copy of what was dropped
    residue: str = ""  # why they may, if it was to be erased and could not be


@runtime_checkable
class SelfChecking(Protocol):
    """A store that remembers what it has read, or keeps more than objects, refs and moves."""

    def reread(self) -> Store:
        """Return this store without its memory: every answer comes from where it is kept."""
        ...

    def check(self) -> list[tuple[str, str]]:
        """Return what is broken beside objects, refs and moves: names, and what is wrong."""
        ...


@runtime_checkable
class Collector(Protocol):
    """A store that can drop what no ref reaches, beside readers and writers."""

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> Collected:
        """Drop every object that no ref, and neither end of a remembered move, reaches.

        Moves older than `forget_moves_before` (microseconds) are forgotten first, from the old end
        of each history up to its first move that is young enough.
        With `erase`, no byte of what is dropped stays in what the store keeps; `Collected` tells
        whether that was done.
        `progress` is called with a phase, how far it is, and how far it will go (0 if not known).
        """
        ...


@runtime_checkable
class Prefetcher(Protocol):
    """A store that can make use of objects before they are written."""

    def expect(self, objects: Sequence[bytes]) -> list[Hash]:
        """Make objects ready that will probably be written soon, and return their names.

        Nothing is written, and nothing is promised.
        """
        ...


HASH_BYTES = 32
FIND_BYTES = 2
TOKEN_LIMIT = 1 << 63
TIME_LIMIT = 1 << 63
OBJECT_LIMIT_BYTES = 64 << 20


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
    """Refuse an object that is not what its hash says, or too large to be read again.

    Raises:
        Invalid: it is.
    """
    check_size(item.data)
    if blake3(item.data).digest() != item.hash:
        raise Invalid(
            f"object {item.hash.hex()[:12]} does not hash to its name",
            hint="name an object by the BLAKE3 of its bytes",
        )


def check_size(data: bytes) -> None:
    """Refuse an object that is too large to be read again.

    Raises:
        Invalid: it is.
    """
    if len(data) > OBJECT_LIMIT_BYTES:
        raise Invalid(
            f"an object has {len(data)} bytes, at most {OBJECT_LIMIT_BYTES} can be read again",
            hint="cut it into several objects",
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
        if not name or not _is_text(name):
            raise Invalid(f"{name!r} cannot be the name of a fence", hint="use readable text")
        if type(token) is not int or not 0 <= token < TOKEN_LIMIT:
            raise Invalid(
                f"fence {name!r}: token {token} is not an int of 63 bits", hint="count up from 0"
            )
    if type(batch.time) is not int or not 0 <= batch.time < TIME_LIMIT:
        raise Invalid(
            f"the time of a batch is {batch.time!r}",
            hint="a clock gives microseconds since 1970, an int of 63 bits",
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
