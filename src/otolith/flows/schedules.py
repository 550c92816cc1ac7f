"""Schedules of work on a number of slots: who runs when, when all is done, and what that hangs on.

Rules
1. A slot that is free takes the most urgent of the tasks that can begin, and never stays idle for
   one that will be more urgent. That is what workers do; here they do it in virtual time.
2. Nothing is random: where samples are drawn, they are the same each time.

How urgent a task is, is its upward rank: how long it takes from its beginning to the end of the
last task after it. On few slots this is not the best. `best_priorities` turns time around: it
simulates the same work backwards, with what was last going first, and then forwards again with what
that began last going last. What had no need to be early makes room for what had. It does so for the
ranks, and for a few lists that differ from them at random, and returns the best list that it saw.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from math import inf, log, sqrt
from random import Random
from typing import NamedTuple

from otolith.errors import Invalid, KeyNotFound
from otolith.flows.graph import TaskGraph

TASK_STEPS = 250_000
"""How many tasks are simulated for one answer, in all simulations: some 0.4 s of a processor."""
_VARIANTS = 3
_VARIATION = 0.5
_SAMPLES = (5, 30)
_TRIES = 8
_ROUNDING = 1e-9
_SHOWN = 20
_NOBODY = -1
"""Ends when a rate lets something begin."""


@dataclass(frozen=True, eq=False)
class Work:
    """Tasks, how long each takes, and on how many slots. All is by the numbers of the tasks.

    `needs` has the units of named resources that each task takes while it runs. A resource that is
    not in `capacities` has no limit. `rates` are how many tasks that need one may begin in any such
    time, in seconds. What is `settled` takes no time. What has `begun` has run for so many seconds
    already. What is `outside` takes no slot and no resource: it waits for a person.
    """

    graph: TaskGraph
    seconds: Sequence[float]
    slots: int
    needs: Sequence[Mapping[str, int]] = ()
    capacities: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    settled: Collection[int] = frozenset()
    begun: Mapping[int, float] = field(default_factory=dict)
    outside: Collection[int] = frozenset()

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise Invalid(
                f"slots must be at least 1, got {self.slots}", hint="say how many tasks run at once"
            )
        for number, needs in enumerate(self.needs):
            for name, units in needs.items():
                if units > self.capacities.get(name, units):
                    raise Invalid(
                        f"task {self.graph.names[number]!r} needs {units} of {name!r}, "
                        f"and there are {self.capacities[name]}",
                        hint="raise the capacity, or lower the need",
                    )

    def limited_needs(self, number: int) -> dict[str, int]:
        """Return the units that a task needs of resources that have a capacity."""
        needs = self.needs[number] if self.needs else {}
        return {name: units for name, units in needs.items() if name in self.capacities}

    def limiting_needs(self, number: int) -> dict[str, int]:
        """Return the units that a task needs of resources that have a capacity or a rate."""
        needs = self.needs[number] if self.needs else {}
        both = (self.capacities, self.rates)
        return {name: units for name, units in needs.items() if any(name in each for each in both)}

    @cached_property
    def left(self) -> list[float]:
        """How many seconds each task still takes."""
        found = self.graph.schedule(self.seconds).seconds
        for number in self.settled:
            found[number] = 0.0
        for number, elapsed in self.begun.items():
            found[number] = max(0.0, found[number] - elapsed)
        return found

    @cached_property
    def ranks(self) -> list[float]:
        """How long it takes from the beginning of each task to the end of the last after it."""
        return self.graph.schedule(self.left).ranks

    @cached_property
    def bound(self) -> float:
        """What no schedule is shorter than: the critical path, and what there is to do by slots."""
        outside = frozenset(self.outside)
        inside = (each for number, each in enumerate(self.left) if number not in outside)
        return max(max(self.ranks, default=0.0), sum(inside) / self.slots)


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each task begins and ends, by its number."""

    graph: TaskGraph
    starts: list[float]
    ends: list[float]

    @property
    def makespan(self) -> float:
        """When the last task ends."""
        return max(self.ends, default=0.0)

    def ready(self, number: int) -> float:
        """Return when a task could have begun."""
        return max((self.ends[each] for each in self.graph.before[number]), default=0.0)

    def chain(self) -> list[int]:
        """Return the tasks that the end hangs on, in order: each could begin when the one before
        it was done, whether or not it then had to wait.
        """
        found: list[int] = []
        here: Sequence[int] = range(len(self.ends))
        while here:
            found.append(max(here, key=lambda each: (self.ends[each], -each)))
            here = self.graph.before[found[-1]]
        return found[::-1]

    def since(self, now: float, happened: Mapping[int, tuple[float, float]]) -> Timeline:
        """Return what has happened, from start to end, and then this, which begins now."""
        starts, ends = [now + each for each in self.starts], [now + each for each in self.ends]
        for number, (start, end) in happened.items():
            starts[number], ends[number] = start, end
        return Timeline(self.graph, starts, ends)


