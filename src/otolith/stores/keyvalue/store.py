"""The store over keys and values: objects first, then one swap of one key.

Theory of operation. A write reads the root, checks the batch against it, sets new objects and
parts under keys that nobody else uses, and swaps the root. A crash before the swap leaves values
that nothing names. A swap that fails means that somebody else was faster: the batch is checked
against the new root, and is either refused or tried again. After a swap the parts it replaced are
removed, so a reader that misses a part starts again from the new root.

Inside one process writes take turns. Between processes only `swap` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import random
from time import sleep
from typing import TypeVar

from otolith.errors import (
    Busy,
    Closed,
    Corrupt,
    Fenced,
    Invalid,
    NotFound,
    QuotaExceeded,
    StaleRef,
    Unavailable,
)
from otolith.stores.base import (
    Batch,
    Capabilities,
    Collected,
    Links,
    Move,
    Usage,
    check_batch,
    check_prefix,
    digest,
    newest_first,
)
from otolith.stores.keyvalue.gc import Collection, check_collects
from otolith.stores.keyvalue.kv import Calls, KVStore
from otolith.stores.keyvalue.root import (
    ROOT,
    Draft,
    Parts,
    Superseded,
    View,
    object_key,
    part_key,
    swap_root,
)
from otolith.types import Hash

_T = TypeVar("_T")
_TRIES = 1000
_CALM_TRIES = 3
_PAUSE_SECONDS = 0.01


class KeyValueStore:
    """Objects and refs over a KVStore.

    `alone` says that no other process uses it now; a store that could be shared collects only then.
    `limit_bytes` bounds what objects take: a write that would pass it is refused.
    """

    def __init__(self, kv: KVStore, *, limit_bytes: int | None = None, alone: bool = False) -> None:
        if not isinstance(kv, KVStore):
            raise Invalid(
                f"{type(kv).__name__} is no KVStore", hint="derive its class from KVStore"
            )
        self.kv = kv
        self._lock = kv._guard  # noqa: SLF001 - one lock for all stores over one KVStore
        self._limit_bytes = limit_bytes
        self._calls = Calls(kv)
        self._parts = Parts(self._calls)
        self._closed = False
        shared = self._calls.swaps and not alone
        collects = self._calls.deletes and self._calls.lists and not shared
        self._capabilities = Capabilities(
            verified=True, durable=bool(kv.durable), shared=shared, collects=collects
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        self._check_open()
        keys = {object_key(name): name for name in hashes}
        found = {keys[key]: data for key, data in self._calls.get_many(list(keys)).items()}
        for name, data in found.items():
            if digest(data) != name:
                where = f"{self._calls.name}: object {name.hex()[:12]}"
                raise Corrupt(f"{where} has the wrong bytes", hint="run otolith fsck")
        return found

    def write(self, batch: Batch) -> None:
        check_batch(batch)
        with self._lock:
            for turn in range(_TRIES):
                if self._look(lambda view: self._try(view, batch)):
                    return
                if turn > _CALM_TRIES:
                    sleep(random() * _PAUSE_SECONDS)
        raise Busy(f"{self._calls.name}: others were faster {_TRIES} times", hint="try again")

    def ref(self, name: str) -> Hash | None:
        return self._look(lambda view: view.entry(name).hash)

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        entries = self._look(lambda view: view.entries())
        found = {name: ref.hash for name, ref in entries.items() if ref.hash is not None}
        return {name: found[name] for name in sorted(found) if name.startswith(prefix)}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        def ask(view: View) -> list[Move]:
            entries = view.entries() if name is None else {name: view.entry(name)}
            return newest_first(view.histories(entries, limit).values())[:limit]

        return self._look(ask)

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        check_prefix(prefix)
        return self._look(lambda view: view.find(prefix, limit))

    def usage(self) -> Usage:
        root = self._view().root
        return Usage(root.objects, root.stored_bytes, self._limit_bytes)

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> Collected:
        """Collect as the contract says; writers of this process wait until it is done.

        Raises:
            Unsupported: the KVStore lacks `delete` or `keys`, or other processes may be using it.
            Busy: another process wrote meanwhile. Nothing was dropped.
        """
        check_collects(self._calls, shared=self._capabilities.shared)
        with self._lock:
            run = Collection(self._calls, self._parts, self._view(), links)
            done = run.run(forget_moves_before, progress=progress, dry_run=dry_run)
        residue = f"what {self._calls.name} does with deleted values is not known"
        return replace(done, residue=residue) if erase and not dry_run else done

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._calls.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"this store over {self._calls.name} was closed", hint="open it again")

    def _view(self) -> View:
        self._check_open()
        return View(self._calls.get(ROOT), self._calls, self._parts)

    def _look(self, ask: Callable[[View], _T]) -> _T:
        """Answer a question from one root; from a newer one, if parts of it are gone."""
        seen: bytes | None = None
        for _ in range(_TRIES):
            view = self._view()
            if view.value is not None and view.value == seen:
                raise Corrupt(
                    f"{self._calls.name}: a part is missing", hint="restore it from a backup"
                )
            seen = view.value
            with suppress(Superseded):
                return ask(view)
        raise Busy(f"{self._calls.name} changes faster than it can be read", hint="try again")

    def _try(self, view: View, batch: Batch) -> bool:
        self._check(view, batch)
        objects = {item.hash: bytes(item.data) for item in batch.objects}
        there = self._calls.get_many(
            [object_key(name) for name in {**objects, **dict.fromkeys(batch.needs)}]
        )
        self._check_needs(view, batch.needs, there)
        new = {
            name: data
            for name, data in objects.items()
            if object_key(name) not in there or not view.holds(name)
        }
        self._check_room(view, new)
        draft = Draft(view, self._parts)
        draft.add({name: len(data) for name, data in new.items()})
        draft.apply(batch)
        values = {object_key(name): data for name, data in objects.items()}
        values = {key: data for key, data in values.items() if there.get(key) != data}
        if draft.is_empty:
            self._calls.set_many(values)
            return True
        return self._land(view, draft, values)

    def _land(self, view: View, draft: Draft, values: dict[str, bytes]) -> bool:
        root = draft.finish()
        parts = {part_key(name): value for name, value in draft.parts.items()}
        self._calls.set_many(values | parts)
        if not swap_root(self._calls, view, root):
            return False
        for name, value in draft.parts.items():
            self._parts.keep(name, value)
        # What was replaced is only in the way; not being able to remove it changes nothing.
        with suppress(Unavailable):
            self._calls.delete_many([part_key(name) for name in draft.replaced])
        return True

    def _check(self, view: View, batch: Batch) -> None:
        for name, token in batch.fences.items():
            if token < view.fence(name):
                raise Fenced(f"a newer holder of {name} has written", hint="stop, and take it anew")
        for swap in batch.swaps:
            actual = view.entry(swap.name).hash
            if actual != swap.old:
                raise StaleRef(swap.name, expected=swap.old, actual=actual)

    def _check_needs(self, view: View, needs: Sequence[Hash], there: dict[str, bytes]) -> None:
        for name in needs:
            if object_key(name) not in there or not view.holds(name):
                where = f"{self._calls.name}: object {name.hex()[:12]}"
                raise NotFound(f"{where} is gone", hint="write it again")

    def _check_room(self, view: View, new: dict[Hash, bytes]) -> None:
        size = sum(map(len, new.values()))
        if self._limit_bytes is None or not size:
            return
        if view.root.stored_bytes + size > self._limit_bytes:
            raise QuotaExceeded(
                f"{size} more bytes would pass the limit of {self._limit_bytes}",
                hint="prune, or open it with a higher limit_bytes",
            )
