"""Rivalry: transitions that want the same event, and which of them gets it.

Data flow: variables that are read or assigned to, and declared nowhere.

Wiring: names that nothing stands for, events that nobody raises, and events nobody hears.

Checking: what is wrong, or likely not meant, with a chart.

Questions about behaviour are answered by exploring the chart with guards that may say either: what
is not reached then is never reached. If there is too much to explore, a `cut` note says so, and
only what can be seen without exploring is told.
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


def undeclared(chart: CompiledChart) -> Iterator[Finding]:
    """Tell of names that nothing declares or assigns, where they are read or assigned to."""
    parts = list(parts_of(chart.definition))
    names = {"context", "event"} if not chart.definition.is_scxml else set()
    known = SYSTEM_NAMES | names | _declared(chart, parts)
    for part in parts:
        for name, words in _used(chart, part):
            if name not in known:
                yield _finding(chart, part, name, words)


def _declared(chart: CompiledChart, parts: list[DefinitionPart]) -> set[str]:
    found: set[str] = set()
    dialect = chart.definition.dialect
    for _, value, _ in parts:
        if isinstance(value, Datum):
            found.add(value.name)
        elif isinstance(value, ForEach):
            found |= {value.item, value.index or value.item}
        elif isinstance(value, Script):
            found |= assigned_by(value.text, dialect)
        elif isinstance(value, Assign) and not chart.definition.is_scxml:
            name, is_nested, _ = location_of(value.location, dialect)
            if not is_nested:
                found.add(name)
    return found


def _used(chart: CompiledChart, part: DefinitionPart) -> Iterator[tuple[str, str]]:
    """Yield the names that a part needs, and what it does with them."""
    value: Any = part.value
    if isinstance(value, Expression):
        found = references_of(value.text, value.dialect) or ExpressionReferences()
        for name in sorted(found.variables | found.context_fields):
            yield name, f"{value.text} reads {name}"
    elif isinstance(value, Assign):
        name, is_nested, found = location_of(value.location, chart.definition.dialect)
        if name and (is_nested or chart.definition.is_scxml):
            yield name, f"{value.location} is assigned to"
        for inner in sorted(found.variables):
            yield inner, f"{value.location} reads {inner}"


def _finding(chart: CompiledChart, part: DefinitionPart, name: str, words: str) -> Finding:
    if chart.definition.is_scxml and not chart.bindings.actions:
        message = f"{words}, and nothing declares {name}"
        return Finding("undeclared", "error", part.state, message, "declare it as data", part.place)
    message = f"{words}, which nothing declares; it may be missing"
    hint = "declare it, or start the chart with it"
    return Finding("undeclared", "warning", part.state, message, hint, part.place)


_HINT = "guard one of them, or remove it"


def rivals(chart: CompiledChart, graph: StateGraph) -> Iterator[Finding]:
    """Tell of two transitions for one event of which document order alone chooses one."""
    for node in chart.order:
        for first, second in combinations(node.transitions, 2):
            yield from _in_one_state(chart, first, second)
    masks = [chart.mask_of(states) for states in graph.states]
    for node in chart.order:
        if node.kind == "parallel":
            yield from _across(chart, masks, node)


def _in_one_state(
    chart: CompiledChart, first: CompiledTransition, second: CompiledTransition
) -> Iterator[Finding]:
    """Two without guards for the same event: the second never gets it."""
    if first.guard is not None or second.guard is not None or _is_same(first, second):
        return
    shared = [event for event in second.events if event in first.events]
    if not shared and (first.events or second.events):
        return
    what = f"on {shared[0]}" if shared else "without an event"
    state = first.source.id
    words = f"{state} has two transitions {what} and no guard: {_targets(first)} always wins"
    words += f" over {_targets(second)}"
    yield Finding("nondeterminism", "warning", state, words, _HINT, place_of(second))


def _across(chart: CompiledChart, masks: list[int], parallel: StateNode) -> Iterator[Finding]:
    """Compare what leads out of a region with the others; the rest is never in their way."""
    regions = [_arcs_below(region) for region in parallel.children]
    for (one, left), (other, right) in combinations(
        zip(parallel.children, regions, strict=True), 2
    ):
        for first, second in product(left, right):
            if _leads_out(first, one) or _leads_out(second, other):
                yield from _in_regions(chart, masks, first, second)


def _arcs_below(region: StateNode) -> list[CompiledTransition]:
    inner = [transition for child in region.children for transition in _arcs_below(child)]
    return [*region.transitions, *inner]


def _leads_out(transition: CompiledTransition, region: StateNode) -> bool:
    return any(not target.ancestor_mask & region.bit for target in transition.targets)


def _in_regions(
    chart: CompiledChart, masks: list[int], first: CompiledTransition, second: CompiledTransition
) -> Iterator[Finding]:
    """Two of states that are active together, and taking both is not possible."""
    event = _shared(chart, first, second)
    if event is None or not first.targets or not second.targets:
        return
    both = first.source.bit | second.source.bit
    for mask in masks:
        if mask & both == both and _is_conflict(chart, mask, event, first, second):
            is_sure = first.guard is None and second.guard is None
            may = "compete" if is_sure else "may compete"
            words = f"{first} and {second} {may}: only the first is taken"
            states = f"{first.source.id}, {second.source.id}"
            severity = "warning" if is_sure else "note"
            yield Finding("nondeterminism", severity, states, words, _HINT)  # type: ignore[arg-type]
            return


def _is_conflict(
    chart: CompiledChart,
    mask: int,
    event: str,
    first: CompiledTransition,
    second: CompiledTransition,
) -> bool:
    groups = chart.candidates(mask, event).groups
    heard = {transition for group in groups for transition in group}
    if first not in heard or second not in heard:
        return False
    return len(plan_microstep(chart, mask, (first, second), {}).transitions) == 1


def _shared(
    chart: CompiledChart, first: CompiledTransition, second: CompiledTransition
) -> str | None:
    """Return an event that both transitions mean; "" for two that need none."""
    if not first.events and not second.events:
        return ""
    events = (
        example_event(chart, event) for transition in (first, second) for event in transition.events
    )
    return next(
        (event for event in events if chart.matches(first, event) and chart.matches(second, event)),
        None,
    )


def _is_same(first: CompiledTransition, second: CompiledTransition) -> bool:
    return first.targets == second.targets and not first.actions and not second.actions


def _targets(transition: CompiledTransition) -> str:
    return (
        f"to {', '.join(target.id for target in transition.targets)}"
        if transition.targets
        else "in place"
    )


# ---------------------------------------------------------------- shadows


def shadowed(chart: CompiledChart) -> Iterator[Finding]:
    """Tell of transitions that another one of the state, without a guard, always precedes."""
    for node in chart.order:
        for index, transition in enumerate(node.transitions):
            before = node.transitions[:index]
            if not any(next(_in_one_state(chart, other, transition), None) for other in before):
                yield from _shadow(chart, transition)


def _shadow(chart: CompiledChart, transition: CompiledTransition) -> Iterator[Finding]:
    events = [example_event(chart, event) for event in transition.events] or [""]
    covered = [event for event in events if _is_covered(chart, transition, event)]
    if not covered:
        return
    if len(covered) < len(events):
        words = f"{transition} is never taken on {', '.join(covered)}: another one always is"
    else:
        words = f"{transition} is never taken: one without a guard always goes first"
    hint = "put it first, or guard the other one"
    yield Finding("shadowed", "warning", transition.source.id, words, hint, place_of(transition))


def _is_covered(chart: CompiledChart, transition: CompiledTransition, event: str) -> bool:
    """Return whether a transition never gets a say, and one of the same state is the reason."""
    source = transition.source
    is_ours = False
    for leaf in chart.leaves:
        if leaf is source or leaf.ancestor_mask & source.bit:
            groups = chart.candidates(leaf.bit | leaf.ancestor_mask, event).groups
            if any(transition in group for group in groups):
                return False
            is_ours = is_ours or any(group[-1].source is source for group in groups)
    return is_ours


_HERE = {None, "", "#_internal"}


def missing(chart: CompiledChart) -> Iterator[Finding]:
    """Tell of names without a function, and of what cannot be read."""
    for part in parts_of(chart.definition):
        yield from _missing(chart, part)
    for problem in chart.problems:
        yield Finding("unreadable", "error", "", problem, "see the expression language")


def _missing(chart: CompiledChart, part: DefinitionPart) -> Iterator[Finding]:
    place, value, state = part
    bindings = chart.bindings
    if isinstance(value, NamedGuard) and value.name not in bindings.guards:
        words = f"the guard {value.name} is not bound; a step that asks it fails"
        hint = f"@chart.guard def {value.name}(data, event)"
        yield Finding("missing_guard", "error", state, words, hint, place)
    elif isinstance(value, Call) and value.name not in bindings.actions | bindings.effects:
        words = f"the action {value.name} is not bound; it leaves the step as an effect"
        hint = f"@chart.action or @chart.effect def {value.name}"
        yield Finding("missing_action", "note", state, words, hint, place)
    elif isinstance(value, Invoke):
        yield from _missing_service(chart, part)
    elif isinstance(value, Expression):
        found = references_of(value.text, value.dialect) or ExpressionReferences()
        for name in sorted(found.states - chart.nodes.keys()):
            words = f"{value.text} asks for {name}, which is no state of this chart"
            yield Finding("unknown_state", "warning", state, words, "check the name", place)


def _missing_service(chart: CompiledChart, part: DefinitionPart) -> Iterator[Finding]:
    place, invoke, state = part
    name = invoke.source.value if isinstance(invoke.source, Literal) else None
    known = chart.bindings.charts.keys() | chart.bindings.effects.keys()
    if invoke.content is None and isinstance(name, str) and name not in known:
        words = f"{name} is no registered chart; the host must run it as a service"
        yield Finding("missing_service", "note", state, words, f"chart.child({name!r}, ...)", place)


# ---------------------------------------------------------------- events


def unraised(chart: CompiledChart) -> Iterator[Finding]:
    """Tell of transitions for events that only the chart could raise, and never does."""
    raised = _raised(chart)
    is_prefix = chart.definition.matching == "prefix"
    has_unnamed = any(
        invoke.invoke.id is None or invoke.invoke.id_location
        for node in chart.order
        for invoke in node.invokes
    )
    for transition in chart.transitions:
        for event in transition.events:
            stem = event.removesuffix(".*")
            if not is_internal_event(event) or stem in PLATFORM_ERRORS:
                continue
            if has_unnamed and not stem.startswith("done.state"):
                continue
            if not any(name_match(event, name, is_prefix=is_prefix) for name in raised):
                words = f"{transition} waits for {event}, which is never raised"
                hint = (
                    "check the name of the state or invoke; only a state with a final one is done"
                )
                yield Finding(
                    "never_raised",
                    "warning",
                    transition.source.id,
                    words,
                    hint,
                    place_of(transition),
                )


def _raised(chart: CompiledChart) -> set[str]:
    found = {f"done.state.{node.id}" for node in chart.order if node.children and has_end(node)}
    for node in chart.order:
        for invoke in node.invokes:
            found |= {
                f"done.invoke.{invoke.invoke.id}",
                f"error.invoke.{invoke.invoke.id}",
            }
    return found | {name for name, _, _ in _sent(chart)}


def unheard(chart: CompiledChart) -> Iterator[Finding]:
    """Tell of events that the chart raises for itself and no transition takes."""
    is_forwarding = any(
        invoke.invoke.is_forwarding for node in chart.order for invoke in node.invokes
    )
    for name, (place, _, state), is_external in _sent(chart):
        if is_external and is_forwarding:
            continue
        if not any(chart.matches(transition, name) for transition in chart.transitions):
            words = f"{name} is raised, and no transition takes it"
            yield Finding("never_handled", "warning", state, words, "check the name", place)


def _sent(chart: CompiledChart) -> Iterator[tuple[str, DefinitionPart, bool]]:
    """Yield the events a chart sends to itself, where, and whether through the external queue."""
    for part in parts_of(chart.definition):
        value = part.value
        if isinstance(value, Raise):
            yield value.event, part, False
        elif isinstance(value, Send) and _is_here(value):
            name: Any = value.event.value if isinstance(value.event, Literal) else None
            if isinstance(name, str):
                yield name, part, True


def _is_here(send: Send) -> bool:
    target = send.target
    return target is None or (isinstance(target, Literal) and target.value in _HERE)


def check(chart: CompiledChart, *, max_configurations: int = 10_000) -> list[Finding]:
    """Return what is to say about a chart and the charts inside it, errors first."""
    graph = explore(chart, max_configurations=max_configurations)
    reach = Reachability(chart, graph)
    found = [
        *missing(chart),
        *undeclared(chart),
        *reach.endless(),
        *reach.unreachable(),
        *reach.dead_ends(),
        *reach.without_final(),
        *rivals(chart, graph),
        *shadowed(chart),
        *unraised(chart),
        *unheard(chart),
        *reach.idle_timers(),
        *reach.idle_defaults(),
    ]
    told = {finding.place for finding in found if finding.place}
    found += [each for each in reach.never_taken() if each.place not in told]
    found += [
        Finding("cut", "note", "", f"not all was explored: {words}") for words in graph.limits
    ]
    for node in chart.order:
        for invoke in node.invokes:
            if isinstance(invoke.content, CompiledChart):
                inner = check(invoke.content, max_configurations=max_configurations)
                found += [_inside(node.id, each) for each in inner]
    return sorted(dict.fromkeys(found), key=lambda each: SEVERITIES.index(each.severity))


def _inside(state: str, found: Finding) -> Finding:
    """Say of what was found in a chart inside which state invokes it."""
    message = f"in what {state} invokes: {found.message}"
    return replace(found, state=f"{state}/{found.state}", message=message)
