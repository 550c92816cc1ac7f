"""Executable content of SCXML, read and written: actions, guards, values and payloads.

A value of ours is in SCXML one of two attributes (`event` is a text, `eventexpr` an expression),
one attribute that is always an expression (`cond`, `expr`, `array`), or the content of an element.
A literal that fits none of them is JSON in the attribute for expressions, and marked so.

What the standard cannot express is in an XML namespace of ours. Other processors ignore it and read
the nearest chart that SCXML can express: a delayed transition is an event that is sent on entry and
cancelled on exit, a guard that is a Python function is false, a root with transitions or actions is
a state inside `<scxml>`.

On any element:

- `otolith:as="expr:json delay:ms cond:python"`: how to read attributes: a value as JSON, a number
  of milliseconds, an expression of another dialect, or (`none`) not at all.
- `otolith:generated="true"`: written for other processors only; the chart does not have it.

On states: `otolith:id` (an id that XML cannot have), `otolith:root`, `otolith:tags`,
`otolith:meta`, `otolith:description`, `<otolith:output>`. On transitions: `otolith:guard`,
`otolith:guard-params`, `otolith:delay`, `otolith:events`, `otolith:meta`, `otolith:description`. On
`<scxml>`: `otolith:id`, `otolith:matching`, `otolith:rules`, `otolith:version`, `<otolith:script>`.
In `<invoke>`: `<otolith:input>`. Actions: `<otolith:call>`, `<otolith:emit>`, and
`<send otolith:raise="true">`, which is a `<raise>` with data.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

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
from otolith.statecharts.formats.xml import EXTENSION, Element, XmlTag, json_text
from otolith.statecharts.formats.xstate_actions import params_from_json, params_to_json

_EXPRESSION_STARTS = tuple("[{'\"-")


class ActionReader:
    """Reads the executable content of one document; `resolve` returns the text of a `src`."""

    def __init__(self, dialect: str, resolve: Callable[[str], str | None]) -> None:
        self.dialect = dialect
        self.resolve = resolve

    # ------------------------------------------------------------ actions

    def block(self, parent: Element) -> Block:
        """Return the actions inside an element."""
        return tuple(self._action(child) for child in parent.children)

    def _action(self, element: Element) -> Action:
        if not element.is_scxml:
            return self._foreign(element)
        match element.tag:
            case "raise":
                return Raise(element.required("event"))
            case "send":
                return self._send(element)
            case "cancel":
                return Cancel(self.value(element, "sendid") or element.lacks("sendid"))
            case "log":
                return Log(element.get("label") or "", self.expression(element, "expr"))
            case "assign":
                value = self.expression(element, "expr") or self.inline(element)
                return Assign(element.required("location"), value or Literal(None))
            case "if":
                return self._if(element)
            case "foreach":
                return ForEach(
                    array=self.expression(element, "array") or element.lacks("array"),
                    item=element.required("item"),
                    index=element.get("index"),
                    actions=self.block(element),
                )
            case "script":
                return self.script(element)
        raise BadChart(f"<{element.tag}> is not an action", place=element.place)

    def _send(self, element: Element) -> Send | Raise:
        if element.get("otolith:raise") == "true":
            return Raise(element.required("event"), self.payload(element))
        return Send(
            event=self.value(element, "event"),
            target=self.value(element, "target"),
            type=self.value(element, "type"),
            id=element.get("id"),
            id_location=element.get("idlocation"),
            delay=self.value(element, "delay"),
            payload=self.payload(element),
        )

    def _foreign(self, element: Element) -> Action:
        """Return an action of our namespace; an element of another is a call of that name."""
        if element.namespace != EXTENSION:
            given = element.attributes.items()
            return Call(element.tag, tuple(Param(name, Literal(value)) for name, value in given))
        if element.tag == "call":
            return Call(element.required("name"), self.payload(element).params)
        event = self.value(element, "event")
        if element.tag != "emit" or event is None:
            raise BadChart(f"<otolith:{element.tag}> is not an action", place=element.place)
        return Emit(event, self.payload(element))

    def _if(self, element: Element) -> If:
        """Return the branches of `<if>`, which `<elseif>` and `<else>` divide."""
        element.required("cond")
        branches: list[tuple[Guard | None, list[Action]]] = [(self.guard(element), [])]
        for child in element.children:
            if child.is_scxml and child.tag == "elseif":
                child.required("cond")
                branches.append((self.guard(child), []))
            elif child.is_scxml and child.tag == "else":
                branches.append((None, []))
            else:
                branches[-1][1].append(self._action(child))
        return If(tuple(IfBranch(guard, tuple(actions)) for guard, actions in branches))

    def script(self, element: Element) -> Script:
        """Return a script, from its text or its file."""
        source = element.get("src")
        return Script(element.text if source is None else self.fetch(element, source))

    def fetch(self, element: Element, source: str) -> str:
        """Return the text of a `src`.

        Raises:
            BadChart: it cannot be found.
        """
        found = self.resolve(source)
        if found is None:
            raise BadChart(
                f"{source} cannot be found",
                place=element.place,
                hint="load the chart from its file, so that files beside it can be read",
            )
        return found

    # ------------------------------------------------------------ values and guards

    def expression(self, element: Element, name: str) -> Value | None:
        """Return the value of an attribute that is an expression, unless it is marked as JSON."""
        text, mark = element.get(name), _mark_of(element, name)
        if text is None:
            return None
        return Literal(element.json(name)) if mark == "json" else self._dialect(text, mark)

    def _dialect(self, text: str, mark: str | None = None) -> Expression:
        return Expression(text, mark or self.dialect)

    def value(self, element: Element, name: str) -> Value | None:
        """Return the value of an attribute that is a text, or of its twin, an expression.

        Raises:
            BadChart: the element has both.
        """
        text, value = element.get(name), self.expression(element, f"{name}expr")
        if text is None:
            return value
        if value is not None:
            why = f"it has both {name} and {name}expr; only one is allowed"
            raise BadChart(why, place=element.place)
        is_number = _mark_of(element, name) == "ms"
        return Literal(element.json(name, unit="ms") if is_number else text)

    def guard(self, element: Element) -> Guard | None:
        """Return the guard of a transition or of a branch."""
        name = element.get("otolith:guard")
        if name is not None:
            pairs = element.json("otolith:guard-params")
            return NamedGuard(name, () if pairs is None else params_from_json(pairs, element.place))
        text, mark = element.get("cond"), _mark_of(element, "cond")
        if text is None or mark == "none" or (mark is None and not text.strip()):
            return None
        return self._dialect(text, mark)

    def payload(self, element: Element) -> Payload:
        """Return the data of `namelist`, `<param>` and `<content>`."""
        names = (element.get("namelist") or "").split()
        params = [Param(name, self._dialect(name)) for name in names]
        for child in element.all("param"):
            value = self.expression(child, "expr") or self._dialect(child.required("location"))
            params.append(Param(child.required("name"), value))
        content = element.first("content")
        return Payload(tuple(params), None if content is None else self.content(content))

    def content(self, element: Element) -> Value:
        """Return the value of `expr`, or of the text inside."""
        return self.expression(element, "expr") or self.inline(element) or Literal(None)

    def inline(self, element: Element) -> Value | None:
        """Return the content of an element: markup as text, JSON, an expression, or words."""
        return Literal(element.inner.strip()) if element.children else self.parse(element.text)

    def parse(self, text: str) -> Value | None:
        """Return the value of a text: JSON, an expression, or words; None if it is blank."""
        text = text.strip()
        if not text:
            return None
        try:
            return Literal(json.loads(text, parse_constant=_refuse_constant))
        except (ValueError, RecursionError):
            is_expression = text.startswith(_EXPRESSION_STARTS)
            return self._dialect(text) if is_expression else Literal(" ".join(text.split()))


def _refuse_constant(name: str) -> NoReturn:
    """Refuse `NaN` and `Infinity`, which Python takes for JSON: here they are words."""
    raise ValueError(name)


def _mark_of(element: Element, name: str) -> str | None:
    """Return how an attribute is to be read, from `otolith:as`."""
    for word in (element.get("otolith:as") or "").split():
        attribute, _, mark = word.partition(":")
        if attribute == name:
            return mark
    return None


class ActionWriter:
    """Writes the executable content of one document, whose expressions have one dialect."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    # ------------------------------------------------------------ actions

    def block(self, block: Block) -> list[XmlTag]:
        """Return the elements of some actions."""
        return [self._action(action) for action in block]

    def _action(self, action: Action) -> XmlTag:
        match action:
            case Raise() | Send() | Cancel() | Emit():
                return self._event_action(action)
            case Assign():
                return self.fill(XmlTag("assign", {"location": action.location}), action.value)
            case Script():
                return XmlTag("script", text=action.text)
            case Log():
                tag = XmlTag("log", {"label": action.label} if action.label else {})
                self._set_expression(tag, "expr", action.value)
                return tag
            case Call():
                params = self.payload(Payload(action.params))
                return XmlTag("otolith:call", {"name": action.name}, params)
            case If():
                return self._if(action)
            case ForEach():
                tag = XmlTag("foreach", children=self.block(action.actions))
                self._set_expression(tag, "array", action.array)
                tag.put("item", action.item)
                tag.put("index", action.index)
                return tag

    def _event_action(self, action: Raise | Send | Cancel | Emit) -> XmlTag:
        if isinstance(action, Cancel):
            tag = XmlTag("cancel")
            self.set(tag, "sendid", action.id)
            return tag
        name = "otolith:emit" if isinstance(action, Emit) else "send"
        tag = XmlTag(name, children=self.payload(action.payload))
        if isinstance(action, Raise):
            if not tag.children:
                return XmlTag("raise", {"event": action.event})
            tag.attributes = {"event": action.event, "target": "#_internal"}
            tag.put("otolith:raise", "true")
            return tag
        self.set(tag, "event", action.event)
        if isinstance(action, Send):
            self.set(tag, "target", action.target)
            self.set(tag, "type", action.type)
            tag.put("id", action.id)
            tag.put("idlocation", action.id_location)
            self.set(tag, "delay", action.delay)
        return tag

    def _if(self, action: If) -> XmlTag:
        tag = XmlTag("if")
        for number, branch in enumerate(action.branches):
            if number:
                start = XmlTag("else" if branch.guard is None else "elseif")
                self.set_guard(start, branch.guard)
                tag.children.append(start)
            elif branch.guard is None:
                tag.put("cond", "true")
                _mark(tag, "cond", "none")
            else:
                self.set_guard(tag, branch.guard)
            tag.children += self.block(branch.actions)
        return tag

    # ------------------------------------------------------------ values and guards

    def set(self, tag: XmlTag, name: str, value: Value | None) -> None:
        """Set an attribute to a text, or its twin to an expression."""
        literal: Any = value.value if isinstance(value, Literal) else None
        is_number = isinstance(literal, int | float) and not isinstance(literal, bool)
        if isinstance(literal, str):
            tag.put(name, literal)
        elif name == "delay" and is_number and literal >= 0:
            tag.put(name, f"{json_text(literal, name)}ms")
            _mark(tag, name, "ms")
        else:
            self._set_expression(tag, f"{name}expr", value)

    def _set_expression(self, tag: XmlTag, name: str, value: Value | None) -> None:
        if isinstance(value, Expression):
            tag.put(name, value.text)
            if value.dialect != self.dialect:
                _mark(tag, name, value.dialect)
        elif value is not None:
            tag.put(name, json_text(value.value, f"<{tag.name} {name}>"))
            _mark(tag, name, "json")

    def fill(self, tag: XmlTag, value: Value | None) -> XmlTag:
        """Put a value into an element: an expression as `expr`, other values as JSON inside."""
        if isinstance(value, Literal):
            tag.text = json_text(value.value, f"<{tag.name}>")
        else:
            self._set_expression(tag, "expr", value)
        return tag

    def set_guard(self, tag: XmlTag, guard: Guard | None) -> None:
        """Set the condition of a transition or branch; others see a named guard as false."""
        if isinstance(guard, Expression):
            self._set_expression(tag, "cond", guard)
            if not guard.text.strip():  # without a mark it would be read as no condition
                _mark(tag, "cond", guard.dialect)
        elif guard is not None:
            tag.put("cond", "false")
            tag.put("otolith:guard", guard.name)
            if guard.params:
                pairs = json_text(params_to_json(guard.params), f"guard {guard.name}")
                tag.put("otolith:guard-params", pairs)

    def payload(self, payload: Payload) -> list[XmlTag]:
        """Return `<param>` and `<content>` elements."""
        found = [XmlTag("param", {"name": param.name}) for param in payload.params]
        for tag, param in zip(found, payload.params, strict=True):
            self._set_expression(tag, "expr", param.value)
        if payload.content is not None:
            found.append(self.fill(XmlTag("content"), payload.content))
        return found


def _mark(tag: XmlTag, name: str, how: str) -> None:
    """Add how an attribute is read to `otolith:as`."""
    words = [tag.attributes.get("otolith:as"), f"{name}:{how}"]
    tag.attributes["otolith:as"] = " ".join(word for word in words if word)
