"""The exploration of a chart: every configuration that it can rest in, and the edges between them.

The search is breadth first, with the real step. Two configurations are the same if the same states
are active, history states remember the same, the same timers wait and children are in the same
configurations; with `guards="real"` also the data must be the same. So a chart of finitely many
states is finite with `guards="both"`; with real guards, a chart that counts is as large as the
limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from otolith.errors import BadValue
from otolith.statecharts.analysis.abstract import PossibleStep
from otolith.statecharts.analysis.inputs import (
    AFTER,
    AbstractEnvironment,
    Alphabet,
    ChartInput,
    RealEnvironment,
    ScriptItem,
    event_item,
    to_seconds,
)
from otolith.statecharts.engine.compiled_chart import CompiledChart
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, Microstep, Status


class Configuration(NamedTuple):
    """A node of the graph: the active leaves, what history states remember, and its status."""

    number: int
    """Its place in `StateGraph.configurations`."""
    states: tuple[str, ...]
    history: tuple[tuple[str, tuple[str, ...]], ...]
    status: Status
    depth: int
    """How many edges the shortest path from the start has."""
    snapshot: ChartSnapshot | None
    """One snapshot of this configuration; None where guards were not asked."""

    @property
    def phase(self) -> str:
        """The active leaves, joined by a comma."""
        return ", ".join(self.states)


class Edge(NamedTuple):
    """One event, or one timer, that leads from a configuration to another one."""

    source: int
    target: int
    event: str
    data: Any
    trace: tuple[Microstep, ...]
    is_sure: bool
    """Whether no guard was asked; otherwise it happens if the guards answer so."""
    is_timer: bool = False
    wait: int | None = None
    """How long the timer still waits, in microseconds, where that is known."""

    @property
    def item(self) -> ScriptItem:
        """The edge as an item of a script."""
        if self.is_timer and self.wait is not None:
            return (AFTER, to_seconds(self.wait))
        return event_item(ChartEvent(self.event, self.data))

    @property
    def taken(self) -> Iterator[int]:
        """The numbers of the transitions of the chart itself that it takes."""
        return (transition for line in self.trace if not line.session for transition in line.taken)


class StepProblem(NamedTuple):
    """An event that made the step fail, in this configuration or, with -1, at the start."""

    source: int
    event: str
    message: str
    is_sure: bool
    cycle: tuple[str, ...] = ()
    """The states that the step goes through again and again, if it does not come to rest."""


@dataclass(slots=True)
class StateGraph:
    """The configurations and edges that `explore` found."""

    guards: str
    configurations: list[Configuration] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """The configurations in which the chart can start; several if guards decide that."""
    opening: list[tuple[int, tuple[Microstep, ...]]] = field(default_factory=list)
    """Where first steps lead, with their traces."""
    problems: list[StepProblem] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    """Why there may be more than was found; empty if this is all."""
    parents: list[int] = field(default_factory=list)
    """For each configuration the edge it was found by; -1 at a start."""

    def __repr__(self) -> str:
        extent = "complete" if self.is_complete else "; ".join(self.limits)
        sizes = f"{len(self.configurations)} configurations, {len(self.edges)} edges"
        return f"<StateGraph {sizes}, {extent}>"

    @property
    def is_complete(self) -> bool:
        """Whether the graph has everything that can happen."""
        return not self.limits

    @property
    def states(self) -> tuple[tuple[str, ...], ...]:
        """The different sets of active states, in the order they were found."""
        return tuple(dict.fromkeys(each.states for each in self.configurations))

    @property
    def dead_ends(self) -> tuple[Configuration, ...]:
        """The configurations that are not final and have no edge to another one."""
        left = {edge.source for edge in self.edges if edge.source != edge.target}
        return tuple(
            each
            for each in self.configurations
            if each.status == "running" and each.number not in left
        )

    def path_to(self, configuration: Configuration) -> tuple[Edge, ...]:
        """Return the edges of a shortest path from the start."""
        found: list[Edge] = []
        at = self.parents[configuration.number]
        while at >= 0:
            found.append(self.edges[at])
            at = self.parents[self.edges[at].source]
        return tuple(reversed(found))

    def first(self, holds: Callable[[Configuration], bool]) -> Configuration | None:
        """Return the nearest configuration for which something holds; None if there is none.

        In a complete graph, None proves that it never holds. Otherwise the configuration is a
        counter-example, and `path_to` says how it is reached.
        """
        return next((each for each in self.configurations if holds(each)), None)

    def outgoing(self) -> list[list[Edge]]:
        """Return the edges out of each configuration."""
        found: list[list[Edge]] = [[] for _ in self.configurations]
        for edge in self.edges:
            found[edge.source].append(edge)
        return found

    def distances_to(self, goals: set[int]) -> dict[int, int]:
        """Return how many edges each configuration is away from the nearest goal.

        A configuration from which no goal can be reached is not in the result.
        """
        sources: list[list[int]] = [[] for _ in self.configurations]
        for edge in self.edges:
            sources[edge.target].append(edge.source)
        distances = dict.fromkeys(goals, 0)
        waiting = deque(goals)
        while waiting:
            target = waiting.popleft()
            for source in sources[target]:
                if source not in distances:
                    distances[source] = distances[target] + 1
                    waiting.append(source)
        return distances

    def traces(self) -> Iterator[tuple[Microstep, ...]]:
        """Yield the traces of all steps."""
        yield from (trace for _, trace in self.opening)
        yield from (edge.trace for edge in self.edges)


Guards: TypeAlias = Literal["both", "real"]


def explore(
    chart: CompiledChart,
    *,
    guards: Guards = "both",
    events: Iterable[ScriptItem] | None = None,
    max_configurations: int = 100_000,
    data: Mapping[str, Any] | None = None,
    until: Callable[[Configuration], bool] | None = None,
) -> StateGraph:
    """Return the graph of what a chart can do.

    Args:
        chart: The chart.
        guards: With "both", each guard may be true or false, data is ignored, timers fire in any
            order, services answer or fail; a configuration that is not found cannot happen. With
            "real", guards are asked and data counts, and every path can be replayed; events come
            without delay, and time passes by waiting for the next timer.
        events: The events to send, as names or pairs with data; by default those that active
            states name.
        max_configurations: Where to stop; `graph.limits` then says so.
        data: The data that the chart is started with, if guards are real.
        until: Stop at the first configuration for which this holds.

    Raises:
        BadValue: `guards` is neither of the two, or `events` has something else in it.
    """
    if guards not in {"both", "real"}:
        raise BadValue(f"{guards!r} is not a way to treat guards", hint="use 'both' or 'real'")
    alphabet = Alphabet(events)
    environment: AbstractEnvironment | RealEnvironment = (
        AbstractEnvironment(chart, alphabet)
        if guards == "both"
        else RealEnvironment(chart, alphabet, None if data is None else dict(data))
    )
    return _Explorer(environment, StateGraph(guards), max_configurations, until).run()


class _Explorer:
    """The breadth-first search; the graph grows while it runs."""

    def __init__(
        self,
        environment: AbstractEnvironment | RealEnvironment,
        graph: StateGraph,
        max_configurations: int,
        until: Callable[[Configuration], bool] | None,
    ) -> None:
        self._environment = environment
        self._graph = graph
        self._max_configurations = max_configurations
        self._until = until
        self._known: dict[Any, int] = {}
        self._waiting: deque[tuple[int, ChartSnapshot]] = deque()
        self._is_cut = False
        self._is_found = False

    def run(self) -> StateGraph:
        """Return the graph, once everything is found or a limit is reached."""
        graph = self._graph
        for possible in self._environment.first_steps():
            self._begin(possible)
        while self._waiting and not self._is_found:
            index, snapshot = self._waiting.popleft()
            if snapshot.status != "running":
                continue
            for input in self._environment.inputs(snapshot):
                self._take(index, snapshot, input)
        if self._is_cut:
            graph.limits.append(
                f"stopped at {self._max_configurations:,} configurations; there are more"
            )
        if self._is_found and self._waiting:
            graph.limits.append("stopped at what was looked for")
        graph.limits.extend(self._environment.limits())
        return graph

    def _begin(self, possible: PossibleStep) -> None:
        """Add a configuration in which the chart can start."""
        if possible.step is None:
            self._graph.problems.append(_problem(-1, "", possible))
            return
        index = self._node(possible.step.snapshot, depth=0, parent=-1)
        if index is None:
            return
        if index not in self._graph.starts:
            self._graph.starts.append(index)
        if (index, possible.step.trace) not in self._graph.opening:
            self._graph.opening.append((index, possible.step.trace))

    def _take(self, source: int, snapshot: ChartSnapshot, input: ChartInput) -> None:
        """Add the edges for an input, one for each configuration and trace it can lead to."""
        graph = self._graph
        seen: set[Any] = set()
        for possible in self._environment.steps(snapshot, input):
            if possible.step is None:
                problem = _problem(source, input.event, possible)
                if problem not in seen:
                    seen.add(problem)
                    graph.problems.append(problem)
                continue
            after, _, trace = possible.step
            if not trace and input.timer is None:
                continue  # no transition took it
            depth = graph.configurations[source].depth + 1
            target = self._node(after, depth=depth, parent=len(graph.edges))
            if target is None or (target, trace) in seen:
                continue
            seen.add((target, trace))
            is_timer = input.timer is not None
            edge = Edge(
                source,
                target,
                input.event,
                input.data,
                trace,
                possible.is_sure,
                is_timer,
                input.wait,
            )
            graph.edges.append(edge)

    def _node(self, snapshot: ChartSnapshot, *, depth: int, parent: int) -> int | None:
        """Return the number of a configuration, a new one if it is new; None at the limit."""
        graph = self._graph
        snapshot = self._environment.bounded(snapshot)
        key = self._environment.key(snapshot)
        found = self._known.get(key)
        if found is not None:
            return found
        index = len(graph.configurations)
        if index >= self._max_configurations:
            self._is_cut = True
            return None
        self._known[key] = index
        self._waiting.append((index, snapshot))
        history = tuple(sorted(snapshot.history.items()))
        shown = snapshot if graph.guards == "real" else None
        new = Configuration(index, snapshot.configuration, history, snapshot.status, depth, shown)
        graph.configurations.append(new)
        graph.parents.append(parent)
        if self._until is not None and self._until(new):
            self._is_found = True
        return index


def _problem(source: int, event: str, possible: PossibleStep) -> StepProblem:
    """Return the report of a step that failed."""
    cycle = () if possible.error is None else possible.error.cycle
    return StepProblem(source, event, str(possible.error), possible.is_sure, cycle)
