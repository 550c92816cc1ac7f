"""The ref table and its history, guarded so that a flipped bit never looks like "no such ref"."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Mapping
from typing import NamedTuple

import apsw
from blake3 import blake3

from otolith.errors import Corrupt, Fenced, StaleRef
from otolith.stores.base import Batch, Move, Swap
from otolith.stores.sqlite.failures import FSCK
from otolith.types import Hash

_MASK = (1 << 64) - 1


class Row(NamedTuple):
    """One row of the ref table."""

    id: int
    name: str
    hash: Hash | None
    last: int
    sum: int


class MoveRow(NamedTuple):
    """One row of the move table; a side is None, an object's key, or a hash."""

    seq: int
    prev: int
    old: int | bytes | None
    new: int | bytes | None
    time: int
    note: str
    sum: int


class Refs:
    """Reads and writes refs over whichever connection it is given."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._proven: int | None = None  # a total that a full scan has agreed with

    def get(self, connection: apsw.Connection, name: str) -> Row | None:
        """Return the row of a ref that is there or was there, or None."""
        return self._pair(connection, name)[1]

    def all(self, connection: apsw.Connection) -> dict[str, Hash]:
        """Return every ref that is there, sorted by name."""
        rows = self._scan(connection)
        return {row.name: row.hash for row in sorted(rows, key=_name) if row.hash is not None}

    def check(self, connection: apsw.Connection, batch: Batch) -> None:
        """Refuse a batch whose fences or swaps no longer hold. Writes nothing.

        Raises:
            Fenced, StaleRef: as the contract says.
        """
        for name, token in batch.fences.items():
            if token < self._token(connection, name):
                raise Fenced(f"a newer holder of {name} has written", hint="stop, and take it anew")
        for swap in batch.swaps:
            row = self.get(connection, swap.name)
            actual = row.hash if row is not None else None
            if actual != swap.old:
                raise StaleRef(swap.name, expected=swap.old, actual=actual)

    def apply(
        self, connection: apsw.Connection, batch: Batch, side: Callable[[Hash | None], object]
    ) -> None:
        """Write the fences, swaps and moves of a batch that was checked."""
        self._raise_fences(connection, batch.fences)
        for swap in batch.swaps:
            if swap.old != swap.new:
                self._swap(connection, swap, batch, side)

    def moves(self, connection: apsw.Connection, name: str) -> list[MoveRow]:
        """Return the rows of a ref's history, newest first."""
        row = self.get(connection, name)
        return self.chain(connection, row.last, None) if row is not None else []

    def chain(self, connection: apsw.Connection, seq: int, limit: int | None) -> list[MoveRow]:
        """Follow the history of one ref down from its newest move."""
        found: list[MoveRow] = []
        while seq > 0 and (limit is None or len(found) < limit):
            rows = connection.execute(
                "select seq, prev, old, new, time, note, sum from move where seq=?", (seq,)
            ).fetchall()
            if not rows:
                break  # the older ones were forgotten
            move = MoveRow(*rows[0])
            if move.sum != _move_sum(*move[:-1]):
                raise Corrupt(f"{self._path}: move {seq} of a ref is damaged", hint=FSCK)
            found.append(move)
            seq = seq - move.prev if move.prev else 0
        return found

    def _pair(self, connection: apsw.Connection, name: str) -> tuple[int, Row | None]:
        rows = connection.execute(
            "select id, name, hash, last, sum from ref where name in ('', ?)", (name,)
        ).fetchall()
        total, found = 0, None
        for row in map(Row._make, rows):
            self._verify(row)
            if row.id == 0:
                total = _total_of(row)
            else:
                found = row
        if found is None and total != self._proven:
            self._scan(connection)
        return total, found

    def _scan(self, connection: apsw.Connection) -> list[Row]:
        rows = [
            Row._make(row)
            for row in connection.execute(
                "select id, name, hash, last, sum from ref not indexed"
            ).fetchall()
        ]
        total = wanted = 0
        for row in rows:
            self._verify(row)
            if row.id == 0:
                wanted = _total_of(row)
            else:
                total = (total + row.sum) & _MASK
        if total != wanted:
            raise Corrupt(f"{self._path}: a ref is missing or damaged", hint=FSCK)
        self._proven = total
        return [row for row in rows if row.id]

    def _verify(self, row: Row) -> None:
        if row.sum != _row_sum(row.name, row.hash, row.last):
            raise Corrupt(f"{self._path}: ref {row.name!r} is damaged", hint=FSCK)

    def _swap(
        self,
        connection: apsw.Connection,
        swap: Swap,
        batch: Batch,
        side: Callable[[Hash | None], object],
    ) -> None:
        total, row = self._pair(connection, swap.name)
        last = self._log(connection, swap, batch, row.last if row is not None else 0, side)
        fresh = _row_sum(swap.name, swap.new, last)
        if row is None:
            connection.execute(
                "insert into ref(id, name, hash, last, sum)"
                " values((select max(coalesce(max(id), 0), 0) + 1 from ref), ?, ?, ?, ?)",
                (swap.name, swap.new, last, fresh),
            )
        else:
            connection.execute(
                "update ref set hash=?, last=?, sum=? where id=?", (swap.new, last, fresh, row.id)
            )
        gone = row.sum if row is not None else 0
        self._set_total(connection, total, (total + fresh - gone) & _MASK)

    def _set_total(self, connection: apsw.Connection, before: int, after: int) -> None:
        blob = after.to_bytes(8, "big")
        connection.execute(
            "insert into ref(id, name, hash, last, sum) values(0, '', ?, 0, ?)"
            " on conflict(id) do update set hash=excluded.hash, sum=excluded.sum",
            (blob, _row_sum("", blob, 0)),
        )
        if self._proven == before:
            self._proven = after

    def _log(
        self,
        connection: apsw.Connection,
        swap: Swap,
        batch: Batch,
        last: int,
        side: Callable[[Hash | None], object],
    ) -> int:
        (top,) = connection.execute("select max(seq) from move").fetchall()[0]
        seq = max(top or 0, last) + 1
        row = (
            seq,
            seq - last if last else 0,
            side(swap.old),
            side(swap.new),
            batch.time,
            batch.note,
        )
        connection.execute(
            "insert into move(seq, prev, old, new, time, note, sum) values(?, ?, ?, ?, ?, ?, ?)",
            (*row, _move_sum(*row)),
        )
        return seq

    def _token(self, connection: apsw.Connection, name: str) -> int:
        rows = connection.execute("select token, sum from fence where name=?", (name,)).fetchall()
        if not rows:
            return 0
        token, check = rows[0]
        if check != _fence_sum(name, token):
            raise Corrupt(f"{self._path}: fence {name!r} is damaged", hint=FSCK)
        return int(token)

    def _raise_fences(self, connection: apsw.Connection, fences: Mapping[str, int]) -> None:
        for name, token in fences.items():
            connection.execute(
                "insert or replace into fence(name, token, sum) values(?, ?, ?)",
                (name, token, _fence_sum(name, token)),
            )


def as_move(name: str, row: MoveRow, old: Hash | None, new: Hash | None) -> Move:
    """Return a row with its sides resolved."""
    return Move(name, old, new, row.time, row.note)


def _name(row: Row) -> str:
    return row.name


def _total_of(row: Row) -> int:
    return int.from_bytes(row.hash or b"", "big")


def _row_sum(name: str, value: bytes | None, last: int) -> int:
    text = b"%b\0%b\0%d" % (name.encode("utf-8", "surrogatepass"), value or b"", last)
    return int.from_bytes(blake3(text).digest(8), "big", signed=True)


def _move_sum(seq: int, prev: int, old: object, new: object, time: int, note: str) -> int:
    return crc_hqx(repr((seq, prev, old, new, time, note)).encode(), 0)


def _fence_sum(name: str, token: int) -> int:
    return crc_hqx(f"{name}\0{token}".encode("utf-8", "surrogatepass"), 0)
