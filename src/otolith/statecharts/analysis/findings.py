"""Findings: what checking a chart says about it.

Parts of a definition: every guard, value and action in it, and the names they read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from otolith.statecharts.definition import Definition, Expression, Guard, NamedGuard, State
from otolith.statecharts.engine.compiled_chart import CompiledTransition
from otolith.statecharts.expressions import DIALECTS, Evaluate, ExpressionError
from otolith.statecharts.expressions.parser import Parser

FindingKind: TypeAlias = Literal[
    "unreachable",
    "dead_end",
    "no_final",
    "endless",
    "never_taken",
    "shadowed",
    "nondeterminism",
    "after_never",
    "history_default",
    "missing_guard",
    "missing_action",
    "missing_service",
    "unreadable",
    "unknown_state",
    "undeclared",
    "never_raised",
    "never_handled",
    "cut",
]
Severity: TypeAlias = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a chart: errors go wrong, warnings are likely not meant, notes are told.

    What a message says without "may" is proven: it holds for any data and any answer of the guards.
    """

    kind: FindingKind
    severity: Severity
    state: str
    """The state it is about; several are joined by a comma."""
    message: str
    hint: str = ""
    place: str = ""
    """Where in the document, if that is known."""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.severity}: {self.message}{hint}"


class Part(NamedTuple):
    """A piece of a definition, and where it stands."""

    place: str
    value: Any
    state: str = ""
    """The state it is in or is."""


def parts_of(definition: Definition) -> Iterator[Part]:
    """Yield everything in a chart, outer things first; charts inside it are not looked into."""
    yield from _below(definition.root, definition.name, "")
    for action in definition.script:
        yield from _below(action, definition.name, definition.root.id)


def _below(value: Any, place: str, state: str) -> Iterator[Part]:
    if isinstance(value, Definition):
        return
    if isinstance(value, tuple):
        for item in value:
            yield from _below(item, place, state)
    elif dataclasses.is_dataclass(value):
        place = getattr(value, "place", "") or place
        state = value.id if isinstance(value, State) else state
        yield Part(place, value, state)
        for field in dataclasses.fields(value):
            yield from _below(getattr(value, field.name), place, state)


class Reading(NamedTuple):
    """What a text of the expression language looks at."""

    names: frozenset[str]
    """Variables that must be there; what `typeof` is asked about need not be."""
    fields: frozenset[str]
    """Variables that are looked at as members of `context`."""
    states: frozenset[str]
    """States that `In` is asked about."""
    is_known: bool
    """The text could be read."""


_NOTHING = Reading(frozenset(), frozenset(), frozenset(), is_known=False)


class _Reader(Parser):
    """A parser that also notes the variables and states a text names."""

    def __init__(self, text: str, dialect: str) -> None:
        super().__init__(text, DIALECTS[dialect])
        self._names: set[str] = set()
        self._fields: set[str] = set()
        self._states: set[str] = set()

    def reading(self) -> Reading:
        return Reading(
            frozenset(self._names),
            frozenset(self._fields),
            frozenset(self._states),
            is_known=True,
        )

    def _member(self, value: Evaluate) -> Evaluate:
        before, name = self._tokens[max(0, self._at - 2)], self.token.text
        is_field = before.text == "context" and self._at >= 2 and self.following != "("
        if is_field and (self._at == 2 or self._tokens[self._at - 3].text not in {".", "?."}):
            self._fields.add(name)
        return super()._member(value)

    def _named(self) -> Evaluate:
        name, is_optional = self.token.text, self.previous == "typeof"
        start = self.position
        found = super()._named()
        if name == "In" and self.position - start == 4:
            self._states.add(str(self._tokens[start + 2].value))
        elif getattr(found, "__name__", "") == "variable" and not is_optional:
            self._names.add(name)
        return found

    def words(self) -> frozenset[str]:
        """Return every name in the text."""
        return frozenset(token.text for token in self._tokens if token.kind == "name")


def reading_of(text: str, dialect: str) -> Reading:
    """Return what an expression looks at."""
    try:
        reader = _Reader(text, dialect)
        reader.expression()
        reader.finish()
    except (ExpressionError, KeyError):
        return _NOTHING
    return reader.reading()


def location_of(text: str, dialect: str) -> tuple[str, bool, Reading]:
    """Return the variable a place is in, whether it is inside of it, and what its keys look at."""
    try:
        reader = _Reader(text, dialect)
        name, steps = reader.steps()
        reader.finish()
    except (ExpressionError, KeyError):
        return "", False, _NOTHING
    return name, bool(steps), reader.reading()


def assigned_by(text: str, dialect: str) -> frozenset[str]:
    """Return the variables that a script may assign to, and perhaps some that it only reads."""
    try:
        return _Reader(text, dialect).words()
    except (ExpressionError, KeyError):
        return frozenset()


def is_about_states(guard: Guard) -> bool:
    """Return whether a guard reads no data at all: only which states are active."""
    if isinstance(guard, NamedGuard):
        return False
    found = reading_of(guard.text, guard.dialect)
    return found.is_known and not found.names


def text_of(value: Any) -> str:
    """Return a guard or a value as people write it."""
    if isinstance(value, Expression):
        return value.text
    if isinstance(value, NamedGuard):
        return value.name
    return repr(getattr(value, "value", value))


def arc_named(arc: CompiledTransition) -> str:
    """Return a transition in words: `planning on plan_ready to executing`."""
    what = " or ".join(arc.events) if arc.events else "always"
    if arc.events and arc.events[0].startswith("after.") and _is_wait(arc):
        what = "after its time"
    where = f" to {', '.join(target.id for target in arc.targets)}" if arc.targets else ""
    return f"{arc.source.id} {'' if what in {'always', 'after its time'} else 'on '}{what}{where}"


def _is_wait(arc: CompiledTransition) -> bool:
    return any(name == arc.events[0] for _, name in arc.source.delays)
