"""One bare SQLite transaction: the least that a durable change of a local file can cost."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import apsw

BLOB_BYTES = 500
_INSERT = "insert into blob(data) values(?)"


class Bare:
    """Inserts blobs, with the settings that otolith's own store has."""

    def __init__(self, place: Path, *, durability: str = "full") -> None:
        self.place = place
        self._connection = apsw.Connection(str(place))
        for line in (
            "pragma page_size=4096",
            "pragma auto_vacuum=incremental",
            "pragma journal_mode=wal",
            f"pragma synchronous={'full' if durability == 'full' else 'normal'}",
            f"pragma journal_size_limit={32 << 20}",
            "pragma wal_autocheckpoint=2000",
            f"pragma cache_size=-{16 << 10}",
            "pragma mmap_size=0",
            "create table blob(id integer primary key, data blob not null)",
        ):
            self._connection.execute(line).fetchall()

    def insert(self, data: bytes) -> None:
        self._connection.execute("begin immediate")
        self._connection.execute(_INSERT, (data,))
        self._connection.execute("commit")

    def fill(self, items: dict[str, object]) -> None:
        self._connection.execute("begin immediate")
        self._connection.executemany(_INSERT, [(str(item).encode(),) for item in items.values()])
        self._connection.execute("commit")

    def change(self, key: str, value: object) -> None:
        self.insert(str(value).encode())

    def append(self, message: str) -> None:
        self.insert(message.encode())

    def settle(self) -> None:
        """Nothing waits outside of SQLite's WAL."""

    def close(self) -> None:
        self._connection.close()


def make(durability: str = "full"):
    return partial(Bare, durability=durability)
