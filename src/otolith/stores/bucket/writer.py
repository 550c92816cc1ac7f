"""Writes of a bucket: batches of waiting threads are joined, and land with one put of the root.

Theory of operation. A thread queues its batch and waits for the lock. The one that gets it checks
all queued batches, one after the other, against the newest root that it knows, and puts the next
root if the bucket still has that one. The others find theirs done. If another process was faster,
all of them are checked again against the new root. So one process writes a small batch with one
request, and many threads of it share that request.

A batch is refused only by the current root: the put that succeeds proves that the root was current,
or else it is read again first.

Objects that are too many for the root go into packs before the put. If the put loses the race, the
packs are used for the next try as long as no collection has happened (rule 5 of `root.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import random
from threading import Lock
from time import monotonic, sleep

import msgspec

from otolith.errors import (
    Busy,
    Corrupt,
    Error,
    Fenced,
    NotFound,
    QuotaExceeded,
    StaleRef,
    Unavailable,
)
from otolith.stores.base import Batch, check_conditions, check_quota
from otolith.stores.bucket.packs import IndexRun, PackBuilder, pack_key
from otolith.stores.bucket.root import BucketRoot, BucketSnapshot, RecentRef, RootRegister
from otolith.stores.ref_pages import MoveRecord, StaleRoot
from otolith.types import Hash

INLINE_BYTES = 16 << 10  # a batch with at most so many bytes of objects goes into the root

_WRITER_INDEX_BYTES = 8 << 20  # writers look up every new object, so they read whole indexes
_TRIES = 200
_LONGEST_PAUSE_SECONDS = 0.5
_RIVAL_SECONDS = 1.0


@dataclass(eq=False, slots=True)
class _PendingWrite:
    """A batch that waits to be written."""

    batch: Batch
    done: bool = False
    error: Error | None = None


class _Draft:
    """The next root, batch by batch."""

    def __init__(self, snapshot: BucketSnapshot, held: set[Hash], limit_bytes: int | None) -> None:
        self._snapshot = snapshot
        self._limit_bytes = limit_bytes
        self._held = held
        root = snapshot.root
        self.refs = dict(root.recent_refs)
        self.fences = dict(root.recent_fences)
        self.inline = dict(root.recent_objects)
        self.packed: dict[Hash, bytes] = {}
        self._used_bytes = root.stored_bytes
        self._changed = False

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to write."""
        return self._changed

    def add(self, batch: Batch) -> None:
        """Apply a batch.

        Raises:
            Fenced, StaleRef, NotFound, QuotaExceeded: it is refused, and changes nothing.
        """
        check_conditions(batch, token=self._token, ref=self._ref, holds=self._holds)
        new = {item.hash: bytes(item.data) for item in batch.objects if not self._holds(item.hash)}
        size = sum(map(len, new.values()))
        check_quota(self._used_bytes, size, self._limit_bytes)
        self._used_bytes += size
        (self.inline if size <= INLINE_BYTES else self.packed).update(new)
        for name, token in batch.fences.items():
            if token > self._token(name):
                self.fences[name] = token
                self._changed = True
        for name, old, current in batch.swaps:
            if old != current:
                record = MoveRecord(old, current, batch.time, batch.note)
                before = self.refs[name].moves if name in self.refs else []
                self.refs[name] = RecentRef(current, [*before, record])
                self._changed = True
        self._changed = self._changed or bool(new)

    def root(self, run: IndexRun | None) -> BucketRoot:
        """Return the next root, with a run of what is packed."""
        root = self._snapshot.root
        new = len(self.inline) - len(root.recent_objects) + len(self.packed)
        return msgspec.structs.replace(
            root,
            objects=root.objects + new,
            runs=[*root.runs, run] if run is not None else root.runs,
            recent_refs=self.refs,
            recent_fences=self.fences,
            recent_objects=self.inline,
        )

    def _token(self, name: str) -> int:
        found = self.fences.get(name)
        return found if found is not None else self._snapshot.fence(name)

    def _ref(self, name: str) -> Hash | None:
        found = self.refs.get(name)
        return found.hash if found is not None else self._snapshot.ref(name)

    def _holds(self, name: Hash) -> bool:
        return name in self.inline or name in self._held or name in self.packed


@dataclass(slots=True)
class _Uploads:
    """The runs that a write has uploaded, by the objects in them."""

    collections: int = -1
    runs: dict[frozenset[Hash], tuple[IndexRun, list[str]]] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    landed: IndexRun | None = None


