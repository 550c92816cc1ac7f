"""Stores around stores: each takes a Store and is one."""

from otolith.stores.layers.cache import CachedStore
from otolith.stores.layers.layer import Layer

__all__ = ["CachedStore", "Layer"]
