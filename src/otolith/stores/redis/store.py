"""The Redis store: objects and refs on a Redis or Valkey server, shared by processes and machines.

Theory of operation. A write is one call of a script, which the server runs as one step: conditions,
then objects, refs and moves (`scripts` has the layout of the keys). A batch that is too large for
one call is sent in parts first, under names that are not objects and that the server drops by
itself after an hour; the script then renames them. Objects are read together, by one command, and
proven by their hashes. What no ref reaches is dropped beside writers (`gc`).

What it cannot promise. Redis acknowledges a write before its replicas have it: a failover to a
replica can lose commits that were acknowledged, and nothing reports it. `WAIT` does not change
that. So opening warns, unless the URL says `failover=accepted`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from secrets import token_hex
from threading import Lock, Thread
from typing import Literal

from otolith.errors import (
    Corrupt,
    Error,
    Fenced,
    FormatTooNew,
    Invalid,
    NotAStore,
    NotFound,
    QuotaExceeded,
    ReadOnly,
    StaleRef,
    StoreNotFound,
    Unavailable,
)
from otolith.stores.base import (
    Batch,
    Capabilities,
    CollectionReport,
    Lease,
    Links,
    Move,
    Object,
    Progress,
    ServerFacts,
    ServerRisk,
    Subscription,
    Usage,
    check_batch,
    check_lease,
    check_limit,
    check_prefix,
    digest,
    newest_first,
)
from otolith.stores.redis import scripts
from otolith.stores.redis.client import (
    Client,
    RedisAddress,
    ServerSettings,
    Word,
    foreign_keys,
)
from otolith.stores.redis.gc import RedisCollector
from otolith.stores.redis.news import RedisNews
from otolith.stores.redis.refs import encode_stamp, histories, parts, ref_names
from otolith.stores.turns import WriterTurns
from otolith.types import Hash

_READ_TOGETHER = _SENT_TOGETHER = 1000  # objects
_CALL_BYTES, _CALL_OBJECTS = 8 << 20, 1000  # a larger batch is sent in parts
_PENDING_SECONDS = 3600
_TRIES = 3
_LONGEST_PAUSE_SECONDS = 300.0


_FAILOVER = (
    "{}: Redis replicates asynchronously, so a failover can lose commits that were acknowledged;"
    " add failover=accepted to the URL if you accept that"
)


class FailoverWarning(UserWarning):
    """A failover of this server can lose acknowledged commits."""


class RedisStore:
    """Objects and refs on a Redis or Valkey server.

    `url` is `redis://user:password@host:6379/0`, or `rediss://` with TLS. Its options: `prefix` of
    all keys ("otolith"), `timeout` in seconds (10), `failover=accepted`, `socket` (the path of a
    Unix socket), `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`, `ssl_cert_reqs`.

    `capabilities.durable` is true if the server has an append-only file, synced at each write; with
    `durability="fast"`, syncing every second is enough.
    `limit_bytes` bounds what objects take: a write that would pass it raises QuotaExceeded.
    """

    def __init__(
        self,
        url: str,
        *,
        durability: Literal["full", "fast"] = "full",
        limit_bytes: int | None = None,
        read_only: bool = False,
        create: bool = True,
    ) -> None:
        if durability not in {"full", "fast"}:
            raise Invalid(f"durability {durability!r} is not known", hint="use 'full' or 'fast'")
        self._limit_bytes = check_limit(limit_bytes)
        self._read_only = read_only
        self._client = Client(RedisAddress.of(url))
        self._turns = WriterTurns()
        self._news = RedisNews(self._client)
        self._links: Links | None = None
        self._sweeper: Thread | None = None
        self._sweeper_lock = Lock()
        try:
            self._check_format(create=create and not read_only)
            settings = ServerSettings.of(self._client)
            settings.check_eviction(self.url)
        except BaseException:
            self._client.close()
            raise
        self._capabilities = Capabilities(
            verified=True,
            durable=settings.is_durable(durability),
            shared=True,
            collects=True,
            notifies=True,
            leases=True,
            expires=True,
        )
        if not self._client.address.accepts_failover:
            warnings.warn(_FAILOVER.format(self.url), FailoverWarning, stacklevel=2)

    def __repr__(self) -> str:
        """Show the URL, without secrets."""
        return f"<{type(self).__name__} {self.url}>"

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._client.address.shown

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do; whether it is durable depends on the server."""
        return self._capabilities

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; absent ones are left out."""
        self._client.check_open()
        found: dict[Hash, bytes] = {}
        for some in parts(list(dict.fromkeys(hashes)), _READ_TOGETHER):
            keys = [self._client.key(b"object:" + name) for name in some]
            for name, data in zip(some, self._client.call("MGET", *keys), strict=True):
                if data is None:
                    continue
                if digest(data) != name:
                    where = f"{self.url}: object {name.hex()[:12]}"
                    raise Corrupt(f"{where} has the wrong bytes", hint="run otolith fsck")
                found[name] = data
        return found

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically, in one round trip unless it is large."""
        check_batch(batch)
        self._client.check_open()
        self._check_writable()
        self._turns.wait(batch.swaps)
        for _ in range(_TRIES):
            verdict = self._send(batch)
            if verdict[0] == b"again":  # the server dropped pending objects meanwhile
                continue
            if verdict[0] != b"landed":
                raise self._refusal(verdict)
            self._turns.landed(batch.swaps, loser=verdict[2])
            if verdict[1]:
                self._collect_in_background()
            return
        raise Unavailable(f"{self.url} does not keep a large batch", hint="try again")

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        found = self._client.run(scripts.REF, name)
        return Hash(found) if found else None

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        found = self._client.run(scripts.REFS, prefix, "")
        names = (name.decode() for name in found[::2])
        return dict(zip(names, map(Hash, found[1::2]), strict=True))

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""
        self._client.check_open()
        if limit is not None and limit <= 0:
            return []
        names = [name] if name is not None else ref_names(self._client)
        pasts = [past[::-1] for past in histories(self._client, names, limit).values()]
        return newest_first(pasts)[:limit]

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes."""
        check_prefix(prefix)
        index = self._client.key("index")
        low, high = b"[" + prefix, b"[" + prefix.ljust(32, b"\xff")
        found = self._client.call("ZRANGEBYLEX", index, low, high, "LIMIT", 0, limit)
        return [Hash(name) for name in found]

    def usage(self) -> Usage:
        """Return how much is stored; the server takes about 200 bytes for each object beside."""
        meta, index = self._client.key("meta"), self._client.key("index")
        size, count = self._client.call_all([("HGET", meta, "bytes"), ("ZCARD", index)])
        return Usage(count, int(size or 0), self._limit_bytes)

    def holds(self, hashes: Sequence[Hash]) -> set[Hash]:
        """Return those of the hashes whose objects are there."""
        found: set[Hash] = set()
        for some in parts(list(hashes), _READ_TOGETHER):
            flags = self._client.run(scripts.HOLDS, *some)
            found.update(name for name, flag in zip(some, flags, strict=True) if flag)
        return found

    def server_facts(self) -> ServerFacts:
        """Ask the server for its version, and whether it can lose what it acknowledged."""
        facts = ServerSettings.of(self._client).facts()
        others = foreign_keys(self._client, scripts.KEYS)
        if not others:
            return facts
        name = others[0].decode(errors="replace")
        problem = f"keys of others have the prefix of this store, such as {name}"
        risk = ServerRisk(problem, "give this store or the others another prefix=")
        return facts._replace(risks=(*facts.risks, risk))

    def subscribe(self, prefix: str = "") -> Subscription:
        """Return a subscription to all refs whose name starts with `prefix`.

        A ref that expires is reported when it is removed, which can be later.
        """
        self._client.check_open()
        return self._news.subscribe(prefix)

    def lease(self, name: str, holder: str, *, ttl_seconds: float) -> Lease | None:
        """Acquire or renew a lease, by the clock of the server; None if somebody else has it."""
        self._check_writable()
        check_lease(name, holder, ttl_seconds)
        found = self._client.run(scripts.LEASE, name, holder, int(ttl_seconds * 1_000_000))
        return Lease(name, holder, int(found[0]), int(found[1])) if found else None

    def release(self, lease: Lease) -> None:
        """Give a lease back before it runs out; one that was lost already is ignored."""
        self._check_writable()
        self._client.run(scripts.RELEASE, lease.name, lease.token, lease.holder)

    def leased(self, name: str) -> Lease | None:
        """Return the lease that somebody has now, by the clock of the server."""
        found = self._client.run(scripts.LEASED, name)
        return Lease(name, found[2].decode(), int(found[0]), int(found[1])) if found else None

    def expire(self, prefix: str, seconds: float | None, *, links: Links) -> None:
        """Remove each family of refs below a prefix that no write has touched for so long."""
        self._check_writable()
        self._links = links
        rule = "" if seconds is None else int(seconds * 1_000_000)
        pause = min((seconds or _LONGEST_PAUSE_SECONDS) / 2, _LONGEST_PAUSE_SECONDS)
        self._client.run(scripts.EXPIRE, prefix, rule, int(pause * 1_000_000), self._client.channel)

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Progress | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> CollectionReport:
        """Drop what is not reached, beside readers and writers.

        Raises:
            Busy: it stood still for so long that another collector took over.
        """
        self._check_writable()
        collector = RedisCollector(self._client, self.read, links)
        return collector.run(forget_moves_before, progress=progress, dry_run=dry_run, erase=erase)

    def close(self) -> None:
        """Close the connections. Closing twice is harmless."""
        self._news.close()
        self._client.close()
        with self._sweeper_lock:
            sweeper = self._sweeper
        if sweeper is not None:
            sweeper.join()  # its next call is Closed

    def _check_writable(self) -> None:
        if self._read_only:
            raise ReadOnly(f"{self.url} was opened read-only", hint="open it without read_only")

    def _check_format(self, *, create: bool) -> None:
        """Raise an error if there is something else than a store that this version can read."""
        found = self._client.run(scripts.OPEN, "")
        if found == b"absent" and create:
            is_free = not foreign_keys(self._client, scripts.TRANSIENT_KEYS)
            found = self._client.run(scripts.OPEN, scripts.FORMAT if is_free else "")
            if found == b"absent":  # otherwise another process has made it meanwhile
                found = b"foreign"
        if found == b"absent":
            raise StoreNotFound(f"there is no store at {self.url}", hint="open it with create=True")
        if found == b"foreign" or not found.isdigit():
            raise NotAStore(
                f"{self.url}: other keys are there under the prefix {self._client.base}",
                hint="choose another prefix, such as ?prefix=agents",
            )
        if int(found) > scripts.FORMAT:
            raise FormatTooNew(
                f"{self.url} has format {int(found)}, this otolith knows up to {scripts.FORMAT}",
                hint="upgrade otolith",
            )

    def _send(self, batch: Batch) -> list[bytes]:
        """Send a batch to the server and return its verdict."""
        size = sum(len(item.data) for item in batch.objects)
        is_large = size > _CALL_BYTES or len(batch.objects) > _CALL_OBJECTS
        pending = self._client.base.encode() + b"pending:%s:" % token_hex(8).encode()
        words: list[Word] = [
            encode_stamp(batch.time, batch.note),
            self._client.channel,
            "" if self._limit_bytes is None else self._limit_bytes,
            pending if is_large else b"",
            len(batch.fences),
            len(batch.swaps),
            len(batch.needs),
            1 if self._links is not None else "",
            self._turns.writer,
        ]
        for name, token in batch.fences.items():
            words += (name, token)
        for name, old, new in batch.swaps:
            words += (name, old or b"", new or b"")
        words += batch.needs
        if is_large:
            self._send_ahead(pending, batch.objects)
            words += (item.hash for item in batch.objects)
        else:
            for item in batch.objects:
                words += (item.hash, bytes(item.data))
        verdict: list[bytes] | int = self._client.run(scripts.COMMIT, *words)
        return [b"landed", b"", b""] if isinstance(verdict, int) else verdict

    def _send_ahead(self, pending: bytes, objects: Sequence[Object]) -> None:
        """Send objects that the server drops again unless the batch lands."""
        for some in parts(list(objects), _SENT_TOGETHER):
            commands: list[tuple[Word, ...]] = []
            size = 0
            for item in some:
                commands.append(
                    ("SET", pending + item.hash, bytes(item.data), "EX", _PENDING_SECONDS)
                )
                size += len(item.data)
                if size > _CALL_BYTES:
                    self._client.call_all(commands)
                    commands, size = [], 0
            if commands:
                self._client.call_all(commands)

    def _refusal(self, verdict: list[bytes]) -> Error:
        """Return the error for a batch that the server refused."""
        kind, *details = verdict
        match kind:
            case b"fenced":
                text = f"a newer holder of {details[0].decode()} has written"
                return Fenced(text, hint="stop, and acquire it again")
            case b"run out":
                text = f"the lease of {details[0].decode()} has run out"
                return Fenced(text, hint="stop, and acquire it again")
            case b"stale":
                name, old, actual = details
                return StaleRef(name.decode(), expected=old or None, actual=actual or None)
            case b"missing":
                return NotFound(f"object {details[0].hex()[:12]} is gone", hint="write it again")
            case b"absent":
                return StoreNotFound(
                    f"the store at {self.url} is gone: the server was emptied or has lost its data",
                    hint="restore it, or open it again to begin a new one",
                )
            case b"quota":
                return QuotaExceeded(
                    f"{int(details[0])} more bytes would pass the limit of {self._limit_bytes}",
                    hint="prune, or open it with a higher limit_bytes",
                )
        return Unavailable(f"{self.url}: the server answered {kind!r}", hint="upgrade otolith")

    def _collect_in_background(self) -> None:
        """Collect what has expired; the server has chosen this writer to do it."""
        links = self._links
        if links is None:
            return
        with self._sweeper_lock:
            if self._sweeper is not None and self._sweeper.is_alive():
                return
            self._sweeper = Thread(target=self._collect_quietly, args=(links,), daemon=True)
            self._sweeper.start()

    def _collect_quietly(self, links: Links) -> None:
        """Collect; if that fails, a later writer is chosen again."""
        try:
            self.collect(links)
        except Error:
            return
