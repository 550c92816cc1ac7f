"""Extensions of XState's JSON: values and actions that it lacks, and annotations.

A value is itself, `{"@expr": text, "@lang": dialect}`, or `{"@value": ...}` where it would be
ambiguous. An action is `{"type": "@otolith.<kind>", ...}` with the fields of its kind; absent
fields are left out.

Annotations stand under `meta.otolith`. Of a state: `entry` and `exit` (the number of actions in
each block), `data`, `output`, `initial`, `invokes`, the root's `id`, and `chart` (properties of the
whole). Of a transition: `order` (its position in the state), `events` (all of them) and `delay`. A
chart that XState can express has none. A `meta` of the user that contains `otolith` is moved to
`meta.otolith.meta`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from otolith.errors import BadChart
from otolith.statecharts.definition import (
    Action,
    Assign,
    Block,
    Call,
    Cancel,
    Datum,
    Definition,
    Emit,
    Expression,
    ForEach,
    Guard,
    If,
    IfBranch,
    Invoke,
    Literal,
    Log,
    Param,
    Payload,
    Raise,
    Script,
    Send,
    State,
    Transition,
    Value,
)

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


class NestedFormat(NamedTuple):
    """How the surrounding format writes, or reads, the actions and guards inside an action."""

    actions: Callable[..., Any]
    guard: Callable[..., Any]


def value_to_json(value: Value) -> Any:
    """Return a value as JSON."""
    if isinstance(value, Expression):
        return {"@expr": value.text, "@lang": value.dialect}
    return {"@value": value.value} if _is_ambiguous(value.value) else value.value


def payload_to_json(payload: Payload) -> dict[str, Any]:
    """Return a payload as JSON."""
    found: dict[str, Any] = {}
    if payload.params:
        found["params"] = [[param.name, value_to_json(param.value)] for param in payload.params]
    if payload.content is not None:
        found["content"] = value_to_json(payload.content)
    return found


def action_to_json(action: Action, nested: NestedFormat) -> dict[str, Any]:
    """Return an action as JSON; `nested` writes the actions inside it."""
    kind = type(action)
    found: dict[str, Any] = {"type": f"{PREFIX}{_NAMES[kind]}"}
    for field in fields(action):
        inner = getattr(action, field.name)
        if inner is not None and inner != () and inner != Payload():
            key = _KEYS.get(field.name, field.name)
            found[key] = _field_to_json(inner, (kind, field.name), nested)
    return found


def _field_to_json(part: Any, place: tuple[type, str], nested: NestedFormat) -> Any:
    if place in _VALUES:
        return value_to_json(part)
    if place[1] == "actions":
        return nested.actions(part)
    if place[1] == "branches":
        return [_branch_to_json(branch, nested) for branch in part]
    if place[1] == "params":
        return payload_to_json(Payload(part))["params"]
    return payload_to_json(part) if place[1] == "payload" else part


def _branch_to_json(branch: IfBranch, nested: NestedFormat) -> dict[str, Any]:
    actions = nested.actions(branch.actions)
    if branch.guard is None:
        return {"actions": actions}
    return {"guard": nested.guard(branch.guard), "actions": actions}


def _is_ambiguous(value: Any) -> bool:
    if isinstance(value, dict):
        is_ours = any(str(key).startswith("@") for key in value)
        return is_ours or any(_is_ambiguous(inner) for inner in value.values())
    return isinstance(value, list | tuple) and any(_is_ambiguous(inner) for inner in value)


def value_from_json(form: Any) -> Value:
    """Return the value that JSON stands for."""
    if isinstance(form, dict) and form.keys() == {"@value"}:
        return Literal(form["@value"])
    if isinstance(form, dict) and isinstance(form.get("@expr"), str):
        return Expression(form["@expr"], str(form.get("@lang", "python")))
    return Literal(form)


def payload_from_json(form: Any, place: str) -> Payload:
    """Return the payload that JSON stands for.

    Raises:
        BadChart: it is not an object with params and content.
    """
    if not isinstance(form, dict):
        raise BadChart("a payload must be an object with params and content", place=place)
    content = value_from_json(form["content"]) if "content" in form else None
    return Payload(_params(form.get("params", []), place), content)


def action_from_json(form: dict[str, Any], place: str, nested: NestedFormat) -> Action:
    """Return the action that JSON stands for; `nested` reads the actions inside it.

    Raises:
        BadChart: it is not an action, or lacks a field.
    """
    kind = _KINDS.get(str(form["type"]).removeprefix(PREFIX))
    if kind is None:
        raise BadChart(f"{form['type']} is not an action", place=place)
    found: dict[str, Any] = {}
    for field in fields(kind):
        key = _KEYS.get(field.name, field.name)
        if key in form:
            found[field.name] = _part(form[key], (kind, field.name), place, nested)
    for name, absent in _ABSENT.get(kind, {}).items():
        found.setdefault(name, absent)
    try:
        made: Action = kind(**found)
    except TypeError as error:
        raise BadChart(f"{form['type']} lacks a field: {error}", place=place) from error
    return made


_ABSENT: dict[Any, dict[str, Any]] = {
    Send: {"event": None},
    Log: {"label": "", "value": None},
    If: {"branches": ()},
    ForEach: {"index": None, "actions": ()},
}


def _part(form: Any, place: tuple[type, str], where: str, nested: NestedFormat) -> Any:
    if place in _VALUES:
        return value_from_json(form)
    if place[1] == "actions":
        return nested.actions(form, where)
    if place[1] == "branches":
        return tuple(_branch(inner, where, nested) for inner in _list(form, where))
    if place[1] == "params":
        return _params(form, where)
    if place[1] == "payload":
        return payload_from_json(form, where)
    if not isinstance(form, str):
        raise BadChart(f"{place[1]} must be a text", place=where)
    return form


def _branch(form: Any, place: str, nested: NestedFormat) -> IfBranch:
    if not isinstance(form, dict):
        raise BadChart("a branch must be an object with a guard and actions", place=place)
    guard: Guard | None = nested.guard(form.get("guard"), place)
    actions: Block = nested.actions(form.get("actions"), place)
    return IfBranch(guard, actions)


def _params(form: Any, place: str) -> tuple[Param, ...]:
    pairs = _list(form, place)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise BadChart("params must be pairs of a name and a value", place=place)
    return tuple(Param(str(name), value_from_json(value)) for name, value in pairs)


def _list(form: Any, place: str) -> list[Any]:
    if not isinstance(form, list):
        raise BadChart(f"expected a list, got {type(form).__name__}", place=place)
    return form


KEY = "otolith"
_CHART_PROPERTIES: dict[str, tuple[Any, ...]] = {
    "name": (),
    "dialect": ("python", "ecmascript"),
    "matching": ("prefix", "exact"),
    "binding": ("early", "late"),
    "is_scxml": (True, False),
}
"""Properties of a whole chart, and the values each may have; a name may be any text."""


def with_annotations(meta: dict[str, Any] | None, notes: dict[str, Any]) -> dict[str, Any] | None:
    """Return a meta with annotations added; `split_annotations` separates them again."""
    if meta is not None and KEY in meta:
        return {KEY: {"meta": meta, **notes}}
    return {**(meta or {}), KEY: notes} if notes else meta


def split_annotations(meta: Any) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the meta of the user, and the annotations that were in it."""
    if not isinstance(meta, dict) or not isinstance(meta.get(KEY), dict):
        return meta, {}
    notes = meta[KEY]
    if "meta" in notes:
        if not isinstance(notes["meta"], dict | None):
            raise BadChart("it must be an object", place=f"meta.{KEY}.meta")
        return notes["meta"], notes
    rest = {name: value for name, value in meta.items() if name != KEY}
    return rest or None, notes


