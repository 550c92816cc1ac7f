"""The move table: where each ref has been, as a chain from its newest move down.

A move costs about 35 bytes: it names an object by its key, and leaves out where the ref came
from, because that is where the move below it went. Only the lowest move of a chain says it.
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import NamedTuple, TypeAlias

import apsw
from msgspec.msgpack import encode

from otolith.errors import Corrupt
from otolith.stores.base import Move
from otolith.stores.sqlite.failures import FSCK
from otolith.stores.sqlite.objects import Objects, key_of
from otolith.stores.sqlite.query import ask
from otolith.types import Hash

Side: TypeAlias = int | bytes | None
"""One end of a move: nothing, the key of a stored object, or a hash."""


class MoveRow(NamedTuple):
    """One row of the move table."""

    seq: int
    prev: int
    old: Side
    new: Side
    time: int
    note: str
    sum: int


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
        return connection.last_insert_rowid()

    def side(self, connection: apsw.Connection, name: Hash | None, fresh: set[int]) -> Side:
        """Return the short form of a hash: its key, if that can only mean this object."""
        if name is None:
            return None
        key = key_of(name)
        if key in fresh or self._objects.named(connection, key) == name:
            return key
        return name

    def read(
        self, connection: apsw.Connection, name: str, last: int, limit: int | None
    ) -> list[Move]:
        """Return the newest moves of a ref, with whole hashes."""
        rows = self.chain(connection, last, None if limit is None else limit + 1)
        news = [self._whole(connection, name, row.new) for row in rows]
        moves = []
        for place, row in enumerate(rows[:limit]):
            old = news[place + 1] if row.prev else self._whole(connection, name, row.old)
            moves.append(Move(name, old, news[place], row.time, row.note))
        return moves

    def chain(self, connection: apsw.Connection, last: int, limit: int | None) -> list[MoveRow]:
        """Follow a ref's moves down from its newest one."""
        found: list[MoveRow] = []
        while last and (limit is None or len(found) < limit):
            rows = ask(
                connection,
                "select seq, prev, old, new, time, note, sum from move where seq=?",
                (last,),
            )
            if not rows:
                raise Corrupt(f"{self._path}: move {last} of a ref is missing", hint=FSCK)
            move = self._verified(MoveRow._make(rows[0]))
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
        """Make a move the lowest of its chain, because those below it will go."""
        total = _sum(0, below.new, lowest.new, lowest.time, lowest.note)
        connection.execute(
            "update move set prev=0, old=?, sum=? where seq=?", (below.new, total, lowest.seq)
        )

    def _verified(self, row: MoveRow) -> MoveRow:
        if row.sum != _sum(*row[1:-1]):
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
