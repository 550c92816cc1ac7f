"""Garbage collection beside readers and writers.

Rules
1. What is reached from a ref, or from either end of a remembered move, stays. So does every row
   newer than the start, with all it reaches.
2. A row that others differ from stays as long as they do. If nothing reaches it, it loses its key:
   it is then not an object any more, only bytes. A collection that erases gives the others another
   base, and drops it (`erasure`).
3. While a row counts as an object, everything below it is there. So a writer that finds an object
   need not look further.

Theory of operation. *Forget* cuts the old end of histories. *Mark* runs in read snapshots and stops
no writer. *Sweep* takes the write lock for a few milliseconds at a time. Each of its transactions
first marks what writers have done since the last one; objects and refs land in one transaction, so
nothing is ever in flight. Rows go newest first: an object is written after the objects it needs and
after its base, so the upper goes before the lower, which is rule 3. The newest row of all is never
deleted, because ids must not be used again while another process remembers them; the newest move is
blanked instead, because another collector asks for the moves after the last it has seen. *Shrink*
returns free pages to the file system.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import NamedTuple

import apsw

from otolith.errors import Corrupt
from otolith.stores.base import (
    CollectionReport,
    Links,
    Progress,
    count_remembered,
    ignore_progress,
)
from otolith.stores.sqlite.connections import ConnectionPool
from otolith.stores.sqlite.delta import DamagedRow, base_of
from otolith.stores.sqlite.erasure import Erasure
from otolith.stores.sqlite.objects import SELECT_ROWS, ObjectTable, has_key, key_of
from otolith.stores.sqlite.refs import MoveEnd, MoveRow, MoveTable, RefTable
from otolith.stores.sqlite.sql import FSCK, ask, each, roll_back
from otolith.stores.sqlite.write_queue import ShortTransactions

OBJECT, BASE = 1, 2  # the marks of a row: it is reached; a row that is reached differs from it

_PAGE_BITS = 16
_MARK_SECONDS = 0.01  # marking under the write lock for longer is done outside of it first
_PATIENCE = 20  # but not for ever
_REPORT_SECONDS = 0.1
_REFS_READ = 1000  # whose histories are read in one snapshot


class SqliteCollector:
    """One garbage collection."""

    def __init__(
        self,
        pool: ConnectionPool,
        objects: ObjectTable,
        refs: RefTable,
        moves: MoveTable,
        *,
        links: Links,
    ) -> None:
        self._pool = pool
        self._objects = objects
        self._refs = refs
        self._moves = moves
        # Without the caches of the writers of this process: what they have may be gone by now.
        self._marker = Marker(pool.file.path, ObjectTable(pool.file.path), links)
        self._start = self._top_row = self._top_move = 0

    def run(
        self, forget_before: int, *, progress: Progress | None, dry_run: bool, erase: bool
    ) -> CollectionReport:
        """Forget, mark, sweep, erase if asked, and shrink; with `dry_run`, only count."""
        report = progress if progress is not None else ignore_progress
        pruner = HistoryPruner(self._pool, self._refs, self._moves, forget_before)
        if dry_run:
            return self._count(pruner.moves_to_drop(), report)
        with self._pool.second_writer() as connection, self._pool.second_place() as queue:
            queue.watch(connection)
            transactions = ShortTransactions(connection, queue)
            pages = connection.pragma("page_count")
            forgotten = pruner.run(transactions, report)
            self._mark(set(), report)
            dropped = self._sweep(connection, transactions, report)
            self._objects.recent.clear()
            residue = Erasure(self._pool, transactions, report).run() if erase else ""
            self._shrink(connection, transactions, report)
            freed = (pages - connection.pragma("page_count")) * connection.pragma("page_size")
        return CollectionReport(
            self._marker.reached,
            dropped,
            forgotten,
            max(0, freed),
            transactions.longest_seconds,
            erased=erase and not residue,
            residue=residue,
        )

    def _count(self, moves_to_drop: set[int], report: Progress) -> CollectionReport:
        self._mark(moves_to_drop, report)
        with self._pool.reading() as connection:
            query = "select id, length(data) from object where id<=? and key<>0"
            dead = [
                size
                for number, size in ask(connection, query, (self._start,))
                if not self._marker.marks.get(number) & OBJECT
            ]
        return CollectionReport(self._marker.reached, len(dead), len(moves_to_drop), sum(dead), 0.0)

    def _mark(self, without_moves: set[int], report: Progress) -> None:
        """Mark everything that is reached at the start."""
        marker = self._marker
        with self._pool.reading() as connection:
            self._start = self._top_row = _newest_row(connection)
            marker.add_roots(row.hash for row in self._refs.rows(connection))
            for move in self._moves.since(connection, 0):
                self._top_move = move.seq
                if move.seq not in without_moves:
                    marker.add_roots((move.old, move.new))
            while not marker.walk(connection, monotonic() + _REPORT_SECONDS):
                report("mark", marker.reached, 0)
        report("mark", marker.reached, marker.reached)

    def _catch_up(self, connection: apsw.Connection, until: float | None) -> bool:
        """Mark what writers have done since; return whether there was time for all of it."""
        changed = "select hash from ref where name<>'' and (last>? or last=0)"
        self._marker.add_roots(value for (value,) in ask(connection, changed, (self._top_move,)))
        for move in self._moves.since(connection, self._top_move):
            self._top_move = move.seq
            self._marker.add_roots((move.old, move.new))
        self._top_row = self._marker.add_new_rows(connection, self._top_row)
        return self._marker.walk(connection, until)

    def _sweep(
        self, connection: apsw.Connection, transactions: ShortTransactions, report: Progress
    ) -> int:
        dead = self._dead_rows()
        total, dropped, postponed = len(dead), 0, 0
        while dead:
            with self._pool.reading() as snapshot:
                self._catch_up(snapshot, None)
            with transactions.transaction() as size:
                until = None if postponed > _PATIENCE else monotonic() + _MARK_SECONDS
                if not self._catch_up(connection, until):
                    roll_back(connection)
                    postponed += 1
                    continue
                some = dead[-size:]
                dropped += self._drop(connection, some)
            del dead[-len(some) :]
            report("sweep", total - len(dead), total)
        return dropped

    def _dead_rows(self) -> list[int]:
        """Return the rows to drop, oldest first; they are dropped from the end of the list."""
        marks = self._marker.marks
        with self._pool.reading() as connection:
            query = "select id, key from object where id<=? order by id"
            return [
                number
                for number, key in each(connection, query, (self._start,))
                if not marks.get(number) & OBJECT and (key or not marks.get(number))
            ]

    def _drop(self, connection: apsw.Connection, numbers: list[int]) -> int:
        """Delete rows that are still not reached, or remove their keys; return how many."""
        marks, newest = self._marker.marks, _newest_row(connection)
        dead = [number for number in numbers if not marks.get(number) & OBJECT]
        hidden = [number for number in dead if marks.get(number) & BASE or number == newest]
        deleted = sorted(set(dead).difference(hidden), reverse=True)
        before = connection.total_changes()
        connection.executemany(
            "update object set key=0 where id=? and key<>0", [(number,) for number in hidden]
        )
        connection.executemany("delete from object where id=?", [(number,) for number in deleted])
        return connection.total_changes() - before

    def _shrink(
        self, connection: apsw.Connection, transactions: ShortTransactions, report: Progress
    ) -> None:
        total = connection.pragma("freelist_count")
        transactions.restart()
        while left := connection.pragma("freelist_count"):
            with transactions.transaction() as size:
                # A pragma takes no parameters; the number is ours.
                ask(connection, f"pragma incremental_vacuum({int(size)})")
            if connection.pragma("freelist_count") >= left:
                break
            report("shrink", max(0, total - left), total)
        ask(connection, "pragma wal_checkpoint(passive)")


def _newest_row(connection: apsw.Connection) -> int:
    return ask(connection, "select max(id) from object")[0][0] or 0


class OldEnd(NamedTuple):
    """The moves of one ref that are to be forgotten."""

    ref: str
    last: int
    """The newest move of the ref."""
    lowest: MoveRow | None
    """The lowest move that stays."""
    moves: list[MoveRow]
    """Those below it, newest first."""


class HistoryPruner:
    """Forgets moves before a time, from the old end of each ref's history.

    The old ends of many refs are read in one snapshot, and forgotten in transactions that each
    drop as many moves as fit, of however many refs. Another collector, or a writer, may change a
    ref in between: a cut applies only to the move that was read, and a ref that has moved since is
    left to the next collection.
    """

    def __init__(self, pool: ConnectionPool, refs: RefTable, moves: MoveTable, before: int) -> None:
        self._pool = pool
        self._refs = refs
        self._moves = moves
        self._before = before
        self._seen: set[int] = set()

    def moves_to_drop(self) -> set[int]:
        """Return the numbers of the moves that would be forgotten."""
        self._seen.clear()
        found: set[int] = set()
        for names in self._names():
            found.update(move.seq for end in self._old_ends(names) for move in end.moves)
        return found

    def run(self, transactions: ShortTransactions, report: Progress) -> int:
        """Forget them; return how many."""
        chunks = self._names()
        self._seen.clear()
        forgotten = done = 0
        total = sum(map(len, chunks))
        if chunks:
            with transactions.transaction():
                self._moves.drop_blanks(transactions.connection)
        for names in chunks:
            ends = self._old_ends(names)
            while ends:
                with transactions.transaction() as size:
                    forgotten += self._forget(transactions.connection, ends, size)
            done += len(names)
            report("forget", done, total)
        return forgotten

    def _names(self) -> list[list[str]]:
        """Return the names of all refs, as many together as one snapshot is read for."""
        if self._before <= 0:
            return []
        with self._pool.reading() as connection:
            names = [row.name for row in self._refs.rows(connection)]
        return [names[at : at + _REFS_READ] for at in range(0, len(names), _REFS_READ)]

    def _old_ends(self, names: Iterable[str]) -> list[OldEnd]:
        """Return what is to be forgotten of some refs, read in one snapshot."""
        found: list[OldEnd] = []
        with self._pool.reading() as connection:
            for name in names:
                row = self._refs.get(connection, name)
                last = row.last if row is not None else 0
                chain = self._moves.chain(connection, last, None, self._seen)
                stay = count_remembered((move.time for move in chain), self._before)
                if chain[stay:]:
                    found.append(
                        OldEnd(name, last, chain[stay - 1] if stay else None, chain[stay:])
                    )
        return found

    def _forget(self, connection: apsw.Connection, ends: list[OldEnd], size: int) -> int:
        """Forget up to a number of moves, the oldest of a ref first; return how many.

        What is left of them stays in the list.
        """
        numbers: list[int] = []
        while ends and len(numbers) < size:
            end = ends.pop()
            some = end.moves[len(numbers) - size :]
            rest = end.moves[: len(end.moves) - len(some)]
            above = rest[-1] if rest else end.lowest
            if above is not None:
                self._moves.cut(connection, above, some[0])
            elif not self._detach(connection, end.ref, end.last):
                continue
            numbers += [move.seq for move in reversed(some)]
            if rest:
                ends.append(end._replace(moves=rest))
        self._moves.drop(connection, numbers)
        return len(numbers)

    def _detach(self, connection: apsw.Connection, name: str, last: int) -> bool:
        """Remove the link from a ref to its last move; return False if it has moved since."""
        row = self._refs.get(connection, name)
        if row is None or row.last != last:
            return False
        if row.hash is None:
            change = self._refs.drop(connection, row)
        else:
            change = self._refs.put(connection, row, row.name, row.hash, 0)
        self._refs.add_to_total(connection, change)
        return True


class MarkBits:
    """Two bits for every row id, in pages, because ids only grow and old ones go."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def get(self, number: int) -> int:
        """Return the marks of a row."""
        page = self._pages.get(number >> _PAGE_BITS)
        return page[number & 0xFFFF] if page is not None else 0

    def add(self, number: int, mark: int) -> None:
        """Add a mark to a row."""
        page = self._pages.get(number >> _PAGE_BITS)
        if page is None:
            page = self._pages[number >> _PAGE_BITS] = bytearray(1 << _PAGE_BITS)
        page[number & 0xFFFF] |= mark


