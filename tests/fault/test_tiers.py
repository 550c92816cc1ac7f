"""Tiers that fail, stall or lie cost time, and never an answer."""

from __future__ import annotations

import threading
from contextlib import closing
from random import Random
from time import monotonic
from urllib.parse import urlsplit

import pytest

from otolith.errors import Corrupt, Denied
from otolith.stores import (
    Batch,
    KeyValueStore,
    MemoryCache,
    MemoryStore,
    SqliteStore,
    StoreCache,
    Swap,
    TieredStore,
    TierWarning,
    listened_news,
    news_of,
    tier_list,
    with_tiers,
)
from otolith.testing import Fault, FaultyStore, blob
from tests.patience import HANG_SECONDS, seconds
from tests.servers.postgres import fresh
from tests.servers.proxy import Proxy
from tests.servers.redis import redis_server
from tests.unit.stores.test_naming import DictKV


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


def tiered(warm, *, cold=None, memory_bytes=1, clock=None):
    """A store over a warm tier; with one byte of memory, every read gets there."""
    cold = cold if cold is not None else MemoryStore()
    memory = MemoryCache(limit_bytes=memory_bytes)
    return TieredStore(cold, [memory, StoreCache(warm)], clock=clock or Clock())


def test_a_tier_that_fails_is_a_miss_and_is_left_alone_for_a_while():
    clock, warm, item = Clock(), FaultyStore(MemoryStore()), blob("a")
    store = tiered(warm, clock=clock)
    store.write(Batch(objects=[item]))
    warm.plan = [Fault("*")]
    before = warm.calls.total()
    for _ in range(10):
        assert store.read([item.hash]) == {item.hash: item.data}
        store.write(Batch(objects=[item]))
    assert warm.calls.total() == before + 1
    assert store._levels[1].report().errors == 1
    clock.seconds += 6
    warm.plan = []
    assert store.read([item.hash]) == {item.hash: item.data}
    assert store.tiers()[1].hits == 1


@pytest.mark.parametrize("call", ["read", "write"])
def test_a_tier_that_stalls_is_left_alone_for_a_while(call):
    clock, item = Clock(), blob("a")

    class Stalled(FaultyStore):
        slow = ""

        def _meet(self, call):
            clock.seconds += 3 if call == self.slow else 0
            return super()._meet(call)

    warm = Stalled(MemoryStore())
    store = tiered(warm, clock=clock)
    store.write(Batch(objects=[item]))
    warm.slow = call
    before = warm.calls[call]
    for _ in range(10):
        assert store.read([item.hash]) == {item.hash: item.data}
        store.write(Batch(objects=[item]))
    assert warm.calls[call] == before + 1
    assert store._levels[1].report().errors == 1


def test_a_tier_that_lies_is_a_miss():
    warm, item = FaultyStore(MemoryStore()), blob("a")
    store = tiered(warm)
    store.write(Batch(objects=[item]))
    warm.plan = [Fault("read", kind="flip")]
    assert store.read([item.hash]) == {item.hash: item.data}
    tier = store.tiers()[1]
    assert (tier.hits, tier.misses, tier.errors) == (0, 1, 1)


def test_a_tier_that_answers_what_nobody_asked_is_not_believed():
    asked, other = blob("asked"), blob("other")

    class Confused(MemoryStore):
        def read(self, hashes):
            return {asked.hash: other.data, other.hash: other.data}

    store = tiered(Confused())
    store.write(Batch(objects=[asked]))
    assert store.read([asked.hash]) == {asked.hash: asked.data}


def test_a_bit_that_flips_in_the_file_of_a_tier_is_a_miss(tmp_path):
    random = Random(1)
    items = [blob(random.randbytes(3000)) for _ in range(3)]
    cold = MemoryStore()
    cold.write(Batch(objects=items))
    warm = SqliteStore(tmp_path / "warm.db")
    tiered(warm, cold=cold).read([item.hash for item in items])
    warm.close()
    with (tmp_path / "warm.db").open("r+b") as file:
        content = file.read()
        place = content.index(items[1].data[1000:1010])
        file.seek(place)
        file.write(bytes([content[place] ^ 1]))
    warm = SqliteStore(tmp_path / "warm.db")
    with pytest.raises(Corrupt):
        warm.read([items[1].hash])
    store = tiered(warm, cold=cold)
    assert store.read([item.hash for item in items]) == {i.hash: i.data for i in items}
    assert (store.tiers()[1].hits, store.tiers()[1].misses) == (2, 1)
    store.close()


