"""Leases by the clock of etcd: a key that etcd removes when its time is over.

Whoever acquires a lease raises the token of the fence with the same name, in the transaction in
which the key is made. A write with a token of a lease compares that the key is still the one that
was there when it began (`commit.py`), so a holder whose lease ran out cannot write, however wrong
its own clock is. etcd grants whole seconds, at least about two with its default settings; a new
leader extends all leases, so one can last longer than it was asked for, and never less.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from math import ceil

from otolith.stores.base import Lease, check_lease
from otolith.stores.etcd.cluster import Cluster
from otolith.stores.etcd.gateway import Body
from otolith.stores.etcd.key_layout import (
    FenceRecord,
    LeaseRecord,
    decode,
    delete,
    put,
    unchanged,
)


class Leases:
    """Grants and releases leases."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def acquire(self, name: str, holder: str, ttl_seconds: float) -> Lease | None:
        """Acquire or renew a lease; None if somebody else has it."""
        check_lease(name, holder, ttl_seconds)
        keys = self._cluster.keys
        while True:
            held, fenced = self._cluster.read([keys.lease(name), keys.fence(name)])
            fence = decode(fenced.value, FenceRecord) if fenced.value else FenceRecord()
            record = decode(held.value, LeaseRecord) if held.value else None
            if record is not None and record.holder != holder:
                return None
            if record is None or record.token != fence.token:
                record = LeaseRecord(holder, fence.token + 1)
            grant = self._cluster.grant(ceil(ttl_seconds))
            done = self._cluster.transact(
                [
                    unchanged(keys.lease(name), held.mod_revision),
                    unchanged(keys.fence(name), fenced.mod_revision),
                ],
                [put(keys.lease(name), record, grant.body.ID), *self._raised(name, fence, record)],
            )
            if done.body.succeeded:
                now = parsedate_to_datetime(grant.date).timestamp()
                return Lease(name, holder, record.token, int((now + grant.body.TTL) * 1_000_000))

    def _raised(self, name: str, fence: FenceRecord, record: LeaseRecord) -> list[Body]:
        """Raise the fence to a new token; a renewal leaves it alone, and so disturbs no write."""
        if record.token == fence.token:
            return []
        return [put(self._cluster.keys.fence(name), FenceRecord(record.token, leased=True))]

    def holder(self, name: str) -> Lease | None:
        """Return the lease that somebody has now; etcd removes those that ran out."""
        (held,) = self._cluster.read([self._cluster.keys.lease(name)])
        if not held.value:
            return None
        record = decode(held.value, LeaseRecord)
        return Lease(name, record.holder, record.token, 0)

    def release(self, lease: Lease) -> None:
        """Give a lease back; one that was lost already is ignored."""
        key = self._cluster.keys.lease(lease.name)
        while True:
            (held,) = self._cluster.read([key])
            if not held.value or decode(held.value, LeaseRecord).token != lease.token:
                return
            is_ours = unchanged(key, held.mod_revision)
            if self._cluster.transact([is_ours], [delete(key)]).body.succeeded:
                return
