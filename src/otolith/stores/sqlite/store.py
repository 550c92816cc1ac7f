"""The SQLite store: one file, shared by threads and processes.

Theory of operation. A write is one `BEGIN IMMEDIATE` transaction: fences, swaps and needs are
checked, then objects, refs and moves are written, so a crash leaves all of it or nothing
(`group_commit`). An object is stored as a difference from the one it replaced (`delta`), and proven
by its hash at every read (`objects`); refs are proven by checksums (`refs`). Reads run beside
writes, each in its own snapshot (`connections`). What no ref reaches is dropped in small
transactions (`gc`), and erased from the file on request (`erasure`). `schema` has the tables, and
refuses files that are something else; `sql` runs statements and translates errors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from copy import copy
from functools import cached_property
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Literal

import apsw

from otolith.errors import Error, Invalid
from otolith.stores.base import (
    Batch,
    Capabilities,
    CollectionReport,
    Links,
    Move,
    Object,
    Progress,
    RefTurn,
    Store,
    Subscription,
    Usage,
    check_header,
    check_limit,
    check_object,
    check_object_size,
    check_prefix,
    digest,
    newest_first,
)
from otolith.stores.sqlite import schema
from otolith.stores.sqlite.connections import ConnectionPool
from otolith.stores.sqlite.gc import SqliteCollector
from otolith.stores.sqlite.group_commit import GroupCommit
from otolith.stores.sqlite.news import SqliteNews
from otolith.stores.sqlite.objects import ObjectTable, PreparedRow, PreparedRows
from otolith.stores.sqlite.ref_lines import TicketLines
from otolith.stores.sqlite.refs import MoveTable, RefTable
from otolith.stores.sqlite.sql import ask
from otolith.types import Hash

_CAPABILITIES = Capabilities(verified=True, durable=True, shared=True, collects=True, notifies=True)
_TWO_THREADS_FROM_BYTES = 1 << 20


class SqliteStore:
    """Objects and refs in one SQLite file.

    `durability="full"` syncs the disk before a write returns; `"fast"` may lose the last writes
    in a power cut (never in a crash of the process), and leaves a consistent store all the same.
    `limit_bytes` bounds the file: a write that would pass it raises QuotaExceeded.
    `busy_timeout_seconds` is how long a write waits for other processes before it raises Busy.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Literal["full", "fast"] = "full",
        limit_bytes: int | None = None,
        read_only: bool = False,
        create: bool = True,
        busy_timeout_seconds: float = 10.0,
        vfs: str | None = None,
    ) -> None:
        if durability not in {"full", "fast"}:
            raise Invalid(f"durability {durability!r} is not known", hint="use 'full' or 'fast'")
        absolute = os.path.abspath(path)  # noqa: PTH100 - a symlink stays what the user named
        if limit_bytes is not None:
            check_limit(limit_bytes)
        file = schema.StoreFile(
            absolute, durability, limit_bytes, read_only, busy_timeout_seconds, vfs
        )
        create = create and not read_only
        schema.check_library(apsw.sqlite_lib_version())
        schema.check_path(Path(absolute), create=create)
        schema.check_file_system(str(Path(absolute).resolve()), schema.mounts())
        self._connections = ConnectionPool(file, create=create)
        self._open_tables(remembers=True)
        self._prepared = PreparedRows()
        self._connections.after_fork.append(self._prepared.clear)
        self._group_commit = GroupCommit(self._connections, self._objects, self._refs, self._moves)

    def __repr__(self) -> str:
        """Show the file."""
        return f"<{type(self).__name__} {self.path}>"

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return self._connections.file.path

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return _CAPABILITIES

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; absent ones are left out."""
        with self._connections.reading() as connection:
            found = {name: self._objects.load(connection, name) for name in hashes}
        return {name: item.data for name, item in found.items() if item is not None}

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically."""
        check_header(batch)
        self._group_commit.check_writable()
        self._group_commit.write(batch, self._encode(batch.objects))

    def prepare(self, objects: Sequence[bytes]) -> list[Hash]:
        """Encode objects that will probably be written soon, and return their hashes."""
        for data in objects:
            check_object_size(data)
        rows = [self._objects.prepare(None, Object(digest(data), data)) for data in objects]
        for row in rows:
            self._prepared.put(row)
        return [row.hash for row in rows]

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        with self._connections.reading() as connection:
            row = self._refs.get(connection, name)
            return row.hash if row is not None else None

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        with self._connections.reading() as connection:
            rows = self._refs.rows(connection)
        found = {row.name: row.hash for row in rows if row.hash is not None}
        return {name: found[name] for name in sorted(found) if name.startswith(prefix)}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""
        with self._connections.reading() as connection:
            if name is not None:
                row = self._refs.get(connection, name)
                return self._moves.read(connection, name, row.last if row else 0, limit)
            seen: set[int] = set()
            histories = [
                self._moves.read(connection, row.name, row.last, limit, seen)
                for row in self._refs.rows(connection)
            ]
        return newest_first(histories)[:limit]

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes."""
        check_prefix(prefix)
        with self._connections.reading() as connection:
            return list(islice(self._objects.find(connection, prefix), limit))

    def usage(self) -> Usage:
        """Return how much is stored; `stored_bytes` is the length of the file."""
        with self._connections.reading() as connection:
            count = self._objects.count(connection)
            size = connection.pragma("page_count") * connection.pragma("page_size")
            return Usage(count, size, self._connections.file.limit_bytes)

    def subscribe(self, prefix: str = "") -> Subscription:
        """Return a subscription to all refs whose name starts with `prefix`."""
        self._connections.check_open()
        return self._news.subscribe(prefix)

    def turn(self, name: str) -> AbstractContextManager[RefTurn]:
        """Lend a turn at a ref, for a writer that reads it and then moves it."""
        return self._lines.turn(name)

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Progress | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> CollectionReport:
        """Drop what is not reached, beside readers and writers."""
        self._group_commit.check_writable()
        collector = SqliteCollector(
            self._connections, self._objects, RefTable(self.path), self._moves, links=links
        )
        return collector.run(forget_moves_before, progress=progress, dry_run=dry_run, erase=erase)

    def uncached(self) -> Store:
        """Return this store over the same connections, without its caches."""
        store = copy(self)
        store._open_tables()  # noqa: SLF001 - a copy of ourselves
        return store

    def check(self) -> list[tuple[str, str]]:
        """Return what is damaged in the file beside objects, refs and moves."""
        with self._connections.reading() as connection:
            reported = [text for (text,) in ask(connection, "pragma integrity_check")]
            damage = [text for text in reported if text != "ok"]
            damage += self._objects.check_row_ids(connection)
            fences = self._refs.check_fences(connection)
        return [("file", text) for text in damage] + [("fences", text) for text in fences]

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        self._prepared.clear()
        if "_news" in vars(self):
            self._news.close()
        self._connections.close()
        if "_lines" in vars(self):
            self._lines.close()

    @cached_property
    def _lines(self) -> TicketLines:
        lines = TicketLines(self._connections.file)
        self._connections.after_fork.append(lines.forget)
        return lines

    @cached_property
    def _news(self) -> SqliteNews:
        return SqliteNews(self._connections)

    def _open_tables(self, *, remembers: bool = False) -> None:
        self._objects = ObjectTable(self.path)
        self._refs = RefTable(self.path, remembers=remembers)
        self._moves = MoveTable(self.path, self._objects)

    def _encode(self, objects: Sequence[Object]) -> list[PreparedRow]:
        """Return the rows of objects; bases are read from the file only if they are not cached."""
        cached = self._objects.recent.get
        if all(item.base is None or cached(item.base) for item in objects):
            return _map_in_two_threads(lambda item: self._encode_one(None, item), objects)
        with self._connections.reading() as connection:
            return [self._encode_one(connection, item) for item in objects]

    def _encode_one(self, connection: apsw.Connection | None, item: Object) -> PreparedRow:
        prepared = self._prepared.take(item)
        if prepared is not None:
            return prepared
        check_object(item)
        return self._objects.prepare(connection, item)


def _map_in_two_threads(
    encode: Callable[[Object], PreparedRow], objects: Sequence[Object]
) -> list[PreparedRow]:
    """Encode objects, in two threads if there is much to compress: zstd releases the GIL."""
    if sum(len(item.data) for item in objects) < _TWO_THREADS_FROM_BYTES:
        return [encode(item) for item in objects]
    middle = len(objects) // 2
    second: list[PreparedRow] = []

    def encode_second_half() -> None:
        # An object that failed is encoded again below, which raises the error.
        with suppress(Error, MemoryError):
            second.extend(map(encode, objects[middle:]))

    helper = Thread(target=encode_second_half)
    try:
        helper.start()
    except RuntimeError:  # no thread can be started
        return list(map(encode, objects))
    try:
        first = list(map(encode, objects[:middle]))
    finally:
        helper.join()
    return first + second + list(map(encode, objects[middle + len(second) :]))
