"""The ref and fence tables, guarded so that a flipped bit never looks like "no such ref".

The move table: where each ref has been, as a chain from its newest move down.

A move costs about 35 bytes: it names an object by its key, and leaves out where the ref came
from, because that is where the move below it went. Only the lowest move of a chain says it.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import apsw
from blake3 import blake3
from msgspec.msgpack import encode

from otolith.errors import Corrupt, Fenced, StaleRef
from otolith.stores.base import HASH_BYTES, Move, Swap
from otolith.stores.sqlite.objects import Objects, key_of
from otolith.stores.sqlite.sql import FSCK, ask
from otolith.types import Hash

_MASK = (1 << 64) - 1
_LAST_MOVE = 1 << 62


class Row(NamedTuple):
    """One row of the ref table."""

    name: str
    hash: Hash | None
    last: int
    sum: int

    def is_sound(self) -> bool:
        """Tell whether every column is of its type: SQLite takes any value in any column."""
        return _is_text(self.name) and _is_side(self.hash, keys=False) and _is_number(self.last)


class Refs:
    """Reads and writes refs over whichever connection it is given.

    Every row has a checksum, and the row without a name the total of them. A lookup that finds
    nothing is believed only if all rows together have that total and none has the name. One such
    scan is enough for a total: what this process then adds keeps it proven.

    With `remembers`, rows that were written are not read again, until `forget` is called. That is
    for the one writer that knows when somebody else has written.
    """

    def __init__(self, path: str, *, remembers: bool = False) -> None:
        self._path = path
        self._remembers = remembers
        self._proven: int | None = None
        self._names: set[str] = set()
        self._written: dict[str, Row] = {}
        self._written_total: int | None = None

    def get(self, connection: apsw.Connection, name: str) -> Row | None:
        """Return the row of a ref that is there or was there, or None."""
        rows = ask(connection, "select name, hash, last, sum from ref where name=?", (name,))
        if rows:
            return self._verified(Row._make(rows[0]))
        if (self._total(connection) != self._proven or name in self._names) and any(
            row.name == name for row in self.rows(connection)
        ):
            raise Corrupt(f"{self._path}: ref {name!r} is out of place", hint=FSCK)
        return None

    def rows(self, connection: apsw.Connection) -> list[Row]:
        """Return all rows, of refs that are there or were there.

        Raises:
            Corrupt: one is damaged, or missing.
        """
        scan = ask(connection, "select name, hash, last, sum from ref")
        rows = [self._verified(row) for row in map(Row._make, scan) if row.name != ""]
        total = sum(row.sum for row in rows) & _MASK
        if total != self._total(connection):
            raise Corrupt(f"{self._path}: a ref is missing or damaged", hint=FSCK)
        self._proven, self._names = total, {row.name for row in rows}
        return rows

    def check_fences(self, connection: apsw.Connection, fences: Mapping[str, int]) -> None:
        """Refuse a token that is lower than one seen before.

        Raises:
            Fenced: it is.
        """
        for name, token in fences.items():
            if token < self._token(connection, name):
                raise Fenced(f"a newer holder of {name} has written", hint="stop, and take it anew")

    def check_swaps(self, connection: apsw.Connection, swaps: Sequence[Swap]) -> list[Row | None]:
        """Return the rows to be swapped.

        Raises:
            StaleRef: one of them does not have its old value.
        """
        rows = [self._written.get(swap.name) or self.get(connection, swap.name) for swap in swaps]
        for swap, row in zip(swaps, rows, strict=True):
            actual = row.hash if row is not None else None
            if actual != swap.old:
                raise StaleRef(swap.name, expected=swap.old, actual=actual)
        return rows

    def raise_fences(self, connection: apsw.Connection, fences: Mapping[str, int]) -> None:
        """Note the tokens of a batch; the row without a name has the total, as that of refs has."""
        higher = {
            name: token for name, token in fences.items() if token != self._token(connection, name)
        }
        if not higher:
            return
        total = self._fence_total(connection) + sum(
            _fence_part(name, token) - _fence_part(name, self._token(connection, name))
            for name, token in higher.items()
        )
        for name, token in {**higher, "": total % _FENCE_LIMIT}.items():
            connection.execute(
                "insert or replace into fence(name, token, sum) values(?, ?, ?)",
                (name, token, _fence_sum(name, token)),
            )

    def broken_fences(self, connection: apsw.Connection) -> list[str]:
        """Return what is wrong with the fences."""
        rows = ask(connection, "select name, token, sum from fence")
        found = [
            f"fence {name!r} is damaged"
            for name, token, sum in rows
            if not _is_number(token) or sum != _fence_sum(name, token)
        ]
        told = [token for name, token, _ in rows if name == ""]
        if not found and told and told != [_sum_of_fences(rows)]:
            found.append("a fence is missing")
        return found

    def _fence_total(self, connection: apsw.Connection) -> int:
        told = ask(connection, "select token from fence where name=''")
        if told and _is_number(told[0][0]):
            return int(told[0][0])
        return _sum_of_fences(ask(connection, "select name, token, sum from fence"))

    def put(
        self, connection: apsw.Connection, row: Row | None, name: str, value: Hash | None, last: int
    ) -> int:
        """Write one ref, given the row it had; return by how much the total changes."""
        fresh = _row_sum(name, value, last)
        if row is None:
            connection.execute(
                "insert into ref(name, hash, last, sum) values(?, ?, ?, ?)",
                (name, value, last, fresh),
            )
            self._names.add(name)
        else:
            connection.execute(
                "update ref set hash=?, last=?, sum=? where name=?", (value, last, fresh, name)
            )
        if self._remembers:
            self._written[name] = Row(name, value, last, fresh)
        return fresh if row is None else fresh - row.sum

    def forget(self) -> None:
        """Read everything again: somebody else has written, or what we wrote was undone."""
        self._written.clear()
        self._written_total = None

    def drop(self, connection: apsw.Connection, row: Row) -> int:
        """Remove the row of a ref that is gone; return by how much the total changes."""
        connection.execute("delete from ref where name=?", (row.name,))
        return -row.sum

    def add_to_total(self, connection: apsw.Connection, change: int) -> None:
        before = self._written_total
        if before is None:
            before = self._total(connection)
        after = (before + change) & _MASK
        blob = after.to_bytes(8, "big")
        connection.execute(
            "update ref set hash=?, sum=? where name=''", (blob, _row_sum("", blob, 0))
        )
        self._written_total = after if self._remembers else None
        if self._proven == before:
            self._proven = after

    def _total(self, connection: apsw.Connection) -> int:
        rows = ask(connection, "select hash, sum from ref where name=''")
        if not rows or not _is_total(*rows[0]):
            raise Corrupt(f"{self._path}: the total of the refs is damaged", hint=FSCK)
        return int.from_bytes(rows[0][0], "big")

    def _verified(self, row: Row) -> Row:
        # Whoever can write the file can make checksums, so the types are looked at too.
        if not row.is_sound() or row.sum != _row_sum(row.name, row.hash, row.last):
            raise Corrupt(f"{self._path}: ref {row.name!r} is damaged", hint=FSCK)
        return row

    def _token(self, connection: apsw.Connection, name: str) -> int:
        rows = ask(connection, "select token, sum from fence where name=?", (name,))
        if not rows:
            return 0
        token: int = rows[0][0]
        if not _is_number(token) or rows[0][1] != _fence_sum(name, token):
            raise Corrupt(f"{self._path}: fence {name!r} is damaged", hint=FSCK)
        return token


def _is_total(value: object, sum: object) -> bool:
    return isinstance(value, bytes) and len(value) == 8 and sum == _row_sum("", value, 0)


def _is_hash(value: object) -> bool:
    return isinstance(value, bytes) and len(value) == HASH_BYTES


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def zero_row() -> tuple[bytes, int]:
    """Return the total of no refs and its checksum."""
    return bytes(8), _row_sum("", bytes(8), 0)


def _row_sum(name: str, value: bytes | None, last: int) -> int:
    fields = encode((name, value, last))  # works for whatever rot has made of a column
    return int.from_bytes(blake3(fields).digest(8), "big", signed=True)


_FENCE_LIMIT = 1 << 63


def _fence_part(name: str, token: int) -> int:
    """Return what a fence adds to the total; a token of 0 is like none."""
    digest = blake3(encode((name, token))).digest(8)
    return int.from_bytes(digest, "big") if token else 0


def _sum_of_fences(rows: Iterable[tuple[str, int, int]]) -> int:
    return sum(_fence_part(name, token) for name, token, _ in rows if name != "") % _FENCE_LIMIT


def _fence_sum(name: str, token: int) -> int:
    return crc_hqx(encode((name, token)), 0)


Side: TypeAlias = int | bytes | None
"""One end of a move: nothing, the key of a stored object, or a hash."""


def _is_side(value: object, *, keys: bool = True) -> bool:
    return value is None or (keys and isinstance(value, int)) or _is_hash(value)


class MoveRow(NamedTuple):
    """One row of the move table."""

    seq: int
    prev: int
    old: Side
    new: Side
    time: int
    note: str
    sum: int

    def is_sound(self) -> bool:
        """Tell whether every column is of its type: SQLite takes any value in any column."""
        return (
            all(map(_is_number, (self.seq, self.prev, self.time)))
            and all(map(_is_side, (self.old, self.new)))
            and _is_text(self.note)
        )


class History:
    """Reads and writes moves over whichever connection it is given."""

    def __init__(self, path: str, objects: Objects) -> None:
        self._path = path
        self._objects = objects

    def log(self, connection: apsw.Connection, prev: int, move: Move, new: Side) -> int:
        """Add a move on top of another of the same ref; return its number."""
        old = None if prev else move.old
        total = _sum(prev, old, new, move.time, move.note)
        connection.execute(
            "insert into move(prev, old, new, time, note, sum) values(?, ?, ?, ?, ?, ?)",
            (prev, old, new, move.time, move.note, total),
        )
        seq = connection.last_insert_rowid()
        if not prev < seq < _LAST_MOVE:  # SQLite gives numbers at random once one is the highest
            raise Corrupt(f"{self._path}: a move has the number {seq} after {prev}", hint=FSCK)
        return seq

    def side(self, connection: apsw.Connection, name: Hash | None, fresh: set[int]) -> Side:
        """Return the short form of a hash: its key, if that can only mean this object."""
        if name is None:
            return None
        key = key_of(name)
        if key in fresh or self._objects.named(connection, key) == name:
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
        news = [self._whole(connection, name, row.new) for row in rows]
        moves = []
        for place, row in enumerate(rows[:limit]):
            old = news[place + 1] if row.prev else self._whole(connection, name, row.old)
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
        every ref. Those that were found are added to them.
        """
        found: list[MoveRow] = []
        others = set() if others is None else others
        while last and (limit is None or len(found) < limit):
            rows = ask(
                connection,
                "select seq, prev, old, new, time, note, sum from move where seq=?",
                (last,),
            )
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
        """Return the moves of all refs after one, oldest first."""
        rows = ask(
            connection,
            "select seq, prev, old, new, time, note, sum from move where seq>? order by seq",
            (seq,),
        )
        return [self._verified(MoveRow._make(row)) for row in rows]

    def cut(self, connection: apsw.Connection, lowest: MoveRow, below: MoveRow) -> None:
        """Make a move the lowest of its chain, because those below it will go.

        One that is not as it was read is left alone: another collector has cut, blanked or dropped
        it, and nothing below it is linked to it any more.
        """
        total = _sum(0, below.new, lowest.new, lowest.time, lowest.note)
        connection.execute(
            "update move set prev=0, old=?, sum=? where seq=? and prev=? and sum=?",
            (below.new, total, lowest.seq, lowest.prev, lowest.sum),
        )

    def drop(self, connection: apsw.Connection, numbers: Sequence[int]) -> None:
        """Delete moves. The newest of all is blanked, so that its number does not come again."""
        ((newest,),) = ask(connection, "select max(seq) from move")
        connection.executemany(
            "delete from move where seq=?", [(seq,) for seq in numbers if seq != newest]
        )
        if newest in numbers:
            connection.execute(
                "update move set prev=0, old=null, new=null, time=0, note='', sum=? where seq=?",
                (_sum(0, None, None, 0, ""), newest),
            )

    def drop_blanks(self, connection: apsw.Connection) -> None:
        """Delete what was blanked and is not the newest any more; no real move goes nowhere."""
        connection.execute(
            "delete from move where prev=0 and old is null and new is null"
            " and seq < (select max(seq) from move)"
        )

    def _verified(self, row: MoveRow) -> MoveRow:
        if not row.is_sound() or row.sum != _sum(*row[1:-1]):
            raise Corrupt(f"{self._path}: move {row.seq} of a ref is damaged", hint=FSCK)
        return row

    def _whole(self, connection: apsw.Connection, name: str, side: Side) -> Hash | None:
        if side is None or isinstance(side, bytes):
            return None if side is None else Hash(side)
        found = self._objects.named(connection, side)
        if found is None:
            raise Corrupt(f"{self._path}: the history of {name} names a lost object", hint=FSCK)
        return found


def _sum(prev: int, old: Side, new: Side, time: int, note: str) -> int:
    return crc_hqx(encode((prev, old, new, time, note)), 0)
