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

import selectors
import socket
from contextlib import closing
from secrets import token_hex
from threading import Condition, Thread
from time import monotonic

import psycopg
from psycopg.sql import SQL, Identifier

from otolith.errors import Closed, Error
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


class RefSubscription:
    """Collects the names of refs that moved; made by `PostgresStore.subscribe`."""

    def __init__(self, listener: RefListener, prefix: str) -> None:
        self._listener = listener
        self._prefix = prefix
        self._names: set[str] = set()
        self._closed = False

    def wait(self, timeout_seconds: float) -> set[str]:
        """Return the names of refs that may have moved since the last call."""
        self._listener.start()
        changed = self._listener.changed
        with changed:
            changed.wait_for(
                lambda: self._names or self._closed or self._listener.closed, timeout_seconds
            )
            if self._closed or self._listener.closed:
                raise Closed("this subscription was closed", hint="subscribe again")
            names, self._names = self._names, set()
            return names

    def close(self) -> None:
        """End the subscription. Closing twice is harmless."""
        with self._listener.changed:
            self._closed = True
            self._listener.changed.notify_all()
        self._listener.remove(self)

    def add(self, names: set[str]) -> None:
        """Note that refs have moved; the caller holds the lock."""
        self._names |= {name for name in names if name.startswith(self._prefix)}


class RefListener:
    """Listens, on a connection of its own, as long as there are subscriptions."""

    def __init__(self, connections: Connections, schema: StoreSchema) -> None:
        self._connections = connections
        self._schema = schema
        self.closed = False
        self.changed = Condition()
        self._subscriptions: list[RefSubscription] = []
        self._thread: Thread | None = None
        self._is_listening = False
        self._failure: Error | None = None
        self._has_missed = False
        self._versions: dict[str, str] | None = None  # of refs, if nothing can be heard
        self._alarm: socket.socket | None = None
        connections.after_fork.append(self._forget)

    def subscribe(self, prefix: str) -> RefSubscription:
        """Return a subscription, once nothing that lands from now on can be missed.

        Raises:
            Unavailable, Denied, ReadOnly: the server cannot be listened to.
        """
        subscription = RefSubscription(self, prefix)
        with self.changed:
            self._subscriptions.append(subscription)
        try:
            self.start()
        except BaseException:
            subscription.close()
            raise
        return subscription

    def remove(self, subscription: RefSubscription) -> None:
        """End the thread when nobody is subscribed any more."""
        with self.changed:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
            is_last = not self._subscriptions
        if is_last:
            self._stop()

    def close(self) -> None:
        """End all subscriptions."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self._stop()

    def start(self) -> None:
        """Start the thread if it does not run, and wait until it listens."""
        with self.changed:
            if self.closed:
                raise Closed("this store was closed", hint="open it again")
            if self._thread is None:
                self._failure, self._is_listening = None, False
                inner, self._alarm = socket.socketpair()
                self._thread = Thread(
                    target=self._run, args=(inner,), name="otolith-listener", daemon=True
                )
                self._thread.start()
            self.changed.wait_for(lambda: self._is_listening or self._failure or self.closed)
            if self._failure is not None:
                raise self._failure

    def _stop(self) -> None:
        with self.changed:
            thread, alarm = self._thread, self._alarm
            self._thread = self._alarm = None
        if alarm is not None:
            alarm.close()  # which the thread notices
        if thread is not None:
            thread.join()

    def _forget(self) -> None:
        """Start anew in a forked child: the thread and its connection are the parent's."""
        self.changed = Condition()
        self._thread = self._alarm = None
        self._has_missed = True

    # In the thread

    def _run(self, alarm: socket.socket) -> None:
        """Listen until the alarm; connect again when the connection is lost."""
        with alarm:
            while not self._listen_once(alarm):
                if self._failure is not None or _wait(_RECONNECT_SECONDS, alarm):
                    return

    def _listen_once(self, alarm: socket.socket) -> bool:
        """Listen on one connection; return whether it ended with the alarm."""
        try:
            with closing(self._connect()) as connection:
                if self._versions is None:
                    self._listen(connection, alarm)
                else:
                    self._poll(connection, alarm)
        except (Error, psycopg.Error) as error:
            self._has_missed = True
            if not self._is_listening:
                self._fail(error)
            return False
        return True

    def _fail(self, error: Error | psycopg.Error) -> None:
        """Let `subscribe` raise why nothing can be heard."""
        address = self._connections.address
        if isinstance(error, psycopg.Error):
            error = statement_failed(error, address.place, address.secrets, lost=False)
        with self.changed:
            self._failure, self._thread = error, None
            self.changed.notify_all()

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
        if self._has_missed:
            self._report_all(connection)
        with self.changed:
            self._is_listening = True
            self.changed.notify_all()

    def _listen(self, connection: PostgresConnection, alarm: socket.socket) -> None:
        """Report what arrives, until the alarm."""
        renew_at = monotonic() + _RENEW_SECONDS
        while True:
            if _wait(max(0.0, renew_at - monotonic()), alarm, connection):
                return
            received = [notify.payload for notify in connection.notifies(timeout=0)]
            if "" in received:
                self._report_all(connection)
            self._report({bytes.fromhex(payload).decode() for payload in received if payload})
            if monotonic() >= renew_at:
                self._renew(connection)
                renew_at = monotonic() + _RENEW_SECONDS

    def _poll(self, connection: PostgresConnection, alarm: socket.socket) -> None:
        """Ask what has changed, until the alarm."""
        while not _wait(_POLL_SECONDS, alarm):
            before, now = self._versions or {}, self._read(connection)
            self._versions = now
            self._report({name for name in {**before, **now} if before.get(name) != now.get(name)})

    def _read(self, connection: PostgresConnection) -> dict[str, str]:
        rows = connection.execute(self._schema.statement(_VERSIONS)).fetchall()
        return {name.decode(): version for name, version in rows}

    def _renew(self, connection: PostgresConnection) -> None:
        """Push the time ahead (rule 2)."""
        times = [_LISTEN_SECONDS * 1_000_000, _SPARE_SECONDS * 1_000_000]
        if not connection.execute(self._schema.statement(_RENEW), times).fetchall():
            self._has_missed = True
            self._announce(connection)

    def _report_all(self, connection: PostgresConnection) -> None:
        rows = connection.execute(self._schema.statement(_NAMES)).fetchall()
        self._report({name.decode() for (name,) in rows})
        self._has_missed = False

    def _report(self, names: set[str]) -> None:
        with self.changed:
            for subscription in self._subscriptions:
                subscription.add(names)
            self.changed.notify_all()


def _wait(
    seconds: float, alarm: socket.socket, connection: PostgresConnection | None = None
) -> bool:
    """Wait for the alarm, or for something that arrives; return whether it was the alarm."""
    with selectors.DefaultSelector() as selector:
        selector.register(alarm, selectors.EVENT_READ)
        if connection is not None:
            selector.register(connection.fileno(), selectors.EVENT_READ)
        return any(key.fileobj is alarm for key, _ in selector.select(seconds))
