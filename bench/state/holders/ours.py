"""otolith's Versioned on a Disk, as it is by default: synced, and looking for changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otolith import Disk, Versioned


class Ours:
    """A state in one file."""

    notices = True

    def __init__(self, place: Path) -> None:
        self.place = place
        self.state = Versioned(Disk(place / "agent.db"))

    def get(self, key: str) -> Any:
        return self.state[key]

    def set(self, key: str, value: object) -> None:
        self.state[key] = value

    def commit(self) -> str:
        return self.state.commit().id

    def at(self, version: Any, key: str) -> Any:
        return self.state.at(version)[key]

    def reopen(self) -> None:
        self.state.close()
        self.state = Versioned(Disk(self.place / "agent.db"))

    def close(self) -> None:
        self.state.close()


def make(place: Path, _: str) -> Ours:
    return Ours(place)
