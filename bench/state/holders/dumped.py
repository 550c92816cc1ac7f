"""The whole state to a new file at every commit, by pickle or by joblib; not synced."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple


class Way(NamedTuple):
    """How to write a value to a file, how to read it to go on, and how to only look at it."""

    dump: Callable[[Any, Path], object]
    load: Callable[[Path], Any]
    look: Callable[[Path], Any]


class Dumped:
    """A dict, and a directory of its versions."""

    notices = True

    def __init__(self, place: Path, way: Way) -> None:
        self.place = place
        self._way = way
        self._state: dict[str, Any] = {}
        self._version = 0

    def get(self, key: str) -> Any:
        return self._state[key]

    def set(self, key: str, value: object) -> None:
        self._state[key] = value

    def commit(self) -> int:
        self._version += 1
        self._way.dump(self._state, self._file(self._version))
        return self._version

    def at(self, version: Any, key: str) -> Any:
        return self._way.look(self._file(version))[key]

    def reopen(self) -> None:
        self._state = self._way.load(self._file(self._version))

    def close(self) -> None:
        self._state = {}

    def _file(self, version: int) -> Path:
        return self.place / f"{version:08}"


def make(place: Path, way: str) -> Dumped:
    return Dumped(place, _joblib() if way == "joblib" else Way(_pickle, _unpickle, _unpickle))


def _pickle(state: Any, path: Path) -> None:
    with path.open("wb") as file:
        pickle.dump(state, file, protocol=pickle.HIGHEST_PROTOCOL)


def _unpickle(path: Path) -> Any:
    with path.open("rb") as file:
        return pickle.load(file)


def _joblib() -> Way:
    import joblib

    # Of a file that is mapped into memory, only those pages are read that are asked for.
    return Way(joblib.dump, joblib.load, partial(joblib.load, mmap_mode="r"))
