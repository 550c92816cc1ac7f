"""Group commit: the thread that gets the write lock writes for all that wait, in one transaction.

Theory of operation. A writer queues its batch and then waits for the lock. The one that gets it
writes every batch queued so far; the others find theirs done when they get the lock, or write it
themselves if the first was interrupted: a batch stays queued until its owner has its answer. A
single writer pays for a queue of one. Each batch is checked before it writes anything, so one that
is refused does not affect the others; if a statement fails all the same, the group is rolled back
and each batch is tried alone.

Rules
1. A batch is reported as written only after its transaction has committed.
2. After a failed sync nothing more is written: the kernel may have dropped the pages, and a second
   sync would succeed all the same. The store has to be opened again.
3. What is remembered about refs is used only while no other connection has written
   (`data_version`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import apsw

from otolith.errors import Error, ReadOnly, Unavailable
from otolith.stores.base import Batch, Move, check_conditions
from otolith.stores.sqlite.connections import ConnectionPool
from otolith.stores.sqlite.delta import StoredObject
from otolith.stores.sqlite.objects import ObjectTable, PreparedRow
from otolith.stores.sqlite.refs import MoveTable, RefRow, RefTable
from otolith.stores.sqlite.schema import PAGE_BYTES
from otolith.stores.sqlite.sql import quota_exceeded, roll_back, translated
from otolith.types import Hash


class PendingWrite:
    """One batch that waits to be written."""

    __slots__ = ("added", "batch", "done", "error", "rows")

    def __init__(self, batch: Batch, rows: Sequence[PreparedRow]) -> None:
        self.batch = batch
        self.rows = rows
        self.done = False
        self.error: Error | None = None
        self.added: list[tuple[Hash, StoredObject]] = []


class GroupCommit:
    """Writes batches for all threads of this process."""

    def __init__(
        self, pool: ConnectionPool, objects: ObjectTable, refs: RefTable, moves: MoveTable
    ) -> None:
        self._pool = pool
        self._objects = objects
        self._refs = refs
        self._moves = moves
        # The most pages that the file may have; those that are still in the WAL count.
        limit = pool.file.limit_bytes
        self._limit_pages = None if limit is None else max(1, limit // PAGE_BYTES)
        self._waiting: deque[PendingWrite] = deque()
        self._disk_failure = ""
        # As of our last commit. A version means something only on the connection that returned it.
        self._last_version: tuple[apsw.Connection, int] | None = None
        self._phase: Literal["open", "committing", "committed"] = "open"
        pool.after_fork.append(self._after_fork)

    def write(self, batch: Batch, rows: Sequence[PreparedRow]) -> None:
        """Write a batch, together with those of other threads that wait."""
        write = PendingWrite(batch, rows)
        try:
            self._waiting.append(write)
            with self._pool.lock:
                if not write.done:
                    self._write_all()
        finally:
            with suppress(ValueError):  # also if interrupted: then no other thread shall write it
                self._waiting.remove(write)
        if write.error is not None:
            raise write.error

    def check_writable(self) -> None:
        """Refuse to write what cannot be made durable.

        Raises:
            ReadOnly: the store was opened read-only, or the disk has failed.
        """
        self._pool.check_open()
        path = self._pool.file.path
        if self._pool.file.read_only:
            raise ReadOnly(f"{path} was opened read-only", hint="open it without read_only")
        if self._disk_failure:
            raise ReadOnly(
                f"{path} takes no more writes since the disk failed: {self._disk_failure}",
                hint="check the disk, then open the store again",
            )

    def _after_fork(self) -> None:
        """Forget in a child what only the parent knows: who waits, and what was written."""
        self._waiting.clear()
        self._forget_refs()
        self._objects.recent.clear()

    def _forget_refs(self) -> None:
        self._refs.forget()
        self._last_version = None

    def _write_all(self) -> None:
        writes = [write for write in self._waiting.copy() if not write.done]
        try:
            self.check_writable()
            self._write_group(writes)
        except Error as error:
            _fail(writes, error)

    def _write_group(self, writes: list[PendingWrite]) -> None:
        """Write batches in one transaction or, if a statement fails, one after the other."""
        try:
            self._transact(writes)
        except apsw.IOError as error:
            self._disk_failure = str(error)
            self._pool.disk_failed = True
            failure = Unavailable(
                f"{self._pool.file.path}: the disk failed during a write: {error}",
                hint="check the disk, then open the store again to see whether the write landed",
            )
            _fail(writes, failure)
        except apsw.Error as error:
            left = [write for write in writes if not write.done]
            if len(left) == 1:
                _fail(left, self._translated(error))
                return
            for write in left:
                self._write_group([write])

    def _transact(self, writes: list[PendingWrite]) -> None:
        connection = self._pool.writer()
        self._pool.check_in_place()
        self._phase = "open"
        try:
            self._begin(connection)
            for write in writes:
                self._apply(connection, write)
            self._phase = "committing"
            connection.execute("commit")
            self._phase = "committed"
            self._finish(writes)
            self._last_version = (connection, connection.data_version())
        except BaseException as error:
            has_landed = self._phase == "committed" or (
                self._phase == "committing"
                and not connection.in_transaction
                and not isinstance(error, apsw.Error)
            )
            if has_landed:
                self._finish(writes)  # interrupted just after it landed
                self._forget_refs()
            else:
                self._undo(connection)
            raise
        finally:
            if self._pool.queue.place.ticket is not None:
                self._pool.queue.end()

    def _begin(self, connection: apsw.Connection) -> None:
        try:
            if self._pool.queue.turns_left:
                self._pool.queue.begin(connection)
            else:
                connection.execute("begin immediate")
        except apsw.BusyError as error:
            # For all that wait: one after the other, each would wait as long again.
            raise self._translated(error) from error
        if self._last_version != (connection, connection.data_version()):
            self._refs.forget()

    def _undo(self, connection: apsw.Connection) -> None:
        try:
            self._forget_refs()
            self._objects.recent.clear()  # it may have rows whose ids will be used again
        finally:
            try:
                roll_back(connection)
            except apsw.Error:
                self._pool.drop_writer()  # or its lock would stay

    def _finish(self, writes: list[PendingWrite]) -> None:
        for write in writes:
            write.done = True
        for write in writes:
            for name, item in write.added:
                self._objects.recent.put(name, item)

    def _apply(self, connection: apsw.Connection, write: PendingWrite) -> None:
        batch, rows = write.batch, dict[str, RefRow | None]()
        write.error, write.added = None, []

        def hash_of(name: str) -> Hash | None:
            row = rows[name] = self._refs.get_written(connection, name)
            return row.hash if row is not None else None

        try:
            check_conditions(
                batch,
                token=lambda name: self._refs.token(connection, name),
                ref=hash_of,
                holds=lambda name: self._objects.holds(connection, name),
            )
        except Error as error:
            write.error = error
            return
        if self._is_over_limit(connection) and write.rows:
            write.error = quota_exceeded(self._pool.file.path, self._pool.file.limit_bytes or 0)
            return
        write.added, fresh = self._objects.insert(connection, write.rows)
        self._refs.raise_fences(connection, batch.fences)
        change = 0
        for name, old, new in batch.swaps:
            if old == new:
                continue
            row = rows[name]
            end = self._moves.shorten(connection, new, fresh)
            move = Move(name, old, new, batch.time, batch.note)
            last = self._moves.append(connection, row.last if row is not None else 0, move, end)
            change += self._refs.put(connection, row, name, new, last)
        if change:
            self._refs.add_to_total(connection, change)

    def _is_over_limit(self, connection: apsw.Connection) -> bool:
        """Tell whether the file has more pages than it may; if not, SQLite lets it add no more.

        SQLite takes no limit below the current size. So one is set before each write, and applies
        as soon as a collection has made the file small enough.
        """
        limit = self._limit_pages
        return limit is not None and connection.pragma("max_page_count", limit) > limit

    def _translated(self, error: apsw.Error) -> Error:
        file = self._pool.file
        limit = file.limit_bytes if self._phase == "open" else None  # the limit refuses statements
        return translated(error, file.path, limit_bytes=limit)


def _fail(writes: list[PendingWrite], error: Error) -> None:
    for write in writes:
        if not write.done:
            write.error, write.done = error, True