class Estimate(NamedTuple):
    """Seconds until the end: less than `low` in one of ten cases, more than `high` in another."""

    low: float
    expected: float
    high: float


class WhatIf(NamedTuple):
    """How long a schedule takes as it is, and how long if something took another time."""

    before: float
    after: float

    @property
    def saved(self) -> float:
        """How much shorter it would be; below zero if it would be longer."""
        return self.before - self.after


def simulate(work: Work, priorities: Sequence[float] | None = None) -> Timeline:
    """Return what happens if a free slot always takes the task of the highest priority.

    Without priorities that is the upward rank.
    """
    ranks, graph = work.ranks if priorities is None else priorities, work.graph
    simulation = _Simulation(work, ranks, graph.before, graph.after)
    simulation.run(work.begun)
    return Timeline(graph, simulation.starts, simulation.ends)


def best_priorities(work: Work) -> list[float]:
    """Return priorities with which a schedule is short: the best of a few that are simulated.

    They are the upward ranks where no list is better, and where there are too many tasks to try.
    """
    best, shortest, tries = work.ranks, inf, 0
    for variant in _variants(work):
        tries += 3
        if tries * len(work.graph) > TASK_STEPS or shortest <= work.bound * (1 + _ROUNDING):
            break
        timeline = simulate(work, variant)
        turned = _turned_around(work, timeline)
        for priorities, makespan in (
            (variant, timeline.makespan),
            (turned, simulate(work, turned).makespan),
        ):
            if makespan < shortest * (1 - _ROUNDING):
                best, shortest = priorities, makespan
    return best


