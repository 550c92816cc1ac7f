"""A layer that writes to two stores: what one has lost, the other has.

Rules
1. The *primary* decides. A batch counts once it has landed there; refs, moves, fences and leases
   are read from it alone.
2. Then the objects go to the *replica*, and its refs follow those of the primary, before `write`
   returns. If the replica fails, the write has still happened; the replica is *behind*, and catches
   up at a later write, or by `catch_up`.
3. An object that the primary has lost, or has with wrong bytes, is read from the replica; nothing
   else is. `care.verify(repo, repair_from=replica)` writes it back.
4. A collection drops the same from both.

A replica that was behind has a gap that only a walk over the commits can find: `repo.mirror(url)`
makes any store an exact copy, also one that was never written through this layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Unpack

from otolith.errors import Conflict, Error, NotFound
from otolith.stores.base import (
    Batch,
    Capabilities,
    CollectionReport,
    CollectOptions,
    Collector,
    Links,
    Store,
    Swap,
)
from otolith.stores.layers.layer import Layer, read_intact
from otolith.types import Hash

_PENDING_BYTES = 64 << 20


class MirroredStore(Layer):
    """A store whose batches are also written to a replica.

    `lag` is how many batches the replica has not got yet; `problem` says why. More than 64 MiB of
    them are not remembered: then `is_torn` is true until `repo.mirror` has made a full copy.
    """

    def __init__(self, primary: Store, replica: Store) -> None:
        super().__init__(primary)
        self.replica = replica
        self.problem = ""
        self.is_torn = False
        self._lock = Lock()
        self._pending: list[Batch] = []
        self._pending_bytes = 0

    def __repr__(self) -> str:
        """Show both stores."""
        return f"<MirroredStore {self.inner!r} to {self.replica!r}>"

    @property
    def capabilities(self) -> Capabilities:
        """What the primary can do; a batch moves no more refs than both stores can move."""
        able = super().capabilities
        limits = [able.most_swaps, self.replica.capabilities.most_swaps]
        most = min((limit for limit in limits if limit is not None), default=None)
        return replace(able, most_swaps=most)

    @property
    def lag(self) -> int:
        """How many batches the replica has not got yet."""
        return len(self._pending)

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; what the primary has lost comes from the replica."""
        found = read_intact(self.inner, hashes)
        missing = [name for name in hashes if name not in found]
        return found | self._from_replica(missing) if missing else found

    def write(self, batch: Batch) -> None:
        """Apply a batch to the primary, atomically, and then to the replica."""
        self.inner.write(batch)
        with self._lock:
            self._pending.append(batch)
            self._pending_bytes += sum(len(item.data) for item in batch.objects)
            self._send_pending()
            if self._pending_bytes > _PENDING_BYTES:
                self._pending, self._pending_bytes, self.is_torn = [], 0, True

    def catch_up(self) -> bool:
        """Send what the replica has not got; return whether it has everything now."""
        with self._lock:
            self._send_pending()
            return not self._pending and not self.is_torn

    def collect(self, links: Links, **options: Unpack[CollectOptions]) -> CollectionReport:
        """Let both stores drop what is not reached; the report is that of the primary."""
        report = super().collect(links, **options)
        if options.get("dry_run"):
            return report
        if isinstance(self.replica, Collector) and self.catch_up():
            self.replica.collect(links, **options)
        elif options.get("erase"):
            return replace(report, erased=False, residue="the replica was not collected")
        return report

    def close(self) -> None:
        """Send what is left, and close both stores."""
        self.catch_up()
        try:
            self.inner.close()
        finally:
            self.replica.close()

    def _send_pending(self) -> None:
        """Write waiting batches to the replica, in their order, as long as it takes them."""
        while self._pending:
            batch = self._pending[0]
            try:
                self._send(batch)
            except Error as error:
                self.problem = f"{type(error).__name__}: {error.message}"
                return
            self._pending.pop(0)
            self._pending_bytes -= sum(len(item.data) for item in batch.objects)
        self.problem = ""

    def _send(self, batch: Batch) -> None:
        """Write a batch that the primary has accepted; the refs of the replica follow."""
        swaps = [swap for swap in batch.swaps if swap.old != swap.new]
        changed = Batch(batch.objects, swaps, batch.fences, (), batch.time, batch.note)
        try:
            self.replica.write(changed)
        except (Conflict, NotFound):
            # Another process, or an earlier try, has moved a ref of the replica: take the newest.
            self.replica.write(Batch(batch.objects))
            for name, _, _ in swaps:
                self._follow(name, batch)

    def _follow(self, name: str, batch: Batch) -> None:
        """Move a ref of the replica to where the primary has it, if its object is there."""
        old, new = self.replica.ref(name), self.inner.ref(name)
        needs = () if new is None else (new,)
        if old != new:
            self.replica.write(
                Batch(swaps=[Swap(name, old, new)], needs=needs, time=batch.time, note=batch.note)
            )

    def _from_replica(self, missing: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return what the replica has of objects that the primary has not."""
        try:
            return self.replica.read(missing)
        except Error:
            return {}
