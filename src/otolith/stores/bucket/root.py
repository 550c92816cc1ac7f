"""The root of a bucket: the one key that changes, and what it names.

Layout, version 1

    root            "otolith-bucket", a version byte, a hash of the rest, then a `BucketRoot` as
                    msgpack in zstd
    pack-<name>     objects and their index, see `packs.py`
    part-<hash>     refs and their histories, see `ref_pages.py`

Rules
1. Only the root is ever overwritten, by a conditional put. So a process that has read a root has a
   snapshot of the whole store, as long as what it names is there; no list of keys is ever needed.
2. Small batches are stored in the root itself: their objects, moves and fences are in it until they
   are moved into a pack and into pages (`upkeep.py`). So a small commit is one request.
3. Names of packs and parts are random, and never used again: what was replaced can be removed at
   once. A reader that misses it starts again from the new root.
4. `stamps` are random bytes of this root and of those before it. A writer whose put got no reply
   finds its stamp in the current root if the put has landed. `number` counts roots: if so many
   followed that the stamp may be gone again, the outcome is not known.
5. `collections` counts garbage collections. What was uploaded under another count is uploaded
   again: a collection may have taken it for garbage.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from random import random
from threading import Lock
from time import monotonic, sleep
from typing import NamedTuple, TypeVar

import msgspec
import zstandard

from otolith.errors import (
    Busy,
    Corrupt,
    FormatTooNew,
    NotAStore,
    StoreNotFound,
    Unavailable,
)
from otolith.stores.base import HASH_BYTES, Move, digest
from otolith.stores.bucket.client import BucketClient, Version
from otolith.stores.bucket.packs import PACK, WHOLE_INDEX_BYTES, IndexRun, PackEntry, PackReader
from otolith.stores.ref_pages import PART, MoveRecord, PartCache, RefView, StaleRoot, decode, encode
from otolith.types import Hash

ROOT = "root"
PROBE = "probe-"
STAMPS = 32

_STAMP_BYTES = 8
_MAGIC = b"otolith-bucket"
_VERSION = 1
_HEAD = len(_MAGIC) + 1
_BODY = _HEAD + HASH_BYTES
_BODY_LIMIT_BYTES = 1 << 30
_TRIES = 100
_FIRST_PAUSE_SECONDS = 0.05
_LAST_PAUSE_SECONDS = 2.0
_T = TypeVar("_T")


class RecentRef(NamedTuple):
    """The hash of a ref that moved lately, and those of its moves that are not in a block yet."""

    hash: Hash | None
    moves: list[MoveRecord]


class BucketRoot(msgspec.Struct, array_like=True, frozen=True):
    """The value from which everything else is found."""

    number: int = 0
    stamps: list[bytes] = []
    collections: int = 0
    objects: int = 0
    pages: dict[int, Hash] = {}
    runs: list[IndexRun] = []
    recent_refs: dict[str, RecentRef] = {}
    recent_fences: dict[str, int] = {}
    recent_objects: dict[Hash, bytes] = {}

    @property
    def stored_bytes(self) -> int:
        """What objects take in the bucket."""
        packed = sum(run.stored_bytes for run in self.runs)
        return packed + sum(map(len, self.recent_objects.values()))

    def stamped(self) -> BucketRoot:
        """Return this root as the one that follows it: with a number and stamp of its own."""
        stamps = [os.urandom(_STAMP_BYTES), *self.stamps[: STAMPS - 1]]
        return msgspec.structs.replace(self, number=self.number + 1, stamps=stamps)


def encode_root(root: BucketRoot) -> bytes:
    """Return the value to store under the key of the root."""
    body = zstandard.ZstdCompressor().compress(encode(root))
    return _MAGIC + bytes([_VERSION]) + digest(body) + body


def decode_root(value: bytes, where: str) -> BucketRoot:
    """Return the root that a value holds.

    Raises:
        NotAStore: the value is something else.
        FormatTooNew: a newer otolith wrote it.
        Corrupt: its checksum is wrong.
    """
    if value[: len(_MAGIC)] != _MAGIC:
        raise NotAStore(f"{where} has something else under {ROOT!r}", hint="use another prefix")
    if value[len(_MAGIC) : _HEAD] > bytes([_VERSION]):
        raise FormatTooNew(f"{where} was written by a newer otolith", hint="upgrade otolith")
    body = value[_BODY:]
    if value[_HEAD:_BODY] != digest(body):
        raise Corrupt(f"{where}: the value under {ROOT!r} is damaged", hint="restore it")
    try:
        size = zstandard.frame_content_size(body)
        raw = zstandard.ZstdDecompressor().decompress(body, max_output_size=_BODY_LIMIT_BYTES)
    except zstandard.ZstdError as error:
        raise Corrupt(f"{where}: the value under {ROOT!r} is damaged: {error}") from None
    if size > _BODY_LIMIT_BYTES:
        raise Corrupt(f"{where}: the value under {ROOT!r} is too long")
    return decode(raw, BucketRoot)


class BucketSnapshot:
    """The whole store as of one root."""

    def __init__(
        self, root: BucketRoot, version: Version, parts: PartCache, packs: PackReader
    ) -> None:
        self.root = root
        self.version = version
        self.refs = RefView(root.pages, parts)
        self.packs = packs

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names."""
        recent = self.root.recent_refs.get(name)
        return recent.hash if recent is not None else self.refs.entry(name).hash

    def fence(self, name: str) -> int:
        """Return the highest token seen under a name."""
        recent = self.root.recent_fences.get(name)
        return recent if recent is not None else self.refs.fence(name)

    def all_refs(self) -> dict[str, Hash | None]:
        """Return all refs, also those that are gone but have a history."""
        stored = {name: entry.hash for name, entry in self.refs.entries().items()}
        return stored | {name: ref.hash for name, ref in self.root.recent_refs.items()}

    def histories(self, names: Iterable[str], limit: int | None = None) -> dict[str, list[Move]]:
        """Return the moves of refs, each newest first, at most `limit` of each."""
        recent = {
            name: self.root.recent_refs.get(name, RecentRef(None, [])).moves for name in names
        }
        found = {
            name: [Move(name, *record) for record in reversed(moves)][:limit]
            for name, moves in recent.items()
        }
        short = {
            name: self.refs.entry(name)
            for name, moves in found.items()
            if limit is None or len(moves) < limit
        }
        for name, moves in self.refs.histories(short, limit).items():
            found[name] = [*found[name], *moves][:limit]
        return found

    def locate(
        self, hashes: Iterable[Hash], *, whole_bytes: int = WHOLE_INDEX_BYTES
    ) -> dict[Hash, PackEntry]:
        """Return where objects are that are not in the root itself (`PackReader.locate`)."""
        recent = self.root.recent_objects
        wanted = [name for name in hashes if name not in recent]
        return self.packs.locate(self.root.runs, wanted, whole_bytes=whole_bytes)

    def read(self, hashes: Iterable[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there."""
        wanted, recent = list(hashes), self.root.recent_objects
        found = {name: recent[name] for name in wanted if name in recent}
        for name, data in found.items():
            if digest(data) != name:
                raise Corrupt(f"object {name.hex()[:12]} has the wrong bytes", hint="restore it")
        return found | self.packs.read(self.locate(wanted).values())

    def find(self, prefix: bytes, limit: int) -> list[Hash]:
        """Return the first few hashes of objects that start with a prefix."""
        found = {name for name in self.root.recent_objects if name.startswith(prefix)}
        found.update(self.packs.find(self.root.runs, prefix, limit))
        return sorted(found)[:limit]


class RootRegister:
    """Reads the root of a bucket and replaces it; remembers the newest one seen."""

    def __init__(self, client: BucketClient) -> None:
        self.client = client
        self.parts = PartCache(client)
        self.packs = PackReader(client)
        self._newest: BucketSnapshot | None = None
        self._lock = Lock()

    def newest(self) -> BucketSnapshot:
        """Return the newest root seen, which may have been replaced since."""
        return self._newest or self.refresh()

    def refresh(self) -> BucketSnapshot:
        """Return the current root; its bytes are sent only if it has changed.

        Raises:
            StoreNotFound: there is none any more.
        """
        found = self.find()
        if found is None:
            raise StoreNotFound(f"{self.client.name}: the store is gone", hint="restore its root")
        return found

    def find(self) -> BucketSnapshot | None:
        """Return the current root, or None if there is none."""
        seen = self._newest
        found = self.client.get(ROOT, seen.version if seen is not None else None)
        if found is None or isinstance(found, Version):
            return seen if found is not None else None
        value, version = found
        return self._remember(decode_root(value, self.client.name), version)

    def create(self) -> BucketSnapshot:
        """Make an empty store, unless somebody else does at the same time.

        Raises:
            Unsupported: the bucket has no conditional puts.
            Corrupt: the root of a store is missing.
        """
        keys = [each.key for each in self.client.list_keys()]
        if any(key.startswith((PACK, PART)) for key in keys) and ROOT not in keys:
            raise Corrupt(
                f"{self.client.name} has the packs of a store, but not its root",
                hint="restore the key 'root', or use another prefix",
            )
        self.prove_conditional()
        first = encode_root(BucketRoot().stamped())
        self._patiently(lambda: self.client.swap(ROOT, None, first))
        return self.refresh()

    def prove_conditional(self) -> None:
        """Try whether the bucket heeds the conditions of puts.

        Raises:
            Unsupported: it does not, so that writers would lose commits.
        """
        self._patiently(
            lambda: self.client.check_conditional(PROBE + os.urandom(_STAMP_BYTES).hex())
        )

    def swap(self, old: BucketSnapshot, new: BucketRoot) -> BucketSnapshot | None:
        """Replace a root by one made from it; return the new snapshot, or None if it is stale.

        A put without a reply may have landed, and by now others may have built on that root: then
        theirs has its stamp. If the root is still the old one, the same put is made again: at most
        one of them can land, since the root is another one then.

        Raises:
            Unavailable: it is not known whether it was replaced.
        """
        root = new.stamped()
        value, stamp = encode_root(root), root.stamps[0]
        uncertain = False
        for pause in self._pauses():
            try:
                version = self.client.swap(ROOT, old.version, value)
            except Unavailable:
                if pause is None:
                    raise
                uncertain = True
                sleep(pause)
                current = self.refresh()
                if current.version == old.version:
                    continue
            else:
                if version is not None:
                    return self._remember(root, version)
                current = self.refresh()
            if stamp in current.root.stamps:
                return current
            if uncertain and current.root.number - root.number >= STAMPS:
                break
            return None
        raise Unavailable(
            f"{self.client.name}: a reply was lost, and others have written much since then",
            hint="it may have landed: read again before writing again",
        )

    def _patiently(self, call: Callable[[], object]) -> None:
        """Make a call that may be repeated, until there is an answer."""
        for pause in self._pauses():
            try:
                call()
            except Unavailable:
                if pause is None:
                    raise
                sleep(pause)
            else:
                return

    def _pauses(self) -> Iterator[float | None]:
        """Yield how long to wait before the next try; None is the last one."""
        end, pause = monotonic() + self.client.timeout_seconds, _FIRST_PAUSE_SECONDS
        while monotonic() + pause < end:
            yield pause * (0.5 + random() / 2)
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)
        yield None

    def from_one_root(self, answer: Callable[[BucketSnapshot], _T]) -> _T:
        """Compute an answer from the current root; from a newer one, if what it names is gone."""
        seen = -1
        for _ in range(_TRIES):
            snapshot = self.refresh()
            if snapshot.root.number == seen:
                raise Corrupt(
                    f"{self.client.name}: a pack or part is missing",
                    hint="restore it from a backup",
                )
            seen = snapshot.root.number
            with suppress(StaleRoot):
                return answer(snapshot)
        raise Busy(f"{self.client.name} changes faster than it can be read", hint="try again")

    def change(self, make: Callable[[BucketSnapshot], BucketRoot | None]) -> BucketSnapshot | None:
        """Replace the root by what a function makes of it, on the newest root that there is.

        Return None if the function does, since the root has changed too much.

        Raises:
            Busy: other writers were faster each time.
        """
        snapshot = self.newest()
        for _ in range(_TRIES):
            root = make(snapshot)
            if root is None:
                return None
            swapped = self.swap(snapshot, root)
            if swapped is not None:
                return swapped
            snapshot = self.newest()  # which `swap` has just read
        raise Busy(f"{self.client.name}: other writers were faster", hint="try again")

    def _remember(self, root: BucketRoot, version: Version) -> BucketSnapshot:
        """Return a snapshot, or the remembered one if that is newer."""
        with self._lock:
            if self._newest is None or self._newest.root.number < root.number:
                self._newest = BucketSnapshot(root, version, self.parts, self.packs)
            return self._newest
