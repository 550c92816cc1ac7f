"""The check of a chart: what is wrong with it, or probably not meant.

Questions about behaviour are answered by exploring the chart with guards that may answer either
way: a state that is not reached then is never reached (`reachability.py`). If there is too much to
explore, a `cut` note says so, and only what can be seen in the definition is reported.

`FindingKind` in `findings.py` lists every kind of finding. An error will fail at run time, a
warning is probably not meant, a note is worth knowing. A finding about a place is not repeated by
a weaker one about the same place.

The other checks are here: names that nothing is bound to, variables that nothing declares, events
that nothing raises or handles, and transitions that compete for the same event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from otolith.statecharts.analysis.explore import StateGraph, explore
from otolith.statecharts.analysis.findings import (
    SEVERITIES,
    DefinitionPart,
    Finding,
    Severity,
    assigned_by,
    location_of,
    parts_of,
    references_of,
)
from otolith.statecharts.analysis.inputs import PLATFORM_ERRORS, example_event, is_internal_event
from otolith.statecharts.analysis.reachability import Reachability, has_end, place_of
from otolith.statecharts.definition import (
    Assign,
    Call,
    Datum,
    Definition,
    Expression,
    ForEach,
    Invoke,
    Literal,
    NamedGuard,
    Raise,
    Script,
    Send,
)
from otolith.statecharts.engine.compiled_chart import (
    CompiledChart,
    CompiledTransition,
    StateNode,
    name_match,
)
from otolith.statecharts.engine.microstep import plan_microstep
from otolith.statecharts.engine.session import SYSTEM_NAMES
from otolith.statecharts.expressions import ExpressionReferences

_HINT_COMPETING = "guard one of them, or remove it"


def check(chart: CompiledChart, *, max_configurations: int = 10_000) -> list[Finding]:
    """Return the findings about a chart and the charts inside it, errors first."""
    graph = explore(chart, max_configurations=max_configurations)
    reachability = Reachability(chart, graph)
    found = [
        *unbound_names(chart),
        *undeclared_variables(chart),
        *reachability.endless(),
        *reachability.unreachable(),
        *reachability.dead_ends(),
        *reachability.without_final(),
        *conflicting_transitions(chart, graph),
        *shadowed_transitions(chart),
        *unraised_events(chart),
        *unhandled_events(chart),
        *reachability.idle_timers(),
        *reachability.idle_defaults(),
    ]
    places = {finding.place for finding in found if finding.place}
    found += [each for each in reachability.never_taken() if each.place not in places]
    found += [
        Finding("cut", "note", "", f"not everything was explored: {limit}")
        for limit in graph.limits
    ]
    inner = [(node.id, invoke.content) for node in chart.order for invoke in node.invokes]
    for id, content in inner:
        if isinstance(content, CompiledChart):
            for each in check(content, max_configurations=max_configurations):
                message = f"in the chart that {id} invokes: {each.message}"
                found.append(replace(each, state=f"{id}/{each.state}", message=message))
    return sorted(dict.fromkeys(found), key=lambda each: SEVERITIES.index(each.severity))


# ---------------------------------------------------------------- names


def unbound_names(chart: CompiledChart) -> Iterator[Finding]:
    """Yield names without a function, unknown states, and expressions that cannot be parsed."""
    for part in parts_of(chart.definition):
        yield from _unbound(chart, part)
    for problem in chart.problems:
        yield Finding("unreadable", "error", "", problem, "see the expression language")


def _unbound(chart: CompiledChart, part: DefinitionPart) -> Iterator[Finding]:
    """Yield what one part of the definition refers to and does not exist."""
    place, value, state = part
    bindings = chart.bindings
    if isinstance(value, NamedGuard) and value.name not in bindings.guards:
        message = f"the guard {value.name} is not bound; a step that asks it fails"
        hint = f"@chart.guard def {value.name}(data, event)"
        yield Finding("missing_guard", "error", state, message, hint, place)
    elif isinstance(value, Call) and value.name not in bindings.actions | bindings.effects:
        message = f"the action {value.name} is not bound; it leaves the step as an effect"
        hint = f"@chart.action or @chart.effect def {value.name}"
        yield Finding("missing_action", "note", state, message, hint, place)
    elif isinstance(value, Invoke) and value.content is None:
        name = value.source.value if isinstance(value.source, Literal) else None
        if isinstance(name, str) and name not in bindings.charts.keys() | bindings.effects.keys():
            message = f"{name} is not a registered chart; the host must run it as a service"
            hint = f"chart.child({name!r}, ...)"
            yield Finding("missing_service", "note", state, message, hint, place)
    elif isinstance(value, Expression):
        found = references_of(value.text, value.dialect) or ExpressionReferences()
        for name in sorted(found.states - chart.nodes.keys()):
            message = f"{value.text} asks for {name}, which is not a state of this chart"
            yield Finding("unknown_state", "warning", state, message, "check the name", place)


def undeclared_variables(chart: CompiledChart) -> Iterator[Finding]:
    """Yield variables that nothing declares or assigns, where they are read or assigned."""
    definition = chart.definition
    parts = list(parts_of(definition))
    known = SYSTEM_NAMES | _declared(definition, parts)
    is_proven = definition.is_scxml and not chart.bindings.actions
    for part in parts:
        for name, use in _used(definition, part):
            if name in known:
                continue
            place = part.place
            if is_proven:
                message, hint = f"{use}, and nothing declares {name}", "declare it as data"
                yield Finding("undeclared", "error", part.state, message, hint, place)
            else:
                message = f"{use}, which nothing declares; it may be missing"
                hint = "declare it, or start the chart with it"
                yield Finding("undeclared", "warning", part.state, message, hint, place)


def _declared(definition: Definition, parts: list[DefinitionPart]) -> set[str]:
    """Return the variables that data, scripts, loops and assignments declare."""
    found = set() if definition.is_scxml else {"context", "event"}
    for _, value, _ in parts:
        if isinstance(value, Datum):
            found.add(value.name)
        elif isinstance(value, ForEach):
            found |= {value.item, value.index or value.item}
        elif isinstance(value, Script):
            found |= assigned_by(value.text, definition.dialect)
        elif isinstance(value, Assign) and not definition.is_scxml:
            name, is_nested, _ = location_of(value.location, definition.dialect)
            if not is_nested:
                found.add(name)
    return found


def _used(definition: Definition, part: DefinitionPart) -> Iterator[tuple[str, str]]:
    """Yield the variables that a part needs, and what it does with them."""
    value: Any = part.value
    if isinstance(value, Expression):
        found = references_of(value.text, value.dialect) or ExpressionReferences()
        for name in sorted(found.variables | found.context_fields):
            yield name, f"{value.text} reads {name}"
    elif isinstance(value, Assign):
        name, is_nested, found = location_of(value.location, definition.dialect)
        if name and (is_nested or definition.is_scxml):
            yield name, f"{value.location} is assigned"
        for inner in sorted(found.variables):
            yield inner, f"{value.location} reads {inner}"


# ---------------------------------------------------------------- competing transitions


def conflicting_transitions(chart: CompiledChart, graph: StateGraph) -> Iterator[Finding]:
    """Yield pairs of transitions for one event of which document order alone chooses one."""
    for node in chart.order:
        for first, second in combinations(node.transitions, 2):
            yield from _conflict_in_state(first, second)
    masks = [chart.mask_of(states) for states in graph.states]
    for node in chart.order:
        if node.kind == "parallel":
            for first, second in _pairs_across_regions(node):
                yield from _conflict_across_regions(chart, masks, first, second)


def _pairs_across_regions(
    parallel: StateNode,
) -> Iterator[tuple[CompiledTransition, CompiledTransition]]:
    """Yield pairs of transitions that may conflict: one of them leads out of its region."""
    for one, other in combinations(parallel.children, 2):
        for first, second in product(_transitions_below(one), _transitions_below(other)):
            if _leads_out(first, one) or _leads_out(second, other):
                yield first, second


def _conflict_in_state(first: CompiledTransition, second: CompiledTransition) -> Iterator[Finding]:
    """Two transitions without guards for the same event: the second is never taken."""
    is_same = first.targets == second.targets and not first.actions and not second.actions
    if first.guard is not None or second.guard is not None or is_same:
        return
    shared = [event for event in second.events if event in first.events]
    if not shared and (first.events or second.events):
        return
    cause, state = f"on {shared[0]}" if shared else "without an event", first.source.id
    winner, loser = (
        f"to {', '.join(target.id for target in each.targets)}" if each.targets else "in place"
        for each in (first, second)
    )
    message = f"{state} has two transitions {cause} and no guard: {winner} always wins over {loser}"
    yield Finding("nondeterminism", "warning", state, message, _HINT_COMPETING, place_of(second))


def _conflict_across_regions(
    chart: CompiledChart, masks: list[int], first: CompiledTransition, second: CompiledTransition
) -> Iterator[Finding]:
    """Two transitions of states that are active together, of which only one can be taken."""
    event = _shared_event(chart, first, second)
    if event is None or not first.targets or not second.targets:
        return
    both = first.source.bit | second.source.bit
    for mask in masks:
        if mask & both != both:
            continue
        candidates = {each for group in chart.candidates(mask, event).groups for each in group}
        if not {first, second} <= candidates:
            continue
        if len(plan_microstep(chart, mask, (first, second), {}).transitions) == 1:
            is_sure = first.guard is None and second.guard is None
            severity: Severity = "warning" if is_sure else "note"
            verb = "compete" if is_sure else "may compete"
            message = f"{first} and {second} {verb}: only the first is taken"
            states = f"{first.source.id}, {second.source.id}"
            yield Finding("nondeterminism", severity, states, message, _HINT_COMPETING)
            return


def _transitions_below(region: StateNode) -> list[CompiledTransition]:
    """Return the transitions of a state and of all states in it."""
    inner = [each for child in region.children for each in _transitions_below(child)]
    return [*region.transitions, *inner]


def _leads_out(transition: CompiledTransition, region: StateNode) -> bool:
    """Return whether a transition has a target outside of a region."""
    return any(not target.ancestor_mask & region.bit for target in transition.targets)


def _shared_event(
    chart: CompiledChart, first: CompiledTransition, second: CompiledTransition
) -> str | None:
    """Return an event that both transitions match; "" for two eventless ones."""
    if not first.events and not second.events:
        return ""
    events = (example_event(chart, event) for each in (first, second) for event in each.events)
    return next((e for e in events if chart.matches(first, e) and chart.matches(second, e)), None)


def shadowed_transitions(chart: CompiledChart) -> Iterator[Finding]:
    """Yield transitions that another one of the same state, without a guard, always precedes."""
    for node in chart.order:
        for index, transition in enumerate(node.transitions):
            before = node.transitions[:index]
            if any(next(_conflict_in_state(other, transition), None) for other in before):
                continue  # reported as a conflict already
            events = [example_event(chart, event) for event in transition.events] or [""]
            covered = [event for event in events if _is_shadowed(chart, transition, event)]
            if not covered:
                continue
            message = f"{transition} is never taken: one without a guard always goes first"
            if len(covered) < len(events):
                message = (
                    f"{transition} is never taken on {', '.join(covered)}: another one always is"
                )
            hint = "put it first, or guard the other one"
            yield Finding("shadowed", "warning", node.id, message, hint, place_of(transition))


def _is_shadowed(chart: CompiledChart, transition: CompiledTransition, event: str) -> bool:
    """Return whether a transition is never a candidate, because of one of the same state."""
    source = transition.source
    is_same_state = False
    for leaf in chart.nodes_of((source.bit | source.descendant_mask) & chart.leaf_mask):
        groups = chart.candidates(leaf.bit | leaf.ancestor_mask, event).groups
        if any(transition in group for group in groups):
            return False
        is_same_state = is_same_state or any(group[-1].source is source for group in groups)
    return is_same_state


# ---------------------------------------------------------------- events


def unraised_events(chart: CompiledChart) -> Iterator[Finding]:
    """Yield transitions for events that only the chart could raise, and never does."""
    invokes = [invoke.invoke for node in chart.order for invoke in node.invokes]
    raised = {f"done.state.{node.id}" for node in chart.order if node.children and has_end(node)}
    raised |= {f"{kind}.invoke.{invoke.id}" for invoke in invokes for kind in ("done", "error")}
    raised |= {name for name, _, _ in _sent_to_itself(chart)}
    has_unknown_ids = any(invoke.id is None or invoke.id_location for invoke in invokes)
    is_prefix = chart.definition.matching == "prefix"
    for transition in chart.transitions:
        for event in transition.events:
            stem = event.removesuffix(".*")
            if not is_internal_event(event) or stem in PLATFORM_ERRORS:
                continue
            if has_unknown_ids and not stem.startswith("done.state"):
                continue
            is_raised = event in raised or any(
                name_match(event, name, is_prefix=is_prefix) for name in raised
            )
            if is_raised:
                continue
            state, place = transition.source.id, place_of(transition)
            message = f"{transition} waits for {event}, which is never raised"
            hint = "check the name of the state or invoke; only a state with a final one is done"
            yield Finding("never_raised", "warning", state, message, hint, place)


def unhandled_events(chart: CompiledChart) -> Iterator[Finding]:
    """Yield events that the chart sends to itself and that no transition takes."""
    is_forwarding = any(
        invoke.invoke.is_forwarding for node in chart.order for invoke in node.invokes
    )
    for name, (place, _, state), is_external in _sent_to_itself(chart):
        if is_external and is_forwarding:
            continue
        if chart.event_names.isdisjoint(_descriptors(chart, name)):
            message = f"{name} is raised, and no transition takes it"
            yield Finding("never_handled", "warning", state, message, "check the name", place)


def _descriptors(chart: CompiledChart, name: str) -> Iterator[str]:
    """Yield the descriptors that match an event: `name_match` the other way round."""
    yield from ("*", name)
    words = name.split(".")
    for length in range(1, len(words) + 1):
        stem = ".".join(words[:length])
        yield f"{stem}.*"
        if chart.definition.matching == "prefix" and length < len(words):
            yield from (stem, f"{stem}.")


def _sent_to_itself(chart: CompiledChart) -> Iterator[tuple[str, DefinitionPart, bool]]:
    """Yield events, where they are sent, and whether through the external queue."""
    for part in parts_of(chart.definition):
        value = part.value
        if isinstance(value, Raise):
            yield value.event, part, False
        elif isinstance(value, Send) and isinstance(value.event, Literal):
            target: Any = value.target.value if isinstance(value.target, Literal) else value.target
            name: Any = value.event.value
            if target in (None, "", "#_internal") and isinstance(name, str):
                yield name, part, True
