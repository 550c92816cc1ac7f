"""A store as a cache of another: a file on a fast disk in front of a bucket, for instance.

Rules
1. The store is used for nothing else. It has one ref, and a store with other refs is refused: what
   is dropped from a cache would be lost there.
2. When a write would pass the limit of the store, the objects used last stay, up to half of the
   limit, and a collection drops the rest. So room is made seldom, for many writes, and by what each
   store does anyway. At most 100,000 names are remembered for that.
3. Several processes may use one store as their cache. One that makes room drops what only the
   others have used; for them that is a miss.

Errors are raised: whoever uses the cache counts them, and answers from elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

from otolith.errors import Corrupt, Invalid, QuotaExceeded, StaleRef
from otolith.stores.base import (
    Batch,
    CollectionReport,
    Collector,
    Object,
    Store,
    Swap,
    Usage,
    digest,
)
from otolith.stores.layers.layer import read_intact
from otolith.stores.layers.memory_cache import Evictions
from otolith.types import Hash

_REF = "cache"
_ROOT = b"otolith: the objects of this store are a cache"
_ROOT_HASH = digest(_ROOT)
_MOST_NAMES = 100_000


class StoreCache:
    """Objects in a store that has nothing else, up to the limit of that store.

    Raises:
        Invalid: the store has refs of its own, or a limit and no way to make room.
    """

    errors = 0

    def __init__(self, store: Store) -> None:
        self._store = store
        self._limit_bytes = store.usage().limit_bytes
        self._lock = Lock()
        self._room = Lock()
        self._used: OrderedDict[Hash, int] = OrderedDict()  # the last used at the end
        self.evictions = Evictions()
        if self._limit_bytes is not None and not store.capabilities.collects:
            raise Invalid(
                f"{store!r} cannot be a cache with a limit: it does not collect", hint="omit limit"
            )
        self._check_refs()
        try:
            swap = Swap(_REF, None, _ROOT_HASH)
            store.write(Batch(objects=[Object(_ROOT_HASH, _ROOT)], swaps=[swap]))
        except StaleRef:
            pass  # it is one already

    def __repr__(self) -> str:
        """Show where it is."""
        return f"<{type(self).__name__} {getattr(self._store, 'path', None) or self._store!r}>"

    def get_many(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are in the cache and intact."""
        found = read_intact(self._store, hashes)
        self._note(found)
        return found

    def put_many(self, objects: Mapping[Hash, bytes]) -> None:
        """Add objects; what was not used for the longest time goes if there is no room."""
        batch = Batch(objects=[Object(name, data) for name, data in objects.items()])
        try:
            self._store.write(batch)
        except QuotaExceeded:
            self._make_room()
            try:
                self._store.write(batch)
            except QuotaExceeded:
                return  # more than half of the limit in one batch
        self._note(objects)

    def usage(self) -> Usage:
        """Return how much is in the cache."""
        return self._store.usage()

    def clear(self, *, erase: bool = False) -> bool:
        """Drop everything; return whether, with `erase`, no copy is left in any file."""
        with self._room:
            with self._lock:
                self._used.clear()
            report = self._collect((), erase=erase)
            return report is not None and report.erased

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _note(self, objects: Mapping[Hash, bytes]) -> None:
        """Remember that objects were used."""
        if self._limit_bytes is None:
            return
        with self._lock:
            for name, data in objects.items():
                self._used[name] = len(data)
                self._used.move_to_end(name)
            while len(self._used) > _MOST_NAMES:
                self._used.popitem(last=False)

    def _make_room(self) -> None:
        """Drop all but what was used last, unless another thread is at it."""
        if not self._room.acquire(blocking=False):
            return
        try:
            with self._lock:
                self._forget_longest_unused()
                stay = list(self._used)
            try:
                report = self._collect(stay)
            except Corrupt:  # an object that stays is damaged
                report = self._collect(())
            if report is not None:
                self.evictions = Evictions(self.evictions.room + report.dropped_objects)
        finally:
            self._room.release()

    def _forget_longest_unused(self) -> None:
        size = sum(self._used.values())
        while self._used and size > (self._limit_bytes or 0) // 2:
            size -= self._used.popitem(last=False)[1]

    def _collect(self, stay: Iterable[Hash], *, erase: bool = False) -> CollectionReport | None:
        """Drop all but the objects that stay, if the store can."""
        self._check_refs()
        if not isinstance(self._store, Collector):
            return None
        return self._store.collect(lambda data: stay if data == _ROOT else (), erase=erase)

    def _check_refs(self) -> None:
        if others := self._store.refs().keys() - {_REF}:
            raise Invalid(
                f"{self._store!r} cannot be a cache: it has refs, such as {min(others)}",
                hint="give the cache a store of its own",
            )
