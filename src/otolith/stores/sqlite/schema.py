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
"""

from __future__ import annotations

import apsw

from otolith.errors import FormatTooNew, NotAStore
from otolith.stores.sqlite.query import ask
from otolith.stores.sqlite.refs import zero_row

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
    connection.execute("begin immediate")
    try:
        if _is_blank(connection):  # another process may have been quicker
            for line in _TABLES:
                connection.execute(line)
            connection.execute("insert into ref values('', ?, 0, ?)", zero_row())
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
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
