"""Tiers as users write them: `memory:256MB,ssd.db;limit=10GB,redis://cache:6379`.

    memory:SIZE             a cache in the memory of this process; option age
    redis://, rediss://     a Redis server that others may share; option age
    a path, any other URL   a store that is used for nothing else; option limit

The hottest comes first. A tier that cannot be reached when it is opened is warned of, and opened
later: nothing depends on it. Options follow a semicolon: `;age=1h` evicts what nobody has used for
so long, `;limit=10GB` is how much a store may take. A list of texts is the same as one with commas.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from threading import Lock
from time import monotonic

from otolith import text
from otolith.durations import duration_seconds
from otolith.errors import Closed, Invalid, Unavailable
from otolith.stores.base import Store, Usage
from otolith.stores.layers import Evictions, MemoryCache, ObjectCache, StoreCache, TieredStore
from otolith.stores.server_url import without_secrets
from otolith.stores.url import CACHES, open_server_cache, open_store, scheme_of
from otolith.types import Hash

_REST_SECONDS = 15.0  # connecting to a host that does not answer takes up to ten


class TierWarning(UserWarning):
    """A tier cannot be reached; the store works without it."""


def with_tiers(store: Store, tiers: str | Sequence[str]) -> TieredStore:
    """Return a store with these tiers in front, which it closes.

    Raises:
        Invalid: a tier is not written as it should be, or its store is used for something else.
        MissingExtra, NotAStore, Denied: a tier cannot be opened.
    """
    specs: object = tiers.split(",") if isinstance(tiers, str) else tiers
    if isinstance(specs, bytes) or not isinstance(specs, Sequence):
        raise Invalid(
            f"tiers must be a text or a list of texts, got {type(tiers).__name__}",
            hint='such as "memory:256MB"',
        )
    opened: list[ObjectCache] = []
    try:
        for number, spec in enumerate(specs, start=1):
            opened.append(_open(number, spec, store))
        return TieredStore(store, opened)
    except BaseException:
        for cache in opened:
            cache.close()
        raise


def _open(number: int, spec: object, store: Store) -> ObjectCache:
    """Open one tier; an error about its text names it."""
    if not isinstance(spec, str) or not spec.strip():
        raise Invalid(f"tier {number} must be a text, got {spec!r}", hint='such as "memory:256MB"')
    place, *pairs = (part.strip() for part in spec.split(";"))
    try:
        if scheme_of(place) == "memory":
            return _memory_cache(place, pairs)
        if scheme_of(place) in CACHES:
            return _server_cache(place, pairs)
        return _store_cache(place, pairs, store)
    except Invalid as error:
        shown = without_secrets(spec.strip())
        raise Invalid(f"tier {number}, {shown}: {error.message}", hint=error.hint) from None


def _memory_cache(place: str, pairs: Sequence[str]) -> MemoryCache:
    age = _option(pairs, "age")
    seconds = None if age is None else duration_seconds(age, "age")
    return MemoryCache(limit_bytes=_size(place.partition(":")[2]), age_seconds=seconds)


def _server_cache(place: str, pairs: Sequence[str]) -> ObjectCache:
    age = _option(pairs, "age")
    options = {} if age is None else {"ttl_seconds": ceil(duration_seconds(age, "age"))}
    cache = open_server_cache(place, **options)
    try:
        cache.check()
    except Unavailable as error:
        _warn(place, error)
    except BaseException:
        cache.close()
        raise
    return cache


def _store_cache(place: str, pairs: Sequence[str], store: Store) -> ObjectCache:
    limit = _option(pairs, "limit")
    size = None if limit is None else _size(limit)

    def open_cache() -> StoreCache:
        """Open the store of the cache, which is closed if it cannot be one."""
        tier = open_store(place, limit_bytes=size, durability="fast")
        try:
            path = getattr(tier, "path", None)
            if path is not None and path == getattr(store, "path", None):
                raise Invalid("the store cannot be its own cache", hint="name another file")
            return StoreCache(tier)
        except BaseException:
            tier.close()
            raise

    try:
        return open_cache()
    except Unavailable as error:
        _warn(place, error)
        return LateCache(open_cache, without_secrets(place))


def _warn(place: str, error: Unavailable) -> None:
    shown = without_secrets(place)
    warnings.warn(
        f"tier {shown} cannot be reached, and is not used until it can: {error.message}",
        TierWarning,
        stacklevel=3,
    )


class LateCache:
    """A cache whose store could not be reached: its users try again to open it, now and then."""

    errors = 0

    def __init__(self, open_cache: Callable[[], StoreCache], shown: str) -> None:
        self._open_cache = open_cache
        self._shown = shown
        self._lock = Lock()
        self._cache: StoreCache | None = None
        self._is_closed = False
        self._rests_until = monotonic() + _REST_SECONDS

    def __repr__(self) -> str:
        """Show the cache, or where it is to be."""
        if self._cache is not None:
            return repr(self._cache)
        return f"<{type(self).__name__} {self._shown}>"

    @property
    def evictions(self) -> Evictions:
        """How many objects it has dropped, and why."""
        return Evictions() if self._cache is None else self._cache.evictions

    def get_many(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are in the cache."""
        return self._opened().get_many(hashes)

    def put_many(self, objects: Mapping[Hash, bytes]) -> None:
        """Add objects."""
        self._opened().put_many(objects)

    def usage(self) -> Usage:
        """Return how much is in the cache."""
        return self._opened().usage()

    def clear(self, *, erase: bool = False) -> bool:
        """Drop everything; return whether, with `erase`, no copy is left in any file."""
        return self._opened().clear(erase=erase)

    def close(self) -> None:
        """Close the store, if it was opened."""
        self._is_closed = True
        with self._lock:
            if self._cache is not None:
                self._cache.close()

    def _opened(self) -> StoreCache:
        """Return the cache, and open it if it is time to.

        Raises:
            Unavailable: it is not open.
        """
        if self._cache is not None:
            return self._cache
        if monotonic() < self._rests_until or not self._lock.acquire(blocking=False):
            raise Unavailable(f"{self._shown} was not reached", hint="it is tried again later")
        try:
            if self._is_closed:
                raise Closed(f"{self._shown} was closed", hint="open it again")
            self._cache = self._open_cache()
            return self._cache
        finally:
            self._rests_until = monotonic() + _REST_SECONDS
            self._lock.release()


def _option(pairs: Sequence[str], known: str) -> str | None:
    """Return the value of the one option that a tier may have."""
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name.strip() != known or len(pairs) > 1:
            raise Invalid(f"{pair!r} is not an option of this tier", hint=f"use {known}= once")
        return value.strip()
    return None


def _size(written: str) -> int:
    size = text.parse_size(written)
    if size is None:
        hint = "write 256MB, 1 GiB or a number of bytes above 0"
        raise Invalid(f"{written!r} is not a size", hint=hint)
    return size
