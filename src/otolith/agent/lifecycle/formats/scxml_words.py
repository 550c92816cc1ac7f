"""Actions, guards and values as elements of SCXML, and of our own where it has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    Payload,
    Raise,
    Script,
    Send,
    Value,
)
from otolith.agent.lifecycle.formats.own_forms import payload_form
from otolith.agent.lifecycle.formats.scxml_own import PREFIX
from otolith.agent.lifecycle.formats.xml_writing import Tag, json_text


class Words:
    """Writes the actions of one document, whose expressions are of a dialect unless marked."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self._writers: dict[type[Action], Callable[[Any], Tag]] = {
            Assign: self._assign,
            Script: lambda action: Tag("script", text=action.text),
            Raise: self._raise,
            Send: self._send,
            Cancel: self._cancel,
            Log: self._log,
            Emit: self._emit,
            If: self._if,
            ForEach: self._for_each,
            Call: self._call,
        }

    def block(self, block: Block) -> list[Tag]:
        return [self._writers[type(action)](action) for action in block]

    # ------------------------------------------------------------ values

    def set(self, tag: Tag, name: str, value: Value | None, plain: str | None = None) -> None:
        """Set an attribute to a value; `plain` is its twin that is a text, if it has one."""
        if value is None:
            return
        if isinstance(value, Expression):
            tag.attributes[name] = value.text
            if value.dialect != self.dialect:
                mark(tag, name, value.dialect)
        elif plain is not None and isinstance(value.value, str):
            tag.attributes[plain] = value.value
        elif plain == "delay" and _is_number(value.value):
            tag.attributes[plain] = f"{json_text(value.value, plain)}ms"
            mark(tag, plain, "ms")
        else:
            tag.attributes[name] = json_text(value.value, f"<{tag.name} {name}>")
            mark(tag, name, "json")

    def fill(self, tag: Tag, value: Value | None) -> Tag:
        """Put a value into an element: an expression as its `expr`, else JSON inside."""
        if isinstance(value, Literal):
            tag.text = json_text(value.value, f"<{tag.name}>")
        else:
            self.set(tag, "expr", value)
        return tag

    def set_guard(self, tag: Tag, guard: Guard | None) -> None:
        """Set the condition of a transition or branch; what nobody else can call never holds."""
        if guard is None:
            return
        if isinstance(guard, Expression):
            self.set(tag, "cond", guard)
            if not guard.text.strip():
                mark(tag, "cond", guard.dialect)
            return
        tag.attributes["cond"] = "false"
        tag.attributes[f"{PREFIX}guard"] = guard.name
        if guard.params:
            pairs = payload_form(Payload(guard.params))["params"]
            tag.attributes[f"{PREFIX}guard-params"] = json_text(pairs, f"guard {guard.name}")

    def payload(self, payload: Payload) -> list[Tag]:
        found = []
        for param in payload.params:
            tag = Tag("param", {"name": param.name})
            self.set(tag, "expr", param.value)
            found.append(tag)
        if payload.content is not None:
            found.append(self.fill(Tag("content"), payload.content))
        return found

    # ------------------------------------------------------------ actions

    def _assign(self, action: Assign) -> Tag:
        return self.fill(Tag("assign", {"location": action.location}), action.value)

    def _raise(self, action: Raise) -> Tag:
        """Return `<raise>`; with data it is a `<send>` to the internal queue."""
        if action.payload == Payload():
            return Tag("raise", {"event": action.event})
        attributes = {"event": action.event, "target": "#_internal", f"{PREFIX}raise": "true"}
        return Tag("send", attributes, self.payload(action.payload))

    def _send(self, action: Send) -> Tag:
        tag = Tag("send")
        self.set(tag, "eventexpr", action.event, "event")
        self.set(tag, "targetexpr", action.target, "target")
        self.set(tag, "typeexpr", action.type, "type")
        if action.id is not None:
            tag.attributes["id"] = action.id
        if action.id_location is not None:
            tag.attributes["idlocation"] = action.id_location
        self.set(tag, "delayexpr", action.delay, "delay")
        tag.children = self.payload(action.payload)
        return tag

    def _cancel(self, action: Cancel) -> Tag:
        tag = Tag("cancel")
        self.set(tag, "sendidexpr", action.id, "sendid")
        return tag

    def _log(self, action: Log) -> Tag:
        tag = Tag("log", {"label": action.label} if action.label else {})
        self.set(tag, "expr", action.value)
        return tag

    def _emit(self, action: Emit) -> Tag:
        tag = Tag(f"{PREFIX}emit", children=self.payload(action.payload))
        self.set(tag, "eventexpr", action.event, "event")
        return tag

    def _call(self, action: Call) -> Tag:
        attributes = {"name": action.name}
        return Tag(f"{PREFIX}call", attributes, self.payload(Payload(action.params)))

    def _if(self, action: If) -> Tag:
        tag = Tag("if")
        for number, branch in enumerate(action.branches):
            arm = tag if number == 0 else Tag("else" if branch.guard is None else "elseif")
            self._set_arm(arm, branch, is_first=number == 0)
            tag.children += [*([] if number == 0 else [arm]), *self.block(branch.actions)]
        return tag

    def _set_arm(self, arm: Tag, branch: Branch, *, is_first: bool) -> None:
        self.set_guard(arm, branch.guard)
        if is_first and branch.guard is None:
            arm.attributes["cond"] = "true"
            mark(arm, "cond", "none")

    def _for_each(self, action: ForEach) -> Tag:
        tag = Tag("foreach")
        self.set(tag, "array", action.array)
        tag.attributes["item"] = action.item
        if action.index is not None:
            tag.attributes["index"] = action.index
        tag.children = self.block(action.actions)
        return tag


def mark(tag: Tag, name: str, how: str) -> None:
    """Say how an attribute is to be read."""
    there = tag.attributes.get(f"{PREFIX}as")
    word = f"{name}:{how}"
    tag.attributes[f"{PREFIX}as"] = word if there is None else f"{there} {word}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
