"""Short labels for the parts of a chart, as diagrams show them.

A transition is `event [guard] / action, action`. Entry, exit, invokes and internal transitions of a
state are a line each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from otolith.statecharts.definition import (
    Action,
    Assign,
    Block,
    Call,
    Cancel,
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
    NamedGuard,
    Raise,
    Script,
    Send,
    State,
    Transition,
    Value,
)

MAX_LENGTH = 60


def transition_label(transition: Transition) -> str:
    """Return `event [guard] / actions`; absent parts are left out."""
    parts = [_trigger(transition)]
    if transition.guard is not None:
        parts.append(f"[{_guard(transition.guard)}]")
    if transition.actions:
        parts.append(f"/ {block_label(transition.actions)}")
    return " ".join(part for part in parts if part)


def state_lines(state: State) -> list[str]:
    """Return the lines inside a state: entry, exit, invokes, transitions without target."""
    lines = [f"entry / {block_label(block)}" for block in state.entry if block]
    lines += [f"exit / {block_label(block)}" for block in state.exit if block]
    lines += [f"invoke {_invoke(invoke)}" for invoke in state.invokes]
    inner = (each for each in state.transitions if not each.targets)
    lines += [transition_label(each) or "always" for each in inner]
    return lines


def block_label(block: Block) -> str:
    """Return a list of actions as one short text."""
    return _short(", ".join(_action(action) for action in block))


def state_name(state: State, parent: State | None) -> str:
    """Return a state's id without the id of its parent as prefix."""
    if parent is None:
        return state.id
    return state.id.removeprefix(f"{parent.id}.") or state.id


def _trigger(transition: Transition) -> str:
    if transition.delay is not None:
        unit = " ms" if _is_number(transition.delay) else ""
        return f"after {_value(transition.delay)}{unit}"
    return ", ".join(transition.events)


def _is_number(value: Value) -> bool:
    return isinstance(value, Literal) and isinstance(value.value, int | float)


def _guard(guard: Guard) -> str:
    return _short(guard.text if isinstance(guard, Expression) else _named(guard))


def _named(named: NamedGuard | Call) -> str:
    given = ", ".join(f"{param.name}={_value(param.value)}" for param in named.params)
    return f"{named.name}({given})" if given else named.name


def _invoke(invoke: Invoke) -> str:
    if isinstance(invoke.content, Definition):
        return invoke.content.name or "a chart"
    found = invoke.source or invoke.content
    return invoke.id or "" if found is None else _value(found)


def _value(value: Value) -> str:
    if isinstance(value, Expression):
        return _short(value.text)
    return value.value if isinstance(value.value, str) else _data(value.value)


def _data(value: Any) -> str:
    return _short(json.dumps(value, ensure_ascii=False, default=str))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 3]}..."


def _action(action: Action) -> str:
    return _short(_LABELS[type(action)](action))


def _assign(action: Assign) -> str:
    value = action.value
    text = value.text if isinstance(value, Expression) else _data(value.value)
    return f"{action.location} = {text}"


def _send(action: Send) -> str:
    words = "send" if action.event is None else f"send {_value(action.event)}"
    if action.target is not None:
        words += f" to {_value(action.target)}"
    if action.delay is not None:
        unit = " ms" if _is_number(action.delay) else ""
        words += f" after {_value(action.delay)}{unit}"
    return words


def _log(action: Log) -> str:
    value = "" if action.value is None else _value(action.value)
    return " ".join(word for word in ("log", action.label, value) if word)


def _if(action: If) -> str:
    return " ".join(_arm(number, branch) for number, branch in enumerate(action.branches))


def _arm(number: int, branch: IfBranch) -> str:
    word = "if" if number == 0 else "else if"
    start = "else" if branch.guard is None else f"{word} {_guard(branch.guard)}"
    return f"{start}: {block_label(branch.actions)}"


def _for_each(action: ForEach) -> str:
    return f"for {action.item} in {_value(action.array)}: {block_label(action.actions)}"


_LABELS: dict[type[Action], Callable[[Any], str]] = {
    Assign: _assign,
    Script: lambda action: str(action.text),
    Raise: lambda action: f"raise {action.event}",
    Send: _send,
    Cancel: lambda action: f"cancel {_value(action.id)}",
    Log: _log,
    Emit: lambda action: f"emit {_value(action.event)}",
    If: _if,
    ForEach: _for_each,
    Call: _named,
}
