"""TaskGraph: which task comes after which, in what order they can run, and what the whole takes.

Rules
1. A graph never has a cycle: whatever would close one is refused with its path, and nothing of it
   is added.
2. The order of two tasks that do not depend on each other is that in which they were added. So one
   graph has one order, in every process.

Times come from whoever asks: measured, expected, or all the same. `Schedule` is what they mean for
the graph if nothing but the dependencies made a task wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from otolith.errors import Exists, Invalid, KeyNotFound

_SHOWN = 20


class TaskGraph:
    """Tasks by name, each with those that must be done before it."""

    def __init__(self, tasks: Mapping[str, Iterable[str]] = {}) -> None:
        self.names: list[str] = []
        self.number: dict[str, int] = {}
        self.before: list[list[int]] = []
        self.after: list[list[int]] = []
        self._order: list[int] | None = None
        if tasks:
            self.add(tasks)

    def __repr__(self) -> str:
        return f"<TaskGraph {len(self.names)} tasks>"

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.number

    def add(
        self, tasks: Mapping[str, Iterable[str]], links: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Add tasks, each with the names that it comes after; and links of an earlier to a later.

        Raises:
            Exists: a task of this name is there.
            KeyNotFound: a task comes after one that is not there.
            Invalid: it would close a cycle.
        """
        first = len(self.names)
        number = dict(self.number)
        for name in tasks:
            if name in number:
                raise Exists(f"there is a task {name!r} already", hint="give it another name")
            number[name] = len(number)
        before = [[_known(number, each, name) for each in tasks[name]] for name in tasks]
        more = [(_known(number, one, two), _known(number, two, one)) for one, two in links]
        names, old_order = [*self.names, *tasks], self._order
        edges = [*self.before, *before]
        for one, two in more:
            edges[two] = [*edges[two], one]
        edges = [_unique(each) for each in edges] if more else [*self.before, *map(_unique, before)]
        after: list[list[int]] = [[] for _ in names]
        for two, many in enumerate(edges):
            for one in many:
                after[one].append(two)
        if more or old_order is None or any(each >= first for many in before for each in many):
            order = _sorted(edges, after)
            if len(order) < len(names):
                path = " -> ".join(names[each] for each in _cycle(edges, {*order}))
                raise Invalid(
                    f"these tasks wait for each other: {path}",
                    hint="remove one of these dependencies",
                )
        else:
            order = [*old_order, *range(first, len(names))]
        self.names, self.number, self.before, self.after = names, number, edges, after
        self._order = order

    @property
    def order(self) -> Sequence[int]:
        """The numbers of all tasks, each after those that must be done before it."""
        return self._order or ()

    def waits_for(self, name: str) -> list[str]:
        """Return the tasks that must be done before one."""
        return [self.names[each] for each in self.before[self.number[name]]]

    def unlocks(self, name: str) -> list[str]:
        """Return the tasks that come after one."""
        return [self.names[each] for each in self.after[self.number[name]]]

    def downstream(self, name: str) -> list[str]:
        """Return all tasks that come after one, near or far, in order."""
        reached = {self.number[name]}
        found = []
        for each in self.order:
            if not reached.isdisjoint(self.before[each]):
                reached.add(each)
                found.append(self.names[each])
        return found

    def schedule(self, seconds: Callable[[str], float] | Sequence[float]) -> Schedule:
        """Return when each task can begin and must begin, given what each takes."""
        took = [seconds(name) for name in self.names] if callable(seconds) else list(seconds)
        return Schedule(self, took)


@dataclass(frozen=True, eq=False)
class Schedule:
    """When each task of a graph can begin and must begin, by its number."""

    graph: TaskGraph
    seconds: list[float]

    @cached_property
    def starts(self) -> list[float]:
        """When each task begins if it waits for nothing but what comes before it."""
        starts, seconds, before = [0.0] * len(self.graph), self.seconds, self.graph.before
        ends = [0.0] * len(self.graph)
        for each in self.graph.order:
            if many := before[each]:
                starts[each] = max(ends[one] for one in many)
            ends[each] = starts[each] + seconds[each]
        return starts

    @cached_property
    def ranks(self) -> list[float]:
        """How long it takes from the beginning of each task to the end of the last after it."""
        ranks, seconds, after = [0.0] * len(self.graph), self.seconds, self.graph.after
        for each in reversed(self.graph.order):
            many = after[each]
            ranks[each] = seconds[each] + (max(ranks[two] for two in many) if many else 0.0)
        return ranks

    @cached_property
    def length(self) -> float:
        """How long the whole takes, with as many workers as it likes."""
        return max(self.ranks, default=0.0)

    @cached_property
    def slack(self) -> list[float]:
        """How much later each task can begin without delaying the end."""
        length = self.length
        return [
            max(0.0, length - start - rank)
            for start, rank in zip(self.starts, self.ranks, strict=True)
        ]

    @cached_property
    def critical_path(self) -> list[str]:
        """The tasks that make the whole as long as it is, in order."""
        ranks, path = self.ranks, list[int]()
        here = range(len(ranks))
        while here:
            path.append(max(here, key=lambda each: (ranks[each], -each)))
            here = self.graph.after[path[-1]]  # type: ignore[assignment]
        return [self.graph.names[each] for each in path]


def _known(number: Mapping[str, int], name: str, other: str) -> int:
    try:
        return number[name]
    except KeyError:
        known = ", ".join([*number][:_SHOWN])
        raise KeyNotFound(
            f"{other!r} comes after {name!r}, and there is no such task",
            hint=f"the tasks are: {known}",
        ) from None


def _unique(numbers: list[int]) -> list[int]:
    return (
        numbers
        if len(numbers) < 2 or len({*numbers}) == len(numbers)
        else [*dict.fromkeys(numbers)]
    )


def _sorted(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Return the numbers in an order of dependency, without those of a cycle and after it."""
    left = [len(many) for many in before]
    order = [each for each, count in enumerate(left) if not count]
    for each in order:  # it grows
        for two in after[each]:
            left[two] -= 1
            if not left[two]:
                order.append(two)
    return order


def _cycle(before: Sequence[Sequence[int]], fine: set[int]) -> list[int]:
    """Return a cycle among the numbers that are not fine, from a task back to it."""
    here = next(each for each in range(len(before)) if each not in fine)
    seen: dict[int, int] = {}
    path: list[int] = []
    while here not in seen:
        seen[here] = len(path)
        path.append(here)
        here = next(each for each in before[here] if each not in fine)
    return [here, *reversed(path[seen[here] :])]
