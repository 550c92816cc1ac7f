"""The SQLite store: one connection that writes, a few that read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Literal

import apsw

from otolith.errors import Closed, Corrupt, Invalid, NotFound, ReadOnly, Unavailable
from otolith.stores.base import Batch, Capabilities, Move, Usage
from otolith.stores.rules import check, check_prefix
from otolith.stores.sqlite import opening
from otolith.stores.sqlite.failures import FSCK, explained
from otolith.stores.sqlite.objects import Draft, Objects, key_of
from otolith.stores.sqlite.opening import Place
from otolith.stores.sqlite.refs import MoveRow, Refs
from otolith.types import Hash


class SqliteStore:
    """Objects and refs in one SQLite file, shared by threads and processes."""

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
        library_version: str | None = None,
        mounts: Iterable[str] | None = None,
    ) -> None:
        if durability not in ("full", "fast"):
            raise Invalid(f"durability {durability!r} is not known", hint="use 'full' or 'fast'")
        place = os.path.abspath(os.fspath(path))
        opening.check_library(library_version or apsw.sqlite_lib_version())
        opening.check_path(place, create=create and not read_only)
        opening.check_file_system(
            os.path.realpath(place), opening.mounts() if mounts is None else mounts
        )
        self._place = Place(place, durability, limit_bytes, read_only, busy_timeout_seconds, vfs)
        self._lock = Lock()
        self._closed = False
        self._failed: str = ""
        self._objects = Objects(place)
        self._refs = Refs(place)
        self._readers: list[apsw.Connection] = []
        self._writer: apsw.Connection | None = None
        if read_only:
            self._readers.append(opening.connect_reader(self._place))
        else:
            self._writer = opening.connect_writer(self._place, create=create)

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return self._place.path

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(verified=True, durable=True, shared=True, collects=False)

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        with _Reading(self) as connection:
            return self._objects.read(connection, hashes)

    def ref(self, name: str) -> Hash | None:
        with _Reading(self) as connection:
            row = self._refs.get(connection, name)
            return row.hash if row is not None else None

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        with _Reading(self) as connection:
            found = self._refs.all(connection)
        return {name: value for name, value in found.items() if name.startswith(prefix)}

    def moves(self, name: str, *, limit: int | None = None) -> list[Move]:
        with _Reading(self) as connection:
            row = self._refs.get(connection, name)
            if row is None:
                return []
            rows = self._refs.chain(connection, row.last, limit)
            return [self._move(connection, name, move) for move in rows]

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        check_prefix(prefix)
        with _Reading(self) as connection:
            found = []
            for name in self._objects.matching(connection, prefix):
                if len(found) == limit:
                    break
                found.append(name)
            return found

    def usage(self) -> Usage:
        with _Reading(self) as connection:
            (count,) = connection.execute("select count(*) from object").fetchall()[0]
            pages, page_bytes = connection.pragma("page_count"), connection.pragma("page_size")
            return Usage(count, pages * page_bytes, self._place.limit_bytes)

    def write(self, batch: Batch) -> None:
        check(batch)
        self._check_writable()
        drafts = self._drafts(batch)
        with self._lock:
            self._check_writable()
            self._commit(batch, drafts)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            while self._readers:
                self._readers.pop().close()
            if self._writer is not None:
                self._tidy(self._writer)
                self._writer.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"{self.path} was closed", hint="open it again")

    def _check_writable(self) -> None:
        self._check_open()
        if self._place.read_only:
            raise ReadOnly(f"{self.path} was opened to read", hint="open it without read_only")
        if self._failed:
            raise ReadOnly(
                f"{self.path} takes no more writes: {self._failed}",
                hint="check the disk, then open it again",
            )

    def _drafts(self, batch: Batch) -> list[Draft]:
        recent = self._objects.recent.get
        if all(item.base is None or recent(item.base) for item in batch.objects):
            return [self._objects.draft(None, item) for item in batch.objects]
        with _Reading(self) as connection:
            return [self._objects.draft(connection, item) for item in batch.objects]

    def _commit(self, batch: Batch, drafts: list[Draft]) -> None:
        connection = self._writer
        if connection is None:
            raise Closed(f"{self.path} was closed", hint="open it again")
        try:
            connection.execute("begin immediate")
        except apsw.Error as error:
            raise explained(error, self.path) from error
        limit = self._place.limit_bytes
        try:
            self._refs.check(connection, batch)
            self._check_needs(connection, batch.needs)
            added = self._objects.insert(connection, drafts)
            self._refs.apply(connection, batch, lambda side: self._side(connection, side))
            limit = None  # the limit refuses a statement, never a commit
            connection.execute("commit")
        except apsw.Error as error:
            _roll_back(connection)
            if isinstance(error, apsw.IOError):
                self._failed = str(error)
                raise Unavailable(
                    f"{self.path}: the disk failed during a write: {error}",
                    hint="check the disk; open the store again to see whether the write landed",
                ) from error
            raise explained(error, self.path, limit_bytes=limit) from error
        except BaseException:
            _roll_back(connection)
            raise
        for name, item in added:
            self._objects.recent.put(name, item)

    def _check_needs(self, connection: apsw.Connection, needs: Sequence[Hash]) -> None:
        for name in needs:
            if not self._objects.holds(connection, name):
                raise NotFound(
                    f"{self.path}: object {name.hex()[:12]} is gone", hint="write it again"
                )

    def _side(self, connection: apsw.Connection, name: Hash | None) -> object:
        """Return the short form of a hash for the history: its key, if that names one object."""
        if name is None:
            return None
        key = key_of(name)
        rows = connection.execute("select id from object where key=? limit 2", (key,)).fetchall()
        return key if len(rows) == 1 else name

    def _move(self, connection: apsw.Connection, name: str, row: MoveRow) -> Move:
        old, new = (self._whole(connection, name, side) for side in (row.old, row.new))
        return Move(name, old, new, row.time, row.note)

    def _whole(
        self, connection: apsw.Connection, name: str, side: int | bytes | None
    ) -> Hash | None:
        if side is None:
            return None
        if isinstance(side, bytes):
            return Hash(side)
        found = self._objects.named(connection, side)
        if found is None:
            raise Corrupt(f"{self.path}: the history of {name} names a lost object", hint=FSCK)
        return found

    def _tidy(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("pragma optimize")
            connection.execute("pragma wal_checkpoint(passive)").fetchall()
        except apsw.Error:
            pass  # tidying is a courtesy; whoever opens the file next does it


class _Reading:
    """A snapshot to read from: one connection of the pool, inside one read transaction."""

    __slots__ = ("_connection", "_store")

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __enter__(self) -> apsw.Connection:
        store = self._store
        store._check_open()
        try:
            connection = store._readers.pop()
        except IndexError:
            connection = opening.connect_reader(store._place)
        self._connection = connection
        connection.execute("begin")
        return connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        connection, store = self._connection, self._store
        _roll_back(connection)
        if store._closed:
            connection.close()
        else:
            store._readers.append(connection)
        if isinstance(error, apsw.Error):
            raise explained(error, store.path) from error


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("rollback")
