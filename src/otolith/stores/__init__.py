"""Bytes at rest: objects named by hash, refs swapped atomically.

Read `base.py` first: it is the contract. `memory.py` is its shortest implementation, `sqlite/` the
store that most users have, `keyvalue/` a store over any get-and-set database, `layers/` stores
around stores. `postgres/`, `redis/`, `bucket/` and `etcd/` are stores on servers; `url.py` opens
all of them by name.

Glossary: an *object* is immutable bytes; a *ref* is a mutable name for a hash; a *batch* is one
atomic write; a *move* is an entry of a ref's history; a *layer* is a store around a store.
"""

from typing import TYPE_CHECKING

from otolith.lazy import door
from otolith.stores.base import (
    FREE_TURN,
    TIME_LIMIT,
    Batch,
    Capabilities,
    CollectionReport,
    Collector,
    Expirer,
    IntegrityChecker,
    Inventory,
    Lease,
    Leaser,
    Links,
    Move,
    Notifier,
    Object,
    Preparer,
    Progress,
    RefTurn,
    ServerFacts,
    ServerReporter,
    ServerRisk,
    Store,
    Subscription,
    Swap,
    TurnKeeper,
    Usage,
    check_batch,
    check_conditions,
    check_prefix,
    has_landed,
    held_by,
    newest_first,
    turn_at,
)
from otolith.stores.keyvalue import KeyValueStore, KVStore
from otolith.stores.layers import (
    CachedStore,
    Evictions,
    Layer,
    MemoryCache,
    MirroredStore,
    ObjectCache,
    RetryingStore,
    StoreCache,
    Tier,
    TieredStore,
)
from otolith.stores.listened_news import NewsThread, news_of
from otolith.stores.memory import MemoryStore
from otolith.stores.news import RefNews
from otolith.stores.server_url import without_secrets
from otolith.stores.sqlite import SqliteStore
from otolith.stores.tier_list import TierWarning, with_tiers
from otolith.stores.url import Cache, Disk, as_store, open_store, place_of, scheme_of
from otolith.stores.url import InMemory as Memory  # otolith.memory has another Memory

if TYPE_CHECKING:
    from otolith.stores.bucket import BucketStore
    from otolith.stores.etcd import EtcdStore
    from otolith.stores.postgres import PostgresStore
    from otolith.stores.redis import FailoverWarning, RedisCache, RedisStore

_ON_SERVERS = {
    "BucketStore": "bucket",
    "EtcdStore": "etcd",
    "FailoverWarning": "redis",
    "PostgresStore": "postgres",
    "RedisCache": "redis",
    "RedisStore": "redis",
}
"""Stores that import their clients when they are first used, and the modules that have them."""

__getattr__ = door(__name__, _ON_SERVERS)

__all__ = [
    "FREE_TURN",
    "TIME_LIMIT",
    "Batch",
    "BucketStore",
    "Cache",
    "CachedStore",
    "Capabilities",
    "CollectionReport",
    "Collector",
    "Disk",
    "EtcdStore",
    "Evictions",
    "Expirer",
    "FailoverWarning",
    "IntegrityChecker",
    "Inventory",
    "KVStore",
    "KeyValueStore",
    "Layer",
    "Lease",
    "Leaser",
    "Links",
    "Memory",
    "MemoryCache",
    "MemoryStore",
    "MirroredStore",
    "Move",
    "NewsThread",
    "Notifier",
    "Object",
    "ObjectCache",
    "PostgresStore",
    "Preparer",
    "Progress",
    "RedisCache",
    "RedisStore",
    "RefNews",
    "RefTurn",
    "RetryingStore",
    "ServerFacts",
    "ServerReporter",
    "ServerRisk",
    "SqliteStore",
    "Store",
    "StoreCache",
    "Subscription",
    "Swap",
    "Tier",
    "TierWarning",
    "TieredStore",
    "TurnKeeper",
    "Usage",
    "as_store",
    "check_batch",
    "check_conditions",
    "check_prefix",
    "has_landed",
    "held_by",
    "newest_first",
    "news_of",
    "open_store",
    "place_of",
    "scheme_of",
    "turn_at",
    "with_tiers",
    "without_secrets",
]


def __dir__() -> list[str]:
    return sorted(__all__)
