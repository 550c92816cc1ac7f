"""Stores around stores: each takes a Store and is one; and the caches that tiers are made of."""

from otolith.stores.layers.layer import Layer
from otolith.stores.layers.memory_cache import Evictions, MemoryCache
from otolith.stores.layers.replica import MirroredStore
from otolith.stores.layers.retry import RetryingStore
from otolith.stores.layers.store_cache import StoreCache
from otolith.stores.layers.tiers import CachedStore, ObjectCache, Tier, TieredStore

__all__ = [
    "CachedStore",
    "Evictions",
    "Layer",
    "MemoryCache",
    "MirroredStore",
    "ObjectCache",
    "RetryingStore",
    "StoreCache",
    "Tier",
    "TieredStore",
]
