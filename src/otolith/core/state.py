"""Reading a state: what branches and snapshots have in common.

A state as it was at one commit, read-only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from otolith.core.handles import BlobHandle, CounterHandle, Holder, ListHandle, MapHandle, SetHandle
from otolith.core.history.commits import Commit
from otolith.core.paths import Path, format_path, parse_path
from otolith.core.trees.cells import Cells, walk
from otolith.errors import KeyNotFound
from otolith.types import Tag

_HIDDEN = b"."
"""How the names that belong to otolith begin."""


class StateReader(Holder, Mapping[str, Any]):
    """A state as a read-only mapping: a path gives the value there, the top names are its keys."""

    @abstractmethod
    def _root(self) -> bytes:
        """Return the cell of the whole state."""

    def __getitem__(self, path: str | Path) -> Any:
        keys = parse_path(path)
        cell = self.cell_at(keys)
        if cell is None:
            raise KeyNotFound(
                f"nothing at {format_path(keys)}", hint="list(state) shows what is at the top"
            )
        return self.cells.load(cell)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str | tuple) and self.cell_at(parse_path(path)) is not None

    def __iter__(self) -> Iterator[str]:
        unkey = self.cells.encoding.unkey
        for key, _ in self.cells.entries(self._root()):
            if not key.startswith(_HIDDEN):
                yield format_path((unkey(key),))

    def __len__(self) -> int:
        root = self._root()
        hidden = takewhile(
            lambda pair: pair[0].startswith(_HIDDEN), self.cells.entries_from(root, _HIDDEN)
        )
        return self.cells.length(root) - sum(1 for _ in hidden)

    def names(self, path: str | Path = ()) -> list[str]:
        """Return the keys at a path, as parts of paths; the top by default."""
        return [format_path((key,)) for key in self.map(path)] if path else list(self)

    def size(self, path: str | Path = ()) -> int:
        """Return the length of the full encoding of the value at a path, without reading it."""
        cell = self.cell_at(parse_path(path)) if path else self._root()
        if cell is None:
            raise KeyNotFound(f"nothing at {format_path(parse_path(path))}")
        return self.cells.full_size(cell)

    def kind(self, path: str | Path = ()) -> str:
        """Name what is at a path: map, list, str, bytes, the type of a number, or a tag's name."""
        cell = self.cell_at(parse_path(path)) if path else self._root()
        if cell is None:
            raise KeyNotFound(f"nothing at {format_path(parse_path(path))}")
        kind = self.cells.kind(cell)
        if kind == "scalar":
            return type(self.cells.load(cell)).__name__
        tagged = self.cells.tag(cell) if kind == "tagged" else None
        return kind if tagged is None else Tag(tagged.code).name.lower()

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain Python values."""
        return {name: self[name] for name in self}

    def list(self, path: str | Path) -> ListHandle:
        """Return a handle on a list: it reads and writes what it touches, and no more."""
        return ListHandle(self, parse_path(path))

    def map(self, path: str | Path) -> MapHandle:
        """Return a handle on a dict; its keys may be of any plain type."""
        return MapHandle(self, parse_path(path))

    def set(self, path: str | Path) -> SetHandle:
        """Return a handle on a set."""
        return SetHandle(self, parse_path(path))

    def counter(self, path: str | Path) -> CounterHandle:
        """Return a handle on a number that merges by adding up."""
        return CounterHandle(self, parse_path(path))

    def blob(self, path: str | Path) -> BlobHandle:
        """Return a handle on a long bytes value."""
        return BlobHandle(self, parse_path(path))


class Snapshot(StateReader):
    """What `at()` returns."""

    def __init__(self, cells: Cells, commit: Commit) -> None:
        self._tree = cells
        self.commit = commit

    @property
    def cells(self) -> Cells:
        return self._tree

    def _root(self) -> bytes:
        return self.commit.cell

    def cell_at(self, path: Path) -> bytes | None:
        names = tuple(map(self._tree.encoding.key, path))
        return walk(self._tree, self.commit.cell, names)

    def __repr__(self) -> str:
        return f"<Snapshot {self.commit.short} {self.commit.message!r}>"
