"""What a host answers to a worker: objects, memory, and whether a pickle can be trusted.

`Arrivals` takes objects that a worker hands over while a step is still being captured, and makes
them ready beside it. `Pieces` puts raw bytes of a state together in sealed memory, for workers to
map. Nobody can change sealed memory, so one copy serves all workers of a host. It is a cache within
a limit: what is dropped is put together from its chunks again.

An answer has a limit, whatever is asked for: a question of a few bytes can name the same object a
million times. What does not fit into it has to be asked for again.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hmac import compare_digest
from itertools import islice
from typing import Protocol, TypeAlias

import msgspec

from otolith.core import Branch, Cells, Claim, cell_claims, claims, totals
from otolith.errors import Error, Invalid
from otolith.stores import Preparer
from otolith.types import CHUNK_BYTES, Hash
from otolith.workspace.result_check import Look, Seen
from otolith.workspace.sealed_memory import check_sealed, cut, seal

_THREADS = 2


class Arrivals:
    """What has arrived of one step. Two threads look at it and let the store get ready for it."""

    def __init__(self, cells: Cells, *, limit_bytes: int) -> None:
        self._look = Look(cells.salt)
        self._store = cells.objects.stored.store
        self.left_bytes = limit_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._coming: list[tuple[Future[list[Seen]], int]] = []  # and the memory of each
        self._ready = 0  # so many of them, from the first on

    def add(self, descriptor: int, sizes: Sequence[int]) -> None:
        """Take objects from sealed memory; the descriptor is closed here.

        Raises:
            Invalid: it is no such memory, or there are more than one step may hand over.
        """
        try:
            self.left_bytes -= sum(map(abs, sizes))
            if self.left_bytes < 0:
                raise Invalid("a step hands over too much", hint="keep less in one step")
            check_sealed(descriptor, sum(sizes) if min(sizes, default=0) > 0 else 0)
            self._pool = self._pool or ThreadPoolExecutor(_THREADS, "otolith-arrivals")
            self._coming.append((self._pool.submit(self._take, descriptor, sizes), descriptor))
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, Error) or not isinstance(error, OSError | ValueError):
                raise
            raise Invalid(f"{error}", hint="nothing was committed") from None

    @property
    def waiting(self) -> int:
        """How many handovers have not been looked at yet; each holds a descriptor."""
        while self._ready < len(self._coming) and self._coming[self._ready][0].done():
            self._ready += 1
        return len(self._coming) - self._ready

    def all(self) -> list[Seen]:
        """Return everything, in the order in which it came.

        Raises:
            Invalid: something was not what a worker may hand over.
        """
        return [seen for each, _ in self._coming for seen in each.result()]

    def close(self) -> None:
        """Drop what nobody has begun to look at, and end the threads when they are done."""
        for each, descriptor in self._coming:
            if each.cancel():
                os.close(descriptor)
        if self._pool is not None:
            self._pool.shutdown()

    def _take(self, descriptor: int, sizes: Sequence[int]) -> list[Seen]:
        try:
            pieces = cut(descriptor, sizes)
        except (OSError, ValueError) as error:
            raise Invalid(f"{error}", hint="nothing was committed") from None
        finally:
            os.close(descriptor)
        if isinstance(self._store, Preparer):
            return list(map(self._look, pieces, self._store.prepare(pieces)))
        return list(map(self._look, pieces))


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


Sign: TypeAlias = Callable[[str, bytes], bytes]
"""Returns what proves that this repo has put some content into a place."""


_LIST = b"l"
_ALONG_BYTES = 4 << 20
_ALONG_OBJECTS = 4096
_ANSWER_BYTES = 64 << 20
_ANSWER_OBJECTS = 1 << 16
_AT_ONCE = 64
_MAPPED_BYTES = 1 << 20
_READ_FIRST = ("vars", "ambient", "classes", "data", "objects", "signatures")


_UNREADABLE = (
    *(Error, OSError, AttributeError, LookupError, TypeError, ValueError, RecursionError),
    *(MemoryError, OverflowError, struct.error, msgspec.MsgspecError),
)
"""What bytes can raise that are no cell."""


def _is_short(claim: Claim) -> bool:
    return claim.totals.size < _MAPPED_BYTES


def _is_short_list(data: bytes) -> bool:
    """Tell whether an object is a list, and not one of those that are mapped."""
    total = totals(data) if data[:1] == _LIST else None
    return total is not None and total.size < _MAPPED_BYTES


def _below(lists: list[bytes], seen: set[Hash]) -> Iterator[bytes]:
    """Yield what is short and linked to by these, each once."""
    for data in lists:
        for claim in claims(data):
            if _is_short(claim) and claim.hash not in seen:
                seen.add(claim.hash)
                yield claim.hash


class FromState:
    """Answers from a state: what is stored, and what is staged."""

    def __init__(self, state: Branch, sign: Sign) -> None:
        self._state = state
        self._sign = sign
        self._pieces = Pieces()

    def read(self, hashes: list[bytes]) -> list[bytes | None]:
        """Return objects, None where there is none."""
        objects = self._state.cells.objects
        wanted = [hash for hash in map(Hash, hashes) if hash in objects.fresh]
        fresh = {hash: objects.fresh[hash].data for hash in wanted}
        missing = [Hash(hash) for hash in hashes if hash not in fresh]
        found = fresh | (objects.stored.store.read(missing) if missing else {})
        return [found.get(Hash(hash)) for hash in hashes]

    def read_some(
        self, hashes: list[bytes], *, limit_bytes: int = _ANSWER_BYTES
    ) -> list[bytes | None]:
        """Return objects, as `read` does, for the first of these hashes: until there are enough."""
        found: list[bytes | None] = []
        size = 0
        for start in range(0, min(len(hashes), _ANSWER_OBJECTS), _AT_ONCE):
            for data in self.read(hashes[start : start + _AT_ONCE]):
                found.append(data)
                size += len(data or b"")
                if size >= limit_bytes:
                    return found
        return found

    def tops(self, roots: Mapping[str, bytes]) -> list[bytes]:
        """Return the objects at the top of tables, which a worker reads before anything else."""
        claimed = [claim for name in _READ_FIRST for claim in cell_claims(roots.get(name, b"\xc0"))]
        found = self.read([claim.hash for claim in claimed if _is_short(claim)])
        return [data for data in found if data is not None]

    def below(self, found: list[bytes | None]) -> list[bytes]:
        """Return what is below short lists: whoever reads one mostly reads all of it."""
        more: list[bytes] = []
        waiting = [data for data in found if data is not None and _is_short_list(data)]
        seen: set[Hash] = set()
        size = 0
        while waiting and size < _ALONG_BYTES and len(seen) < _ALONG_OBJECTS:
            wanted = list(islice(_below(waiting, seen), _ALONG_OBJECTS - len(seen)))
            answers = self.read_some(wanted, limit_bytes=_ALONG_BYTES - size)
            waiting = [data for data in answers if data is not None]
            more += waiting
            size += sum(map(len, waiting))
        return more

    def piece(self, cell: bytes) -> tuple[int, int] | None:
        """Return a descriptor of raw bytes in one piece, and how many; None if there is none."""
        try:
            return self._pieces.get(self._state.cells, cell)
        except _UNREADABLE:
            return None

    def vouches(self, place: str, cell: bytes, signature: bytes) -> bool:
        """Tell whether this repo has put a pickle into its place."""
        return compare_digest(self._sign(place, cell), signature)

    def arrivals(self, limit_bytes: int) -> Arrivals:
        """Return what takes the objects of a step that come before its end."""
        return Arrivals(self._state.cells, limit_bytes=limit_bytes)

    def close(self) -> None:
        """Give all memory back."""
        self._pieces.close()


class Answers(Protocol):
    """What a worker may ask for."""

    def read(self, hashes: list[bytes]) -> list[bytes | None]: ...
    def read_some(self, hashes: list[bytes]) -> list[bytes | None]: ...
    def below(self, found: list[bytes | None]) -> list[bytes]: ...
    def piece(self, cell: bytes) -> tuple[int, int] | None: ...
    def vouches(self, place: str, cell: bytes, signature: bytes) -> bool: ...
    def arrivals(self, limit_bytes: int) -> Arrivals: ...
