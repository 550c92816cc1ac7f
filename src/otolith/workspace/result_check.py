"""The check of a step's result: nothing that a worker sends enters a state unchecked.

A worker may be controlled by the author of its code. What it sends is bytes: objects, which are
hashed here and so get their true names, and cells that link to them. Each object must be valid in
the format, what it claims about others must be true, and it must not link to an object that does
not exist. Contents are stored, never trusted: no value is decoded to its type, and nothing is
unpickled.

Large objects arrive while the step is still being captured (`ReceivedObjects`) and are checked by
threads beside it; the rest comes with the result (`verify_result`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from otolith.codecs import InertCodecs
from otolith.core import (
    WORKSPACE,
    Branch,
    Cells,
    Claim,
    Encoding,
    Totals,
    cell_claims,
    claims,
    digest,
    flaws,
)
from otolith.core import totals as totals_of
from otolith.errors import Error, Invalid
from otolith.stores import Preparer
from otolith.types import Hash
from otolith.workspace.protocol import WorkerResult
from otolith.workspace.wire import check_sealed, read_sealed

TABLES = frozenset({".aliases", "ambient", "classes", "code", "data", "last", "objects", "vars"})
"""The tables that a worker may write. Only the host writes `signatures`."""

_THREADS = 2


class CheckedObject(NamedTuple):
    """An object that is valid by itself, and what it claims about others."""

    hash: Hash
    data: bytes
    totals: Totals
    claims: tuple[Claim, ...]


class ObjectCheck:
    """Checks objects one by one, in any thread."""

    def __init__(self, salt: int) -> None:
        self._salt = salt
        self._encoding = Encoding(InertCodecs())

    def __call__(self, data: bytes, hash: Hash | None = None) -> CheckedObject:
        """Check an object; its hash is computed if it is not given.

        Raises:
            Invalid: the format does not allow it.
        """
        try:
            flaw = next(flaws(data, self._encoding, self._salt), None)
            claimed = tuple(claims(data))
            total = totals_of(data)
        except (Error, ValueError, IndexError, TypeError, RecursionError) as error:
            raise _refused(f"an object cannot be read: {error}") from None
        if flaw is not None or total is None:
            raise _refused(flaw or "an object is of an unknown kind")
        return CheckedObject(hash or Hash(digest(data)), data, total, claimed)


class ReceivedObjects:
    """The objects that one step sends ahead of its result, checked by two threads.

    The store prepares to write them at the same time. `left_bytes` is what the step may still send.
    """

    def __init__(self, cells: Cells, *, limit_bytes: int) -> None:
        self._check = ObjectCheck(cells.salt)
        self._store = cells.objects.stored.store
        self.left_bytes = limit_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._batches: list[tuple[Future[list[CheckedObject]], int]] = []  # with their descriptors
        self._checked = 0  # this many batches, from the first on

    def add(self, descriptor: int, sizes: Sequence[int]) -> None:
        """Take objects from sealed memory and close its descriptor.

        Raises:
            Invalid: it is not such memory, or the step sends more than it may.
        """
        try:
            self.left_bytes -= sum(map(abs, sizes))
            if self.left_bytes < 0:
                raise Invalid("the step sends more than it may", hint="keep less in one step")
            check_sealed(descriptor, sum(sizes) if min(sizes, default=0) > 0 else 0)
            self._pool = self._pool or ThreadPoolExecutor(_THREADS, "otolith-received")
            self._batches.append(
                (self._pool.submit(self._check_batch, descriptor, sizes), descriptor)
            )
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, Error) or not isinstance(error, OSError | ValueError):
                raise
            raise _refused(str(error)) from None

    @property
    def waiting(self) -> int:
        """The number of batches that are not checked yet; each holds a descriptor."""
        while self._checked < len(self._batches) and self._batches[self._checked][0].done():
            self._checked += 1
        return len(self._batches) - self._checked

    def all(self) -> list[CheckedObject]:
        """Return all objects in the order of their arrival.

        Raises:
            Invalid: one of them is not valid.
        """
        return [checked for batch, _ in self._batches for checked in batch.result()]

    def close(self) -> None:
        """Drop batches whose check has not begun, and end the threads when they are done."""
        for batch, descriptor in self._batches:
            if batch.cancel():
                os.close(descriptor)
        if self._pool is not None:
            self._pool.shutdown()

    def _check_batch(self, descriptor: int, sizes: Sequence[int]) -> list[CheckedObject]:
        """Check the objects in sealed memory; runs in a thread of the pool."""
        try:
            pieces = read_sealed(descriptor, sizes)
        except (OSError, ValueError) as error:
            raise _refused(str(error)) from None
        finally:
            os.close(descriptor)
        if isinstance(self._store, Preparer):
            return list(map(self._check, pieces, self._store.prepare(pieces)))
        return list(map(self._check, pieces))


def verify_result(state: Branch, result: WorkerResult, early: Iterable[CheckedObject] = ()) -> None:
    """Check the result of a step, with the objects that arrived early, and stage it.

    Raises:
        Invalid: a worker may not send this. Nothing was staged.
    """
    if unknown := result.cells.keys() - TABLES:
        raise _refused(f"a worker may not write the table {min(unknown)!r}")
    cells = state.cells
    check = ObjectCheck(cells.salt)
    totals: dict[Hash, Totals] = {}
    claimed: list[Claim] = []
    for checked, base in (
        *((each, None) for each in early),
        *((check(each.data), each.base) for each in result.objects),
    ):
        base_hash = None if base is None else Hash(base)
        cells.objects.take(checked.hash, checked.data, base=base_hash)
        totals[checked.hash] = checked.totals
        claimed += checked.claims
    for cell in result.cells.values():
        if cell is not None:
            claimed += _table_claims(cells, cell)
    _check_links(cells, totals, claimed)
    for name, cell in result.cells.items():
        if cell is not None or state.cell_at((WORKSPACE, name)) is not None:
            state.write_reserved((WORKSPACE, name), cell)


def _table_claims(cells: Cells, cell: bytes) -> list[Claim]:
    """Return the claims in the root cell of a table."""
    try:
        if cells.kind(cell) not in ("map", "tagged"):
            raise _refused("a table must be a map")
        return list(cell_claims(cell))
    except (ValueError, IndexError, LookupError, RecursionError) as error:
        if isinstance(error, Invalid):
            raise
        raise _refused(f"a cell cannot be read: {error}") from None


def _check_links(cells: Cells, totals: dict[Hash, Totals], claimed: list[Claim]) -> None:
    """Check that linked objects exist and that the claims about new ones are true."""
    absent: set[Hash] = set()
    for claim in claimed:
        total = totals.get(claim.hash)
        if total is None:
            absent.add(claim.hash)
        elif not claim.fits(total):
            raise _refused("an object makes a false claim about another")
    for hash in absent:
        if hash not in cells.objects.fresh and not cells.objects.stored.store.find(hash, limit=1):
            raise _refused(f"object {hash.hex()[:12]} is linked to and does not exist")


def _refused(why: str) -> Invalid:
    return Invalid(f"the result of the step was refused: {why}", hint="nothing was committed")
