"""agex 0.1's versioned state on its disk store (diskcache, synchronous=NORMAL)."""

from __future__ import annotations

from pathlib import Path

from agex.state.kv import Disk
from agex.state.versioned import Versioned

NO_LIMIT = 1 << 62  # its default evicts at 1 GB


class Agex:
    """A state whose snapshots are commits."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._disk = Disk(str(place), size_limit=NO_LIMIT)
        self._state = Versioned(self._disk)

    def fill(self, items: dict[str, object]) -> None:
        for key, value in items.items():
            self._state.set(key, value)
        self._state.snapshot()

    def change(self, key: str, value: object) -> None:
        self._state.set(key, value)
        self._state.snapshot()

    def append(self, message: str) -> None:
        self._state.set("events", [*self._state.get("events", ()), message])
        self._state.snapshot()

    def settle(self) -> None:
        """Nothing waits outside of SQLite's WAL."""

    def close(self) -> None:
        self._disk.store.close()


def make():
    return Agex
