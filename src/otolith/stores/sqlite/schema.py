"""The file of a store: its tables, the files that are refused, and how connections are set up.

Layout, format 1:

    object  id, key, data               key: the first 64 bits of the hash, signed, big endian;
                                        data: see `delta`. The hash itself is not stored: it is
                                        computed at every read, which is also the check for rot.
                                        Several rows may have one key. Ids only grow. Key 0 marks
                                        a row that is not an object any more, only a base.
                                        The index holds the upper half of the key: the few rows
                                        that share it cost less than four bytes for every row.
    ref     name, hash, last, sum       hash is NULL once the ref is gone; last: its newest move;
                                        sum: a checksum of the row. The row without a name holds
                                        the sum of all other sums, so a lost row is noticed.
    move    seq, prev, old, new,        the history of refs. prev: the same ref's earlier move, 0
            time, note, sum             for none. new: NULL, the key of a stored object, or a hash.
                                        old: the same, but only where there is no prev.
    fence   name, token, sum            the highest token seen under a name

`application_id` is "otol", `user_version` the format. Pages have 4096 bytes, the journal is a WAL.

Rules for opening
1. Nothing is opened but by SQLite itself: a process that closes a file gives up all locks it has on
   it, also those of SQLite.
2. A file with a table, index, view or trigger that is not ours is refused: it could run, or never
   end, when it is read.
3. A file system or an SQLite library that can lose acknowledged writes is refused.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote

import apsw

from otolith.errors import (
    Corrupt,
    Denied,
    FormatTooNew,
    Invalid,
    NotAStore,
    ReadOnly,
    StoreNotFound,
    Unsupported,
)
from otolith.stores.sqlite.refs import zero_row
from otolith.stores.sqlite.sql import (
    GuardedConnection,
    ask,
    close_after_error,
    lacks_shared_memory,
    roll_back,
    translated,
)

APPLICATION_ID = int.from_bytes(b"otol", "big")
FORMAT = 1
PAGE_BYTES = 4096

_ELSEWHERE = "choose another path"
_DISTRUST = "do not trust this file; restore it from a copy that you made"

_BEFORE_FIRST_TABLE = ("pragma page_size=4096", "pragma auto_vacuum=incremental")
_TABLES = (
    "create table object(id integer primary key, key integer not null, data blob not null)",
    "create index object_key on object(key >> 32)",
    """create table ref(name text primary key, hash blob, last integer not null,
        sum integer not null) without rowid""",
    """create table move(seq integer primary key, prev integer not null, old, new,
        time integer not null, note text not null, sum integer not null)""",
    """create table fence(name text primary key, token integer not null, sum integer not null)
        without rowid""",
    "pragma application_id=1869901676",
    "pragma user_version=1",
)


def _create_tables(connection: apsw.Connection) -> None:
    try:
        connection.execute("begin immediate")
        if _is_blank(connection):  # another process may have been faster
            for line in _TABLES:
                connection.execute(line)
            connection.execute("insert into ref values('', ?, 0, ?)", zero_row())
        connection.execute("commit")
    except BaseException:
        roll_back(connection)
        raise


def check_schema(connection: apsw.Connection, path: str, *, create: bool) -> None:
    """Check that this file is a store, and make it one if it is empty.

    Raises:
        NotAStore: it is another SQLite file.
        FormatTooNew: a newer otolith wrote it.
        Corrupt: it lacks a table, or has one that is not ours.
    """
    if create and _is_blank(connection):
        _create_tables(connection)
    if connection.pragma("application_id") != APPLICATION_ID:
        raise NotAStore(f"{path} is an SQLite file, but not an otolith store", hint=_ELSEWHERE)
    version = connection.pragma("user_version")
    if version > FORMAT:
        raise FormatTooNew(
            f"{path} has format {version}; this otolith knows up to {FORMAT}",
            hint="upgrade otolith",
        )
    found = ask(connection, "select type, name, sql from sqlite_schema")
    foreign = [f"{kind} {name}" for kind, name, sql in found if not _is_known(kind, name, sql)]
    if foreign:
        raise Corrupt(
            f"{path} has what otolith stores do not have: {', '.join(foreign[:5])}", hint=_DISTRUST
        )
    missing = _KNOWN - {_normalized(sql) for _, _, sql in found}
    if missing or len(found) != len({name for _, name, _ in found}):
        raise Corrupt(f"{path} lacks tables that every otolith store has", hint=_DISTRUST)


def _is_blank(connection: apsw.Connection) -> bool:
    (tables,) = ask(connection, "select count(*) from sqlite_schema")[0]
    return bool(tables == 0 and connection.pragma("application_id") == 0)


def _is_known(kind: object, name: object, sql: object) -> bool:
    """Return whether this is one of our tables, or one that SQLite adds."""
    if str(name).startswith("sqlite_autoindex_"):
        return kind == "index" and sql is None
    return _normalized(sql) in (_STATISTICS if str(name).startswith("sqlite_stat") else _KNOWN)


def _normalized(sql: object) -> str:
    return " ".join(str(sql).lower().split())


_KNOWN = frozenset(_normalized(line) for line in _TABLES if line.startswith("create"))
_STATISTICS = frozenset(
    {
        "create table sqlite_stat1(tbl,idx,stat)",
        "create table sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
    }
)


OLDEST_SAFE_SQLITE = (3, 51, 3)
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"}
    | {"ncpfs", "davfs", "fuse.sshfs", "fuse.glusterfs", "fuse.davfs", "fuse.s3fs", "fuse.rclone"}
    | {"fuse.gcsfuse", "fuse.goofys"}
)
MOUNTS = Path("/proc/self/mountinfo")

_SMALLEST_BYTES = 512
_WAL_BYTES = 32 << 20
_CHECKPOINT_PAGES = 2000
_CACHE_KIB = 16 << 10


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The path of a store and how it is to be opened."""

    path: str
    durability: str = "full"
    limit_bytes: int | None = None
    read_only: bool = False
    busy_timeout_seconds: float = 10.0
    vfs: str | None = None


