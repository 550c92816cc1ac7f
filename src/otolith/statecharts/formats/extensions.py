"""Own forms: values and actions as JSON, where the formats of others have no word for them.

A value is itself, `{"@expr": text, "@lang": dialect}`, or `{"@value": ...}` where it could be taken
for one of these. An action is `{"type": "@otolith.<kind>", ...}` with the fields of its kind; those
that are absent are left out.

Own notes: what XState's JSON cannot say of a chart, kept beside it under `meta.otolith`.

Notes of a state: `entry` and `exit` (how many actions each block has), `data`, `output`, `initial`,
`invokes`, the root's `id`, and `chart` (what holds for the whole). Notes of a transition: `order`
(where it stood among those of its state), `events` (all of them) and `delay`. A chart that XState
can say has no notes; a `meta` that has an `otolith` of its own is kept in `meta.otolith.meta`.
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


def _branch_form(branch: IfBranch, forms: Forms) -> dict[str, Any]:
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


def _branch(form: Any, place: str, forms: Forms) -> IfBranch:
    if not isinstance(form, dict):
        raise BadChart("a branch has a guard and actions", place=place)
    guard: Guard | None = forms.guard(form.get("guard"), place)
    actions: Block = forms.actions(form.get("actions"), place)
    return IfBranch(guard, actions)


def _params(form: Any, place: str) -> tuple[Param, ...]:
    pairs = _list(form, place)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise BadChart("params are pairs of a name and a value", place=place)
    return tuple(Param(str(name), read_form(value)) for name, value in pairs)


def _list(form: Any, place: str) -> list[Any]:
    if not isinstance(form, list):
        raise BadChart("not a list", place=place)
    return form


KEY = "otolith"
_WORDS: dict[str, tuple[Any, ...]] = {
    "name": (),
    "dialect": ("python", "ecmascript"),
    "matching": ("prefix", "exact"),
    "binding": ("early", "late"),
    "is_scxml": (True, False),
}
"""What may be noted of a whole chart, and what of; a name may be any."""


def noted(meta: dict[str, Any] | None, notes: dict[str, Any]) -> dict[str, Any] | None:
    """Return a meta that holds notes; `split` takes both apart again."""
    if meta is not None and KEY in meta:
        return {KEY: {"meta": meta, **notes}}
    return {**(meta or {}), KEY: notes} if notes else meta


def split(meta: Any) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return a meta as it was, and the notes that were in it."""
    if not isinstance(meta, dict) or not isinstance(meta.get(KEY), dict):
        return meta, {}
    notes = meta[KEY]
    if "meta" in notes:
        if not isinstance(notes["meta"], dict | None):
            raise BadChart("a meta that was kept is an object", place=f"meta.{KEY}.meta")
        return notes["meta"], notes
    rest = {name: value for name, value in meta.items() if name != KEY}
    return rest or None, notes


class Restoring:
    """Puts back what notes say; `forms` reads actions, `read_chart` a chart inside another."""

    def __init__(self, forms: Forms, read_chart: Callable[[Mapping[str, Any]], Definition]) -> None:
        self._forms = forms
        self._read_chart = read_chart

    def chart(self, definition: Definition, meta: Any) -> Definition:
        """Return a definition with what its notes say of the whole."""
        said = split(meta)[1].get("chart") or {}
        place = definition.name
        if not isinstance(said, dict):
            raise BadChart("the notes of a chart are an object", place=place)
        found = {name: value for name, value in said.items() if name in _WORDS}
        for name, value in found.items():
            if not (value in _WORDS[name] if _WORDS[name] else isinstance(value, str)):
                raise BadChart(f"{value!r} is not a {name} of a chart", place=place)
        script: Block = self._forms.actions(said.get("script"), place)
        return replace(definition, script=script, **found)

    def state(self, state: State) -> State:
        """Return a state with what its notes say, and without them.

        Raises:
            BadChart: the notes are not such as are written here.
        """
        try:
            return self._state(state)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise BadChart(f"meta.{KEY} cannot be read: {error}", place=state.id) from error

    def _state(self, state: State) -> State:
        meta, notes = split(state.meta)
        place = state.id
        found: dict[str, Any] = {}
        for side in ("entry", "exit"):
            if side in notes:
                found[side] = _blocks(getattr(state, side), notes[side], place)
        if "data" in notes:
            found["data"] = tuple(_datum(form, place) for form in notes["data"])
        if "output" in notes:
            found["output"] = read_payload_form(notes["output"], place)
        if "initial" in notes and state.initial is not None:
            found["initial"] = self._initial(state.initial, notes["initial"])
        if "invokes" in notes:
            found["invokes"] = self._invokes(state.invokes, notes["invokes"], place)
        return replace(state, transitions=_ordered(state.transitions), meta=meta, **found)

    def _initial(self, initial: Transition, notes: dict[str, Any]) -> Transition:
        actions: Block = self._forms.actions(notes.get("actions"), initial.place)
        return replace(
            initial,
            is_internal=bool(notes.get("internal", False)),
            actions=actions or initial.actions,
        )

    def _invokes(self, invokes: tuple[Invoke, ...], notes: Any, place: str) -> tuple[Invoke, ...]:
        if not isinstance(notes, list) or len(notes) != len(invokes):
            raise BadChart("the notes of invokes are not one each", place=place)
        return tuple(
            invoke if note is None else self._invoke(invoke, note)
            for invoke, note in zip(invokes, notes, strict=True)
        )

    def _invoke(self, invoke: Invoke, note: dict[str, Any]) -> Invoke:
        values = {name: read_form(note[name]) for name in ("source", "type") if name in note}
        content: Any = read_form(note["content"]) if "content" in note else None
        if "chart" in note:
            content = self._read_chart(note["chart"])
        texts = [note.get("id"), note.get("idLocation")]
        if not all(isinstance(text, str | None) for text in texts):
            raise BadChart("an id is a text", place=invoke.place)
        finalize = note.get("finalize")
        return Invoke(
            id=note.get("id"),
            id_location=note.get("idLocation"),
            content=content,
            payload=read_payload_form(note.get("payload", {}), invoke.place),
            finalize=None if finalize is None else self._forms.actions(finalize, invoke.place),
            is_forwarding=bool(note.get("forwarding", False)),
            place=invoke.place,
            **values,
        )


def _ordered(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """Return transitions in the order they were in; what stands there for each event is one."""
    found: dict[int, Transition] = {}
    for position, transition in enumerate(transitions):
        meta, notes = split(transition.meta)
        changes: dict[str, Any] = {"meta": meta}
        if "events" in notes:
            changes["events"] = tuple(str(event) for event in notes["events"])
        if "delay" in notes:
            changes["delay"] = read_form(notes["delay"])
        order = notes.get("order", position)
        found.setdefault(
            order if isinstance(order, int) else position, replace(transition, **changes)
        )
    return tuple(found[order] for order in sorted(found))


def _blocks(blocks: tuple[Block, ...], sizes: Any, place: str) -> tuple[Block, ...]:
    actions: list[Action] = [action for block in blocks for action in block]
    if not isinstance(sizes, list) or sum(sizes) != len(actions):
        raise BadChart("the notes of its blocks do not fit its actions", place=place)
    found: list[Block] = []
    for size in sizes:
        found.append(tuple(actions[:size]))
        actions = actions[size:]
    return tuple(found)


def _datum(form: Any, place: str) -> Datum:
    if not isinstance(form, list) or len(form) not in {1, 2}:
        raise BadChart("the notes of its data are names and values", place=place)
    return Datum(str(form[0]), read_form(form[1]) if len(form) == 2 else None, place=place)
