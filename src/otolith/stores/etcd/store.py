"""The etcd store: refs, moves, fences and leases in etcd, objects in another store.

etcd is a cluster that agrees: what it has acknowledged stays although a minority of its members is
lost, and every read sees the last write. It is small, at most some gigabytes, so it has only what
processes must agree on, and the bytes are in a store that need not agree on anything but itself.

Theory of operation. A write reads what it depends on from etcd, writes its objects, and commits in
one transaction that compares that nothing it depends on has changed (`commit`). Its objects are
protected from collections of their own store by refs there (`roots`), which a collection renews
(`gc`). Leases are keys that etcd removes (`lease`), news are its watches (`watch`). `gateway`
speaks HTTP with the members, and `key_layout` has all keys and values.

A batch that is refused has written no objects, except where another writer was faster in the moment
between the read and the transaction: then its objects stay until the next collection.
"""

from __future__ import annotations

import secrets
from copy import copy
from weakref import WeakSet

from otolith.errors import (
    Corrupt,
    FormatTooNew,
    Invalid,
    NotAStore,
    ReadOnly,
    StoreNotFound,
)
from otolith.stores.base import (
    Batch,
    Capabilities,
    CollectionReport,
    Lease,
    Links,
    Move,
    Progress,
    ServerFacts,
    ServerReporter,
    ServerRisk,
    Store,
    Subscription,
    Swap,
    check_batch,
    check_limit,
    digest,
    newest_first,
)
from otolith.stores.etcd.cluster import Cluster
from otolith.stores.etcd.commit import MOST_SWAPS, EtcdCommitter
from otolith.stores.etcd.gateway import Gateway, read_place
from otolith.stores.etcd.gc import EtcdCollector
from otolith.stores.etcd.key_layout import (
    VERSION,
    EpochRecord,
    EtcdMove,
    FormatRecord,
    RefRecord,
    decode,
    put,
    unchanged,
)
from otolith.stores.etcd.lease import Leases
from otolith.stores.etcd.roots import Roots
from otolith.stores.etcd.watch import EtcdWatch
from otolith.stores.layers import Layer
from otolith.stores.url import open_store
from otolith.types import Hash

_LEAST_MEMBERS = 3  # a majority of fewer does not survive the loss of one


