"""A layered layout: each task in a column after those it waits for, with few long or crossed edges.

1. A task is in the column after the last one that it waits for. What waits for nothing is beside
   what comes after it.
2. An edge over several columns goes through a point in each column between. So it is led around
   tasks, like a narrow task of its own.
3. Columns are swept to and fro. Each time, what is in a column is ordered by where its neighbours
   are on average, and moved there: as near as the others in its column allow. Heavy edges pull
   more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from otolith.flows.graph import Edge, TaskGraph

_SWEEPS = 12
_HEAVY = 25.0
_POINT_HEIGHT = 0.4
_MOST_POINTS = 3000
"""With more, edges are straight: nobody could follow them in any case."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where tasks are: the column and the row of each by its number; rows may be fractions.

    `routes` has the places that an edge goes through, with both of its ends.
    """

    columns: list[int]
    rows: list[float]
    routes: dict[Edge, list[tuple[int, float]]]


def layered_layout(graph: TaskGraph, heavy: Collection[Edge] = frozenset()) -> Layout:
    """Return a layout of a graph in which heavy edges are as straight as can be."""
    columns = _columns(graph)
    edges = [(one, two) for two, many in enumerate(graph.before) for one in many]
    has_points = sum(columns[two] - columns[one] - 1 for one, two in edges) <= _MOST_POINTS
    sweeps = _Sweeps(columns)
    routes = {}
    for edge in edges:
        weight = _HEAVY if edge in heavy else 1.0
        routes[edge] = sweeps.connect(*edge, weight=weight, has_points=has_points)
    sweeps.run()
    least = min(sweeps.rows, default=0.0)
    rows = [row - least for row in sweeps.rows]
    return Layout(
        columns,
        rows[: len(graph)],
        {edge: [(sweeps.columns[at], rows[at]) for at in path] for edge, path in routes.items()},
    )


def _columns(graph: TaskGraph) -> list[int]:
    found = [0] * len(graph)
    for number in graph.order:
        found[number] = max((found[each] + 1 for each in graph.before[number]), default=0)
    for number, many in enumerate(graph.after):
        if many and not graph.before[number]:
            found[number] = min(found[each] for each in many) - 1
    return found


class _Sweeps:
    """Tasks and points in columns, by their numbers: points come after the tasks."""

    def __init__(self, columns: Sequence[int]) -> None:
        self._tasks = len(columns)
        self.columns = [*columns]
        self.rows: list[float] = [0.0] * len(columns)
        self._neighbours: list[list[tuple[int, float]]] = [[] for _ in columns]

    def connect(self, one: int, two: int, *, weight: float, has_points: bool) -> list[int]:
        """Add an edge, and return the numbers it goes through."""
        between = range(self.columns[one] + 1, self.columns[two]) if has_points else ()
        first = len(self.columns)
        self.columns += between
        self.rows += [0.0] * len(between)
        self._neighbours += [[] for _ in between]
        path = [one, *range(first, len(self.columns)), two]
        for here, there in pairwise(path):
            self._neighbours[here].append((there, weight))
            self._neighbours[there].append((here, weight))
        return path

    def run(self) -> None:
        """Sweep to and fro, and in the end look at both sides at once."""
        found: dict[int, list[int]] = {}
        for number, at in enumerate(self.columns):
            found.setdefault(at, []).append(number)
        columns = [found[at] for at in sorted(found)]
        for column in columns:
            self._move(column, [float(at) for at in range(len(column))])
        for sweep in range(_SWEEPS):
            side = 0 if sweep >= _SWEEPS - 4 else -1 if sweep % 2 == 0 else 1
            for column in columns if sweep % 2 == 0 else reversed(columns):
                wanted = {number: self._wanted(number, side) for number in column}
                if sweep < _SWEEPS - 2:
                    column.sort(key=lambda number: (wanted[number], self.rows[number]))
                self._move(column, [wanted[number] for number in column])

    def _wanted(self, number: int, side: int) -> float:
        """Return the mean row of the neighbours of one side, or of both."""
        here = self.columns[number]
        seen = [
            (self.rows[other], weight)
            for other, weight in self._neighbours[number]
            if side == 0 or (self.columns[other] - here) * side > 0
        ]
        total = sum(weight for _, weight in seen)
        return sum(row * weight for row, weight in seen) / total if seen else self.rows[number]

    def _move(self, column: Sequence[int], wanted: Sequence[float]) -> None:
        """Move a column, in its order, as near to the wanted rows as its members let each other.

        Neighbours that would overlap make a block, which is where its members want on average.
        """
        blocks: list[tuple[float, float, int]] = []  # the sum of what is wanted, weight, count
        offsets, offset, last = [], 0.0, None
        for number, row in zip(column, wanted, strict=True):
            height = 1.0 if number < self._tasks else _POINT_HEIGHT
            offset += 0.0 if last is None else (last + height) / 2
            last = height
            offsets.append(offset)
            weight = max((weight for _, weight in self._neighbours[number]), default=1.0)
            block = ((row - offset) * weight, weight, 1)
            while blocks and blocks[-1][0] / blocks[-1][1] > block[0] / block[1]:
                one = blocks.pop()
                block = (one[0] + block[0], one[1] + block[1], one[2] + block[2])
            blocks.append(block)
        starts = [total / weight for total, weight, count in blocks for _ in range(count)]
        for number, start, offset in zip(column, starts, offsets, strict=True):
            self.rows[number] = start + offset