class GroupWriter:
    """Writes batches for all threads of this process."""

    def __init__(self, register: RootRegister, limit_bytes: int | None) -> None:
        self._register = register
        self._client = register.client
        self._limit_bytes = limit_bytes
        self._lock = Lock()
        self._waiting: deque[_PendingWrite] = deque()
        self._rivals_until = 0.0  # until then others probably write too

    def write(self, batch: Batch) -> None:
        """Write a batch, together with those of other threads that wait."""
        write = _PendingWrite(batch)
        self._waiting.append(write)
        try:
            with self._lock:
                if not write.done:
                    self._write_group([each for each in self._waiting if not each.done])
        finally:
            with suppress(ValueError):  # also if interrupted: then no other thread shall write it
                self._waiting.remove(write)
        if write.error is not None:
            raise write.error

    def _write_group(self, group: list[_PendingWrite]) -> None:
        uploads = _Uploads()
        try:
            self._try_often(group, uploads)
            self._remove_unused(uploads)
        except Error as error:
            for write in group:
                write.done, write.error = True, error
        except BaseException:
            for write in group:  # a put may be under way
                write.done = True
                write.error = Unavailable("a write was interrupted", hint="it may have landed")
            raise

    def _try_often(self, group: list[_PendingWrite], uploads: _Uploads) -> None:
        is_current = monotonic() < self._rivals_until
        snapshot = self._register.refresh() if is_current else self._register.newest()
        for _ in range(_TRIES):
            begun = monotonic()
            try:
                swapped = self._try(snapshot, group, uploads, is_current=is_current)
            except StaleRoot:
                if is_current and self._register.refresh() is snapshot:
                    raise Corrupt(
                        f"{self._client.name}: a pack or part is missing",
                        hint="restore it from a backup",
                    ) from None
                swapped = None
            if swapped:
                return
            if swapped is False:
                # All wait about as long as a try takes: one that lost often has the same chance.
                now = monotonic()
                self._rivals_until = now + _RIVAL_SECONDS
                sleep(random() * min(2 * (now - begun), _LONGEST_PAUSE_SECONDS))
            snapshot, is_current = self._register.refresh(), True
        raise Busy(
            f"{self._client.name}: other writers were faster {_TRIES} times", hint="try again"
        )

    def _try(
        self,
        snapshot: BucketSnapshot,
        group: Sequence[_PendingWrite],
        uploads: _Uploads,
        *,
        is_current: bool,
    ) -> bool | None:
        """Write a group on top of one root; return whether that was still the current root.

        None: nothing was written, and the answer depends on whether the root is current.
        """
        draft = _Draft(snapshot, self._held(snapshot, group), self._limit_bytes)
        refused: dict[_PendingWrite, Error] = {}
        for write in group:
            try:
                draft.add(write.batch)
            except (Fenced, StaleRef, NotFound, QuotaExceeded) as error:
                refused[write] = error
        if draft.is_changed:
            run = self._upload(draft.packed, snapshot, uploads) if draft.packed else None
            if self._register.swap(snapshot, draft.root(run)) is None:
                return False
            uploads.landed = run
        elif not is_current:
            return None
        for write in group:
            write.done, write.error = True, refused.get(write)
        return True

    def _held(self, snapshot: BucketSnapshot, group: Sequence[_PendingWrite]) -> set[Hash]:
        """Return which objects that the group writes or needs are there."""
        asked = {item.hash for write in group for item in write.batch.objects}
        asked.update(name for write in group for name in write.batch.needs)
        packed = snapshot.locate(asked, whole_bytes=_WRITER_INDEX_BYTES)
        return packed.keys() | (asked & snapshot.root.recent_objects.keys())

    def _upload(
        self, objects: dict[Hash, bytes], snapshot: BucketSnapshot, uploads: _Uploads
    ) -> IndexRun:
        """Store objects in packs that no root names yet, unless that has been done already."""
        if uploads.collections != snapshot.root.collections:
            uploads.unused += [key for _, keys in uploads.runs.values() for key in keys]
            uploads.collections, uploads.runs = snapshot.root.collections, {}
        same = frozenset(objects)
        if same not in uploads.runs:
            builder = PackBuilder()
            for name, data in objects.items():
                builder.add(name, data)
            run = builder.finish()
            packs = {pack_key(name): value for name, value in builder.packs.items()}
            self._client.put_many(packs)
            uploads.runs[same] = run, list(packs)
        return uploads.runs[same][0]

    def _remove_unused(self, uploads: _Uploads) -> None:
        """Remove packs of tries that did not land. They only take space."""
        unused = [
            key for run, keys in uploads.runs.values() if run is not uploads.landed for key in keys
        ]
        if unused or uploads.unused:
            with suppress(Unavailable):
                self._client.delete_many(unused + uploads.unused)
