"""diskcache, used for versions: what was assigned is kept under its key and a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diskcache import Cache

NO_LIMIT = 1 << 62


class Cached:
    """Live values in a dict, and a cache that nothing is evicted from."""

    notices = False

    def __init__(self, place: Path) -> None:
        self.place = place
        self._live: dict[str, Any] = {}
        self._staged: set[str] = set()
        self._version = 0
        self._open()

    def _open(self) -> None:
        self._cache = Cache(str(self.place), size_limit=NO_LIMIT, eviction_policy="none")

    def get(self, key: str) -> Any:
        if key not in self._live:
            self._live[key] = self.at(self._version, key)
        return self._live[key]

    def set(self, key: str, value: object) -> None:
        self._live[key] = value
        self._staged.add(key)

    def commit(self) -> int:
        self._version += 1
        with self._cache.transact():
            for key in self._staged:
                self._cache[key, self._version] = self._live[key]
        self._staged.clear()
        return self._version

    def at(self, version: Any, key: str) -> Any:
        kept = (number for number in range(version, 0, -1) if (key, number) in self._cache)
        return self._cache[key, next(kept)]

    def reopen(self) -> None:
        self._cache.close()
        self._live.clear()
        self._open()

    def close(self) -> None:
        self._cache.close()


def make(place: Path, _: str) -> Cached:
    return Cached(place)
