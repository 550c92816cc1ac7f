"""Values, guards and actions of XState's JSON, read and written.

An action is written in the first of these forms that can express it, and all are read:

- version 5: a name, or `{"type": name, "params": {...}}`, which is a `Call`;
- version 6, as data: `@xstate.assign` (`context`), `@xstate.raise` and `@xstate.emit` (`event`),
  `@xstate.sendTo` (`target`, `event`, `delay`, `id`), `@xstate.cancel` (`id`), `@xstate.log`
  (`args`, `label`). Without a target, a delayed `Send` is a `raise` with a delay. On reading, the
  prefix may also be `@` or `xstate.`, and the older keys are accepted;
- our extension: `{"type": "@otolith.<kind>", ...}` with the fields of its class, exactly as they
  are; a field that is absent (None, no items) is left out.

A value is itself, or `{"@expr": text, "@lang": dialect}`, or `{"@value": ...}` where it would be
ambiguous: data with a key that begins with `@`. A payload is an object of named values, or one
value. In an extension it is `{"params": [[name, value], ...], "content": value}`, which can repeat
a name and holds both; SCXML's extensions use this form too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import Field, fields
from difflib import get_close_matches
from typing import Any

from otolith.errors import BadChart
from otolith.statecharts.definition import (
    Action,
    Assign,
    Block,
    Call,
    Cancel,
    Emit,
    Expression,
    ForEach,
    Guard,
    If,
    IfBranch,
    Literal,
    Log,
    NamedGuard,
    Param,
    Payload,
    Raise,
    Script,
    Send,
    Value,
)

_PREFIX = "@otolith."
_LANGUAGES = {None: "ecmascript", "js": "ecmascript", "javascript": "ecmascript"}
_LANGUAGES |= {"ecmascript": "ecmascript", "python": "python", "otolith": "python"}
_SENT = frozenset({"type", "event", "delay", "id", "target", "to"})
_BUILT_IN: dict[str, frozenset[str]] = {
    "assign": frozenset({"type", "context", "assignment"}),
    "cancel": frozenset({"type", "id", "sendId"}),
    "log": frozenset({"type", "args", "value", "label"}),
    **dict.fromkeys(("raise", "sendTo", "sendParent", "emit"), _SENT),
}
"""XState's own actions, and the keys that each may have."""
_NAME_KEYS = frozenset({"type", "params"})
_VALUE_KEYS = frozenset({"@expr", "@lang"})
_OLDER = {"internal": "reenter", "in": "guard", "data": "output", "activities": "invoke"}
"""Keys of XState 4 that mean something else now, or nothing."""


