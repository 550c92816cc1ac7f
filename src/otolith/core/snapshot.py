"""A state as it was at one commit, read-only."""

from __future__ import annotations

from otolith.core.history.graph import Commit
from otolith.core.paths import Path
from otolith.core.reading import Reading
from otolith.core.trees.cells import Cells
from otolith.core.trees.walk import walk


class Snapshot(Reading):
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
