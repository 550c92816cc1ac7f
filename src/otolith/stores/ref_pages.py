"""Refs, fences and histories in immutable parts, for stores whose only atomic step is one swap.

Layout
    part-<hash>      eight random bytes, then a page or a block, in msgpack
    page             the refs and fences whose names hash to its number (0 to 63)
    block            up to 16 moves of one ref, and the hash of the block below it

A root, which the store swaps, has the hashes of the pages. No two parts are the same, because of
their random bytes: a part that was replaced can be removed at once, since no other writer can have
made the same one concurrently. A reader that misses a part starts again from the new root.

`RefView` reads the refs of one root, `RefBuilder` makes the pages of the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from otolith.errors import Corrupt
from otolith.stores.base import Batch, Move, digest
from otolith.types import Hash

PART = "part-"
PAGES = 64
BLOCK_MOVES = 16
NONCE_BYTES = 8

_CACHE_BYTES = 32 << 20
_Record = TypeVar("_Record")
encode = msgspec.msgpack.encode


class RefEntry(NamedTuple):
    """A ref: the hash it names, its newest block of moves, and how many moves are remembered."""

    hash: Hash | None = None
    block: Hash | None = None
    moves: int = 0


class RefPage(msgspec.Struct, array_like=True):
    """The refs and fences whose names hash to one number."""

    refs: dict[str, RefEntry] = msgspec.field(default_factory=dict)
    fences: dict[str, int] = msgspec.field(default_factory=dict)


class MoveRecord(NamedTuple):
    """A move without the name of its ref."""

    old: Hash | None
    new: Hash | None
    time: int
    note: str


class MoveBlock(msgspec.Struct, array_like=True):
    """Some moves of one ref, oldest first; `below` is the block with the moves before them."""

    below: Hash | None
    moves: list[MoveRecord]


class PartSource(Protocol):
    """Where parts are read from."""

    name: str

    def get_many(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return the values that are there."""
        ...


def part_key(name: Hash) -> str:
    """Return the key of a part."""
    return PART + name.hex()


def page_of(name: str) -> int:
    """Return the number of the page that a ref or fence is on."""
    return digest(name.encode())[0] % PAGES


