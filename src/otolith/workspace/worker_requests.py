"""The replies of a host to a worker: objects, memory, and whether a pickle was signed here.

A reply has a limit, whatever is requested: a request of a few bytes can name the same object a
million times. The worker requests again what does not fit.

Raw bytes are joined into one block of sealed memory, which workers map. Nobody can change sealed
memory, so one copy serves all workers of a host. `RawMemoryCache` holds such copies within a limit;
a copy that was dropped is made again from its chunks.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from hmac import compare_digest
from itertools import islice
from typing import TypeAlias

import msgspec

from otolith.core import Branch, Cells, Claim, cell_claims, claims, totals
from otolith.errors import Error, Invalid
from otolith.types import CHUNK_BYTES, Hash
from otolith.workspace.wire import seal

Signatures: TypeAlias = Callable[[str, bytes], Sequence[bytes]]
"""Returns the signatures of this repo, by each key, for a place and the cell stored there."""

_LIST = b"l"
_PREFETCH_BYTES = 4 << 20
_PREFETCH_OBJECTS = 4096
_REPLY_BYTES = 64 << 20
_REPLY_OBJECTS = 1 << 16
_OBJECTS_PER_READ = 64
_MAPPED_BYTES = 1 << 20  # values from this size on are mapped, not read
_READ_FIRST = ("vars", "ambient", "classes", "data", "objects", "signatures")
_UNREADABLE = (
    *(Error, OSError, AttributeError, LookupError, TypeError, ValueError, RecursionError),
    *(MemoryError, OverflowError, struct.error, msgspec.MsgspecError),
)
"""What bytes can raise that are not a cell."""


class RequestHandler:
    """Answers the requests of workers from a state: from what is stored and what is staged."""

    def __init__(self, state: Branch, signatures: Signatures) -> None:
        self._state = state
        self._signatures = signatures
        self._memory = RawMemoryCache()

    def read(self, hashes: Sequence[bytes]) -> dict[Hash, bytes]:
        """Return the objects that exist, by hash."""
        objects = self._state.cells.objects
        wanted = list(map(Hash, hashes))
        found = {hash: objects.fresh[hash].data for hash in wanted if hash in objects.fresh}
        missing = [hash for hash in wanted if hash not in found]
        return found | (objects.stored.store.read(missing) if missing else {})

    def read_within(
        self, hashes: Sequence[bytes], *, limit_bytes: int = _REPLY_BYTES
    ) -> list[bytes | None]:
        """Return the objects of the first hashes, None for a missing one, up to a limit."""
        replies: list[bytes | None] = []
        size = 0
        for start in range(0, min(len(hashes), _REPLY_OBJECTS), _OBJECTS_PER_READ):
            some = hashes[start : start + _OBJECTS_PER_READ]
            found = self.read(some)
            for hash in some:
                replies.append(data := found.get(Hash(hash)))
                size += len(data or b"")
                if size >= limit_bytes:
                    return replies
        return replies

    def read_roots(self, roots: Mapping[str, bytes]) -> list[bytes]:
        """Return the root objects of tables, which a worker reads before anything else."""
        linked = [claim for name in _READ_FIRST for claim in cell_claims(roots.get(name, b"\xc0"))]
        return list(self.read([claim.hash for claim in linked if _is_short(claim)]).values())

    def read_below(self, found: Sequence[bytes | None]) -> list[bytes]:
        """Return the objects below short lists: who reads such a list mostly reads all of it."""
        more: list[bytes] = []
        level = [data for data in found if data is not None and _is_short_list(data)]
        seen: set[Hash] = set()
        size = 0
        while level and size < _PREFETCH_BYTES and len(seen) < _PREFETCH_OBJECTS:
            wanted = list(islice(_linked(level, seen), _PREFETCH_OBJECTS - len(seen)))
            replies = self.read_within(wanted, limit_bytes=_PREFETCH_BYTES - size)
            level = [data for data in replies if data is not None]
            more += level
            size += sum(map(len, level))
        return more

    def raw_memory(self, cell: bytes) -> tuple[int, int] | None:
        """Return a descriptor of the raw bytes of a cell and their length; None if it has none."""
        try:
            return self._memory.get(self._state.cells, cell)
        except _UNREADABLE:
            return None

    def is_signed(self, place: str, cell: bytes, signature: bytes) -> bool:
        """Tell whether this repo has signed the pickle at a place."""
        return any(compare_digest(each, signature) for each in self._signatures(place, cell))

    def close(self) -> None:
        """Free all memory."""
        self._memory.close()


class LocalHost:
    """The `Host` of a session in this same process, for variables that the user trusts."""

    def __init__(self, requests: RequestHandler) -> None:
        self._requests = requests
        self.read, self.is_signed = requests.read, requests.is_signed

    def map(self, cell: bytes) -> None:
        """Refuse to map: what is loaded here belongs to the user's process."""

    def send_early(self, objects: Sequence[bytes]) -> bool:
        """Accept no objects: nothing is stored of what is done here."""
        return False