def check_library(version: str) -> None:
    """Raise Unsupported if SQLite is older than the first version without the WAL-reset bug."""
    numbers = tuple(int(part) for part in version.split(".")[:3])
    if numbers < OLDEST_SAFE_SQLITE:
        oldest = ".".join(map(str, OLDEST_SAFE_SQLITE))
        raise Unsupported(
            f"SQLite {version} can lose committed writes when two connections reset the WAL",
            hint=f"install an apsw with SQLite {oldest} or newer",
        )


def check_path(path: Path, *, create: bool) -> None:
    """Refuse a path where a store cannot be, without opening the file.

    Raises:
        StoreNotFound: there is no file, and none may or can be made.
        NotAStore: there is something else.
        Denied: the directory cannot be read.
        Invalid: no file can have this path.
    """
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        found = None
    except PermissionError as error:
        raise Denied(f"{path} cannot be read", hint="check its permissions") from error
    except (OSError, ValueError) as error:  # too long, a loop of links, or a zero in it
        raise Invalid(f"no store can be at {str(path)[:99]!r}: {error}", hint=_ELSEWHERE) from error
    _check_siblings(path)
    if found is None:
        if not create:
            raise StoreNotFound(
                f"no store at {path}", hint="check the path, or open it with create"
            )
        if not path.parent.is_dir():
            raise StoreNotFound(f"no directory {path.parent}", hint="make the directory first")
        return
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise NotAStore(f"{path} is a directory", hint="give the path of a file in it")
    if kind != stat.S_IFREG:  # opening a pipe would block
        raise NotAStore(f"{path} is not a file", hint=_ELSEWHERE)
    _check_length(path, found.st_size, create=create)


def _check_length(path: Path, length: int, *, create: bool) -> None:
    """Raise NotAStore if a file is too short; an empty one becomes a store if one may be made."""
    if not length and not create and not _has_wal(path):
        raise NotAStore(f"{path} is empty", hint="restore it from a backup, or delete it")
    if 0 < length < _SMALLEST_BYTES:  # SQLite treats a single byte as an empty file
        raise NotAStore(f"{path} is not an otolith store", hint=_ELSEWHERE)


def _has_wal(path: Path) -> bool:
    """Tell whether a file has a WAL with something in it."""
    try:
        return Path(f"{path}-wal").stat().st_size > 0
    except OSError:
        return False


def _check_siblings(path: Path) -> None:
    """Raise NotAStore if a -wal, -shm or -journal is a pipe, which blocks, or a link."""
    target = os.path.realpath(path)  # SQLite puts its files beside the target of a link
    for suffix in ("-wal", "-shm", "-journal"):
        with suppress(OSError):
            if not stat.S_ISREG(os.lstat(target + suffix).st_mode):
                raise NotAStore(
                    f"{target}{suffix} is not a file",
                    hint="do not trust this folder; copy the file",
                )


