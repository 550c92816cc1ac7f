"""Packs: many objects in one key of a bucket, and the index that finds them.

Layout of the value under `pack-<name>`, a name being 16 random bytes

    frames      each some objects one after the other (64 KiB, or one longer object), as zstd
    index       blocks of up to 256 entries, each followed by the first 8 bytes of its BLAKE3

    entry       64 bytes: the hash of an object, the name of the pack with its frame, then as four
                big-endian numbers of 32 bits: start and size of the frame in that pack, and start
                and size of the object in the frame

Entries are sorted by hash. Hashes are evenly spread, so the place of one is known from its first
bytes, give or take a few blocks: a lookup in an index of any length is one short ranged read.

A *run* is an index and all packs that its entries name; the root has a list of runs, and no object
is in two of them. Most runs have their frames in front of their own index. An object of more than
256 KiB has a pack of its own, without an index; so have frames that were too many to be copied
when runs were merged.

Objects of one frame were written together, and often are versions of each other: they compress
well together, and are often read together.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isqrt
from struct import Struct
from threading import Lock
from typing import NamedTuple, NewType

import zstandard

from otolith.errors import Corrupt
from otolith.stores.base import OBJECT_LIMIT_BYTES, digest
from otolith.stores.bucket.client import BucketClient, Range
from otolith.stores.ref_pages import StaleRoot
from otolith.types import Hash

PACK = "pack-"
PACK_BYTES = 16 << 20  # packs of this size are not merged any more
LARGE_BYTES = 256 << 10  # longer objects have packs of their own
FRAME_BYTES = 64 << 10

_NAME_BYTES = 16
_ENTRY = Struct(">32s16sIIII")
_BLOCK_ENTRIES = 256
_CHECKSUM_BYTES = 8
_BLOCK_BYTES = _BLOCK_ENTRIES * _ENTRY.size + _CHECKSUM_BYTES
_WHOLE_PACK_BYTES = 256 << 10  # a pack up to this size is read at once
WHOLE_INDEX_BYTES = 1 << 20  # an index up to this size is read at once
_SPREAD = 4  # standard deviations around the expected place of a hash
_CACHE_BYTES = 64 << 20

PackName = NewType("PackName", bytes)


class PackEntry(NamedTuple):
    """Where an object is."""

    hash: Hash
    pack: PackName
    frame_start: int
    frame_size: int
    start: int
    size: int

    @property
    def frame(self) -> Range:
        """Where the frame of the object is."""
        start = self.frame_start
        return Range(pack_key(self.pack), start, start + self.frame_size)


class IndexRun(NamedTuple):
    """An index: the pack that it ends, how many entries it has, and the bytes of all its packs."""

    pack: PackName
    entries: int
    pack_bytes: int
    stored_bytes: int

    @property
    def index_start(self) -> int:
        """Where the index begins in its pack."""
        return self.pack_bytes - self.entries * _ENTRY.size - self.blocks * _CHECKSUM_BYTES

    @property
    def blocks(self) -> int:
        """How many blocks the index has."""
        return -(-self.entries // _BLOCK_ENTRIES)

    def block_range(self, number: int) -> Range:
        """Return where a block of the index is."""
        start = self.index_start + number * _BLOCK_BYTES
        return Range(pack_key(self.pack), start, min(self.pack_bytes, start + _BLOCK_BYTES))

    def blocks_around(self, low: bytes, high: bytes) -> range:
        """Return the numbers of the blocks in which all hashes from `low` to `high` should be."""
        slack = _SPREAD * (isqrt(self.entries) + 1)
        first = max(0, _expected(low, self.entries) - slack)
        last = min(self.entries - 1, _expected(high, self.entries) + slack)
        return range(first // _BLOCK_ENTRIES, last // _BLOCK_ENTRIES + 1)


class PackBuilder:
    """Makes the packs of one run. `packs` are to be stored before a root names the run."""

    def __init__(self) -> None:
        self.name = new_name()
        self.packs: dict[PackName, bytes] = {}
        self.carried_bytes = 0
        self._entries: list[PackEntry] = []
        self._frames: list[bytes] = []
        self._size = 0
        self._open: list[tuple[Hash, bytes]] = []
        self._open_bytes = 0

    @property
    def entries(self) -> int:
        """How many objects there are so far."""
        return len(self._entries) + len(self._open)

    @property
    def size(self) -> int:
        """How many bytes of frames there are so far."""
        return self._size + self._open_bytes

    def add(self, name: Hash, data: bytes) -> None:
        """Add an object."""
        if len(data) > LARGE_BYTES:
            frame = zstandard.ZstdCompressor().compress(data)
            pack = new_name()
            self.packs[pack] = frame
            self.carried_bytes += len(frame)
            self._entries.append(PackEntry(name, pack, 0, len(frame), 0, len(data)))
            return
        if self._open and self._open_bytes + len(data) > FRAME_BYTES:
            self._close_frame()
        self._open.append((name, data))
        self._open_bytes += len(data)

    def copy(self, entries: Iterable[PackEntry], frames: bytes) -> None:
        """Add the frames of another pack, and its objects."""
        self._entries += [
            entry._replace(pack=self.name, frame_start=entry.frame_start + self._size)
            for entry in entries
        ]
        self._frames.append(frames)
        self._size += len(frames)

    def carry(self, entries: Iterable[PackEntry], stored_bytes: int) -> None:
        """Add objects that stay in the packs where they are."""
        self._entries += entries
        self.carried_bytes += stored_bytes

    def finish(self) -> IndexRun:
        """Return the run; its packs are complete."""
        self._close_frame()
        index = _encode_index(sorted(self._entries))
        value = b"".join([*self._frames, index])
        self.packs[self.name] = value
        stored = len(value) + self.carried_bytes
        return IndexRun(self.name, len(self._entries), len(value), stored)

    def _close_frame(self) -> None:
        if not self._open:
            return
        raw = b"".join(data for _, data in self._open)
        frame = zstandard.ZstdCompressor().compress(raw)
        start = 0
        for name, data in self._open:
            place = (self._size, len(frame), start, len(data))
            self._entries.append(PackEntry(name, self.name, *place))
            start += len(data)
        self._frames.append(frame)
        self._size += len(frame)
        self._open, self._open_bytes = [], 0


class PackReader:
    """Looks objects up in runs and reads them. Packs never change, so what was read is cached."""

    def __init__(self, client: BucketClient) -> None:
        self._client = client
        self._stored = _ByteCache(_CACHE_BYTES)  # blocks without checksums, frames of small packs
        self._frames = _ByteCache(_CACHE_BYTES // 2)  # decompressed

    def locate(
        self,
        runs: Sequence[IndexRun],
        hashes: Iterable[Hash],
        *,
        whole_bytes: int = WHOLE_INDEX_BYTES,
    ) -> dict[Hash, PackEntry]:
        """Return where objects are; absent ones are left out.

        An index of up to `whole_bytes` is read as a whole: the next lookup is then free.

        Raises:
            StaleRoot: a pack is gone.
            Corrupt: an index is damaged.
        """
        wanted = sorted(set(hashes))
        if not wanted:
            return {}
        loaded = self._load_blocks(
            {run: self._blocks_for(run, wanted, whole_bytes) for run in runs}
        )
        found: dict[Hash, PackEntry] = {}
        uneven: set[IndexRun] = set()
        for run, blocks in loaded.items():
            for name in wanted:
                entries = blocks.span(name, name)
                if entries is None:
                    uneven.add(run)
                elif (entry := entries.first(name)) is not None and entry.hash == name:
                    found[name] = entry
        for run in uneven:  # some hashes are not where even spreading would have them
            entries = _EntryTable(self._whole_index(run))
            for name in wanted:
                entry = entries.first(name)
                if entry is not None and entry.hash == name:
                    found[name] = entry
        return found

    def find(self, runs: Sequence[IndexRun], prefix: bytes, limit: int) -> list[Hash]:
        """Return the first hashes in each of the runs that start with a prefix."""
        low, high = prefix.ljust(32, b"\0"), prefix.ljust(32, b"\xff")
        loaded = self._load_blocks({run: run.blocks_around(low, high) for run in runs})
        found: list[Hash] = []
        for run, blocks in loaded.items():
            entries = blocks.span(low, high) or _EntryTable(self._whole_index(run))
            found += entries.starting_with(prefix, limit)
        return found

    def entries(self, run: IndexRun) -> Iterator[PackEntry]:
        """Yield all entries of a run."""
        for fields in _ENTRY.iter_unpack(self._whole_index(run)):
            yield PackEntry._make(fields)

    def read(self, entries: Iterable[PackEntry]) -> dict[Hash, bytes]:
        """Return the bytes of objects, those of one frame and of neighbours read together.

        Raises:
            StaleRoot: a pack is gone.
            Corrupt: the bytes of an object do not have its hash.
        """
        wanted = list(entries)
        frames = self._load_frames({entry.frame for entry in wanted})
        found: dict[Hash, bytes] = {}
        for entry in wanted:
            data = frames[entry.frame][entry.start : entry.start + entry.size]
            if digest(data) != entry.hash:
                where = f"{self._client.name}: object {entry.hash.hex()[:12]}"
                raise Corrupt(f"{where} has the wrong bytes", hint="restore it from a backup")
            found[entry.hash] = data
        return found

    def read_frames(self, packs: Mapping[PackName, int]) -> dict[PackName, bytes]:
        """Return the start of packs, up to the given size: their frames as they are stored."""
        ranges = {name: Range(pack_key(name), 0, size) for name, size in packs.items() if size}
        found = self._fetch(list(ranges.values()))
        return {name: found[ranges[name]] if size else b"" for name, size in packs.items()}

    def _blocks_for(self, run: IndexRun, wanted: Sequence[Hash], whole_bytes: int) -> Sequence[int]:
        if run.blocks * _BLOCK_BYTES <= whole_bytes:
            return range(run.blocks)
        numbers = {number for name in wanted for number in run.blocks_around(name, name)}
        return sorted(numbers) if 2 * len(numbers) < run.blocks else range(run.blocks)

    def _whole_index(self, run: IndexRun) -> bytes:
        blocks = self._load_blocks({run: range(run.blocks)})[run].blocks
        return b"".join(blocks[number] for number in range(run.blocks))

    def _load_blocks(self, numbers: Mapping[IndexRun, Iterable[int]]) -> dict[IndexRun, _Blocks]:
        """Return blocks of indexes; those that are not cached are read at once."""
        loaded = {run: _Blocks(run, {}) for run in numbers}
        missing: dict[Range, tuple[IndexRun, int]] = {}
        small: dict[Range, IndexRun] = {}
        for run, some in numbers.items():
            for number in some:
                where = run.block_range(number)
                body = self._stored.get(where)
                if body is not None:
                    loaded[run].blocks[number] = body
                elif run.pack_bytes <= _WHOLE_PACK_BYTES:
                    small[Range(where.key, 0, run.pack_bytes)] = run
                else:
                    missing[where] = (run, number)
        found = self._fetch([*small, *missing])
        for where, (run, number) in missing.items():
            loaded[run].blocks[number] = self._store_block(where, found[where])
        for where, run in small.items():
            frames = Range(where.key, 0, run.index_start)
            self._stored.put(frames, found[where][: run.index_start])
            for number in range(run.blocks):
                block = run.block_range(number)
                body = self._store_block(block, found[where][block.start : block.end])
                loaded[run].blocks[number] = body
        return loaded

    def _store_block(self, where: Range, data: bytes) -> bytes:
        """Check a block and cache it; return its entries."""
        body = data[:-_CHECKSUM_BYTES]
        if digest(body)[:_CHECKSUM_BYTES] != data[-_CHECKSUM_BYTES:]:
            raise Corrupt(
                f"{self._client.name}: the index in {where.key[:17]}… is damaged",
                hint="restore it from a backup",
            )
        self._stored.put(where, body)
        return body

    def _load_frames(self, wanted: set[Range]) -> dict[Range, bytes]:
        frames = {where: data for where in wanted if (data := self._frames.get(where)) is not None}
        missing = []
        for where in wanted - frames.keys():
            part = self._stored.get_part(where)
            if part is None:
                missing.append(where)
            else:
                frames[where] = self._decompressed(where, part)
        for where, data in self._fetch(sorted(missing)).items():
            frames[where] = self._decompressed(where, data)
        return frames

    def _decompressed(self, where: Range, data: bytes) -> bytes:
        try:
            size = zstandard.frame_content_size(data)
            if not 0 <= size <= OBJECT_LIMIT_BYTES:
                raise zstandard.ZstdError(f"a frame of {size} bytes")
            raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        except zstandard.ZstdError as error:
            raise Corrupt(
                f"{self._client.name}: {where.key[:17]}… is damaged: {error}",
                hint="restore it from a backup",
            ) from None
        self._frames.put(where, raw)
        return raw

    def _fetch(self, ranges: Sequence[Range]) -> dict[Range, bytes]:
        found = self._client.get_ranges(ranges) if ranges else {}
        if found is None:
            raise StaleRoot
        if any(len(data) != where.end - where.start for where, data in found.items()):
            raise Corrupt(f"{self._client.name}: a pack is too short", hint="restore it")
        return found


class _EntryTable:
    """Entries as they are stored, sorted by hash."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def first(self, low: bytes) -> PackEntry | None:
        """Return the first entry that is not before a hash."""
        place = self._place(low) * _ENTRY.size
        if place == len(self._data):
            return None
        return PackEntry._make(_ENTRY.unpack_from(self._data, place))

    def starting_with(self, prefix: bytes, limit: int) -> list[Hash]:
        """Return the first hashes with a prefix."""
        found: list[Hash] = []
        for place in range(self._place(prefix), len(self._data) // _ENTRY.size):
            name = self._hash(place)
            if len(found) == limit or not name.startswith(prefix):
                break
            found.append(name)
        return found

    def _place(self, low: bytes) -> int:
        return bisect_left(range(len(self._data) // _ENTRY.size), low, key=self._hash)

    def _hash(self, place: int) -> Hash:
        start = place * _ENTRY.size
        return Hash(self._data[start : start + 32])


class _Blocks(NamedTuple):
    """Some blocks of one index."""

    run: IndexRun
    blocks: dict[int, bytes]

    def span(self, low: bytes, high: bytes) -> _EntryTable | None:
        """Return the entries around some hashes; None if these blocks may not have them all."""
        numbers = self.run.blocks_around(low, high)
        data = b"".join(self.blocks[number] for number in numbers)
        before = numbers[0] > 0 and data[:32] > low
        after = numbers[-1] < self.run.blocks - 1 and data[-_ENTRY.size :][:32] < high
        return None if before or after else _EntryTable(data)


class _ByteCache:
    """Bytes by range of a key; what was not used for longest goes first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._found: OrderedDict[Range, bytes] = OrderedDict()
        self._starts: dict[str, Range] = {}  # by key, what is cached of its beginning
        self._lock = Lock()

    def get(self, where: Range) -> bytes | None:
        """Return what is cached."""
        with self._lock:
            found = self._found.get(where)
            if found is not None:
                self._found.move_to_end(where)
            return found

    def get_part(self, where: Range) -> bytes | None:
        """Return bytes that are cached as a part of the beginning of their key."""
        start = self._starts.get(where.key)
        found = self.get(start) if start is not None and where.end <= start.end else None
        return None if found is None else found[where.start : where.end]

    def put(self, where: Range, data: bytes) -> None:
        """Cache bytes."""
        with self._lock:
            self._bytes += len(data) - len(self._found.get(where, b""))
            self._found[where] = data
            if where.start == 0:
                self._starts[where.key] = where
            while self._bytes > self._limit and len(self._found) > 1:
                gone, old = self._found.popitem(last=False)
                self._bytes -= len(old)
                if self._starts.get(gone.key) == gone:
                    del self._starts[gone.key]


def new_name() -> PackName:
    """Return a name that no other pack has."""
    return PackName(os.urandom(_NAME_BYTES))


def pack_key(name: PackName) -> str:
    """Return the key of a pack."""
    return PACK + name.hex()


def _encode_index(entries: Sequence[PackEntry]) -> bytes:
    blocks = []
    for start in range(0, len(entries), _BLOCK_ENTRIES):
        body = b"".join(_ENTRY.pack(*entry) for entry in entries[start : start + _BLOCK_ENTRIES])
        blocks.append(body + digest(body)[:_CHECKSUM_BYTES])
    return b"".join(blocks)


def _expected(name: bytes, entries: int) -> int:
    """Return the place of a hash among evenly spread ones."""
    return int.from_bytes(name[:8].ljust(8, b"\0"), "big") * entries >> 64
