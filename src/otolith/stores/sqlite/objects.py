"""The object table: rows found by the head of a hash, proven by the whole of it.

Rows of objects that will probably be written soon, made ready ahead of the write.
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
from otolith.stores.base import Object
from otolith.stores.sqlite.delta import (
    DEPTH_LIMIT,
    Base,
    Damaged,
    base_of,
    decode,
    depth_of,
    encode,
)
from otolith.stores.sqlite.sql import FSCK, ask, each
from otolith.types import Hash

# A flipped bit can turn a blob into text or NULL, hence the casts.
_KEY = Struct(">q")
LAST_ROW = (1 << 40) - 1  # a difference names its base in five bytes
_HANDFUL = 4  # a small commit has as many objects
_KEYS = """select key from object where key >> 32 in (?1 >> 32, ?2 >> 32, ?3 >> 32, ?4 >> 32)
    and key in (?1, ?2, ?3, ?4)"""
_ROWS = "select id, cast(data as blob) from object where key >> 32 = ?1 >> 32 and key = ?1"
_BASES = """select id, key, cast(substr(data, 1, 1) as blob) from object
    where id in (?, ?, ?, ?)"""


class Standing(NamedTuple):
    """A row as it must be for others to differ from it."""

    id: int
    key: int
    depth: int


class Draft(NamedTuple):
    """An object made ready outside the write lock."""

    hash: Hash
    key: int
    data: bytes
    row: bytes
    base: Standing | None  # the row it differs from


def key_of(name: bytes) -> int:
    """Return the signed 64-bit number that the index holds for a hash."""
    key: int = _KEY.unpack_from(name)[0]
    return key


def is_named(data: bytes, key: int) -> bool:
    """Tell whether bytes are those of an object with this key."""
    return key_of(blake3(data).digest()) == key


class Recent:
    """The objects seen lately, in two generations; a miss costs a read, never correctness.

    Row ids are never used twice, so an entry can be out of date only by being gone.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._half = limit_bytes // 2
        self._size = 0
        self._young: dict[Hash | int, Base] = {}
        self._old: dict[Hash | int, Base] = {}

    def get(self, name: Hash | int) -> Base | None:
        found = self._young.get(name)
        if found is None:
            found = self._old.get(name)
            if found is not None:
                self._add(name, found)
        return found

    def put(self, name: Hash, item: Base) -> None:
        self._add(name, item)
        self._young[item.id] = item

    def keep(self, item: Base) -> None:
        self._add(item.id, item)

    def clear(self) -> None:
        self._young, self._old, self._size = {}, {}, 0

    def _add(self, name: Hash | int, item: Base) -> None:
        self._size += len(item.data) + 200
        if self._size > self._half:
            self._old, self._young, self._size = self._young, {}, len(item.data)
        self._young[name] = item


