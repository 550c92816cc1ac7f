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

from otolith.errors import Closed, Unsupported
from otolith.stores.base import (
    Batch,
    Capabilities,
    CollectionReport,
    Collector,
    IntegrityChecker,
    Links,
    Move,
    Preparer,
    Progress,
    Store,
    Usage,
    digest,
)
from otolith.types import Hash


class CachedStore:
    """A store that reads each object once from another store, as long as there is room.

    `limit_bytes` bounds the cache; the least recently used objects are dropped first.
    """

    def __init__(self, inner: Store, *, limit_bytes: int = 64 << 20) -> None:
        self._inner = inner
        self._limit_bytes = limit_bytes
        self._lock = Lock()
        self._cache: OrderedDict[Hash, bytes] = OrderedDict()
        self._bytes = 0
        self._closed = False

    def __repr__(self) -> str:
        """Show how much is cached, and of what."""
        return f"<{type(self).__name__} {self._bytes} bytes of {self._inner!r}>"

    @property
    def capabilities(self) -> Capabilities:
        """What the inner store can do."""
        return self._inner.capabilities

    @property
    def cached_bytes(self) -> int:
        """The current size of the cache: never more than the limit."""
        return self._bytes

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there, from the cache where possible."""
        found = self._cached(hashes)
        missing = [name for name in hashes if name not in found]
        if missing:
            fetched = self._inner.read(missing)
            self._add(fetched)
            found.update(fetched)
        return found

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically, and cache its objects."""
        self._inner.write(batch)
        self._add({item.hash: bytes(item.data) for item in batch.objects})

    def prepare(self, objects: Sequence[bytes]) -> list[Hash]:
        """Let the inner store encode objects ahead of the write, if it can."""
        if isinstance(self._inner, Preparer):
            return self._inner.prepare(objects)
        return list(map(digest, objects))

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        return self._inner.ref(name)

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        return self._inner.refs(prefix)

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""
        return self._inner.moves(name, limit=limit)

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes."""
        return self._inner.find(prefix, limit=limit)

    def usage(self) -> Usage:
        """Return how much the inner store holds."""
        return self._inner.usage()

    def close(self) -> None:
        """Close the inner store too."""
        self._closed = True
        self._clear()
        self._inner.close()

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
        if not isinstance(self._inner, Collector):
            raise Unsupported(
                f"{type(self._inner).__name__} cannot collect", hint="see capabilities.collects"
            )
        report = self._inner.collect(
            links,
            forget_moves_before=forget_moves_before,
            progress=progress,
            dry_run=dry_run,
            erase=erase,
        )
        self._clear()
        return report

    def uncached(self) -> Store:
        """Return the inner store without its caches."""
        return self._inner.uncached() if isinstance(self._inner, IntegrityChecker) else self._inner

    def check(self) -> list[tuple[str, str]]:
        """Return what is damaged in the inner store beside objects, refs and moves."""
        return self._inner.check() if isinstance(self._inner, IntegrityChecker) else []

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
