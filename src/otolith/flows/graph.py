"""TaskGraph: which task comes after which, in what order they can run, and what the whole takes.

Rules
1. A graph never has a cycle: whatever would close one is refused with its path, and nothing of it
   is added.
2. In the order of a graph, each place belongs to the task that was added first among those that can
   be there. So one graph has one order, in every process, however many calls have built it.

A task that comes after tasks which were there before it cannot close a cycle, and the order of its
graph ends with it. So `add` costs what it adds. Only links back, from a later task to an earlier
one, are searched for a cycle: through all that comes after them; and the order is made anew when
it is next asked for.

Times come from whoever asks: measured, expected, or all the same. `Schedule` is what they mean for
the graph if nothing but the dependencies made a task wait. It visits each task and each dependency
a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from math import inf
from typing import TypeAlias

from otolith.errors import Exists, Invalid, KeyNotFound

_SHOWN = 20
_ROUNDING = 1e-9
"""Sums of the same seconds in another order differ by less than this share of the whole."""

Edge: TypeAlias = tuple[int, int]
"""The numbers of a task and of one that comes after it."""


class TaskGraph:
    """Tasks by name, each with those that must be done before it.

    A task has a number: how many were added before it. `before` and `after` have the numbers of
    the tasks that it comes after, and of those that come after it. They are read, never changed.
    """

    def __init__(self, tasks: Mapping[str, Iterable[str]] = {}) -> None:
        self.names: list[str] = []
        self.number: dict[str, int] = {}
        self.before: list[list[int]] = []
        self.after: list[list[int]] = []
        self._order: list[int] | None = []
        self._shares = False
        """Whether another graph has the same lists of what comes after a task."""
        self._leads_back = False
        """Whether a task comes after one that was added later."""
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
        fresh = {name: number for number, name in enumerate(tasks, first)}
        if (twice := next((name for name in fresh if name in self.number), None)) is not None:
            raise Exists(f"there is a task {twice!r} already", hint="give it another name")
        self.number.update(fresh)
        try:
            before, more = self._numbered(tasks, links)
            leads_back = any(many and max(many) >= two for two, many in enumerate(before, first))
            leads_back = leads_back or any(one >= two for one, two in more)
            is_at_end = not leads_back and not (more and self._leads_back)
            if not is_at_end:
                edges = [(one, two) for two, many in enumerate(before, first) for one in many]
                self._refuse_cycle([*fresh], [*edges, *more])
        except BaseException:
            for name in fresh:
                del self.number[name]
            raise
        self._append([*fresh], before, more)
        self._leads_back |= leads_back
        if not is_at_end:
            self._order = None
        elif self._order is not None:
            self._order += fresh.values()

    def grown(
        self, tasks: Mapping[str, Iterable[str]], links: Iterable[tuple[str, str]] = ()
    ) -> TaskGraph:
        """Return a graph with more tasks and links, as `add` does; this one stays as it is.

        What it has already is shared: a few pointers are copied for each task, and nothing is
        searched or sorted again.
        """
        new = TaskGraph()
        new.names, new.number = [*self.names], dict(self.number)
        new.before, new.after = [*self.before], [*self.after]
        new._order = None if self._order is None else [*self._order]
        new._leads_back, new._shares = self._leads_back, True
        new.add(tasks, links)
        return new

    @property
    def order(self) -> Sequence[int]:
        """The numbers of all tasks, each after those that must be done before it."""
        if self._order is None:
            self._order = _sorted(self.before, self.after)
        return self._order

    def waits_for(self, name: str) -> list[str]:
        """Return the tasks that must be done before one."""
        return [self.names[each] for each in self.before[self.number[name]]]

    def unlocks(self, name: str) -> list[str]:
        """Return the tasks that come after one."""
        return [self.names[each] for each in self.after[self.number[name]]]

    def downstream(self, name: str) -> list[str]:
        """Return all tasks that come after one, near or far, in the order of the graph."""
        found: dict[int, None] = dict.fromkeys(self.after[self.number[name]])
        left = [*found]
        while left:
            further = [each for each in self.after[left.pop()] if each not in found]
            found.update(dict.fromkeys(further))
            left += further
        ordered = [each for each in self.order if each in found] if self._leads_back else None
        return [self.names[each] for each in ordered or sorted(found)]

    def schedule(self, seconds: Callable[[str], float] | Sequence[float]) -> Schedule:
        """Return when each task can begin and must begin, given what each takes.

        Raises:
            Invalid: a task would take less than no time, or no number of seconds.
        """
        took = [seconds(name) for name in self.names] if callable(seconds) else list(seconds)
        if len(took) != len(self.names):
            raise Invalid(
                f"there are {len(self.names)} tasks and seconds of {len(took)}",
                hint="give the seconds of each task, in the order of their numbers",
            )
        if not all(0 <= each < inf for each in took):
            number = next(at for at, each in enumerate(took) if not 0 <= each < inf)
            raise Invalid(
                f"task {self.names[number]!r} would take {took[number]} seconds",
                hint="give each task a number of seconds that is not below 0",
            )
        return Schedule(self, took)

    def _numbered(
        self, tasks: Mapping[str, Iterable[str]], links: Iterable[tuple[str, str]]
    ) -> tuple[list[list[int]], list[Edge]]:
        """Return the numbers of what each new task comes after, and of the links; each once."""
        number, waits, pairs = self.number, [tuple(many) for many in tasks.values()], [*links]
        try:
            before = [_unique([number[one] for one in many]) for many in waits]
            more = dict.fromkeys((number[one], number[two]) for one, two in pairs)
        except KeyError:
            said = {
                f"{two!r} comes after {one!r}": [one]
                for two, many in zip(tasks, waits, strict=True)
                for one in many
            }
            said |= {f"a link leads from {one!r} to {two!r}": [one, two] for one, two in pairs}
            what = next(what for what, ends in said.items() if not number.keys() >= {*ends})
            raise KeyNotFound(
                f"{what}, and there is no such task",
                hint=f"the tasks are: {', '.join(self.names[:_SHOWN]) or 'none'}",
            ) from None
        first, known = len(self.names), self.before
        return before, [
            (one, two)
            for one, two in more
            if one not in (known[two] if two < first else before[two - first])
        ]

    def _append(
        self, names: Sequence[str], before: Sequence[list[int]], more: Collection[Edge]
    ) -> None:
        first, after = len(self.names), self.after
        self.names += names
        self.before += before
        after += [[] for _ in names]
        if self._shares:
            for one in {one for many in before for one in many} | {one for one, _ in more}:
                after[one] = [*after[one]]
            for two in {two for _, two in more}:
                self.before[two] = [*self.before[two]]
        for two, many in enumerate(before, first):
            for one in many:
                after[one].append(two)
        for one, two in more:
            self.before[two].append(one)
            after[one].append(two)

    def _refuse_cycle(self, added: Sequence[str], edges: Iterable[Edge]) -> None:
        """Raise if new tasks and edges close a cycle: it leads through the end of one of these."""
        first, fresh = len(self.names), dict[int, list[int]]()
        for one, two in edges:
            fresh.setdefault(one, []).append(two)

        def following(number: int) -> Iterator[int]:
            if number < first:
                yield from self.after[number]
            yield from fresh.get(number, ())

        if path := _cycle([two for _, two in edges], following):
            names = [self.names[each] if each < first else added[each - first] for each in path]
            if len(names) > _SHOWN:
                names[_SHOWN - 1 : -1] = [f"({len(names) - _SHOWN} more)"]
            raise Invalid(
                f"these tasks wait for each other: {' -> '.join(names)}",
                hint="remove one of these dependencies",
            )


@dataclass(frozen=True, eq=False)
class Schedule:
    """When each task of a graph can begin and must begin, by its number.

    It is of the graph as it was when the schedule was made: ask for another after adding tasks.
    """

    graph: TaskGraph
    seconds: list[float]

    @cached_property
    def starts(self) -> list[float]:
        """When each task begins if it waits for nothing but what comes before it."""
        starts, seconds, before = [0.0] * len(self.graph), self.seconds, self.graph.before
        ends = [0.0] * len(self.graph)
        for each in self.graph.order:
            if many := before[each]:
                starts[each] = max(map(ends.__getitem__, many))
            ends[each] = starts[each] + seconds[each]
        return starts

    @cached_property
    def latest_starts(self) -> list[float]:
        """When each task must have begun, or the whole takes longer."""
        return [start + slack for start, slack in zip(self.starts, self.slack, strict=True)]

    @cached_property
    def ranks(self) -> list[float]:
        """How long it takes from the beginning of each task to the end of the last after it."""
        ranks, seconds, after = [0.0] * len(self.graph), self.seconds, self.graph.after
        for each in reversed(self.graph.order):
            many = after[each]
            ranks[each] = seconds[each] + (max(map(ranks.__getitem__, many)) if many else 0.0)
        return ranks

    @cached_property
    def length(self) -> float:
        """How long the whole takes, with as many workers as it likes."""
        return max(self.ranks, default=0.0)

    @cached_property
    def slack(self) -> list[float]:
        """How much later each task can begin without delaying the end: 0 if it is critical."""
        length = self.length
        least = length * _ROUNDING
        found = [length - start - rank for start, rank in zip(self.starts, self.ranks, strict=True)]
        return [each if each > least else 0.0 for each in found]

    @cached_property
    def critical_path(self) -> list[str]:
        """The tasks that make the whole as long as it is, in order; of several paths, the first."""
        graph, ranks, path = self.graph, self.ranks, list[int]()
        here = [each for each, many in enumerate(graph.before) if not many]
        while here:
            path.append(max(here, key=lambda each: (ranks[each], -each)))
            here = graph.after[path[-1]]
        return [graph.names[each] for each in path]


def _unique(numbers: list[int]) -> list[int]:
    is_unique = len(numbers) < 2 or len({*numbers}) == len(numbers)
    return numbers if is_unique else [*dict.fromkeys(numbers)]


def _sorted(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """Return the numbers in an order of dependency, always the least that can be next."""
    left = [len(many) for many in before]
    can_be_next = [each for each, count in enumerate(left) if not count]  # sorted, so it is a heap
    order = []
    while can_be_next:
        order.append(heappop(can_be_next))
        for two in after[order[-1]]:
            left[two] -= 1
            if not left[two]:
                heappush(can_be_next, two)
    return order


def _cycle(heads: Iterable[int], following: Callable[[int], Iterator[int]]) -> list[int]:
    """Return a cycle that can be reached from the heads, from a task back to it; or nothing."""
    finished: set[int] = set()
    for head in heads:
        path = {} if head in finished else {head: following(head)}
        while path:
            here, further = next(reversed(path.items()))
            two = next((each for each in further if each not in finished), None)
            if two is None:
                finished.add(here)
                del path[here]
            elif two in path:
                numbers = [*path]
                return [*numbers[numbers.index(two) :], two]
            else:
                path[two] = following(two)
    return []
