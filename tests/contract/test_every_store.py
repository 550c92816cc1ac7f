"""Every store keeps every promise: one class per implementation."""

from __future__ import annotations

import inspect
from pathlib import Path

from otolith import stores
from otolith.stores import CachedStore, MemoryStore, SqliteStore
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


def test_no_store_escapes_the_table():
    kinds = {
        item for name, item in vars(stores).items() if name.endswith("Store") and name != "Store"
    }
    here = Path(__file__).read_text()
    assert kinds
    assert [kind.__name__ for kind in kinds if f"{kind.__name__}(" not in here] == []
    assert all(inspect.isclass(kind) for kind in kinds)
