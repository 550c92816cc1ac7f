"""Bytes at rest: objects named by hash, refs swapped atomically.

Read `base.py` first.

Glossary: an *object* is immutable bytes; a *ref* is a mutable name for a hash; a *batch* is one
atomic write; a *move* is an entry of a ref's history; a *layer* is a store around a store.
"""

from otolith.stores.base import (
    TIME_LIMIT,
    Batch,
    Capabilities,
    Collected,
    Collector,
    Links,
    Move,
    Object,
    Prefetcher,
    SelfChecking,
    Store,
    Swap,
    Usage,
    check_batch,
    check_prefix,
    newest_first,
)
from otolith.stores.keyvalue import KeyValueStore, KVStore
from otolith.stores.layers import CachedStore
from otolith.stores.memory import MemoryStore
from otolith.stores.sqlite import SqliteStore
from otolith.stores.url import Cache, Disk, Memory, as_store, open_store

__all__ = [
    "TIME_LIMIT",
    "Batch",
    "Cache",
    "CachedStore",
    "Capabilities",
    "Collected",
    "Collector",
    "Disk",
    "KVStore",
    "KeyValueStore",
    "Links",
    "Memory",
    "MemoryStore",
    "Move",
    "Object",
    "Prefetcher",
    "SelfChecking",
    "SqliteStore",
    "Store",
    "Swap",
    "Usage",
    "as_store",
    "check_batch",
    "check_prefix",
    "newest_first",
    "open_store",
]
