"""A store over anything that holds bytes under keys: a `KVStore` in, a `Store` out."""

from otolith.stores.keyvalue.kv import KVStore
from otolith.stores.keyvalue.store import KeyValueStore

__all__ = ["KVStore", "KeyValueStore"]
