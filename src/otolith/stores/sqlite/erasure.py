"""Erasure: after a collection, no file of the store has a byte of what was dropped.

A deleted row is not gone from the file. Its bytes stay in three places, which are cleared in turn:

1. In rows that nothing reaches, but that others are stored as differences from. Those others are
   written again, as differences from what is reached, or whole; then their bases can go.
2. In pages of the file. SQLite leaves what it deletes in free pages and in gaps of used ones, and
   even with `secure_delete` copies that were made while pages were balanced. So the file is
   rebuilt (`vacuum`), which takes the write lock until it is done.
3. In the WAL, until it is copied into the file and cut to nothing. A reader that still has an older
   snapshot prevents that.

Rules
1. A row is written again only as a difference from a row that it was made of already. Another
   collector, which has marked the older chain, has marked that one too.
2. A row without a key is never chosen as a base by a holder of the write lock. So once no row
   differs from it, none will.
3. A row's depth is one more than that of its base at every commit: rows above change along.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable
from time import perf_counter

import apsw

from otolith.errors import Corrupt
from otolith.stores.base import Progress
from otolith.stores.sqlite.connections import ConnectionPool, truncate_wal
from otolith.stores.sqlite.delta import (
    DamagedRow,
    StoredObject,
    base_of,
    depth_of,
    encode,
    with_depth,
)
from otolith.stores.sqlite.objects import ObjectTable, has_key
from otolith.stores.sqlite.sql import FSCK, ask, translated
from otolith.stores.sqlite.write_queue import ShortTransactions

_BLANK_ROW = b"\0"  # a plain row of no bytes
_IN_MEMORY_BYTES = 128 << 20  # a larger file is rebuilt in a temporary one


class Erasure:
    """The last phase of a collection that erases."""

    def __init__(
        self, pool: ConnectionPool, transactions: ShortTransactions, report: Progress
    ) -> None:
        self._pool = pool
        self._connection = transactions.connection
        self._transactions = transactions
        self._report = report
        self._path = pool.file.path
        self._objects = ObjectTable(self._path)
        self._above: dict[int, list[int]] = defaultdict(list)  # the rows that differ from a row
        self._top = 0

    def run(self) -> str:
        """Erase what was dropped; return why that could not be done, or an empty text.

        Raises:
            Corrupt: an object cannot be read. No base was dropped.
        """
        self._drop_bases()
        return self._rebuild()

    def _drop_bases(self) -> None:
        """Delete the rows that are not objects any more, once nothing differs from them."""
        with self._pool.reading() as connection:
            rows = ask(connection, "select id from object where key >> 32 = 0 and key = 0")
            if not rows:
                return
            hidden = {number for (number,) in rows}
            self._read_bases(connection)
        on_hidden = {number for base in hidden for number in self._above[base]}
        self._in_transactions("rewrite", sorted(on_hidden - hidden, reverse=True), self._rewrite)
        self._in_transactions("erase", sorted(hidden), self._delete)

    def _in_transactions(
        self, phase: str, numbers: list[int], change: Callable[[list[int]], None]
    ) -> None:
        """Change rows, from the end of the list, a few in each transaction."""
        total = len(numbers)
        self._transactions.restart()
        while numbers:
            with self._transactions.transaction() as size:
                some = numbers[-size:]
                change(some)
            del numbers[-len(some) :]
            self._report(phase, total - len(numbers), total)

    def _rebuild(self) -> str:
        """Rebuild the file, and empty the WAL; return why that cannot be done now, or nothing."""
        connection = self._connection
        self._pool.erasure_pending = True
        started = perf_counter()
        try:
            size = connection.pragma("page_count") * connection.pragma("page_size")
            self._report("rebuild", 0, size)
            connection.pragma("temp_store", "memory" if size <= _IN_MEMORY_BYTES else "file")
            try:
                ask(connection, "vacuum")
            finally:
                connection.pragma("temp_store", "memory")
            self._report("rebuild", size, size)
        except (apsw.BusyError, apsw.LockedError, apsw.FullError) as error:
            return f"the file was not rebuilt: {translated(error, self._path).message}"
        finally:
            seconds = perf_counter() - started
            longest = self._transactions.longest_seconds
            self._transactions.longest_seconds = max(longest, seconds)
        if not truncate_wal(connection):
            return "another process reads an older state, so the -wal file could not be emptied"
        self._pool.erasure_pending = False
        return ""

    def _read_bases(self, connection: apsw.Connection) -> None:
        """Read which rows differ from which, of rows added since the last call."""
        query = "select id, cast(substr(data, 1, 6) as blob) from object where id>? order by id"
        for number, head in ask(connection, query, (self._top,)):
            self._top = number
            try:
                base = base_of(head)
            except DamagedRow:
                continue  # it has no base to follow; reading it raises Corrupt
            if base is not None:
                self._above[base].append(number)

    def _rewrite(self, numbers: list[int]) -> None:
        self._read_bases(self._connection)
        for number in reversed(numbers):
            row = self._row(number)
            if row is None:
                continue  # another collector was faster
            try:
                self._replace(number, self._encode_again(number, row))
            except DamagedRow as error:
                raise Corrupt(
                    f"{self._path}: row {number}: {error}; what it differs from was not erased",
                    hint=FSCK,
                ) from error

    def _encode_again(self, number: int, row: bytes) -> bytes:
        """Return a row as a difference from the nearest base that is an object, or whole."""
        data = self._objects.decode_row(self._connection, number, row)
        key = self._key(number)
        if key and not has_key(data, key):
            raise DamagedRow("its bytes do not match its hash")
        base = base_of(row)
        while base is not None and not self._key(base):
            base = base_of(self._objects.read_row(self._connection, base))
        if base is None:
            return encode(data, None)
        below = self._objects.read_row(self._connection, base)
        plain = self._objects.decode_row(self._connection, base, below)
        return encode(data, StoredObject(base, depth_of(below), plain))

    def _replace(self, number: int, row: bytes) -> None:
        """Write a row in place of another, and correct the depths of those above it."""
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
        """Delete rows; the newest of all is blanked, so that its number is not used again."""
        ((newest,),) = ask(self._connection, "select max(id) from object")
        self._connection.executemany(
            "delete from object where id=? and key=0",
            [(number,) for number in numbers if number != newest],
        )
        if newest in numbers:
            self._put(newest, _BLANK_ROW)
