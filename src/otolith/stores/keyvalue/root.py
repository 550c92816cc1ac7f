"""A store as of one root: what its refs, moves and index say, read part by part."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from otolith.errors import Corrupt, Unavailable
from otolith.stores.base import Move
from otolith.stores.keyvalue.calls import Calls
from otolith.stores.keyvalue.records import (
    NONCE_BYTES,
    ROOT,
    Block,
    Entry,
    Page,
    Root,
    decode,
    decode_root,
    encode_root,
    page_of,
    part_key,
)
from otolith.stores.rules import HASH_BYTES, digest
from otolith.types import Hash

_CACHE_BYTES = 32 << 20


class Superseded(Exception):
    """A part is gone: somebody has swapped the root, and removed what they replaced."""


class Parts:
    """Reads parts, and keeps them: a part never changes."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._cache: dict[Hash, bytes] = {}
        self._bytes = 0

    def load(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        """Return the bodies of parts, read together.

        Raises:
            Superseded: one is gone.
            Corrupt: one is not what its name says.
        """
        cache, wanted = self._cache, list(names)
        bodies = {name: body for name in wanted if (body := cache.get(name)) is not None}
        missing = [name for name in wanted if name not in bodies]
        found = self._calls.get_many([part_key(name) for name in missing]) if missing else {}
        for name in missing:
            value = found.get(part_key(name))
            if value is None:
                raise Superseded
            if digest(value) != name:
                where = f"{self._calls.name}: {part_key(name)[:17]}…"
                raise Corrupt(f"{where} is damaged", hint="restore it from a backup")
            bodies[name] = self.keep(name, value)
        return bodies

    def keep(self, name: Hash, value: bytes) -> bytes:
        """Remember a part; return its body."""
        body = value[NONCE_BYTES:]
        if self._bytes > _CACHE_BYTES:
            self._cache, self._bytes = {}, 0
        self._cache[name] = body
        self._bytes += len(body)
        return body


class View:
    """One root, and everything below it."""

    def __init__(self, value: bytes | None, calls: Calls, parts: Parts) -> None:
        self.value = value
        self.root: Root = decode_root(value, calls.name)
        self._parts = parts

    def page(self, number: int) -> Page:
        """Return a page, which is the caller's to change."""
        name = self.root.pages.get(number)
        return decode(self._parts.load([name])[name], Page) if name is not None else Page()

    def entry(self, name: str) -> Entry:
        return self.page(page_of(name)).refs.get(name, Entry())

    def fence(self, name: str) -> int:
        return self.page(page_of(name)).fences.get(name, 0)

    def entries(self) -> dict[str, Entry]:
        """Return all refs, also those that are gone but have a history."""
        bodies = self._parts.load(self.root.pages.values())
        pages = [decode(bodies[name], Page) for name in self.root.pages.values()]
        return {name: entry for page in pages for name, entry in page.refs.items()}

    def block(self, name: Hash) -> Block:
        return decode(self._parts.load([name])[name], Block)

    def blocks(self, entries: Mapping[str, Entry]) -> Iterator[tuple[str, Hash, Block]]:
        """Yield the blocks of several histories, from the top, those of one depth together."""
        left = {name: entry.moves for name, entry in entries.items()}
        tops = {name: entry.block for name, entry in entries.items() if entry.moves > 0}
        while tops:
            at = {name: top for name, top in tops.items() if top is not None}
            bodies = self._parts.load(at.values())
            tops = {}
            for name, top in at.items():
                block = decode(bodies[top], Block)
                yield name, top, block
                left[name] -= len(block.steps)
                if left[name] > 0:
                    tops[name] = block.below

    def histories(
        self, entries: Mapping[str, Entry], limit: int | None = None
    ) -> dict[str, list[Move]]:
        """Return the moves of refs, each newest first, no more than `limit` of each."""
        short = entries
        if limit is not None:
            short = {
                name: ref._replace(moves=min(ref.moves, limit)) for name, ref in entries.items()
            }
        found: dict[str, list[Move]] = {name: [] for name in short}
        for name, _, block in self.blocks(short):
            found[name] += [Move(name, *step) for step in reversed(block.steps)]
        return {name: moves[: short[name].moves] for name, moves in found.items()}

    def hashes(self) -> Iterator[bytes]:
        """Yield the segments, newest first: runs of hashes, sorted."""
        for segment in reversed(self.root.segments):
            yield self._parts.load([segment.part])[segment.part]

    def holds(self, name: Hash) -> bool:
        """Tell whether an object is there, with everything below it."""
        return any(run[at : at + HASH_BYTES] == name for run, at in self._places(name))

    def find(self, prefix: bytes, limit: int) -> list[Hash]:
        """Return the first few objects whose hashes start so."""
        found: set[Hash] = set()
        for run, start in self._places(prefix):
            for at in range(start, min(len(run), start + limit * HASH_BYTES), HASH_BYTES):
                if not run.startswith(prefix, at):
                    break
                found.add(Hash(run[at : at + HASH_BYTES]))
        return sorted(found)[:limit]

    def _places(self, prefix: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each run, and where in it the prefix would be."""
        for run in self.hashes():
            numbers = range(len(run) // HASH_BYTES)
            place = bisect_left(numbers, prefix, key=partial(_hash_at, run))
            yield run, place * HASH_BYTES


def _hash_at(run: bytes, number: int) -> bytes:
    return run[number * HASH_BYTES : (number + 1) * HASH_BYTES]


def swap_root(calls: Calls, view: View, root: Root) -> bool:
    """Put a new root in the place of the one that a view has; tell whether that happened.

    A client library may repeat a swap whose answer it did not get. The second one fails although
    the first has happened, and by now others may have built on it: their roots have its stamp.
    """
    try:
        if calls.swap(ROOT, view.value, encode_root(root)):
            return True
    except Unavailable:
        if root.stamps[0] in decode_root(calls.get(ROOT), calls.name).stamps:
            return True
        raise
    return root.stamps[0] in decode_root(calls.get(ROOT), calls.name).stamps
