"""Questions to the past: which commits changed a path, and who set what is there now."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from otolith.core.history.commits import Commit, Graph
from otolith.core.paths import Path, format_path
from otolith.core.trees.cells import Cells, walk


class Blame(NamedTuple):
    """A path, and the commit that gave it the value it has."""

    path: str
    commit: Commit


class Past:
    """Reads the same path at many commits."""

    def __init__(self, cells: Cells, graph: Graph) -> None:
        self._cells = cells
        self._graph = graph

    def at(self, commit: Commit, path: Path) -> bytes | None:
        """Return the cell at a path in a commit."""
        names = tuple(map(self._cells.encoding.key, path))
        return walk(self._cells, commit.cell, names)

    def changes(self, tip: Commit, path: Path) -> Iterator[Commit]:
        """Yield the commits that changed a path, the latest first."""
        for commit in self._graph.log(tip):
            here = self.at(commit, path)
            parents = [self.at(parent, path) for parent in self._graph.parents(commit)]
            if not any(self._cells.same(here, there) for there in parents or [None]):
                yield commit

    def writer(self, tip: Commit, path: Path) -> Commit:
        """Return the commit that gave a path the value, or the absence, that it has at `tip`."""
        commit = tip
        while (before := self._unchanged(commit, path)) is not None:
            commit = before
        return commit

    def _unchanged(self, commit: Commit, path: Path) -> Commit | None:
        """Return a parent in which the path is as it is here."""
        here = self.at(commit, path)
        for parent in self._graph.parents(commit):
            if parent.cell == commit.cell or self._cells.same(here, self.at(parent, path)):
                return parent
        return None

    def blame(self, tip: Commit, path: Path) -> list[Blame]:
        """Return who set each entry of the map at a path, or the value there if it is no map."""
        cell = self.at(tip, path) if path else tip.cell
        if cell is None:
            return []
        if self._cells.kind(cell) != "map":
            return [Blame(format_path(path), self.writer(tip, path))]
        keys = [self._cells.encoding.unkey(key) for key, _ in self._cells.entries(cell)]
        return self._blame_all(tip, [(*path, key) for key in keys])

    def _blame_all(self, tip: Commit, paths: list[Path]) -> list[Blame]:
        """Walk back once for all paths, handing each on to a parent until none has it."""
        heap = [(-tip.time, tip.id, tip)]
        open_paths: dict[str, list[Path]] = {tip.id: paths}
        found: dict[Path, Commit] = {}
        while heap:
            commit = heapq.heappop(heap)[2]
            rest = open_paths.pop(commit.id)
            for parent in self._graph.parents(commit):
                same, rest = self._inherited(commit, parent, rest)
                if same and parent.id not in open_paths:
                    heapq.heappush(heap, (-parent.time, parent.id, parent))
                    open_paths[parent.id] = []
                open_paths.get(parent.id, []).extend(same)
            found.update(dict.fromkeys(rest, commit))
        return [Blame(format_path(path), found[path]) for path in paths]

    def _inherited(
        self, commit: Commit, parent: Commit, paths: list[Path]
    ) -> tuple[list[Path], list[Path]]:
        """Split paths into those that are as in the parent, and the others."""
        if parent.cell == commit.cell:
            return paths, []
        same: list[Path] = []
        other: list[Path] = []
        for path in paths:
            equal = self._cells.same(self.at(commit, path), self.at(parent, path))
            (same if equal else other).append(path)
        return same, other
