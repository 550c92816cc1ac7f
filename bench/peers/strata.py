"""stratadb: each put is a commit; `standard` syncs now and then, `always` before it returns."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import stratadb


class Strata:
    """Keys in its key-value space, messages in its event log."""

    def __init__(self, place: Path, *, durability: str) -> None:
        self.place = place
        self._durability = durability
        self._open()

    def _open(self) -> None:
        self._db = stratadb.open(str(self.place), durability=self._durability, ipc="off")

    def fill(self, items: dict[str, object]) -> None:
        entries = [(key, str(value)) for key, value in items.items()]
        for start in range(0, len(entries), 1000):
            self._db.kv.put_many(entries[start : start + 1000])

    def change(self, key: str, value: object) -> None:
        self._db.kv.put(key, str(value))

    def append(self, message: str) -> None:
        self._db.events.append("message", {"text": message})

    def settle(self) -> None:
        self._db.close()
        self._open()

    def close(self) -> None:
        self._db.close()


def make(durability: str = "standard"):
    return partial(Strata, durability=durability)
