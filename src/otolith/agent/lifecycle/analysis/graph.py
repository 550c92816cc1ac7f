"""The graph of a chart: the configurations it can rest in, and the events between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from otolith.agent.lifecycle.analysis.scripts import AFTER, Item, seconds_of, written
from otolith.agent.lifecycle.snapshot import Event, Microstep, Snapshot, Status


class Configuration(NamedTuple):
    """A node: the active states at the bottom, what history remembers, and how it is reached."""

    number: int
    """Its place in `Graph.configurations`."""
    states: tuple[str, ...]
    history: tuple[tuple[str, tuple[str, ...]], ...]
    status: Status
    depth: int
    """How many edges the shortest way from the start has."""
    snapshot: Snapshot | None
    """One snapshot that is like this; None where guards were not asked."""

    @property
    def phase(self) -> str:
        return ", ".join(self.states)


class Edge(NamedTuple):
    """What one event, or the firing of one timer, makes of a configuration."""

    source: int
    target: int
    event: str
    data: Any
    trace: tuple[Microstep, ...]
    is_sure: bool
    """No guard had a say; else it is what happens if the guards answer so."""
    is_timer: bool = False
    wait: int | None = None
    """How long the timer has to wait from here, in microseconds, where that is known."""

    @property
    def item(self) -> Item:
        """The edge as an item of a script."""
        if self.is_timer and self.wait is not None:
            return (AFTER, seconds_of(self.wait))
        return written(Event(self.event, self.data))

    @property
    def taken(self) -> Iterator[int]:
        """The numbers of the transitions of the chart itself that it takes."""
        return (arc for line in self.trace if not line.session for arc in line.taken)


class Trouble(NamedTuple):
    """An event that made the step fail, in this configuration or, with -1, at the start."""

    source: int
    event: str
    message: str
    is_sure: bool


@dataclass(slots=True)
class Graph:
    """What `explore` found. `is_complete` if that is all there is; else `limits` says why not."""

    guards: str
    configurations: list[Configuration] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Where the chart may begin; several if guards decide that."""
    opening: list[tuple[int, tuple[Microstep, ...]]] = field(default_factory=list)
    """Where the first steps lead, and their traces."""
    troubles: list[Trouble] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    """For each configuration the edge it was found by; -1 at a start."""

    @property
    def is_complete(self) -> bool:
        return not self.limits

    @property
    def states(self) -> tuple[tuple[str, ...], ...]:
        """The different sets of active states, in the order they were found."""
        return tuple(dict.fromkeys(each.states for each in self.configurations))

    @property
    def dead_ends(self) -> tuple[Configuration, ...]:
        """The configurations that are not final and that nothing leads out of."""
        left = {edge.source for edge in self.edges if edge.source != edge.target}
        return tuple(
            each
            for each in self.configurations
            if each.status == "running" and each.number not in left
        )

    def path_to(self, configuration: Configuration) -> tuple[Edge, ...]:
        """Return the edges of a shortest way from the start."""
        found: list[Edge] = []
        at = self.parents[configuration.number]
        while at >= 0:
            found.append(self.edges[at])
            at = self.parents[self.edges[at].source]
        return tuple(reversed(found))

    def first(self, holds: Callable[[Configuration], bool]) -> Configuration | None:
        """Return the nearest configuration of which something holds; None if there is none.

        Nothing found in a complete graph is a proof that it never holds; what is found is a
        counter-example, and `path_to` says how it comes about.
        """
        return next((each for each in self.configurations if holds(each)), None)

    def outgoing(self) -> list[list[Edge]]:
        """Return the edges out of each configuration."""
        found: list[list[Edge]] = [[] for _ in self.configurations]
        for edge in self.edges:
            found[edge.source].append(edge)
        return found

    def leading_to(self, goals: set[int]) -> set[int]:
        """Return the configurations from which one of these can be reached, these included."""
        before: list[list[int]] = [[] for _ in self.configurations]
        for edge in self.edges:
            before[edge.target].append(edge.source)
        found, waiting = set(goals), list(goals)
        while waiting:
            for source in before[waiting.pop()]:
                if source not in found:
                    found.add(source)
                    waiting.append(source)
        return found

    def traces(self) -> Iterator[tuple[Microstep, ...]]:
        """Yield every trace there is."""
        yield from (trace for _, trace in self.opening)
        yield from (edge.trace for edge in self.edges)
