"""What a worker hands over, looked at before it becomes part of a state.

A worker may be in the hands of whoever wrote its code. What it sends is bytes: objects, which are
hashed here and so get the names they deserve, and cells that link to them. Each object must be what
the format allows, must claim of the others what is true, and must link to nothing that is not
there. What it holds is not believed, only kept: no value is lifted, and nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from otolith.codecs import AsStored
from otolith.core import Branch, Cells, Claim, Encoding, Totals, cell_claims, claims, digest, flaws
from otolith.core import totals as totals_of
from otolith.errors import Error, Invalid
from otolith.types import Hash
from otolith.workspace.protocol import Done

TABLES = frozenset({".aliases", "ambient", "classes", "code", "data", "last", "objects", "vars"})
"""What a worker may hand over. Signatures are the host's."""


class Seen(NamedTuple):
    """An object by itself, looked at: what it is, and what it says of others."""

    hash: Hash
    data: bytes
    totals: Totals
    claims: tuple[Claim, ...]


class Look:
    """Looks at objects by themselves. It may be done in any thread."""

    def __init__(self, salt: int) -> None:
        self._salt = salt
        self._encoding = Encoding(AsStored())

    def __call__(self, data: bytes, hash: Hash | None = None) -> Seen:
        """Return what an object is, and its hash if that is not known yet.

        Raises:
            Invalid: it is not what the format allows.
        """
        try:
            found = next(flaws(data, self._encoding, self._salt), None)
            said = tuple(claims(data))
            total = totals_of(data)
        except (Error, ValueError, IndexError, TypeError, RecursionError) as error:
            raise _refused(f"an object cannot be read: {error}") from None
        if found is not None or total is None:
            raise _refused(found or "an object is of no kind that a state has")
        return Seen(hash or Hash(digest(data)), data, total, said)


def verify_result(state: Branch, done: Done, arrived: Iterable[Seen] = ()) -> None:
    """Stage what a worker has handed over, at the end and before.

    Raises:
        Invalid: it is not what a worker may hand over. Nothing was staged.
    """
    if unknown := done.cells.keys() - TABLES:
        raise _refused(f"{min(unknown)!r} is no table of a workspace")
    check = _Check(state.cells)
    look = Look(state.cells.salt)
    for seen in arrived:
        check.object(seen, None)
    for handed in done.objects:
        check.object(look(handed.data), handed.base)
    for cell in done.cells.values():
        if cell is not None:
            check.cell(cell)
    check.links()
    for name, cell in done.cells.items():
        path = (".workspace", name)
        if cell is not None or state.cell_at(path) is not None:
            state.write_reserved(path, cell)


class _Check:
    """Takes objects one by one, then looks at what they say of each other."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._totals: dict[Hash, Totals] = {}
        self._claims: list[Claim] = []

    def object(self, seen: Seen, base: bytes | None) -> None:
        """Take an object into the buffer."""
        self._cells.objects.take(seen.hash, seen.data, base=None if base is None else Hash(base))
        self._totals[seen.hash] = seen.totals
        self._claims += seen.claims

    def cell(self, cell: bytes) -> None:
        """Look at the cell of a table."""
        try:
            if self._cells.kind(cell) not in ("map", "tagged"):
                raise _refused("a table is no map")
            self._claims += cell_claims(cell)
        except (ValueError, IndexError, LookupError, RecursionError) as error:
            raise _refused(f"a cell cannot be read: {error}") from None

    def links(self) -> None:
        """See that what is linked to is there, and is what was said of it."""
        store = self._cells.objects.stored.store
        absent: set[Hash] = set()
        for claim in self._claims:
            total = self._totals.get(claim.hash)
            if total is not None and not claim.fits(total):
                raise _refused("an object says of another what is not so")
            if total is None:
                absent.add(claim.hash)
        for hash in absent:
            if hash not in self._cells.objects.fresh and not store.find(hash, limit=1):
                raise _refused(f"object {hash.hex()[:12]} is linked to, and is not there")


def _refused(why: str) -> Invalid:
    return Invalid(f"what a worker handed over was refused: {why}", hint="nothing was committed")
