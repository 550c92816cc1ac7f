"""WriteQueue: processes that write one file get its write lock in the order in which they came.

SQLite has no queue. Whoever finds its lock taken sleeps and tries again, and whoever has just
released it is awake: a process that commits without a pause gets it nearly every time, and another
one may wait for seconds. The queue is a line (`tickets`) in front of SQLite's lock.

Rules
1. What is safe depends on SQLite's lock alone. A process that cannot line up waits as SQLite does,
   and so does one that meets an error.
2. A single writer pays nothing: only a process that has met a taken lock queues, until it has met
   nobody for a while.
3. A ticket that does not move, such as that of a process that a debugger has stopped, holds nobody
   up for long: those behind it try SQLite's lock from time to time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import uniform
from time import monotonic, perf_counter, sleep

import apsw

from otolith.stores.sqlite.schema import StoreFile
from otolith.stores.sqlite.sql import roll_back
from otolith.stores.sqlite.tickets import HAS_LOCKS, POLL_SECONDS, TicketPlace

_FIRST_SLEEP_SECONDS = 0.001  # between two tries of SQLite's lock, at first
_LONGEST_SLEEP_SECONDS = 0.005
_STUCK_SECONDS = 0.5
_QUIET_TURNS = 200
_TARGET_SECONDS = 0.012
_FIRST_SIZE = 100
_SMALLEST_SIZE = 10
_LARGEST_SIZE = 4000
_PAUSE_SECONDS = 0.006  # longer than a waiting writer sleeps between two tries


class WriteQueue:
    """The place of one connection in the queue for a file; its caller uses it from one thread."""

    def __init__(self, file: StoreFile) -> None:
        self.place = TicketPlace(file.path)
        self._timeout_seconds = file.busy_timeout_seconds
        self._is_possible = HAS_LOCKS and file.vfs is None and not file.read_only
        self._deadline: float | None = None  # of the transaction that is to begin
        self._until = 0.0
        self._is_patient = True
        self.turns_left = 0
        """How many more turns this process queues for, if it meets nobody."""

    def __repr__(self) -> str:
        return f"<WriteQueue at {self.place!r}>"

    def watch(self, connection: apsw.Connection) -> None:
        """Note when a connection finds the lock taken; it then tries again for some time."""
        connection.set_busy_handler(self._on_busy)

    def begin(self, connection: apsw.Connection) -> None:
        """Begin a write transaction, in turn; `end` lets the next one go.

        Raises:
            apsw.BusyError: the time is over.
        """
        self._deadline = monotonic() + self._timeout_seconds
        try:
            if self.turns_left and self._is_possible:
                self._await_turn(connection, self._deadline)
            if not connection.in_transaction:
                connection.execute("begin immediate")
        finally:
            self._deadline = None

    def end(self) -> None:
        """Let the next process go."""
        self.place.give_back()

    def close(self) -> None:
        """Leave the queue, and remove its file if nobody is in it."""
        self.place.remove_file()

    def forget(self) -> None:
        """Leave what a child has inherited to its parent."""
        self.place.forget()

    def _on_busy(self, tries: int) -> bool:
        """Wait for SQLite's lock; return whether to try again."""
        self.turns_left = _QUIET_TURNS
        if tries == 0:
            self._until = self._deadline or monotonic() + self._timeout_seconds
        if not self._is_patient or monotonic() > self._until:
            return False
        sleep(min(_LONGEST_SLEEP_SECONDS, uniform(0.5, 1) * _FIRST_SLEEP_SECONDS * (tries + 1)))
        return True

    def _await_turn(self, connection: apsw.Connection, deadline: float) -> None:
        """Wait in the queue; without one that works, wait for SQLite's lock alone."""
        try:
            if self.place.draw(deadline) is not None:
                self.turns_left -= 1
                self._wait(connection, deadline)
        except OSError:
            self.place.forget()
            self._is_possible = False

    def _wait(self, connection: apsw.Connection, deadline: float) -> None:
        """Wait until no lower ticket is held; if none of them moves, try SQLite's lock."""
        next_try = monotonic() + _STUCK_SECONDS
        while not self.place.is_first():
            self.turns_left = _QUIET_TURNS
            now = monotonic()
            if now > deadline:
                raise apsw.BusyError("others were in front for too long")
            if now > next_try:
                next_try = now + _STUCK_SECONDS
                if self._try(connection):
                    return
            sleep(uniform(*POLL_SECONDS))

    def _try(self, connection: apsw.Connection) -> bool:
        """Begin at once if SQLite's lock is free; return whether it was."""
        self._is_patient = False
        try:
            connection.execute("begin immediate")
        except apsw.BusyError:
            return False
        finally:
            self._is_patient = True
        return True


class ShortTransactions:
    """Write transactions of background work, sized so that no writer waits long.

    They measure how many rows fit into one, and pause between two so that writers get the lock.
    """

    def __init__(self, connection: apsw.Connection, queue: WriteQueue) -> None:
        self.connection = connection
        self._queue = queue
        self.longest_seconds = 0.0
        self._size = _FIRST_SIZE

    def restart(self) -> None:
        """Start with small transactions again, for another kind of work."""
        self._size = _FIRST_SIZE

    @contextmanager
    def transaction(self) -> Iterator[int]:
        """Hold the write lock; the number is how many rows to change under it."""
        try:
            self._queue.begin(self.connection)
            started = perf_counter()
            yield self._size
            if self.connection.in_transaction:
                self.connection.execute("commit")
        except BaseException:
            roll_back(self.connection)
            raise
        finally:
            self._queue.end()
        seconds = perf_counter() - started
        self.longest_seconds = max(self.longest_seconds, seconds)
        if seconds > _TARGET_SECONDS:
            self._size = max(_SMALLEST_SIZE, self._size // 2)
        elif seconds < _TARGET_SECONDS / 2:
            self._size = min(_LARGEST_SIZE, self._size * 3 // 2)
        sleep(_PAUSE_SECONDS)
