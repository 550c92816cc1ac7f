"""Connections to a server: which are open, who has one, and what a lost one or a fork does to them.

A thread takes an idle connection, or opens one, up to `pool` of them. Nothing opens them in the
background, as the pool of psycopg does: whoever needs one learns at once why it cannot be had (a
wrong password is not a time-out), and a fork finds no thread to lose.

No statement depends on the one before on the same connection: no SET, no lock of the session, and
a prepared statement that is not there is sent again (`statements`). So a pooler that gives each
transaction another connection may be in between.

Lost connections. An idle connection on which something arrives was ended by the server, and is not
used again. A statement that only reads is repeated once, on a new connection. A server that says
nothing for `timeout` seconds counts as lost.

Greenlets. Under `otolith.aio` all sessions share one thread (`otolith/greenlets.py`). A statement
then waits as psycopg's own asynchronous connections do, and a greenlet that finds no connection
waits for its turn without holding the lock.

Forks. Two processes that use one connection garble it, and one that closes it ends it for both. So
a child forgets what it inherited, without closing it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Condition
from time import monotonic
from typing import Any
from urllib.parse import unquote
from weakref import WeakSet, finalize

import psycopg
from psycopg import conninfo
from psycopg.pq import PipelineStatus, TransactionStatus

from otolith import greenlets
from otolith.errors import Busy, Closed, Error, Invalid
from otolith.stores.postgres.failures import (
    Silence,
    is_lost,
    login_failed,
    statement_failed,
    without,
)
from otolith.stores.postgres.statements import (
    PostgresConnection,
    PreparedStatement,
    Row,
    rows_of,
)
from otolith.stores.server_url import secrets_of, split_options, without_secrets
from otolith.stores.sockets import has_news

_SCHEMA = re.compile(r"(?!pg_)[A-Za-z_][A-Za-z0-9_-]{0,62}")
_OURS = ("pool", "schema", "timeout")
_DEFAULT_SCHEMA = "otolith"
_DEFAULT_POOL = 10
_DEFAULT_SILENCE_SECONDS = 30.0
_DEFAULT_CONNECT_SECONDS = 10
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, repr=False)
class ServerAddress:
    """Where a store is: what libpq needs to connect, and the options that are ours."""

    place: str  # can be shown
    schema: str
    pool: int
    silence_seconds: float
    login: dict[str, Any]
    secrets: frozenset[str]

    @property
    def wait_seconds(self) -> float:
        """How long a thread waits until another one gives its connection back."""
        return float(self.login["connect_timeout"])


def parse(url: str, *, read_only: bool) -> ServerAddress:
    """Read the URL of a store.

    Raises:
        Invalid: it has an option that nobody knows, or one with an impossible value.
    """
    secrets = frozenset(word for secret in secrets_of(url) for word in (secret, unquote(secret)))
    place = without_secrets(url).partition("?")[0]
    try:
        rest, ours = split_options(url, _OURS)
        login = conninfo.conninfo_to_dict(rest)
    except (psycopg.Error, ValueError) as error:
        message = without(secrets, " ".join(str(error).split()))
        raise Invalid(
            f"{place}: {message}", hint="options are those of libpq, and schema, pool, timeout"
        ) from None
    schema = ours.get("schema", _DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise Invalid(
            f"{schema!r} cannot be the schema of a store",
            hint="use up to 63 letters, digits and _; it must not start with pg_",
        )
    _add_defaults(login, read_only=read_only)
    return ServerAddress(
        place,
        schema,
        int(_number(ours, "pool", _DEFAULT_POOL)),
        _number(ours, "timeout", _DEFAULT_SILENCE_SECONDS),
        login,
        secrets,
    )


def _add_defaults(login: dict[str, Any], *, read_only: bool) -> None:
    login.setdefault("application_name", "otolith")
    login.setdefault("connect_timeout", os.environ.get("PGCONNECT_TIMEOUT"))
    login["connect_timeout"] = int(
        _number(login, "connect_timeout", _DEFAULT_CONNECT_SECONDS) or _DEFAULT_CONNECT_SECONDS
    )
    if "," in str(login.get("host", "")) and not read_only:
        login.setdefault("target_session_attrs", "read-write")


def _number(options: dict[str, Any], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1 <= number < 1e6:
        raise Invalid(f"{name} must be a number of at least 1, got {text!r}", hint="see the URL")
    return number


class Connections:
    """Lends connections, and runs statements on them."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.closed = False
        self.after_fork: list[Callable[[], None]] = []
        self._start()
        _pools.add(self)

    def _start(self) -> None:
        self._idle: list[PostgresConnection] = []
        self._lent = 0
        self._changed = Condition()
        self._turns: deque[Future[None]] = deque()  # greenlets that wait for a connection
        # A store that nobody refers to any more leaves no connection open.
        self._at_end = finalize(self, _close_all, self._idle)

    # Statements

    def ask(self, query: bytes | PreparedStatement, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement that can be repeated, and return its rows."""
        try:
            return self._run(query, parameters)
        except _ConnectionLost:
            self._drop_idle()
            return self.tell(query, parameters)

    def tell(self, query: bytes | PreparedStatement, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement once, and return its rows.

        Raises:
            Unavailable: the connection was lost; the statement may have been executed.
        """
        try:
            return self._run(query, parameters)
        except _ConnectionLost as lost:
            self._drop_idle()
            raise lost.error from None

    @contextmanager
    def transaction(self) -> Iterator[PostgresConnection]:
        """Lend a connection inside of one transaction."""
        try:
            with self.lend() as connection, connection.transaction():
                yield connection
        except _ConnectionLost as lost:
            self._drop_idle()
            raise lost.error from None

    def _run(self, query: bytes | PreparedStatement, parameters: Sequence[Any]) -> list[Row]:
        """Run a statement; again, if the server gave it up for another one, without any effect."""
        with self.lend() as connection:
            for _ in range(_ATTEMPTS - 1):
                with suppress(psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                    return rows_of(connection, query, parameters)
            return rows_of(connection, query, parameters)

    # Connections

    def check_open(self) -> None:
        """Raise Closed after `close`."""
        if self.closed:
            raise Closed(f"{self.address.place} was closed", hint="open it again")

    def connect(self) -> PostgresConnection:
        """Open a connection."""
        address = self.address
        connection = self._connect_or_fail()
        if isinstance(connection, Error):
            raise connection  # out here, for an error of psycopg's has the password in it
        connection.silence_seconds = address.silence_seconds
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def _connect_or_fail(self) -> PostgresConnection | Error:
        address = self.address
        connect = partial(
            PostgresConnection.connect, **address.login, autocommit=True, prepare_threshold=None
        )
        try:
            if greenlets.is_inside():
                return greenlets.wait_for(asyncio.to_thread(connect))
            return connect()
        except psycopg.Error as error:
            return login_failed(error, address.place, address.secrets)

    @contextmanager
    def lend(self) -> Iterator[PostgresConnection]:
        """Lend a connection; a failure on it becomes one of our errors."""
        connection = self._take()
        try:
            yield connection
        except psycopg.Error as error:
            lost = is_lost(connection, error)
            address = self.address
            ours = statement_failed(error, address.place, address.secrets, lost=lost)
            if lost and not isinstance(error, Silence):
                raise _ConnectionLost(ours) from None
            raise ours from None
        finally:
            self._give_back(connection)

    def _take(self) -> PostgresConnection:
        deadline = monotonic() + self.address.wait_seconds
        while True:
            with self._changed:
                self.check_open()
                connection = self._idle_connection()
                if connection is not None or self._lent < self.address.pool:
                    self._lent += 1
                    break
                turn = self._next_turn(deadline - monotonic())
            if turn is not None:
                greenlets.wait_for(turn)
        if connection is not None:
            return connection
        try:
            return self.connect()
        except BaseException:
            self._release()
            raise

    def _idle_connection(self) -> PostgresConnection | None:
        """Return a connection that nobody uses, if there is one that was not ended."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and not has_news(connection.fileno()):
                return connection
            connection.close()
        return None

    def _next_turn(self, seconds: float) -> Awaitable[object] | None:
        """Wait until a connection is given back; in a greenlet, return what to wait for.

        Raises:
            Busy: none was, for so long.
        """
        if seconds > 0 and greenlets.is_inside():
            turn: Future[None] = Future()
            self._turns.append(turn)
            return asyncio.wait([asyncio.wrap_future(turn)], timeout=seconds)
        if seconds <= 0 or not self._changed.wait(seconds):
            raise Busy(
                f"{self.address.place}: all {self.address.pool} connections are in use",
                hint="raise pool= in the URL",
            )
        return None

    def _give_back(self, connection: PostgresConnection) -> None:
        is_idle = (
            not connection.closed
            and connection.pgconn.transaction_status == TransactionStatus.IDLE
            and connection.pgconn.pipeline_status == PipelineStatus.OFF
            and not self.closed
        )
        if is_idle:
            with self._changed:
                self._idle.append(connection)
        else:
            connection.close()
        self._release()

    def _release(self) -> None:
        with self._changed:
            self._lent -= 1
            self._changed.notify()
            while self._turns:
                turn = self._turns.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    break

    def _drop_idle(self) -> None:
        """Close connections that are probably lost, because another one was."""
        with self._changed:
            _close_all(self._idle)

    def close(self) -> None:
        """Close all connections; those in use when they are given back."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            for turn in self._turns:
                turn.cancel()
        self._drop_idle()

    def forget(self) -> None:
        """Start without connections: those of a parent process are not for its child."""
        _inherited.append(self._idle)
        self._at_end.detach()
        self._start()
        for callback in self.after_fork:
            callback()


class _ConnectionLost(Exception):
    """A connection broke; `error` is what a caller is told."""

    def __init__(self, error: Error) -> None:
        super().__init__()
        self.error = error


def _close_all(connections: list[PostgresConnection]) -> None:
    while connections:
        connections.pop().close()


_pools: WeakSet[Connections] = WeakSet()
_inherited: list[object] = []  # a connection that is not referred to would be closed


def _after_fork() -> None:
    for pool in list(_pools):
        with suppress(RuntimeError):
            pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