def as_list(value: Any) -> list[Any]:
    """Return one item or several as a list; None is an empty list."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def check_keys(data: Mapping[str, Any], known: Collection[str], what: str, place: str) -> None:
    """Check that an object has only keys that are known: a misspelt one would be ignored.

    Raises:
        BadChart: it has others; the hint is the nearest one that is known.
    """
    for key in data:
        if key in known:
            continue
        near = [_OLDER[key]] if _OLDER.get(key) in known else get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "data of your own goes into meta"
        raise BadChart(f"{key[:80]!r} is not a key of {what}", place=place, hint=hint)


# ---------------------------------------------------------------- values and payloads, exactly


def value_to_json(value: Value) -> Any:
    """Return a value as JSON."""
    if isinstance(value, Expression):
        return {"@expr": value.text, "@lang": value.dialect}
    return {"@value": value.value} if _is_ambiguous(value.value) else value.value


def _is_ambiguous(value: Any) -> bool:
    """Return whether data would be read as an expression, as code, or as `@value`."""
    if isinstance(value, dict):
        is_ours = any(str(key).startswith("@") for key in value)
        return is_ours or any(_is_ambiguous(inner) for inner in value.values())
    return isinstance(value, list | tuple) and any(_is_ambiguous(inner) for inner in value)


def value_from_json(form: Any) -> Value:
    """Return the value that `value_to_json` wrote; `read_value` is the one for foreign charts."""
    if isinstance(form, dict) and form.keys() == {"@value"}:
        return Literal(form["@value"])
    if isinstance(form, dict) and isinstance(form.get("@expr"), str):
        return Expression(form["@expr"], str(form.get("@lang", "python")))
    return Literal(form)


def params_to_json(params: Iterable[Param]) -> list[list[Any]]:
    """Return params as pairs of a name and a value."""
    return [[param.name, value_to_json(param.value)] for param in params]


def params_from_json(form: Any, place: str) -> tuple[Param, ...]:
    """Return the params of pairs.

    Raises:
        BadChart: it is not a list of pairs.
    """
    pairs = _list(form, place)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise BadChart("params must be pairs of a name and a value", place=place)
    return tuple(Param(str(name), value_from_json(value)) for name, value in pairs)


def payload_to_json(payload: Payload) -> dict[str, Any]:
    """Return a payload as JSON."""
    params = {"params": params_to_json(payload.params)} if payload.params else {}
    content = payload.content
    return params if content is None else {**params, "content": value_to_json(content)}


def payload_from_json(form: Any, place: str) -> Payload:
    """Return the payload that JSON stands for.

    Raises:
        BadChart: it is not an object with params and content.
    """
    if not isinstance(form, dict):
        raise BadChart("a payload must be an object with params and content", place=place)
    content = value_from_json(form["content"]) if "content" in form else None
    return Payload(params_from_json(form.get("params", []), place), content)


def _list(form: Any, place: str) -> list[Any]:
    if not isinstance(form, list):
        raise BadChart(f"expected a list, got {type(form).__name__}", place=place)
    return form


# ---------------------------------------------------------------- values, payloads and guards


def read_value(value: Any, place: str) -> Value:
    """Return a literal, or the expression of `{"@expr": ...}`.

    Raises:
        BadChart: the language is unknown, or there is code inside the data.
    """
    if isinstance(value, dict) and "@expr" in value:
        check_keys(value, _VALUE_KEYS, "an expression", place)
        language = value.get("@lang")
        if not isinstance(language, str | None) or language not in _LANGUAGES:
            raise BadChart(f"expressions in {language} are not supported", place=place)
        return Expression(str(value["@expr"]), _LANGUAGES[language])
    if isinstance(value, dict) and value.keys() == {"@value"}:
        return Literal(value["@value"])
    _reject_code(value, place)
    return Literal(value)


def _reject_code(value: Any, place: str) -> None:
    """Refuse code inside data: it would be taken for data, and never run."""
    if isinstance(value, dict) and ("@code" in value or "@expr" in value):
        raise BadChart(
            "code, or an expression inside other data, is not supported",
            place=place,
            hint="name a registered function, or use @expr for the value as a whole",
        )
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            _reject_code(inner, place)


def _read_params(value: Any, place: str) -> tuple[Param, ...]:
    """Return the params of an object of named values; code and expressions are refused."""
    if value is None:
        return ()
    if not isinstance(value, dict) or "@expr" in value or "@code" in value:
        raise BadChart("params must be named values, not code or one expression", place=place)
    return tuple(Param(str(name), read_value(inner, place)) for name, inner in value.items())


def _write_params(params: Iterable[Param]) -> dict[str, Any] | None:
    """Return params as an object; None if two share a name, or a name begins with `@`."""
    pairs = params_to_json(params)
    found = dict(pairs)
    is_lossy = len(found) < len(pairs) or any(name.startswith("@") for name in found)
    return None if is_lossy else found


def read_payload(value: Any, place: str) -> Payload:
    """Return the payload of an output or input: named values, or one value."""
    if isinstance(value, dict) and not {"@expr", "@value"} & value.keys():
        return Payload(_read_params(value, place))
    return Payload((), None if value is None else read_value(value, place))


def write_payload(payload: Payload) -> Any:
    """Return a payload as named values or one value; None if XState cannot express it."""
    content = payload.content
    if content is None:
        return _write_params(payload.params)
    is_taken_for_params = isinstance(content, Literal) and isinstance(content.value, dict | None)
    return None if payload.params or is_taken_for_params else value_to_json(content)


def read_guard(value: Any, place: str) -> Guard | None:
    """Return a guard: a name, an object with a type, or an expression."""
    if value is None:
        return None
    if isinstance(value, str):
        return NamedGuard(value)
    if isinstance(value, dict) and "@expr" in value:
        found = read_value(value, place)
        assert isinstance(found, Expression)
        return found
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        check_keys(value, _NAME_KEYS, "a guard", place)
        return NamedGuard(value["type"], _read_params(value.get("params"), place))
    raise BadChart("a guard must be a name, or an object with a type or @expr", place=place)


def write_guard(guard: Guard) -> Any:
    """Return a guard: its name, its name and params, or an expression."""
    if isinstance(guard, Expression):
        return value_to_json(guard)
    if not guard.params:
        return guard.name
    return {"type": guard.name, "params": dict(params_to_json(guard.params))}


# ---------------------------------------------------------------- actions


def read_actions(value: Any, place: str) -> Block:
    """Return one action or several.

    Raises:
        BadChart: one is not an action, or lacks a field.
    """
    return tuple(action for entry in as_list(value) for action in _read_action(entry, place))


def write_actions(block: Block) -> list[Any]:
    """Return actions as a list, each a name or an object."""
    found = [(action, _write_built_in(action)) for action in block]
    return [_write_extension(action) if form is None else form for action, form in found]


def _read_action(value: Any, place: str) -> tuple[Action, ...]:
    """Return the actions of one entry: an `assign` or `log` of several values is several."""
    if isinstance(value, str):
        return (Call(value),)
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise BadChart("an action must be a name, or an object with a type", place=place)
    if value["type"].startswith(_PREFIX):
        return (_read_extension(value, place),)
    name = _built_in_name(value["type"])
    check_keys(value, _NAME_KEYS if name is None else _BUILT_IN[name], "an action", place)
    if name is None:
        return (Call(value["type"], _read_params(value.get("params"), place)),)
    return _read_built_in(name, value, place)


def _built_in_name(type: str) -> str | None:
    """Return the name of XState's own action that a type stands for, or None."""
    name = type.removeprefix("@").removeprefix("xstate.")
    return name if name != type and name in _BUILT_IN else None


