"""A store on a Redis or Valkey server, and the same server as a cache under another store.

Read `scripts.py` first: it has the layout of the keys, and each change of them. `store.py` is the
store, `gc.py` its garbage collection, `cache.py` the cache.
"""

from otolith.stores.redis.cache import RedisCache
from otolith.stores.redis.store import FailoverWarning, RedisStore

__all__ = ["FailoverWarning", "RedisCache", "RedisStore"]
