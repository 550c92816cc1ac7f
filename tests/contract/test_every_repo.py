"""Every way to open a repo keeps every promise."""

from __future__ import annotations

import pytest

import otolith
from otolith import Repo, core, environment
from otolith.codecs import Codecs
from otolith.stores import CachedStore, MemoryStore, SqliteStore
from tests.reference.repo_contract import CoreContract, RepoContract
from tests.servers import postgres
from tests.servers.bucket import BucketServer
from tests.servers.redis import fresh


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

    def beside(self, repo, folder):
        return self.make(folder)

    def reopen(self, repo, folder):
        repo.close()
        return self.make(folder)


class TestSqliteFast(TestSqliteFull):
    def make(self, folder):
        return otolith.open(folder / "repo.db", durability="fast")


class TestEtcd(TestSqliteFull):
    """Refs in a cluster of three members, objects in SQLite."""

    @pytest.fixture(autouse=True)
    def _server(self, etcd_cluster):
        self.cluster = etcd_cluster
        self.url = ""

    def make(self, folder):
        self.url = self.url or self.cluster.url(folder / "objects.db")
        return otolith.open(self.url, durability="fast")


class TestCachedSqlite(TestSqliteFull):
    def make(self, folder):
        return Repo(CachedStore(SqliteStore(folder / "repo.db", durability="fast")), cache_bytes=0)


# -------------------- Postgres


class TestPostgres(RepoContract):
    url = place = ""

    @pytest.fixture(autouse=True)
    def _server(self, postgres_url):
        self.url = postgres_url

    def make(self, folder):
        self.place = postgres.fresh(self.url)
        return otolith.open(self.place)

    def beside(self, repo, folder):
        return otolith.open(self.place)

    def reopen(self, repo, folder):
        repo.close()
        return otolith.open(self.place)


# ---------------------------------------------------------------- Redis


class TestRedis(RepoContract):
    url = ""

    @pytest.fixture(autouse=True)
    def _server(self, redis_url):
        self.url = redis_url

    def make(self, folder):
        return otolith.open(fresh(self.url))

    def beside(self, repo, folder):
        return otolith.open(repo.store.url)

    def reopen(self, repo, folder):
        repo.close()
        return otolith.open(repo.store.url)


# -------------------- buckets


class TestBucket(RepoContract):
    server: BucketServer

    @pytest.fixture(autouse=True)
    def _server(self, request):
        self.server = request.getfixturevalue("bucket_place")

    def make(self, folder):
        return otolith.open(self.server.url(prefix=f"repo{folder}"))

    def beside(self, repo, folder):
        return self.make(folder)

    def reopen(self, repo, folder):
        repo.close()
        return self.make(folder)


class TestTiered(TestSqliteFull):
    def make(self, folder):
        tiers = f"memory:20kB,{folder}/warm.db;limit=1MB"
        return otolith.open(folder / "repo.db", durability="fast", tiers=tiers, cache_bytes=0)
