"""A layer with caches in front of a store: hot objects in memory, warm ones in other tiers.

Rules
1. Only objects are in tiers: they never change. Refs, moves, fences and leases come from the store
   underneath, every time.
2. A write goes to the store first, and then its objects into every tier.
3. An object is read from the first tier that has it, and copied into all tiers above (*promoted*).
   Nothing below is asked: a hit in memory takes no round trip.
4. What memory evicts, for room or by age, goes to the next tier if that has not got it (*demoted*):
   it was down when the object passed by.
5. Tiers other than memory are not trusted. Bytes that do not have their hash are a miss, and so is
   every error. A tier that failed, or took more than 2 seconds, is left alone for 5. Its calls
   block, so `otolith.aio` waits for them in another thread: a slow tier delays who asks it alone.
6. An object that another process has collected may still be answered from a tier; the answer is
   right, but the object is no longer in the store. A caller that builds on an object that may be
   gone names it in `needs`, which the inner store checks. A collection through this layer empties
   every tier that can be emptied (a Redis server drops by age alone); one that erases reports a
   tier that may still have copies.
7. Over a store that does not tell which refs move, such as a bucket, a Redis tier passes it on: who
   waits hears of a write through the same tier at once, and looks for others every few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from time import monotonic
from typing import Protocol, TypeVar, Unpack, runtime_checkable

from otolith import greenlets, text
from otolith.errors import Closed, Error, Invalid, Unavailable
from otolith.stores.base import (
    Batch,
    CollectionReport,
    CollectOptions,
    Links,
    NewsChannel,
    Store,
    Usage,
    digest,
)
from otolith.stores.layers.layer import Layer
from otolith.stores.layers.memory_cache import Evictions, MemoryCache
from otolith.types import Hash

_T = TypeVar("_T")
_SLOW_SECONDS = 2.0
_REST_SECONDS = 5.0


class ObjectCache(Protocol):
    """A place that may have an object. Safe to call from several threads.

    `errors` counts calls that failed and did not raise.
    """

    errors: int

    def get_many(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are in the cache."""
        ...

    def put_many(self, objects: Mapping[Hash, bytes]) -> Mapping[Hash, bytes] | None:
        """Add objects; return what is to go to the next tier instead, if anything."""
        ...

    def close(self) -> None:
        """Release everything. Closing twice is harmless."""
        ...


@runtime_checkable
class BoundedCache(Protocol):
    """A cache that has a limit of its own, and that can be emptied."""

    evictions: Evictions

    def usage(self) -> Usage:
        """Return how much is in the cache."""
        ...

    def clear(self, *, erase: bool = False) -> bool:
        """Drop everything; return whether, with `erase`, no copy is left in any file."""
        ...


@runtime_checkable
class Announcer(Protocol):
    """A cache by which those who use it can tell each other that refs have moved."""

    def announce(self, names: Collection[str]) -> None:
        """Tell the others that refs have moved; who does not hear it looks later."""
        ...

    def news_channel(self) -> NewsChannel:
        """Return what the others announce from now on."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class Tier:
    """What one tier has, and why. Counts are of objects, since the store was opened.

    `objects`, `stored_bytes` and `limit_bytes` are None where nobody can tell. `promoted` were
    copied here because they were read from below, `written` because they were new; neither counts
    what the tier could not take. `evictions` says how many left for `room` and by `age`, `demoted`
    how many of these were copied to the next tier.
    """

    name: str
    objects: int | None
    stored_bytes: int | None
    limit_bytes: int | None
    hits: int
    misses: int
    promoted: int
    written: int
    evictions: Evictions
    demoted: int
    errors: int

    @property
    def hit_ratio(self) -> float:
        """The part of the objects asked for here that were here; 0.0 before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    def __repr__(self) -> str:
        """Show all of it on one line."""
        held = "? objects" if self.objects is None else f"{self.objects:,} objects"
        if self.stored_bytes is not None:
            held += f", {text.size_text(self.stored_bytes)}"
        if self.limit_bytes is not None:
            held += f" of {text.size_text(self.limit_bytes)}"
        asked = f"{self.hits:,} of {self.hits + self.misses:,} reads ({self.hit_ratio:.1%})"
        came = f"promoted {self.promoted:,}, written {self.written:,}"
        room, age = self.evictions
        gone = f"evicted {room:,} for room, {age:,} by age, demoted {self.demoted:,}"
        return f"<Tier {self.name}: {held}; {asked}; {came}; {gone}; errors {self.errors:,}>"


