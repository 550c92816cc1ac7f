"""Own forms: values and actions as JSON, where the formats of others have no word for them.

A value is itself, `{"@expr": text, "@lang": dialect}`, or `{"@value": ...}` where it could be taken
for one of these. An action is `{"type": "@otolith.<kind>", ...}` with the fields of its kind; those
that are absent are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from otolith.agent.lifecycle.definition import (
    Action,
    Assign,
    Block,
    Branch,
    Call,
    Cancel,
    Emit,
    Expression,
    ForEach,
    Guard,
    If,
    Literal,
    Log,
    Param,
    Payload,
    Raise,
    Script,
    Send,
    Value,
)
from otolith.errors import BadChart

PREFIX = "@otolith."
_KINDS: dict[str, Any] = {
    "assign": Assign,
    "script": Script,
    "raise": Raise,
    "send": Send,
    "cancel": Cancel,
    "log": Log,
    "emit": Emit,
    "if": If,
    "foreach": ForEach,
    "call": Call,
}
_NAMES: dict[type, str] = {kind: name for name, kind in _KINDS.items()}
_KEYS = {"id_location": "idLocation", "type": "sendType"}
_VALUES = {
    (Assign, "value"),
    (Send, "event"),
    (Send, "target"),
    (Send, "type"),
    (Send, "delay"),
    (Cancel, "id"),
    (Log, "value"),
    (Emit, "event"),
    (ForEach, "array"),
}


class Forms(NamedTuple):
    """How the format around writes, or reads, actions and guards."""

    actions: Callable[..., Any]
    guard: Callable[..., Any]


# ---------------------------------------------------------------- writing


def value_form(value: Value) -> Any:
    """Return a value as JSON."""
    if isinstance(value, Expression):
        return {"@expr": value.text, "@lang": value.dialect}
    return {"@value": value.value} if _could_be_taken(value.value) else value.value


def payload_form(payload: Payload) -> dict[str, Any]:
    """Return a payload as JSON, whatever it is."""
    found: dict[str, Any] = {}
    if payload.params:
        found["params"] = [[param.name, value_form(param.value)] for param in payload.params]
    if payload.content is not None:
        found["content"] = value_form(payload.content)
    return found


def action_form(action: Action, forms: Forms) -> dict[str, Any]:
    """Return an action as JSON, whatever it is; `forms` writes those inside of it."""
    kind = type(action)
    found: dict[str, Any] = {"type": f"{PREFIX}{_NAMES[kind]}"}
    for field in fields(action):
        inner = getattr(action, field.name)
        if inner is not None and inner != () and inner != Payload():
            key = _KEYS.get(field.name, field.name)
            found[key] = _part_form(inner, (kind, field.name), forms)
    return found


def _part_form(part: Any, place: tuple[type, str], forms: Forms) -> Any:
    if place in _VALUES:
        return value_form(part)
    if place[1] == "actions":
        return forms.actions(part)
    if place[1] == "branches":
        return [_branch_form(branch, forms) for branch in part]
    if place[1] == "params":
        return payload_form(Payload(part))["params"]
    return payload_form(part) if place[1] == "payload" else part


def _branch_form(branch: Branch, forms: Forms) -> dict[str, Any]:
    actions = forms.actions(branch.actions)
    if branch.guard is None:
        return {"actions": actions}
    return {"guard": forms.guard(branch.guard), "actions": actions}


def _could_be_taken(value: Any) -> bool:
    if isinstance(value, dict):
        is_ours = any(str(key).startswith("@") for key in value)
        return is_ours or any(_could_be_taken(inner) for inner in value.values())
    return isinstance(value, list | tuple) and any(_could_be_taken(inner) for inner in value)


# ---------------------------------------------------------------- reading


def read_form(form: Any) -> Value:
    """Return the value that a form is."""
    if isinstance(form, dict) and form.keys() == {"@value"}:
        return Literal(form["@value"])
    if isinstance(form, dict) and isinstance(form.get("@expr"), str):
        return Expression(form["@expr"], str(form.get("@lang", "python")))
    return Literal(form)


def read_payload_form(form: Any, place: str) -> Payload:
    """Return the payload that a form is."""
    if not isinstance(form, dict):
        raise BadChart("a payload has params and content", place=place)
    content = read_form(form["content"]) if "content" in form else None
    return Payload(_params(form.get("params", []), place), content)


def read_action_form(form: dict[str, Any], place: str, forms: Forms) -> Action:
    """Return the action that a form is; `forms` reads those inside of it."""
    kind = _KINDS.get(str(form["type"]).removeprefix(PREFIX))
    if kind is None:
        raise BadChart(f"{form['type']} is not an action", place=place)
    found: dict[str, Any] = {}
    for field in fields(kind):
        key = _KEYS.get(field.name, field.name)
        if key in form:
            found[field.name] = _part(form[key], (kind, field.name), place, forms)
    for name, absent in _ABSENT.get(kind, {}).items():
        found.setdefault(name, absent)
    try:
        made: Action = kind(**found)
    except TypeError as error:
        raise BadChart(f"{form['type']} lacks something", place=place) from error
    return made


_ABSENT: dict[Any, dict[str, Any]] = {
    Send: {"event": None},
    Log: {"label": "", "value": None},
    If: {"branches": ()},
    ForEach: {"index": None, "actions": ()},
}


def _part(form: Any, place: tuple[type, str], where: str, forms: Forms) -> Any:
    if place in _VALUES:
        return read_form(form)
    if place[1] == "actions":
        return forms.actions(form, where)
    if place[1] == "branches":
        return tuple(_branch(inner, where, forms) for inner in _list(form, where))
    if place[1] == "params":
        return _params(form, where)
    if place[1] == "payload":
        return read_payload_form(form, where)
    if not isinstance(form, str):
        raise BadChart(f"{place[1]} is not a text", place=where)
    return form


def _branch(form: Any, place: str, forms: Forms) -> Branch:
    if not isinstance(form, dict):
        raise BadChart("a branch has a guard and actions", place=place)
    guard: Guard | None = forms.guard(form.get("guard"), place)
    actions: Block = forms.actions(form.get("actions"), place)
    return Branch(guard, actions)


def _params(form: Any, place: str) -> tuple[Param, ...]:
    pairs = _list(form, place)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise BadChart("params are pairs of a name and a value", place=place)
    return tuple(Param(str(name), read_form(value)) for name, value in pairs)


def _list(form: Any, place: str) -> list[Any]:
    if not isinstance(form, list):
        raise BadChart("not a list", place=place)
    return form
