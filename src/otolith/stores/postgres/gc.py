"""Garbage collection beside readers and writers.

Rules
1. What is reached from a ref, or from either end of a remembered move, stays. So does what writers
   wrote or needed since the collection began, with all below it.
2. An object that counts as present has everything below it. A condemned object counts as absent:
   nobody can need it, and who writes it again revives it.
3. There is one collection at a time. Its run has a number; another one that finds its claim run out
   takes over with the next number, and whatever the first still sends is then without effect.

Theory of operation. *Forget* removes the old end of histories. Then the *barrier* is raised: from
here on each batch logs its objects, its needs and both ends of its swaps in `fresh`. *Mark* follows
refs and moves, in batches and without a lock; then all objects are listed, and those that are not
marked are put into `condemned` under the number of this run, which changes nothing yet. *Catch up*
follows what was logged meanwhile, until little is left. The rest is done with the gate closed to
writers: follow the last of the log, take what it reaches off the list, lower the barrier, and
declare the list valid. *Sweep* deletes what is on it, some hundred objects at a time, with the gate
closed for some milliseconds each time.

Why nothing is lost. Let a batch land that makes an object X reachable. X is in the batch, below one
of its needs, or below the old value of a swap (base.py, rule 4).
- It lands before the barrier is raised: raising it waits for the gate, so refs and moves are read
  after the batch, and X is marked.
- It lands between that and the declaration: object, need or old value are in `fresh`, and followed
  before the declaration, or under the gate. What is below them is still there, for nothing is
  deleted before the declaration.
- It lands after the declaration: a need that is condemned refuses it. An object of it that was
  condemned is revived by the same transaction. What lies below a need that is not condemned is not
  condemned either: the need was marked, or logged and then marked, or revived by a batch of which
  all this says the same. The old value of a swap is named by a ref, so it is true of that as well.
- A batch and a sweep never run at the same time: one has the gate shared, the other alone.
A collector that dies leaves a barrier (writers log in vain) or a valid list (whose objects count as
absent, as before): the next one clears the first and completes the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic, sleep
from typing import Any, TypeVar

from otolith.errors import Busy
from otolith.stores.base import CollectionReport, Links, Progress, ignore_progress
from otolith.stores.postgres.connections import Connections
from otolith.stores.postgres.objects import decode
from otolith.stores.postgres.schema import StoreSchema
from otolith.stores.postgres.statements import PostgresConnection, Row, rows_of
from otolith.types import Hash

_T = TypeVar("_T")

_CLAIM_SECONDS = 60
_RENEW_SECONDS = 15
_PATIENCE_SECONDS = 120  # how long to wait for another collection
_READ_OBJECTS = 256
_LARGE_BYTES = 1 << 20  # objects from here on are read one by one
_LIST_OBJECTS = 20_000
_FORGET_MOVES, _FORGET_REFS = 5_000, 500
_FEW_FRESH = 200  # so many are followed while writers wait
_CATCH_UPS = 20  # but not for ever
_GATE_ATTEMPTS = 300
_FIRST_SWEEP, _LARGEST_SWEEP = 100, 5_000
_SWEEP_SECONDS = 0.02
_RESIDUE = (
    "the pages, the WAL, replicas and backups of the server may still have it; "
    "VACUUM FULL rewrites the pages"
)

_CLAIM = """update {s}.meta set run = run + 1, run_until = {s}.now_1() + %b::bigint
    where run_until <= {s}.now_1() returning run, sweep"""
_RENEW = "update {s}.meta set run_until = {s}.now_1() + %b::bigint where run = %b returning run"
_GIVE_UP = "update {s}.meta set run_until = 0 where run = %b"
_SHORT_WAIT = "set local lock_timeout = '200ms'"
_GATE = "select pg_advisory_xact_lock({gate}, {meta}::regclass::oid::integer)"
_CLEAR = "truncate {s}.fresh, {s}.condemned"
_BARRIER = "update {s}.meta set barrier = true where run = %b returning run"
_DECLARE = "update {s}.meta set barrier = false, sweep = run where run = %b returning run"
_SWEPT = "update {s}.meta set sweep = 0 where sweep = %b and run = %b returning run"
_ROOTS = """select hash from {s}.ref where hash is not null
    union select root from {s}.move m, lateral (values (m.old), (m.new)) ends(root)
    where root is not null and not exists (
        select from unnest(%b::bytea[], %b::bigint[]) o(name, last)
        where o.name = m.name and m.id <= o.last)"""
_OLD_MOVES = """select name, max(id), count(*) from (
        select name, id, max(time) over (partition by name order by id) as latest from {s}.move
    ) m where latest < %b::numeric group by name"""
_FORGET = """with old as (
        select m.name, m.id from unnest(%b::bytea[], %b::bigint[]) o(name, last), lateral (
            select name, id from {s}.move where name = o.name and id <= o.last order by id limit %b
        ) m limit %b)
    delete from {s}.move m using old where m.name = old.name and m.id = old.id returning 1"""
_READ = """select hash, case when octet_length(data) < %b then data end from {s}.object
    where hash = any(%b)"""
_LIST = """select o.hash, octet_length(o.hash) + octet_length(o.data) from {s}.object o
    where o.hash > %b and not exists (
        select from {s}.condemned c, {s}.meta m where c.run = m.sweep and c.hash = o.hash)
    order by o.hash limit %b"""
_FRESH = "with read as (delete from {s}.fresh where run = %b returning hash) select hash from read"
_CONDEMN = "insert into {s}.condemned(run, hash) select %b::bigint, unnest(%b::bytea[])"
_PARDON = "delete from {s}.condemned where run = %b and hash = any(%b)"
_SWEEP = "select {s}.sweep_1(%b::bigint, %b::integer)"
_NAMELESS = """delete from {s}.ref r where r.hash is null
    and not exists (select from {s}.move m where m.name = r.name)"""


class PostgresCollector:
    """One garbage collection."""

    def __init__(self, connections: Connections, schema: StoreSchema, links: Links) -> None:
        self._connections = connections
        self._schema = schema
        self._links = links
        self._marked: set[bytes] = set()
        self._run = 0
        self._renew_at = 0.0
        self._was_replaced = False
        self._longest_seconds = 0.0
        self._held: PostgresConnection | None = None  # has the gate alone

    def run(
        self, forget_before: int, *, progress: Progress | None, dry_run: bool, erase: bool
    ) -> CollectionReport:
        """Forget, mark and sweep; with `dry_run`, only count."""
        report = progress if progress is not None else ignore_progress
        if dry_run:
            return self._count(forget_before, report)
        unfinished = self._claim()
        try:
            if unfinished:
                self._sweep(unfinished, 0, ignore_progress)
            forgotten = self._forget(forget_before, report)
            self._with_closed_gate(self._raise_barrier)
            self._follow(self._roots({}), report)
            total = self._condemn()
            self._catch_up()
            self._with_closed_gate(self._declare)
            dropped, freed = self._sweep(self._run, total, report)
        finally:
            self._ask(_GIVE_UP, self._run)
        return CollectionReport(
            len(self._marked),
            dropped,
            forgotten,
            freed,
            self._longest_seconds,
            residue=_RESIDUE if erase else "",
        )

    def _count(self, forget_before: int, report: Progress) -> CollectionReport:
        listed = [row for page in self._pages() for row in page]
        old = self._old_moves(forget_before)
        self._follow(self._roots(old), report)
        dead = [size for name, size in listed if name not in self._marked]
        forgotten = sum(old.values())
        return CollectionReport(len(self._marked), len(dead), forgotten, sum(dead), 0.0)

    # One collection at a time

    def _claim(self) -> int:
        """Wait for other collections; return the run whose sweep was not completed, or 0."""
        deadline = monotonic() + _PATIENCE_SECONDS
        while not (rows := self._tell(_CLAIM, _CLAIM_SECONDS * 1_000_000)):
            if monotonic() > deadline:
                raise Busy("another process collects this store", hint="wait until it has ended")
            sleep(0.05)
        ((self._run, unfinished),) = rows
        self._renew_at = monotonic() + _RENEW_SECONDS
        return int(unfinished)

    def _renew(self) -> None:
        if monotonic() > self._renew_at:
            self._check(self._ask(_RENEW, _CLAIM_SECONDS * 1_000_000, self._run))
            self._renew_at = monotonic() + _RENEW_SECONDS

    def _check(self, rows: Sequence[Row] | None) -> None:
        """Raise Busy if a statement had no effect because another collection has taken over."""
        if not rows:
            self._was_replaced = True
            raise Busy("another process has taken over the collection", hint="start it again")

    def _with_closed_gate(self, work: Callable[[], None]) -> None:
        """Run something in a transaction beside which no batch lands."""

        def in_transaction() -> None:
            with self._connections.transaction() as connection:
                connection.execute(self._schema.statement(_SHORT_WAIT))
                connection.execute(self._schema.statement(_GATE))
                self._held = connection
                try:
                    work()
                finally:
                    self._held = None

        self._when_free(in_transaction)

    def _when_free(self, work: Callable[[], _T]) -> _T:
        """Run something that needs the gate; again, if a long batch has it just then.

        Nobody waits for it long: all writers would wait behind.
        """
        for attempt in range(_GATE_ATTEMPTS):
            began = monotonic()
            try:
                return work()
            except Busy:
                if self._was_replaced or attempt == _GATE_ATTEMPTS - 1:
                    raise
            finally:
                self._longest_seconds = max(self._longest_seconds, monotonic() - began)
            self._renew()
            sleep(0.1)
        raise AssertionError  # the last attempt has returned or raised

    # Forget

    def _old_moves(self, before: int) -> dict[tuple[bytes, int], int]:
        """Return name and last move of each part of a history before a time, and its length."""
        if before <= 0:
            return {}
        return {(name, last): count for name, last, count in self._ask(_OLD_MOVES, before)}

    def _forget(self, before: int, report: Progress) -> int:
        """Forget moves before a time, oldest first, so that no history gets a hole."""
        old = self._old_moves(before)
        todo, total, forgotten = list(old), sum(old.values()), 0
        while todo:
            self._renew()
            names, lasts = zip(*todo[:_FORGET_REFS], strict=True)
            rows = self._tell(_FORGET, [*names], [*lasts], _FORGET_MOVES, _FORGET_MOVES)
            forgotten += len(rows)
            report("forget", forgotten, total)
            if len(rows) < _FORGET_MOVES:
                del todo[:_FORGET_REFS]
        return forgotten

    # Mark

    def _raise_barrier(self) -> None:
        """Let writers log from now on; nothing that an earlier run has left counts."""
        self._tell(_CLEAR)
        self._tell(_NAMELESS)
        self._check(self._tell(_BARRIER, self._run))

    def _roots(self, without_moves: Iterable[tuple[bytes, int]]) -> list[bytes]:
        names, lasts = [name for name, _ in without_moves], [last for _, last in without_moves]
        return [name for (name,) in self._ask(_ROOTS, names, lasts)]

    def _follow(self, roots: Iterable[bytes], report: Progress = ignore_progress) -> set[bytes]:
        """Mark everything that is reached from some objects; return what was not marked before."""
        todo = [name for name in roots if name not in self._marked]
        new: set[bytes] = set()
        while todo:
            self._renew_if_claimed()
            some = list({*todo[-_READ_OBJECTS:]})
            del todo[-_READ_OBJECTS:]
            for name, data in self._read(some):
                self._marked.add(name)
                new.add(name)
                todo += [link for link in self._links(data) if link not in self._marked]
            report("mark", len(self._marked), 0)
        report("mark", len(self._marked), len(self._marked))
        return new

    def _renew_if_claimed(self) -> None:
        if self._run:
            self._renew()

    def _read(self, names: list[bytes]) -> Iterator[tuple[Hash, bytes]]:
        """Yield those of some objects that are there and were not marked yet."""
        wanted = [name for name in names if name not in self._marked]
        for name, form in self._ask(_READ, _LARGE_BYTES, wanted):
            if form is not None:
                yield decode(name, form)
            else:
                yield from (decode(*row) for row in self._ask(_READ, 1 << 30, [name]))

    def _pages(self) -> Iterator[list[Row]]:
        """Yield all objects that count as present, with the bytes that each takes."""
        after = b""
        while page := self._ask(_LIST, after, _LIST_OBJECTS):
            yield page
            after = page[-1][0]

    def _condemn(self) -> int:
        """List what is not marked; return how many."""
        total = 0
        for page in self._pages():
            self._renew()
            dead = [name for name, _ in page if name not in self._marked]
            total += len(dead)
            if dead:
                self._tell(_CONDEMN, self._run, dead)
        return total

    def _catch_up(self) -> None:
        """Follow what writers have logged, until little is left for when they have to wait."""
        for _ in range(_CATCH_UPS):
            fresh = [name for (name,) in self._tell(_FRESH, self._run)]
            self._pardon(self._follow(fresh))
            if len(fresh) <= _FEW_FRESH:
                return

    def _pardon(self, reached: set[bytes]) -> None:
        if reached:
            self._ask(_PARDON, self._run, list(reached))

    def _declare(self) -> None:
        """Follow the rest of the log, and make the list valid."""
        self._pardon(self._follow(name for (name,) in self._tell(_FRESH, self._run)))
        self._check(self._tell(_DECLARE, self._run))

    # Sweep

    def _sweep(self, run: int, total: int, report: Progress) -> tuple[int, int]:
        """Delete what a run has condemned; return how many objects, and their bytes."""
        size, seen, dropped, freed = _FIRST_SWEEP, 0, 0, 0
        while True:
            self._renew()
            began = monotonic()
            swept = self._when_free(lambda: self._tell(_SWEEP, run, size)[0][0])  # noqa: B023
            self._check(swept)
            seconds = monotonic() - began
            entries, gone, gone_bytes = swept
            seen, dropped, freed = seen + entries, dropped + gone, freed + gone_bytes
            report("sweep", seen, max(total, seen))
            if not entries:
                break
            size = size * 2 if seconds < _SWEEP_SECONDS else size // 2
            size = min(max(size, _FIRST_SWEEP), _LARGEST_SWEEP)
        self._with_closed_gate(lambda: self._check(self._tell(_SWEPT, run, self._run)))
        return dropped, freed

    def _ask(self, query: str, *parameters: Any) -> list[Row]:
        """Run a statement that can be repeated."""
        if self._held is not None:
            return self._tell(query, *parameters)
        return self._connections.ask(self._schema.statement(query), parameters)

    def _tell(self, query: str, *parameters: Any) -> list[Row]:
        """Run a statement once; in the transaction that has the gate, if there is one."""
        text = self._schema.statement(query)
        if self._held is None:
            return self._connections.tell(text, parameters)
        return rows_of(self._held, text, parameters)
