"""Data flow: variables that are read or assigned to, and declared nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.agent.lifecycle.analysis.findings import Finding
from otolith.agent.lifecycle.analysis.parts import (
    Part,
    assigned_by,
    location_of,
    parts_of,
    reading_of,
)
from otolith.agent.lifecycle.definition import Assign, Datum, Expression, ForEach, Script
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.running import SYSTEM_NAMES


def undeclared(model: Model) -> Iterator[Finding]:
    """Tell of names that nothing declares or assigns, where they are read or assigned to."""
    parts = list(parts_of(model.definition))
    names = {"context", "event"} if not model.definition.is_scxml else set()
    known = SYSTEM_NAMES | names | _declared(model, parts)
    for part in parts:
        for name, words in _used(model, part):
            if name not in known:
                yield _finding(model, part, name, words)


def _declared(model: Model, parts: list[Part]) -> set[str]:
    found: set[str] = set()
    dialect = model.definition.dialect
    for _, value, _ in parts:
        if isinstance(value, Datum):
            found.add(value.name)
        elif isinstance(value, ForEach):
            found |= {value.item, value.index or value.item}
        elif isinstance(value, Script):
            found |= assigned_by(value.text, dialect)
        elif isinstance(value, Assign) and not model.definition.is_scxml:
            name, is_nested, _ = location_of(value.location, dialect)
            if not is_nested:
                found.add(name)
    return found


def _used(model: Model, part: Part) -> Iterator[tuple[str, str]]:
    """Yield the names that a part needs, and what it does with them."""
    value: Any = part.value
    if isinstance(value, Expression):
        found = reading_of(value.text, value.dialect)
        for name in sorted(found.names | found.fields):
            yield name, f"{value.text} reads {name}"
    elif isinstance(value, Assign):
        name, is_nested, found = location_of(value.location, model.definition.dialect)
        if name and (is_nested or model.definition.is_scxml):
            yield name, f"{value.location} is assigned to"
        for inner in sorted(found.names):
            yield inner, f"{value.location} reads {inner}"


def _finding(model: Model, part: Part, name: str, words: str) -> Finding:
    if model.definition.is_scxml and not model.bindings.actions:
        message = f"{words}, and nothing declares {name}"
        return Finding("undeclared", "error", part.state, message, "declare it as data", part.place)
    message = f"{words}, which nothing declares; it may be missing"
    hint = "declare it, or start the chart with it"
    return Finding("undeclared", "warning", part.state, message, hint, part.place)