class AnnotationReader:
    """Applies annotations to what XState's JSON said.

    `nested` reads actions, `read_chart` a chart inside another.
    """

    def __init__(
        self, nested: NestedFormat, read_chart: Callable[[Mapping[str, Any]], Definition]
    ) -> None:
        self._nested = nested
        self._read_chart = read_chart

    def chart(self, definition: Definition, meta: Any) -> Definition:
        """Return a definition with the annotated properties of the whole chart."""
        given = split_annotations(meta)[1].get("chart") or {}
        place = definition.name
        if not isinstance(given, dict):
            raise BadChart(f"meta.{KEY}.chart must be an object", place=place)
        found = {name: value for name, value in given.items() if name in _CHART_PROPERTIES}
        for name, value in found.items():
            if not (
                value in _CHART_PROPERTIES[name]
                if _CHART_PROPERTIES[name]
                else isinstance(value, str)
            ):
                raise BadChart(f"{value!r} is not a {name} of a chart", place=place)
        script: Block = self._nested.actions(given.get("script"), place)
        return replace(definition, script=script, **found)

    def state(self, state: State) -> State:
        """Return a state with its annotations applied, and removed from its meta.

        Raises:
            BadChart: the annotations are not valid.
        """
        try:
            return self._state(state)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise BadChart(f"meta.{KEY} cannot be read: {error}", place=state.id) from error

    def _state(self, state: State) -> State:
        meta, notes = split_annotations(state.meta)
        place = state.id
        found: dict[str, Any] = {}
        for side in ("entry", "exit"):
            if side in notes:
                found[side] = _blocks(getattr(state, side), notes[side], place)
        if "data" in notes:
            found["data"] = tuple(_datum(form, place) for form in notes["data"])
        if "output" in notes:
            found["output"] = payload_from_json(notes["output"], place)
        if "initial" in notes and state.initial is not None:
            found["initial"] = self._initial(state.initial, notes["initial"])
        if "invokes" in notes:
            found["invokes"] = self._invokes(state.invokes, notes["invokes"], place)
        return replace(state, transitions=_ordered(state.transitions), meta=meta, **found)

    def _initial(self, initial: Transition, notes: dict[str, Any]) -> Transition:
        actions: Block = self._nested.actions(notes.get("actions"), initial.place)
        return replace(
            initial,
            is_internal=bool(notes.get("internal", False)),
            actions=actions or initial.actions,
        )

    def _invokes(self, invokes: tuple[Invoke, ...], notes: Any, place: str) -> tuple[Invoke, ...]:
        if not isinstance(notes, list) or len(notes) != len(invokes):
            raise BadChart("annotations of invokes must be one for each", place=place)
        return tuple(
            invoke if note is None else self._invoke(invoke, note)
            for invoke, note in zip(invokes, notes, strict=True)
        )

    def _invoke(self, invoke: Invoke, note: dict[str, Any]) -> Invoke:
        values = {name: value_from_json(note[name]) for name in ("source", "type") if name in note}
        content: Any = value_from_json(note["content"]) if "content" in note else None
        if "chart" in note:
            content = self._read_chart(note["chart"])
        texts = [note.get("id"), note.get("idLocation")]
        if not all(isinstance(text, str | None) for text in texts):
            raise BadChart("an id must be a text", place=invoke.place)
        finalize = note.get("finalize")
        return Invoke(
            id=note.get("id"),
            id_location=note.get("idLocation"),
            content=content,
            payload=payload_from_json(note.get("payload", {}), invoke.place),
            finalize=None if finalize is None else self._nested.actions(finalize, invoke.place),
            is_forwarding=bool(note.get("forwarding", False)),
            place=invoke.place,
            **values,
        )


