"""Statements on a file that may be damaged or hostile, and what SQLite's errors mean to the caller.

A file of a few pages can be made so that a scan of it never ends: pages of a tree that lead to each
other, each many times. So the steps of every statement are counted, and one that takes more than
any sound file of this length could need is ended. SQLite's own checks do the rest: cells must lie
inside of their page, a tree is at most twenty pages deep, no row is longer than an object.

Every statement of a store goes through `ask` (all rows at once, so that no statement stays open) or
`each` (row by row); `write_queue.py` begins and ends transactions that write.
"""

from __future__ import annotations

import os
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
from otolith.stores.base import OBJECT_LIMIT_BYTES

_SAFE_SETTINGS = {
    apsw.SQLITE_DBCONFIG_DEFENSIVE: 1,
    apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_VIEW: 0,
}
_ROW_BYTES = OBJECT_LIMIT_BYTES + (1 << 20)
_CHECK_EVERY_STEPS = 100_000
_FREE_STEPS = 2_000_000  # well below a second
# A scan takes about 15 steps for a row of at least 15 bytes; a rebuild or a check, 60.
_STEPS_PER_BYTE = 8
_UNKNOWN_BYTES = 1 << 62


class GuardedConnection(apsw.Connection):
    """A connection that runs nothing from the file, and whose statements end.

    `begin_statement` is to be called before each statement.
    """

    def __init__(self, path: str, *, flags: int, vfs: str | None, file: str) -> None:
        super().__init__(path, flags=flags, vfs=vfs)
        for setting, value in _SAFE_SETTINGS.items():
            self.config(setting, value)
        self.limit(apsw.SQLITE_LIMIT_LENGTH, _ROW_BYTES)
        # Not a method of this object: a reference cycle would leave it, and its file, open.
        self._steps = _StepCounter(file)
        self.set_progress_handler(self._steps.count, _CHECK_EVERY_STEPS)

    def begin_statement(self) -> None:
        """Count steps from 0 again."""
        self._steps.taken = 0


class _StepCounter:
    """Counts the steps of one statement."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.taken = 0

    def count(self) -> bool:
        """Count some more; return whether they are too many, which ends the statement."""
        self.taken += _CHECK_EVERY_STEPS
        return self.taken > _FREE_STEPS and self.taken > _STEPS_PER_BYTE * self._file_bytes()

    def _file_bytes(self) -> int:
        """Return the length of the file and its WAL, or more than any file has."""
        total = 0
        for name in (self._file, self._file + "-wal"):
            try:
                total += os.stat(name).st_size  # noqa: PTH116 - called inside of a statement
            except FileNotFoundError:
                continue
            except OSError:
                return _UNKNOWN_BYTES
        return total or _UNKNOWN_BYTES


def each(connection: apsw.Connection, query: str, bindings: Any = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a long answer one by one.

    Raises:
        apsw.CorruptError: a text in it is not text.
    """
    if isinstance(connection, GuardedConnection):
        connection.begin_statement()
    try:
        yield from connection.execute(query, bindings)
    except UnicodeDecodeError as error:
        raise apsw.CorruptError(f"a text in it is not text: {error}") from error


def ask(connection: apsw.Connection, query: str, bindings: Any = ()) -> list[tuple[Any, ...]]:
    """Return every row of an answer, as `each` does."""
    if isinstance(connection, GuardedConnection):
        connection.begin_statement()
    try:
        return connection.execute(query, bindings).fetchall()
    except UnicodeDecodeError as error:
        raise apsw.CorruptError(f"a text in it is not text: {error}") from error


def roll_back(connection: apsw.Connection) -> None:
    """End a transaction if there is one; some errors have ended it already."""
    if connection.in_transaction:
        connection.execute("rollback")


def close_after_error(connection: apsw.Connection) -> None:
    """Close a connection after an error, which matters more than one of closing."""
    with suppress(apsw.Error):
        connection.close()


FSCK = "run `otolith fsck` to see what is damaged, then restore or repair it"

# Errors that a sound file never causes, and statements of ours never cause.
_DAMAGE = (
    apsw.CorruptError, apsw.InterruptError, apsw.TooBigError, apsw.MismatchError, apsw.SQLError,
    apsw.ConstraintError, apsw.InternalError, apsw.FormatError,
)  # fmt: skip


def lacks_shared_memory(error: apsw.Error) -> bool:
    """Return whether SQLite's shared memory, which is a file, could not be made: disk full."""
    return bool(getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE)


def quota_exceeded(path: str, limit_bytes: int) -> QuotaExceeded:
    """Return the error for a write that the limit of a file refuses."""
    return QuotaExceeded(
        f"{path}: the write would pass the limit of {limit_bytes} bytes",
        hint="prune, or open it with a higher limit_bytes",
    )


def translated(error: apsw.Error, path: str, *, limit_bytes: int | None = None) -> Error:
    """Return our error for one of SQLite's. Give the limit of the file if it may be the cause."""
    if isinstance(error, _DAMAGE):
        reason = "a scan of it does not end" if isinstance(error, apsw.InterruptError) else error
        return Corrupt(f"{path} is damaged: {reason}", hint=FSCK)
    if isinstance(error, apsw.FullError) and limit_bytes is not None:
        return quota_exceeded(path, limit_bytes)
    if isinstance(error, apsw.FullError) or lacks_shared_memory(error):
        return Full(f"{path}: the disk is full", hint="make room and try again")
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Busy(f"{path} is being written by another process", hint="try again in a moment")
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
