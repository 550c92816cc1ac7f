"""Coverage: which states, transitions and pairs of transitions runs have been through.

A pair is two transitions taken one right after the other. What pairs there are is what `explore`
finds with guards answering both ways; if it was cut, `limits` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product

from otolith.agent.lifecycle.analysis.acceptance import Recorded, accepts
from otolith.agent.lifecycle.analysis.exploring import explore
from otolith.agent.lifecycle.analysis.graph import Graph
from otolith.agent.lifecycle.analysis.parts import arc_named
from otolith.agent.lifecycle.analysis.simulating import Run
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.snapshot import Microstep

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Share:
    """What was covered of something and what was not, in words and in document order."""

    covered: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def share(self) -> float:
        """From 0 to 1; 1 if there was nothing to cover."""
        total = len(self.covered) + len(self.missing)
        return len(self.covered) / total if total else 1.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a chart some runs have been through."""

    runs: int
    refused: int
    """How many runs the chart did not take to their end; what they did before counts."""
    states: Share
    transitions: Share
    pairs: Share
    limits: tuple[str, ...] = ()


def coverage(
    model: Model,
    runs: Iterable[Run | Iterable[Recorded]],
    *,
    max_configurations: int = 10_000,
) -> Coverage:
    """Return what recorded or simulated runs have covered of a chart."""
    played = [each if isinstance(each, Run) else accepts(model, each).run for each in runs]
    graph = explore(model, max_configurations=max_configurations)
    entered: set[str] = set()
    taken: set[int] = set()
    pairs: set[Pair] = set()
    for run in played:
        lines = [line for line in run.trace if not line.session]
        entered.update(name for line in lines for name in line.entered)
        taken.update(arc for line in lines for arc in line.taken)
        pairs.update(_pairs(lines))
    known = sorted(_all_pairs(graph) | pairs)
    ids = [node.id for node in model.order[1:] if node.kind != "history"]
    named = [arc_named(arc) for arc in model.arcs]
    return Coverage(
        runs=len(played),
        refused=sum(not run.is_accepted for run in played),
        states=_share((id, id in entered) for id in ids),
        transitions=_share((named[arc.index], arc.index in taken) for arc in model.arcs),
        pairs=_share((f"{named[a]}, then {named[b]}", (a, b) in pairs) for a, b in known),
        limits=tuple(graph.limits),
    )


def _share(found: Iterable[tuple[str, bool]]) -> Share:
    listed = list(found)
    return Share(
        tuple(name for name, is_covered in listed if is_covered),
        tuple(name for name, is_covered in listed if not is_covered),
    )


def _pairs(lines: Iterable[Microstep]) -> Iterator[Pair]:
    taken = [line.taken for line in lines if line.taken]
    for before, after in pairwise(taken):
        yield from product(before, after)


def _all_pairs(graph: Graph) -> set[Pair]:
    found: set[Pair] = set()
    arriving: list[set[int]] = [set() for _ in graph.configurations]
    leaving: list[set[int]] = [set() for _ in graph.configurations]
    steps = [(-1, *opening) for opening in graph.opening]
    steps += [(edge.source, edge.target, edge.trace) for edge in graph.edges]
    for source, target, trace in steps:
        lines = [line for line in trace if not line.session and line.taken]
        found.update(_pairs(lines))
        if lines:
            arriving[target].update(lines[-1].taken)
        if lines and source >= 0:
            leaving[source].update(lines[0].taken)
    for before, after in zip(arriving, leaving, strict=True):
        found.update(product(before, after))
    return found