class EtcdStore(Layer):
    """Refs in etcd, objects in the store that `?objects=URL` names.

    etcd://user:password@host:2379,host:2379?objects=URL&prefix=otolith&timeout=10

    `etcds://` uses TLS, with `ca`, `cert` and `key` if they are given. `durability`, `limit_bytes`,
    `read_only` and `create` are passed on to the store for objects; etcd always syncs its disks.
    """

    def __init__(
        self,
        url: str,
        *,
        durability: str = "full",
        limit_bytes: int | None = None,
        read_only: bool = False,
        create: bool = True,
    ) -> None:
        if durability not in {"full", "fast"}:
            raise Invalid(f"durability {durability!r} is not known", hint="use 'full' or 'fast'")
        check_limit(limit_bytes)
        place = read_place(url)
        self._read_only = read_only
        create = create and not read_only
        self._cluster = Cluster(Gateway(place))
        self._watches: WeakSet[EtcdWatch] = WeakSet()
        try:
            found = self._find(create=create)
            objects = open_store(
                place.objects,
                durability=durability,
                limit_bytes=limit_bytes,
                read_only=read_only,
                create=create,
            )
        except BaseException:
            self._cluster.gateway.close()
            raise
        super().__init__(objects)
        try:
            identity = (found or self._create()).id
            self._check_objects(identity)
        except BaseException:
            self.close()
            raise
        self._roots = Roots(objects, identity)
        self._committer = EtcdCommitter(self._cluster, self._roots)
        self._leases = Leases(self._cluster)

    def __repr__(self) -> str:
        """Show where it is."""
        return f"<{type(self).__name__} {self._cluster.gateway.place}, objects in {self.inner!r}>"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do: of objects, what their store can do."""
        able = self.inner.capabilities
        return Capabilities(
            verified=able.verified,
            durable=able.durable,
            shared=able.shared,
            collects=able.collects,
            notifies=True,
            leases=True,
            most_swaps=MOST_SWAPS,
        )

    def server_facts(self) -> ServerFacts:
        """Ask etcd for its version and members, and the store of objects for what it is."""
        risks: list[ServerRisk] = []
        if self._cluster.count_members() < _LEAST_MEMBERS:
            problem = "fewer than three members: no commits while one of them is down"
            risks.append(ServerRisk(problem, "run three or five"))
        if isinstance(self.inner, ServerReporter):
            objects, inner_risks = self.inner.server_facts()
            risks += [ServerRisk(f"objects: {each.problem}", each.remedy) for each in inner_risks]
        else:
            objects = "a file"
            problem = "objects are in a file, which other machines may not be able to read"
            risks.append(ServerRisk(problem, "put objects into a bucket or Postgres"))
        return ServerFacts(f"etcd {self._cluster.version()}, objects in {objects}", tuple(risks))

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically."""
        check_batch(batch)
        self._check_writable()
        if batch.swaps or batch.fences:
            self._committer.write(batch)
        else:
            self.inner.write(batch)

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        (entry,) = self._cluster.read([self._cluster.keys.ref(_text(name))])
        found = decode(entry.value, RefRecord).hash if entry.value else None
        return Hash(found) if found is not None else None

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        keys = self._cluster.keys
        found = {
            keys.name_of_ref(entry.key): decode(entry.value, RefRecord).hash
            for entry in self._cluster.scan(keys.ref(_text(prefix)))
        }
        return {name: Hash(hash_) for name, hash_ in found.items() if hash_ is not None}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""
        keys = self._cluster.keys
        if name is not None:
            found = self._cluster.scan(keys.history(_text(name)), limit=limit)
            return [decode(entry.value, EtcdMove).move(name) for entry in found]
        histories: dict[str, list[Move]] = {}
        for entry in self._cluster.scan(keys.moves):
            ref = keys.name_of_move(entry.key)
            histories.setdefault(ref, []).append(decode(entry.value, EtcdMove).move(ref))
        return newest_first(histories.values())[:limit]

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Progress | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> CollectionReport:
        """Drop what is not reached, beside readers and writers."""
        self._check_writable()
        collector = EtcdCollector(self._cluster, self._roots, links)
        return collector.run(forget_moves_before, progress=progress, dry_run=dry_run, erase=erase)

    def subscribe(self, prefix: str = "") -> Subscription:
        """Return a subscription to all refs whose name starts with `prefix`."""
        self._cluster.gateway.check_open()
        watch = EtcdWatch(self._cluster, _text(prefix))
        self._watches.add(watch)
        return watch.subscribe(prefix)

    def lease(self, name: str, holder: str, *, ttl_seconds: float) -> Lease | None:
        """Acquire or renew a lease; None if somebody else has it. etcd grants whole seconds."""
        self._check_writable()
        return self._leases.acquire(_text(name), _text(holder), ttl_seconds)

    def release(self, lease: Lease) -> None:
        """Give a lease back before it runs out."""
        self._check_writable()
        self._leases.release(lease)

    def leased(self, name: str) -> Lease | None:
        """Return the lease that somebody has now; etcd does not tell for how long."""
        return self._leases.holder(_text(name))

    def uncached(self) -> Store:
        """Return this store with the objects as they are at rest; refs are never cached."""
        store = copy(self)
        store.inner = super().uncached()
        return store

    def close(self) -> None:
        """Close the connections, and the store for objects."""
        for watch in list(self._watches):
            watch.close()
        self._cluster.gateway.close()
        self.inner.close()

    def _check_writable(self) -> None:
        self._cluster.gateway.check_open()
        if self._read_only:
            raise ReadOnly("this etcd store was opened read_only", hint="open it without read_only")

    # -------------------- opening

    def _find(self, *, create: bool) -> FormatRecord | None:
        """Return the format of the store in etcd, or None if there is none and one can be made."""
        keys, place = self._cluster.keys, self._cluster.gateway.place
        (entry,) = self._cluster.read([keys.format])
        if entry.value:
            return self._checked(entry.value)
        if self._cluster.scan(keys.all, limit=1):
            raise NotAStore(
                f"{place} has keys that are not of an otolith store", hint="use another ?prefix="
            )
        if not create:
            raise StoreNotFound(f"there is no store at {place}", hint="open it with create=True")
        return None

    def _checked(self, value: bytes) -> FormatRecord:
        place = self._cluster.gateway.place
        try:
            found = decode(value, FormatRecord)
        except Corrupt:
            raise NotAStore(
                f"{place} has keys that are not of an otolith store", hint="use another ?prefix="
            ) from None
        if found.otolith > VERSION:
            raise FormatTooNew(
                f"{place} has format {found.otolith}, this otolith reads up to {VERSION}",
                hint="upgrade otolith",
            )
        return found

    def _create(self) -> FormatRecord:
        """Make a store; another process may be faster, and then it is that one."""
        keys = self._cluster.keys
        mine = FormatRecord(VERSION, secrets.token_hex(8))
        swap = Swap(_mark(mine.id), None, digest(mine.id.encode()))
        self.inner.write(Batch(swaps=[swap]))
        self._cluster.transact(
            [unchanged(keys.format, 0)],
            [put(keys.format, mine), put(keys.epoch, EpochRecord(1))],
        )
        (entry,) = self._cluster.read([keys.format])
        found = self._checked(entry.value)
        if found != mine:
            self.inner.write(Batch(swaps=[Swap(swap.name, swap.new, None)]))
        return found

    def _check_objects(self, identity: str) -> None:
        """Refuse objects that belong to other refs: a commit would lead nowhere."""
        if self.inner.ref(_mark(identity)) is None:
            raise NotAStore(
                f"the objects of {self._cluster.gateway.place} are not in {self.inner!r}",
                hint="name the store in ?objects= with which it was made",
            )


def _mark(identity: str) -> str:
    """Return the ref by which a store for objects says that it belongs to a store in etcd."""
    return f"etcd/{identity}"


def _text(name: str) -> str:
    """Return a name that can be part of a key.

    Raises:
        Invalid: it cannot be encoded.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{name!r} is not text", hint="leave out lone surrogates") from None
    return name
