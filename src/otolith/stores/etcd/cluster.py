"""Questions and transactions of one store, in its own words: keys in, entries out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from otolith.stores.etcd.gateway import (
    Body,
    CompactedRevision,
    Gateway,
    GatewayReply,
    KeyEntry,
    RangeReply,
    TxnReply,
)
from otolith.stores.etcd.key_layout import Keys, end_of, get

PAGE = 1000
REQUEST_BYTES = 1 << 20  # etcd refuses requests from 1.5 MB on
OPERATIONS = 128  # in one transaction, unless etcd was started with --max-txn-ops


class GrantReply(msgspec.Struct, frozen=True):
    """A lease of etcd."""

    ID: int
    TTL: int


class _StatusReply(msgspec.Struct, frozen=True):
    version: str = ""


class _MembersReply(msgspec.Struct, frozen=True):
    members: tuple[dict[str, object], ...] = ()


class Cluster:
    """The keys of one store in etcd. All reads are linearizable."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.keys = Keys(gateway.place.prefix)

    def read(self, keys: Sequence[bytes]) -> list[KeyEntry]:
        """Return the entries of keys as they were at one moment; absent ones have revision 0."""
        reply = self.transact([], list(map(get, keys))).body
        return [
            next(iter(part.response_range.kvs), KeyEntry(key))
            for key, part in zip(keys, reply.responses, strict=True)
        ]

    def scan(
        self, start: bytes, *, limit: int | None = None, end: bytes | None = None
    ) -> list[KeyEntry]:
        """Return the entries whose keys start alike, in order, as they were at one moment."""
        found: list[KeyEntry] = []
        end = end_of(start) if end is None else end
        after, revision = start, 0
        while limit is None or len(found) < limit:
            size = PAGE if limit is None else min(PAGE, limit - len(found))
            body: Body = {"key": after, "range_end": end, "limit": size, "revision": str(revision)}
            try:
                page = self.gateway.call("/v3/kv/range", body, RangeReply).body
            except CompactedRevision:
                found, after, revision = [], start, 0
                continue
            found += page.kvs
            if not page.more:
                break
            after, revision = found[-1].key + b"\0", revision or page.header.revision
        return found

    def transact(
        self, compares: list[Body], then: list[Body], otherwise: Sequence[Body] = ()
    ) -> GatewayReply[TxnReply]:
        """Do the operations if all compares hold, else the others. Must be harmless to repeat."""
        body: Body = {"compare": compares, "success": then, "failure": otherwise}
        return self.gateway.call("/v3/kv/txn", body, TxnReply)

    def grant(self, ttl_seconds: int) -> GatewayReply[GrantReply]:
        """Return a new lease of etcd; one that nothing is attached to runs out unnoticed."""
        return self.gateway.call("/v3/lease/grant", {"TTL": ttl_seconds}, GrantReply)

    def revision(self) -> int:
        """Return the revision of the last write of the cluster."""
        body: Body = {"key": self.keys.format}
        return self.gateway.call("/v3/kv/range", body, RangeReply).body.header.revision

    def version(self) -> str:
        """Return the version of the member that answers."""
        return self.gateway.call("/v3/maintenance/status", {}, _StatusReply).body.version

    def count_members(self) -> int:
        """Return how many members the cluster has."""
        return len(self.gateway.call("/v3/cluster/member/list", {}, _MembersReply).body.members)
