"""Burr's SQLitePersister: each step stores the whole state as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from burr.core import State
from burr.core.persistence import SQLitePersister


class Persister:
    """One application whose state is a list of messages."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._persister = SQLitePersister(str(place))
        self._persister.initialize()
        self._state: State[Any] = State({"messages": []})
        self._step = 0

    def append(self, message: str) -> None:
        self._step += 1
        self._state = self._state.append(messages=message)
        self._persister.save("bench", "1", self._step, "say", self._state, "completed")

    def settle(self) -> None:
        """Nothing waits anywhere."""

    def close(self) -> None:
        self._persister.cleanup()


def make():
    return Persister
