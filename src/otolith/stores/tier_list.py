"""Tiers as users write them: `memory:256MB,ssd.db;limit=10GB,redis://cache:6379`.

    memory:SIZE             a cache in the memory of this process; option age
    redis://, rediss://     a Redis server that others may share; option age
    a path, any other URL   a store that is used for nothing else; option limit

The hottest comes first. Options follow a semicolon: `;age=1h` evicts what nobody has used for so
long, `;limit=10GB` is how much a store may take. A list of texts is the same as one with commas.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from otolith import text
from otolith.durations import duration_seconds
from otolith.errors import Invalid
from otolith.stores.base import Store
from otolith.stores.layers import MemoryCache, ObjectCache, StoreCache, TieredStore
from otolith.stores.server_url import without_secrets
from otolith.stores.url import CACHES, open_server_cache, open_store, scheme_of


def with_tiers(store: Store, tiers: str | Sequence[str]) -> TieredStore:
    """Return a store with these tiers in front, which it closes.

    Raises:
        Invalid: a tier is not written as it should be, or its store is used for something else.
        MissingExtra, NotAStore, Unavailable: a tier cannot be opened.
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
    if age is None:
        return open_server_cache(place)
    return open_server_cache(place, ttl_seconds=ceil(duration_seconds(age, "age")))


def _store_cache(place: str, pairs: Sequence[str], store: Store) -> StoreCache:
    limit = _option(pairs, "limit")
    size = None if limit is None else _size(limit)
    tier = open_store(place, limit_bytes=size, durability="fast")
    try:
        path = getattr(tier, "path", None)
        if path is not None and path == getattr(store, "path", None):
            raise Invalid("the store cannot be its own cache", hint="name another file")
        return StoreCache(tier)
    except BaseException:
        tier.close()
        raise


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
