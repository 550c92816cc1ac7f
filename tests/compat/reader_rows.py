"""The SQLite file of format 1, read with SQL: refs, moves, and rows turned back into objects."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import apsw
import zstandard
from blake3 import blake3
from msgspec.msgpack import encode


class Rows:
    """The tables of a store file."""

    def __init__(self, path: str) -> None:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        self._db = apsw.Connection(f"file:{path}?immutable=1", flags=flags)
        assert self._db.pragma("application_id") == int.from_bytes(b"otol", "big")
        assert self._db.pragma("user_version") == 1
        self.refs: dict[str, bytes] = {}
        self.last: dict[str, int] = {}
        total = expected = 0
        for name, hash, last, sum in self._db.execute("select name, hash, last, sum from ref"):
            assert sum == row_sum(name, hash, last), name
            if name == "":
                expected = int.from_bytes(hash, "big")
                continue
            total += sum
            self.last[name] = last
            if hash is not None:
                self.refs[name] = hash
        assert total % 2**64 == expected
        for name, token, sum in self._db.execute("select name, token, sum from fence"):
            assert sum == crc_hqx(encode((name, token)), 0), name

    def close(self) -> None:
        self._db.close()

    def object(self, hash: bytes) -> bytes:
        """Return the object of this hash."""
        found = self._by_key(int.from_bytes(hash[:8], "big", signed=True))
        for data in found:
            if blake3(data).digest() == hash:
                return data
        raise KeyError(hash.hex())

    def objects(self) -> Iterator[bytes]:
        """Return every row that is an object, in its plain form."""
        rows: list[Any] = self._db.execute("select id, data from object where key <> 0").fetchall()
        return (self._plain(id, row) for id, row in rows)

    def moves(self, name: str) -> list[list[Any]]:
        """Return the history of a ref, newest first, as [old, new, time, note]."""
        found, seq = [], self.last[name]
        while seq:
            query = "select prev, old, new, time, note, sum from move where seq=?"
            ((*fields, sum),) = self._db.execute(query, (seq,))
            assert sum == crc_hqx(encode(fields), 0)
            seq, old, new, time, note = fields
            found.append([self._side(old), self._side(new), time, note])
        for upper, lower in pairwise(found):
            upper[0] = lower[1]
        return found

    def _side(self, side: int | bytes | None) -> str | None:
        if side is None or isinstance(side, bytes):
            return None if side is None else side.hex()
        return blake3(next(self._by_key(side))).hexdigest()

    def _by_key(self, key: int) -> Iterator[bytes]:
        query = "select id, data from object where key >> 32 = ? >> 32 and key = ? order by id"
        rows: list[Any] = self._db.execute(query, (key, key)).fetchall()
        return (self._plain(id, row) for id, row in rows)

    def _plain(self, id: int, row: bytes) -> bytes:
        kind, depth = row[0] & 7, row[0] >> 3
        assert depth <= 31
        if kind == 0:
            return row[1:]
        if kind == 1:
            return zstandard.ZstdDecompressor().decompress(row[1:])
        if kind == 4:
            data = zstandard.ZstdDecompressor().decompress(row[1:])
            order = sorted(range(len(data)), key=lambda at: at % 8)
            return bytes(byte for _, byte in sorted(zip(order, data, strict=True)))
        base_id = int.from_bytes(row[1:6], "little")
        assert base_id < id
        ((base_row,),) = self._db.execute("select data from object where id=?", (base_id,))
        assert base_row[0] >> 3 == depth - 1
        base = self._plain(base_id, base_row)
        if kind == 2:
            prefix, suffix = (int.from_bytes(row[at : at + 2], "little") for at in (6, 8))
            return row[10:14] + base[4 : 4 + prefix] + row[14:] + base[len(base) - suffix :]
        assert kind == 3
        words = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        return zstandard.ZstdDecompressor(dict_data=words).decompress(row[6:])


def row_sum(name: str, hash: bytes | None, last: int) -> int:
    text = encode((name, hash, last))
    return int.from_bytes(blake3(text).digest(8), "big", signed=True)