def _read_built_in(name: str, value: dict[str, Any], place: str) -> tuple[Action, ...]:
    """Return the actions of one of XState's own, by its name without prefix."""
    match name:
        case "assign":
            context = value.get("context", value.get("assignment"))
            return tuple(Assign(param.name, param.value) for param in _read_params(context, place))
        case "cancel":
            return (Cancel(read_value(value.get("id", value.get("sendId")), place)),)
        case "log":
            label, given = str(value.get("label") or ""), value.get("args", value.get("value"))
            return tuple(Log(label, read_value(inner, place)) for inner in as_list(given))
    event, payload = _read_event(value, place)
    if name == "emit":
        return (Emit(event, payload),)
    delay = None if value.get("delay") is None else read_value(value["delay"], place)
    if name == "raise" and delay is None and isinstance(event, Literal):
        return (Raise(str(event.value), payload),)
    target = None if name == "raise" else _read_address(value, place)
    if not isinstance(value.get("id"), str | None):
        raise BadChart("the id of a sent event must be a text", place=place)
    return (Send(event, target=target, id=value.get("id"), delay=delay, payload=payload),)


def _read_address(value: dict[str, Any], place: str) -> Value:
    """Return the target of `sendTo`: `#_` and the id of a child, or `#_parent` without any."""
    target = value.get("target", value.get("to"))
    if isinstance(target, str) and not target.startswith("#_"):
        target = f"#_{target}"
    return Literal("#_parent") if target is None else read_value(target, place)


def _read_event(value: dict[str, Any], place: str) -> tuple[Value, Payload]:
    """Return the event of an action: a name, or an object with a type beside its data."""
    event = value.get("event")
    if isinstance(event, str):
        return Literal(event), Payload()
    if not isinstance(event, dict) or "type" not in event:
        raise BadChart(f"{value['type']} has no event", place=place)
    data = {name: inner for name, inner in event.items() if name != "type"}
    return read_value(event["type"], place), Payload(_read_params(data, place))


def _write_built_in(action: Action) -> Any:
    """Return an action in a form of XState, or None if there is none for it."""
    match action:
        case Assign() if not action.location.startswith("@"):
            context = {action.location: value_to_json(action.value)}
            return {"type": "@xstate.assign", "context": context}
        case Cancel():
            return {"type": "@xstate.cancel", "id": value_to_json(action.id)}
        case Log() if action.value is not None:
            label = {"label": action.label} if action.label else {}
            return {"type": "@xstate.log", "args": [value_to_json(action.value)], **label}
        case Call():
            params = _write_params(action.params)
            is_taken = _built_in_name(action.name) or action.name.startswith(_PREFIX)
            if not is_taken and params is not None:
                return {"type": action.name, "params": params} if params else action.name
        case Raise():
            event = _write_event(Literal(action.event), action.payload)
            return None if event is None else {"type": "@xstate.raise", "event": event}
        case Emit():
            event = _write_event(action.event, action.payload)
            return None if event is None else {"type": "@xstate.emit", "event": event}
        case Send():
            return _write_send(action)
    return None