def check_file_system(path: str, mounts: Iterable[str]) -> None:
    """Raise Unsupported if a path is on a network file system, where locks cannot be relied on.

    `mounts` are lines of /proc/self/mountinfo.
    """
    best, kind = "", ""
    for line in mounts:
        left, _, right = line.partition(" - ")
        fields = left.split()
        if not right or len(fields) < 5:
            continue
        point = fields[4].encode().decode("unicode_escape")
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    if kind in NETWORK_FILE_SYSTEMS:
        raise Unsupported(
            f"{path} is on a network file system ({kind}), where SQLite can lose writes",
            hint="put the file on a local disk",
        )


def mounts() -> list[str]:
    """Return the mount table of this machine, empty where there is none."""
    try:
        with MOUNTS.open(encoding="utf-8", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []


def connect_writer(file: StoreFile, *, create: bool) -> apsw.Connection:
    """Open a connection that writes; with `create`, make the store if it is not there yet."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    try:
        connection = GuardedConnection(file.path, flags=flags, vfs=file.vfs, file=file.path)
    except apsw.Error as error:
        raise translated(error, file.path) from error
    try:
        _set_up_writer(connection, file, create=create)
    except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
        close_after_error(connection)
        raise Denied(
            f"{file.path} cannot be written",
            hint="check the permissions of it and its directory, or open it with read_only=True",
        ) from error
    except apsw.Error as error:
        close_after_error(connection)
        raise translated(error, file.path) from error
    except BaseException:
        close_after_error(connection)
        raise
    return connection


def connect_reader(file: StoreFile) -> apsw.Connection:
    """Open a connection that only reads.

    On a read-only medium or a full disk SQLite cannot make its shared memory. The file is then read
    as one that never changes, which is right only if its WAL is empty.
    """
    try:
        return _connect_read_only(file, file.path, 0)
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError) as error:
        if isinstance(error, apsw.IOError) and not (file.read_only and lacks_shared_memory(error)):
            raise translated(error, file.path) from error
        wal = Path(file.path + "-wal")
        if not file.read_only or (wal.exists() and wal.stat().st_size):
            raise ReadOnly(
                f"{file.path} has writes in its -wal file that cannot be read here",
                hint="copy it together with its -wal file to a folder that can be written",
            ) from error
    except apsw.Error as error:
        raise translated(error, file.path) from error
    uri = f"file:{quote(file.path)}?immutable=1"
    try:
        return _connect_read_only(file, uri, apsw.SQLITE_OPEN_URI)
    except apsw.Error as error:
        raise translated(error, file.path) from error


def _set_up_writer(connection: apsw.Connection, file: StoreFile, *, create: bool) -> None:
    connection.set_busy_handler(_busy_handler(file.busy_timeout_seconds))
    if create and ask(connection, "pragma page_count") == [(0,)]:
        for line in _BEFORE_FIRST_TABLE:  # these can only be set while the file is empty
            connection.execute(line)
    if connection.pragma("journal_mode") != "wal":
        check_schema(connection, file.path, create=create)
        _switch_to_wal(connection, _busy_handler(file.busy_timeout_seconds))
    connection.pragma("synchronous", "full" if file.durability == "full" else "normal")
    connection.pragma("journal_size_limit", _WAL_BYTES)
    connection.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
    if sys.platform == "darwin":
        connection.pragma("fullfsync", 1)
        connection.pragma("checkpoint_fullfsync", 1)
    _set_pragmas(connection)
    check_schema(connection, file.path, create=create)


def _switch_to_wal(connection: apsw.Connection, wait: Callable[[int], bool]) -> None:
    """Write a log from now on. SQLite asks no busy handler here, so this waits by itself."""
    for tries in count():
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if not wait(tries):
                raise
        else:
            return


def _busy_handler(seconds: float) -> Callable[[int], bool]:
    """Return a busy handler that tries often: that of SQLite sleeps up to a tenth of a second."""
    started = 0.0

    def wait(tries: int) -> bool:
        nonlocal started
        if tries == 0:
            started = monotonic()
        elif monotonic() - started > seconds:
            return False
        sleep(min(0.0005 * (tries + 1), 0.005))
        return True

    return wait


def _set_pragmas(connection: apsw.Connection) -> None:
    connection.pragma("cell_size_check", 1)
    connection.pragma("cache_size", -_CACHE_KIB)
    connection.pragma("mmap_size", 0)
    connection.pragma("temp_store", "memory")


def _connect_read_only(file: StoreFile, name: str, flags: int) -> apsw.Connection:
    flags |= apsw.SQLITE_OPEN_READONLY
    connection = GuardedConnection(name, flags=flags, vfs=file.vfs, file=file.path)
    try:
        connection.set_busy_handler(_busy_handler(file.busy_timeout_seconds))
        _set_pragmas(connection)
        check_schema(connection, file.path, create=False)
    except BaseException:
        close_after_error(connection)
        raise
    return connection