def test_the_tiers_can_be_shown_while_the_store_is_down():
    cold, item = FaultyStore(MemoryStore()), blob("a")
    store = tiered(MemoryStore(), cold=cold, memory_bytes=1000)
    store.write(Batch(objects=[item]))
    cold.plan = [Fault("*")]
    assert store.read([item.hash]) == {item.hash: item.data}
    memory, _, below = store.tiers()
    assert (memory.hits, below.objects, below.written) == (1, None, 1)


def test_a_tier_whose_disk_is_full_takes_nothing_more(tmp_path):
    limit = 200_000
    warm = SqliteStore(tmp_path / "warm.db", durability="fast", limit_bytes=limit)
    store = tiered(warm)
    random = Random(1)
    large = blob(random.randbytes(3 * limit))
    store.write(Batch(objects=[large]))
    assert store.read([large.hash]) == {large.hash: large.data}
    assert store.tiers()[1].errors == 0
    store.close()


def test_threads_read_right_answers_and_every_read_is_counted(tmp_path, rounds):
    cold, random = MemoryStore(), Random(1)
    items = [blob(random.randbytes(random.randint(1, 3000))) for _ in range(300)]
    cold.write(Batch(objects=items))
    limit = 1 << 18
    warm = SqliteStore(tmp_path / "warm.db", durability="fast", limit_bytes=limit)
    store = tiered(warm, cold=cold, memory_bytes=60_000)
    count, wrong = rounds(300, 3000), []

    def reader(seed):
        choice = Random(seed)
        for _ in range(count):
            some = choice.sample(items, 5)
            if store.read([item.hash for item in some]) != {i.hash: i.data for i in some}:
                wrong.append(some)

    threads = [threading.Thread(target=reader, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()
    assert wrong == []
    memory, warm_tier, below = store.tiers()
    assert memory.hits + memory.misses == 4 * count * 5
    assert memory.misses == warm_tier.hits + warm_tier.misses
    assert warm_tier.misses == below.hits
    assert memory.stored_bytes <= 60_000
    assert warm_tier.stored_bytes <= limit
    assert memory.evictions.room > 0
    assert warm_tier.errors == 0
    store.close()


# ---------------------------------------------------------------- a Redis server


@pytest.fixture
def server(tmp_path):
    servers = pytest.importorskip("tests.servers.redis")
    with servers.redis_server(tmp_path / "redis") as server:
        yield server


def test_a_redis_server_is_a_tier_that_machines_share(server):
    cold, item = FaultyStore(MemoryStore()), blob("a")
    tiers = f"memory:1MB,{server.url};age=1h"
    first, second = with_tiers(cold, tiers), with_tiers(cold, tiers)
    first.write(Batch(objects=[item]))
    assert second.read([item.hash]) == {item.hash: item.data}
    assert cold.calls["read"] == 0
    tier = second.tiers()[1]
    assert (tier.hits, tier.objects, tier.errors) == (1, None, 0)
    first.close()
    second.close()


def test_a_redis_server_that_freezes_and_dies_costs_time_and_no_answer(server):
    items = [blob(bytes([number]) * 100) for number in range(50)]
    cold = MemoryStore()
    cold.write(Batch(objects=items))
    store = with_tiers(cold, f"memory:1,{server.url}&timeout=0.2")
    store.read([items[0].hash])
    server.freeze()
    began = monotonic()
    for item in items:
        assert store.read([item.hash]) == {item.hash: item.data}
    assert monotonic() - began < seconds(2)
    server.thaw()
    server.kill()
    for item in items:
        assert store.read([item.hash]) == {item.hash: item.data}
    assert store.tiers()[1].errors >= 1
    store.close()


def test_a_tier_that_is_down_when_it_is_opened_is_warned_of_and_used_later(
    postgres_url, monkeypatch
):
    monkeypatch.setattr(tier_list, "_REST_SECONDS", 0.0)
    server_port = urlsplit(postgres_url).port
    assert server_port is not None
    item = blob("a")
    with Proxy(server_port) as proxy:
        proxy.fault = "refuse"
        tier = fresh(postgres_url, connect_timeout=2).replace(f":{server_port}", f":{proxy.port}")
        with pytest.warns(TierWarning, match="cannot be reached"):
            store = with_tiers(MemoryStore(), ["memory:1KB", tier])
        clock = store._levels[1]._clock = Clock()
        store.write(Batch(objects=[item]))
        assert store.read([item.hash]) == {item.hash: item.data}
        assert store.tiers()[1].errors >= 1
        proxy.fault, clock.seconds = "pass", 60.0
        store.write(Batch(objects=[item]))
        assert store.tiers()[1].objects == 2, "the object, and the mark of a cache"
        store.close()


def test_a_tier_that_refuses_its_user_is_an_error(postgres_url):
    port = urlsplit(postgres_url).port
    with pytest.raises(Denied):
        with_tiers(MemoryStore(), f"postgresql://locked:wrong@127.0.0.1:{port}/postgres")


def test_a_redis_tier_that_refuses_its_user_is_an_error(tmp_path):
    with redis_server(tmp_path, requirepass="right") as server:
        for user in ("", ":wrong@"):
            with pytest.raises(Denied) as caught:
                with_tiers(MemoryStore(), f"memory:1MB,redis://{user}127.0.0.1:{server.port}")
            assert "wrong" not in str(caught.value)
        with_tiers(MemoryStore(), f"memory:1MB,redis://:right@127.0.0.1:{server.port}").close()


def test_a_redis_tier_that_is_down_when_it_is_opened_is_warned_of_and_used_later(
    server, monkeypatch
):
    monkeypatch.setattr("otolith.stores.redis.cache._REST_SECONDS", 0.0)
    item = blob("a")
    server.kill()
    with pytest.warns(TierWarning, match="cannot be reached") as warned:
        store = with_tiers(MemoryStore(), server.url.replace("redis://", "redis://:hunter2@"))
    assert "hunter2" not in str(warned[0].message)
    store.close()
    with pytest.warns(TierWarning, match="cannot be reached"):
        store = with_tiers(MemoryStore(), server.url)
    clock = store._levels[0]._clock = Clock()
    store.write(Batch(objects=[item]))
    assert store.tiers()[0].written == 0
    server.start()
    clock.seconds = 60.0
    store.write(Batch(objects=[item]))
    assert store.tiers()[0].written == 1
    assert store._levels[0].get([item.hash]) == {item.hash: item.data}
    store.close()


def test_who_waits_on_a_bucket_hears_of_writes_through_the_same_redis_tier(server, monkeypatch):
    for pause in ("_FIRST_PAUSE_SECONDS", "_HINTED_PAUSE_SECONDS"):
        monkeypatch.setattr(listened_news, pause, float(HANG_SECONDS))
    kv, item = KeyValueStore(DictKV()), blob("a")
    assert not kv.capabilities.notifies
    tiers = f"memory:1MB,{server.url}"
    writer, reader = with_tiers(kv, tiers), with_tiers(kv, tiers)
    with closing(news_of(reader, "session/")) as news:
        assert news.wait(0) == set()
        writer.write(Batch(objects=[item], swaps=[Swap("session/a", None, item.hash)]))
        assert news.wait(HANG_SECONDS) == {"session/a"}
        writer.write(Batch(swaps=[Swap("session/a", item.hash, None)]))
        assert news.wait(HANG_SECONDS) == {"session/a"}
    reader.close()


def test_who_waits_looks_as_before_when_the_redis_tier_is_gone(server):
    kv, item = KeyValueStore(DictKV()), blob("a")
    store = with_tiers(kv, f"memory:1MB,{server.url}")
    with closing(news_of(store)) as news:
        assert news.wait(0) == set()
        server.kill()
        kv.write(Batch(objects=[item], swaps=[Swap("session/a", None, item.hash)]))
        assert news.wait(HANG_SECONDS) == {"session/a"}
    store.close()


def test_a_write_that_a_tier_did_not_take_is_not_counted():
    warm = FaultyStore(MemoryStore())
    store = tiered(warm, memory_bytes=10_000)
    warm.plan = [Fault("*")]
    store.write(Batch(objects=[blob("a"), blob("b")]))
    memory, broken, cold = store.tiers()
    assert (memory.written, broken.written, cold.written) == (2, 0, 2)
    assert broken.errors == 1
