"""The peers that keep a frame: all of it at every step, in a file of its own, or in Kishu's way."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from bench.table import Absent

Namespace = dict[str, Any]

PEERS = ("cloudpickle", "dill", "parquet", "Kishu")
FILES = ("cloudpickle", "dill", "parquet")
WHOLE = "dill, cloudpickle and parquet (zstd -1) write the whole frame at every step."


class Saver(Protocol):
    """Keeps versions of the frame `df` of a namespace."""

    def save(self, namespace: Namespace, code: str) -> None:
        """Keep a version after a step."""

    def stored_bytes(self) -> int:
        """Return the size of all versions so far."""

    def close(self) -> None:
        """Remove everything."""


@dataclass
class Files:
    """One file a version, which is removed once it has been weighed."""

    place: Path
    write: Callable[[Any, Path], object]
    read: Callable[[Path], Any]
    read_column: Callable[[Path, str], Any]
    _sizes: list[int] = field(default_factory=list)

    def save(self, namespace: Namespace, code: str) -> None:
        path = self.place / f"{len(self._sizes):04}"
        self.write(namespace["df"], path)
        self._sizes.append(path.stat().st_size)

    def stored_bytes(self) -> int:
        for path in self.place.iterdir():
            path.unlink()
        return sum(self._sizes)

    def close(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    @property
    def last(self) -> Path:
        """The file of the last version."""
        return max(self.place.iterdir())


def start(name: str, place: Path) -> Saver | Absent:
    """Return what keeps a frame in a directory that is made for it, or why there is none."""
    place.mkdir()
    try:
        if name == "Kishu":
            saver: Saver = import_module("bench.workspace.kishu").Planned(place)
            return saver
        return files(name, place)
    except ImportError as error:
        return Absent(f"not installed ({error.name or error})")


def files(name: str, place: Path) -> Files:
    """Return a peer that writes files.

    Raises:
        ImportError: it is not installed.
    """
    place.mkdir(exist_ok=True)
    if name == "parquet":
        return _parquet(place)
    module = import_module(name)
    read = partial(_load, module)
    return Files(place, partial(_dump, module), read, lambda path, column: read(path)[column])


def _dump(module: Any, df: Any, path: Path) -> None:
    with path.open("wb") as file:
        module.dump(df, file, protocol=5)


def _load(module: Any, path: Path) -> Any:
    with path.open("rb") as file:
        return module.load(file)


def _parquet(place: Path) -> Files:
    import pandas as pd  # type: ignore[import-untyped]

    import_module("pyarrow")
    return Files(
        place,
        lambda df, path: df.to_parquet(path, compression="zstd", compression_level=1),
        pd.read_parquet,
        lambda path, column: pd.read_parquet(path, columns=[column])[column],
    )
