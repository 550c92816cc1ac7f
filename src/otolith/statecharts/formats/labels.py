"""Labels for the parts of a chart, and what else its drawings share.

A transition is `event [guard] / action, action`. Entry, exit, invokes and internal transitions of a
state are a line each. Actions are shown in words, and without their data:

    total = total + 1           an assignment; a script is its text
    raise paid                  send paid to #_shop after 5s
    emit paid                   cancel reminder
    log label total             notify(user="ann")
    if total > 3: raise paid else: emit late
    for item in items: total = total + item

Every label is one line of at most `MAX_LENGTH` letters, so that a chart with long expressions can
still be drawn; the documents have the whole text. Escaping is left to each drawing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
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


def indent(lines: Iterable[str]) -> list[str]:
    """Return lines with one level of indentation."""
    return [f"    {line}" for line in lines]


def state_name(state: State, parent: State | None) -> str:
    """Return a state's id without the id of its parent as prefix."""
    if parent is None:
        return state.id
    return state.id.removeprefix(f"{parent.id}.") or state.id


def drawn_transitions(state: State) -> tuple[Transition, ...]:
    """Return the transitions of a state; a history state has its default as the only one."""
    if state.kind == "history" and state.initial is not None:
        return (state.initial,)
    return state.transitions


def state_lines(state: State) -> list[str]:
    """Return the lines inside a state: entry, exit, invokes, transitions without target."""
    lines = [f"entry / {_block(block)}" for block in state.entry if block]
    lines += [f"exit / {_block(block)}" for block in state.exit if block]
    lines += [f"invoke {_invoke(invoke)}" for invoke in state.invokes]
    inner = (each for each in state.transitions if not each.targets)
    lines += [transition_label(each) or "always" for each in inner]
    return lines


def transition_label(transition: Transition) -> str:
    """Return `event [guard] / actions`; absent parts are left out."""
    delay = transition.delay
    parts = [", ".join(transition.events) if delay is None else _after(delay)]
    if transition.guard is not None:
        parts.append(f"[{_guard(transition.guard)}]")
    if transition.actions:
        parts.append(f"/ {_block(transition.actions)}")
    return " ".join(part for part in parts if part)


def _after(delay: Value) -> str:
    is_number = isinstance(delay, Literal) and isinstance(delay.value, int | float)
    return f"after {_value(delay)}{' ms' if is_number else ''}"


def _guard(guard: Guard) -> str:
    return _short(guard.text if isinstance(guard, Expression) else _call(guard))


def _call(named: NamedGuard | Call) -> str:
    given = ", ".join(f"{param.name}={_value(param.value)}" for param in named.params)
    return f"{named.name}({given})" if given else named.name


def _invoke(invoke: Invoke) -> str:
    """Return what is invoked: the name of a chart, a source, or at least the id."""
    if isinstance(invoke.content, Definition):
        return invoke.content.name or "a chart"
    found = invoke.source or invoke.content
    return invoke.id or "" if found is None else _value(found)


def _value(value: Value) -> str:
    """Return an expression or a text as it is, other data as JSON."""
    if isinstance(value, Expression):
        return _short(value.text)
    return value.value if isinstance(value.value, str) else _data(value.value)


def _data(value: Any) -> str:
    return _short(json.dumps(value, ensure_ascii=False, default=str))


def _short(text: str) -> str:
    """Return a text on one line, cut off where it is too long."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 3]}..."


def _block(block: Block) -> str:
    return _short(", ".join(_short(_action(action)) for action in block))


def _action(action: Action) -> str:
    """Return an action in words; `_short` removes blanks that absent parts leave."""
    match action:
        case Assign():
            value = action.value
            text = value.text if isinstance(value, Expression) else _data(value.value)
            return f"{action.location} = {text}"
        case Script():
            return action.text
        case Raise() | Send() | Cancel() | Emit():
            return _event_action(action)
        case Log():
            return f"log {action.label} {'' if action.value is None else _value(action.value)}"
        case If():
            return _if(action)
        case ForEach():
            return f"for {action.item} in {_value(action.array)}: {_block(action.actions)}"
        case Call():
            return _call(action)


def _event_action(action: Raise | Send | Cancel | Emit) -> str:
    match action:
        case Raise():
            return f"raise {action.event}"
        case Cancel():
            return f"cancel {_value(action.id)}"
        case Emit():
            return f"emit {_value(action.event)}"
    event = "" if action.event is None else _value(action.event)
    target = "" if action.target is None else f"to {_value(action.target)}"
    return f"send {event} {target} {'' if action.delay is None else _after(action.delay)}"


def _if(action: If) -> str:
    found = []
    for number, branch in enumerate(action.branches):
        start = "else if" if number else "if"
        start = "else" if branch.guard is None else f"{start} {_guard(branch.guard)}"
        found.append(f"{start}: {_block(branch.actions)}")
    return " ".join(found)
