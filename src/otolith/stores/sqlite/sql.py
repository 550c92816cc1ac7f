"""What SQLite's errors mean to the caller of a store.

Asking SQLite: all rows at once, so that no statement stays open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import apsw

from otolith.errors import (
    Busy,
    Corrupt,
    Denied,
    Error,
    Full,
    NotAStore,
    QuotaExceeded,
    ReadOnly,
    StoreNotFound,
    Unavailable,
)
from otolith.stores.sqlite.guard import GuardedConnection


def ask(connection: apsw.Connection, query: str, bindings: Any = ()) -> list[tuple[Any, ...]]:
    """Return every row of the answer.

    Raises:
        apsw.CorruptError: a text is not text.
    """
    if isinstance(connection, GuardedConnection):
        connection.begin()
    try:
        return connection.execute(query, bindings).fetchall()
    except UnicodeDecodeError as error:
        raise apsw.CorruptError(f"a text in it is not text: {error}") from error


def roll_back(connection: apsw.Connection) -> None:
    """End a transaction if there is one; some errors have ended it already."""
    if connection.in_transaction:
        connection.execute("rollback")


def each(connection: apsw.Connection, query: str, bindings: Any = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a long answer one by one.

    Raises:
        apsw.CorruptError: a text is not text.
    """
    if isinstance(connection, GuardedConnection):
        connection.begin()
    try:
        yield from connection.execute(query, bindings)
    except UnicodeDecodeError as error:
        raise apsw.CorruptError(f"a text in it is not text: {error}") from error


def give_up(connection: apsw.Connection) -> None:
    """Close a connection after an error, which matters more than how it closes."""
    with suppress(apsw.Error):
        connection.close()


FSCK = "run `otolith fsck` to see what is damaged, then restore or repair it"


# What a sound file never gives, and a statement of ours never asks for.
_DAMAGE = (
    apsw.CorruptError, apsw.InterruptError, apsw.TooBigError, apsw.MismatchError, apsw.SQLError,
    apsw.ConstraintError, apsw.InternalError, apsw.FormatError,
)  # fmt: skip


def has_no_room(error: apsw.Error) -> bool:
    """Tell whether SQLite's shared memory, which is a file, could not be made: the disk is full."""
    return bool(getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE)


def explained(error: apsw.Error, path: str, *, limit_bytes: int | None = None) -> Error:
    """Return the error to raise for one of SQLite's. Give the limit if it may be the cause."""
    if isinstance(error, _DAMAGE):
        reason = "looking at it does not end" if isinstance(error, apsw.InterruptError) else error
        return Corrupt(f"{path} is damaged: {reason}", hint=FSCK)
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Busy(f"{path} is being written by someone else", hint="try again in a moment")
        case apsw.FullError() if limit_bytes is not None:
            return QuotaExceeded(
                f"{path}: the write would pass the limit of {limit_bytes} bytes",
                hint="prune, or open it with a higher limit_bytes",
            )
        case apsw.FullError() | apsw.IOError() if isinstance(error, apsw.FullError) or has_no_room(
            error
        ):
            return Full(f"{path}: the disk is full", hint="make room and try again")
        case apsw.NotADBError():
            return NotAStore(f"{path} is not an otolith store", hint="choose another path")
        case apsw.ReadOnlyError():
            return ReadOnly(f"{path} cannot be written: {error}", hint="check its permissions")
        case apsw.AuthError() | apsw.PermissionsError():
            return Denied(f"{path} cannot be opened: {error}", hint="check its permissions")
        case apsw.CantOpenError():
            return Denied(
                f"{path} or its -wal and -shm files cannot be opened",
                hint="check the permissions of the file and its directory, or use read_only=True",
            )
        case apsw.NotFoundError():
            return StoreNotFound(f"no store at {path}", hint="check the path")
        case _:
            return Unavailable(f"{path}: {error}", hint="check the disk, then try again")
