"""States that are kept in versions, ours and the peers': one file each, loaded if installed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from bench.table import Absent

ROOMS = {
    "kvgit": "kvgit:pickle",
    "kvgit scientific": "kvgit:scientific",
    "agex": "agex",
    "diskcache": "cached",
    "joblib": "dumped:joblib",
    "pickle": "dumped:pickle",
}
"""The peers, by the name that the table shows."""

ASSIGNED_AGAIN = (
    "kvgit and diskcache do not notice changes in place: there the key is assigned again."
)
SYNCED = "otolith syncs the disk at every commit, no peer does."


class Holder(Protocol):
    """A dict whose values are kept in versions."""

    place: Path
    notices: bool  # a change in place is part of the next commit

    def get(self, key: str) -> Any:
        """Return the value, as a program would that goes on working with it."""

    def set(self, key: str, value: object) -> None:
        """Assign a key; it is part of the next commit."""

    def commit(self) -> Any:
        """Keep a version, and return its name."""

    def at(self, version: Any, key: str) -> Any:
        """Return a value as it was in a version."""

    def reopen(self) -> None:
        """Let go of everything and go on from the last version, as a new process would."""

    def close(self) -> None:
        """Let go of the files."""


class Plain:
    """A dict that keeps nothing: what every holder must agree with in the end."""

    notices = True

    def __init__(self) -> None:
        self.place = Path()
        self._values: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self._values[key]

    def set(self, key: str, value: object) -> None:
        self._values[key] = value

    def commit(self) -> None: ...

    def at(self, version: Any, key: str) -> Any:
        raise KeyError(key)

    def reopen(self) -> None: ...

    def close(self) -> None: ...


def start(room: str, place: Path) -> Holder | Absent:
    """Return a holder in a directory that is made for it, or why there is none."""
    name, _, variant = room.partition(":")
    place.mkdir()
    try:
        module = import_module(f"bench.state.holders.{name}")
        holder: Holder = module.make(place, variant)
    except ImportError as error:
        return Absent(f"not installed ({error.name or error})")
    return holder


def stored_bytes(place: Path) -> int:
    """Return the size of all files, logs included; to be asked when all is closed."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
