"""What a host answers to a worker: objects, memory, and whether a pickle can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import TypeAlias

from otolith.agent.workspace.arrivals import Arrivals
from otolith.agent.workspace.pieces import Pieces
from otolith.core import Branch, Claim, cell_claims, claims, totals
from otolith.errors import Error
from otolith.types import Hash

Sign: TypeAlias = Callable[[str, bytes], bytes]
"""Returns what proves that this repo has put some content into a place."""


_LIST = b"l"
_ALONG_BYTES = 4 << 20
_MAPPED_BYTES = 1 << 20
_READ_FIRST = ("vars", "ambient", "classes", "data", "objects", "signatures")


def _is_short(claim: Claim) -> bool:
    return claim.totals.size < _MAPPED_BYTES


def _is_short_list(data: bytes) -> bool:
    """Tell whether an object is a list, and not one of those that are mapped."""
    total = totals(data) if data[:1] == _LIST else None
    return total is not None and total.size < _MAPPED_BYTES


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

    def tops(self, roots: Mapping[str, bytes]) -> list[bytes]:
        """Return the objects at the top of tables, which a worker reads before anything else."""
        claimed = [claim for name in _READ_FIRST for claim in cell_claims(roots.get(name, b"\xc0"))]
        found = self.read([claim.hash for claim in claimed if _is_short(claim)])
        return [data for data in found if data is not None]

    def below(self, found: list[bytes | None]) -> list[bytes]:
        """Return what is below short lists: whoever reads one mostly reads all of it."""
        more: list[bytes] = []
        waiting = [data for data in found if data is not None and _is_short_list(data)]
        size = 0
        while waiting and size < _ALONG_BYTES:
            wanted = [claim.hash for data in waiting for claim in claims(data) if _is_short(claim)]
            answers = self.read(list(wanted))
            waiting = [data for data in answers if data is not None]
            more += waiting
            size += sum(map(len, waiting))
        return more

    def piece(self, cell: bytes) -> tuple[int, int] | None:
        """Return a descriptor of raw bytes in one piece, and how many; None if there is none."""
        try:
            return self._pieces.get(self._state.cells, cell)
        except (Error, OSError, AttributeError, ValueError, IndexError):
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
