"""A layer that caches objects, up to a number of bytes.

Only objects are cached: they never change. Refs are read from the inner store every time. An object
that another process has collected may still be answered from here; the answer is right, but the
object is no longer in the store. A caller that builds on an object that may be gone names it in
`needs`, which the inner store checks. A collection through this layer empties the cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from otolith.errors import Closed
from otolith.stores.base import Batch, CollectionReport, Links, Progress, Store
from otolith.stores.layers.layer import Layer
from otolith.types import Hash


class CachedStore(Layer):
    """A store that reads each object once from another store, as long as there is room.

    `limit_bytes` bounds the cache; the least recently used objects are dropped first.
    """

    def __init__(self, inner: Store, *, limit_bytes: int = 64 << 20) -> None:
        super().__init__(inner)
        self._limit_bytes = limit_bytes
        self._lock = Lock()
        self._cache: OrderedDict[Hash, bytes] = OrderedDict()
        self._bytes = 0
        self._closed = False

    def __repr__(self) -> str:
        """Show how much is cached, and of what."""
        return f"<{type(self).__name__} {self._bytes} bytes of {self.inner!r}>"

    @property
    def cached_bytes(self) -> int:
        """The current size of the cache: never more than the limit."""
        return self._bytes

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there, from the cache where possible."""
        found = self._cached(hashes)
        missing = [name for name in hashes if name not in found]
        if missing:
            fetched = self.inner.read(missing)
            self._add(fetched)
            found.update(fetched)
        return found

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically, and cache its objects."""
        self.inner.write(batch)
        self._add({item.hash: bytes(item.data) for item in batch.objects})

    def close(self) -> None:
        """Close the inner store too."""
        self._closed = True
        self._clear()
        self.inner.close()

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Progress | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> CollectionReport:
        """Let the inner store collect, and empty the cache."""
        report = super().collect(
            links,
            forget_moves_before=forget_moves_before,
            progress=progress,
            dry_run=dry_run,
            erase=erase,
        )
        self._clear()
        return report

    def _cached(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        found = {}
        with self._lock:
            if self._closed:
                raise Closed("this store was closed", hint="open it again")
            for name in hashes:
                data = self._cache.get(name)
                if data is not None:
                    self._cache.move_to_end(name)
                    found[name] = data
        return found

    def _add(self, objects: dict[Hash, bytes]) -> None:
        with self._lock:
            for name, data in objects.items():
                if name not in self._cache and len(data) <= self._limit_bytes:
                    self._cache[name] = data
                    self._bytes += len(data)
            while self._bytes > self._limit_bytes:
                _, data = self._cache.popitem(last=False)
                self._bytes -= len(data)

    def _clear(self) -> None:
        with self._lock:
            self._cache.clear()
            self._bytes = 0
