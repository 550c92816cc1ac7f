"""Erasing: after a collection, no file of the store has a byte of what was dropped.

A deleted row is not gone from the file. Its bytes stay in three places, which are cleared in turn:

1. In rows that nothing reaches, but that others are stored as differences from. Those others are
   written anew, as differences from what is reached, or whole; then their bases can go.
2. In pages of the file. SQLite leaves what it deletes in free pages and in gaps of used ones, and
   even with `secure_delete` copies that were made while pages were balanced. So the file is
   rebuilt (`vacuum`), which takes the write lock until it is done.
3. In the WAL, until it is moved into the file and cut to nothing. A reader that still looks at an
   older state holds that back.

Rules.
1. A row is written anew only as a difference from a row that it was made of already. Another
   collector, which has marked the older chain, keeps that one too.
2. A row without a key is never chosen as a base, by whoever holds the write lock. So once no row
   differs from it, none will.
3. A row's depth is one more than that of its base at every commit: rows above go along.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from time import perf_counter

import apsw

from otolith.errors import Corrupt, Error
from otolith.stores.sqlite.connections import Connections, truncate_wal
from otolith.stores.sqlite.delta import Base, Damaged, base_of, depth_of, encode, with_depth
from otolith.stores.sqlite.objects import Objects, is_named
from otolith.stores.sqlite.sql import FSCK, ask, explained
from otolith.stores.sqlite.steps import Steps

Progress = Callable[[str, int, int], None]

_BLANK = b"\0"  # a row of no bytes
_IN_MEMORY_BYTES = 128 << 20  # a larger file is rebuilt in a temporary one


class Erasure:
    """What follows the sweep of a collection that erases."""

    def __init__(self, connections: Connections, steps: Steps, tell: Progress) -> None:
        self._connections = connections
        self._connection = steps.connection
        self._steps = steps
        self._tell = tell
        self._path = connections.place.path
        self._objects = Objects(self._path)
        self._above: dict[int, list[int]] = defaultdict(list)
        self._top = 0

    def drop_bases(self) -> None:
        """Delete the rows that are no objects any more, once nothing differs from them.

        Raises:
            Corrupt: an object cannot be read. No base was dropped.
        """
        hidden = self._hidden()
        if not hidden:
            return
        with self._connections.reading() as connection:
            self._look(connection)
        on_hidden = {number for base in hidden for number in self._above[base]}
        roots = sorted(on_hidden - hidden)
        self._rewrite(roots)
        self._delete(sorted(hidden))

    def rebuild(self) -> str:
        """Rebuild the file, and empty the WAL; return why that cannot be done now, or nothing."""
        self._connections.unfinished = True
        started = perf_counter()
        try:
            self._vacuum()
        except (apsw.BusyError, apsw.LockedError, apsw.FullError) as error:
            return f"the file was not rebuilt: {_reason(error, self._path)}"
        finally:
            held = perf_counter() - started
            self._steps.longest_seconds = max(self._steps.longest_seconds, held)
        if not truncate_wal(self._connection):
            return "somebody reads an older state, so the -wal file could not be emptied"
        self._connections.unfinished = False
        return ""

    def _vacuum(self) -> None:
        connection = self._connection
        size = connection.pragma("page_count") * connection.pragma("page_size")
        self._tell("rebuild", 0, size)
        connection.pragma("temp_store", "memory" if size <= _IN_MEMORY_BYTES else "file")
        try:
            ask(connection, "vacuum")
        finally:
            connection.pragma("temp_store", "memory")
        self._tell("rebuild", size, size)

    def _hidden(self) -> set[int]:
        with self._connections.reading() as connection:
            rows = ask(connection, "select id from object where key >> 32 = 0 and key = 0")
        return {number for (number,) in rows}

    def _look(self, connection: apsw.Connection) -> None:
        """Learn which rows differ from which, of rows that are new to us."""
        query = "select id, cast(substr(data, 1, 6) as blob) from object where id>? order by id"
        for number, head in ask(connection, query, (self._top,)):
            self._top = number
            try:
                base = base_of(head)
            except Damaged:
                continue  # it has no base to follow, and whoever reads it is told
            if base is not None:
                self._above[base].append(number)

    def _rewrite(self, roots: list[int]) -> None:
        todo = roots[::-1]
        self._steps.reset()
        while todo:
            with self._steps.step() as size:
                self._look(self._connection)
                some = todo[-size:]
                for number in reversed(some):
                    self._write_anew(number)
            del todo[-len(some) :]
            self._tell("rewrite", len(roots) - len(todo), len(roots))

    def _write_anew(self, number: int) -> None:
        row = self._row(number)
        if row is None:
            return  # another collector was quicker
        try:
            self._update(number, self._anew(number, row))
        except Damaged as error:
            message = f"{self._path}: row {number}: {error}; what it differs from was not erased"
            raise Corrupt(message, hint=FSCK) from error

    def _anew(self, number: int, row: bytes) -> bytes:
        data = self._objects.plain(self._connection, number, row)
        key = self._key(number)
        if key and not is_named(data, key):
            raise Damaged("its bytes do not have its hash")
        base = base_of(row)
        while base is not None and not self._key(base):
            base = base_of(self._objects.row(self._connection, base))
        if base is None:
            return encode(data, None)
        below = self._objects.row(self._connection, base)
        plain = self._objects.plain(self._connection, base, below)
        return encode(data, Base(base, depth_of(below), plain))

    def _update(self, number: int, row: bytes) -> None:
        """Put a row in place of another, and let the depths of those above it follow."""
        self._put(number, row)
        base = base_of(row)
        if base is not None:
            insort(self._above[base], number)
        todo = [(number, depth_of(row))]
        while todo:
            below, depth = todo.pop()
            for above in self._above[below]:
                higher = self._row(above)
                if higher is None or base_of(higher) != below or depth_of(higher) == depth + 1:
                    continue
                self._put(above, with_depth(higher, depth + 1))
                todo.append((above, depth + 1))

    def _row(self, number: int) -> bytes | None:
        query = "select cast(data as blob) from object where id=?"
        rows = ask(self._connection, query, (number,))
        return rows[0][0] if rows else None

    def _key(self, number: int) -> int:
        rows = ask(self._connection, "select key from object where id=?", (number,))
        return rows[0][0] if rows and isinstance(rows[0][0], int) else 0

    def _put(self, number: int, row: bytes) -> None:
        self._connection.execute("update object set data=? where id=?", (row, number))

    def _delete(self, numbers: list[int]) -> None:
        total = len(numbers)
        self._steps.reset()
        while numbers:
            with self._steps.step() as size:
                some = numbers[-size:]
                self._delete_some(some)
            del numbers[-len(some) :]
            self._tell("erase", total - len(numbers), total)

    def _delete_some(self, numbers: Sequence[int]) -> None:
        """Delete rows; the newest of all is blanked, so that its number does not come again."""
        ((newest,),) = ask(self._connection, "select max(id) from object")
        self._connection.executemany(
            "delete from object where id=? and key=0",
            [(number,) for number in numbers if number != newest],
        )
        if newest in numbers:
            self._put(newest, _BLANK)


def _reason(error: apsw.Error, path: str) -> str:
    found: Error = explained(error, path)
    return found.message