class Marker:
    """A walk over objects that can be interrupted, and continued with more roots."""

    def __init__(self, path: str, objects: ObjectTable, links: Links) -> None:
        self._path = path
        self._objects = objects
        self._links = links
        self._seen: set[int] = set()
        self._todo: list[int] = []
        self.marks = MarkBits()
        self.reached = 0

    def add_roots(self, ends: Iterable[MoveEnd]) -> None:
        """Add roots: hashes, or keys of objects."""
        for end in ends:
            if end is not None:
                self._add_key(end if isinstance(end, int) else key_of(end))

    def add_new_rows(self, connection: apsw.Connection, after: int) -> int:
        """Mark every row newer than one as reached; return the newest."""
        query = "select id, cast(data as blob) from object where id>? and key<>0 order by id"
        for number, row in ask(connection, query, (after,)):
            after = number
            try:
                self._visit(connection, number, row)
            except DamagedRow as error:
                raise self._corrupt(f"row {number}", error) from error
        return after

    def walk(self, connection: apsw.Connection, until: float | None = None) -> bool:
        """Follow the roots until a time; return whether all were followed."""
        while self._todo:
            if until is not None and monotonic() > until:
                return False
            self._visit_key(connection, self._todo.pop())
        return True

    def _add_key(self, key: int) -> None:
        if key not in self._seen:
            self._seen.add(key)
            self._todo.append(key)

    def _visit_key(self, connection: apsw.Connection, key: int) -> None:
        rows = ask(connection, SELECT_ROWS, (key,))
        damage = None
        for number, row in rows:
            try:
                self._visit(connection, number, row, key)
            except DamagedRow as error:
                damage = error
        if damage is not None and not any(self.marks.get(number) & OBJECT for number, _ in rows):
            # An object that cannot be read may need anything: nothing may be dropped.
            raise self._corrupt(f"object {key & (1 << 64) - 1:016x}", damage)

    def _visit(
        self, connection: apsw.Connection, number: int, row: bytes, key: int | None = None
    ) -> None:
        if self.marks.get(number) & OBJECT:
            return
        data = self._objects.decode_row(connection, number, row)
        if key is not None and not has_key(data, key):
            raise DamagedRow("its bytes do not match its hash")
        # Bases first: a row counts as reached only once all that it is made of is marked.
        self._mark_bases(connection, row)
        self.marks.add(number, OBJECT)
        self.reached += 1
        for child in self._links(data):
            self._add_key(key_of(child))

    def _mark_bases(self, connection: apsw.Connection, row: bytes) -> None:
        base = base_of(row)
        while base is not None and not self.marks.get(base):
            self.marks.add(base, BASE)
            base = base_of(self._objects.read_row(connection, base))
        if base is not None:
            self.marks.add(base, BASE)

    def _corrupt(self, what: str, error: DamagedRow) -> Corrupt:
        return Corrupt(f"{self._path}: {what}: {error}; nothing was dropped", hint=FSCK)
