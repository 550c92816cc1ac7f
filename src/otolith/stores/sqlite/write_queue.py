"""WriteQueue: processes that write one file get its write lock in the order in which they came.

SQLite has no queue. Whoever finds its lock taken sleeps and tries again, and whoever has just
released it is awake: a process that commits without a pause gets it nearly every time, and another
one may wait for seconds. The queue is a second, advisory lock in front of SQLite's.

    <store>-queue    eight bytes: the number of the next ticket, big-endian

A process that queues draws a ticket and locks the byte of that number, far behind the end of the
file. It is its turn when no lower byte is locked. The kernel ends the locks of a process that is
killed, so nobody waits for the dead.

Rules
1. What is safe depends on SQLite's lock alone. A process without a queue (another system, an older
   version, a folder without permission) waits as SQLite does, and so does one that meets an error.
2. A single writer pays nothing: only a process that has met a taken lock queues, until it has met
   nobody for a while.
3. A ticket that does not move, such as that of a process that a debugger has stopped, holds nobody
   up for long: those behind it try SQLite's lock from time to time.
4. The file is removed by the last process that used it. One that still had it open notices, by its
   number of links, and opens a new one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import uniform
from time import monotonic, perf_counter, sleep

import apsw

from otolith.stores.sqlite.schema import StoreFile
from otolith.stores.sqlite.sql import roll_back

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, process: as Linux has it
_HAS_LOCKS = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8
_COUNTER = struct.Struct(">Q")
_GATE = 0  # the byte that guards the counter
_TICKETS = 1 << 32  # the byte of ticket 0
_LAST_TICKET = 1 << 60
_POLL_SECONDS = (0.0002, 0.0008)  # between two looks at the queue
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
        self._path = f"{file.path}-queue"
        self._store = file.path
        self._timeout_seconds = file.busy_timeout_seconds
        self._is_possible = _HAS_LOCKS and file.vfs is None and not file.read_only
        self._file = -1
        self.ticket: int | None = None
        self._deadline: float | None = None  # of the transaction that is to begin
        self._until = 0.0
        self._is_patient = True
        self.turns_left = 0
        """How many more turns this process queues for, if it meets nobody."""

    def __repr__(self) -> str:
        return f"<WriteQueue {self._path}>"

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
        if self.ticket is not None:
            ticket, self.ticket = self.ticket, None
            with suppress(OSError):
                self._lock(fcntl.F_UNLCK, _TICKETS + ticket)

    def close(self) -> None:
        """Leave the queue, and remove its file if nobody is in it."""
        file, self._file, self.ticket = self._file, -1, None
        if file < 0:
            return
        with suppress(OSError):
            if _is_free(file, _TICKETS, 0):
                os.unlink(self._path)  # noqa: PTH108 - the path is text
        os.close(file)

    def forget(self) -> None:
        """Leave what a child has inherited to its parent."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self.ticket = -1, None

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
            self._open()
            self.ticket = self._draw(deadline)
            if self.ticket is not None:
                self.turns_left -= 1
                self._wait(connection, self.ticket, deadline)
        except OSError:
            self.forget()
            self._is_possible = False

    def _wait(self, connection: apsw.Connection, ticket: int, deadline: float) -> None:
        """Wait until no lower ticket is held; if none of them moves, try SQLite's lock."""
        next_try = monotonic() + _STUCK_SECONDS
        while ticket and not _is_free(self._file, _TICKETS, ticket):
            self.turns_left = _QUIET_TURNS
            now = monotonic()
            if now > deadline:
                raise apsw.BusyError("others were in front for too long")
            if now > next_try:
                next_try = now + _STUCK_SECONDS
                if self._try(connection):
                    return
            sleep(uniform(*_POLL_SECONDS))

    def _draw(self, deadline: float) -> int | None:
        """Return the next ticket, locked; None if the counter cannot be had in time."""
        while not self._lock(fcntl.F_WRLCK, _GATE):
            if monotonic() > deadline:
                return None
            sleep(uniform(*_POLL_SECONDS))
        try:
            stored = os.pread(self._file, _COUNTER.size, 0)
            ticket = _COUNTER.unpack(stored)[0] if len(stored) == _COUNTER.size else 0
            ticket = ticket if ticket < _LAST_TICKET else 0
            os.pwrite(self._file, _COUNTER.pack(ticket + 1), 0)
            return ticket if self._lock(fcntl.F_WRLCK, _TICKETS + ticket) else None
        finally:
            self._lock(fcntl.F_UNLCK, _GATE)

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

    def _open(self) -> None:
        """Open the file, or a new one if the last process has removed it."""
        if self._file >= 0 and os.fstat(self._file).st_nlink:
            return
        self.forget()
        mode = os.stat(self._store).st_mode & 0o666  # noqa: PTH116 - the path is text
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, mode)

    def _lock(self, kind: int, start: int) -> bool:
        """Lock or unlock a byte; return whether it could be had."""
        request = _FLOCK.pack(kind, os.SEEK_SET, start, 1, 0)
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, request)
        except BlockingIOError:
            return False
        return True


def _is_free(file: int, start: int, length: int) -> bool:
    """Tell whether nobody else has locked some bytes; a length of 0 is all that follow."""
    request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, request)
    return bool(_FLOCK.unpack(answer)[0] == fcntl.F_UNLCK)


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
