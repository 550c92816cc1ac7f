"""One write: objects first, then one transaction of etcd.

Rules
1. Conditions are compared twice: with what one read of etcd shows, before anything is written, and
   in the transaction, which requires that what was read has not changed since (`mod_revision`).
   Other changes than those that matter make the transaction fail as well: then it all begins again.
2. The objects are in their store, and are roots there, before the transaction is sent.
3. The transaction can be sent any number of times. It compares a revision that it changes itself,
   so at most one attempt takes effect, however late a lost one arrives. A revision that is gone
   never comes back (except that of an absent key, which the epoch guards: see `gc.py`). So if it
   fails after an attempt was lost, the first move says whether that attempt was the one: it has the
   id of the write that made it.
4. A transaction without a move changes only fences, to what they would be afterwards anyway.
"""

from __future__ import annotations

import secrets
from time import monotonic
from typing import NamedTuple

from otolith.errors import Busy, Fenced, Invalid, Unavailable
from otolith.stores.base import Batch, Swap, check_conditions
from otolith.stores.etcd.cluster import OPERATIONS, REQUEST_BYTES, Cluster
from otolith.stores.etcd.gateway import Body, KeyEntry
from otolith.stores.etcd.key_layout import (
    EpochRecord,
    EtcdMove,
    FenceRecord,
    LeaseRecord,
    RefRecord,
    created,
    decode,
    get,
    put,
    unchanged,
)
from otolith.stores.etcd.roots import Roots
from otolith.types import Hash

MOST_SWAPS = OPERATIONS // 2 - 2  # each takes two operations, and some are left for fences


class _Seen(NamedTuple):
    """What etcd had when a write began."""

    epoch: KeyEntry
    refs: dict[str, KeyEntry]
    fences: dict[str, KeyEntry]
    leases: dict[str, KeyEntry]

    def ref(self, name: str) -> RefRecord:
        value = self.refs[name].value
        return decode(value, RefRecord) if value else RefRecord()

    def fence(self, name: str) -> FenceRecord:
        value = self.fences[name].value
        return decode(value, FenceRecord) if value else FenceRecord()

    def lease(self, name: str) -> LeaseRecord | None:
        value = self.leases[name].value
        return decode(value, LeaseRecord) if value else None


class EtcdCommitter:
    """Applies batches."""

    def __init__(self, cluster: Cluster, roots: Roots) -> None:
        self._cluster = cluster
        self._roots = roots

    def write(self, batch: Batch) -> None:
        """Apply a batch whose form has been checked."""
        moved = [swap for swap in batch.swaps if swap.old != swap.new]
        if 2 * len(moved) + len(batch.fences) > OPERATIONS - 2:
            raise Invalid(
                f"etcd cannot move {len(moved)} refs in one transaction",
                hint=f"move at most {MOST_SWAPS} at once",
            )
        size = sum(len(swap.name.encode()) + len(batch.note.encode()) for swap in moved)
        if size > REQUEST_BYTES:
            raise Invalid(
                f"names and note of {len(moved)} moves take {size} bytes, more than etcd accepts",
                hint=f"use at most {REQUEST_BYTES} bytes",
            )
        identity = secrets.token_hex(8)
        deadline = monotonic() + self._cluster.gateway.place.timeout_seconds
        while not self._try(batch, moved, identity):
            if monotonic() > deadline:
                raise Busy("other writers change the same refs all the time", hint="try again")

    def _try(self, batch: Batch, moved: list[Swap], identity: str) -> bool:
        """Write once; return False if something else changed in between."""
        seen = self._look(batch)
        _check(batch, seen)
        epoch = decode(seen.epoch.value, EpochRecord).epoch
        new = [swap.new for swap in moved if swap.new is not None]
        if batch.objects or batch.needs or new:
            self._roots.add(epoch, new, batch.objects, batch.needs)
        keys = self._cluster.keys
        witness = keys.move(moved[0].name, seen.ref(moved[0].name).moves) if moved else None
        reply = self._cluster.transact(
            self._compares(batch, seen),
            self._changes(batch, moved, seen, identity),
            [get(keys.epoch), *([get(witness)] if witness else [])],
        )
        if reply.body.succeeded:
            return True
        if not reply.repeated or witness is None:
            return False
        now, *move = (part.response_range.kvs for part in reply.body.responses)
        if any(decode(entry.value, EtcdMove).write == identity for (entry,) in filter(None, move)):
            return True
        if now[0].mod_revision != seen.epoch.mod_revision:
            raise Unavailable(  # a collection may have forgotten the move
                "a reply of etcd was lost during a collection", hint="read back, then try again"
            )
        return False

    def _look(self, batch: Batch) -> _Seen:
        """Read all that the batch depends on, at one moment."""
        keys = self._cluster.keys
        refs = [swap.name for swap in batch.swaps]
        fences = list(batch.fences)
        wanted = [*map(keys.ref, refs), *map(keys.fence, fences), *map(keys.lease, fences)]
        epoch, *found = self._cluster.read([keys.epoch, *wanted])
        entries = iter(found)
        return _Seen(epoch, *(dict(zip(some, entries)) for some in (refs, fences, fences)))  # noqa: B905 - each takes its part

    def _compares(self, batch: Batch, seen: _Seen) -> list[Body]:
        keys = self._cluster.keys
        compares = [unchanged(keys.epoch, seen.epoch.mod_revision)]
        compares += [unchanged(keys.ref(name), e.mod_revision) for name, e in seen.refs.items()]
        compares += [unchanged(keys.fence(name), e.mod_revision) for name, e in seen.fences.items()]
        compares += [
            created(keys.lease(name), entry.create_revision)
            for name, entry in seen.leases.items()
            if _is_leased(seen, name, batch.fences[name])
        ]
        return compares

    def _changes(self, batch: Batch, moved: list[Swap], seen: _Seen, identity: str) -> list[Body]:
        keys = self._cluster.keys
        changes = []
        for name, old, new in moved:
            number = seen.ref(name).moves
            move = EtcdMove(old, new, batch.time, batch.note, identity)
            changes.append(put(keys.ref(name), RefRecord(new, number + 1)))
            changes.append(put(keys.move(name, number), move))
        for name, token in batch.fences.items():
            if token > seen.fence(name).token:
                changes.append(put(keys.fence(name), FenceRecord(token)))
        return changes


def _check(batch: Batch, seen: _Seen) -> None:
    """Compare the conditions with what was read; `needs` are checked by the store for objects."""

    def ref(name: str) -> Hash | None:
        found = seen.ref(name).hash
        return Hash(found) if found is not None else None

    def token(name: str) -> int:
        if _is_leased(seen, name, batch.fences[name]):
            lease = seen.lease(name)
            if lease is None or lease.token != batch.fences[name]:
                raise Fenced(f"the lease {name} has run out", hint="stop, and acquire it again")
        return seen.fence(name).token

    check_conditions(batch, token=token, ref=ref, holds=lambda _: True)


def _is_leased(seen: _Seen, name: str, token: int) -> bool:
    """Tell whether a token is that of the last lease: then the lease must still be there."""
    fence = seen.fence(name)
    return fence.leased and fence.token == token
