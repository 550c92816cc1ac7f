"""Every way to open a repo keeps every promise."""

from __future__ import annotations

import otolith
from otolith import Repo, core, environment
from otolith.codecs import Codecs
from otolith.stores import CachedStore, MemoryStore, SqliteStore
from tests.reference.repo_contract import CoreContract, RepoContract


class TestCore(CoreContract):
    def make(self, folder):
        return core.BareRepo(
            MemoryStore(),
            codec=Codecs(),
            clock=environment.wall_clock,
            author="test",
            entropy=bytes,
        )


class TestMemory(RepoContract):
    def make(self, folder):
        return otolith.open("memory:")


class TestSqliteFull(RepoContract):
    def make(self, folder):
        return otolith.open(folder / "repo.db")

    def reopen(self, repo, folder):
        repo.close()
        return self.make(folder)


class TestSqliteFast(TestSqliteFull):
    def make(self, folder):
        return otolith.open(folder / "repo.db", durability="fast")


class TestCachedSqlite(TestSqliteFull):
    def make(self, folder):
        return Repo(CachedStore(SqliteStore(folder / "repo.db", durability="fast")), cache_bytes=0)
