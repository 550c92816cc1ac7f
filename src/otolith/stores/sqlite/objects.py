"""The object table: rows found by the first 64 bits of a hash, proven by all of it.

The hash of an object is not stored. Every read decodes the rows that have the same key, hashes
them, and returns the one whose hash is asked for; so a damaged row is never an answer.

Rows are encoded outside of the write lock (`prepare`) and inserted under it (`insert`). In between
another process may have collected the base that a row differs from, so `insert` looks at the bases
again. `PreparedRows` holds rows that were encoded even before the write was asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from struct import Struct
from threading import Lock
from typing import Any, NamedTuple

import apsw
from blake3 import blake3

from otolith.errors import Corrupt
from otolith.stores.base import Object, digest
from otolith.stores.sqlite.delta import (
    DEPTH_LIMIT,
    DamagedRow,
    StoredObject,
    base_of,
    decode,
    depth_of,
    encode,
)
from otolith.stores.sqlite.sql import FSCK, ask, each
from otolith.types import Hash

LAST_ROW = (1 << 40) - 1  # a difference names its base in five bytes

_KEY = Struct(">q")
_GROUP = 4  # a small commit has as many objects
_RECENT_BYTES = 48 << 20
_PREPARED_BYTES = 256 << 20

# A flipped bit can turn a blob into text or NULL, hence the casts.
_SELECT_KEYS = """select key from object where key >> 32 in (?1 >> 32, ?2 >> 32, ?3 >> 32, ?4 >> 32)
    and key in (?1, ?2, ?3, ?4)"""
SELECT_ROWS = "select id, cast(data as blob) from object where key >> 32 = ?1 >> 32 and key = ?1"
_SELECT_BASES = """select id, key, cast(substr(data, 1, 1) as blob) from object
    where id in (?, ?, ?, ?)"""


class BaseRow(NamedTuple):
    """The row that another one differs from, as it must still be when that one is inserted."""

    id: int
    key: int
    depth: int


class PreparedRow(NamedTuple):
    """An object and its row, encoded outside of the write lock."""

    hash: Hash
    key: int
    data: bytes
    row: bytes
    base: BaseRow | None


def key_of(name: bytes) -> int:
    """Return the key of a hash: its first 64 bits, as a signed number."""
    key: int = _KEY.unpack_from(name)[0]
    return key


def has_key(data: bytes, key: int) -> bool:
    """Return whether the hash of these bytes has this key."""
    return key_of(blake3(data).digest()) == key


class RecentObjects:
    """A cache of objects by hash and by row id, in two generations.

    A miss costs a read, never correctness: row ids are never used twice, so an entry can be out of
    date only by being gone from the file.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._half = limit_bytes // 2
        self._size = 0
        self._young: dict[Hash | int, StoredObject] = {}
        self._old: dict[Hash | int, StoredObject] = {}

    def get(self, name: Hash | int) -> StoredObject | None:
        """Return the object with a hash or row id, if it is cached."""
        found = self._young.get(name)
        if found is None:
            found = self._old.get(name)
            if found is not None:
                self._add(name, found)
        return found

    def put(self, name: Hash, item: StoredObject) -> None:
        """Cache an object under its hash and its row id."""
        self._add(name, item)
        self._young[item.id] = item

    def put_row(self, item: StoredObject) -> None:
        """Cache an object under its row id only."""
        self._add(item.id, item)

    def clear(self) -> None:
        """Empty the cache."""
        self._young, self._old, self._size = {}, {}, 0

    def _add(self, name: Hash | int, item: StoredObject) -> None:
        self._size += len(item.data) + 200
        if self._size > self._half:
            self._old, self._young, self._size = self._young, {}, len(item.data)
        self._young[name] = item


