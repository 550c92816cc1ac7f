"""Places to open stores at, for tests that run on every store: one line for each kind.

A *place* is one database, or one folder; each call of `open` returns another handle to it, as
another process would have. A store of a single process has one handle, which all of its writers
share.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from otolith.stores import (
    BucketStore,
    EtcdStore,
    KeyValueStore,
    KVStore,
    MemoryStore,
    PostgresStore,
    RedisStore,
    SqliteStore,
    Store,
)
from tests.servers import postgres, redis
from tests.servers.bucket import BucketServer, GivenBucket
from tests.servers.etcd import EtcdCluster

Opener: TypeAlias = Callable[[], Store]
Place: TypeAlias = Callable[[pytest.FixtureRequest, Path], Opener]


class DictKV(KVStore):
    """A database in a dictionary, whose calls are atomic."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


def _one_handle(store: Store) -> Opener:
    return lambda: store


def _etcd(cluster: EtcdCluster, folder: Path) -> Opener:
    url = cluster.url(folder / "objects.db")
    return lambda: EtcdStore(url, durability="fast")


def _postgres(server: str) -> Opener:
    url = postgres.fresh(server)
    return lambda: PostgresStore(url, durability="fast")


def _redis(server: str) -> Opener:
    url = redis.fresh(server)
    return lambda: RedisStore(url)


def _bucket(server: BucketServer | GivenBucket) -> Opener:
    url = server.url()
    return lambda: BucketStore(url)


PLACES: dict[str, Place] = {
    "memory": lambda request, folder: _one_handle(MemoryStore()),
    "sqlite": lambda request, folder: lambda: SqliteStore(folder / "store.db", durability="fast"),
    "keyvalue": lambda request, folder: _one_handle(KeyValueStore(DictKV())),
    "postgres": lambda request, folder: _postgres(request.getfixturevalue("postgres_url")),
    "redis": lambda request, folder: _redis(request.getfixturevalue("redis_url")),
    "bucket": lambda request, folder: _bucket(request.getfixturevalue("bucket_place")),
    "etcd": lambda request, folder: _etcd(request.getfixturevalue("etcd_cluster"), folder),
}


@pytest.fixture(params=PLACES)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """A function that opens handles to one fresh place, on every kind of store."""
    return PLACES[request.param](request, tmp_path)
