"""The tables of a store file, and the marks that tell it from any other SQLite file.

Layout, format 1:

    object  id, key, data               key: the first 64 bits of the hash, signed, big endian;
                                        data: see `delta`. The hash itself is not stored: it is
                                        computed at every read, which is also the check for rot.
                                        Several rows may have one key. Ids only grow. Key 0 marks
                                        a row that is no object any more, only the base of others.
                                        The index holds the upper half of the key: the few rows
                                        that share it cost less than four bytes for every row.
    ref     name, hash, last, sum       hash is NULL once the ref is gone; last: its newest move;
                                        sum: a checksum of the row. The row without a name holds
                                        the sum of all other sums, so a lost row is noticed.
    move    seq, prev, old, new,        the history of refs. prev: the same ref's earlier move, 0
            time, note, sum             for none. new: NULL, the key of a stored object, or a hash.
                                        old: the same, but only where there is no prev.
    fence   name, token, sum            the highest token seen under a name

Opening a store file: what is refused and why, and how a connection is set up.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
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
from otolith.stores.sqlite.guard import GuardedConnection
from otolith.stores.sqlite.refs import zero_row
from otolith.stores.sqlite.sql import ask, explained, give_up, has_no_room, roll_back

APPLICATION_ID = int.from_bytes(b"otol", "big")
FORMAT = 1
PAGE_BYTES = 4096

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


def prepare(connection: apsw.Connection) -> None:
    """Set what can only be set while the file is still empty."""
    if ask(connection, "pragma page_count") != [(0,)]:
        return
    for line in _BEFORE_FIRST_TABLE:
        connection.execute(line)


def _make(connection: apsw.Connection) -> None:
    try:
        connection.execute("begin immediate")
        if _is_blank(connection):  # another process may have been quicker
            for line in _TABLES:
                connection.execute(line)
            connection.execute("insert into ref values('', ?, 0, ?)", zero_row())
        connection.execute("commit")
    except BaseException:
        roll_back(connection)
        raise


def ensure(connection: apsw.Connection, path: str, *, create: bool) -> None:
    """Check that this file is a store, and make it one if it is empty.

    Raises:
        NotAStore: it is some other SQLite file.
        FormatTooNew: a newer otolith wrote it.
    """
    if create and _is_blank(connection):
        _make(connection)
    _check(connection, path)


def _is_blank(connection: apsw.Connection) -> bool:
    (tables,) = ask(connection, "select count(*) from sqlite_schema")[0]
    return bool(tables == 0 and connection.pragma("application_id") == 0)


def _check(connection: apsw.Connection, path: str) -> None:
    _check_marks(connection, path)
    # A file may come from anywhere: what is not ours could run, or never end, when it is read.
    found = ask(connection, "select type, name, sql from sqlite_schema")
    strangers = [f"{kind} {name}" for kind, name, sql in found if not _is_known(kind, name, sql)]
    if strangers:
        raise Corrupt(
            f"{path} has what no otolith store has: {', '.join(strangers[:5])}", hint=_DISTRUST
        )
    missing = _KNOWN - {_plainly(sql) for _, _, sql in found}
    if missing or len(found) != len({name for _, name, _ in found}):
        raise Corrupt(f"{path} has not the tables that every otolith store has", hint=_DISTRUST)


_DISTRUST = "do not trust this file; restore it from a copy that you made"


def _is_known(kind: object, name: object, sql: object) -> bool:
    """Tell whether this is one of our tables, or what SQLite adds by itself."""
    if str(name).startswith("sqlite_autoindex_"):
        return kind == "index" and sql is None
    return _plainly(sql) in (_STATISTICS if str(name).startswith("sqlite_stat") else _KNOWN)


def _plainly(sql: object) -> str:
    return " ".join(str(sql).lower().split())


_KNOWN = frozenset(_plainly(line) for line in _TABLES if line.startswith("create"))
_STATISTICS = frozenset(
    {
        "create table sqlite_stat1(tbl,idx,stat)",
        "create table sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
    }
)


def _check_marks(connection: apsw.Connection, path: str) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise NotAStore(
            f"{path} is an SQLite file, but not an otolith store", hint="choose another path"
        )
    version = connection.pragma("user_version")
    if version > FORMAT:
        raise FormatTooNew(
            f"{path} has format {version}; this otolith knows up to {FORMAT}",
            hint="upgrade otolith",
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
class Place:
    """A store file and how it is to be opened."""

    path: str
    durability: str = "full"
    limit_bytes: int | None = None
    read_only: bool = False
    busy_timeout_seconds: float = 10.0
    vfs: str | None = None


def check_library(version: str) -> None:
    """Refuse an SQLite that can lose what it acknowledged.

    Raises:
        Unsupported: the library is older than the first one without the WAL-reset bug.
    """
    numbers = tuple(int(part) for part in version.split(".")[:3])
    if numbers < OLDEST_SAFE_SQLITE:
        oldest = ".".join(map(str, OLDEST_SAFE_SQLITE))
        raise Unsupported(
            f"SQLite {version} can lose committed writes when two connections reset the WAL",
            hint=f"install an apsw with SQLite {oldest} or newer",
        )


def check_path(path: Path, *, create: bool) -> None:
    """Refuse a path where no store can be, without opening it.

    Whoever closes a file gives up all locks that its process has on it, also those of SQLite. So
    only SQLite opens it, which keeps account of that, and finds out whether it is a database.

    Raises:
        StoreNotFound: there is nothing, and nothing may or can be made.
        NotAStore: there is something else.
        Denied: its directory cannot be looked into.
    """
    found = _stat(path)
    _check_siblings(path)
    if found is None:
        _check_room_for(path, create=create)
        return
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise NotAStore(f"{path} is a directory", hint="give the path of a file in it")
    if kind != stat.S_IFREG:  # opening a pipe would wait for ever
        raise NotAStore(f"{path} is not a file", hint="choose another path")
    if 0 < found.st_size < _SMALLEST_BYTES:  # SQLite takes a single byte for nothing
        raise NotAStore(f"{path} is not an otolith store", hint="choose another path")


def _check_siblings(path: Path) -> None:
    """Refuse files of SQLite's that are none: a pipe would be waited for, a link written through.

    Raises:
        NotAStore: there is one.
    """
    place = os.path.realpath(path)  # SQLite puts its files beside what a link leads to
    for suffix in ("-wal", "-shm", "-journal"):
        with suppress(OSError):
            if not stat.S_ISREG(os.lstat(place + suffix).st_mode):
                raise NotAStore(
                    f"{place}{suffix} is not a file", hint="do not trust this folder; copy the file"
                )


def _stat(path: Path) -> os.stat_result | None:
    """Return what is at a path: a file, a directory or something else; None for nothing."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise Denied(f"{path} cannot be read", hint="check its permissions") from error
    except (OSError, ValueError) as error:  # too long, a loop of links, or a zero in it
        raise Invalid(f"no store can be at {str(path)[:99]!r}: {error}", hint=_ELSEWHERE) from error


