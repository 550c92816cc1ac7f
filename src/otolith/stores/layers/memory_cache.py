"""A cache of objects in memory, with a policy that a scan does not flush.

Rules (S3-FIFO: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023)
1. A new object waits in a short queue, a fifth of the bytes. If nobody reads it there, it is
   evicted, and only its name is remembered. So a scan flushes a fifth of the cache at most.
2. An object that was read while it waited, or that comes back while its name is remembered, goes
   into the main queue. There the oldest is evicted, but one that was read takes another turn for
   each of up to three reads.
3. As many names are remembered as there are objects, and only as numbers: two names that share one
   do no harm.
4. With an age, an object that nobody has read for so long is evicted, at the latest after twice the
   age. No thread waits for that: it happens when the next object is added.

Every step is O(1) per object, amortised; reading one counts up to three and moves nothing. On Zipf
1.1 with memory for 1 % of the objects this has 0.93 of the hits of an optimal cache; LRU has 0.85.
`bench/remote/tiers.py` measures it, also with popularities that change and with scans.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import NamedTuple

from otolith import text
from otolith.stores.base import Usage
from otolith.types import Hash

ENTRY_BYTES = 500
"""What an object takes beside its bytes: its entry, its place in a queue, and a remembered name."""

_NEW_SHARE = 0.2
_MOST_READS = 3


class Evictions(NamedTuple):
    """How many objects have left a cache, by reason."""

    room: int = 0
    age: int = 0


class _Entry:
    """One object in memory. `is_only_here`: the next tier could not take it."""

    __slots__ = ("data", "is_only_here", "name", "reads", "was_used")

    def __init__(self, name: Hash, data: bytes) -> None:
        self.name = name
        self.data = data
        self.reads = 0
        self.was_used = True
        self.is_only_here = False


class MemoryCache:
    """Objects in the memory of this process; threads may share it.

    `limit_bytes` bounds the objects with all that is remembered about them: each counts with
    `entry_bytes` more than its length. `clock` returns seconds. `hits` and `misses` count objects.
    """

    errors = 0

    def __init__(
        self,
        *,
        limit_bytes: int,
        age_seconds: float | None = None,
        entry_bytes: int = ENTRY_BYTES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._entry_bytes = entry_bytes
        self._age_seconds = age_seconds
        self._clock = clock
        self._next_sweep = clock() + age_seconds if age_seconds is not None else float("inf")
        self._lock = Lock()
        self._entries: dict[Hash, _Entry] = {}
        self._new: deque[_Entry] = deque()
        self._main: deque[_Entry] = deque()
        self._remembered: set[int] = set()
        self._remembered_order: deque[int] = deque()
        self._bytes = 0
        self._new_bytes = 0
        self.evictions = Evictions()
        self.hits = self.misses = 0

    def __repr__(self) -> str:
        """Show the limit."""
        return f"<{type(self).__name__} {text.size_text(self._limit_bytes)}>"

    def get_many(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are in the cache."""
        found: dict[Hash, bytes] = {}
        with self._lock:
            for name in hashes:
                entry = self._entries.get(name)
                if entry is None:
                    continue
                found[name] = entry.data
                entry.was_used = True
                if entry.reads < _MOST_READS:
                    entry.reads += 1
            self.hits += len(found)
            self.misses += len(hashes) - len(found)
        return found

    def put_many(self, objects: Mapping[Hash, bytes]) -> dict[Hash, bytes]:
        """Add objects; return those evicted that the next tier has not got (`mark_only_here`)."""
        evicted: list[_Entry] = []
        with self._lock:
            if self._age_seconds is not None and self._clock() >= self._next_sweep:
                evicted += self._sweep(self._age_seconds)
            for name, data in objects.items():
                size = len(data) + self._entry_bytes
                if name not in self._entries and size <= self._limit_bytes:
                    evicted += self._make_room(size)
                    self._add(_Entry(name, data), size)
            while len(self._remembered_order) > len(self._entries):
                self._remembered.discard(self._remembered_order.popleft())
        return {entry.name: entry.data for entry in evicted if entry.is_only_here}

    def mark_only_here(self, names: Iterable[Hash]) -> None:
        """Note that the next tier has not got these objects: they go there once evicted."""
        with self._lock:
            for name in names:
                entry = self._entries.get(name)
                if entry is not None:
                    entry.is_only_here = True

    def usage(self) -> Usage:
        """Return how much is in the cache."""
        with self._lock:
            return Usage(len(self._entries), self._bytes, self._limit_bytes)

    def clear(self, *, erase: bool = False) -> bool:
        """Drop everything; return True: there is no file."""
        with self._lock:
            for part in (self._entries, self._new, self._main, self._remembered):
                part.clear()
            self._remembered_order.clear()
            self._bytes = self._new_bytes = 0
        return True

    def close(self) -> None:
        """Drop everything."""
        self.clear()

    def _add(self, entry: _Entry, size: int) -> None:
        self._entries[entry.name] = entry
        self._bytes += size
        if hash(entry.name) in self._remembered:
            self._remembered.remove(hash(entry.name))
            self._main.append(entry)
        else:
            self._new.append(entry)
            self._new_bytes += size

    def _make_room(self, size: int) -> list[_Entry]:
        """Evict until an object of this size fits; return what was evicted."""
        evicted: list[_Entry] = []
        while self._bytes + size > self._limit_bytes and (self._new or self._main):
            is_new = self._new_bytes >= self._limit_bytes * _NEW_SHARE or not self._main
            is_new = is_new and bool(self._new)
            entry = (self._new if is_new else self._main).popleft()
            if is_new:
                self._new_bytes -= self._size(entry)
            if entry.reads:
                entry.reads = 0 if is_new else entry.reads - 1
                self._main.append(entry)
                continue
            if is_new:
                self._remembered.add(hash(entry.name))
                self._remembered_order.append(hash(entry.name))
            self._drop(entry)
            evicted.append(entry)
        room, age = self.evictions
        self.evictions = Evictions(room + len(evicted), age)
        return evicted

    def _sweep(self, age_seconds: float) -> list[_Entry]:
        """Evict what nobody has used since the last sweep."""
        self._next_sweep = self._clock() + age_seconds
        evicted = [entry for entry in self._entries.values() if not entry.was_used]
        for entry in evicted:
            self._drop(entry)
        self._new = deque(entry for entry in self._new if entry.was_used)
        self._main = deque(entry for entry in self._main if entry.was_used)
        self._new_bytes = sum(map(self._size, self._new))
        for entry in self._entries.values():
            entry.was_used = False
        room, age = self.evictions
        self.evictions = Evictions(room, age + len(evicted))
        return evicted

    def _drop(self, entry: _Entry) -> None:
        del self._entries[entry.name]
        self._bytes -= self._size(entry)

    def _size(self, entry: _Entry) -> int:
        return len(entry.data) + self._entry_bytes
