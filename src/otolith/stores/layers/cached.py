"""A layer that remembers objects, within a number of bytes.

Only objects are remembered: they never change. Refs are asked for every time. An object that
another process has collected may still be answered from here; the answer is right, but the object
is no longer in the store. Whoever builds on an object that may be gone names it in `needs`, which
the inner store checks. A collection through this layer forgets everything.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

from otolith.errors import Closed, Unsupported
from otolith.stores.base import (
    Batch,
    Capabilities,
    Collected,
    Collector,
    Links,
    Move,
    Prefetcher,
    SelfChecking,
    Store,
    Usage,
    digest,
)
from otolith.types import Hash


class CachedStore:
    """A store that reads each object once, as long as there is room."""

    def __init__(self, inner: Store, *, limit_bytes: int = 64 << 20) -> None:
        self._inner = inner
        self._limit_bytes = limit_bytes
        self._lock = Lock()
        self._cache: OrderedDict[Hash, bytes] = OrderedDict()
        self._bytes = 0
        self._closed = False

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    @property
    def cached_bytes(self) -> int:
        """How much is remembered now: never more than the limit."""
        return self._bytes

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        found = self._recall(hashes)
        missing = [name for name in hashes if name not in found]
        if missing:
            fetched = self._inner.read(missing)
            self._remember(fetched)
            found.update(fetched)
        return found

    def write(self, batch: Batch) -> None:
        self._inner.write(batch)
        self._remember({item.hash: bytes(item.data) for item in batch.objects})

    def expect(self, objects: Sequence[bytes]) -> list[Hash]:
        if isinstance(self._inner, Prefetcher):
            return self._inner.expect(objects)
        return list(map(digest, objects))

    def ref(self, name: str) -> Hash | None:
        return self._inner.ref(name)

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        return self._inner.refs(prefix)

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        return self._inner.moves(name, limit=limit)

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        return self._inner.find(prefix, limit=limit)

    def usage(self) -> Usage:
        return self._inner.usage()

    def close(self) -> None:
        self._closed = True
        self._forget()
        self._inner.close()

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> Collected:
        if not isinstance(self._inner, Collector):
            raise Unsupported(
                f"{type(self._inner).__name__} cannot collect", hint="see capabilities.collects"
            )
        done = self._inner.collect(
            links,
            forget_moves_before=forget_moves_before,
            progress=progress,
            dry_run=dry_run,
            erase=erase,
        )
        self._forget()
        return done

    def reread(self) -> Store:
        return self._inner.reread() if isinstance(self._inner, SelfChecking) else self._inner

    def check(self) -> list[tuple[str, str]]:
        return self._inner.check() if isinstance(self._inner, SelfChecking) else []

    def _recall(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
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

    def _remember(self, fresh: dict[Hash, bytes]) -> None:
        with self._lock:
            for name, data in fresh.items():
                if name not in self._cache and len(data) <= self._limit_bytes:
                    self._cache[name] = data
                    self._bytes += len(data)
            while self._bytes > self._limit_bytes:
                _, data = self._cache.popitem(last=False)
                self._bytes -= len(data)

    def _forget(self) -> None:
        with self._lock:
            self._cache.clear()
            self._bytes = 0
