"""The store over keys and values: objects first, then one swap of one key.

Theory of operation. A write reads the root, checks the batch against it, sets new objects and parts
under keys that no other writer uses, and swaps the root. A crash before the swap leaves values that
nothing names. A swap that fails means that another writer was faster: the batch is checked against
the new root, and is either refused or tried again. After a swap the parts it replaced are removed,
so a reader that misses a part starts again from the new root.

Threads of one process write one after the other, under a lock. Between processes only `swap`
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import random
from time import sleep
from typing import TypeVar

from otolith.errors import Busy, Closed, Corrupt, Invalid, Unavailable
from otolith.stores.base import (
    Batch,
    Capabilities,
    CollectionReport,
    Links,
    Move,
    Progress,
    Usage,
    check_batch,
    check_conditions,
    check_limit,
    check_prefix,
    check_quota,
    digest,
    newest_first,
)
from otolith.stores.keyvalue.gc import KeyValueCollector, check_collects
from otolith.stores.keyvalue.kv import KVClient, KVStore
from otolith.stores.keyvalue.root import (
    ROOT,
    RootBuilder,
    RootView,
    object_key,
    swap_root,
)
from otolith.stores.ref_pages import PartCache, StaleRoot, part_key
from otolith.types import Hash

_T = TypeVar("_T")
_TRIES = 1000
_TRIES_WITHOUT_PAUSE = 4
_PAUSE_SECONDS = 0.01


class KeyValueStore:
    """Objects and refs over a KVStore.

    `alone=True` promises that no other process uses it now; a KVStore for several processes is
    collected only then.
    `limit_bytes` bounds what objects take: a write that would pass it raises QuotaExceeded.
    """

    def __init__(self, kv: KVStore, *, limit_bytes: int | None = None, alone: bool = False) -> None:
        if not isinstance(kv, KVStore):
            raise Invalid(
                f"kv must be a KVStore, got {type(kv).__name__}",
                hint="derive its class from KVStore",
            )
        self.kv = kv
        self._lock = kv._guard  # noqa: SLF001 - one lock for all stores over one KVStore
        self._limit_bytes = check_limit(limit_bytes)
        self._client = KVClient(kv)
        self._parts = PartCache(self._client)
        self._closed = False
        shared = self._client.swaps and not alone
        collects = self._client.deletes and self._client.lists and not shared
        self._capabilities = Capabilities(
            verified=True, durable=bool(kv.durable), shared=shared, collects=collects
        )

    def __repr__(self) -> str:
        """Show what it is over."""
        return f"<{type(self).__name__} over {self._client.name}>"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do: it depends on the methods that the KVStore defines."""
        return self._capabilities

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; absent ones are left out."""
        self._check_open()
        keys = {object_key(name): name for name in hashes}
        found = {keys[key]: data for key, data in self._client.get_many(list(keys)).items()}
        for name, data in found.items():
            if digest(data) != name:
                where = f"{self._client.name}: object {name.hex()[:12]}"
                raise Corrupt(f"{where} has the wrong bytes", hint="run otolith fsck")
        return found

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically, after as many tries as other writers make necessary."""
        check_batch(batch)
        with self._lock:
            for failures in range(_TRIES):
                if self._from_one_root(lambda view: self._try_write(view, batch)):
                    return
                if failures >= _TRIES_WITHOUT_PAUSE:
                    sleep(random() * _PAUSE_SECONDS)
        raise Busy(
            f"{self._client.name}: other writers were faster {_TRIES} times", hint="try again"
        )

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        return self._from_one_root(lambda view: view.refs.entry(name).hash)

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        entries = self._from_one_root(lambda view: view.refs.entries())
        found = {name: ref.hash for name, ref in entries.items() if ref.hash is not None}
        return {name: found[name] for name in sorted(found) if name.startswith(prefix)}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""

        def histories(view: RootView) -> list[Move]:
            entries = view.refs.entries() if name is None else {name: view.refs.entry(name)}
            return newest_first(view.refs.histories(entries, limit).values())[:limit]

        return self._from_one_root(histories)

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes."""
        check_prefix(prefix)
        return self._from_one_root(lambda view: view.find(prefix, limit))

    def holds(self, hashes: Sequence[Hash]) -> set[Hash]:
        """Return those of the hashes whose objects are there, with everything below them."""
        return self._from_one_root(lambda view: {name for name in hashes if view.holds(name)})

    def usage(self) -> Usage:
        """Return how much is stored."""
        root = self._view().root
        return Usage(root.objects, root.stored_bytes, self._limit_bytes)

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Progress | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> CollectionReport:
        """Drop what is not reached; writers of this process wait until it is done.

        Raises:
            Unsupported: the KVStore lacks `delete` or `keys`, or other processes may be using it.
            Busy: another process wrote concurrently. Nothing was dropped.
        """
        check_collects(self._client, shared=self._capabilities.shared)
        with self._lock:
            collector = KeyValueCollector(self._client, self._parts, self._view(), links)
            report = collector.run(forget_moves_before, progress=progress, dry_run=dry_run)
        residue = f"what {self._client.name} does with deleted values is not known"
        return replace(report, residue=residue) if erase and not dry_run else report

    def close(self) -> None:
        """Close the KVStore too."""
        if not self._closed:
            self._closed = True
            self._client.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"this store over {self._client.name} was closed", hint="open it again")

    def _view(self) -> RootView:
        self._check_open()
        return RootView(self._client.get(ROOT), self._client, self._parts)

    def _from_one_root(self, answer: Callable[[RootView], _T]) -> _T:
        """Compute an answer from one root; from a newer one, if parts of it are gone."""
        seen: bytes | None = None
        for _ in range(_TRIES):
            view = self._view()
            if view.value is not None and view.value == seen:
                raise Corrupt(
                    f"{self._client.name}: a part is missing", hint="restore it from a backup"
                )
            seen = view.value
            with suppress(StaleRoot):
                return answer(view)
        raise Busy(f"{self._client.name} changes faster than it can be read", hint="try again")

    def _try_write(self, view: RootView, batch: Batch) -> bool:
        """Write a batch on top of one root; return whether that was still the current root."""
        objects = {item.hash: bytes(item.data) for item in batch.objects}
        keys = [object_key(name) for name in {**objects, **dict.fromkeys(batch.needs)}]
        stored = self._client.get_many(keys)

        def holds(name: Hash) -> bool:
            return object_key(name) in stored and view.holds(name)

        check_conditions(
            batch, token=view.refs.fence, ref=lambda name: view.refs.entry(name).hash, holds=holds
        )
        new = {name: data for name, data in objects.items() if not holds(name)}
        check_quota(view.root.stored_bytes, sum(map(len, new.values())), self._limit_bytes)
        builder = RootBuilder(view, self._parts)
        builder.add({name: len(data) for name, data in new.items()})
        builder.refs.apply(batch)
        values = {object_key(name): data for name, data in objects.items()}
        values = {key: data for key, data in values.items() if stored.get(key) != data}
        if builder.is_empty:
            self._client.set_many(values)
            return True
        return self._land(view, builder, values)

    def _land(self, view: RootView, builder: RootBuilder, values: dict[str, bytes]) -> bool:
        root = builder.finish()
        parts = {part_key(name): value for name, value in builder.parts.items()}
        self._client.set_many(values | parts)
        if not swap_root(self._client, view, root):
            return False
        for name, value in builder.parts.items():
            self._parts.put(name, value)
        # Replaced parts only take space; failing to remove them changes nothing.
        with suppress(Unavailable):
            self._client.delete_many([part_key(name) for name in builder.replaced])
        return True