_ELSEWHERE = "choose another path"


def check_file_system(path: str, mounts: Iterable[str]) -> None:
    """Refuse a file system whose locks SQLite cannot rely on.

    Raises:
        Unsupported: the path is on a network file system.
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
            hint="keep the file on a local disk",
        )


def mounts() -> list[str]:
    """Return the mount table of this machine, empty where there is none."""
    try:
        with MOUNTS.open(encoding="utf-8", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []


def connect_writer(place: Place, *, create: bool) -> apsw.Connection:
    """Open the connection that writes, and make the store if it is not there yet."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    try:
        connection = GuardedConnection(place.path, flags=flags, vfs=place.vfs, file=place.path)
    except apsw.Error as error:
        raise explained(error, place.path) from error
    try:
        _set_up_writer(connection, place, create=create)
    except (apsw.ReadOnlyError, apsw.CantOpenError) as error:
        give_up(connection)
        raise Denied(
            f"{place.path} cannot be written",
            hint="check the permissions of it and its directory, or open it with read_only=True",
        ) from error
    except apsw.Error as error:
        give_up(connection)
        raise explained(error, place.path) from error
    except BaseException:
        give_up(connection)
        raise
    return connection


def connect_reader(place: Place) -> apsw.Connection:
    """Open a connection that only reads.

    A file on a read-only medium or a full disk has no place for SQLite's shared memory. It is then
    read as a file that never changes, which is right only if no write is waiting beside it.
    """
    try:
        return _read_only(place, place.path, 0)
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError) as error:
        if isinstance(error, apsw.IOError) and not (place.read_only and has_no_room(error)):
            raise explained(error, place.path) from error
        wal = Path(place.path + "-wal")
        if not place.read_only or (wal.exists() and wal.stat().st_size):
            raise ReadOnly(
                f"{place.path} has writes beside it that cannot be read here",
                hint="copy it together with its -wal file to a place that can be written",
            ) from error
    except apsw.Error as error:
        raise explained(error, place.path) from error
    uri = f"file:{quote(place.path)}?immutable=1"
    try:
        return _read_only(place, uri, apsw.SQLITE_OPEN_URI)
    except apsw.Error as error:
        raise explained(error, place.path) from error


def _check_room_for(path: Path, *, create: bool) -> None:
    if not create:
        raise StoreNotFound(f"no store at {path}", hint="check the path, or open it with create")
    if not path.parent.is_dir():
        raise StoreNotFound(f"no directory {path.parent}", hint="make the directory first")


def _set_up_writer(connection: apsw.Connection, place: Place, *, create: bool) -> None:
    connection.set_busy_handler(_patience(place.busy_timeout_seconds))
    if create:
        prepare(connection)
    if connection.pragma("journal_mode") != "wal":
        ensure(connection, place.path, create=create)
        connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full" if place.durability == "full" else "normal")
    connection.pragma("journal_size_limit", _WAL_BYTES)
    connection.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
    if sys.platform == "darwin":
        connection.pragma("fullfsync", 1)
        connection.pragma("checkpoint_fullfsync", 1)
    _set_up(connection)
    ensure(connection, place.path, create=create)
    if place.limit_bytes is not None:
        connection.pragma("max_page_count", max(1, place.limit_bytes // PAGE_BYTES))


def _patience(seconds: float) -> Callable[[int], bool]:
    """Return a handler that asks often: SQLite's own one sleeps up to a tenth of a second."""
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


def _set_up(connection: apsw.Connection) -> None:
    connection.pragma("cell_size_check", 1)
    connection.pragma("cache_size", -_CACHE_KIB)
    connection.pragma("mmap_size", 0)
    connection.pragma("temp_store", "memory")


def _read_only(place: Place, name: str, flags: int) -> apsw.Connection:
    flags |= apsw.SQLITE_OPEN_READONLY
    connection = GuardedConnection(name, flags=flags, vfs=place.vfs, file=place.path)
    try:
        connection.set_busy_handler(_patience(place.busy_timeout_seconds))
        _set_up(connection)
        ensure(connection, place.path, create=False)
    except BaseException:
        give_up(connection)
        raise
    return connection
