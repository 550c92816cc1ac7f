"""agex 0.1's versioned state on its disk store: it pickles all that was read to find changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agex.state.kv import Disk
from agex.state.versioned import Versioned

NO_LIMIT = 1 << 62  # its default evicts at 1 GB


class Agex:
    """A state whose snapshots are versions."""

    notices = True

    def __init__(self, place: Path) -> None:
        self.place = place
        self._disk = Disk(str(place), size_limit=NO_LIMIT)
        self._state = Versioned(self._disk)

    def get(self, key: str) -> Any:
        return self._state.get(key)

    def set(self, key: str, value: object) -> None:
        self._state.set(key, value)

    def commit(self) -> Any:
        return self._state.snapshot().commit_hash

    def at(self, version: Any, key: str) -> Any:
        return Versioned(self._disk, commit_hash=version).get(key)

    def reopen(self) -> None:
        head = self._state.current_commit  # it keeps no head: its user must
        self.close()
        self._disk = Disk(str(self.place), size_limit=NO_LIMIT)
        self._state = Versioned(self._disk, commit_hash=head)

    def close(self) -> None:
        self._disk.store.close()


def make(place: Path, _: str) -> Agex:
    return Agex(place)
