"""The store in a bucket: objects, refs and histories under one prefix of S3, GCS or Azure.

Theory of operation. One key, the root, is replaced by conditional puts; everything else that it
names never changes (`root.py`). A read of a ref is one request, which returns nothing new if the
root has not changed. A read of an object looks in the newest root that this process has seen, and
asks for the current one only if the object is not there: objects never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal

from otolith.errors import Closed, Invalid, ReadOnly, StoreNotFound, Unsupported
from otolith.stores.base import (
    Batch,
    Capabilities,
    CollectionReport,
    Links,
    Move,
    Progress,
    ServerFacts,
    ServerRisk,
    Usage,
    check_batch,
    check_limit,
    check_prefix,
    newest_first,
)
from otolith.stores.bucket.client import BucketClient
from otolith.stores.bucket.gc import BucketCollector
from otolith.stores.bucket.root import BucketSnapshot, RootRegister
from otolith.stores.bucket.upkeep import is_due, keep_up
from otolith.stores.bucket.writer import GroupWriter
from otolith.stores.ref_pages import StaleRoot
from otolith.types import Hash

_GRACE_SECONDS = 24 * 3600.0


class BucketStore:
    """Objects and refs in a bucket: `s3://bucket/prefix`, `gs://…` or `az://…`.

    Every write is acknowledged by the bucket, whatever `durability` says.
    `limit_bytes` bounds what objects take: a write that would pass it raises QuotaExceeded.
    `grace_seconds` is how old a key that nothing names must be before a collection removes it.

    Raises:
        StoreNotFound: there is no such bucket, or no store in it and `create` is false.
        Denied: the credentials are wrong, or do not allow it.
        Unsupported: the bucket has no conditional puts. If a store is there, its first write
            raises this.
        NotAStore, FormatTooNew: something else, or a newer otolith, has written there.
    """

    def __init__(
        self,
        url: str,
        *,
        durability: Literal["full", "fast"] = "full",
        limit_bytes: int | None = None,
        read_only: bool = False,
        create: bool = True,
        grace_seconds: float = _GRACE_SECONDS,
    ) -> None:
        if durability not in {"full", "fast"}:
            raise Invalid(f"durability must be 'full' or 'fast', got {durability!r}")
        if grace_seconds < 0:
            raise Invalid(f"grace_seconds must be 0 or more, got {grace_seconds}")
        self._limit_bytes = check_limit(limit_bytes)
        self._read_only = read_only
        self._grace = timedelta(seconds=grace_seconds)
        self._closed = False
        self._client = BucketClient(url)
        self.url = url
        self._register = RootRegister(self._client)
        self._writer = GroupWriter(self._register, self._limit_bytes)
        try:
            self._open(create=create and not read_only)
        except BaseException:
            self._client.close()
            raise

    def _open(self, *, create: bool) -> None:
        if self._register.find() is None:
            if not create:
                raise StoreNotFound(
                    f"{self._client.name}: there is no store", hint="open it with create=True"
                )
            self._register.create()

    def _prove_conditional(self) -> None:
        """Refuse a bucket that ignores conditions, before the first write of this process.

        A store can be made where they hold, and copied or reached where they do not.
        """
        if not self._client.is_proven:
            self._register.prove_conditional()

    def __repr__(self) -> str:
        """Show where it is."""
        return f"<BucketStore {self._client.name}>"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return Capabilities(verified=True, durable=True, shared=True, collects=True)

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; absent ones are left out."""
        self._check_open()
        seen = self._register.newest()
        try:
            found = seen.read(hashes)
        except StaleRoot:
            return self._register.from_one_root(lambda snapshot: snapshot.read(hashes))
        missing = [name for name in hashes if name not in found]
        if missing and self._register.refresh() is not seen:
            found |= self._register.from_one_root(lambda snapshot: snapshot.read(missing))
        return found

    def holds(self, hashes: Sequence[Hash]) -> set[Hash]:
        """Return those of the hashes whose objects are there."""
        self._check_open()

        def held(snapshot: BucketSnapshot) -> set[Hash]:
            return snapshot.locate(hashes).keys() | (
                set(hashes) & snapshot.root.recent_objects.keys()
            )

        return self._register.from_one_root(held)

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically, after as many tries as other writers make necessary."""
        self._check_open()
        check_batch(batch)
        if self._read_only:
            raise ReadOnly(f"{self._client.name} was opened read-only", hint="open it to write")
        self._prove_conditional()
        self._writer.write(batch)
        if is_due(self._register.newest().root):
            keep_up(self._register)

    def server_facts(self) -> ServerFacts:
        """Return which kind of bucket it is, and try its conditional puts."""
        self._check_open()
        problem = "one key is the root: writers queue for it, also those of different branches"
        remedy = "for many writers put refs into etcd: etcd://…?objects=" + self._client.scheme
        risks = [ServerRisk(problem, f"{remedy}://…")]
        if not self._read_only:
            try:
                self._register.prove_conditional()
            except Unsupported as error:
                risks.insert(0, ServerRisk(error.message, error.hint))
        return ServerFacts(self._client.software, tuple(risks))

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        self._check_open()
        return self._register.from_one_root(lambda snapshot: snapshot.ref(name))

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        self._check_open()
        found = self._register.from_one_root(lambda snapshot: snapshot.all_refs())
        return {
            name: tip
            for name, tip in sorted(found.items())
            if tip is not None and name.startswith(prefix)
        }

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""
        self._check_open()

        def histories(snapshot: BucketSnapshot) -> list[Move]:
            names = snapshot.all_refs() if name is None else [name]
            return newest_first(snapshot.histories(names, limit).values())[:limit]

        return self._register.from_one_root(histories)

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes."""
        self._check_open()
        check_prefix(prefix)
        return self._register.from_one_root(lambda snapshot: snapshot.find(prefix, limit))

    def usage(self) -> Usage:
        """Return how much is stored."""
        self._check_open()
        root = self._register.refresh().root
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
        """Drop what is not reached, beside readers and writers of any process.

        Raises:
            Busy: others changed what was to be collected, each time. Nothing was dropped.
        """
        self._check_open()
        if self._read_only and not dry_run:
            raise ReadOnly(f"{self._client.name} was opened read-only", hint="open it to write")
        if not dry_run:
            self._prove_conditional()
        collector = BucketCollector(
            self._register,
            links,
            forget_before=forget_moves_before,
            grace=self._grace,
            progress=progress,
        )
        report = collector.run(dry_run=dry_run)
        residue = "a bucket with versions or soft deletion keeps what was deleted for a while"
        return replace(report, residue=residue) if erase and not dry_run else report

    def close(self) -> None:
        """End the connections."""
        if not self._closed:
            self._closed = True
            self._client.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"{self._client.name} was closed", hint="open it again")
