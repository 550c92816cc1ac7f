"""Every store keeps every promise: one class per implementation."""

from __future__ import annotations

import inspect
from itertools import count
from pathlib import Path

import pytest

from otolith import stores
from otolith.stores import (
    Cache,
    CachedStore,
    Disk,
    EtcdStore,
    KeyValueStore,
    KVStore,
    Memory,
    MemoryCache,
    MemoryStore,
    MirroredStore,
    PostgresStore,
    RetryingStore,
    SqliteStore,
    StoreCache,
    TieredStore,
    with_tiers,
)
from otolith.stores.bucket import BucketStore, packs, upkeep, writer
from otolith.stores.postgres import listener
from otolith.testing import Fault, FaultyStore, StoreContract
from tests.servers import postgres
from tests.servers.bucket import BucketServer, GivenBucket
from tests.servers.redis import fresh, shown_class


class TestMemory(StoreContract):
    def make(self, folder):
        return MemoryStore()


class TestSqliteFull(StoreContract):
    def make(self, folder):
        return SqliteStore(folder / "store.db")

    def reopen(self, store, folder):
        store.close()
        return self.make(folder)


class TestSqliteFast(TestSqliteFull):
    def make(self, folder):
        return SqliteStore(folder / "store.db", durability="fast")


class TestCachedMemory(StoreContract):
    def make(self, folder):
        return CachedStore(MemoryStore(), limit_bytes=2000)


class TestCachedSqlite(TestSqliteFull):
    def make(self, folder):
        return CachedStore(SqliteStore(folder / "store.db", durability="fast"))


class TestRetriesOverAnUnreliableStore(TestSqliteFull):
    def make(self, folder):
        self.inner = SqliteStore(folder / "store.db", durability="fast")
        asked = ("read", "ref", "refs", "moves", "find", "usage")
        faults = [Fault(call, at=number) for call in asked for number in range(1, 3000, 3)]
        faults += [Fault("write", at=number, kind="lose") for number in range(1, 3000, 3)]
        faults += [Fault("write", at=number) for number in range(3, 3000, 3)]
        return RetryingStore(FaultyStore(self.inner, faults), wait=lambda seconds: None)

    def reopen(self, store, folder):
        self.inner.close()
        return self.make(folder)


class TestMirrored(TestSqliteFull):
    def make(self, folder):
        first, second = (SqliteStore(folder / name, durability="fast") for name in ("1.db", "2.db"))
        return MirroredStore(first, second)


class GetAndSet(KVStore):
    """The least that a user can write."""

    def __init__(self):
        self.values = {}

    def get(self, key):
        return self.values.get(key)

    def set(self, key, value):
        self.values[key] = value


class DictKV(GetAndSet):
    """All that one process needs."""

    def delete(self, key):
        self.values.pop(key, None)

    def keys(self, prefix):
        return [key for key in self.values if key.startswith(prefix)]


class TestKeyValueWithGetAndSetAlone(StoreContract):
    def make(self, folder):
        return KeyValueStore(GetAndSet())

    def reopen(self, store, folder):
        store.close()
        return KeyValueStore(store.kv)


class TestKeyValueInADict(TestKeyValueWithGetAndSetAlone):
    def make(self, folder):
        return KeyValueStore(DictKV())


class TestKeyValueInRedis(StoreContract):
    """The class that the page shows, told that it is alone, so that it collects as well."""

    alone = True
    url = ""
    numbers = count()

    @pytest.fixture(autouse=True)
    def _server(self, redis_url):
        self.url = redis_url.partition("?")[0]

    def make(self, folder):
        return self.at(f"{next(self.numbers)}:")

    def at(self, prefix):
        kv = shown_class("redis_kv.py", "RedisKV")(self.url, prefix)
        return KeyValueStore(kv, alone=self.alone)

    def reopen(self, store, folder):
        store.close()
        return self.at(store.kv.prefix)


class TestKeyValueInRedisThatOthersUse(TestKeyValueInRedis):
    alone = False

    def test_it_says_that_it_can_be_shared(self, store):
        assert store.capabilities.shared
        assert not store.capabilities.collects


class TestMemoryByItsName(StoreContract):
    def make(self, folder):
        return Memory()


class TestDiskByItsName(TestSqliteFull):
    def make(self, folder):
        return Disk(folder, durability="fast")


class TestCacheOverAKeyValueStore(StoreContract):
    def make(self, folder):
        return Cache(DictKV(), max_bytes=2000)


# -------------------- etcd


