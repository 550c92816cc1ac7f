"""The root of a key-value store: the one value that changes, and the parts that it names.

Layout, version 1

    root             "otolith-kv", a version byte, a hash of the rest, then a `Root` in msgpack
    object-<hash>    an object, its bytes
    part-<hash>      eight random bytes, then a page, a block or a segment

    page, block      refs and their histories, see `ref_pages.py`
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
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import msgspec

from otolith.errors import Corrupt, FormatTooNew, NotAStore, Unavailable
from otolith.stores.base import HASH_BYTES, digest
from otolith.stores.keyvalue.kv import KVClient
from otolith.stores.ref_pages import (
    NONCE_BYTES,
    PartCache,
    RefBuilder,
    RefView,
    decode,
    encode,
)
from otolith.types import Hash

ROOT = "root"
OBJECT = "object-"
STAMPS = 32

_MAGIC = b"otolith-kv"
_VERSION = 1
_HEAD = len(_MAGIC) + 1
_FANOUT = 8
_FANOUT_BITS = 3
_TOP_LEVEL = 5  # segments of 8**5 hashes, which take a megabyte, are not merged any more


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


def encode_root(root: Root) -> bytes:
    """Return the value to store under the key of the root."""
    body = encode(root)
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


class RootView:
    """A snapshot of the store: one root, and everything below it."""

    def __init__(self, value: bytes | None, client: KVClient, parts: PartCache) -> None:
        self.value = value
        self.root: Root = decode_root(value, client.name)
        self.refs = RefView(self.root.pages, parts)
        self._parts = parts

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
        self.refs = RefBuilder(view.refs)
        self._segments = list(view.root.segments)
        self._objects = view.root.objects
        self._bytes = view.root.stored_bytes
        self.parts = self.refs.parts
        self.replaced = self.refs.replaced

    @property
    def is_empty(self) -> bool:
        """Whether the next root would be the same."""
        return self.refs.is_empty and not self.parts

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

    def finish(self) -> Root:
        """Return the next root."""
        pages = self.refs.finish()
        stamps = [os.urandom(NONCE_BYTES), *self._view.root.stamps[: STAMPS - 1]]
        return Root(stamps, self._objects, self._bytes, pages, self._segments)

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
        return Segment(self.refs.part(b"".join(run)), len(run))


def _level(segment: Segment) -> int:
    return (segment.length.bit_length() - 1) // _FANOUT_BITS
