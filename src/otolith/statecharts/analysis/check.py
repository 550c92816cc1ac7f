"""Rivalry: transitions that want the same event, and which of them gets it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from otolith.agent.lifecycle.analysis.findings import Finding
from otolith.agent.lifecycle.analysis.graph import Graph
from otolith.agent.lifecycle.analysis.parts import arc_named
from otolith.agent.lifecycle.analysis.reaching import place_of
from otolith.agent.lifecycle.analysis.surroundings import sample
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.nodes import Arc, Node

_HINT = "guard one of them, or remove it"


def rivals(model: Model, graph: Graph) -> Iterator[Finding]:
    """Tell of two transitions for one event of which document order alone chooses one."""
    for node in model.order:
        for first, second in combinations(node.arcs, 2):
            yield from _in_one_state(model, first, second)
    masks = [model.mask_of(states) for states in graph.states]
    for node in model.order:
        if node.kind == "parallel":
            yield from _across(model, masks, node)


def _in_one_state(model: Model, first: Arc, second: Arc) -> Iterator[Finding]:
    """Two without guards for the same event: the second never gets it."""
    if first.test is not None or second.test is not None or _is_same(first, second):
        return
    shared = [event for event in second.events if event in first.events]
    if not shared and (first.events or second.events):
        return
    what = f"on {shared[0]}" if shared else "without an event"
    state = first.source.id
    words = f"{state} has two transitions {what} and no guard: {_targets(first)} always wins"
    words += f" over {_targets(second)}"
    yield Finding("nondeterminism", "warning", state, words, _HINT, place_of(second))


def _across(model: Model, masks: list[int], parallel: Node) -> Iterator[Finding]:
    """Compare what leads out of a region with the others; the rest is never in their way."""
    regions = [_arcs_below(region) for region in parallel.children]
    for (one, left), (other, right) in combinations(
        zip(parallel.children, regions, strict=True), 2
    ):
        for first, second in product(left, right):
            if _leads_out(first, one) or _leads_out(second, other):
                yield from _in_regions(model, masks, first, second)


def _arcs_below(region: Node) -> list[Arc]:
    inner = [arc for child in region.children for arc in _arcs_below(child)]
    return [*region.arcs, *inner]


def _leads_out(arc: Arc, region: Node) -> bool:
    return any(not target.above & region.bit for target in arc.targets)


def _in_regions(model: Model, masks: list[int], first: Arc, second: Arc) -> Iterator[Finding]:
    """Two of states that are active together, and taking both is not possible."""
    event = _shared(model, first, second)
    if event is None or not first.targets or not second.targets:
        return
    both = first.source.bit | second.source.bit
    for mask in masks:
        if mask & both == both and _is_conflict(model, mask, event, first, second):
            is_sure = first.test is None and second.test is None
            may = "compete" if is_sure else "may compete"
            words = f"{arc_named(first)} and {arc_named(second)} {may}: only the first is taken"
            states = f"{first.source.id}, {second.source.id}"
            severity = "warning" if is_sure else "note"
            yield Finding("nondeterminism", severity, states, words, _HINT)  # type: ignore[arg-type]
            return


def _is_conflict(model: Model, mask: int, event: str, first: Arc, second: Arc) -> bool:
    groups = model.choice(mask, event).groups
    heard = {arc for group in groups for arc in group}
    if first not in heard or second not in heard:
        return False
    return len(model.plan(mask, (first, second), {}).arcs) == 1


def _shared(model: Model, first: Arc, second: Arc) -> str | None:
    """Return an event that both transitions mean; "" for two that need none."""
    if not first.events and not second.events:
        return ""
    events = (sample(model, event) for arc in (first, second) for event in arc.events)
    return next(
        (event for event in events if model.matches(first, event) and model.matches(second, event)),
        None,
    )


def _is_same(first: Arc, second: Arc) -> bool:
    return first.targets == second.targets and not first.actions and not second.actions


def _targets(arc: Arc) -> str:
    return f"to {', '.join(target.id for target in arc.targets)}" if arc.targets else "in place"


# ---------------------------------------------------------------- shadows


def shadowed(model: Model) -> Iterator[Finding]:
    """Tell of transitions that another one of the state, without a guard, always precedes."""
    for node in model.order:
        for index, arc in enumerate(node.arcs):
            before = node.arcs[:index]
            if not any(next(_in_one_state(model, other, arc), None) for other in before):
                yield from _shadow(model, arc)


def _shadow(model: Model, arc: Arc) -> Iterator[Finding]:
    events = [sample(model, event) for event in arc.events] or [""]
    covered = [event for event in events if _is_covered(model, arc, event)]
    if not covered:
        return
    if len(covered) < len(events):
        words = f"{arc_named(arc)} is never taken on {', '.join(covered)}: another one always is"
    else:
        words = f"{arc_named(arc)} is never taken: one without a guard always goes first"
    hint = "put it first, or guard the other one"
    yield Finding("shadowed", "warning", arc.source.id, words, hint, place_of(arc))


def _is_covered(model: Model, arc: Arc, event: str) -> bool:
    """Return whether a transition never gets a say, and one of the same state is the reason."""
    source = arc.source
    is_ours = False
    for leaf in model.leaves:
        if leaf is source or leaf.above & source.bit:
            groups = model.choice(leaf.bit | leaf.above, event).groups
            if any(arc in group for group in groups):
                return False
            is_ours = is_ours or any(group[-1].source is source for group in groups)
    return is_ours
