"""Hits of the memory tier beside LRU and an optimal cache, and what a hit costs.

The optimal cache (Belady) knows all requests in advance: it evicts what is asked for last, and does
not take what is never asked for again. No real cache can be better.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from random import Random
from time import process_time
from typing import NamedTuple

from bench.ground import Ground, tell
from bench.table import Budget, Figure, Row
from otolith.stores import Batch, MemoryCache, MemoryStore, Object, TieredStore
from otolith.testing import FaultyStore, blob
from otolith.types import Hash

REQUESTS_PER_KEY = 4
EXPONENT = 1.1
OBJECT_BYTES = 1000
ENTRY_BYTES = 500  # what an object takes beside its bytes
NEVER = 1 << 62


class Hits(NamedTuple):
    """Parts of the requests that were hits."""

    ours: float
    lru: float
    optimal: float


def rows(ground: Ground) -> Iterator[Row]:
    """Measure all of it."""
    keys = ground.sizes.cached_objects
    tell(f"tiers, {keys:,} objects")
    size = keys // 100
    plain = zipf(keys, keys * REQUESTS_PER_KEY)
    share = "memory for 1 % of the objects"
    traces: dict[str, tuple[str, Callable[[], Sequence[int]]]] = {
        "zipf": (f"Zipf {EXPONENT} over {keys:,} objects, {share}", lambda: plain),
        "shift": ("the same, other objects are popular in the second half", lambda: shifted(plain)),
        "scan": ("the same, with scans of objects that are read once", lambda: scanned(plain)),
    }
    for name, (work, trace) in traces.items():
        found = hits(trace(), size)
        budget = Budget(0.9, "x", of="ratio", at_least=True)
        yield _row(f"tiers-{name}", f"{work}: hits", found.ours, found.optimal, budget)
        yield _row(f"tiers-{name}-lru", f"{work}: LRU's hits", found.lru, found.optimal)
    yield from _cost(plain, size)


def _row(name: str, work: str, found: float, optimal: float, budget: Budget | None = None) -> Row:
    ours, theirs = Figure(found * 1000, ""), Figure(optimal * 1000, "")
    note = "of 1,000 reads"
    return Row(name, work, ours, "optimal", theirs, found / optimal, budget, None, note)


# ---------------------------------------------------------------- requests


def zipf(keys: int, requests: int, *, seed: int = 1) -> list[int]:
    """Return requests in which the n-th object has a share of n ** -1.1."""
    weights = list(accumulate(rank**-EXPONENT for rank in range(1, keys + 1)))
    return Random(seed).choices(range(keys), cum_weights=weights, k=requests)


def shifted(requests: Sequence[int]) -> list[int]:
    """Return requests whose second half is for other objects."""
    half = len(requests) // 2
    other = list(range(max(requests) + 1))
    Random(2).shuffle(other)
    return [*requests[:half], *(other[number] for number in requests[half:])]


def scanned(requests: Sequence[int]) -> list[int]:
    """Return requests with a scan of new objects after every eighth part of them."""
    step = len(requests) // 8
    new, found = max(requests) + 1, list[int]()
    for start in range(0, len(requests), step):
        found += requests[start : start + step]
        found += range(new, new + step // 4)
        new += step // 4
    return found


# ---------------------------------------------------------------- caches


def hits(requests: Sequence[int], size: int) -> Hits:
    """Run the same requests through our store, an LRU, and the optimal cache."""
    return Hits(_ours(requests, size), _lru(requests, size), _optimal(requests, size))


def _ours(requests: Sequence[int], size: int) -> float:
    store = tiered(max(requests) + 1, size)
    names = _names(max(requests) + 1)
    for number in requests:
        store.read([names[number]])
    memory = store.tiers()[0]
    assert memory.objects is not None
    assert memory.objects <= size
    return memory.hit_ratio


def tiered(count: int, size: int) -> TieredStore:
    """Return a store of `count` objects with memory for `size` of them."""
    cold = MemoryStore()
    cold.write(Batch([Object(name, _data(at)) for at, name in enumerate(_names(count))]))
    memory = MemoryCache(limit_bytes=size * (OBJECT_BYTES + ENTRY_BYTES))
    return TieredStore(FaultyStore(cold), [memory])


def _data(number: int) -> bytes:
    return number.to_bytes(8, "big") * (OBJECT_BYTES // 8)


_NAMES: list[Hash] = []


def _names(count: int) -> list[Hash]:
    _NAMES.extend(blob(_data(number)).hash for number in range(len(_NAMES), count))
    return _NAMES[:count]


def _lru(requests: Sequence[int], size: int) -> float:
    cache: OrderedDict[int, None] = OrderedDict()
    found = 0
    for number in requests:
        found += number in cache
        cache[number] = None
        cache.move_to_end(number)
        if len(cache) > size:
            cache.popitem(last=False)
    return found / len(requests)


def _optimal(requests: Sequence[int], size: int) -> float:
    following, last = [NEVER] * len(requests), dict[int, int]()
    for at in range(len(requests) - 1, -1, -1):
        following[at] = last.get(requests[at], NEVER)
        last[requests[at]] = at
    cache, order, found = dict[int, int](), list[tuple[int, int]](), 0
    for at, number in enumerate(requests):
        found += number in cache
        if following[at] == NEVER and number not in cache:
            continue
        cache[number] = following[at]
        heappush(order, (-following[at], number))
        while len(cache) > size:
            when, dropped = heappop(order)
            if cache.get(dropped) == -when:
                del cache[dropped]
    return found / len(requests)


# ---------------------------------------------------------------- what a hit costs


def _cost(requests: Sequence[int], size: int) -> Iterator[Row]:
    """Read objects that are all in memory, beside a plain dict of them."""
    store = tiered(size, size)
    assert isinstance(store.inner, FaultyStore)
    plain = store.read(_names(size))
    asked = [_NAMES[number] for number in requests if number < size]
    before = store.inner.calls.total()
    ours = _cpu(lambda: [store.read([name]) for name in asked], len(asked))
    trips = store.inner.calls.total() - before
    theirs = _cpu(lambda: [{name: plain[name]} for name in asked], len(asked))
    figures = Figure(ours * 1e9, ""), Figure(theirs * 1e9, "")
    work = "CPU time of a hit, nanoseconds"
    yield Row("tiers-hit", work, figures[0], "dict", figures[1], ours / theirs)
    work = "calls of the store underneath during these hits"
    yield Row("tiers-trips", work, Figure(trips, ""), budget=Budget(0, ""))


def _cpu(work: Callable[[], object], count: int) -> float:
    taken = []
    for _ in range(5):
        began = process_time()
        work()
        taken.append(process_time() - began)
    return min(taken) / count