def _is_short(claim: Claim) -> bool:
    return claim.totals.size < _MAPPED_BYTES


def _is_short_list(data: bytes) -> bool:
    total = totals(data) if data[:1] == _LIST else None
    return total is not None and total.size < _MAPPED_BYTES


def _linked(lists: list[bytes], seen: set[Hash]) -> Iterator[bytes]:
    """Yield the hashes of short objects that these link to, each once."""
    for data in lists:
        for claim in claims(data):
            if _is_short(claim) and claim.hash not in seen:
                seen.add(claim.hash)
                yield claim.hash


class RawMemoryCache:
    """Sealed memory with raw bytes, by cell; the least recently used is dropped first."""

    def __init__(self, *, limit_bytes: int = 2 << 30) -> None:
        self._limit = limit_bytes
        self._known: OrderedDict[bytes, tuple[int, int]] = OrderedDict()
        self._total = 0

    def get(self, cells: Cells, cell: bytes) -> tuple[int, int]:
        """Return a descriptor of the raw bytes of a cell, and their length.

        Raises:
            Invalid: the cell does not hold raw bytes.
        """
        if cell not in self._known:
            memory, size = _join(cells, cell)
            self._make_room(size)
            self._known[cell] = memory, size
            self._total += size
        self._known.move_to_end(cell)
        return self._known[cell]

    def close(self) -> None:
        """Free all memory."""
        self._make_room(self._limit + self._total)

    def _make_room(self, size: int) -> None:
        """Free memory until a size fits into the limit."""
        while self._known and self._total + size > self._limit:
            _, (descriptor, freed) = self._known.popitem(last=False)
            os.close(descriptor)
            self._total -= freed


def _join(cells: Cells, cell: bytes) -> tuple[int, int]:
    """Return sealed memory with all raw bytes of a cell."""
    # By its first element, the only one that is read for this, a list may be raw bytes or not.
    first = next(iter(cells.elements(cell, 0, 1)), None)
    if first is not None and cells.kind(first) == "list":
        first = next(iter(cells.elements(first, 0, 1)), None)
    if first is None or cells.kind(first) != "bytes":
        raise Invalid("this list does not hold raw bytes", hint="read it chunk by chunk")
    return seal(_raw_chunks(cells.load_all(cells.elements(cell))))


def _raw_chunks(parts: list[object]) -> list[list[bytes]]:
    """Return raw bytes as lists of chunks: one list, or the many that a long text is cut into."""
    found: list[list[bytes]] = []
    for each in [parts] if parts and type(parts[0]) is bytes else parts:
        if type(each) is not list or any(type(chunk) is not bytes for chunk in each):
            raise Invalid("this list does not hold raw bytes", hint="read it chunk by chunk")
        if any(len(chunk) != CHUNK_BYTES for chunk in each[:-1]):
            raise Invalid("raw bytes have chunks of other sizes", hint="read it chunk by chunk")
        found.append(each)
    return found
