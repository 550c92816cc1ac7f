"""Wiring: names that nothing stands for, events that nobody raises, and events nobody hears."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.agent.lifecycle.analysis.findings import Finding
from otolith.agent.lifecycle.analysis.parts import Part, arc_named, parts_of, reading_of
from otolith.agent.lifecycle.analysis.reaching import has_end, place_of
from otolith.agent.lifecycle.analysis.surroundings import is_from_inside
from otolith.agent.lifecycle.definition import (
    Call,
    Expression,
    Invoke,
    Literal,
    Named,
    Raise,
    Send,
)
from otolith.agent.lifecycle.model import Model, accepts

_PLATFORM = ("error", "error.execution", "error.communication", "error.platform")
_HERE = {None, "", "#_internal"}


def missing(model: Model) -> Iterator[Finding]:
    """Tell of names without a function, and of what cannot be read."""
    for part in parts_of(model.definition):
        yield from _missing(model, part)
    for problem in model.problems:
        yield Finding("unreadable", "error", "", problem, "see the expression language")


def _missing(model: Model, part: Part) -> Iterator[Finding]:
    place, value, state = part
    bindings = model.bindings
    if isinstance(value, Named) and value.name not in bindings.guards:
        words = f"the guard {value.name} is not bound; a step that asks it fails"
        hint = f"@chart.guard def {value.name}(data, event)"
        yield Finding("missing_guard", "error", state, words, hint, place)
    elif isinstance(value, Call) and value.name not in bindings.actions | bindings.effects:
        words = f"the action {value.name} is not bound; it leaves the step as an effect"
        hint = f"@chart.action or @chart.effect def {value.name}"
        yield Finding("missing_action", "note", state, words, hint, place)
    elif isinstance(value, Invoke):
        yield from _missing_service(model, part)
    elif isinstance(value, Expression):
        for name in sorted(reading_of(value.text, value.dialect).states - model.nodes.keys()):
            words = f"{value.text} asks for {name}, which is no state of this chart"
            yield Finding("unknown_state", "warning", state, words, "check the name", place)


def _missing_service(model: Model, part: Part) -> Iterator[Finding]:
    place, invoke, state = part
    name = invoke.source.value if isinstance(invoke.source, Literal) else None
    known = model.bindings.charts.keys() | model.bindings.effects.keys()
    if invoke.content is None and isinstance(name, str) and name not in known:
        words = f"{name} is no registered chart; the host must run it as a service"
        yield Finding("missing_service", "note", state, words, f"chart.child({name!r}, ...)", place)


# ---------------------------------------------------------------- events


def unraised(model: Model) -> Iterator[Finding]:
    """Tell of transitions for events that only the chart could raise, and never does."""
    raised = _raised(model)
    is_prefix = model.definition.matching == "prefix"
    has_unnamed = any(
        call.invoke.id is None or call.invoke.id_location
        for node in model.order
        for call in node.calls
    )
    for arc in model.arcs:
        for event in arc.events:
            stem = event.removesuffix(".*")
            if not is_from_inside(event) or stem in _PLATFORM:
                continue
            if has_unnamed and not stem.startswith("done.state"):
                continue
            if not any(accepts(event, name, is_prefix=is_prefix) for name in raised):
                words = f"{arc_named(arc)} waits for {event}, which is never raised"
                hint = (
                    "check the name of the state or invoke; only a state with a final one is done"
                )
                yield Finding("never_raised", "warning", arc.source.id, words, hint, place_of(arc))


def _raised(model: Model) -> set[str]:
    found = {f"done.state.{node.id}" for node in model.order if node.children and has_end(node)}
    for node in model.order:
        for call in node.calls:
            found |= {f"done.invoke.{call.invoke.id}", f"error.invoke.{call.invoke.id}"}
    return found | {name for name, _, _ in _sent(model)}


def unheard(model: Model) -> Iterator[Finding]:
    """Tell of events that the chart raises for itself and no transition takes."""
    is_forwarding = any(call.invoke.is_forwarding for node in model.order for call in node.calls)
    for name, (place, _, state), is_external in _sent(model):
        if is_external and is_forwarding:
            continue
        if not any(model.matches(arc, name) for arc in model.arcs):
            words = f"{name} is raised, and no transition takes it"
            yield Finding("never_handled", "warning", state, words, "check the name", place)


def _sent(model: Model) -> Iterator[tuple[str, Part, bool]]:
    """Yield the events a chart sends to itself, where, and whether through the external queue."""
    for part in parts_of(model.definition):
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