class TestEtcd(StoreContract):
    """Refs in a cluster of three members, objects in SQLite."""

    @pytest.fixture(autouse=True)
    def _server(self, etcd_cluster):
        self.cluster = etcd_cluster

    def make(self, folder):
        self.url = self.cluster.url(folder / "objects.db")
        return EtcdStore(self.url, durability="fast")

    def reopen(self, store, folder):
        store.close()
        return EtcdStore(self.url, durability="fast")


# -------------------- Postgres


class TestPostgres(StoreContract):
    url = ""

    @pytest.fixture(autouse=True)
    def _server(self, postgres_url):
        self.url = postgres_url

    def make(self, folder):
        return self.at(postgres.fresh(self.url))

    def at(self, url):
        store = PostgresStore(url)
        self.place = url
        return store

    def reopen(self, store, folder):
        store.close()
        return self.at(self.place)


class TestPostgresFast(TestPostgres):
    def at(self, url):
        self.place = url
        return PostgresStore(url, durability="fast")


class TestCachedPostgres(TestPostgres):
    def at(self, url):
        self.place = url
        return CachedStore(PostgresStore(url, durability="fast"))


class TestPostgresBehindAPooler(TestPostgresFast):
    """PgBouncer gives each transaction another connection, and no notification arrives."""

    @pytest.fixture(autouse=True)
    def _server(self, pooler_url, monkeypatch):
        self.url = pooler_url
        monkeypatch.setattr(listener, "_ECHO_SECONDS", 0.1)
        monkeypatch.setattr(listener, "_POLL_SECONDS", 0.05)


# ---------------------------------------------------------------- Redis


class TestRedis(StoreContract):
    url = ""

    @pytest.fixture(autouse=True)
    def _server(self, redis_url):
        self.url = redis_url

    def make(self, folder):
        return stores.RedisStore(fresh(self.url))

    def reopen(self, store, folder):
        store.close()
        return stores.RedisStore(store.url)


@pytest.mark.long
class TestValkey(TestRedis):
    @pytest.fixture(autouse=True)
    def _server(self, valkey_url):
        self.url = valkey_url


class TestRedisWithPartsOfBatches(TestRedis):
    """Every batch is sent as a large one."""

    @pytest.fixture(autouse=True)
    def _small_calls(self, monkeypatch):
        monkeypatch.setattr("otolith.stores.redis.store._CALL_OBJECTS", 0)


# ---------------------------------------------------------------- all of them


# -------------------- buckets


class TestBucket(StoreContract):
    server: BucketServer | GivenBucket

    @pytest.fixture(autouse=True)
    def _server(self, request):
        self.server = request.getfixturevalue("bucket_place")

    def make(self, folder):
        return BucketStore(self.server.url())

    def reopen(self, store, folder):
        url = store.url
        store.close()
        return BucketStore(url, create=False)


class TestBucketWithLittleInItsRoot(TestBucket):
    """Every batch is packed, and packs are merged all the time."""

    @pytest.fixture(autouse=True)
    def _no_room(self, monkeypatch):
        monkeypatch.setattr(writer, "INLINE_BYTES", 0)
        monkeypatch.setattr(upkeep, "RECENT_BYTES", 200)
        monkeypatch.setattr(packs, "FRAME_BYTES", 64)
        monkeypatch.setattr(packs, "LARGE_BYTES", 500)


class TestBucketInAzure(TestBucket):
    @pytest.fixture(autouse=True)
    def _server(self, request):
        self.server = request.getfixturevalue("azure_server")


class TestTiered(TestSqliteFull):
    """A little memory, a file with a limit and a whole file in front of a file."""

    def make(self, folder):
        cold = SqliteStore(folder / "store.db", durability="fast")
        small = SqliteStore(folder / "small.db", durability="fast", limit_bytes=1 << 20)
        large = SqliteStore(folder / "large.db", durability="fast")
        memory = MemoryCache(limit_bytes=4000)
        return TieredStore(cold, [memory, StoreCache(small), StoreCache(large)])


class TestTieredByText(StoreContract):
    def make(self, folder):
        return with_tiers(MemoryStore(), "memory:10kB")


def test_no_store_escapes_the_table():
    contracts = {"Store", "KVStore"}
    kinds = {
        item
        for name, item in vars(stores).items()
        if name.endswith("Store") and name not in contracts
    }
    here = Path(__file__).read_text()
    assert kinds
    assert [kind.__name__ for kind in kinds if f"{kind.__name__}(" not in here] == []
    assert all(inspect.isclass(kind) for kind in kinds)
