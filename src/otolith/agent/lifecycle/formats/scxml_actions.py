"""The executable content of SCXML, read into actions."""

from __future__ import annotations

import json
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
    Param,
    Payload,
    Raise,
    Script,
    Send,
    Value,
)
from otolith.agent.lifecycle.formats.scxml_own import computed, guard_of, own, plain
from otolith.agent.lifecycle.formats.xml_tree import OWN, Element
from otolith.errors import BadChart

_EXPRESSION_STARTS = tuple("[{'\"-")


class ActionReader:
    """Reads the actions of one document; `resolve` finds what `src` names."""

    def __init__(self, dialect: str, resolve: Callable[[str], str | None]) -> None:
        self.dialect = dialect
        self.resolve = resolve
        self._readers: dict[str, Callable[[Element], Action]] = {
            "raise": self._raise,
            "send": self._send,
            "cancel": self._cancel,
            "log": self._log,
            "assign": self._assign,
            "if": self._if,
            "foreach": self._for_each,
            "script": self.script,
        }

    def block(self, parent: Element) -> Block:
        return tuple(self.action(child) for child in parent.children)

    def action(self, element: Element) -> Action:
        """Return one action; an element of another namespace is a call of that name."""
        if element.namespace == OWN:
            return self._own(element)
        if not element.is_scxml:
            params = tuple(
                Param(name, Literal(value)) for name, value in element.attributes.items()
            )
            return Call(element.tag, params)
        read = self._readers.get(element.tag)
        if read is None:
            raise BadChart(f"<{element.tag}> is not an action", place=element.place)
        return read(element)

    def _own(self, element: Element) -> Action:
        payload = self.payload(element)
        if element.tag == "call":
            return Call(self.needed(element, "name"), payload.params)
        event = self.either(element, "event", "eventexpr")
        if element.tag != "emit" or event is None:
            raise BadChart(f"<otolith:{element.tag}> is not an action", place=element.place)
        return Emit(event, payload)

    # ------------------------------------------------------------ values

    def expression(self, text: str) -> Expression:
        return Expression(text, self.dialect)

    def either(self, element: Element, name: str, twin: str) -> Value | None:
        """Return the value of an attribute, or of its twin that is an expression."""
        text, value = plain(element, name), computed(element, twin, self.dialect)
        if text is not None and value is not None:
            raise BadChart(f"has both {name} and {twin}", place=element.place)
        return text if value is None else value

    def needed(self, element: Element, name: str) -> str:
        found = element.get(name)
        if found is None:
            raise BadChart(f"has no {name}", place=element.place)
        return found

    def inline(self, element: Element) -> Value | None:
        """Return what stands inside an element: markup as text, JSON, a literal, or words."""
        if element.children:
            return Literal(element.inner.strip())
        return self.written(element.text)

    def written(self, text: str) -> Value | None:
        """Return what a piece of text stands for."""
        text = text.strip()
        if not text:
            return None
        try:
            return Literal(json.loads(text, parse_constant=_no_constant))
        except (ValueError, RecursionError):
            if text.startswith(_EXPRESSION_STARTS):
                return self.expression(text)
            return Literal(" ".join(text.split()))

    def payload(self, element: Element) -> Payload:
        """Return what `namelist`, `<param>` and `<content>` give."""
        names = (element.get("namelist") or "").split()
        params = [Param(name, self.expression(name)) for name in names]
        params += [self._param(child) for child in element.all("param")]
        content = element.first("content")
        return Payload(tuple(params), None if content is None else self.content(content))

    def content(self, element: Element) -> Value:
        return computed(element, "expr", self.dialect) or self.inline(element) or Literal(None)

    def _param(self, element: Element) -> Param:
        value = computed(element, "expr", self.dialect)
        if value is None:
            value = self.expression(self.needed(element, "location"))
        return Param(self.needed(element, "name"), value)

    # ------------------------------------------------------------ actions

    def _raise(self, element: Element) -> Action:
        return Raise(self.needed(element, "event"))

    def _send(self, element: Element) -> Action:
        if own(element, "raise") == "true":
            return Raise(self.needed(element, "event"), self.payload(element))
        return Send(
            event=self.either(element, "event", "eventexpr"),
            target=self.either(element, "target", "targetexpr"),
            type=self.either(element, "type", "typeexpr"),
            id=element.get("id"),
            id_location=element.get("idlocation"),
            delay=self.either(element, "delay", "delayexpr"),
            payload=self.payload(element),
        )

    def _cancel(self, element: Element) -> Action:
        id = self.either(element, "sendid", "sendidexpr")
        if id is None:
            raise BadChart("has no sendid", place=element.place)
        return Cancel(id)

    def _log(self, element: Element) -> Action:
        return Log(element.get("label") or "", computed(element, "expr", self.dialect))

    def _assign(self, element: Element) -> Action:
        value = computed(element, "expr", self.dialect) or self.inline(element)
        return Assign(self.needed(element, "location"), value or Literal(None))

    def _if(self, element: Element) -> Action:
        self.needed(element, "cond")
        arms: list[tuple[Guard | None, list[Action]]] = [(guard_of(element, self.dialect), [])]
        for child in element.children:
            if child.is_scxml and child.tag == "elseif":
                self.needed(child, "cond")
                arms.append((guard_of(child, self.dialect), []))
            elif child.is_scxml and child.tag == "else":
                arms.append((None, []))
            else:
                arms[-1][1].append(self.action(child))
        return If(tuple(Branch(guard, tuple(actions)) for guard, actions in arms))

    def _for_each(self, element: Element) -> Action:
        return ForEach(
            computed(element, "array", self.dialect)
            or self.expression(self.needed(element, "array")),
            self.needed(element, "item"),
            element.get("index"),
            self.block(element),
        )

    def script(self, element: Element) -> Script:
        source = element.get("src")
        return Script(element.text if source is None else self.fetched(element, source))

    def fetched(self, element: Element, source: str) -> str:
        """Return the text that a `src` names."""
        found = self.resolve(source)
        if found is None:
            raise BadChart(
                f"{source} cannot be found from here",
                place=element.place,
                hint="load the chart from its file: what is beside it can be read then",
            )
        return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)