class Objects:
    """Reads and writes rows of the object table over whichever connection it is given."""

    def __init__(self, path: str, *, recent_bytes: int = 48 << 20) -> None:
        self._path = path
        self.recent = Recent(recent_bytes)

    def read(self, connection: apsw.Connection, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        found = {}
        for name in hashes:
            item = self.load(connection, name)
            if item is not None:
                found[name] = item.data
        return found

    def load(self, connection: apsw.Connection, name: Hash) -> Base | None:
        """Return an object and its row, or None.

        Raises:
            Corrupt: there is a row for it, but none that holds it.
        """
        rows = ask(connection, _ROWS, (key_of(name),))
        reason = ""
        for number, row in rows:
            try:
                data = self.plain(connection, number, row)
            except Damaged as error:
                reason = str(error)
                continue
            if blake3(data).digest() == name:
                item = Base(number, depth_of(row), data)
                self.recent.put(name, item)
                return item
        if rows:
            reason = reason or "its bytes do not have its hash"
            raise Corrupt(f"{self._path}: object {name.hex()[:12]}: {reason}", hint=FSCK)
        return None

    def plain(self, connection: apsw.Connection, number: int, row: bytes) -> bytes:
        """Return the bytes in a row, following its chain of bases.

        Raises:
            Damaged: they cannot be told.
        """
        chain: list[tuple[int, bytes]] = []
        data = b""
        while (base := base_of(row)) is not None:
            chain.append((number, row))
            if base >= (number or 0) or len(chain) > DEPTH_LIMIT:  # rot can make it NULL
                raise Damaged("its chain of differences is broken")
            known = self.recent.get(base)
            if known is not None:
                data = known.data
                break
            number, row = base, self.row(connection, base)
        else:
            data = decode(row, b"")
        for number, row in reversed(chain):
            data = decode(row, data)
            self.recent.keep(Base(number, depth_of(row), data))
        return data

    def draft(self, connection: apsw.Connection | None, item: Object) -> Draft:
        """Choose the row for an object. Without a connection only recent bases are used."""
        base = None
        if item.base is not None:
            base = self.recent.get(item.base)
            if base is None and connection is not None:
                base = self._load_base(connection, item.base)
        row = encode(item.data, base)
        uses = None
        if base is not None and item.base is not None and base_of(row) is not None:
            uses = Standing(base.id, key_of(item.base), base.depth)
        return Draft(item.hash, key_of(item.hash), item.data, row, uses)

    def insert(
        self, connection: apsw.Connection, drafts: Sequence[Draft]
    ) -> tuple[list[tuple[Hash, Base]], set[int]]:
        """Add the objects that are not there yet. The caller holds the write lock.

        Returns their rows, and the keys that no row had before.
        """
        taken = {key for (key,) in _present(connection, _KEYS, [draft.key for draft in drafts])}
        # A base comes from memory or from an older snapshot: a collector may have dropped its row,
        # or written it anew with another depth.
        standing = self._standing(connection, drafts)
        rows: dict[Hash, tuple[int, bytes]] = {}
        for draft in drafts:
            if draft.hash in rows or (draft.key in taken and self.holds(connection, draft.hash)):
                continue
            sound = draft.base is None or draft.base in standing
            rows[draft.hash] = (draft.key, draft.row if sound else encode(draft.data, None))
        if not rows:
            return [], set()
        connection.executemany("insert into object(key, data) values(?, ?)", rows.values())
        last = connection.last_insert_rowid()
        if last > LAST_ROW:  # SQLite would soon give numbers at random
            raise Corrupt(f"{self._path}: a row has the number {last}", hint=FSCK)
        first = last - len(rows) + 1
        plain = {draft.hash: draft.data for draft in drafts}
        added = [
            (name, Base(first + place, depth_of(row), plain[name]))
            for place, (name, (_, row)) in enumerate(rows.items())
        ]
        return added, {key for key, _ in rows.values() if key not in taken}

    def odd_numbers(self, connection: apsw.Connection) -> list[str]:
        """Return what is wrong with the numbers of rows: after the highest, none can be added."""
        ((last,),) = ask(connection, "select max(id) from object")
        return [f"a row has the number {last}"] if (last or 0) > LAST_ROW else []

    def holds(self, connection: apsw.Connection, name: Hash) -> bool:
        """Tell whether an object is there and sound."""
        try:
            return self.load(connection, name) is not None
        except Corrupt:
            return False

    def count(self, connection: apsw.Connection) -> int:
        """Return how many objects there are."""
        # Unlike count(*), this is done in steps that are counted.
        return int(ask(connection, "select count(nullif(key, 0)) from object")[0][0])

    def matching(self, connection: apsw.Connection, prefix: bytes) -> Iterator[Hash]:
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
            name = self._name(connection, number, key, row)
            if name.startswith(prefix) and name not in seen:
                seen.add(name)
                yield name

    def named(self, connection: apsw.Connection, key: int) -> Hash | None:
        """Return the hash of the oldest sound object with this key."""
        rows = ask(connection, _ROWS + " order by id", (key,))
        for number, row in rows:
            try:
                name = Hash(blake3(self.plain(connection, number, row)).digest())
            except Damaged:
                continue
            if key_of(name) == key:
                return name
        return None

    def _name(self, connection: apsw.Connection, number: int, key: int, row: bytes) -> Hash:
        try:
            name = Hash(blake3(self.plain(connection, number, row)).digest())
        except Damaged as error:
            raise Corrupt(f"{self._path}: row {number}: {error}", hint=FSCK) from error
        if key_of(name) != key:
            raise Corrupt(f"{self._path}: row {number} does not have its hash", hint=FSCK)
        return name

    def row(self, connection: apsw.Connection, number: int) -> bytes:
        rows = ask(connection, "select cast(data as blob) from object where id=?", (number,))
        if not rows or rows[0][0] is None:
            raise Damaged(f"row {number}, which it differs from, is missing")
        row: bytes = rows[0][0]
        return row

    def _load_base(self, connection: apsw.Connection, name: Hash) -> Base | None:
        try:
            return self.load(connection, name)
        except Corrupt:
            return None  # a damaged object is no base; the new one is stored whole

    def _standing(self, connection: apsw.Connection, drafts: Sequence[Draft]) -> set[Standing]:
        """Return the bases that are still there: another process may have collected some."""
        ids = [draft.base.id for draft in drafts if draft.base is not None]
        rows = _present(connection, _BASES, ids)
        return {Standing(number, key, depth_of(head)) for number, key, head in rows if head}


def _present(
    connection: apsw.Connection, query: str, wanted: Sequence[int]
) -> list[tuple[Any, ...]]:
    """Ask for numbers in handfuls, so that the number of statements stays small."""
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(wanted), _HANDFUL):
        some = wanted[start : start + _HANDFUL]
        bindings = (*some, *[some[0]] * (_HANDFUL - len(some)))
        found += ask(connection, query, bindings)
    return found


_LIMIT_BYTES = 256 << 20


class Prepared:
    """Drafts by their hash, within a limit: the oldest are dropped, and made again if needed."""

    def __init__(self, *, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._drafts: OrderedDict[Hash, Draft] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def put(self, draft: Draft) -> None:
        """Keep a draft for a while."""
        with self._lock:
            if draft.hash in self._drafts:
                return
            self._drafts[draft.hash] = draft
            self._bytes += _size(draft)
            while self._bytes > self._limit:
                _, dropped = self._drafts.popitem(last=False)
                self._bytes -= _size(dropped)

    def take(self, item: Object) -> Draft | None:
        """Return the draft of an object, if there is one, and let go of it."""
        with self._lock:
            draft = self._drafts.pop(item.hash, None)
            if draft is None:
                return None
            self._bytes -= _size(draft)
        return draft if draft.data == item.data else None

    def forget(self) -> None:
        """Let go of all drafts."""
        self._drafts, self._bytes, self._lock = OrderedDict(), 0, Lock()


def _size(draft: Draft) -> int:
    return len(draft.data) + len(draft.row)