def eta(work: Work, deviations: Sequence[float]) -> Estimate:
    """Return when all will be done, given the standard deviation of what each task takes.

    Durations are drawn at random around what is expected, longer ones being rarer (log-normal); a
    task that has begun takes longer than it has taken already. If it has run longer than any that
    is drawn, it is taken to end at any moment.
    """
    least, most = _SAMPLES
    random, ends = Random(0), list[float]()
    for _ in range(min(most, max(least, TASK_STEPS // max(1, len(work.graph))))):
        drawn = [
            _drawn(random, mean, deviation, work.begun.get(number, 0.0))
            for number, (mean, deviation) in enumerate(zip(work.seconds, deviations, strict=True))
        ]
        ends.append(simulate(replace(work, seconds=drawn), work.ranks).makespan)
    ends.sort()
    last = len(ends) - 1
    return Estimate(ends[round(last * 0.1)], ends[round(last * 0.5)], ends[round(last * 0.9)])


def what_if(work: Work, factors: Mapping[str, float], functions: Sequence[str] = ()) -> WhatIf:
    """Return how long it takes if tasks took a factor of their time: by the names of tasks, or of
    the functions that they run.

    Raises:
        KeyNotFound: neither a task nor a function has this name.
        Invalid: a factor is below 0.
    """
    known = {*work.graph.number, *functions}
    for name, factor in factors.items():
        if name not in known:
            raise KeyNotFound(
                f"there is no task and no function {name!r}",
                hint=f"the tasks are: {', '.join(work.graph.names[:_SHOWN])}",
            )
        if not factor >= 0:
            raise Invalid(
                f"{name!r} cannot take {factor} times as long",
                hint="give a factor that is not below 0",
            )
    names = zip(work.graph.names, functions or work.graph.names, strict=True)
    changed = [factors.get(name, factors.get(function, 1.0)) for name, function in names]
    seconds = [each * factor for each, factor in zip(work.seconds, changed, strict=True)]
    begun = {number: elapsed * changed[number] for number, elapsed in work.begun.items()}
    other = replace(work, seconds=seconds, begun=begun)
    before = simulate(work).makespan
    after = min(simulate(other, ranks).makespan for ranks in (other.ranks, work.ranks))
    if max(changed, default=1.0) <= 1:  # the same schedule with shorter tasks is a schedule too
        after = min(before, after)
    return WhatIf(before, after)


def _variants(work: Work) -> Iterator[list[float]]:
    """Yield the ranks, and lists that differ from them."""
    yield work.ranks
    for seed in range(_VARIANTS):
        random = Random(seed)
        yield [each * (1 + _VARIATION * (random.random() - 0.5)) for each in work.ranks]


def _turned_around(work: Work, timeline: Timeline) -> list[float]:
    """Return priorities that are better now and then: those of the same work done backwards."""
    simulation = _Simulation(work, timeline.ends, work.graph.after, work.graph.before)
    simulation.run({})
    return simulation.ends


def _drawn(random: Random, mean: float, deviation: float, elapsed: float) -> float:
    """Return a duration that is longer than what has elapsed, if one is found in a few tries."""
    if not mean or not deviation:
        return mean
    square, found = log(1 + (deviation / mean) ** 2), 0.0
    for _ in range(_TRIES):
        found = random.lognormvariate(log(mean) - square / 2, sqrt(square))
        if found > elapsed:
            break
    return found


class _Shop:
    """The slots and resources that are free, and the tasks that could have them, by urgency.

    Tasks with the same needs are in one heap: if the first of them cannot begin, none can.
    """

    def __init__(self, work: Work, priorities: Sequence[float]) -> None:
        numbers = range(len(work.graph))
        self._by_place = sorted(numbers, key=priorities.__getitem__, reverse=True)
        self._place = [0] * len(numbers)
        for place, number in enumerate(self._by_place):
            self._place[number] = place
        self._free = work.slots
        self._units = {**dict.fromkeys(work.rates, inf), **work.capacities}
        self._rates = work.rates
        self._begun = {name: deque[float](maxlen=count) for name, (count, _) in work.rates.items()}
        self._heap_of: Sequence[int] = [0] * len(numbers)
        self._needs: list[tuple[tuple[str, int], ...]] = [()]
        if work.needs:
            limited = [tuple(sorted(work.limiting_needs(number).items())) for number in numbers]
            self._needs = [*dict.fromkeys(limited)]
            heap_of = {needs: at for at, needs in enumerate(self._needs)}
            self._heap_of = [heap_of[needs] for needs in limited]
        self._heaps: list[list[int]] = [[] for _ in self._needs]

    def offer(self, number: int) -> None:
        heappush(self._heaps[self._heap_of[number]], self._place[number])

    def take(self, now: float) -> int | None:
        """Return the most urgent of the tasks that can begin, which now has what it needs."""
        if self._free < 1:
            return None
        heap = (
            self._heaps[0] if len(self._heaps) == 1 and not self._needs[0] else self._fitting(now)
        )
        if not heap:
            return None
        number = self._by_place[heappop(heap)]
        self.hold(number)
        self.begin(number, now)
        return number

    def hold(self, number: int) -> None:
        self._free -= 1
        for name, units in self._needs[self._heap_of[number]]:
            self._units[name] -= units

    def begin(self, number: int, now: float) -> None:
        """Count what begins now into the rates of what it needs."""
        for name, _ in self._needs[self._heap_of[number]] if self._rates else ():
            if name in self._rates:
                self._begun[name].append(now)

    def release(self, number: int) -> None:
        self._free += 1
        for name, units in self._needs[self._heap_of[number]]:
            self._units[name] += units

    def _fitting(self, now: float) -> list[int] | None:
        fitting = [heap for heap, needs in self._with_units() if self._opens(needs) <= now]
        return min(fitting, key=lambda heap: heap[0], default=None)

    def _with_units(self) -> Iterator[tuple[list[int], tuple[tuple[str, int], ...]]]:
        """Yield what could begin, if rates allow it."""
        for heap, needs in zip(self._heaps, self._needs, strict=True):
            if heap and all(self._units[name] >= units for name, units in needs):
                yield heap, needs

    def _opens(self, needs: tuple[tuple[str, int], ...]) -> float:
        """Return when rates let a task begin that needs these."""
        times = [
            self._begun[name][0] + self._rates[name][1]
            for name, _ in needs
            if name in self._rates and len(self._begun[name]) == self._rates[name][0]
        ]
        return max(times, default=-inf)

    def next_opening(self) -> float:
        """Return when rates let something begin that waits for nothing else; never, if nothing."""
        if not self._rates or self._free < 1:
            return inf
        return min((self._opens(needs) for _, needs in self._with_units()), default=inf)


class _Simulation:
    """Work that is done, forwards or backwards: `before` and `after` say which."""

    def __init__(
        self,
        work: Work,
        priorities: Sequence[float],
        before: Sequence[Sequence[int]],
        after: Sequence[Sequence[int]],
    ) -> None:
        self._shop, self._after, self._seconds = _Shop(work, priorities), after, work.left
        self._settled, self._outside = frozenset(work.settled), frozenset(work.outside)
        self._waits_for = [len(many) for many in before]
        self._running: list[tuple[float, int]] = []
        self._now = 0.0
        self.starts, self.ends = [0.0] * len(before), [0.0] * len(before)

    def run(self, begun: Mapping[int, float]) -> None:
        """Do it all, with what has begun first."""
        for number, elapsed in begun.items():
            if number not in self._outside:
                self._shop.hold(number)
                self._shop.begin(number, -elapsed)
            self._begin(number)
            self.starts[number] = -elapsed
        for number in self._settled:
            for two in self._after[number]:
                self._waits_for[two] -= 1
        for number, count in enumerate(self._waits_for):
            if not count and number not in self._settled and number not in begun:
                self._offer(number)
        self._take()
        while self._running:
            self._end()
            self._take()

    def _offer(self, number: int) -> None:
        if number in self._outside:
            self._begin(number)
        else:
            self._shop.offer(number)

    def _take(self) -> None:
        while (number := self._shop.take(self._now)) is not None:
            self._begin(number)
        opening = self._shop.next_opening()
        if self._now < opening < inf:
            heappush(self._running, (opening, _NOBODY))

    def _begin(self, number: int) -> None:
        self.starts[number], self.ends[number] = self._now, self._now + self._seconds[number]
        heappush(self._running, (self.ends[number], number))

    def _end(self) -> None:
        """End what ends next, and all that ends at the same time."""
        self._now = self._running[0][0]
        while self._running and self._running[0][0] == self._now:
            ended = heappop(self._running)[1]
            if ended == _NOBODY:
                continue
            if ended not in self._outside:
                self._shop.release(ended)
            for number in self._after[ended]:
                self._waits_for[number] -= 1
                if not self._waits_for[number]:
                    self._offer(number)
