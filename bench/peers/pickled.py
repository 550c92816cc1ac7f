"""Plain pickle: the whole state to a new file at every step, not synced."""

from __future__ import annotations

import pickle
from pathlib import Path


class Pickled:
    """A dict and a directory of its versions."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.place.mkdir()
        self._state: dict[str, object] = {}
        self._messages: list[str] = []
        self._step = 0

    def fill(self, items: dict[str, object]) -> None:
        self._state |= items
        self._put()

    def change(self, key: str, value: object) -> None:
        self._state[key] = value
        self._put()

    def append(self, message: str) -> None:
        self._messages.append(message)
        self._state["events"] = self._messages
        self._put()

    def settle(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """There is nothing open."""

    def _put(self) -> None:
        self._step += 1
        data = pickle.dumps(self._state, protocol=pickle.HIGHEST_PROTOCOL)
        (self.place / f"{self._step:08}.pickle").write_bytes(data)


def make():
    return Pickled
