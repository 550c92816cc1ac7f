"""History of a path: the commits that changed it, and the commit that set what is there now."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from otolith.core.history.commits import Commit, Graph
from otolith.core.paths import Path, format_path
from otolith.core.trees.cells import Cells, walk
from otolith.core.trees.model_tables import model_in


class Blame(NamedTuple):
    """A path, and the commit that gave it the value it has."""

    path: str
    commit: Commit


class PathHistory:
    """Compares the same path at many commits."""

    def __init__(self, cells: Cells, graph: Graph) -> None:
        self._cells = cells
        self._graph = graph

    def at(self, commit: Commit, path: Path) -> bytes | None:
        """Return the cell at a path in a commit."""
        names = tuple(map(self._cells.encoding.key, path))
        return walk(self._cells, commit.cell, names)

    def _is_same(self, commit: Commit, parent: Commit, path: Path) -> bool:
        """Tell whether a path has the same value, or absence, in two commits."""
        if parent.cell == commit.cell:
            return True
        return self._cells.same(self.at(commit, path), self.at(parent, path))

    def changes(self, tip: Commit, path: Path) -> Iterator[Commit]:
        """Yield the commits that changed a path, the latest first.

        A merge changed it only if its value differs from that of every parent.
        """
        for commit in self._graph.log(tip):
            parents = self._graph.parents(commit)
            if not parents:
                if self.at(commit, path) is not None:
                    yield commit
            elif not any(self._is_same(commit, parent, path) for parent in parents):
                yield commit

    def writer(self, tip: Commit, path: Path) -> Commit:
        """Return the commit that gave a path the value, or the absence, that it has at `tip`."""
        while True:
            parents = self._graph.parents(tip)
            same = next((each for each in parents if self._is_same(tip, each, path)), None)
            if same is None:
                return tip
            tip = same

    def blame(self, tip: Commit, path: Path) -> list[Blame]:
        """Return who set each entry of the map at a path, or each field of the model there.

        Of any other value, who set it.
        """
        cell = self.at(tip, path) if path else tip.cell
        if cell is None:
            return []
        if self._cells.kind(cell) == "map":
            names = self._cells.names(cell)
        else:
            model = model_in(self._cells, cell)
            names = [] if model is None else model.all_names
            if not names:
                return [Blame(format_path(path), self.writer(tip, path))]
        unkey = self._cells.encoding.unkey
        return self._blame_all(tip, [(*path, unkey(name)) for name in names])

    def _blame_all(self, tip: Commit, paths: list[Path]) -> list[Blame]:
        """Walk back once for all paths; each is passed to a parent that has the same value."""
        heap = [(-tip.time, tip.id, tip)]
        open_paths: dict[str, list[Path]] = {tip.id: paths}
        found: dict[Path, Commit] = {}
        while heap:
            commit = heapq.heappop(heap)[2]
            rest = open_paths.pop(commit.id)
            for parent in self._graph.parents(commit):
                compared = [(path, self._is_same(commit, parent, path)) for path in rest]
                same = [path for path, is_same in compared if is_same]
                rest = [path for path, is_same in compared if not is_same]
                if same and parent.id not in open_paths:
                    heapq.heappush(heap, (-parent.time, parent.id, parent))
                    open_paths[parent.id] = []
                open_paths.get(parent.id, []).extend(same)
            found.update(dict.fromkeys(rest, commit))
        return [Blame(format_path(path), found[path]) for path in paths]
