"""Findings about a chart, and the parts of a definition that they are about."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from otolith.statecharts.definition import Definition, Expression, Guard, NamedGuard, State
from otolith.statecharts.expressions import DIALECTS, ExpressionError, ExpressionReferences, Parser

FindingKind: TypeAlias = Literal[
    "unreachable",  # a state is never entered
    "dead_end",  # a state that is not final is never left
    "no_final",  # no final state can be reached
    "endless",  # a step never comes to rest
    "never_taken",  # a transition of an entered state is never taken
    "shadowed",  # a transition without a guard always goes first
    "nondeterminism",  # document order alone decides between two transitions
    "after_never",  # a delay never passes
    "history_default",  # the default of a history state is never used
    "missing_guard",  # a guard has no function
    "missing_action",  # an action has no function, and leaves the step as an effect
    "missing_service",  # an invoke names neither a chart nor an effect
    "unreadable",  # an expression cannot be parsed
    "unknown_state",  # an expression names a state that does not exist
    "undeclared",  # a variable is declared nowhere
    "never_raised",  # a transition waits for an event that nothing raises
    "never_handled",  # the chart raises an event that nothing takes
    "cut",  # the chart was too large to explore completely
]
Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: an error will fail, a warning is probably not meant, a note is worth knowing.

    A message without "may" is proven: it holds for any data and any answer of the guards.
    """

    kind: FindingKind
    severity: Severity
    state: str
    """The state that it is about; several are joined by a comma."""
    message: str
    hint: str = ""
    place: str = ""
    """The place in the document, if it is known."""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.severity}: {self.message}{hint}"


class DefinitionPart(NamedTuple):
    """A value inside a definition, with its place in the document."""

    place: str
    value: Any
    state: str = ""
    """The state that contains it, or that it is."""


def parts_of(definition: Definition) -> Iterator[DefinitionPart]:
    """Yield every value in a definition, outer ones first; charts inside it are left out."""
    yield from _below(definition.root, definition.name, "")
    for action in definition.script:
        yield from _below(action, definition.name, definition.root.id)


def _below(value: Any, place: str, state: str) -> Iterator[DefinitionPart]:
    if isinstance(value, Definition):
        return
    if isinstance(value, tuple):
        for item in value:
            yield from _below(item, place, state)
    elif dataclasses.is_dataclass(value):
        place = getattr(value, "place", "") or place
        state = value.id if isinstance(value, State) else state
        yield DefinitionPart(place, value, state)
        for field in dataclasses.fields(value):
            yield from _below(getattr(value, field.name), place, state)


def references_of(text: str, dialect: str) -> ExpressionReferences | None:
    """Return what an expression refers to; None if it cannot be parsed."""
    try:
        parser = Parser(text, DIALECTS[dialect])
        parser.expression()
        parser.finish()
    except (ExpressionError, KeyError):
        return None
    return parser.references


def location_of(text: str, dialect: str) -> tuple[str, bool, ExpressionReferences]:
    """Return the variable of a location, whether it is nested, and what its keys refer to."""
    try:
        parser = Parser(text, DIALECTS[dialect])
        name, steps = parser.location()
        parser.finish()
    except (ExpressionError, KeyError):
        return "", False, ExpressionReferences()
    return name, bool(steps), parser.references


def assigned_by(text: str, dialect: str) -> frozenset[str]:
    """Return the variables that a script may assign, and perhaps some that it only reads."""
    try:
        return Parser(text, DIALECTS[dialect]).words
    except (ExpressionError, KeyError):
        return frozenset()


def is_about_states(guard: Guard) -> bool:
    """Return whether a guard reads no data, only which states are active."""
    if isinstance(guard, NamedGuard):
        return False
    references = references_of(guard.text, guard.dialect)
    return references is not None and not references.variables


def text_of(value: Any) -> str:
    """Return a guard or a value as it is written in a document."""
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, NamedGuard):
        return value.name
    return repr(getattr(value, "value", value))
