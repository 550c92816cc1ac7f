"""Layer: a store around a store, which passes every call on; its subclasses change some of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import ClassVar, Unpack

from otolith.errors import Corrupt, Unsupported
from otolith.stores.base import (
    Batch,
    Capabilities,
    CollectionReport,
    CollectOptions,
    Collector,
    Expirer,
    IntegrityChecker,
    Lease,
    Leaser,
    Links,
    Move,
    Notifier,
    Preparer,
    RefTurn,
    Store,
    Subscription,
    Usage,
    digest,
    held_by,
    turn_at,
)
from otolith.types import Hash


class Layer:
    """Passes every call to the inner store, also those that only some stores have.

    An ability that the inner store lacks raises `Unsupported`, unless there is a plain way to do
    without; `capabilities` tells beforehand.

    A layer that waits for nothing but the inner store, and holds no lock meanwhile, may say so by
    `awaits = True`: then `otolith.aio` runs its calls as it runs those of the inner store.
    """

    awaits: ClassVar[bool] = False

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        """Show the inner store."""
        return f"<{type(self).__name__} of {self.inner!r}>"

    @property
    def path(self) -> str | None:
        """The file of the inner store, if it has one."""
        found = getattr(self.inner, "path", None)
        return found if isinstance(found, str) else None

    @property
    def capabilities(self) -> Capabilities:
        """What the inner store can do."""
        able = self.inner.capabilities
        return able if self.awaits or not able.awaits else replace(able, awaits=False)

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; absent ones are left out."""
        return self.inner.read(hashes)

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically."""
        self.inner.write(batch)

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        return self.inner.ref(name)

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        return self.inner.refs(prefix)

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""
        return self.inner.moves(name, limit=limit)

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes."""
        return self.inner.find(prefix, limit=limit)

    def usage(self) -> Usage:
        """Return how much the inner store holds."""
        return self.inner.usage()

    def close(self) -> None:
        """Close the inner store too."""
        self.inner.close()

    def holds(self, hashes: Sequence[Hash]) -> set[Hash]:
        """Return those of the hashes whose objects are there."""
        return held_by(self.inner, hashes)

    def prepare(self, objects: Sequence[bytes]) -> list[Hash]:
        """Let the inner store encode objects ahead of the write, if it can."""
        if isinstance(self.inner, Preparer):
            return self.inner.prepare(objects)
        return list(map(digest, objects))

    def collect(self, links: Links, **options: Unpack[CollectOptions]) -> CollectionReport:
        """Let the inner store drop what is not reached."""
        if not isinstance(self.inner, Collector):
            raise self._lacks("cannot collect")
        return self.inner.collect(links, **options)

    def subscribe(self, prefix: str = "") -> Subscription:
        """Return a subscription to all refs whose name starts with `prefix`."""
        if not isinstance(self.inner, Notifier):
            raise self._lacks("does not tell which refs move")
        return self.inner.subscribe(prefix)

    def turn(self, name: str) -> AbstractContextManager[RefTurn]:
        """Lend a turn at a ref, which waits for nobody if the inner store keeps none."""
        return turn_at(self.inner, name)

    def lease(self, name: str, holder: str, *, ttl_seconds: float) -> Lease | None:
        """Acquire or renew a lease; None if somebody else has it."""
        if not isinstance(self.inner, Leaser):
            raise self._lacks("grants no leases")
        return self.inner.lease(name, holder, ttl_seconds=ttl_seconds)

    def release(self, lease: Lease) -> None:
        """Give a lease back before it runs out."""
        if not isinstance(self.inner, Leaser):
            raise self._lacks("grants no leases")
        self.inner.release(lease)

    def leased(self, name: str) -> Lease | None:
        """Return the lease that somebody has now."""
        if not isinstance(self.inner, Leaser):
            raise self._lacks("grants no leases")
        return self.inner.leased(name)

    def expire(self, prefix: str, seconds: float | None, *, links: Links) -> None:
        """Remove each family of refs below a prefix that no write has touched for so long."""
        if not isinstance(self.inner, Expirer):
            raise self._lacks("does not expire refs")
        self.inner.expire(prefix, seconds, links=links)

    def uncached(self) -> Store:
        """Return the inner store without its caches."""
        return self.inner.uncached() if isinstance(self.inner, IntegrityChecker) else self.inner

    def check(self) -> list[tuple[str, str]]:
        """Return what is damaged in the inner store beside objects, refs and moves."""
        return self.inner.check() if isinstance(self.inner, IntegrityChecker) else []

    def _lacks(self, what: str) -> Unsupported:
        return Unsupported(f"{type(self.inner).__name__} {what}", hint="use another store")


def read_intact(store: Store, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
    """Return the objects that are there; those with wrong bytes are left out, not an error."""
    try:
        return store.read(hashes)
    except Corrupt:
        if len(hashes) == 1:
            return {}
    found: dict[Hash, bytes] = {}
    for name in hashes:
        found |= read_intact(store, [name])
    return found