class ObjectTable:
    """Reads and writes rows of the object table over the connection that it is given."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.recent = RecentObjects(_RECENT_BYTES)

    def load(self, connection: apsw.Connection, name: Hash) -> StoredObject | None:
        """Return an object and where it is stored, or None.

        Raises:
            Corrupt: there are rows with its key, but none that has its hash.
        """
        rows = ask(connection, SELECT_ROWS, (key_of(name),))
        reason = ""
        for number, row in rows:
            try:
                data = self.decode_row(connection, number, row)
            except DamagedRow as error:
                reason = str(error)
                continue
            if blake3(data).digest() == name:
                item = StoredObject(number, depth_of(row), data)
                self.recent.put(name, item)
                return item
        if rows:
            reason = reason or "its bytes do not match its hash"
            raise Corrupt(f"{self._path}: object {name.hex()[:12]}: {reason}", hint=FSCK)
        return None

    def holds(self, connection: apsw.Connection, name: Hash) -> bool:
        """Return whether an object is there and undamaged."""
        try:
            return self.load(connection, name) is not None
        except Corrupt:
            return False

    def decode_row(self, connection: apsw.Connection, number: int, row: bytes) -> bytes:
        """Return the plain bytes of a row, following its chain of bases.

        Raises:
            DamagedRow: the row, or one below it, cannot be decoded.
        """
        chain: list[tuple[int, bytes]] = []
        data = b""
        while (base := base_of(row)) is not None:
            chain.append((number, row))
            if base >= (number or 0) or len(chain) > DEPTH_LIMIT:  # damage can make it NULL
                raise DamagedRow("its chain of differences is broken")
            known = self.recent.get(base)
            if known is not None:
                data = known.data
                break
            number, row = base, self.read_row(connection, base)
        else:
            data = decode(row, b"")
        for number, row in reversed(chain):
            data = decode(row, data)
            self.recent.put_row(StoredObject(number, depth_of(row), data))
        return data

    def read_row(self, connection: apsw.Connection, number: int) -> bytes:
        """Return the bytes of a row that others differ from, or raise DamagedRow."""
        rows = ask(connection, "select cast(data as blob) from object where id=?", (number,))
        if not rows or rows[0][0] is None:
            raise DamagedRow(f"row {number}, which it differs from, is missing")
        row: bytes = rows[0][0]
        return row

    def prepare(self, connection: apsw.Connection | None, item: Object) -> PreparedRow:
        """Encode an object. Without a connection only cached bases are used."""
        base = None
        if item.base is not None:
            base = self.recent.get(item.base)
            if base is None and connection is not None:
                try:
                    base = self.load(connection, item.base)
                except Corrupt:
                    base = None  # the new object is stored whole
        row = encode(item.data, base)
        used = None
        if base is not None and item.base is not None and base_of(row) is not None:
            used = BaseRow(base.id, key_of(item.base), base.depth)
        return PreparedRow(item.hash, key_of(item.hash), item.data, row, used)

    def insert(
        self, connection: apsw.Connection, prepared: Sequence[PreparedRow]
    ) -> tuple[list[tuple[Hash, StoredObject]], set[int]]:
        """Add the objects that are not there yet. The caller holds the write lock.

        Returns the objects added, and the keys that no row had before.
        """
        taken = {
            key for (key,) in _ask_grouped(connection, _SELECT_KEYS, [p.key for p in prepared])
        }
        bases = self._current_bases(connection, prepared)
        rows: dict[Hash, tuple[int, bytes]] = {}
        for item in prepared:
            if item.hash in rows or (item.key in taken and self.holds(connection, item.hash)):
                continue
            is_usable = item.base is None or item.base in bases
            rows[item.hash] = (item.key, item.row if is_usable else encode(item.data, None))
        if not rows:
            return [], set()
        connection.executemany("insert into object(key, data) values(?, ?)", rows.values())
        last = connection.last_insert_rowid()
        if last > LAST_ROW:  # SQLite would soon choose numbers at random
            raise Corrupt(f"{self._path}: a row has the number {last}", hint=FSCK)
        first = last - len(rows) + 1
        plain = {item.hash: item.data for item in prepared}
        added = [
            (name, StoredObject(first + place, depth_of(row), plain[name]))
            for place, (name, (_, row)) in enumerate(rows.items())
        ]
        return added, {key for key, _ in rows.values() if key not in taken}

    def _current_bases(
        self, connection: apsw.Connection, prepared: Sequence[PreparedRow]
    ) -> set[BaseRow]:
        """Return the bases as they are now.

        They were read from a cache or an older snapshot: a collector may have dropped a row since,
        or written it again with another depth.
        """
        ids = [item.base.id for item in prepared if item.base is not None]
        rows = _ask_grouped(connection, _SELECT_BASES, ids)
        return {BaseRow(number, key, depth_of(head)) for number, key, head in rows if head}

    def check_row_ids(self, connection: apsw.Connection) -> list[str]:
        """Return what is wrong with the ids of rows: after the highest, none can be added."""
        ((last,),) = ask(connection, "select max(id) from object")
        return [f"a row has the number {last}"] if (last or 0) > LAST_ROW else []

    def count(self, connection: apsw.Connection) -> int:
        """Return how many objects there are."""
        # Unlike count(*), this is done in steps that are counted.
        return int(ask(connection, "select count(nullif(key, 0)) from object")[0][0])

    def find(self, connection: apsw.Connection, prefix: bytes) -> Iterator[Hash]:
        """Yield the hashes that start with these bytes, in order."""
        low, high = key_of(prefix.ljust(8, b"\0")), key_of(prefix.ljust(8, b"\xff"))
        seen: set[Hash] = set()
        rows = each(
            connection,
            "select id, key, cast(data as blob) from object"
            " where key >> 32 between ?1 >> 32 and ?2 >> 32 and key between ?1 and ?2 and key <> 0"
            " order by key",
            (low, high),
        )
        for number, key, row in rows:
            try:
                name = digest(self.decode_row(connection, number, row))
            except DamagedRow as error:
                raise Corrupt(f"{self._path}: row {number}: {error}", hint=FSCK) from error
            if key_of(name) != key:
                raise Corrupt(f"{self._path}: row {number} does not have its hash", hint=FSCK)
            if name.startswith(prefix) and name not in seen:
                seen.add(name)
                yield name

    def hash_with_key(self, connection: apsw.Connection, key: int) -> Hash | None:
        """Return the hash of the oldest undamaged object with this key."""
        for number, row in ask(connection, SELECT_ROWS + " order by id", (key,)):
            try:
                name = digest(self.decode_row(connection, number, row))
            except DamagedRow:
                continue
            if key_of(name) == key:
                return name
        return None


def _ask_grouped(
    connection: apsw.Connection, query: str, numbers: Sequence[int]
) -> list[tuple[Any, ...]]:
    """Ask for numbers four at a time, so that SQLite has few statements to compile and cache."""
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(numbers), _GROUP):
        group = numbers[start : start + _GROUP]
        found += ask(connection, query, (*group, *[group[0]] * (_GROUP - len(group))))
    return found


class PreparedRows:
    """Rows of objects that will probably be written soon, within a limit; the oldest go first."""

    def __init__(self, *, limit_bytes: int = _PREPARED_BYTES) -> None:
        self._limit = limit_bytes
        self._rows: OrderedDict[Hash, PreparedRow] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def put(self, row: PreparedRow) -> None:
        """Hold a row until it is taken."""
        with self._lock:
            if row.hash in self._rows:
                return
            self._rows[row.hash] = row
            self._bytes += len(row.data) + len(row.row)
            while self._bytes > self._limit:
                _, dropped = self._rows.popitem(last=False)
                self._bytes -= len(dropped.data) + len(dropped.row)

    def take(self, item: Object) -> PreparedRow | None:
        """Remove and return the row of an object, if there is one."""
        with self._lock:
            row = self._rows.pop(item.hash, None)
            if row is None:
                return None
            self._bytes -= len(row.data) + len(row.row)
        return row if row.data == item.data else None

    def clear(self) -> None:
        """Drop all rows; after a fork also the lock, which another thread may have held."""
        self._rows, self._bytes, self._lock = OrderedDict(), 0, Lock()