class _Level:
    """One tier with its counts; it never raises."""

    def __init__(self, cache: ObjectCache, clock: Callable[[], float]) -> None:
        self.cache = cache
        self.memory = cache if isinstance(cache, MemoryCache) else None
        self._clock = clock
        self._rests_until = float("-inf")
        self._lock = Lock()
        self.hits = self.misses = self.promoted = self.written = self.demoted = self._errors = 0

    def get(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are here, with the bytes that their hashes name."""
        if self.memory is not None:
            return self.memory.get_many(hashes)
        answer = self.call(lambda: self.cache.get_many(hashes)) or {}
        found = {name: answer[name] for name in hashes if name in answer}
        lies = [name for name, data in found.items() if digest(data) != name]
        for name in lies:
            del found[name]
        with self._lock:
            self.hits += len(found)
            self.misses += len(hashes) - len(found)
            self._errors += len(lies)
        return found

    def put(self, objects: Mapping[Hash, bytes]) -> Mapping[Hash, bytes] | None:
        """Add objects; return what is to go to the next tier. None: it could not take them."""
        if self.memory is not None:
            return self.memory.put_many(objects)
        done = self.call(lambda: [self.cache.put_many(objects)])
        return None if done is None else done[0] or {}

    def count(
        self, *, promoted: int = 0, written: int = 0, demoted: int = 0, errors: int = 0
    ) -> None:
        """Add to the counts."""
        with self._lock:
            self.promoted += promoted
            self.written += written
            self.demoted += demoted
            self._errors += errors

    def report(self) -> Tier:
        """Return what is here, and the counts."""
        usage, evictions = None, Evictions()
        if isinstance(self.cache, BoundedCache):
            usage, evictions = self.call(self.cache.usage), self.cache.evictions
        counted = self if self.memory is None else self.memory
        with self._lock:
            return Tier(
                repr(self.cache).strip("<>"),
                *_sizes(usage),
                counted.hits,
                counted.misses,
                self.promoted,
                self.written,
                evictions,
                self.demoted,
                self._errors + self.cache.errors,
            )

    def clear(self, *, erase: bool) -> bool:
        """Drop everything; return whether, with `erase`, no copy is left in any file."""
        cache = self.cache
        if not isinstance(cache, BoundedCache):
            return False
        try:
            return greenlets.call(lambda: cache.clear(erase=erase))
        except Error:
            self.count(errors=1)
            return False

    def close(self) -> None:
        """Close the cache, whatever it says."""
        try:
            self.cache.close()
        except Error:
            self.count(errors=1)

    def call(self, call: Callable[[], _T]) -> _T | None:
        """Return the answer of the cache, or None if it failed, now or a moment ago."""
        began = self._clock()
        if began < self._rests_until:
            return None
        errors, answer = self.cache.errors, None
        try:
            answer = greenlets.call(call)
        except (Error, OSError):
            self.count(errors=1)
        else:
            has_failed = self.cache.errors != errors
            if not has_failed and self._clock() - began <= _SLOW_SECONDS:
                return answer
            self.count(errors=not has_failed)
            answer = None if has_failed else answer
        self._rests_until = self._clock() + _REST_SECONDS
        return answer


class TieredStore(Layer):
    """A store whose objects are also in caches: the hottest first, and at least one.

    `tiers` belong to the store from then on: it closes them. `otolith.open(url, tiers=…)` makes
    them of a text.

        store = TieredStore(SqliteStore("agent.db"), [MemoryCache(limit_bytes=256 << 20)])
        for tier in store.tiers():
            print(tier)
    """

    awaits = True

    def __init__(
        self,
        inner: Store,
        tiers: Sequence[ObjectCache],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if not tiers:
            raise Invalid("a tiered store needs at least one tier", hint="give a MemoryCache")
        super().__init__(inner)
        self._levels = [_Level(cache, clock) for cache in tiers]
        self._lock = Lock()
        self._cold = [0, 0, 0]  # objects found, not found, and written
        self._closed = False

    def __repr__(self) -> str:
        """Show the tiers and the store underneath."""
        tiers = ", ".join(repr(level.cache) for level in self._levels)
        return f"<{type(self).__name__} {tiers} over {self.inner!r}>"

    def tiers(self) -> list[Tier]:
        """Return what is in each tier and why, hot first; the last is the store underneath."""
        self._check_open()
        try:
            usage = self.inner.usage()
        except Unavailable:
            usage = None
        with self._lock:
            hits, misses, written = self._cold
        name = repr(self.inner).strip("<>")
        cold = Tier(name, *_sizes(usage), hits, misses, 0, written, Evictions(), 0, 0)
        return [*(level.report() for level in self._levels), cold]

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there, each from the first tier that has it."""
        self._check_open()
        found = self._levels[0].get(hashes)
        return found if len(found) == len(hashes) else self._read_below(hashes, found)

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically, and put its objects into the tiers."""
        self.inner.write(batch)
        objects = {item.hash: bytes(item.data) for item in batch.objects}
        if objects:
            with self._lock:
                self._cold[2] += len(objects)
            self._place(objects, len(self._levels), is_new=True)
        moved = [swap.name for swap in batch.swaps if swap.old != swap.new]
        announcer = self._announcer()
        if moved and announcer is not None:
            level, cache = announcer
            level.call(lambda: cache.announce(moved))

    def news_channel(self) -> NewsChannel | None:
        """Return what others announce who write through the same Redis tier, if there is one."""
        announcer = self._announcer()
        return None if announcer is None else announcer[1].news_channel()

    def _announcer(self) -> tuple[_Level, Announcer] | None:
        """Return the tier that passes news on, if the inner store does not tell."""
        if self.inner.capabilities.notifies:
            return None
        for level in self._levels:
            if isinstance(level.cache, Announcer):
                return level, level.cache
        return None

    def collect(self, links: Links, **options: Unpack[CollectOptions]) -> CollectionReport:
        """Let the inner store collect, and empty the tiers."""
        report = super().collect(links, **options)
        erase = options.get("erase", False)
        if options.get("dry_run"):
            return report
        failed = [level.cache for level in self._levels if not level.clear(erase=erase)]
        if not erase or not failed:
            return report
        return replace(report, erased=False, residue=f"{failed[0]!r} may have copies")

    def close(self) -> None:
        """Close the tiers and the inner store."""
        self._closed = True
        for level in self._levels:
            level.close()
        self.inner.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this store was closed", hint="open it again")

    def _read_below(self, hashes: Sequence[Hash], found: dict[Hash, bytes]) -> dict[Hash, bytes]:
        """Add what the tiers below the first have, and then the store underneath."""
        missing = [name for name in hashes if name not in found]
        for depth, level in enumerate(self._levels[1:], start=1):
            if missing and (some := level.get(missing)):
                self._promote(some, depth)
                found |= some
                missing = [name for name in missing if name not in found]
        if missing:
            cold = self.inner.read(missing)
            with self._lock:
                self._cold[0] += len(cold)
                self._cold[1] += len(missing) - len(cold)
            if cold:
                self._promote(cold, len(self._levels))
                found |= cold
        return found

    def _promote(self, objects: Mapping[Hash, bytes], depth: int) -> None:
        """Copy objects into all tiers above a depth."""
        self._place(objects, depth, is_new=False)

    def _place(self, objects: Mapping[Hash, bytes], depth: int, *, is_new: bool) -> None:
        """Put objects into the tiers above a depth, and what these evict into the next."""
        counted = "written" if is_new else "promoted"
        demoted: Mapping[Hash, bytes] = {}
        above: _Level | None = None
        for number, level in enumerate(self._levels):
            here = {**objects, **demoted} if number < depth else demoted
            if not here:
                return
            evicted = level.put(here)
            if evicted is not None and number < depth:
                level.count(**{counted: len(objects)})
            if above is not None:
                if evicted is not None:
                    above.count(demoted=len(demoted))
                elif above.memory is not None and number < depth:
                    above.memory.mark_only_here(objects)
            above, demoted = level, evicted or {}


class CachedStore(TieredStore):
    """A store that reads each object once from another store, as long as there is room in memory.

    `limit_bytes` bounds the bytes of the objects. It is a `TieredStore` with one tier.
    """

    def __init__(self, inner: Store, *, limit_bytes: int = 64 << 20) -> None:
        self._cache = MemoryCache(limit_bytes=limit_bytes, entry_bytes=0)
        super().__init__(inner, [self._cache])

    @property
    def cached_bytes(self) -> int:
        """The current size of the cache: never more than the limit."""
        return self._cache.usage().stored_bytes


def _sizes(usage: Usage | None) -> tuple[int | None, int | None, int | None]:
    return (None,) * 3 if usage is None else (usage.objects, usage.stored_bytes, usage.limit_bytes)