def _ordered(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """Return transitions in their annotated order; one that was split by event is joined."""
    found: dict[int, Transition] = {}
    for position, transition in enumerate(transitions):
        meta, notes = split_annotations(transition.meta)
        changes: dict[str, Any] = {"meta": meta}
        if "events" in notes:
            changes["events"] = tuple(str(event) for event in notes["events"])
        if "delay" in notes:
            changes["delay"] = value_from_json(notes["delay"])
        order = notes.get("order", position)
        found.setdefault(
            order if isinstance(order, int) else position, replace(transition, **changes)
        )
    return tuple(found[order] for order in sorted(found))


def _blocks(blocks: tuple[Block, ...], sizes: Any, place: str) -> tuple[Block, ...]:
    actions: list[Action] = [action for block in blocks for action in block]
    if not isinstance(sizes, list) or sum(sizes) != len(actions):
        raise BadChart("annotated block sizes do not match its actions", place=place)
    found: list[Block] = []
    for size in sizes:
        found.append(tuple(actions[:size]))
        actions = actions[size:]
    return tuple(found)


def _datum(form: Any, place: str) -> Datum:
    if not isinstance(form, list) or len(form) not in {1, 2}:
        raise BadChart("annotated data must be names and values", place=place)
    return Datum(str(form[0]), value_from_json(form[1]) if len(form) == 2 else None, place=place)
