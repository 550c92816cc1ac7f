"""Writes a `Definition` as SCXML: `_Writer` the states, `ContentWriter` executable content.

What SCXML cannot express is written in a namespace of ours (`scxml_extensions`), so that the chart
reads back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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
    Payload,
    Raise,
    Script,
    Send,
    State,
    Transition,
    Value,
    validate,
)
from otolith.statecharts.formats.scxml_extensions import PREFIX
from otolith.statecharts.formats.scxml_reader import event_descriptor
from otolith.statecharts.formats.xml import EXTENSION, SCXML, XmlTag, json_text
from otolith.statecharts.formats.xstate_actions import payload_to_json, value_to_json


class ContentWriter:
    """Writes the executable content of one document, whose expressions have one dialect."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self._writers: dict[type[Action], Callable[[Any], XmlTag]] = {
            Assign: self._assign,
            Script: lambda action: XmlTag("script", text=action.text),
            Raise: self._raise,
            Send: self._send,
            Cancel: self._cancel,
            Log: self._log,
            Emit: self._emit,
            If: self._if,
            ForEach: self._for_each,
            Call: self._call,
        }

    def block(self, block: Block) -> list[XmlTag]:
        """Return the elements of some actions."""
        return [self._writers[type(action)](action) for action in block]

    def set(self, tag: XmlTag, name: str, value: Value | None, plain: str | None = None) -> None:
        """Set an attribute to a value; `plain` names its twin for texts, if there is one."""
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

    def fill(self, tag: XmlTag, value: Value | None) -> XmlTag:
        """Put a value into an element: an expression as `expr`, other values as JSON inside."""
        if isinstance(value, Literal):
            tag.text = json_text(value.value, f"<{tag.name}>")
        else:
            self.set(tag, "expr", value)
        return tag

    def set_guard(self, tag: XmlTag, guard: Guard | None) -> None:
        """Set the condition of a transition or branch; others see a named guard as false."""
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
            pairs = payload_to_json(Payload(guard.params))["params"]
            tag.attributes[f"{PREFIX}guard-params"] = json_text(pairs, f"guard {guard.name}")

    def payload(self, payload: Payload) -> list[XmlTag]:
        """Return `<param>` and `<content>` elements."""
        found = []
        for param in payload.params:
            tag = XmlTag("param", {"name": param.name})
            self.set(tag, "expr", param.value)
            found.append(tag)
        if payload.content is not None:
            found.append(self.fill(XmlTag("content"), payload.content))
        return found

    def _assign(self, action: Assign) -> XmlTag:
        return self.fill(XmlTag("assign", {"location": action.location}), action.value)

    def _raise(self, action: Raise) -> XmlTag:
        """Return `<raise>`; with data it is a `<send>` to the internal queue."""
        if action.payload == Payload():
            return XmlTag("raise", {"event": action.event})
        attributes = {"event": action.event, "target": "#_internal", f"{PREFIX}raise": "true"}
        return XmlTag("send", attributes, self.payload(action.payload))

    def _send(self, action: Send) -> XmlTag:
        tag = XmlTag("send")
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

    def _cancel(self, action: Cancel) -> XmlTag:
        tag = XmlTag("cancel")
        self.set(tag, "sendidexpr", action.id, "sendid")
        return tag

    def _log(self, action: Log) -> XmlTag:
        tag = XmlTag("log", {"label": action.label} if action.label else {})
        self.set(tag, "expr", action.value)
        return tag

    def _emit(self, action: Emit) -> XmlTag:
        tag = XmlTag(f"{PREFIX}emit", children=self.payload(action.payload))
        self.set(tag, "eventexpr", action.event, "event")
        return tag

    def _call(self, action: Call) -> XmlTag:
        attributes = {"name": action.name}
        return XmlTag(f"{PREFIX}call", attributes, self.payload(Payload(action.params)))

    def _if(self, action: If) -> XmlTag:
        tag = XmlTag("if")
        for number, branch in enumerate(action.branches):
            arm = tag if number == 0 else XmlTag("else" if branch.guard is None else "elseif")
            self._set_arm(arm, branch, is_first=number == 0)
            tag.children += [*([] if number == 0 else [arm]), *self.block(branch.actions)]
        return tag

    def _set_arm(self, arm: XmlTag, branch: IfBranch, *, is_first: bool) -> None:
        self.set_guard(arm, branch.guard)
        if is_first and branch.guard is None:
            arm.attributes["cond"] = "true"
            mark(arm, "cond", "none")

    def _for_each(self, action: ForEach) -> XmlTag:
        tag = XmlTag("foreach")
        self.set(tag, "array", action.array)
        tag.attributes["item"] = action.item
        if action.index is not None:
            tag.attributes["index"] = action.index
        tag.children = self.block(action.actions)
        return tag


