"""The SQLite store: one file, shared by threads and processes.

Theory of operation. A write is one `BEGIN IMMEDIATE` transaction: fences, swaps and needs are
checked, then objects, refs and moves are written, so a crash leaves all of it or nothing (`turns`).
An object is kept as a difference from the one it replaced (`delta`), and proven by its hash at
every read (`objects`); refs are proven by checksums (`refs`). Reads run beside writes, each in a
snapshot of its own (`connections`). What no ref reaches is dropped in small steps (`collect`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from threading import Thread
from typing import Literal

import apsw

from otolith.errors import Error, Invalid
from otolith.stores.base import (
    Batch,
    Capabilities,
    Collected,
    Links,
    Move,
    Object,
    Store,
    Usage,
    check_frame,
    check_object,
    check_prefix,
    check_size,
    digest,
    newest_first,
)
from otolith.stores.sqlite import schema
from otolith.stores.sqlite.connections import Connections
from otolith.stores.sqlite.gc import Collection
from otolith.stores.sqlite.group_commit import GroupCommit
from otolith.stores.sqlite.objects import Draft, Objects, Prepared
from otolith.stores.sqlite.refs import History, Refs
from otolith.stores.sqlite.sql import ask
from otolith.types import Hash

_CAPABILITIES = Capabilities(verified=True, durable=True, shared=True, collects=True)


class SqliteStore:
    """Objects and refs in one SQLite file.

    `durability="full"` syncs the disk before a write returns; `"fast"` may lose the last writes
    in a power cut (never in a crash of the process), and leaves a consistent store all the same.
    `limit_bytes` bounds the file: a write that would pass it is refused, nothing is evicted.
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
        file = os.path.abspath(path)  # noqa: PTH100 - a symlink stays what the user named
        place = schema.Place(file, durability, limit_bytes, read_only, busy_timeout_seconds, vfs)
        create = create and not read_only
        schema.check_library(apsw.sqlite_lib_version())
        schema.check_path(Path(file), create=create)
        schema.check_file_system(str(Path(file).resolve()), schema.mounts())
        self._connections = Connections(place, create=create)
        self._objects = Objects(file)
        self._refs = Refs(file, remembers=True)
        self._history = History(file, self._objects)
        self._expected = Prepared()
        self._connections.after_fork.append(self._expected.forget)
        self._turns = GroupCommit(self._connections, self._objects, self._refs, self._history)

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return self._connections.place.path

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        with self._connections.reading() as connection:
            return self._objects.read(connection, hashes)

    def write(self, batch: Batch) -> None:
        check_frame(batch)
        self._turns.check_writable()
        self._turns.write(batch, self._drafts(batch))

    def expect(self, objects: Sequence[bytes]) -> list[Hash]:
        for data in objects:
            check_size(data)
        drafts = [self._objects.draft(None, Object(digest(data), data)) for data in objects]
        for draft in drafts:
            self._expected.put(draft)
        return [draft.hash for draft in drafts]

    def ref(self, name: str) -> Hash | None:
        with self._connections.reading() as connection:
            row = self._refs.get(connection, name)
            return row.hash if row is not None else None

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        with self._connections.reading() as connection:
            rows = self._refs.rows(connection)
        found = {row.name: row.hash for row in rows if row.hash is not None}
        return {name: found[name] for name in sorted(found) if name.startswith(prefix)}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        with self._connections.reading() as connection:
            if name is not None:
                row = self._refs.get(connection, name)
                return self._history.read(connection, name, row.last if row else 0, limit)
            rows = self._refs.rows(connection)
            seen: set[int] = set()
            each = [self._history.read(connection, row.name, row.last, limit, seen) for row in rows]
        return newest_first(each)[:limit]

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        check_prefix(prefix)
        found: list[Hash] = []
        with self._connections.reading() as connection:
            for name in self._objects.matching(connection, prefix):
                if len(found) == limit:
                    break
                found.append(name)
        return found

    def usage(self) -> Usage:
        with self._connections.reading() as connection:
            count = self._objects.count(connection)
            size = connection.pragma("page_count") * connection.pragma("page_size")
            return Usage(count, size, self._connections.place.limit_bytes)

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> Collected:
        self._turns.check_writable()
        collection = Collection(
            self._connections, self._objects, Refs(self.path), self._history, links=links
        )
        return collection.run(forget_moves_before, progress=progress, dry_run=dry_run, erase=erase)

    def reread(self) -> Store:
        again = copy(self)
        again._remember_nothing()  # noqa: SLF001 - a copy of ourselves
        return again

    def _remember_nothing(self) -> None:
        self._objects, self._refs = Objects(self.path), Refs(self.path)
        self._history = History(self.path, self._objects)

    def check(self) -> list[tuple[str, str]]:
        with self._connections.reading() as connection:
            said = [text for (text,) in ask(connection, "pragma integrity_check")]
            broken = [("file", text) for text in said if text != "ok"]
            broken += [("file", text) for text in self._objects.odd_numbers(connection)]
            return broken + [("fences", text) for text in self._refs.broken_fences(connection)]

    def close(self) -> None:
        self._expected.forget()
        self._connections.close()

    def _drafts(self, batch: Batch) -> list[Draft]:
        recent = self._objects.recent.get
        if all(item.base is None or recent(item.base) for item in batch.objects):
            return _side_by_side(lambda item: self._draft(None, item), batch.objects)
        with self._connections.reading() as connection:
            return [self._draft(connection, item) for item in batch.objects]

    def _draft(self, connection: apsw.Connection | None, item: Object) -> Draft:
        ready = self._expected.take(item)
        if ready is not None:
            return ready
        check_object(item)
        return self._objects.draft(connection, item)


def _side_by_side(draft: Callable[[Object], Draft], objects: Sequence[Object]) -> list[Draft]:
    """Draft objects in two threads if there is much to compress, which is done without the lock."""
    if sum(len(item.data) for item in objects) < _MUCH_BYTES:
        return [draft(item) for item in objects]
    middle = len(objects) // 2
    second: list[Draft] = []

    def help_out() -> None:
        # What it failed at is done again below, and says why.
        with suppress(Error, MemoryError):
            second.extend(map(draft, objects[middle:]))

    helper = Thread(target=help_out)
    try:
        helper.start()
    except RuntimeError:  # no thread can be had
        return list(map(draft, objects))
    try:
        first = list(map(draft, objects[:middle]))
    finally:
        helper.join()
    return first + second + list(map(draft, objects[middle + len(second) :]))


_MUCH_BYTES = 1 << 20
