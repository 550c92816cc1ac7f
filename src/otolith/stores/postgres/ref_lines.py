"""The lines at the refs of a Postgres store: advisory locks, which the server grants in order.

Whoever lines up holds a connection in a transaction until its turn is over, and reads and writes on
another one. So no more than half of the pool lines up; the other writers of this process wait for
their room. The lock ends with its transaction, and so with its process.

The holder of a turn that does not end has stopped, or is slow. Those who wait go on without it, and
do not line up for some time.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from math import inf
from threading import Lock
from time import monotonic
from zlib import crc32

from otolith import greenlets
from otolith.errors import Busy, Error
from otolith.stores.base import Swap
from otolith.stores.postgres.connections import Connections
from otolith.stores.postgres.schema import StoreSchema
from otolith.stores.ref_lines import LinePlace, RefLines
from otolith.stores.turns import WriterTurns

_STUCK_SECONDS = 2.0
_REST_SECONDS = 30.0

_LINE_UP = """select set_config('lock_timeout', %s, true), case
    when pg_try_advisory_xact_lock(key) then false
    else pg_advisory_xact_lock(key)::text is not null end
    from (values (({meta}::regclass::oid::bigint << 32) | %s)) line(key)"""


class AdvisoryLines(RefLines):
    """The lines at the refs of one schema."""

    def __init__(self, connections: Connections, schema: StoreSchema, turns: WriterTurns) -> None:
        super().__init__()
        self._connections = connections
        self._turns = turns
        self._statement = schema.statement(_LINE_UP)
        self._seconds = min(_STUCK_SECONDS, connections.address.silence_seconds / 2)
        self._rests_until = 0.0 if connections.address.pool > 1 else inf
        self._clear()
        connections.after_fork.append(self._clear)

    def line_up(self, name: str) -> LinePlace | None:
        """Wait for the lock of a ref; a pause that is due is made now, not before the write."""
        self._turns.wait([Swap(name, None, None)])
        room, is_first = self._room, self._room.is_free
        if monotonic() < self._rests_until or not room.enter(self._seconds):
            return None
        number = crc32(name.encode(errors="surrogatepass"))
        timeout = f"{self._seconds * 1000:.0f}"
        try:
            with ExitStack() as stack:
                stack.callback(room.leave)
                connection = stack.enter_context(self._connections.transaction())
                ((_, has_met),) = connection.execute(self._statement, [timeout, number]).fetchall()
                leave = partial(_leave, stack.pop_all())
                return LinePlace(leave, has_met=has_met or not is_first)
        except Busy:
            self._rests_until = monotonic() + _REST_SECONDS
        except Error:
            pass  # what the writer does next meets it, too
        return None

    def _clear(self) -> None:
        """Begin without anybody in line; in a forked child those are its parent's."""
        self._room = Room(self._connections.address.pool // 2)


class Room:
    """A number of places, given in the order in which they were asked for."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._lock = Lock()
        self._waiting: deque[Future[None]] = deque()

    @property
    def is_free(self) -> bool:
        """Whether nobody would wait."""
        return self._places > 0

    def enter(self, seconds: float) -> bool:
        """Take a place; return whether there was one in time."""
        place: Future[None] = Future()
        with self._lock:
            if self._places > 0:
                self._places -= 1
                return True
            self._waiting.append(place)
        try:
            greenlets.wait_until_done(place, seconds)
        except BaseException:
            if not place.cancel():
                self.leave()
            raise
        return not place.cancel()

    def leave(self) -> None:
        """Give a place to who waits longest."""
        with self._lock:
            while self._waiting:
                place = self._waiting.popleft()
                if place.set_running_or_notify_cancel():
                    place.set_result(None)
                    return
            self._places += 1


def _leave(stack: ExitStack) -> None:
    with suppress(Error):  # the server has ended the turn
        stack.close()
