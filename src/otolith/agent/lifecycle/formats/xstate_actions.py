"""The actions, guards and values of XState's JSON, those of version 6 among them."""

from __future__ import annotations

from typing import Any

from otolith.agent.lifecycle.definition import (
    Action,
    Assign,
    Block,
    Call,
    Cancel,
    Emit,
    Expression,
    Guard,
    Literal,
    Log,
    Named,
    Param,
    Payload,
    Raise,
    Send,
    Value,
)
from otolith.agent.lifecycle.formats.own_forms import PREFIX, Forms, read_action_form
from otolith.errors import BadChart

_LANGUAGES = {None: "ecmascript", "js": "ecmascript", "javascript": "ecmascript"}
_LANGUAGES |= {"ecmascript": "ecmascript", "python": "python", "otolith": "python"}


def listed(value: Any) -> list[Any]:
    """Return one thing or several as a list; None is none."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def read_value(value: Any, place: str) -> Value:
    """Return a literal, or the expression that `{"@expr": ...}` is."""
    if isinstance(value, dict) and "@expr" in value:
        language = value.get("@lang")
        if not isinstance(language, str | None) or language not in _LANGUAGES:
            raise BadChart(f"expressions in {language} are not read here", place=place)
        return Expression(str(value["@expr"]), _LANGUAGES[language])
    if isinstance(value, dict) and value.keys() == {"@value"}:
        return Literal(value["@value"])
    _refuse_code(value, place)
    return Literal(value)


def _refuse_code(value: Any, place: str) -> None:
    if isinstance(value, dict):
        if "@code" in value or "@expr" in value:
            raise BadChart(
                "code, or an expression inside of other data, is not run here",
                place=place,
                hint="name a registered function, or use @expr for the value as a whole",
            )
        for inner in value.values():
            _refuse_code(inner, place)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_code(inner, place)


def read_params(value: Any, place: str) -> tuple[Param, ...]:
    if value is None:
        return ()
    if not isinstance(value, dict) or "@expr" in value or "@code" in value:
        raise BadChart("params are named values, not code or one expression", place=place)
    return tuple(Param(str(name), read_value(inner, place)) for name, inner in value.items())


def read_payload(value: Any, place: str) -> Payload:
    """Return what an output or an input is: named values, or one value."""
    if isinstance(value, dict) and not {"@expr", "@value"} & value.keys():
        return Payload(read_params(value, place))
    return Payload((), None if value is None else read_value(value, place))


def read_guard(value: Any, place: str) -> Guard | None:
    if value is None:
        return None
    if isinstance(value, str):
        return Named(value)
    if isinstance(value, dict) and "@expr" in value:
        found = read_value(value, place)
        assert isinstance(found, Expression)
        return found
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return Named(value["type"], read_params(value.get("params"), place))
    raise BadChart("a guard is a name, or an object with a type or @expr", place=place)


def read_actions(value: Any, place: str) -> Block:
    return tuple(action for entry in listed(value) for action in _read(entry, place))


def _read(value: Any, place: str) -> tuple[Action, ...]:
    if isinstance(value, str):
        return (Call(value),)
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise BadChart("an action is a name, or an object with a type", place=place)
    if value["type"].startswith(PREFIX):
        return (read_action_form(value, place, FORMS),)
    name = value["type"].removeprefix("@").removeprefix("xstate.")
    if name != value["type"] and name in _BUILT_IN:
        return _BUILT_IN[name](value, place)
    return (Call(value["type"], read_params(value.get("params"), place)),)


def _assign(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    context = value.get("context", value.get("assignment"))
    return tuple(Assign(param.name, param.value) for param in read_params(context, place))


def _event(value: dict[str, Any], place: str) -> tuple[Value, Payload]:
    event = value.get("event")
    if isinstance(event, str):
        return Literal(event), Payload()
    if not isinstance(event, dict) or "type" not in event:
        raise BadChart(f"{value['type']} has no event", place=place)
    fields = {name: inner for name, inner in event.items() if name != "type"}
    return read_value(event["type"], place), Payload(read_params(fields, place))


def _raise(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    event, payload = _event(value, place)
    delay = value.get("delay")
    if delay is None and isinstance(event, Literal):
        return (Raise(str(event.value), payload),)
    wait = None if delay is None else read_value(delay, place)
    return (Send(event, id=value.get("id"), delay=wait, payload=payload),)


def _send_to(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    event, payload = _event(value, place)
    target = value.get("target", value.get("to"))
    if isinstance(target, str) and not target.startswith("#_"):
        target = f"#_{target}"
    delay = value.get("delay")
    wait = None if delay is None else read_value(delay, place)
    to = Literal("#_parent") if target is None else read_value(target, place)
    return (Send(event, target=to, id=value.get("id"), delay=wait, payload=payload),)


def _cancel(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    return (Cancel(read_value(value.get("id", value.get("sendId")), place)),)


def _log(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    values = listed(value.get("args", value.get("value")))
    label = str(value.get("label") or "")
    return tuple(Log(label, read_value(inner, place)) for inner in values)


def _emit(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    event, payload = _event(value, place)
    return (Emit(event, payload),)


_BUILT_IN = {
    "assign": _assign,
    "raise": _raise,
    "sendTo": _send_to,
    "sendParent": _send_to,
    "cancel": _cancel,
    "log": _log,
    "emit": _emit,
}

FORMS = Forms(read_actions, read_guard)
