"""The root of a key-value store: the one value that changes, and the parts that it names.

Layout, version 1

    root             "otolith-kv", a version byte, a hash of the rest, then a `Root` in msgpack
    object-<hash>    an object, its bytes
    part-<hash>      eight random bytes, then a page, a block or a segment

    page             the refs and fences whose names hash to its number (0 to 63), in msgpack
    block            up to 16 moves of one ref, and the hash of the block below it, in msgpack
    segment          a sorted run of the hashes of objects, 32 bytes each

Rules
1. Only the root is ever overwritten, by compare-and-set. So a process that has read a root has a
   snapshot of the whole store, as long as its parts are there.
2. No two parts are the same, because of their random bytes. So a part that was replaced can be
   removed at once: no other writer can have made the same one concurrently.
3. Segments merge like those of an LSM tree: eight of one size become one of the next size, so a
   write costs a few small parts, however large the store is.

`RootView` reads a snapshot, `RootBuilder` makes the next root from it, `swap_root` installs that.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from otolith.errors import Corrupt, FormatTooNew, NotAStore, Unavailable
from otolith.stores.base import HASH_BYTES, Batch, Move, digest
from otolith.stores.keyvalue.kv import KVClient
from otolith.types import Hash

ROOT = "root"
OBJECT = "object-"
PART = "part-"
PAGES = 64
BLOCK_MOVES = 16
NONCE_BYTES = 8
STAMPS = 32

_MAGIC = b"otolith-kv"
_VERSION = 1
_HEAD = len(_MAGIC) + 1
_CACHE_BYTES = 32 << 20
_FANOUT = 8
_FANOUT_BITS = 3
_TOP_LEVEL = 5  # segments of 8**5 hashes, which take a megabyte, are not merged any more
_Record = TypeVar("_Record")
_encode = msgspec.msgpack.encode


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


class Segment(NamedTuple):
    """A sorted run of hashes of objects, and how many they are."""

    part: Hash
    length: int


class Root(msgspec.Struct, array_like=True, frozen=True):
    """The value from which everything else is found.

    `stamps` are random bytes of this root and of some before it, newest first. They make each root
    unlike all others, and tell a writer whose swap got no reply whether it has happened.
    """

    stamps: list[bytes] = []
    objects: int = 0
    stored_bytes: int = 0
    pages: dict[int, Hash] = {}
    segments: list[Segment] = []


def object_key(name: Hash) -> str:
    """Return the key of an object."""
    return OBJECT + name.hex()


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


def encode_root(root: Root) -> bytes:
    """Return the value to store under the key of the root."""
    body = _encode(root)
    return _MAGIC + bytes([_VERSION]) + digest(body) + body


def decode_root(value: bytes | None, where: str) -> Root:
    """Return the root that a value holds; None is an empty store.

    Raises:
        NotAStore: the value is something else.
        FormatTooNew: a newer otolith wrote it.
        Corrupt: its checksum is wrong.
    """
    if value is None:
        return Root()
    if value[: len(_MAGIC)] != _MAGIC:
        raise NotAStore(f"{where} has something else under {ROOT!r}", hint="use another prefix")
    if value[len(_MAGIC) : _HEAD] > bytes([_VERSION]):
        raise FormatTooNew(f"{where} was written by a newer otolith", hint="upgrade otolith")
    body = value[_HEAD + HASH_BYTES :]
    if value[_HEAD : _HEAD + HASH_BYTES] != digest(body):
        raise Corrupt(f"{where}: the value under {ROOT!r} is damaged", hint="restore it")
    return decode(body, Root)


class StaleRoot(Exception):
    """A part is gone: another writer has swapped the root and removed what it replaced."""


class PartCache:
    """Reads parts, and caches them: a part never changes."""

    def __init__(self, client: KVClient) -> None:
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


class RootView:
    """A snapshot of the store: one root, and everything below it."""

    def __init__(self, value: bytes | None, client: KVClient, parts: PartCache) -> None:
        self.value = value
        self.root: Root = decode_root(value, client.name)
        self._parts = parts

    def page(self, number: int) -> RefPage:
        """Return a new copy of a page, which the caller may change."""
        name = self.root.pages.get(number)
        return decode(self._parts.load([name])[name], RefPage) if name is not None else RefPage()

    def entry(self, name: str) -> RefEntry:
        """Return a ref; one that was never set is empty."""
        return self.page(page_of(name)).refs.get(name, RefEntry())

    def fence(self, name: str) -> int:
        """Return the highest token seen under a name."""
        return self.page(page_of(name)).fences.get(name, 0)

    def entries(self) -> dict[str, RefEntry]:
        """Return all refs, also those that are gone but have a history."""
        bodies = self._parts.load(self.root.pages.values())
        pages = [decode(bodies[name], RefPage) for name in self.root.pages.values()]
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

    def holds(self, name: Hash) -> bool:
        """Return whether an object is there, with everything below it."""
        return any(run[start : start + HASH_BYTES] == name for run, start in self._search(name))

    def find(self, prefix: bytes, limit: int) -> list[Hash]:
        """Return the first few hashes of objects that start with a prefix."""
        found: set[Hash] = set()
        for run, start in self._search(prefix):
            for at in range(start, min(len(run), start + limit * HASH_BYTES), HASH_BYTES):
                if not run.startswith(prefix, at):
                    break
                found.add(Hash(run[at : at + HASH_BYTES]))
        return sorted(found)[:limit]

    def _search(self, prefix: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each segment, newest first, and the offset at which the prefix would be in it."""
        for segment in reversed(self.root.segments):
            run = self._parts.load([segment.part])[segment.part]
            offsets = range(0, len(run), HASH_BYTES)
            place = bisect_left(offsets, prefix, key=partial(_hash_at, run))
            yield run, place * HASH_BYTES


