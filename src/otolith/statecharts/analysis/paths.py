"""Paths through a chart: scripts of events that lead somewhere, each of which can be replayed.

Guards are asked and data counts, so a path says what really happens. Where a guard needs data with
an event, give it: `events=[("pay", {"amount": 5})]`.

What was tried and did not lead anywhere is reported, too: `Paths.problems` are the events at which
the step failed, perhaps because a guard missed its data, and `Paths.unreached` the states that no
step entered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

from otolith.errors import BadValue, NotFound
from otolith.statecharts.analysis.explore import Configuration, Edge, StateGraph, explore
from otolith.statecharts.analysis.inputs import ScriptItem, format_item
from otolith.statecharts.engine.compiled_chart import CompiledChart
from otolith.statecharts.snapshot import Status
from otolith.types import short_repr

Goal: TypeAlias = str | tuple[str, ...] | Callable[[Configuration], bool]
"""A state that must be active, all active leaves, or a test for a configuration."""

_TRIES_PER_PATH = 1_000
"""How many steps the search for simple paths may make, for each path that it may return."""


@short_repr("phase", "status", "script")
@dataclass(frozen=True, slots=True)
class Path:
    """A script, and the configuration it leads to."""

    script: tuple[ScriptItem, ...]
    configuration: tuple[str, ...]
    status: Status

    @property
    def phase(self) -> str:
        """The active state at the end; of several regions, joined by a comma."""
        return ", ".join(self.configuration)

    def __len__(self) -> int:
        return len(self.script)

    def __str__(self) -> str:
        return f"{', '.join(map(format_item, self.script)) or 'start'} -> {self.phase}"


@dataclass(frozen=True, slots=True)
class PathProblem:
    """An event at which the step failed, and where."""

    phase: str
    """The active state; "" if the chart could not start."""
    event: str
    message: str

    def __str__(self) -> str:
        where = f"{self.event} in {self.phase}" if self.phase else "the start"
        return f"{where} failed: {self.message}"


@dataclass(frozen=True, slots=True)
class Paths(Sequence[Path]):
    """Paths, the shortest first. `limits` says why there may be more; empty if these are all."""

    paths: tuple[Path, ...]
    limits: tuple[str, ...] = ()
    problems: tuple[PathProblem, ...] = ()
    """Events that were tried and failed: no path leads through them."""
    unreached: tuple[str, ...] = ()
    """States that were never entered, in document order; () if only one was looked for."""

    @property
    def is_complete(self) -> bool:
        """Whether there are no other such paths."""
        return not self.limits

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"<Paths {len(self.paths)}, {'all' if self.is_complete else '; '.join(self.limits)}>"

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Path]: ...
    def __getitem__(self, index: Any) -> Any:
        return self.paths[index]


def shortest_paths(
    chart: CompiledChart,
    to: Goal | None = None,
    *,
    limit: int = 1_000,
    events: Iterable[ScriptItem] | None = None,
    data: Mapping[str, Any] | None = None,
    max_configurations: int = 10_000,
) -> Paths:
    """Return one shortest path to each set of active states; with `to`, one to the nearest such.

    More than `limit` are not returned, and `limits` then says so.

    Raises:
        NotFound: `to` names a state that the chart does not have.
        BadValue: `limit` is negative.
    """
    _check_limit(limit)
    holds = None if to is None else _goal(chart, to)
    items = None if events is None else tuple(events)
    possible: StateGraph | None = None
    until = holds
    if holds is None:
        possible = explore(chart, events=items, max_configurations=max_configurations)
        until = _all_met(possible)
    graph = explore(
        chart,
        guards="real",
        events=items,
        data=data,
        max_configurations=max_configurations,
        until=until,
    )
    if holds is not None:
        found = graph.first(holds)
        ends = [] if found is None else [found]
        return _limited(graph, ends, limit, limits=() if ends else graph.limits)
    firsts: dict[tuple[str, ...], Configuration] = {}
    for each in graph.configurations:
        firsts.setdefault(each.states, each)
    is_all = until is not None and graph.limits == ["stopped at what was looked for"]
    limits = () if is_all else graph.limits
    # Stopped early, it has rested everywhere, and may not have passed through everything.
    unreached = _unreached(chart, possible if is_all and possible is not None else graph)
    return _limited(graph, firsts.values(), limit, limits=limits, unreached=unreached)


def _limited(
    graph: StateGraph,
    ends: Iterable[Configuration],
    limit: int,
    *,
    limits: Iterable[str],
    unreached: tuple[str, ...] = (),
) -> Paths:
    """Return the paths to some configurations, up to a limit, with what else was found."""
    all_ends = tuple(ends)
    cut = _cut(limit) if len(all_ends) > limit else ()
    paths = tuple(_path(graph, end) for end in all_ends[:limit])
    return Paths(paths, (*limits, *cut), _problems(graph), unreached)


def _cut(limit: int) -> tuple[str, ...]:
    return (f"stopped at {limit:,} paths; there are more",)


def _check_limit(limit: int) -> None:
    if limit < 0:
        raise BadValue(f"limit must be at least 0, got {limit}", hint="leave it out for 1,000")


def _unreached(chart: CompiledChart, graph: StateGraph) -> tuple[str, ...]:
    """Return the states that no step of a graph has entered."""
    lines = (line for trace in graph.traces() for line in trace if not line.session)
    entered = {id for line in lines for id in line.entered}
    states = (node.id for node in chart.order[1:] if node.kind != "history")
    return tuple(id for id in states if id not in entered)


def _problems(graph: StateGraph) -> tuple[PathProblem, ...]:
    """Return the steps of a graph that failed, each once."""
    found = (
        PathProblem(
            "" if each.source < 0 else graph.configurations[each.source].phase,
            each.event,
            each.message,
        )
        for each in graph.problems
    )
    return tuple(dict.fromkeys(found))


def simple_paths(
    chart: CompiledChart,
    to: Goal | None = None,
    *,
    limit: int = 1_000,
    events: Iterable[ScriptItem] | None = None,
    data: Mapping[str, Any] | None = None,
    max_configurations: int = 10_000,
) -> Paths:
    """Return the paths that meet no configuration twice; with `to`, those that end where it holds.

    A path to a goal ends at the first configuration where it holds. More than `limit` are not
    returned, and `limits` then says so.

    Raises:
        NotFound: `to` names a state that the chart does not have.
        BadValue: `limit` is negative.
    """
    _check_limit(limit)
    holds = None if to is None else _goal(chart, to)
    graph = explore(
        chart, guards="real", events=events, data=data, max_configurations=max_configurations
    )
    limits = list(graph.limits)
    found: list[tuple[Edge | int, ...]] = []
    search = _Search(graph, holds, (limit + 1) * _TRIES_PER_PATH)
    for path in search.run():
        if len(found) == limit:
            limits += _cut(limit)
            break
        found.append(path)
    if search.tries <= 0:
        limits.append("stopped searching; there may be more")
    paths = sorted((search.path(each) for each in found), key=len)
    unreached = () if to is not None else _unreached(chart, graph)
    return Paths(tuple(paths), tuple(limits), _problems(graph), unreached)


class _Search:
    """The depth-first search; edges nearer to a goal go first, no configuration is met twice."""

    def __init__(
        self, graph: StateGraph, holds: Callable[[Configuration], bool] | None, tries: int
    ) -> None:
        self._graph = graph
        self.tries = tries
        nodes = graph.configurations
        self._goals = None if holds is None else {each.number for each in nodes if holds(each)}
        away = graph.distances_to(self._goals) if self._goals is not None else {}
        self._out = [
            [edge for edge in edges if self._goals is None or edge.target in away]
            for edges in graph.outgoing()
        ]
        for edges in self._out:
            edges.sort(key=lambda edge: away.get(edge.target, 0))

    def run(self) -> Iterator[tuple[Edge | int, ...]]:
        """Yield paths: the first configuration, then edges."""
        for first in self._graph.starts:
            yield from self._from(first)

    def _from(self, first: int) -> Iterator[tuple[Edge | int, ...]]:
        path: list[Edge] = []
        seen = {first}
        if self._ends(first):
            yield (first,)
        waiting = [iter(self._next(first))]
        while waiting and self.tries > 0:
            self.tries -= 1
            edge = next(waiting[-1], None)
            if edge is None:
                waiting.pop()
                if path:
                    seen.discard(path.pop().target)
            elif edge.target not in seen:
                path.append(edge)
                seen.add(edge.target)
                if self._ends(edge.target):
                    yield (first, *path)
                waiting.append(iter(self._next(edge.target)))

    def _ends(self, index: int) -> bool:
        return self._goals is None or index in self._goals

    def _next(self, index: int) -> list[Edge]:
        is_there = self._goals is not None and index in self._goals
        return [] if is_there else self._out[index]

    def path(self, found: tuple[Edge | int, ...]) -> Path:
        """Return what `run` yielded as a path."""
        first, *edges = found
        last = edges[-1] if edges else first
        end = self._graph.configurations[last.target if isinstance(last, Edge) else last]
        script = tuple(edge.item for edge in edges if isinstance(edge, Edge))
        return Path(script, end.states, end.status)


def _path(graph: StateGraph, end: Configuration) -> Path:
    """Return the path that the graph has to a configuration."""
    return Path(tuple(edge.item for edge in graph.path_to(end)), end.states, end.status)


def _all_met(graph: StateGraph) -> Callable[[Configuration], bool] | None:
    """Return a test that holds once every possible set of active states was met."""
    if not graph.is_complete:
        return None
    missing = set(graph.states)

    def holds(found: Configuration) -> bool:
        missing.discard(found.states)
        return not missing

    return holds


def _goal(chart: CompiledChart, to: Goal) -> Callable[[Configuration], bool]:
    """Return the test for a goal; raise NotFound if it names an unknown state."""
    if callable(to):
        return to
    names = (to,) if isinstance(to, str) else tuple(to)
    unknown = [name for name in names if name not in chart.nodes]
    if unknown:
        raise NotFound(
            f"there is no state {', '.join(unknown)}",
            hint=f"states are {', '.join(node.id for node in chart.order[1:13])}",
        )
    if not isinstance(to, str):
        return lambda found: found.states == names
    bit = chart.nodes[to].bit
    return lambda found: bool(chart.mask_of(found.states) & bit)
