"""The Postgres store: one schema of a database, shared by processes on many machines.

Theory of operation. A write is one call of the function `write_1`, so one statement, one
transaction and one round trip; it compares fences, refs and needs under row locks and then changes
everything, or returns why not (`schema`). A single statement with several parts could not: all its
parts see one snapshot, which is taken before the locks are. Objects are compressed here, and proven
by their hash at every read (`objects`). What no ref reaches is dropped beside readers and writers
(`gc`). Whoever subscribes is told by NOTIFY which refs moved (`listener`). `connections` lends
connections and survives their loss; `failures` has the errors.

What a lost reply means. A write whose connection broke may have landed, and raises Unavailable. It
is not repeated here; whoever repeats it swaps from the same old value, so it lands once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Literal, NoReturn, TypeAlias

import psycopg

from otolith.errors import (
    Busy,
    Fenced,
    Invalid,
    NotFound,
    QuotaExceeded,
    ReadOnly,
    StaleRef,
    Unsupported,
)
from otolith.stores.base import (
    HASH_BYTES,
    Batch,
    Capabilities,
    CollectionReport,
    Lease,
    Links,
    Move,
    Progress,
    RefTurn,
    ServerFacts,
    ServerRisk,
    Subscription,
    Usage,
    check_batch,
    check_lease,
    check_limit,
    check_prefix,
    newest_first,
)
from otolith.stores.postgres import connections
from otolith.stores.postgres.gc import PostgresCollector
from otolith.stores.postgres.listener import RefListener
from otolith.stores.postgres.objects import decode, encode
from otolith.stores.postgres.ref_lines import AdvisoryLines
from otolith.stores.postgres.schema import StoreSchema
from otolith.stores.postgres.statements import (
    BIGINT,
    BIGINTS,
    BOOL,
    BYTEA,
    BYTEAS,
    FALSE,
    TRUE,
    PreparedStatement,
    Row,
    bigint,
    byteas,
    items_of,
    rows_of,
)
from otolith.stores.turns import WriterTurns
from otolith.types import Hash

_CAPABILITIES = Capabilities(
    verified=True,
    durable=True,
    shared=True,
    collects=True,
    notifies=True,
    leases=True,
    awaits=True,
)
_STATEMENT_BYTES = 64 << 20  # a longer write takes several statements, in one transaction
_ATTEMPTS = 5

Verdict: TypeAlias = list[bytes | None]
"""What `write_1` says of a batch: that it landed and who lost a race to it, or why it did not."""
_LANDED = b"landed"

_WRITE = "select {s}.write_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
_WRITE_TYPES = (*[BYTEAS] * 4, BIGINTS, *[BYTEAS] * 3, BIGINT, BYTEA, BIGINT, BOOL, BYTEA)
_READ = "select hash, data from {s}.object where hash = any($1)"
_HOLDS = "select hash from {s}.object where hash = any(%b)"
_REF = "select hash from {s}.ref where name = $1"
_REFS = """select name, hash from {s}.ref
    where hash is not null and name >= %b and name < %b order by name"""
_MOVES = """select name, old, new, time, note from {s}.move
    where name = %b order by id desc limit %b"""
_ALL_MOVES = """select m.* from {s}.ref r cross join lateral (
    select name, old, new, time, note from {s}.move where name = r.name
    order by id desc limit %b) m order by r.name"""
_FIND = """select hash from {s}.object
    where hash >= %b and hash <= %b order by hash limit %b"""
_USAGE = "select sum(objects)::bigint, sum(bytes)::bigint from {s}.tally"
_FACTS = b"""select current_setting('server_version'), current_setting('fsync'),
    current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
    (select count(*) from pg_stat_replication)"""
_WEAK_WAITS = {
    "local": "commits do not wait for the synchronous standby",
    "remote_write": "commits wait for the memory of the synchronous standby, not for its disk",
}
"""By `synchronous_commit`: what that means, where a failover should lose nothing."""
_LEASE = "select {s}.lease_1(%b, %b, %b::bigint)"
_LEASED = """select holder, token, expires from {s}.fence
    where name = %b and holder is not null and expires > {s}.now_1()"""
_RELEASE = """update {s}.fence set expires = 0
    where name = %b and token = %b::bigint and holder = %b"""


class PostgresStore:
    """Objects and refs in a schema of a Postgres database.

    `url` is that of libpq (`postgresql://user@host:5432/database`), with `schema=` (by default
    otolith), `pool=` (most connections at once, 10), `timeout=` (seconds without an answer until a
    connection counts as lost, 30) and all options of libpq, such as `connect_timeout=`, `sslmode=`
    or several hosts.
    `durability="fast"` returns before the write is on the server's disk: a crash of the server can
    lose the last writes, and leaves a consistent store all the same.
    `limit_bytes` bounds what objects take: a write that would pass it raises QuotaExceeded. Writers
    that write at the same moment do not see each other, and may pass it together.
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
        self._is_fast = durability == "fast"
        self._turns = WriterTurns()
        self._read_only = read_only
        address = connections.parse(url, read_only=read_only)
        self._schema = StoreSchema(address.schema, address.place)
        self._connections = connections.Connections(address)
        self._prepare_statements()
        try:
            with self._connections.lend() as connection:
                self._schema.open(connection, create=create and not read_only)
        except BaseException:
            self._connections.close()
            raise
        self._listener = RefListener(self._connections, self._schema)
        self._lines = AdvisoryLines(self._connections, self._schema, self._turns)

    def __repr__(self) -> str:
        """Show the place and the schema."""
        return f"<{type(self).__name__} {self._connections.address.place} {self._schema.name}>"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return _CAPABILITIES

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there, in one round trip; absent ones are left out."""
        return dict(decode(*row) for row in self._ask(self._read, [byteas(hashes)]))

    def holds(self, hashes: Sequence[Hash]) -> set[Hash]:
        """Return those of the hashes whose objects are there, in one round trip."""
        return {Hash(found) for (found,) in self._ask(self._holds, [list(hashes)])}

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically, in one round trip."""
        check_batch(batch)
        self._check_writable()
        objects = {item.hash: encode(item.data) for item in batch.objects}
        self._turns.wait(batch.swaps)
        verdict = self._send(batch, objects)
        if verdict[0] != _LANDED:
            self._refuse(batch, verdict)
        self._turns.landed(batch.swaps, loser=verdict[1])
        if verdict[1]:
            self._lines.note_race(min(swap.name for swap in batch.swaps))  # as `write_1` has it

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        rows = self._ask(self._ref, [_encoded(name)])
        return rows[0][0] if rows else None

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        start = _encoded(prefix)
        rows = self._ask(self._refs, [start, start + b"\xff"])  # no byte of UTF-8 is so high
        return {name.decode(): Hash(value) for name, value in rows}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""
        if name is not None:
            return list(map(_move, self._ask(self._moves, [_encoded(name), limit])))
        histories: dict[str, list[Move]] = {}
        for move in map(_move, self._ask(self._all_moves, [limit])):
            histories.setdefault(move.name, []).append(move)
        return newest_first(histories.values())[:limit]

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes."""
        check_prefix(prefix)
        rows = self._ask(self._find, [prefix, prefix.ljust(HASH_BYTES, b"\xff"), limit])
        return [Hash(found) for (found,) in rows]

    def usage(self) -> Usage:
        """Return how much is stored; `stored_bytes` counts objects as they are stored."""
        ((objects, stored_bytes),) = self._ask(self._usage, [])
        return Usage(objects, stored_bytes, self._limit_bytes)

    def server_facts(self) -> ServerFacts:
        """Ask the server for its version, and whether it can lose what it acknowledged."""
        ((version, fsync, synchronous, waits, standbys),) = self._ask(_FACTS, [])
        risks: list[ServerRisk] = []
        if fsync == "off":
            problem = "fsync is off: a power cut can destroy the database"
            risks.append(ServerRisk(problem, "set fsync = on"))
        if standbys and not synchronous:
            problem = "standbys are asynchronous: a failover can lose acknowledged commits"
            risks.append(ServerRisk(problem, "name them in synchronous_standby_names"))
        if synchronous and waits in _WEAK_WAITS:
            problem = f"synchronous_commit is {waits}: {_WEAK_WAITS[waits]}"
            remedy = "set it to on or remote_apply: a failover can lose acknowledged commits"
            risks.append(ServerRisk(problem, remedy))
        return ServerFacts(f"PostgreSQL {version}", tuple(risks))

    def subscribe(self, prefix: str = "") -> Subscription:
        """Return a subscription to all refs whose name starts with `prefix`."""
        self._connections.check_open()
        return self._listener.subscribe(prefix)

    def turn(self, name: str) -> AbstractContextManager[RefTurn]:
        """Lend a turn at a ref, for a writer that reads it and then moves it."""
        return self._lines.turn(name)

    def lease(self, name: str, holder: str, *, ttl_seconds: float) -> Lease | None:
        """Acquire a lease, or renew it if this holder has it; None if somebody else has it."""
        self._check_writable()
        check_lease(name, holder, ttl_seconds)
        ttl = max(1, round(ttl_seconds * 1_000_000))
        ((granted,),) = self._ask(self._lease, [_encoded(name), _encoded(holder), ttl])
        return None if granted is None else Lease(name, holder, *granted)

    def release(self, lease: Lease) -> None:
        """Give a lease back before it runs out; one that was lost already is ignored."""
        self._check_writable()
        self._ask(self._release, [_encoded(lease.name), lease.token, _encoded(lease.holder)])

    def leased(self, name: str) -> Lease | None:
        """Return the lease that somebody has now, by the clock of the server."""
        for holder, token, expires in self._ask(self._leased, [_encoded(name)]):
            return Lease(name, holder.decode(), token, expires)
        return None

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
        collector = PostgresCollector(self._connections, self._schema, links)
        return collector.run(forget_moves_before, progress=progress, dry_run=dry_run, erase=erase)

    def close(self) -> None:
        """Close all connections. Closing twice is harmless."""
        self._listener.close()
        self._connections.close()

    def _prepare_statements(self) -> None:
        statement = self._schema.statement
        self._write = PreparedStatement(statement(_WRITE), *_WRITE_TYPES)
        self._read = PreparedStatement(statement(_READ), BYTEAS)
        self._ref = PreparedStatement(statement(_REF), BYTEA)
        self._holds, self._refs = statement(_HOLDS), statement(_REFS)
        self._moves, self._all_moves = statement(_MOVES), statement(_ALL_MOVES)
        self._find, self._usage = statement(_FIND), statement(_USAGE)
        self._lease, self._release = statement(_LEASE), statement(_RELEASE)
        self._leased = statement(_LEASED)

    def _ask(self, query: bytes | PreparedStatement, parameters: Sequence[Any]) -> list[Row]:
        return self._connections.ask(query, parameters)

    def _check_writable(self) -> None:
        self._connections.check_open()
        if self._read_only:
            raise ReadOnly(f"{self!r} was opened read-only", hint="open it without read_only")

    def _send(self, batch: Batch, objects: dict[Hash, bytes]) -> Verdict:
        """Write a batch, and return what the server says."""
        if sum(map(len, objects.values())) > _STATEMENT_BYTES:
            return self._send_in_parts(batch, objects)
        return _verdict(self._connections.tell(self._write, self._arguments(batch, objects)))

    def _send_in_parts(self, batch: Batch, objects: dict[Hash, bytes]) -> Verdict:
        """Write a batch that is too long for one statement, in one transaction.

        It locks objects before refs, so it can wait in a circle with others. The server then gives
        one of them up, and that one tries again.
        """
        *parts, last = _parts(objects)
        plan = [*((Batch(), part) for part in parts), (batch, last)]
        for _ in range(_ATTEMPTS - 1):
            with suppress(Busy):
                return self._send_plan(plan)
        return self._send_plan(plan)

    def _send_plan(self, plan: Sequence[tuple[Batch, dict[Hash, bytes]]]) -> Verdict:
        """Write several batches as one, and return what the server says of the last."""
        verdict: Verdict = []
        with self._connections.transaction() as connection:
            for batch, objects in plan:
                arguments = self._arguments(batch, objects)
                verdict = _verdict(rows_of(connection, self._write, arguments))
                if verdict[0] != _LANDED:
                    raise psycopg.Rollback  # which ends the transaction, and goes no further
        return verdict

    def _arguments(self, batch: Batch, objects: dict[Hash, bytes]) -> list[bytes | None]:
        """Return the arguments of `write_1`, in the order in which it locks."""
        swaps = sorted((_encoded(name), old or b"", new or b"") for name, old, new in batch.swaps)
        fences = sorted((_encoded(name), token) for name, token in batch.fences.items())
        hashes = sorted(objects)
        return [
            byteas([name for name, _, _ in swaps]),
            byteas([old for _, old, _ in swaps]),
            byteas([new for _, _, new in swaps]),
            byteas([name for name, _ in fences]),
            byteas([bigint(token) for _, token in fences], BIGINT),
            byteas(batch.needs),
            byteas(hashes),
            byteas([objects[name] for name in hashes]),
            bigint(batch.time),
            batch.note.encode(),
            None if self._limit_bytes is None else bigint(self._limit_bytes),
            TRUE if self._is_fast else FALSE,
            self._turns.writer,
        ]

    def _refuse(self, batch: Batch, verdict: Verdict) -> NoReturn:
        """Raise the error that a verdict of `write_1` stands for."""
        kind, what = bytes(verdict[0] or b"").decode(), verdict[1] or b""
        if kind == "stale":
            name = what.decode()
            expected = next(swap.old for swap in batch.swaps if swap.name == name)
            raise StaleRef(name, expected=expected, actual=verdict[2])
        if kind == "fenced":
            name = what.decode()
            raise Fenced(f"a newer holder of {name} has written", hint="stop, and acquire it again")
        if kind == "expired":
            name = what.decode()
            raise Fenced(f"the lease of {name} has run out", hint="stop, and acquire it again")
        if kind == "missing":
            raise NotFound(f"object {what.hex()[:12]} is gone", hint="write it again")
        if kind == "quota":
            raise QuotaExceeded(
                f"{what.decode()} more bytes would pass the limit of {self._limit_bytes}",
                hint="prune, or open it with a higher limit_bytes",
            )
        raise Unsupported(
            f"{self!r}: transactions are {what.decode()} by default, which sees too little",
            hint="alter role … set default_transaction_isolation = 'read committed'",
        )


def _verdict(rows: list[Row]) -> Verdict:
    """Return what `write_1` answered: NULL if a batch landed, and nobody lost a race to it."""
    ((answer,),) = rows
    return [_LANDED, None] if answer is None else items_of(answer)


def _parts(objects: dict[Hash, bytes]) -> list[dict[Hash, bytes]]:
    """Split objects into parts that fit into a statement each."""
    parts: list[dict[Hash, bytes]] = [{}]
    size = 0
    for name in sorted(objects):
        if parts[-1] and size + len(objects[name]) > _STATEMENT_BYTES:
            parts.append({})
            size = 0
        parts[-1][name] = objects[name]
        size += len(objects[name])
    return parts


def _encoded(name: str) -> bytes:
    """Return a name as it is stored; one that cannot be stored is that of nothing."""
    return name.encode(errors="surrogatepass")


def _move(row: Row) -> Move:
    name, old, new, time, note = row
    return Move(name.decode(), old, new, time, note.decode())
