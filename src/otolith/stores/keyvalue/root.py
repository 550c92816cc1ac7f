"""A store as of one root: what its refs, moves and index say, read part by part.

What lies under the keys.

    root             the one value that changes: where everything else begins
    object-<hash>    an object, as it is
    part-<hash>      a part of the book-keeping: eight random bytes, then a page, block or segment

A *page* has the refs and fences whose names hash to its number. A *block* has some moves of one ref
and names the block below it. A *segment* is a sorted run of the hashes of objects.

Every part is unlike any other because of its random bytes. So a part that was replaced can be
removed at once, and nobody can have made the same one again meanwhile.

The next root in the making: which parts it needs, and which it makes superfluous.
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
from otolith.stores.keyvalue.kv import Calls
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
_Record = TypeVar("_Record")


class Entry(NamedTuple):
    """A ref: what it names, its newest block, and how many moves are remembered."""

    hash: Hash | None = None
    block: Hash | None = None
    moves: int = 0


class Page(msgspec.Struct, array_like=True):
    """The refs and fences of one number."""

    refs: dict[str, Entry] = msgspec.field(default_factory=dict)
    fences: dict[str, int] = msgspec.field(default_factory=dict)


class Step(NamedTuple):
    """A move without its name."""

    old: Hash | None
    new: Hash | None
    time: int
    note: str


class Block(msgspec.Struct, array_like=True):
    """Some moves of one ref, oldest first, above those of another block."""

    below: Hash | None
    steps: list[Step]


class Segment(NamedTuple):
    """A sorted run of hashes of objects, and how many they are."""

    part: Hash
    length: int


class Root(msgspec.Struct, array_like=True, frozen=True):
    """Where everything begins.

    `stamps` are random bytes of this root and of some before it, newest first. They make each root
    unlike all others, and tell a writer whose swap got no answer whether it has happened.
    """

    stamps: list[bytes] = []
    objects: int = 0
    stored_bytes: int = 0
    pages: dict[int, Hash] = {}
    segments: list[Segment] = []


def object_key(name: Hash) -> str:
    return OBJECT + name.hex()


def part_key(name: Hash) -> str:
    return PART + name.hex()


def page_of(name: str) -> int:
    """Return the number of the page that a ref or fence is on."""
    return digest(name.encode())[0] % PAGES


def new_part(body: bytes) -> tuple[Hash, bytes]:
    """Return a part that is unlike any other, and its name."""
    value = os.urandom(NONCE_BYTES) + body
    return digest(value), value


def encode(record: object) -> bytes:
    return msgspec.msgpack.encode(record)


def decode(data: bytes, kind: type[_Record]) -> _Record:
    """Return a record.

    Raises:
        Corrupt: these bytes are none.
    """
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a {kind.__name__.lower()} cannot be read: {error}") from error


def encode_root(root: Root) -> bytes:
    body = encode(root)
    return _MAGIC + bytes([_VERSION]) + digest(body) + body


def decode_root(value: bytes | None, where: str) -> Root:
    """Return the root that a value holds; no value is an empty store.

    Raises:
        NotAStore: something else is there.
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


_FANOUT = 8
_FANOUT_BITS = 3
_TOP_LEVEL = 5  # segments of 8**5 hashes, which take a megabyte, grow no more


class Draft:
    """What a batch makes of a view. `parts` are to be set, `replaced` may go afterwards."""

    def __init__(self, view: View, parts: Parts) -> None:
        self._view = view
        self._load = parts.load
        self._pages: dict[int, Page] = {}
        self._segments = list(view.root.segments)
        self._objects = view.root.objects
        self._bytes = view.root.stored_bytes
        self.parts: dict[Hash, bytes] = {}
        self.replaced: list[Hash] = []

    @property
    def is_empty(self) -> bool:
        return not self._pages and not self.parts

    def add(self, sizes: dict[Hash, int]) -> None:
        """Count new objects, and put them into the index."""
        if not sizes:
            return
        self._objects += len(sizes)
        self._bytes += sum(sizes.values())
        self._segments.append(self._segment(sizes))
        while len(tail := self._tail()) >= _FANOUT:
            self._merge(tail)

    def index(self, sizes: dict[Hash, int]) -> None:
        """Make the index anew, of these objects."""
        self.replaced += [segment.part for segment in self._segments]
        self._objects, self._bytes = len(sizes), sum(sizes.values())
        step, names = _FANOUT**_TOP_LEVEL, sorted(sizes)
        self._segments = [
            self._segment(names[start : start + step]) for start in range(0, len(names), step)
        ]

    def put(self, name: str, entry: Entry) -> None:
        """Change a ref; one without a value and without a history is gone."""
        refs = self._page(name).refs
        if entry.hash is None and not entry.moves:
            refs.pop(name, None)
        else:
            refs[name] = entry

    def apply(self, batch: Batch) -> None:
        """Raise fences and move refs."""
        for name, token in batch.fences.items():
            if token > self._view.fence(name):
                self._page(name).fences[name] = token
        for name, old, new in batch.swaps:
            if old != new:
                was = self._view.entry(name)
                block = self._log(was, Step(old, new, batch.time, batch.note))
                self.put(name, Entry(new, block, was.moves + 1))

    def finish(self) -> Root:
        """Return the next root."""
        pages = dict(self._view.root.pages)
        for number, page in self._pages.items():
            if number in pages:
                self.replaced.append(pages.pop(number))
            if page.refs or page.fences:
                pages[number] = self._part(encode(page))
        stamps = [os.urandom(NONCE_BYTES), *self._view.root.stamps[: STAMPS - 1]]
        return Root(stamps, self._objects, self._bytes, pages, self._segments)

    def _page(self, name: str) -> Page:
        number = page_of(name)
        if number not in self._pages:
            self._pages[number] = self._view.page(number)
        return self._pages[number]

    def _log(self, was: Entry, step: Step) -> Hash:
        if was.block is None:
            return self._part(encode(Block(None, [step])))
        top = self._view.block(was.block)
        if len(top.steps) >= BLOCK_MOVES:
            return self._part(encode(Block(was.block, [step])))
        self.replaced.append(was.block)
        return self._part(encode(Block(top.below, [*top.steps, step])))

    def _tail(self) -> list[Segment]:
        """Return the newest segments that are no larger than the last, if they may be merged."""
        top = _level(self._segments[-1])
        tail: list[Segment] = []
        for segment in reversed(self._segments):
            if top >= _TOP_LEVEL or _level(segment) > top:
                break
            tail.append(segment)
        return tail

    def _merge(self, tail: list[Segment]) -> None:
        fresh = [segment.part for segment in tail if segment.part in self.parts]
        stored = [segment.part for segment in tail if segment.part not in self.parts]
        bodies = [
            *self._load(stored).values(),
            *(self.parts.pop(name)[NONCE_BYTES:] for name in fresh),
        ]
        names = [
            Hash(body[at : at + HASH_BYTES])
            for body in bodies
            for at in range(0, len(body), HASH_BYTES)
        ]
        self.replaced += stored
        self._segments[-len(tail) :] = [self._segment(names)]

    def _segment(self, names: Iterable[Hash]) -> Segment:
        run = sorted(set(names))
        return Segment(self._part(b"".join(run)), len(run))

    def _part(self, body: bytes) -> Hash:
        name, value = new_part(body)
        self.parts[name] = value
        return name


def _level(segment: Segment) -> int:
    return (segment.length.bit_length() - 1) // _FANOUT_BITS
