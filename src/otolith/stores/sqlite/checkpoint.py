"""Moving what was committed from the WAL into the file, beside the commits and not inside of them.

A commit is safe once it is in the WAL. SQLite would let the commit that makes the WAL long move all
of it; here a thread does, on a connection of its own, and ends. Only if the WAL grows faster than
that does a commit wait.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from threading import Thread

import apsw

from otolith.errors import Error
from otolith.stores.sqlite.query import ask

_LONG_PAGES = 2000
_TOO_LONG_PAGES = 32768


class Checkpoints:
    """Starts a thread when the WAL is long and none is at work."""

    def __init__(self, lend: Callable[[], AbstractContextManager[apsw.Connection]]) -> None:
        self._lend = lend
        self._thread: Thread | None = None

    def follow(self, connection: apsw.Connection) -> None:
        """Look after the WAL that a connection writes, in the place of SQLite itself."""
        connection.set_wal_hook(self._grown)

    def wait(self) -> None:
        """Wait for the thread, if there is one."""
        if self._thread is not None:
            self._thread.join()

    def forget(self) -> None:
        """Forget the thread: after a fork it is the parent's."""
        self._thread = None

    def _grown(self, connection: apsw.Connection, schema: str, pages: int) -> int:
        if pages < _LONG_PAGES:
            return apsw.SQLITE_OK
        is_at_work = self._thread is not None and self._thread.is_alive()
        if not is_at_work:
            self._start()
        elif pages > _TOO_LONG_PAGES:
            _move(connection)
        return apsw.SQLITE_OK

    def _start(self) -> None:
        thread = Thread(target=self._work, name="otolith-checkpoint")
        with suppress(RuntimeError):  # no thread can be had: the next commit tries again
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        with suppress(Error), self._lend() as connection:
            _move(connection)


def _move(connection: apsw.Connection) -> None:
    with suppress(apsw.Error):  # the WAL has it all the same, and is tried again when it has grown
        ask(connection, "pragma wal_checkpoint(passive)")
