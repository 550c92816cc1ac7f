"""Stores around stores: each takes a Store and is one."""

from otolith.stores.layers.cache import CachedStore
from otolith.stores.layers.layer import Layer
from otolith.stores.layers.replica import MirroredStore
from otolith.stores.layers.retry import RetryingStore

__all__ = ["CachedStore", "Layer", "MirroredStore", "RetryingStore"]