def mark(tag: XmlTag, name: str, how: str) -> None:
    """Add how an attribute is read to `otolith:as`."""
    there = tag.attributes.get(f"{PREFIX}as")
    word = f"{name}:{how}"
    tag.attributes[f"{PREFIX}as"] = word if there is None else f"{there} {word}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


_NAME = re.compile(r"[^\W\d][\w.-]*")
_GENERATED = {f"{PREFIX}generated": "true"}


def to_scxml(definition: Definition) -> str:
    """Return the chart as an SCXML document.

    Raises:
        BadChart: the chart is not valid, or a text has a character that XML cannot contain.
    """
    document = _Writer(definition).document()
    spaces = {"xmlns": SCXML}
    if any(_is_own(tag) for tag in document.walk()):
        spaces["xmlns:otolith"] = EXTENSION
    document.attributes = {**spaces, **document.attributes}
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', *document.lines()]) + "\n"


def _is_own(tag: XmlTag) -> bool:
    return any(name.startswith(PREFIX) for name in (tag.name, *tag.attributes))


class _Writer:
    def __init__(self, definition: Definition) -> None:
        validate(definition)
        self._definition = definition
        self._content = ContentWriter(definition.dialect)
        self._waits = 0
        self._ids: dict[str, str] = {}
        for state in _walk(definition.root):
            self._ids[state.id] = self._unused_id(state.id)

    def _unused_id(self, id: str) -> str:
        """Return an id that is valid in XML and that no other state has."""
        if _NAME.fullmatch(id):
            return id
        known = {state.id for state in _walk(self._definition.root)} | set(self._ids.values())
        found = re.sub(r"[^\w.-]+", "_", id).lstrip("0123456789.-") or "state"
        while found in known:
            found += "_"
        return found

    def document(self) -> XmlTag:
        definition, root = self._definition, self._definition.root
        tag = XmlTag("scxml", {"version": "1.0"})
        if definition.name:
            tag.attributes["name"] = definition.name
        tag.attributes["datamodel"] = definition.dialect
        if definition.binding == "late":
            tag.attributes["binding"] = "late"
        self._set_rules(tag)
        scripts = self._scripts()
        if self._is_plain_root():
            if root.id != f"#{definition.name or 'scxml'}":
                tag.attributes[f"{PREFIX}id"] = root.id
            if root.initial is not None:
                tag.attributes["initial"] = self._targets(root.initial)
            _set_remarks(tag, root)
            tag.children = [*self._data(root), *scripts, *map(self._state, root.children)]
        else:
            tag.attributes["initial"] = self._ids[root.id]
            tag.children = [*scripts, *self._root_as_state(root)]
        return tag

    def _set_rules(self, tag: XmlTag) -> None:
        definition = self._definition
        if definition.matching != "prefix":
            tag.attributes[f"{PREFIX}matching"] = definition.matching
        if not definition.is_scxml:
            tag.attributes[f"{PREFIX}rules"] = "xstate"
        if definition.version:
            tag.attributes[f"{PREFIX}version"] = definition.version
        if definition.description:
            tag.attributes[f"{PREFIX}description"] = definition.description

    def _scripts(self) -> list[XmlTag]:
        script = self._definition.script
        if all(isinstance(action, Script) for action in script):
            return self._content.block(script)
        return [XmlTag(f"{PREFIX}script", children=self._content.block(script))]

    def _is_plain_root(self) -> bool:
        """Return whether `<scxml>` itself can express the root."""
        root = self._definition.root
        does = root.transitions or root.entry or root.exit or root.invokes or root.output
        initial = root.initial
        is_simple = initial is not None and not initial.actions and not initial.is_internal
        transitions = (transition for state in _walk(root) for transition in state.transitions)
        is_aimed_at = any(root.id in transition.targets for transition in transitions)
        return root.kind == "compound" and is_simple and not does and not is_aimed_at

    def _root_as_state(self, root: State) -> list[XmlTag]:
        """Return the root as a state in `<scxml>`, and a final state for other processors."""
        inner = self._state(root)
        inner.attributes[f"{PREFIX}root"] = "true"
        end = f"{self._ids[root.id]}.end"
        while end in self._ids.values():
            end += "_"
        done = {"event": f"done.state.{self._ids[root.id]}", "target": end, **_GENERATED}
        inner.children.append(XmlTag("transition", done))
        return [inner, XmlTag("final", {"id": end, **_GENERATED})]

    def _state(self, state: State) -> XmlTag:
        name = state.kind if state.kind in {"parallel", "final", "history"} else "state"
        id = self._ids[state.id]
        tag = XmlTag(name, {"id": id} if id == state.id else {"id": id, f"{PREFIX}id": state.id})
        if state.kind == "history":
            tag.attributes["type"] = "deep" if state.is_deep else "shallow"
        _set_remarks(tag, state)
        if state.description:
            tag.attributes[f"{PREFIX}description"] = state.description
        tag.children += self._data(state)
        for word, blocks in (("onentry", state.entry), ("onexit", state.exit)):
            tag.children += [XmlTag(word, children=self._content.block(each)) for each in blocks]
        self._add_initial(tag, state)
        for transition in state.transitions:
            tag.children += self._transition_tags(transition)
        tag.children += [self._invoke(invoke) for invoke in state.invokes]
        tag.children += [self._state(child) for child in state.children]
        if state.output is not None:
            word = "donedata" if state.kind == "final" else f"{PREFIX}output"
            tag.children.append(XmlTag(word, children=self._content.payload(state.output)))
        return tag

    def _data(self, state: State) -> list[XmlTag]:
        data = [
            self._content.fill(XmlTag("data", {"id": datum.name}), datum.value)
            for datum in state.data
        ]
        return [XmlTag("datamodel", children=data)] if data else []

    def _add_initial(self, tag: XmlTag, state: State) -> None:
        initial = state.initial
        if initial is None:
            return
        if state.kind == "history":
            tag.children.append(self._transition(initial))
        elif initial.actions or initial.is_internal:
            tag.children.append(XmlTag("initial", children=[self._transition(initial)]))
        else:
            tag.attributes["initial"] = self._targets(initial)

    def _transition_tags(self, transition: Transition) -> list[XmlTag]:
        """Return a transition; a delayed one with a send and a cancel for other processors."""
        tag = self._transition(transition)
        if transition.delay is None:
            return [tag]
        self._waits += 1
        name = f"otolith.after.{self._waits}"
        tag.attributes = {"event": name, **tag.attributes}
        tag.attributes[f"{PREFIX}delay"] = json_text(value_to_json(transition.delay), "delay")
        send = self._content.block((Send(Literal(name), id=name, delay=transition.delay),))
        cancel = [XmlTag("cancel", {"sendid": name})]
        return [
            XmlTag("onentry", dict(_GENERATED), send),
            XmlTag("onexit", dict(_GENERATED), cancel),
            tag,
        ]

    def _transition(self, transition: Transition) -> XmlTag:
        tag = XmlTag("transition")
        if transition.events:
            words = [re.sub(r"\s+", "_", event) or "_" for event in transition.events]
            tag.attributes["event"] = " ".join(words)
            if tuple(map(event_descriptor, words)) != transition.events:
                tag.attributes[f"{PREFIX}events"] = json_text(transition.events, "events")
        self._content.set_guard(tag, transition.guard)
        if transition.targets:
            tag.attributes["target"] = self._targets(transition)
        if transition.is_internal:
            tag.attributes["type"] = "internal"
        if transition.description:
            tag.attributes[f"{PREFIX}description"] = transition.description
        if transition.meta is not None:
            tag.attributes[f"{PREFIX}meta"] = json_text(transition.meta, "meta")
        tag.children = self._content.block(transition.actions)
        return tag

    def _targets(self, transition: Transition) -> str:
        return " ".join(self._ids[target] for target in transition.targets)

    def _invoke(self, invoke: Invoke) -> XmlTag:
        tag = XmlTag("invoke")
        if invoke.id is not None:
            tag.attributes["id"] = invoke.id
        if invoke.id_location is not None:
            tag.attributes["idlocation"] = invoke.id_location
        self._content.set(tag, "typeexpr", invoke.type, "type")
        self._content.set(tag, "srcexpr", invoke.source, "src")
        if invoke.is_forwarding:
            tag.attributes["autoforward"] = "true"
        tag.children = self._content.payload(Payload(invoke.payload.params))
        if invoke.payload.content is not None:
            given = self._content.fill(XmlTag(f"{PREFIX}input"), invoke.payload.content)
            tag.children.append(given)
        if isinstance(invoke.content, Definition):
            tag.children.append(XmlTag("content", children=[_Writer(invoke.content).document()]))
        elif isinstance(invoke.content, Expression | Literal):
            tag.children.append(self._content.fill(XmlTag("content"), invoke.content))
        if invoke.finalize is not None:
            tag.children.append(XmlTag("finalize", children=self._content.block(invoke.finalize)))
        return tag


def _set_remarks(tag: XmlTag, state: State) -> None:
    if state.tags:
        tag.attributes[f"{PREFIX}tags"] = json_text(state.tags, "tags")
    if state.meta is not None:
        tag.attributes[f"{PREFIX}meta"] = json_text(state.meta, "meta")


def _walk(state: State) -> Iterator[State]:
    yield state
    for child in state.children:
        yield from _walk(child)
