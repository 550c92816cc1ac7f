"""Actions, guards and values as XState's JSON: version 5 where it has words, else the data of 6."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    Param,
    Payload,
    Raise,
    Send,
    Value,
)
from otolith.agent.lifecycle.formats.own_forms import PREFIX, Forms, action_form, value_form

_BUILT_IN = frozenset({"assign", "raise", "sendTo", "sendParent", "cancel", "log", "emit"})


def actions_data(block: Block) -> list[Any]:
    """Return actions as a list, each a name or an object."""
    return [_action(action) for action in block]


def guard_data(guard: Guard) -> Any:
    """Return a guard: its name, its name and params, or an expression."""
    if isinstance(guard, Expression):
        return value_form(guard)
    if not guard.params:
        return guard.name
    params = {param.name: value_form(param.value) for param in guard.params}
    return {"type": guard.name, "params": params}


def payload_data(payload: Payload) -> Any:
    """Return a payload as named values or one value; None if it is neither."""
    content = payload.content
    if content is None:
        return _named(payload.params)
    is_taken_for_params = isinstance(content, Literal) and isinstance(content.value, dict | None)
    return None if payload.params or is_taken_for_params else value_form(content)


def _named(params: Iterable[Param]) -> dict[str, Any] | None:
    """Return params as an object; None if two have one name, or a name means something else."""
    pairs = [(param.name, value_form(param.value)) for param in params]
    found = dict(pairs)
    if len(found) < len(pairs) or any(name.startswith("@") for name in found):
        return None
    return found


FORMS = Forms(actions_data, guard_data)


def _action(action: Action) -> Any:
    write = _WORDS.get(type(action))
    found = None if write is None else write(action)
    return action_form(action, FORMS) if found is None else found


def _assign(action: Assign) -> Any:
    if action.location.startswith("@"):
        return None
    return {"type": "@xstate.assign", "context": {action.location: value_form(action.value)}}


def _event(event: Value, payload: Payload) -> dict[str, Any] | None:
    """Return an event as an object; None if its data is not a set of fields beside its type."""
    given = None if payload.content is not None else _named(payload.params)
    if given is None or "type" in given:
        return None
    return {"type": value_form(event), **given}


def _raise(action: Raise) -> Any:
    event = _event(Literal(action.event), action.payload)
    return None if event is None else {"type": "@xstate.raise", "event": event}


def _send(action: Send) -> Any:
    """Return a send to somebody, or a late event for oneself; the rest has no word."""
    if action.event is None or action.type is not None or action.id_location is not None:
        return None
    event = _event(action.event, action.payload)
    if event is None or (action.target is None and action.delay is None):
        return None
    if isinstance(action.event, Literal) and not isinstance(action.event.value, str):
        return None
    found: dict[str, Any] = {"type": "@xstate.raise", "event": event}
    if action.target is not None:
        found = {"type": "@xstate.sendTo", "target": value_form(action.target), "event": event}
        if isinstance(action.target, Literal) and not _is_address(action.target.value):
            return None
    if action.delay is not None:
        if isinstance(action.delay, Literal) and action.delay.value is None:
            return None
        found["delay"] = value_form(action.delay)
    return found if action.id is None else {**found, "id": action.id}


def _is_address(target: Any) -> bool:
    return isinstance(target, str) and target.startswith("#_")


def _cancel(action: Cancel) -> Any:
    return {"type": "@xstate.cancel", "id": value_form(action.id)}


def _log(action: Log) -> Any:
    if action.value is None:
        return None
    found: dict[str, Any] = {"type": "@xstate.log", "args": [value_form(action.value)]}
    return {**found, "label": action.label} if action.label else found


def _emit(action: Emit) -> Any:
    event = _event(action.event, action.payload)
    return None if event is None else {"type": "@xstate.emit", "event": event}


def _call(action: Call) -> Any:
    short = action.name.removeprefix("@").removeprefix("xstate.")
    is_taken = short != action.name and short in _BUILT_IN
    params = _named(action.params)
    if is_taken or action.name.startswith(PREFIX) or params is None:
        return None
    return {"type": action.name, "params": params} if params else action.name


_WORDS: dict[type[Action], Callable[[Any], Any]] = {
    Assign: _assign,
    Raise: _raise,
    Send: _send,
    Cancel: _cancel,
    Log: _log,
    Emit: _emit,
    Call: _call,
}