def _hash_at(run: bytes, offset: int) -> bytes:
    return run[offset : offset + HASH_BYTES]


def swap_root(client: KVClient, view: RootView, root: Root) -> bool:
    """Replace the root of a view by a new one; return whether that happened.

    A client library may repeat a swap whose reply it did not get. The second one fails although the
    first has happened, and by now other writers may have built on it: their roots have its stamp.
    """
    try:
        if client.swap(ROOT, view.value, encode_root(root)):
            return True
    except Unavailable:
        if root.stamps[0] in decode_root(client.get(ROOT), client.name).stamps:
            return True
        raise
    return root.stamps[0] in decode_root(client.get(ROOT), client.name).stamps


class RootBuilder:
    """Makes the next root from a view.

    `parts` are to be set before the root is swapped; `replaced` may be removed afterwards.
    """

    def __init__(self, view: RootView, parts: PartCache) -> None:
        self._view = view
        self._load = parts.load
        self._pages: dict[int, RefPage] = {}
        self._segments = list(view.root.segments)
        self._objects = view.root.objects
        self._bytes = view.root.stored_bytes
        self.parts: dict[Hash, bytes] = {}
        self.replaced: list[Hash] = []

    @property
    def is_empty(self) -> bool:
        """Whether the next root would be the same."""
        return not self._pages and not self.parts

    def add(self, sizes: dict[Hash, int]) -> None:
        """Count new objects, and add them to the index."""
        if not sizes:
            return
        self._objects += len(sizes)
        self._bytes += sum(sizes.values())
        self._segments.append(self._segment(sizes))
        while len(tail := self._mergeable_tail()) >= _FANOUT:
            self._merge(tail)

    def rebuild_index(self, sizes: dict[Hash, int]) -> None:
        """Replace the whole index by one of these objects."""
        self.replaced += [segment.part for segment in self._segments]
        self._objects, self._bytes = len(sizes), sum(sizes.values())
        length, names = _FANOUT**_TOP_LEVEL, sorted(sizes)
        self._segments = [
            self._segment(names[start : start + length]) for start in range(0, len(names), length)
        ]

    def put(self, name: str, entry: RefEntry) -> None:
        """Change a ref; one without a value and without a history is removed."""
        refs = self._page(name).refs
        if entry.hash is None and not entry.moves:
            refs.pop(name, None)
        else:
            refs[name] = entry

    def apply(self, batch: Batch) -> None:
        """Raise the fences and move the refs of a batch."""
        for name, token in batch.fences.items():
            if token > self._view.fence(name):
                self._page(name).fences[name] = token
        for name, old, new in batch.swaps:
            if old != new:
                entry = self._view.entry(name)
                block = self._log(entry.block, MoveRecord(old, new, batch.time, batch.note))
                self.put(name, RefEntry(new, block, entry.moves + 1))

    def finish(self) -> Root:
        """Return the next root."""
        pages = dict(self._view.root.pages)
        for number, page in self._pages.items():
            if number in pages:
                self.replaced.append(pages.pop(number))
            if page.refs or page.fences:
                pages[number] = self._part(_encode(page))
        stamps = [os.urandom(NONCE_BYTES), *self._view.root.stamps[: STAMPS - 1]]
        return Root(stamps, self._objects, self._bytes, pages, self._segments)

    def _page(self, name: str) -> RefPage:
        number = page_of(name)
        if number not in self._pages:
            self._pages[number] = self._view.page(number)
        return self._pages[number]

    def _log(self, newest: Hash | None, record: MoveRecord) -> Hash:
        """Add a move on top of a history; return its newest block."""
        below, moves = newest, [record]
        if newest is not None:
            top = self._view.block(newest)
            if len(top.moves) < BLOCK_MOVES:
                self.replaced.append(newest)
                below, moves = top.below, [*top.moves, record]
        return self._part(_encode(MoveBlock(below, moves)))

    def _mergeable_tail(self) -> list[Segment]:
        """Return the newest segments that are at most as large as the last, newest first."""
        top = _level(self._segments[-1])
        tail: list[Segment] = []
        for segment in reversed(self._segments):
            if top >= _TOP_LEVEL or _level(segment) > top:
                break
            tail.append(segment)
        return tail

    def _merge(self, tail: list[Segment]) -> None:
        stored = [segment.part for segment in tail if segment.part not in self.parts]
        fresh = [segment.part for segment in tail if segment.part in self.parts]
        bodies = [
            *self._load(stored).values(),
            *(self.parts.pop(name)[NONCE_BYTES:] for name in fresh),
        ]
        names = [
            Hash(_hash_at(body, offset))
            for body in bodies
            for offset in range(0, len(body), HASH_BYTES)
        ]
        self.replaced += stored
        self._segments[-len(tail) :] = [self._segment(names)]

    def _segment(self, names: Iterable[Hash]) -> Segment:
        run = sorted(set(names))
        return Segment(self._part(b"".join(run)), len(run))

    def _part(self, body: bytes) -> Hash:
        """Add a part that is unlike any other; return its hash."""
        value = os.urandom(NONCE_BYTES) + body
        name = digest(value)
        self.parts[name] = value
        return name


def _level(segment: Segment) -> int:
    return (segment.length.bit_length() - 1) // _FANOUT_BITS
