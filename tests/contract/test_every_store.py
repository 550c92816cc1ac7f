"""Every store keeps every promise: one class per implementation."""

from __future__ import annotations

import inspect
from pathlib import Path

from otolith import stores
from otolith.stores import (
    Cache,
    CachedStore,
    Disk,
    KeyValueStore,
    KVStore,
    Memory,
    MemoryStore,
    SqliteStore,
)
from otolith.testing import StoreContract


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


class TestMemoryByItsName(StoreContract):
    def make(self, folder):
        return Memory()


class TestDiskByItsName(TestSqliteFull):
    def make(self, folder):
        return Disk(folder, durability="fast")


class TestCacheOverAKeyValueStore(StoreContract):
    def make(self, folder):
        return Cache(DictKV(), max_bytes=2000)


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
