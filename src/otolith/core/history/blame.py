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
        cell = self._base(tip, path)
        if cell is None:
            return []
        if self._cells.kind(cell) == "map":
            names = self._cells.names(cell)
        else:
            model = model_in(self._cells, cell)
            names = [] if model is None else model.all_names
            if not names:
                return [Blame(format_path(path), self.writer(tip, path))]
        found, unkey = self._writers(tip, path, set(names)), self._cells.encoding.unkey
        return [Blame(format_path((*path, unkey(name))), found[name]) for name in names]

    def _base(self, commit: Commit, path: Path) -> bytes | None:
        """Return the cell at a path, or of the whole state."""
        return self.at(commit, path) if path else commit.cell

    def _writers(self, tip: Commit, path: Path, names: set[bytes]) -> dict[bytes, Commit]:
        """Walk back once for all names; each is passed to a parent that has the same value."""
        heap = [(-tip.time, tip.id, tip)]
        open_names = {tip.id: names}
        found: dict[bytes, Commit] = {}
        while heap:
            commit = heapq.heappop(heap)[2]
            rest = open_names.pop(commit.id)
            for parent in self._graph.parents(commit):
                changed = self._changed(parent, commit, path, rest)
                same, rest = rest, rest & changed
                same -= rest  # in place, as most names are handed on
                if not same:
                    continue
                if parent.id in open_names:
                    open_names[parent.id] |= same
                else:
                    heapq.heappush(heap, (-parent.time, parent.id, parent))
                    open_names[parent.id] = same
            found.update(dict.fromkeys(rest, commit))
        return found

    def _changed(self, old: Commit, new: Commit, path: Path, names: set[bytes]) -> set[bytes]:
        """Return those names, and others, whose value differs between two commits."""
        before, after = self._base(old, path), self._base(new, path)
        if before is None or after is None:
            return names
        if self._cells.kind(before) == self._cells.kind(after) == "map":
            return {name for name, _, _ in self._cells.map_differences(before, after)}
        unkey = self._cells.encoding.unkey
        return {name for name in names if not self._is_same(new, old, (*path, unkey(name)))}
