"""Tickets: writers of one file line up, and go in the order in which they came.

    <store>-queue    for each line 16 bytes: the number of its next ticket, and of the last that was
                     given back; big-endian

Who lines up draws a ticket and locks the byte of that number, far behind the end of the file. It is
first when no lower byte of its line is locked. The kernel ends the locks of a process that is
killed, so nobody waits for the dead.

Rules
1. A line is advice: what is safe depends on SQLite's lock and on swaps alone. A process that cannot
   line up (another system, an older version, a folder without permission) writes all the same.
2. Locks belong to an open file, not to a process. So each place in a line has a file of its own,
   and threads of one process line up as processes do.
3. The file is removed by the last process that used it. One that still had it open notices, by its
   number of links, and opens a new one.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from random import uniform
from time import monotonic, sleep

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, process: as Linux has it
HAS_LOCKS = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8
COUNTER = struct.Struct(">Q")
LINES = 1 << 10
_LINE_BYTES = 2 * COUNTER.size
_FIRST_LINE = 1 << 32  # the byte of ticket 0
_OTHER_LINES, _LINE_TICKETS = 1 << 61, 1 << 50
_LAST_TICKET = _LINE_TICKETS
POLL_SECONDS = (0.0002, 0.0008)  # between two looks at a line


def tickets_of(store: str) -> str:
    """Return the path of the file of tickets of a store."""
    return f"{store}-queue"


class TicketPlace:
    """A place in one line of a file; its caller uses it from one thread."""

    _file = -1  # also of one whose making was interrupted

    def __init__(self, store: str, line: int = 0) -> None:
        self._file = -1
        self._store = store
        self._path = tickets_of(store)
        self._line = line
        self._tickets = _OTHER_LINES + line * _LINE_TICKETS if line else _FIRST_LINE
        self.ticket: int | None = None

    def __repr__(self) -> str:
        return f"<TicketPlace {self._path} {self._line}>"

    def __del__(self) -> None:
        self.forget()  # for one that Control-C has interrupted

    def open(self, flags: int = os.O_CREAT) -> None:
        """Open the file, or a new one if the last process has removed it."""
        if self._file >= 0 and os.fstat(self._file).st_nlink:
            return
        self.forget()
        mode = os.stat(self._store).st_mode & 0o666  # noqa: PTH116 - the path is text
        flags |= os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, mode)

    def draw(self, deadline: float) -> int | None:
        """Return the next ticket, locked; None if the counter cannot be had in time."""
        self.open()
        gate = self._line
        while not self._lock(fcntl.F_WRLCK, gate):
            if monotonic() > deadline:
                return None
            sleep(uniform(*POLL_SECONDS))
        try:
            ticket = self._number(self._line * _LINE_BYTES)
            ticket = ticket if ticket < _LAST_TICKET else 0
            os.pwrite(self._file, COUNTER.pack(ticket + 1), self._line * _LINE_BYTES)
            if self._lock(fcntl.F_WRLCK, self._tickets + ticket):
                self.ticket = ticket
            return self.ticket
        finally:
            self._lock(fcntl.F_UNLCK, gate)

    def is_first(self, *, above: int = 0) -> bool:
        """Tell whether nobody has a lower ticket; those below `above` do not count."""
        ticket = self.ticket
        if ticket is None or ticket <= above:
            return True
        return _is_free(self._file, self._tickets + above, ticket - above)

    def is_free(self) -> bool:
        """Tell whether nobody else is in the line. The file must be there."""
        self.open(flags=0)
        return _is_free(self._file, self._tickets, _LINE_TICKETS)

    def last_returned(self) -> int:
        """Return the number of the ticket that was given back last."""
        return self._number(self._line * _LINE_BYTES + COUNTER.size)

    def give_back(self) -> None:
        """Let the next one go first."""
        if self.ticket is None:
            return
        ticket, self.ticket = self.ticket, None
        counter = self._line * _LINE_BYTES + COUNTER.size
        with suppress(OSError):
            os.pwrite(self._file, COUNTER.pack(ticket), counter)
        with suppress(OSError):
            self._lock(fcntl.F_UNLCK, self._tickets + ticket)

    def close(self) -> None:
        """Leave the line; the file stays."""
        self.give_back()
        self.forget()

    def remove_file(self) -> None:
        """Leave the line, and remove the file if nobody is in any of its lines."""
        self.give_back()
        with suppress(OSError):
            if self._file >= 0 and _is_free(self._file, _FIRST_LINE, 0):
                os.unlink(self._path)  # noqa: PTH108 - the path is text
        self.forget()

    def forget(self) -> None:
        """Close the file; in a forked child this leaves the place to the parent."""
        self.ticket = None
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def _number(self, place: int) -> int:
        """Return a number in the file; one that is not there is 0."""
        stored = os.pread(self._file, COUNTER.size, place)
        return int(COUNTER.unpack(stored)[0]) if len(stored) == COUNTER.size else 0

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
