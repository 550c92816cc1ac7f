"""A connection, and the statements that run on it; those of every commit and read are prepared.

A prepared statement is parsed by the server once on each connection, and its arguments are encoded
here, which takes a third of the time. The first use sends the text, the arguments and the order to
execute it together, so it is one round trip as well.

Poolers. One that gives each transaction another connection may send a statement to a server process
that does not know it, or its text to one that does. So its name is a hash of its text: a process
that knows the name knows the same statement. Otherwise the server refuses before it executes
anything; the text is then sent each time. Inside of a transaction it always is, for there a refusal
would end the transaction.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from hashlib import sha256
from struct import Struct
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg import generators, pq, waiting
from psycopg.errors import DuplicatePreparedStatement, InvalidSqlStatementName
from psycopg.pq import ExecStatus, Format, TransactionStatus

from otolith import greenlets
from otolith.stores.postgres.failures import Silence

Row: TypeAlias = tuple[Any, ...]
_T = TypeVar("_T")
_Results: TypeAlias = list[pq.abc.PGresult]

_LOOK_SECONDS = 0.1  # how often a waiting greenlet looks whether the server is silent

BOOL, BYTEA, BYTEAS, BIGINT, BIGINTS = 16, 17, 1001, 20, 1016
"""Types of arguments, by their numbers in every Postgres."""

_ARRAY, _NOTHING = Struct("!iiIii"), Struct("!iiI")
_LENGTH, _BIGINT = Struct("!i"), Struct("!q")
TRUE, FALSE = b"\1", b"\0"


def bigint(number: int) -> bytes:
    """Return a number as an argument."""
    return _BIGINT.pack(number)


def byteas(items: Sequence[bytes], kind: int = BYTEA) -> bytes:
    """Return an array as an argument."""
    if not items:
        return _NOTHING.pack(0, 0, kind)
    parts = [_ARRAY.pack(1, 0, kind, len(items), 1)]
    for item in items:
        parts += (_LENGTH.pack(len(item)), item)
    return b"".join(parts)


def items_of(array: bytes) -> list[bytes | None]:
    """Return what is in an array that the server sent."""
    found: list[bytes | None] = []
    at = _ARRAY.size
    while at < len(array):
        (size,) = _LENGTH.unpack_from(array, at)
        at += _LENGTH.size
        found.append(None if size < 0 else array[at : at + size])
        at += max(size, 0)
    return found


class PostgresConnection(psycopg.Connection[Row]):
    """A connection that does not wait for ever."""

    silence_seconds: float | None = None
    prepares = psycopg.capabilities.has_pipeline()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.prepared: set[bytes] = set()

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **kwargs: Any) -> _T:
        """Wait for the server, and raise Silence if it does not answer."""
        if self.silence_seconds is not None:
            gen = _until_silence(gen, self.silence_seconds)
        if greenlets.is_inside():
            waited: Any = waiting.wait_async(gen, self.pgconn.socket, interval=_LOOK_SECONDS)
            result: _T = greenlets.wait_for(waited)
            return result
        return super().wait(gen, *args, **kwargs)


def _until_silence(gen: Generator[Any, Any, _T], seconds: float) -> Generator[Any, Any, _T]:
    """Pass a generator of psycopg's on; it is sent 0 when nothing has arrived for a while."""
    deadline = monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                deadline = monotonic() + seconds
            elif monotonic() > deadline:
                raise Silence(f"the server has not answered for {seconds:g} seconds")
            wanted = gen.send(ready)
    except StopIteration as done:
        result: _T = done.value
        return result


class PreparedStatement:
    """A statement with arguments `$1` ... of given types; arguments and results are binary."""

    def __init__(self, text: bytes, *types: int) -> None:
        self._text = text
        self._types = types
        self._formats = [Format.BINARY] * len(types)
        self._name = b"otolith_" + sha256(text + repr(types).encode()).hexdigest()[:32].encode()

    def rows(self, connection: PostgresConnection, arguments: Sequence[bytes | None]) -> list[Row]:
        """Run it, and return its rows, as bytes."""
        if not connection.prepares or _is_in_transaction(connection):
            return self._run(connection, self._unprepared(connection.pgconn, arguments))
        try:
            if self._name in connection.prepared:
                return self._run(connection, self._again(connection.pgconn, arguments))
            rows = self._run(connection, self._first(connection.pgconn, arguments))
        except (InvalidSqlStatementName, DuplicatePreparedStatement):
            connection.prepares = False  # a pooler is in between
            return self._run(connection, self._unprepared(connection.pgconn, arguments))
        connection.prepared.add(self._name)
        return rows

    def _run(
        self, connection: PostgresConnection, work: Generator[Any, Any, _Results]
    ) -> list[Row]:
        for result in connection.wait(work):
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result, connection.info.encoding)
            if result.status == ExecStatus.TUPLES_OK:
                columns = range(result.nfields)
                return [
                    tuple(result.get_value(row, column) for column in columns)
                    for row in range(result.ntuples)
                ]
        return []

    def _unprepared(
        self, wire: pq.abc.PGconn, arguments: Sequence[bytes | None]
    ) -> Generator[Any, Any, _Results]:
        wire.send_query_params(self._text, arguments, self._types, self._formats, Format.BINARY)
        results: _Results = yield from generators.execute(wire)
        return results

    def _again(
        self, wire: pq.abc.PGconn, arguments: Sequence[bytes | None]
    ) -> Generator[Any, Any, _Results]:
        wire.send_query_prepared(self._name, arguments, self._formats, Format.BINARY)
        results: _Results = yield from generators.execute(wire)
        return results

    def _first(
        self, wire: pq.abc.PGconn, arguments: Sequence[bytes | None]
    ) -> Generator[Any, Any, _Results]:
        """Prepare and execute it in one round trip."""
        wire.enter_pipeline_mode()
        wire.send_prepare(self._name, self._text, self._types)
        wire.send_query_prepared(self._name, arguments, self._formats, Format.BINARY)
        wire.pipeline_sync()
        results: _Results = yield from generators.execute(wire)
        while results[-1].status != ExecStatus.PIPELINE_SYNC:
            results += yield from generators.fetch_many(wire)
        wire.exit_pipeline_mode()
        return results


def rows_of(
    connection: PostgresConnection, query: bytes | PreparedStatement, parameters: Sequence[Any]
) -> list[Row]:
    """Run a statement, and return its rows."""
    if isinstance(query, PreparedStatement):
        return query.rows(connection, parameters)
    cursor = connection.execute(query, parameters, binary=bool(parameters))
    return cursor.fetchall() if cursor.description is not None else []


def _is_in_transaction(connection: PostgresConnection) -> bool:
    return connection.pgconn.transaction_status != TransactionStatus.IDLE
