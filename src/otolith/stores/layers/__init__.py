"""Stores around stores: each takes a Store and is one."""

from otolith.stores.layers.cache import CachedStore

__all__ = ["CachedStore"]
