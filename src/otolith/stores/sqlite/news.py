"""News of the refs of a file: a thread asks SQLite whether any other connection has committed.

`data_version` is a number of the connection that asks: it changes when another one, of this process
or not, has committed. Only then the newest move is looked up, and the refs that have a newer one
than before. Moves have ascending numbers, and the newest is never deleted (`gc`); so a lower one
means that the file was replaced by another, of which all refs are reported.
"""

from __future__ import annotations

from random import uniform

import apsw

from otolith.stores.listened_news import Alarm, PolledNews
from otolith.stores.sqlite.connections import ConnectionPool
from otolith.stores.sqlite.sql import ask

_PAUSE_SECONDS = (0.018, 0.036)


class SqliteNews(PolledNews):
    """The subscriptions to the refs of a file."""

    def __init__(self, pool: ConnectionPool) -> None:
        super().__init__()
        self._pool = pool
        self._seen: tuple[apsw.Connection, int] | None = None  # the version that was looked at
        self._newest: int | None = None  # the move that was the newest then

    def look(self) -> set[str]:
        """Return the names of refs that moved since the last look."""
        with self._pool.watching() as connection:
            ((version,),) = ask(connection, "pragma data_version")
            if self._seen == (connection, version):
                return set()
            connection.execute("begin")
            try:
                names = self._moved(connection)
            finally:
                connection.execute("rollback")
            self._seen = connection, version
            return names

    def known(self) -> set[str]:
        """Return the names of all refs that there are, or were."""
        with self._pool.watching() as connection:
            return _names(connection, 0)

    def rest(self, alarm: Alarm, *, has_news: bool) -> bool:
        """Wait for some milliseconds."""
        return alarm.wait(uniform(*_PAUSE_SECONDS))

    def _moved(self, connection: apsw.Connection) -> set[str]:
        before = self._newest
        ((newest,),) = ask(connection, "select coalesce(max(seq), 0) from move")
        names = set[str]()
        if before is not None and newest != before:
            names = _names(connection, before if newest > before else 0)
        self._newest = newest
        return names


def _names(connection: apsw.Connection, move: int) -> set[str]:
    """Return the names of refs whose newest move is later than another one."""
    rows = ask(connection, "select name from ref where last > ? and name <> ''", (move,))
    return {name for (name,) in rows if isinstance(name, str)}