def _write_event(event: Value, payload: Payload) -> dict[str, Any] | None:
    """Return an event as an object; None if its data cannot be fields beside `type`."""
    data = None if payload.content is not None else _write_params(payload.params)
    return None if data is None or "type" in data else {"type": value_to_json(event), **data}


def _write_send(action: Send) -> dict[str, Any] | None:
    """Return `sendTo`, or a delayed `raise`; None for a send that XState cannot express."""
    target, delay = action.target, action.delay
    is_immediate = target is None and delay is None
    is_scxml = action.type is not None or action.id_location is not None
    if action.event is None or is_immediate or is_scxml:
        return None
    event = _write_event(action.event, action.payload)
    has_name = isinstance(action.event, Expression) or isinstance(action.event.value, str)
    if event is None or not has_name or delay == Literal(None):
        return None
    found: dict[str, Any] = {"type": "@xstate.raise", "event": event}
    if target is not None:
        address = target.value if isinstance(target, Literal) else "#_"
        if not isinstance(address, str) or not address.startswith("#_"):
            return None
        found = {"type": "@xstate.sendTo", "target": value_to_json(target), "event": event}
    if delay is not None:
        found["delay"] = value_to_json(delay)
    return found if action.id is None else {**found, "id": action.id}


# ---------------------------------------------------------------- actions as extensions

_KINDS: dict[str, type[Action]] = {
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
_NAMES = {kind: name for name, kind in _KINDS.items()}
_KEYS = {"id_location": "idLocation", "type": "sendType"}
"""Fields whose keys differ from their names: `type` is the kind of the action."""
_DEFAULTS: dict[type[Action], dict[str, Any]] = {
    Send: {"event": None},
    Log: {"label": "", "value": None},
    If: {"branches": ()},
    ForEach: {"index": None, "actions": ()},
}
"""Fields without a default in their class that a document may leave out."""


def _write_extension(action: Action) -> dict[str, Any]:
    found: dict[str, Any] = {"type": f"{_PREFIX}{_NAMES[type(action)]}"}
    for field in fields(action):
        value = getattr(action, field.name)
        if value is not None and value != () and value != Payload():
            found[_KEYS.get(field.name, field.name)] = _FIELD_FORMS[_field_type(field)][0](value)
    return found


def _read_extension(form: dict[str, Any], place: str) -> Action:
    kind = _KINDS.get(str(form["type"]).removeprefix(_PREFIX))
    if kind is None:
        raise BadChart(f"{form['type']} is not an action", place=place)
    check_keys(form, {"type", *(_KEYS.get(f.name, f.name) for f in fields(kind))}, "it", place)
    found: dict[str, Any] = dict(_DEFAULTS.get(kind, {}))
    for field in fields(kind):
        key, type = _KEYS.get(field.name, field.name), _field_type(field)
        if key in form:
            if type == "str" and not isinstance(form[key], str):
                raise BadChart(f"{field.name} must be a text", place=place)
            found[field.name] = _FIELD_FORMS[type][1](form[key], place)
    try:
        return kind(**found)
    except TypeError as error:
        raise BadChart(f"{form['type']} lacks a field: {error}", place=place) from error


def _field_type(field: Field[Any]) -> str:
    """Return the annotation of a field, without `| None`."""
    return str(field.type).removesuffix(" | None")


def _write_branches(branches: tuple[IfBranch, ...]) -> list[dict[str, Any]]:
    guards = [{} if each.guard is None else {"guard": write_guard(each.guard)} for each in branches]
    pairs = zip(guards, branches, strict=True)
    return [{**guard, "actions": write_actions(each.actions)} for guard, each in pairs]


def _read_branches(forms: Any, place: str) -> tuple[IfBranch, ...]:
    if not all(isinstance(form, dict) for form in _list(forms, place)):
        raise BadChart("a branch must be an object with a guard and actions", place=place)
    return tuple(
        IfBranch(read_guard(form.get("guard"), place), read_actions(form.get("actions"), place))
        for form in forms
    )


_FIELD_FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, str], Any]]] = {
    "str": (str, lambda form, place: form),
    "Value": (value_to_json, lambda form, place: value_from_json(form)),
    "Payload": (payload_to_json, payload_from_json),
    "tuple[Param, ...]": (params_to_json, params_from_json),
    "tuple[Action, ...]": (write_actions, read_actions),
    "tuple[IfBranch, ...]": (_write_branches, _read_branches),
}
"""How a field is written and read, by its annotation in the class of the action."""
