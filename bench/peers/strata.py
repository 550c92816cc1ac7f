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
        self._db: stratadb.Strata | None = None

    def fill(self, items: dict[str, object]) -> None:
        entries = [(key, str(value)) for key, value in items.items()]
        for start in range(0, len(entries), 1000):
            self._opened().kv.put_many(entries[start : start + 1000])

    def change(self, key: str, value: object) -> None:
        self._opened().kv.put(key, str(value))

    def append(self, message: str) -> None:
        self._opened().events.append("message", {"text": message})

    def settle(self) -> None:
        """Close it: while it is open, it tidies up in the background; the next use opens it."""
        self._opened()
        self.close()

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _opened(self) -> stratadb.Strata:
        if self._db is None:
            self._db = stratadb.open(str(self.place), durability=self._durability, ipc="off")
        return self._db


def make(durability: str = "standard"):
    return partial(Strata, durability=durability)
