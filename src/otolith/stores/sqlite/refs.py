"""The ref, fence and move tables, guarded so that a flipped bit never looks like "no such ref".

Checksums (the columns are in `schema`)

    ref.sum     the first 8 bytes of the BLAKE3 of (name, hash, last) in msgpack, as a signed number
    ref ''      the row without a name: hash is the sum of all other sums, modulo 2**64, 8 bytes
    fence.sum   the CRC-16 of (name, token) in msgpack
    fence ''    the row without a name: token is the sum of a hash of each fence, modulo 2**63
    move.sum    the CRC-16 of (prev, old, new, time, note) in msgpack

Rules
1. A lookup that finds no row is believed only if all rows together have the total, and none of them
   has the name: a damaged index must not make a ref disappear.
2. A move costs about 35 bytes: it names an object by its key, and leaves out where the ref came
   from, because that is where the move below it went. Only the lowest move of a chain has it.
3. Checksums find accidents. An attacker who can write the file can compute them, so the type of
   every column is checked too: SQLite takes any value in any column.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import apsw
from blake3 import blake3
from msgspec.msgpack import encode

from otolith.errors import Corrupt
from otolith.stores.base import HASH_BYTES, Move
from otolith.stores.sqlite.objects import ObjectTable, key_of
from otolith.stores.sqlite.sql import FSCK, ask
from otolith.types import Hash

_REF_TOTAL_MASK = (1 << 64) - 1
_FENCE_TOTAL_LIMIT = 1 << 63
_LAST_MOVE = 1 << 62


class RefRow(NamedTuple):
    """One row of the ref table."""

    name: str
    hash: Hash | None
    last: int
    sum: int


class RefTable:
    """Reads and writes refs and fences over the connection that it is given.

    Scanning all rows once proves a total; what this process then adds leaves it proven.

    With `remembers`, rows that were written are not read again, until `forget` is called. That is
    for the one writer that knows when another process has written.
    """

    def __init__(self, path: str, *, remembers: bool = False) -> None:
        self._path = path
        self._remembers = remembers
        self._proven_total: int | None = None
        self._proven_names: set[str] = set()
        self._written: dict[str, RefRow] = {}
        self._written_total: int | None = None

    def get(self, connection: apsw.Connection, name: str) -> RefRow | None:
        """Return the row of a ref that is there or was there, or None."""
        rows = ask(connection, "select name, hash, last, sum from ref where name=?", (name,))
        if rows:
            return self._verified(RefRow._make(rows[0]))
        is_proven = self._total(connection) == self._proven_total
        if (not is_proven or name in self._proven_names) and any(
            row.name == name for row in self.rows(connection)
        ):
            raise Corrupt(f"{self._path}: ref {name!r} is out of place", hint=FSCK)
        return None

    def get_written(self, connection: apsw.Connection, name: str) -> RefRow | None:
        """Return the row of a ref, from memory if this process wrote it last."""
        return self._written.get(name) or self.get(connection, name)

    def rows(self, connection: apsw.Connection) -> list[RefRow]:
        """Return all rows, of refs that are there or were there.

        Raises:
            Corrupt: one is damaged, or missing.
        """
        scan = ask(connection, "select name, hash, last, sum from ref")
        rows = [self._verified(row) for row in map(RefRow._make, scan) if row.name != ""]
        total = sum(row.sum for row in rows) & _REF_TOTAL_MASK
        if total != self._total(connection):
            raise Corrupt(f"{self._path}: a ref is missing or damaged", hint=FSCK)
        self._proven_total, self._proven_names = total, {row.name for row in rows}
        return rows

    def put(
        self,
        connection: apsw.Connection,
        row: RefRow | None,
        name: str,
        value: Hash | None,
        last: int,
    ) -> int:
        """Write one ref, given the row it had; return by how much the total changes."""
        fresh = _ref_sum(name, value, last)
        if row is None:
            connection.execute(
                "insert into ref(name, hash, last, sum) values(?, ?, ?, ?)",
                (name, value, last, fresh),
            )
            self._proven_names.add(name)
        else:
            connection.execute(
                "update ref set hash=?, last=?, sum=? where name=?", (value, last, fresh, name)
            )
        if self._remembers:
            self._written[name] = RefRow(name, value, last, fresh)
        return fresh if row is None else fresh - row.sum

    def drop(self, connection: apsw.Connection, row: RefRow) -> int:
        """Remove the row of a ref that is gone; return by how much the total changes."""
        connection.execute("delete from ref where name=?", (row.name,))
        return -row.sum

    def add_to_total(self, connection: apsw.Connection, change: int) -> None:
        """Write the total after rows were put or dropped."""
        before = self._written_total
        if before is None:
            before = self._total(connection)
        after = (before + change) & _REF_TOTAL_MASK
        blob = after.to_bytes(8, "big")
        connection.execute(
            "update ref set hash=?, sum=? where name=''", (blob, _ref_sum("", blob, 0))
        )
        self._written_total = after if self._remembers else None
        if self._proven_total == before:
            self._proven_total = after

    def forget(self) -> None:
        """Read everything again: another process has written, or our write was undone."""
        self._written.clear()
        self._written_total = None

    def _total(self, connection: apsw.Connection) -> int:
        rows = ask(connection, "select hash, sum from ref where name=''")
        total, checksum = rows[0] if rows else (None, 0)
        if not isinstance(total, bytes) or len(total) != 8 or checksum != _ref_sum("", total, 0):
            raise Corrupt(f"{self._path}: the total of the refs is damaged", hint=FSCK)
        return int.from_bytes(total, "big")

    def _verified(self, row: RefRow) -> RefRow:
        name: object = row.name
        is_typed = (
            isinstance(name, str)
            and (row.hash is None or _is_hash(row.hash))
            and _is_number(row.last)
        )
        if not is_typed or row.sum != _ref_sum(row.name, row.hash, row.last):
            raise Corrupt(f"{self._path}: ref {row.name!r} is damaged", hint=FSCK)
        return row

    # Fences

    def token(self, connection: apsw.Connection, name: str) -> int:
        """Return the highest token seen under a name, 0 for none."""
        rows = ask(connection, "select token, sum from fence where name=?", (name,))
        if not rows:
            return 0
        token: int = rows[0][0]
        if not _is_number(token) or rows[0][1] != _crc((name, token)):
            raise Corrupt(f"{self._path}: fence {name!r} is damaged", hint=FSCK)
        return token

    def raise_fences(self, connection: apsw.Connection, fences: Mapping[str, int]) -> None:
        """Record the tokens of a batch, and their total in the row without a name."""
        before = {name: self.token(connection, name) for name in fences}
        higher = {name: token for name, token in fences.items() if token != before[name]}
        if not higher:
            return
        stored = ask(connection, "select token from fence where name=''")
        if stored and _is_number(stored[0][0]):
            total = int(stored[0][0])
        else:
            total = _fence_total(ask(connection, "select name, token, sum from fence"))
        for name, token in higher.items():
            total += _fence_term(name, token) - _fence_term(name, before[name])
        for name, token in {**higher, "": total % _FENCE_TOTAL_LIMIT}.items():
            connection.execute(
                "insert or replace into fence(name, token, sum) values(?, ?, ?)",
                (name, token, _crc((name, token))),
            )

    def check_fences(self, connection: apsw.Connection) -> list[str]:
        """Return what is wrong with the fences."""
        rows = ask(connection, "select name, token, sum from fence")
        found = [
            f"fence {name!r} is damaged"
            for name, token, checksum in rows
            if not _is_number(token) or checksum != _crc((name, token))
        ]
        totals = [token for name, token, _ in rows if name == ""]
        if not found and totals and totals != [_fence_total(rows)]:
            found.append("a fence is missing")
        return found


def zero_row() -> tuple[bytes, int]:
    """Return the total of no refs, and its checksum."""
    return bytes(8), _ref_sum("", bytes(8), 0)


def _is_hash(value: object) -> bool:
    return isinstance(value, bytes) and len(value) == HASH_BYTES


def _is_number(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _ref_sum(name: str, value: bytes | None, last: int) -> int:
    fields = encode((name, value, last))  # works for whatever damage has made of a column
    return int.from_bytes(blake3(fields).digest(8), "big", signed=True)


def _fence_term(name: str, token: int) -> int:
    """Return what a fence adds to the total; a token of 0 is like an absent fence."""
    return int.from_bytes(blake3(encode((name, token))).digest(8), "big") if token else 0


def _fence_total(rows: Iterable[tuple[str, int, int]]) -> int:
    terms = (_fence_term(name, token) for name, token, _ in rows if name != "")
    return sum(terms) % _FENCE_TOTAL_LIMIT


def _crc(fields: tuple[object, ...]) -> int:
    return crc_hqx(encode(fields), 0)


MoveEnd: TypeAlias = int | bytes | None
"""One end of a stored move: nothing, the key of a stored object, or a hash."""

_SELECT_MOVES = "select seq, prev, old, new, time, note, sum from move "


class MoveRow(NamedTuple):
    """One row of the move table."""

    seq: int
    prev: int
    old: MoveEnd
    new: MoveEnd
    time: int
    note: str
    sum: int


class MoveTable:
    """Reads and writes moves over the connection that it is given."""

    def __init__(self, path: str, objects: ObjectTable) -> None:
        self._path = path
        self._objects = objects

    def append(self, connection: apsw.Connection, prev: int, move: Move, new: MoveEnd) -> int:
        """Add a move on top of another of the same ref; return its number."""
        old = None if prev else move.old
        checksum = _crc((prev, old, new, move.time, move.note))
        connection.execute(
            "insert into move(prev, old, new, time, note, sum) values(?, ?, ?, ?, ?, ?)",
            (prev, old, new, move.time, move.note, checksum),
        )
        seq = connection.last_insert_rowid()
        if not prev < seq < _LAST_MOVE:  # SQLite chooses numbers at random after the highest
            raise Corrupt(f"{self._path}: a move has the number {seq} after {prev}", hint=FSCK)
        return seq

    def shorten(self, connection: apsw.Connection, name: Hash | None, fresh: set[int]) -> MoveEnd:
        """Return a hash as it is stored: its key, if that can only mean this object.

        `fresh` are keys that no row had before the current transaction.
        """
        if name is None:
            return None
        key = key_of(name)
        if key in fresh or self._objects.hash_with_key(connection, key) == name:
            return key
        return name

    def read(
        self,
        connection: apsw.Connection,
        name: str,
        last: int,
        limit: int | None,
        others: set[int] | None = None,
    ) -> list[Move]:
        """Return the newest moves of a ref, with whole hashes."""
        rows = self.chain(connection, last, None if limit is None else limit + 1, others)
        news = [self._whole_hash(connection, name, row.new) for row in rows]
        moves = []
        for place, row in enumerate(rows[:limit]):
            old = news[place + 1] if row.prev else self._whole_hash(connection, name, row.old)
            moves.append(Move(name, old, news[place], row.time, row.note))
        return moves

    def chain(
        self,
        connection: apsw.Connection,
        last: int,
        limit: int | None,
        others: set[int] | None = None,
    ) -> list[MoveRow]:
        """Follow a ref's moves down from its newest one.

        `others` are moves of other refs: histories that run together would be followed once for
        every ref. The moves found are added to it.
        """
        found: list[MoveRow] = []
        others = set() if others is None else others
        while last and (limit is None or len(found) < limit):
            rows = ask(connection, _SELECT_MOVES + "where seq=?", (last,))
            if not rows:
                raise Corrupt(f"{self._path}: move {last} of a ref is missing", hint=FSCK)
            move = self._verified(MoveRow._make(rows[0]))
            if move.prev >= move.seq:
                raise Corrupt(f"{self._path}: move {last} leads in a circle", hint=FSCK)
            if last in others:
                raise Corrupt(f"{self._path}: move {last} is of two refs", hint=FSCK)
            others.add(last)
            found.append(move)
            last = move.prev
        return found

    def since(self, connection: apsw.Connection, seq: int) -> list[MoveRow]:
        """Return the moves of all refs after a number, oldest first."""
        rows = ask(connection, _SELECT_MOVES + "where seq>? order by seq", (seq,))
        return [self._verified(MoveRow._make(row)) for row in rows]

    def cut(self, connection: apsw.Connection, lowest: MoveRow, below: MoveRow) -> None:
        """Make a move the lowest of its chain, because those below it will be dropped.

        One that has changed since it was read is left alone: another collector has cut, blanked or
        dropped it, and nothing below it is linked to it any more.
        """
        checksum = _crc((0, below.new, lowest.new, lowest.time, lowest.note))
        connection.execute(
            "update move set prev=0, old=?, sum=? where seq=? and prev=? and sum=?",
            (below.new, checksum, lowest.seq, lowest.prev, lowest.sum),
        )

    def drop(self, connection: apsw.Connection, numbers: Sequence[int]) -> None:
        """Delete moves. The newest of all is blanked, so that its number is not used again."""
        ((newest,),) = ask(connection, "select max(seq) from move")
        connection.executemany(
            "delete from move where seq=?", [(seq,) for seq in numbers if seq != newest]
        )
        if newest in numbers:
            connection.execute(
                "update move set prev=0, old=null, new=null, time=0, note='', sum=? where seq=?",
                (_crc((0, None, None, 0, "")), newest),
            )

    def drop_blanks(self, connection: apsw.Connection) -> None:
        """Delete blanked moves that are not the newest any more; real moves have an end."""
        connection.execute(
            "delete from move where prev=0 and old is null and new is null"
            " and seq < (select max(seq) from move)"
        )

    def _verified(self, row: MoveRow) -> MoveRow:
        is_typed = (
            all(map(_is_number, (row.seq, row.prev, row.time)))
            and all(end is None or isinstance(end, int) or _is_hash(end) for end in row[2:4])
            and isinstance(row.note, str)
        )
        if not is_typed or row.sum != _crc(row[1:-1]):
            raise Corrupt(f"{self._path}: move {row.seq} of a ref is damaged", hint=FSCK)
        return row

    def _whole_hash(self, connection: apsw.Connection, name: str, end: MoveEnd) -> Hash | None:
        if end is None or isinstance(end, bytes):
            return None if end is None else Hash(end)
        found = self._objects.hash_with_key(connection, end)
        if found is None:
            raise Corrupt(f"{self._path}: the history of {name} names a missing object", hint=FSCK)
        return found
