"""Garbage collection beside readers and writers.

Rules.
1. What is reached from a ref, or from either end of a remembered move, stays. So does every row
   newer than the start, with all it reaches.
2. A row that others differ from stays as long as they do. If nothing reaches it, it loses its key:
   it is then no object any more, only bytes.
3. While a row counts as an object, everything below it is there. So a writer that finds an object
   need not look further.

Theory of operation. Marking runs in read snapshots and stops nobody. Sweeping takes the write lock
for a few milliseconds at a time. Each step first marks what writers have done since the last
one; objects and refs land in one transaction, so nothing is ever in flight. Rows go newest first:
an object is written after the objects it needs and after its base, so the upper goes before the
lower, which is rule 3. The newest row of all is never deleted, because ids must not come again
while another process remembers them.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import apsw

from otolith.stores.base import Collected, Links
from otolith.stores.sqlite.connections import Connections, roll_back
from otolith.stores.sqlite.forget import Forgetting
from otolith.stores.sqlite.history import History
from otolith.stores.sqlite.marking import BASE, OBJECT, Marking
from otolith.stores.sqlite.objects import Objects
from otolith.stores.sqlite.query import ask
from otolith.stores.sqlite.refs import Refs
from otolith.stores.sqlite.steps import Steps

Progress = Callable[[str, int, int], None]

_MARK_SECONDS = 0.01  # marking under the lock beyond this is put off to outside it
_PATIENCE = 20  # but not for ever


class Collection:
    """One run of the collector."""

    def __init__(
        self,
        connections: Connections,
        objects: Objects,
        refs: Refs,
        history: History,
        *,
        links: Links,
    ) -> None:
        self._connections = connections
        self._objects = objects
        self._refs = refs
        self._history = history
        self._marking = Marking(connections.place.path, objects, links)
        self._start = self._top_row = self._top_move = 0

    def run(self, forget_before: int, *, progress: Progress | None, dry_run: bool) -> Collected:
        tell = progress if progress is not None else _quiet
        forgetting = Forgetting(self._connections, self._refs, self._history, forget_before)
        if dry_run:
            return self._rehearse(forgetting, tell)
        with self._connections.collecting() as connection:
            steps = Steps(connection)
            pages = connection.pragma("page_count")
            forgotten = forgetting.run(steps, tell)
            self._mark(set(), tell)
            dropped = self._sweep(connection, steps, tell)
            self._give_back(connection, steps, tell)
            freed = (pages - connection.pragma("page_count")) * connection.pragma("page_size")
        return Collected(
            self._marking.kept, dropped, forgotten, max(0, freed), steps.longest_seconds
        )

    def _rehearse(self, forgetting: Forgetting, tell: Progress) -> Collected:
        doomed = forgetting.doomed()
        self._mark(doomed, tell)
        with self._connections.reading() as connection:
            query = "select id, length(data) from object where id<=? and key<>0"
            dead = [
                size
                for number, size in ask(connection, query, (self._start,))
                if not self._marking.marks.get(number) & OBJECT
            ]
        return Collected(self._marking.kept, len(dead), len(doomed), sum(dead), 0.0)

    def _mark(self, without_moves: set[int], tell: Progress) -> None:
        with self._connections.reading() as connection:
            self._start = self._top_row = self._newest(connection)
            self._marking.feed(row.hash for row in self._refs.rows(connection))
            for move in self._history.since(connection, 0):
                self._top_move = move.seq
                if move.seq not in without_moves:
                    self._marking.feed((move.old, move.new))
            while not self._marking.walk(connection, monotonic() + 0.1):
                tell("mark", self._marking.kept, 0)
        tell("mark", self._marking.kept, self._marking.kept)

    def _catch_up(self, connection: apsw.Connection, until: float | None) -> bool:
        changed = "select hash from ref where name<>'' and (last>? or last=0)"
        rows = ask(connection, changed, (self._top_move,))
        self._marking.feed(value for (value,) in rows)
        for move in self._history.since(connection, self._top_move):
            self._top_move = move.seq
            self._marking.feed((move.old, move.new))
        self._top_row = self._marking.feed_rows(connection, self._top_row)
        return self._marking.walk(connection, until)

    def _sweep(self, connection: apsw.Connection, steps: Steps, tell: Progress) -> int:
        dead = self._candidates()
        total, dropped, put_off = len(dead), 0, 0
        while dead:
            with self._connections.reading() as snapshot:
                self._catch_up(snapshot, None)
            with steps.step() as size:
                until = None if put_off > _PATIENCE else monotonic() + _MARK_SECONDS
                if not self._catch_up(connection, until):
                    roll_back(connection)
                    put_off += 1
                    continue
                some = dead[-size:]
                dropped += self._drop(connection, some)
            del dead[-len(some) :]
            tell("sweep", total - len(dead), total)
        return dropped

    def _candidates(self) -> list[int]:
        """Return the rows that are to go, the first to go last."""
        marks = self._marking.marks
        with self._connections.reading() as connection:
            query = "select id, key from object where id<=? order by id"
            return [
                number
                for number, key in connection.execute(query, (self._start,))
                if not marks.get(number) & OBJECT and (key or not marks.get(number))
            ]

    def _drop(self, connection: apsw.Connection, numbers: list[int]) -> int:
        marks, newest = self._marking.marks, self._newest(connection)
        still = [number for number in numbers if not marks.get(number) & OBJECT]
        hidden = [number for number in still if marks.get(number) & BASE or number == newest]
        gone = sorted(set(still).difference(hidden), reverse=True)
        before = connection.total_changes()
        connection.executemany(
            "update object set key=0 where id=? and key<>0", [(number,) for number in hidden]
        )
        connection.executemany("delete from object where id=?", [(number,) for number in gone])
        return connection.total_changes() - before

    def _give_back(self, connection: apsw.Connection, steps: Steps, tell: Progress) -> None:
        self._objects.recent.clear()
        total = connection.pragma("freelist_count")
        steps.reset()
        while left := connection.pragma("freelist_count"):
            with steps.step() as size:
                # A pragma takes no parameters; the number is ours.
                ask(connection, f"pragma incremental_vacuum({int(size)})")
            if connection.pragma("freelist_count") >= left:
                break
            tell("shrink", max(0, total - left), total)
        ask(connection, "pragma wal_checkpoint(passive)")

    def _newest(self, connection: apsw.Connection) -> int:
        rows = ask(connection, "select max(id) from object")
        return rows[0][0] or 0


def _quiet(phase: str, done: int, total: int) -> None:
    """Tell nobody."""
