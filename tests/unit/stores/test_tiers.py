"""Tiers in front of a store: what is where, what is asked, what moves, and how it is written."""

from __future__ import annotations

import tracemalloc
from collections import OrderedDict
from itertools import accumulate
from random import Random

import pytest

import otolith
from otolith.errors import Closed, Invalid, NotFound, Unsupported
from otolith.stores import (
    Batch,
    Evictions,
    KeyValueStore,
    MemoryCache,
    MemoryStore,
    SqliteStore,
    StoreCache,
    TieredStore,
    with_tiers,
)
from otolith.testing import Fault, FaultyStore, blob, links, put
from tests.unit.stores.test_naming import DictKV

ROOM_FOR_TEN = 10 * (500 + 100)


def objects(count, size=100):
    return [blob(number.to_bytes(4, "big") * (size // 4)) for number in range(count)]


def read(store, *items):
    assert store.read([item.hash for item in items]) == {item.hash: item.data for item in items}


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


# ---------------------------------------------------------------- what is asked


def test_a_hit_in_memory_asks_nothing_below():
    cold, warm = FaultyStore(MemoryStore()), FaultyStore(MemoryStore())
    store = TieredStore(cold, [MemoryCache(limit_bytes=10_000), StoreCache(warm)])
    item = blob("a")
    cold.inner.write(Batch(objects=[item]))
    read(store, item)
    before = (cold.calls.total(), warm.calls.total())
    for _ in range(100):
        read(store, item)
    assert (cold.calls.total(), warm.calls.total()) == before
    assert store.tiers()[0].hits == 100


def test_a_hit_in_a_warm_tier_does_not_ask_the_store():
    cold, warm = FaultyStore(MemoryStore()), MemoryStore()
    item = blob("a")
    first = TieredStore(cold, [MemoryCache(limit_bytes=10_000), StoreCache(warm)])
    first.write(Batch(objects=[item]))
    second = TieredStore(cold, [MemoryCache(limit_bytes=10_000), StoreCache(warm)])
    read(second, item)
    assert cold.calls["read"] == 0
    memory, warm_tier, below = second.tiers()
    assert (memory.misses, memory.promoted, memory.objects) == (1, 1, 1)
    assert (warm_tier.hits, warm_tier.promoted, below.hits) == (1, 0, 0)


def test_only_what_a_tier_lacks_is_asked_below():
    cold = FaultyStore(MemoryStore())
    store = TieredStore(cold, [MemoryCache(limit_bytes=10_000)])
    here, there, nowhere = blob("here"), blob("there"), blob("nowhere")
    store.write(Batch(objects=[here]))
    cold.inner.write(Batch(objects=[there]))
    found = store.read([here.hash, there.hash, nowhere.hash])
    assert found == {here.hash: here.data, there.hash: there.data}
    below = store.tiers()[-1]
    assert (below.hits, below.misses) == (1, 1)


def test_refs_come_from_the_store_every_time():
    cold = MemoryStore()
    store = with_tiers(cold, "memory:1MB")
    put(store, "main", blob("a"))
    put(cold, "main", blob("b"))
    assert store.ref("main") == blob("b").hash


def test_a_refused_write_puts_nothing_into_a_tier():
    store = with_tiers(MemoryStore(), "memory:1MB")
    with pytest.raises(NotFound):
        store.write(Batch(objects=[blob("a")], needs=[blob("gone").hash]))
    assert store.read([blob("a").hash]) == {}


def test_after_closing_nothing_is_answered(tmp_path):
    store = with_tiers(MemoryStore(), f"memory:1MB,{tmp_path}/warm.db")
    store.write(Batch(objects=[blob("a")]))
    store.close()
    store.close()
    with pytest.raises(Closed):
        store.read([blob("a").hash])
    with pytest.raises(Closed):
        store.tiers()


# ---------------------------------------------------------------- what moves, and why


def test_what_memory_evicts_is_demoted_only_if_the_next_tier_has_not_got_it():
    clock, items = Clock(), objects(30)
    warm = FaultyStore(MemoryStore())
    memory = MemoryCache(limit_bytes=ROOM_FOR_TEN)
    store = TieredStore(MemoryStore(), [memory, StoreCache(warm)], clock=clock)
    warm.plan = [Fault("write")]
    store.write(Batch(objects=items[:10]))
    warm.plan, clock.seconds = [], 60.0
    store.write(Batch(objects=items[10:]))
    above = store.tiers()[0]
    assert above.evictions == Evictions(room=20)
    assert above.demoted == 10  # the others were there already
    assert warm.inner.read([items[0].hash])


def test_an_object_leaves_memory_by_age():
    clock, items = Clock(), objects(3)
    cache = MemoryCache(limit_bytes=10_000, age_seconds=60, clock=clock)
    cache.put_many({item.hash: item.data for item in items[:2]})
    clock.seconds = 61
    cache.put_many({})
    clock.seconds = 100
    cache.get_many([items[1].hash])
    clock.seconds = 122
    cache.put_many({items[2].hash: items[2].data})
    assert cache.get_many([item.hash for item in items]).keys() == {i.hash for i in items[1:]}
    assert cache.evictions == Evictions(age=1)
    assert cache.usage().stored_bytes == 2 * 600


def test_a_store_as_a_tier_drops_what_was_not_used_last(tmp_path):
    random = Random(1)
    items = [blob(random.randbytes(4000)) for _ in range(400)]
    limit = 1 << 20
    cache = StoreCache(SqliteStore(tmp_path / "warm.db", durability="fast", limit_bytes=limit))
    hot = items[0]
    for item in items:
        cache.put_many({item.hash: item.data})
        assert cache.get_many([hot.hash]), "it is used all the time"
        assert cache.usage().stored_bytes <= limit
    assert cache.get_many([items[-1].hash])
    assert cache.evictions.room > 100
    assert not cache.get_many([items[1].hash])
    cache.close()


def test_a_store_with_refs_of_its_own_is_not_a_cache(tmp_path):
    with otolith.open(tmp_path / "a.db") as repo:
        state = repo.session("s")
        state["a"] = 1
        state.commit()
    with pytest.raises(Invalid, match="has refs"):
        with_tiers(MemoryStore(), f"memory:1MB,{tmp_path}/a.db;limit=1MB")
    with otolith.open(tmp_path / "a.db") as repo:
        assert repo.session("s")["a"] == 1


def test_a_cache_that_became_a_store_is_not_emptied():
    inner = MemoryStore()
    cache = StoreCache(inner)
    put(inner, "main", blob("a"))
    with pytest.raises(Invalid, match="has refs"):
        cache.clear()
    assert inner.read([blob("a").hash])


def test_a_store_that_cannot_make_room_has_no_limit_as_a_cache():
    class Plain(DictKV):
        def swap(self, key, old, new):
            return super().swap(key, old, new)

    with pytest.raises(Invalid, match="does not collect"):
        StoreCache(KeyValueStore(Plain(), limit_bytes=1000))


def test_a_collection_empties_the_tiers(tmp_path):
    item = blob(Random(1).randbytes(1000))
    store = with_tiers(MemoryStore(), f"memory:1MB,{tmp_path}/warm.db")
    store.write(Batch(objects=[item]))
    store.collect(links, dry_run=True)
    assert store.read([item.hash])
    assert store.collect(links, erase=True).erased
    assert store.read([item.hash]) == {}
    store.close()
    assert item.data[:50] not in (tmp_path / "warm.db").read_bytes()


class Keeper:
    """A cache that cannot be emptied, as a Redis server is."""

    errors = 0

    def __init__(self):
        self.objects = {}

    def get_many(self, hashes):
        return {name: self.objects[name] for name in hashes if name in self.objects}

    def put_many(self, objects):
        self.objects |= objects

    def close(self):
        pass


def test_a_tier_that_may_have_copies_is_reported_by_an_erasure():
    store = TieredStore(MemoryStore(), [MemoryCache(limit_bytes=1000), Keeper()])
    report = store.collect(links, erase=True)
    assert not report.erased
    assert "Keeper" in report.residue
    assert store.collect(links).residue == ""


# ---------------------------------------------------------------- the policy


def zipf(count, requests, *, seed=1, exponent=1.1):
    weights = list(accumulate(rank**-exponent for rank in range(1, count + 1)))
    return Random(seed).choices(range(count), cum_weights=weights, k=requests)


def hit_ratio(cache, requests, names):
    hits = 0
    for number in requests:
        name = names[number]
        if cache.get_many([name]):
            hits += 1
        else:
            cache.put_many({name: b"x" * 100})
    return hits / len(requests)


def lru_ratio(requests, size):
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for number in requests:
        hits += number in cache
        cache[number] = None
        cache.move_to_end(number)
        if len(cache) > size:
            cache.popitem(last=False)
    return hits / len(requests)


@pytest.fixture(scope="module")
def names():
    return [blob(number.to_bytes(4, "big")).hash for number in range(30_000)]


def test_hot_objects_stay_when_everything_is_read_once(names):
    hot, scan = zipf(500, 20_000), list(range(1000, 30_000))
    cache = MemoryCache(limit_bytes=500 * 600)
    hit_ratio(cache, hot, names)
    hit_ratio(cache, scan, names)
    assert hit_ratio(cache, hot[:2000], names) > 0.9


def add(cache, names):
    for name in names:
        cache.put_many({name: bytes(100)})


def test_a_new_object_has_a_fifth_of_a_full_cache_to_be_read_in(names):
    cache = MemoryCache(limit_bytes=100 * 600)
    for _ in range(2):
        hit_ratio(cache, range(100), names)
    add(cache, names[100:140])  # from now on, the queue of new objects is as long as it gets
    add(cache, [names[200], *names[300:319]])
    assert cache.get_many([names[200]])
    add(cache, names[400:440])
    assert cache.get_many([names[200]]), "it was read in time"
    assert not cache.get_many([names[300]])


def test_an_object_that_comes_back_soon_stays(names):
    cache = MemoryCache(limit_bytes=100 * 600)
    for _ in range(2):
        hit_ratio(cache, range(100), names)
    add(cache, names[100:160])
    assert not cache.get_many([names[100]])
    add(cache, [names[100], *names[200:260]])
    assert cache.get_many([names[100]])


def test_a_new_popularity_is_followed(names):
    cache = MemoryCache(limit_bytes=100 * 600)
    first = zipf(10_000, 30_000)
    second = [number + 15_000 for number in first]
    old = hit_ratio(cache, first, names)
    hit_ratio(cache, second[:5000], names)
    assert hit_ratio(cache, second[5000:], names) > 0.97 * old


def test_it_hits_more_often_than_lru(names):
    requests = zipf(10_000, 50_000)
    cache = MemoryCache(limit_bytes=100 * 600)
    assert hit_ratio(cache, requests, names) > 1.08 * lru_ratio(requests, 100)


@pytest.mark.parametrize("size", [0, 30, 3000])
def test_the_limit_counts_what_is_remembered_too(size):
    limit, random = 3_000_000, Random(1)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        cache = MemoryCache(limit_bytes=limit)
        for number in range(15_000):
            data = number.to_bytes(4, "big") + random.randbytes(size)
            cache.put_many({blob(data).hash: data})
            assert cache.usage().stored_bytes <= limit
        assert tracemalloc.get_traced_memory()[0] - before <= limit + 10_000
    finally:
        tracemalloc.stop()


def test_an_object_larger_than_the_limit_evicts_nothing():
    cache = MemoryCache(limit_bytes=1000)
    cache.put_many({blob("a").hash: b"a"})
    cache.put_many({blob(bytes(1000)).hash: bytes(1000)})
    assert cache.usage().objects == 1
    assert cache.evictions == Evictions()


def test_sizes_of_all_kinds_never_pass_the_limit():
    clock, random = Clock(), Random(2)
    cache = MemoryCache(limit_bytes=100_000, age_seconds=10, clock=clock)
    for _ in range(3000):
        clock.seconds += 1
        data = random.randbytes(random.choice([1, 100, 5000, 60_000]))
        cache.put_many({blob(data).hash: data})
        cache.get_many(random.sample(sorted(cache._entries), min(3, len(cache._entries))))
        usage = cache.usage()
        assert usage.stored_bytes <= 100_000
        assert usage.stored_bytes == sum(len(e.data) + 500 for e in cache._entries.values())
        assert usage.objects == len(cache._new) + len(cache._main)
        assert cache._new_bytes == sum(len(entry.data) + 500 for entry in cache._new)
    assert min(cache.evictions) > 0


# ---------------------------------------------------------------- how tiers are written and shown


def test_a_repo_with_tiers_is_one_repo(tmp_path):
    tiers = f"memory:256MB;age=1h,{tmp_path}/ssd.db;limit=10 MB"
    with otolith.open(tmp_path / "a.db", tiers=tiers, cache_bytes=0) as repo:
        state = repo.session("s")
        state["a"] = list(range(100))
        state.commit()
    with otolith.open(tmp_path / "a.db", tiers=tiers.split(","), cache_bytes=0) as repo:
        assert repo.session("s")["a"] == list(range(100))
        assert isinstance(repo.store, TieredStore)
        memory, warm, cold = repo.store.tiers()
        assert (memory.limit_bytes, warm.limit_bytes) == (256_000_000, 10_000_000)
        assert warm.hits > 0
        assert cold.hits == 0
        assert repo.store.path == str(tmp_path / "a.db")


def test_a_tier_is_one_line(tmp_path):
    store = with_tiers(MemoryStore(), "memory:256MB")
    store.write(Batch(objects=[blob("a")]))
    read(store, blob("a"))
    memory, cold = store.tiers()
    assert repr(memory) == (
        "<Tier MemoryCache 256.0 MB: 1 objects, 501 B of 256.0 MB; 1 of 1 reads (100.0%); "
        "promoted 0, written 1; evicted 0 for room, 0 by age, demoted 0; errors 0>"
    )
    assert repr(cold).startswith("<Tier MemoryStore 1 objects, 1 bytes: 1 objects, 1 B; 0 of 0")


@pytest.mark.parametrize(
    ("tiers", "problem"),
    [
        ("", "tier 1 must be a text"),
        ("memory:1MB,", "tier 2 must be a text"),
        ("memory:", "tier 1, memory:: '' is not a size"),
        ("memory:much", "tier 1, memory:much: 'much' is not a size"),
        ("memory:0", "'0' is not a size"),
        ("memory:1MB;age=soon", "age must be a time"),
        ("memory:1MB;limit=3", "'limit=3' is not an option"),
        ("memory:1MB;age=1h;age=2h", "is not an option"),
        ("memory:1MB,warm.db;limit=x", "tier 2, warm.db;limit=x: 'x' is not a size"),
        ("memory:1MB,warm.db;age=1h", "'age=1h' is not an option"),
        ("memory:1MB,sqlite://host/x", "tier 2, sqlite://host/x: sqlite://host/x names a host"),
        ([], "at least one tier"),
        (["memory:1MB", 5], "tier 2 must be a text, got 5"),
        (5, "must be a text or a list of texts, got int"),
        (b"memory:1MB", "must be a text or a list of texts, got bytes"),
    ],
)
def test_a_wrong_tier_is_named(tiers, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Invalid) as refused:
        otolith.open("memory:", tiers=tiers)
    assert problem in str(refused.value)


def test_a_tier_of_an_unknown_kind_is_unsupported():
    with pytest.raises(Unsupported, match="no store for ftp:"):
        with_tiers(MemoryStore(), "ftp://host/x")


def test_a_password_is_not_shown(tmp_path):
    with pytest.raises(Invalid) as refused:
        with_tiers(MemoryStore(), "redis://user:hunter2@host;limit=3")
    assert "hunter2" not in str(refused.value)


def test_the_store_cannot_be_its_own_cache(tmp_path):
    for _ in range(2):
        with pytest.raises(Invalid, match="cannot be"):
            otolith.open(tmp_path / "a.db", tiers=f"memory:1MB,{tmp_path}/a.db")
