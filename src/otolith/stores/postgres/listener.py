"""Subscriptions to refs that move: one thread of a store listens for all of them.

Commits that NOTIFY wait for each other, in all of the database. So `write_1` notifies only while
somebody listens, which is a time in `meta` that listeners push ahead.

Rules
1. LISTEN comes first, then the time, with the gate closed: a batch that did not see the time has
   landed before `subscribe` returns, and a batch that sees it notifies.
2. The time is pushed ahead while it has not run out. If it has, or if the connection was lost, all
   refs are reported: any may have moved unnoticed.
3. Whoever cannot hear asks: if a notification that we send ourselves, from another connection, does
   not arrive, then the refs are compared with those of a second ago, again and again.

Notifications belong to a session, and behind a pooler that gives each transaction another
connection they do not arrive. Such a subscriber does not announce itself: nobody need notify it.
"""

from __future__ import annotations

from contextlib import closing
from secrets import token_hex
from time import monotonic

import psycopg
from psycopg.sql import SQL, Identifier

from otolith.errors import Error
from otolith.stores.listened_news import Alarm, ListenedNews
from otolith.stores.postgres.connections import Connections
from otolith.stores.postgres.failures import statement_failed
from otolith.stores.postgres.schema import StoreSchema
from otolith.stores.postgres.statements import PostgresConnection

_LISTEN_SECONDS = 60
_RENEW_SECONDS = 15
_SPARE_SECONDS = 10  # a time that runs out so soon counts as run out
_RECONNECT_SECONDS = 0.5
_ECHO_SECONDS = 2.0  # how long our own notification may take
_POLL_SECONDS = 1.0  # between two questions of who cannot hear

_CHANNEL = "select {channel} || {meta}::regclass::oid"
_GATE = "select pg_advisory_xact_lock({gate}, {meta}::regclass::oid::integer)"
_ANNOUNCE = """update {s}.meta
    set listen_until = greatest(listen_until, {s}.now_1() + %s::bigint)"""
_RENEW = _ANNOUNCE + " where listen_until > {s}.now_1() + %s::bigint returning 1"
_NAMES = "select name from {s}.ref"
_VERSIONS = "select name, xmin::text from {s}.ref"  # each move of a ref makes another version
_NOTIFY = b"select pg_notify(%s, '')"


class RefListener(ListenedNews):
    """Listens on a connection of its own."""

    thread_name = "otolith-listener"

    def __init__(self, connections: Connections, schema: StoreSchema) -> None:
        super().__init__()
        self._connections = connections
        self._schema = schema
        self._versions: dict[str, str] | None = None  # of refs, if nothing can be heard

    def listen(self, alarm: Alarm) -> None:
        """Listen until the alarm; connect again when the connection is lost.

        Raises:
            Unavailable, Denied, ReadOnly: the server cannot be listened to.
        """
        while not self._listen_once(alarm):
            if alarm.wait(_RECONNECT_SECONDS):
                return

    def _listen_once(self, alarm: Alarm) -> bool:
        """Listen on one connection; return whether it ended with the alarm."""
        try:
            with closing(self._connect()) as connection:
                if self._versions is None:
                    self._listen(connection, alarm)
                else:
                    self._poll(connection, alarm)
        except (Error, psycopg.Error) as error:
            self.has_missed, self.failure = True, self._told(error)
            if not self.is_listening:
                raise self.failure from None
            return False
        return True

    def _told(self, error: Error | psycopg.Error) -> Error:
        """Return why nothing can be heard."""
        if isinstance(error, Error):
            return error
        address = self._connections.address
        return statement_failed(error, address.place, address.secrets, lost=False)

    def _connect(self) -> PostgresConnection:
        """Return a connection that listens, announced to writers (rule 1)."""
        connection = self._connections.connect()
        try:
            ((channel,),) = connection.execute(self._schema.statement(_CHANNEL)).fetchall()
            connection.execute(SQL("listen {}").format(Identifier(channel)))
            self._versions = None if self._hears(connection, channel) else self._read(connection)
            if self._versions is None:
                self._announce(connection)
            else:
                connection.execute("unlisten *")
                self._begin(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _hears(self, connection: PostgresConnection, channel: str) -> bool:
        """Tell whether a notification from another connection arrives (rule 3)."""
        echo = f"{channel}_{token_hex(8)}"
        connection.execute(SQL("listen {}").format(Identifier(echo)))
        self._connections.ask(_NOTIFY, [echo])
        deadline = monotonic() + _ECHO_SECONDS
        is_heard = False
        while not is_heard and (left := deadline - monotonic()) > 0:
            arrived = [*connection.notifies(timeout=left, stop_after=1)]
            is_heard = any(notify.channel == echo for notify in arrived)
        connection.execute(SQL("unlisten {}").format(Identifier(echo)))
        return is_heard

    def _announce(self, connection: PostgresConnection) -> None:
        with connection.transaction():
            connection.execute(self._schema.statement(_GATE))
            connection.execute(self._schema.statement(_ANNOUNCE), [_LISTEN_SECONDS * 1_000_000])
        self._begin(connection)

    def _begin(self, connection: PostgresConnection) -> None:
        """Let `subscribe` return: nothing is missed from now on."""
        if self.has_missed:
            self._report_all(connection)
        self.begin()

    def _listen(self, connection: PostgresConnection, alarm: Alarm) -> None:
        """Report what arrives, until the alarm."""
        renew_at = monotonic() + _RENEW_SECONDS
        while True:
            if alarm.wait(renew_at - monotonic(), connection.fileno()) or self.is_unwanted():
                return
            received = [notify.payload for notify in connection.notifies(timeout=0)]
            if "" in received:
                self._report_all(connection)
            self.report({bytes.fromhex(payload).decode() for payload in received if payload})
            if monotonic() >= renew_at:
                self._renew(connection)
                renew_at = monotonic() + _RENEW_SECONDS

    def _poll(self, connection: PostgresConnection, alarm: Alarm) -> None:
        """Ask what has changed, until the alarm."""
        while not alarm.wait(_POLL_SECONDS) and not self.is_unwanted():
            before, now = self._versions or {}, self._read(connection)
            self._versions = now
            self.report({name for name in {**before, **now} if before.get(name) != now.get(name)})

    def _read(self, connection: PostgresConnection) -> dict[str, str]:
        rows = connection.execute(self._schema.statement(_VERSIONS)).fetchall()
        return {name.decode(): version for name, version in rows}

    def _renew(self, connection: PostgresConnection) -> None:
        """Push the time ahead (rule 2)."""
        times = [_LISTEN_SECONDS * 1_000_000, _SPARE_SECONDS * 1_000_000]
        if not connection.execute(self._schema.statement(_RENEW), times).fetchall():
            self.has_missed = True
            self._announce(connection)

    def _report_all(self, connection: PostgresConnection) -> None:
        rows = connection.execute(self._schema.statement(_NAMES)).fetchall()
        self.report({name.decode() for (name,) in rows})