def decode(data: bytes, kind: type[_Record]) -> _Record:
    """Return a record of this type, or raise Corrupt."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a {kind.__name__} cannot be read: {error}") from error


class StaleRoot(Exception):
    """A part is gone: another writer has swapped the root and removed what it replaced."""


class PartCache:
    """Reads parts, and caches them: a part never changes."""

    def __init__(self, client: PartSource) -> None:
        self._client = client
        self._cache: dict[Hash, bytes] = {}
        self._bytes = 0

    def load(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        """Return the bodies of parts, read together.

        Raises:
            StaleRoot: one is gone.
            Corrupt: one does not have its hash.
        """
        cache, wanted = self._cache, list(names)
        bodies = {name: body for name in wanted if (body := cache.get(name)) is not None}
        missing = [name for name in wanted if name not in bodies]
        found = self._client.get_many([part_key(name) for name in missing]) if missing else {}
        for name in missing:
            value = found.get(part_key(name))
            if value is None:
                raise StaleRoot
            if digest(value) != name:
                where = f"{self._client.name}: {part_key(name)[:17]}…"
                raise Corrupt(f"{where} is damaged", hint="restore it from a backup")
            bodies[name] = self.put(name, value)
        return bodies

    def put(self, name: Hash, value: bytes) -> bytes:
        """Cache a part; return its body."""
        body = value[NONCE_BYTES:]
        if self._bytes > _CACHE_BYTES:
            self._cache, self._bytes = {}, 0
        self._cache[name] = body
        self._bytes += len(body)
        return body


class RefView:
    """The refs, fences and histories of one root."""

    def __init__(self, pages: Mapping[int, Hash], parts: PartCache) -> None:
        self.pages = pages
        self._parts = parts

    def page(self, number: int) -> RefPage:
        """Return a new copy of a page, which the caller may change."""
        name = self.pages.get(number)
        return decode(self._parts.load([name])[name], RefPage) if name is not None else RefPage()

    def entry(self, name: str) -> RefEntry:
        """Return a ref; one that was never set is empty."""
        return self.page(page_of(name)).refs.get(name, RefEntry())

    def fence(self, name: str) -> int:
        """Return the highest token seen under a name."""
        return self.page(page_of(name)).fences.get(name, 0)

    def entries(self) -> dict[str, RefEntry]:
        """Return all refs, also those that are gone but have a history."""
        bodies = self._parts.load(self.pages.values())
        pages = [decode(bodies[name], RefPage) for name in self.pages.values()]
        return {name: entry for page in pages for name, entry in page.refs.items()}

    def block(self, name: Hash) -> MoveBlock:
        """Return a block of moves."""
        return decode(self._parts.load([name])[name], MoveBlock)

    def blocks(self, entries: Mapping[str, RefEntry]) -> Iterator[tuple[str, Hash, MoveBlock]]:
        """Yield the blocks of several histories, newest first, those of one depth together."""
        left = {name: entry.moves for name, entry in entries.items()}
        tops = {name: entry.block for name, entry in entries.items() if entry.moves > 0}
        while tops:
            current = {name: top for name, top in tops.items() if top is not None}
            bodies = self._parts.load(current.values())
            tops = {}
            for name, top in current.items():
                block = decode(bodies[top], MoveBlock)
                yield name, top, block
                left[name] -= len(block.moves)
                if left[name] > 0:
                    tops[name] = block.below

    def histories(
        self, entries: Mapping[str, RefEntry], limit: int | None = None
    ) -> dict[str, list[Move]]:
        """Return the moves of refs, each newest first, at most `limit` of each."""
        if limit is not None:
            entries = {
                name: ref._replace(moves=min(ref.moves, limit)) for name, ref in entries.items()
            }
        found: dict[str, list[Move]] = {name: [] for name in entries}
        for name, _, block in self.blocks(entries):
            found[name] += [Move(name, *record) for record in reversed(block.moves)]
        return {name: moves[: entries[name].moves] for name, moves in found.items()}


class RefBuilder:
    """Makes the pages of the next root from a view.

    `parts` are to be set before the root is swapped; `replaced` may be removed afterwards.
    """

    def __init__(self, view: RefView) -> None:
        self._view = view
        self._pages: dict[int, RefPage] = {}
        self.parts: dict[Hash, bytes] = {}
        self.replaced: list[Hash] = []

    @property
    def is_empty(self) -> bool:
        """Whether no page would change."""
        return not self._pages

    def put(self, name: str, entry: RefEntry) -> None:
        """Change a ref; one without a value and without a history is removed."""
        refs = self._page(name).refs
        if entry.hash is None and not entry.moves:
            refs.pop(name, None)
        else:
            refs[name] = entry

    def raise_fence(self, name: str, token: int) -> None:
        """Remember a token, if it is the highest under its name."""
        if token > self._view.fence(name):
            self._page(name).fences[name] = token

    def move(self, name: str, new: Hash | None, moves: Sequence[MoveRecord]) -> None:
        """Move a ref, once or several times."""
        entry = self._view.entry(name)
        block = self._log(entry.block, moves)
        self.put(name, RefEntry(new, block, entry.moves + len(moves)))

    def apply(self, batch: Batch) -> None:
        """Raise the fences and move the refs of a batch."""
        for name, token in batch.fences.items():
            self.raise_fence(name, token)
        for name, old, new in batch.swaps:
            if old != new:
                self.move(name, new, [MoveRecord(old, new, batch.time, batch.note)])

    def finish(self) -> dict[int, Hash]:
        """Return the pages of the next root."""
        pages = dict(self._view.pages)
        for number, page in self._pages.items():
            if number in pages:
                self.replaced.append(pages.pop(number))
            if page.refs or page.fences:
                pages[number] = self.part(encode(page))
        return pages

    def part(self, body: bytes) -> Hash:
        """Add a part that is unlike any other; return its hash."""
        value = os.urandom(NONCE_BYTES) + body
        name = digest(value)
        self.parts[name] = value
        return name

    def _page(self, name: str) -> RefPage:
        number = page_of(name)
        if number not in self._pages:
            self._pages[number] = self._view.page(number)
        return self._pages[number]

    def _log(self, newest: Hash | None, records: Sequence[MoveRecord]) -> Hash | None:
        """Add moves on top of a history; return its newest block."""
        below, moves = newest, list(records)
        if newest is not None:
            top = self._view.block(newest)
            if len(top.moves) < BLOCK_MOVES:
                self.replaced.append(newest)
                below, moves = top.below, [*top.moves, *records]
        for start in range(0, len(moves), BLOCK_MOVES):
            below = self.part(encode(MoveBlock(below, moves[start : start + BLOCK_MOVES])))
        return below
