"""Group commit: whoever gets the turn writes for all who are waiting, in one transaction.

A writer queues its ticket and then waits for the lock. The one who gets it serves every ticket
queued so far; the others find theirs done when their turn comes, and do it themselves if whoever
had the turn was interrupted: a ticket stays queued until its owner has its answer. A lone writer
pays for a queue of one. Each batch is checked before it writes anything, so one that is refused
hurts no other; if a statement fails all the same, the group is rolled back and each batch is tried
alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import apsw

from otolith.errors import Error, NotFound, ReadOnly, Unavailable
from otolith.stores.base import Batch, Move
from otolith.stores.sqlite.connections import Connections
from otolith.stores.sqlite.delta import Base
from otolith.stores.sqlite.objects import Draft, Objects
from otolith.stores.sqlite.refs import History, Refs, Row
from otolith.stores.sqlite.sql import explained, roll_back
from otolith.types import Hash


class PendingWrite:
    """One batch that waits to be written."""

    __slots__ = ("added", "batch", "done", "drafts", "error")

    def __init__(self, batch: Batch, drafts: Sequence[Draft]) -> None:
        self.batch = batch
        self.drafts = drafts
        self.done = False
        self.error: Error | None = None
        self.added: list[tuple[Hash, Base]] = []


class GroupCommit:
    """Writes batches for all threads of this process."""

    def __init__(
        self, connections: Connections, objects: Objects, refs: Refs, history: History
    ) -> None:
        self._connections = connections
        self._objects = objects
        self._refs = refs
        self._history = history
        self._waiting: deque[PendingWrite] = deque()
        self._failure = ""
        # As of our last commit. A version says something only on the connection that told it.
        self._known: tuple[apsw.Connection, int] | None = None
        self._phase: Literal["open", "committing", "committed"] = "open"
        connections.after_fork.append(self._start_anew)

    def write(self, batch: Batch, drafts: Sequence[Draft]) -> None:
        """Write a batch, together with those of other threads that wait."""
        ticket = PendingWrite(batch, drafts)
        try:
            self._waiting.append(ticket)
            with self._connections.lock:
                if not ticket.done:
                    self._serve()
        finally:
            with suppress(ValueError):  # also if it was interrupted: nobody else shall write it
                self._waiting.remove(ticket)
        if ticket.error is not None:
            raise ticket.error

    def _start_anew(self) -> None:
        """Forget in a forked child what only its parent knows: who waits, and what was written."""
        self._waiting.clear()
        self._known = None
        self._refs.forget()
        self._objects.recent.clear()

    def check_writable(self) -> None:
        """Refuse to write what cannot be made durable.

        Raises:
            ReadOnly: the store was opened so, or the disk has failed.
        """
        path = self._connections.place.path
        self._connections.check_open()
        if self._connections.place.read_only:
            raise ReadOnly(f"{path} was opened to read", hint="open it without read_only")
        if self._failure:
            raise ReadOnly(
                f"{path} takes no more writes since the disk failed: {self._failure}",
                hint="check the disk, then open the store again",
            )

    def _serve(self) -> None:
        tickets = [ticket for ticket in self._waiting.copy() if not ticket.done]
        try:
            self.check_writable()
            self._settle(tickets)
        except Error as error:
            _fail(tickets, error)

    def _settle(self, tickets: list[PendingWrite]) -> None:
        try:
            self._transact(tickets)
        except apsw.IOError as error:
            # After a failed sync nobody knows what is on the disk; a second one would lie.
            self._failure = str(error)
            self._connections.distrusted = True
            _fail(tickets, self._disk_failure(error))
        except apsw.Error as error:
            left = [ticket for ticket in tickets if not ticket.done]
            if len(left) == 1:
                _fail(left, self._explained(error))
                return
            for ticket in left:
                self._settle([ticket])

    def _transact(self, tickets: list[PendingWrite]) -> None:
        connection = self._connections.writer()
        self._connections.check_in_place()
        self._phase = "open"
        try:
            self._begin(connection)
            for ticket in tickets:
                self._apply(connection, ticket)
            self._phase = "committing"
            connection.execute("commit")
            self._phase = "committed"
            self._finish(tickets)
            self._known = (connection, connection.data_version())
        except BaseException as error:
            if self._has_landed(connection, error):
                self._finish(tickets)  # interrupted just after it landed
                self._forget()
            else:
                self._undo(connection)
            raise

    def _begin(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("begin immediate")
        except apsw.BusyError as error:
            # For all who wait: one after the other, each would wait as long again.
            raise self._explained(error) from error
        if self._known != (connection, connection.data_version()):
            self._refs.forget()

    def _has_landed(self, connection: apsw.Connection, error: BaseException) -> bool:
        if self._phase == "committing":
            return not connection.in_transaction and not isinstance(error, apsw.Error)
        return self._phase == "committed"

    def _undo(self, connection: apsw.Connection) -> None:
        try:
            self._forget()
            self._objects.recent.clear()  # it may have seen rows whose ids will now be given again
        finally:
            try:
                roll_back(connection)
            except apsw.Error:
                self._connections.drop_writer()  # or its lock would stay

    def _forget(self) -> None:
        self._refs.forget()
        self._known = None

    def _finish(self, tickets: list[PendingWrite]) -> None:
        for ticket in tickets:
            ticket.done = True
        for ticket in tickets:
            for name, item in ticket.added:
                self._objects.recent.put(name, item)

    def _apply(self, connection: apsw.Connection, ticket: PendingWrite) -> None:
        batch = ticket.batch
        ticket.error, ticket.added = None, []
        try:
            self._refs.check_fences(connection, batch.fences)
            rows = self._refs.check_swaps(connection, batch.swaps)
            self._check_needs(connection, batch.needs)
        except Error as error:
            ticket.error = error
            return
        ticket.added, fresh = self._objects.insert(connection, ticket.drafts)
        self._refs.raise_fences(connection, batch.fences)
        if batch.swaps:
            self._swap(connection, batch, rows, fresh)

    def _swap(
        self, connection: apsw.Connection, batch: Batch, rows: list[Row | None], fresh: set[int]
    ) -> None:
        change = 0
        for (name, old, new), row in zip(batch.swaps, rows, strict=True):
            if old == new:
                continue
            side = self._history.side(connection, new, fresh)
            move = Move(name, old, new, batch.time, batch.note)
            last = self._history.log(connection, row.last if row is not None else 0, move, side)
            change += self._refs.put(connection, row, name, new, last)
        if change:
            self._refs.add_to_total(connection, change)

    def _check_needs(self, connection: apsw.Connection, needs: Sequence[Hash]) -> None:
        for name in needs:
            if not self._objects.holds(connection, name):
                path = self._connections.place.path
                raise NotFound(f"{path}: object {name.hex()[:12]} is gone", hint="write it again")

    def _explained(self, error: apsw.Error) -> Error:
        place = self._connections.place
        limit = place.limit_bytes if self._phase == "open" else None  # the limit refuses statements
        return explained(error, place.path, limit_bytes=limit)

    def _disk_failure(self, error: apsw.Error) -> Error:
        return Unavailable(
            f"{self._connections.place.path}: the disk failed during a write: {error}",
            hint="check the disk, then open the store again to see whether the write landed",
        )


def _fail(tickets: list[PendingWrite], error: Error) -> None:
    for ticket in tickets:
        if not ticket.done:
            ticket.error, ticket.done = error, True
