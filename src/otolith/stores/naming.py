"""Stores under the names that users of a state know: Memory, Disk, Cache, or whatever is given."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from otolith.errors import Invalid
from otolith.stores.base import Store
from otolith.stores.keyvalue import KeyValueStore, KVStore
from otolith.stores.layers import CachedStore
from otolith.stores.memory import MemoryStore
from otolith.stores.sqlite import SqliteStore
from otolith.stores.url import file_in, open_store

Place: TypeAlias = Store | KVStore | str | os.PathLike[str]
"""Whatever can be made a store of."""

_CALLS = ("read", "write", "ref", "refs", "moves", "find", "usage", "close")


class Memory(MemoryStore):
    """A store in memory. `size_limit` (bytes) refuses what would not fit; nothing is evicted."""

    def __init__(self, *, size_limit: int | None = None) -> None:
        super().__init__(limit_bytes=_checked(size_limit))


class Disk(SqliteStore):
    """A store in one file, which is made if it is missing.

    `path` is the file, or a directory that is there: then `otolith.db` in it, or what
    `otolith init` has made in it. `size_limit` (bytes) refuses what would not fit; nothing is
    evicted. `durability="fast"` lets a power cut (not a crash) take the last commits.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size_limit: int | None = None,
        durability: Literal["full", "fast"] = "full",
    ) -> None:
        file = file_in(os.fspath(path))
        super().__init__(file, durability=durability, limit_bytes=_checked(size_limit))


class Cache(CachedStore):
    """A cache of `max_bytes` over any store, which `as_store` makes of what it is given."""

    def __init__(self, store: Place, *, max_bytes: int = 64 * 2**20) -> None:
        if max_bytes < 0:
            raise Invalid(f"a cache of {max_bytes} bytes", hint="give 0 or more")
        super().__init__(as_store(store), limit_bytes=max_bytes)


def as_store(place: Place) -> Store:
    """Return the store that something is, or names.

    Raises:
        Invalid: it is none of what is accepted.
        NotAStore, StoreNotFound, Unsupported: as `open_store` says.
    """
    if isinstance(place, KVStore):
        return KeyValueStore(place)
    if isinstance(place, str | os.PathLike):
        return open_store(place)
    if not isinstance(place, type) and all(hasattr(place, call) for call in _CALLS):
        return place
    kind = f"the class {place.__name__}" if isinstance(place, type) else type(place).__name__
    raise Invalid(
        f"{kind} is not a place to keep a state",
        hint="give a store (Memory(), Disk(path), Cache(store)), a KVStore, a path or a URL",
    )


def _checked(size_limit: object) -> int | None:
    if size_limit is None or (isinstance(size_limit, int) and size_limit > 0):
        return size_limit
    raise Invalid(f"a size limit of {size_limit!r}", hint="give a number of bytes, or leave it out")
