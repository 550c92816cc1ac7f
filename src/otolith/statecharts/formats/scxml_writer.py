"""A definition as SCXML.

What SCXML has no words for is written in a namespace of our own (`scxml_own`), which the reader
reads back, so that the chart read is the chart written.

Actions, guards and values as elements of SCXML, and of our own where it has none.
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
from otolith.statecharts.formats.extensions import payload_form, value_form
from otolith.statecharts.formats.scxml_extensions import PREFIX
from otolith.statecharts.formats.xml import OWN, SCXML, Tag, json_text


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

    def _set_arm(self, arm: Tag, branch: IfBranch, *, is_first: bool) -> None:
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


_NAME = re.compile(r"[^\W\d][\w.-]*")
_FOR_OTHERS = {f"{PREFIX}generated": "true"}


def to_scxml(definition: Definition) -> str:
    """Return the chart as an SCXML document.

    Raises:
        BadChart: it could not run, or a name or an expression has a character that XML cannot hold.
    """
    document = _Writer(definition).document()
    spaces = {"xmlns": SCXML}
    if any(_is_own(tag) for tag in document.walk()):
        spaces["xmlns:otolith"] = OWN
    document.attributes = {**spaces, **document.attributes}
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', *document.lines()]) + "\n"


def _is_own(tag: Tag) -> bool:
    return any(name.startswith(PREFIX) for name in (tag.name, *tag.attributes))


class _Writer:
    def __init__(self, definition: Definition) -> None:
        validate(definition)
        self._definition = definition
        self._words = Words(definition.dialect)
        self._waits = 0
        self._ids: dict[str, str] = {}
        for state in _walk(definition.root):
            self._ids[state.id] = self._free(state.id)

    def _free(self, id: str) -> str:
        """Return an id that XML can have and no other state has."""
        if _NAME.fullmatch(id):
            return id
        known = {state.id for state in _walk(self._definition.root)} | set(self._ids.values())
        found = re.sub(r"[^\w.-]+", "_", id).lstrip("0123456789.-") or "state"
        while found in known:
            found += "_"
        return found

    def document(self) -> Tag:
        definition, root = self._definition, self._definition.root
        tag = Tag("scxml", {"version": "1.0"})
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
            tag.children = [*scripts, *self._wrapped(root)]
        return tag

    def _set_rules(self, tag: Tag) -> None:
        definition = self._definition
        if definition.matching != "prefix":
            tag.attributes[f"{PREFIX}matching"] = definition.matching
        if not definition.is_scxml:
            tag.attributes[f"{PREFIX}rules"] = "xstate"
        if definition.version:
            tag.attributes[f"{PREFIX}version"] = definition.version
        if definition.description:
            tag.attributes[f"{PREFIX}description"] = definition.description

    def _scripts(self) -> list[Tag]:
        script = self._definition.script
        if all(isinstance(action, Script) for action in script):
            return self._words.block(script)
        return [Tag(f"{PREFIX}script", children=self._words.block(script))]

    def _is_plain_root(self) -> bool:
        """Whether the root does no more than `<scxml>` can."""
        root = self._definition.root
        does = root.transitions or root.entry or root.exit or root.invokes or root.output
        initial = root.initial
        is_simple = initial is not None and not initial.actions and not initial.is_internal
        ways = (way for state in _walk(root) for way in state.transitions)
        is_aimed_at = any(root.id in way.targets for way in ways)
        return root.kind == "compound" and is_simple and not does and not is_aimed_at

    def _wrapped(self, root: State) -> list[Tag]:
        """Return the root as a state in `<scxml>`, and for others the end that it leads to."""
        inner = self._state(root)
        inner.attributes[f"{PREFIX}root"] = "true"
        end = f"{self._ids[root.id]}.end"
        while end in self._ids.values():
            end += "_"
        done = {"event": f"done.state.{self._ids[root.id]}", "target": end, **_FOR_OTHERS}
        inner.children.append(Tag("transition", done))
        return [inner, Tag("final", {"id": end, **_FOR_OTHERS})]

    # ------------------------------------------------------------ states

    def _state(self, state: State) -> Tag:
        name = state.kind if state.kind in {"parallel", "final", "history"} else "state"
        id = self._ids[state.id]
        tag = Tag(name, {"id": id} if id == state.id else {"id": id, f"{PREFIX}id": state.id})
        if state.kind == "history":
            tag.attributes["type"] = "deep" if state.is_deep else "shallow"
        _set_remarks(tag, state)
        if state.description:
            tag.attributes[f"{PREFIX}description"] = state.description
        tag.children += self._data(state)
        tag.children += [Tag("onentry", children=self._words.block(block)) for block in state.entry]
        tag.children += [Tag("onexit", children=self._words.block(block)) for block in state.exit]
        self._add_initial(tag, state)
        for way in state.transitions:
            tag.children += self._way(way)
        tag.children += [self._invoke(invoke) for invoke in state.invokes]
        tag.children += [self._state(child) for child in state.children]
        if state.output is not None:
            word = "donedata" if state.kind == "final" else f"{PREFIX}output"
            tag.children.append(Tag(word, children=self._words.payload(state.output)))
        return tag

    def _data(self, state: State) -> list[Tag]:
        data = [
            self._words.fill(Tag("data", {"id": datum.name}), datum.value) for datum in state.data
        ]
        return [Tag("datamodel", children=data)] if data else []

    def _add_initial(self, tag: Tag, state: State) -> None:
        initial = state.initial
        if initial is None:
            return
        if state.kind == "history":
            tag.children.append(self._transition(initial))
        elif initial.actions or initial.is_internal:
            tag.children.append(Tag("initial", children=[self._transition(initial)]))
        else:
            tag.attributes["initial"] = self._targets(initial)

    # ------------------------------------------------------------ transitions

    def _way(self, way: Transition) -> list[Tag]:
        """Return a transition; for others, one after a delay has its event sent and cancelled."""
        tag = self._transition(way)
        if way.delay is None:
            return [tag]
        self._waits += 1
        name = f"otolith.after.{self._waits}"
        tag.attributes = {"event": name, **tag.attributes}
        tag.attributes[f"{PREFIX}delay"] = json_text(value_form(way.delay), "delay")
        send = self._words.block((Send(Literal(name), id=name, delay=way.delay),))
        cancel = [Tag("cancel", {"sendid": name})]
        return [
            Tag("onentry", dict(_FOR_OTHERS), send),
            Tag("onexit", dict(_FOR_OTHERS), cancel),
            tag,
        ]

    def _transition(self, way: Transition) -> Tag:
        tag = Tag("transition")
        if way.events:
            words = [re.sub(r"\s+", "_", event) or "_" for event in way.events]
            tag.attributes["event"] = " ".join(words)
            if tuple(map(_descriptor, words)) != way.events:
                tag.attributes[f"{PREFIX}events"] = json_text(way.events, "events")
        self._words.set_guard(tag, way.guard)
        if way.targets:
            tag.attributes["target"] = self._targets(way)
        if way.is_internal:
            tag.attributes["type"] = "internal"
        if way.description:
            tag.attributes[f"{PREFIX}description"] = way.description
        if way.meta is not None:
            tag.attributes[f"{PREFIX}meta"] = json_text(way.meta, "meta")
        tag.children = self._words.block(way.actions)
        return tag

    def _targets(self, way: Transition) -> str:
        return " ".join(self._ids[target] for target in way.targets)

    # ------------------------------------------------------------ children

    def _invoke(self, invoke: Invoke) -> Tag:
        tag = Tag("invoke")
        if invoke.id is not None:
            tag.attributes["id"] = invoke.id
        if invoke.id_location is not None:
            tag.attributes["idlocation"] = invoke.id_location
        self._words.set(tag, "typeexpr", invoke.type, "type")
        self._words.set(tag, "srcexpr", invoke.source, "src")
        if invoke.is_forwarding:
            tag.attributes["autoforward"] = "true"
        tag.children = self._words.payload(Payload(invoke.payload.params))
        if invoke.payload.content is not None:
            given = self._words.fill(Tag(f"{PREFIX}input"), invoke.payload.content)
            tag.children.append(given)
        if isinstance(invoke.content, Definition):
            tag.children.append(Tag("content", children=[_Writer(invoke.content).document()]))
        elif isinstance(invoke.content, Expression | Literal):
            tag.children.append(self._words.fill(Tag("content"), invoke.content))
        if invoke.finalize is not None:
            tag.children.append(Tag("finalize", children=self._words.block(invoke.finalize)))
        return tag


def _set_remarks(tag: Tag, state: State) -> None:
    if state.tags:
        tag.attributes[f"{PREFIX}tags"] = json_text(state.tags, "tags")
    if state.meta is not None:
        tag.attributes[f"{PREFIX}meta"] = json_text(state.meta, "meta")


def _descriptor(word: str) -> str:
    return word if word == "*" else word.removesuffix(".*").removesuffix(".")


def _walk(state: State) -> Iterator[State]:
    yield state
    for child in state.children:
        yield from _walk(child)
