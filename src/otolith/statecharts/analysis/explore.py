"""Exploring: every configuration a chart can rest in, found breadth first with the real step.

Two configurations are the same if the same states are active, history remembers the same, the same
timers wait and children are in the same configurations; with `guards="real"` also if the data is
the same. So a chart of finitely many states is finite with `guards="both"`; with real guards, a
chart that counts is as large as the limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from otolith.agent.lifecycle.analysis.graph import Configuration, Edge, Graph, Trouble
from otolith.agent.lifecycle.analysis.oracle import Way
from otolith.agent.lifecycle.analysis.scripts import Item, cues_of
from otolith.agent.lifecycle.analysis.surroundings import (
    Alphabet,
    Move,
    Timed,
    Untimed,
)
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.snapshot import Snapshot
from otolith.errors import BadValue

Guards: TypeAlias = Literal["both", "real"]


def explore(
    model: Model,
    *,
    guards: Guards = "both",
    events: Iterable[Item] | None = None,
    max_configurations: int = 100_000,
    data: Mapping[str, Any] | None = None,
    until: Callable[[Configuration], bool] | None = None,
) -> Graph:
    """Return the graph of what a chart can do.

    Args:
        model: The chart.
        guards: "both": each guard may say yes or no, data is left out, timers fire in any order,
            services answer or fail; what is not found then cannot happen. "real": guards are asked
            and data is kept, and every path replays; events come without delay, and time passes by
            waiting for the next timer.
        events: What may be sent, as names or pairs with data; else what the active states name.
        max_configurations: Where to stop; `graph.limits` then says so.
        data: What the chart is started with, if guards are real.
        until: Stop at the first configuration of which this holds.
    """
    if guards not in {"both", "real"}:
        raise BadValue(f"{guards!r} is not a way to treat guards", hint="use 'both' or 'real'")
    cues = None if events is None else cues_of(events)
    alphabet = Alphabet(None if cues is None else [cue.event for cue in cues if cue.event])
    around: Untimed | Timed = (
        Untimed(model, alphabet)
        if guards == "both"
        else Timed(model, alphabet, None if data is None else dict(data))
    )
    return _Explorer(around, Graph(guards), max_configurations, until).run()


class _Explorer:
    def __init__(
        self,
        around: Untimed | Timed,
        graph: Graph,
        most: int,
        until: Callable[[Configuration], bool] | None,
    ) -> None:
        self._around = around
        self._graph = graph
        self._most = most
        self._until = until
        self._known: dict[Any, int] = {}
        self._waiting: deque[tuple[int, Snapshot]] = deque()
        self._is_cut = False
        self._is_found = False

    def run(self) -> Graph:
        graph = self._graph
        for way in self._around.begin():
            self._begin(way)
        while self._waiting and not self._is_found:
            index, snapshot = self._waiting.popleft()
            if snapshot.status != "running":
                continue
            for move in self._around.moves(snapshot):
                self._take(index, snapshot, move)
        if self._is_cut:
            graph.limits.append(f"stopped at {self._most:,} configurations; there are more")
        if self._is_found and self._waiting:
            graph.limits.append("stopped at what was looked for")
        graph.limits.extend(self._around.limits())
        return graph

    def _begin(self, way: Way) -> None:
        if way.step is None:
            self._graph.troubles.append(Trouble(-1, "", str(way.error), way.is_sure))
            return
        index = self._node(way.step.snapshot, depth=0, parent=-1)
        if index is None:
            return
        if index not in self._graph.starts:
            self._graph.starts.append(index)
        if (index, way.step.trace) not in self._graph.opening:
            self._graph.opening.append((index, way.step.trace))

    def _take(self, source: int, snapshot: Snapshot, move: Move) -> None:
        graph = self._graph
        seen: set[Any] = set()
        for way in self._around.take(snapshot, move):
            if way.step is None:
                trouble = Trouble(source, move.event, str(way.error), way.is_sure)
                if trouble not in seen:
                    seen.add(trouble)
                    graph.troubles.append(trouble)
                continue
            after, _, trace = way.step
            if not trace and move.timer is None:
                continue  # nobody took it
            depth = graph.configurations[source].depth + 1
            target = self._node(after, depth=depth, parent=len(graph.edges))
            if target is None or (target, trace) in seen:
                continue
            seen.add((target, trace))
            is_timer = move.timer is not None
            edge = Edge(
                source, target, move.event, move.data, trace, way.is_sure, is_timer, move.wait
            )
            graph.edges.append(edge)

    def _node(self, snapshot: Snapshot, *, depth: int, parent: int) -> int | None:
        """Return the number of a configuration, a new one if it was not met; None at the limit."""
        graph = self._graph
        snapshot = self._around.calm(snapshot)
        key = self._around.key(snapshot)
        found = self._known.get(key)
        if found is not None:
            return found
        index = len(graph.configurations)
        if index >= self._most:
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
