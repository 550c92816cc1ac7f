"""Reads SCXML into a `Definition`: `_Reader` the states, `ActionReader` executable content."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from otolith.errors import BadChart
from otolith.statecharts.definition import (
    Action,
    Assign,
    Binding,
    Block,
    Call,
    Cancel,
    Datum,
    Definition,
    Emit,
    Expression,
    ForEach,
    Guard,
    If,
    IfBranch,
    Invoke,
    Kind,
    Literal,
    Log,
    Param,
    Payload,
    Raise,
    Script,
    Send,
    State,
    Transition,
    Value,
)
from otolith.statecharts.formats.scxml_extensions import (
    aliases,
    annotation_fields,
    delay_of,
    events_of,
    expression_attribute,
    extension,
    extension_child,
    guard_of,
    is_generated,
    tags,
    text_attribute,
)
from otolith.statecharts.formats.xml import EXTENSION, Element, read_xml

_EXPRESSION_STARTS = tuple("[{'\"-")


class ActionReader:
    """Reads the executable content of one document; `resolve` returns the text of a `src`."""

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
        """Return the actions inside an element."""
        return tuple(self.action(child) for child in parent.children)

    def action(self, element: Element) -> Action:
        """Return one action; an element of a foreign namespace is a call of that name.

        Raises:
            BadChart: the element is not an action.
        """
        if element.namespace == EXTENSION:
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
            return Call(self.required(element, "name"), payload.params)
        event = self.text_or_expression(element, "event", "eventexpr")
        if element.tag != "emit" or event is None:
            raise BadChart(f"<otolith:{element.tag}> is not an action", place=element.place)
        return Emit(event, payload)

    def expression(self, text: str) -> Expression:
        """Return an expression in the dialect of the document."""
        return Expression(text, self.dialect)

    def text_or_expression(self, element: Element, name: str, twin: str) -> Value | None:
        """Return the value of an attribute, or of its twin that is an expression.

        Raises:
            BadChart: the element has both.
        """
        text = text_attribute(element, name)
        value = expression_attribute(element, twin, self.dialect)
        if text is not None and value is not None:
            raise BadChart(
                f"it has both {name} and {twin}; only one is allowed", place=element.place
            )
        return text if value is None else value

    def required(self, element: Element, name: str) -> str:
        """Return an attribute.

        Raises:
            BadChart: it is absent.
        """
        found = element.get(name)
        if found is None:
            raise BadChart(f"it has no {name}", place=element.place)
        return found

    def inline(self, element: Element) -> Value | None:
        """Return the content of an element: markup as text, JSON, an expression, or words."""
        if element.children:
            return Literal(element.inner.strip())
        return self.parse_text(element.text)

    def parse_text(self, text: str) -> Value | None:
        """Return the value of a text: JSON, an expression, or words; None if it is blank."""
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
        """Return the data of `namelist`, `<param>` and `<content>`."""
        names = (element.get("namelist") or "").split()
        params = [Param(name, self.expression(name)) for name in names]
        params += [self._param(child) for child in element.all("param")]
        content = element.first("content")
        return Payload(tuple(params), None if content is None else self.content(content))

    def content(self, element: Element) -> Value:
        """Return the value of `expr`, or of the text inside."""
        expression = expression_attribute(element, "expr", self.dialect)
        return expression or self.inline(element) or Literal(None)

    def _param(self, element: Element) -> Param:
        value = expression_attribute(element, "expr", self.dialect)
        if value is None:
            value = self.expression(self.required(element, "location"))
        return Param(self.required(element, "name"), value)

    def _raise(self, element: Element) -> Action:
        return Raise(self.required(element, "event"))

    def _send(self, element: Element) -> Action:
        if extension(element, "raise") == "true":
            return Raise(self.required(element, "event"), self.payload(element))
        return Send(
            event=self.text_or_expression(element, "event", "eventexpr"),
            target=self.text_or_expression(element, "target", "targetexpr"),
            type=self.text_or_expression(element, "type", "typeexpr"),
            id=element.get("id"),
            id_location=element.get("idlocation"),
            delay=self.text_or_expression(element, "delay", "delayexpr"),
            payload=self.payload(element),
        )

    def _cancel(self, element: Element) -> Action:
        id = self.text_or_expression(element, "sendid", "sendidexpr")
        if id is None:
            raise BadChart("it has no sendid", place=element.place)
        return Cancel(id)

    def _log(self, element: Element) -> Action:
        return Log(element.get("label") or "", expression_attribute(element, "expr", self.dialect))

    def _assign(self, element: Element) -> Action:
        value = expression_attribute(element, "expr", self.dialect) or self.inline(element)
        return Assign(self.required(element, "location"), value or Literal(None))

    def _if(self, element: Element) -> Action:
        self.required(element, "cond")
        arms: list[tuple[Guard | None, list[Action]]] = [(guard_of(element, self.dialect), [])]
        for child in element.children:
            if child.is_scxml and child.tag == "elseif":
                self.required(child, "cond")
                arms.append((guard_of(child, self.dialect), []))
            elif child.is_scxml and child.tag == "else":
                arms.append((None, []))
            else:
                arms[-1][1].append(self.action(child))
        return If(tuple(IfBranch(guard, tuple(actions)) for guard, actions in arms))

    def _for_each(self, element: Element) -> Action:
        return ForEach(
            expression_attribute(element, "array", self.dialect)
            or self.expression(self.required(element, "array")),
            self.required(element, "item"),
            element.get("index"),
            self.block(element),
        )

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


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_STATES = ("state", "parallel", "final", "history")
_DIALECTS = {None: "python", "": "python", "null": "python", "python": "python"}
_DIALECTS |= {"ecmascript": "ecmascript", "c89": "ecmascript", "otolith": "python"}


def read_scxml(text: str, *, resolve: Callable[[str], str | None] | None = None) -> Definition:
    """Return the definition of an SCXML document.

    Args:
        text: The document.
        resolve: Returns the text of a `src`, or None; without it no `src` can be read.

    Raises:
        BadChart: it is not a valid SCXML document.
    """
    return read_element(read_xml(text), resolve or (lambda name: None))


def read_element(element: Element, resolve: Callable[[str], str | None]) -> Definition:
    """Return the definition of an `<scxml>` element.

    Raises:
        BadChart: it is not one, or its data model is unknown.
    """
    if element.tag != "scxml" or not element.is_scxml:
        raise BadChart("the outermost element must be <scxml>", place=element.place)
    datamodel = element.get("datamodel")
    if datamodel not in _DIALECTS:
        raise BadChart(
            f"the data model {datamodel} is not supported",
            place=element.place,
            hint="use ecmascript, python or null",
        )
    return _Reader(_DIALECTS[datamodel], resolve).document(element)


class _Reader:
    def __init__(self, dialect: str, resolve: Callable[[str], str | None]) -> None:
        self._dialect = dialect
        self._resolve = resolve
        self._actions = ActionReader(dialect, resolve)
        self._unnamed = 0

    def document(self, element: Element) -> Definition:
        name = element.get("name") or ""
        self._aliases = aliases(element)
        inner = next((child for child in element.children if extension(child, "root")), None)
        root_id = extension(element if inner is None else inner, "id") or f"#{name or 'scxml'}"
        own_script = extension_child(element, "script")
        binding: Binding = "late" if element.get("binding") == "late" else "early"
        scripts: Block = tuple(self._actions.script(child) for child in element.all("script"))
        return Definition(
            name=name,
            root=self._state(element if inner is None else inner, id=root_id),
            dialect=self._dialect,
            matching="exact" if extension(element, "matching") == "exact" else "prefix",
            binding=binding,
            is_scxml=extension(element, "rules") != "xstate",
            script=scripts if own_script is None else self._actions.block(own_script),
            version=extension(element, "version") or "",
            description=extension(element, "description") or "",
        )

    def _state(self, element: Element, id: str | None = None) -> State:
        id = id or extension(element, "id") or element.get("id") or self._generated_id(element)
        children = tuple(self._state(child) for child in _without_generated(element.all(*_STATES)))
        kind = _kind(element, children)
        return State(
            id=id,
            kind=kind,
            children=children,
            initial=self._initial(element, kind, children),
            is_deep=element.get("type") == "deep",
            transitions=self._transitions(element) if kind != "history" else (),
            entry=self._blocks(element, "onentry"),
            exit=self._blocks(element, "onexit"),
            invokes=tuple(self._invoke(child) for child in element.all("invoke")),
            data=self._data(element),
            output=self._output(element),
            tags=tags(element),
            place=element.place,
            **annotation_fields(element),
        )

    def _blocks(self, element: Element, tag: str) -> tuple[Block, ...]:
        return tuple(self._actions.block(child) for child in _without_generated(element.all(tag)))

    def _generated_id(self, element: Element) -> str:
        self._unnamed += 1
        return f"_{element.tag}{self._unnamed}"

    def _initial(
        self, element: Element, kind: Kind, children: tuple[State, ...]
    ) -> Transition | None:
        if kind == "history":
            return self._first_transition(element)
        if kind != "compound":
            return None
        inner = element.first("initial")
        if inner is not None:
            return self._first_transition(inner)
        names = self._targets(element, "initial")
        first = next(child.id for child in children if child.kind != "history")
        return Transition((), tuple(names) or (first,), is_internal=False, place=element.place)

    def _first_transition(self, element: Element) -> Transition | None:
        found = element.first("transition")
        return None if found is None else self._transition(found)

    def _transitions(self, element: Element) -> tuple[Transition, ...]:
        found = _without_generated(element.all("transition"))
        return tuple(self._transition(child) for child in found)

    def _transition(self, element: Element) -> Transition:
        given = tuple(event_descriptor(word) for word in (element.get("event") or "").split())
        return Transition(
            events=events_of(element, given),
            targets=self._targets(element, "target"),
            is_internal=element.get("type") == "internal",
            guard=guard_of(element, self._dialect),
            actions=self._actions.block(element),
            delay=delay_of(element),
            place=element.place,
            **annotation_fields(element),
        )

    def _targets(self, element: Element, name: str) -> tuple[str, ...]:
        words = (element.get(name) or "").split()
        return tuple(self._aliases.get(word, word) for word in words)

    def _data(self, element: Element) -> tuple[Datum, ...]:
        models = element.all("datamodel")
        return tuple(self._datum(child) for model in models for child in model.all("data"))

    def _datum(self, element: Element) -> Datum:
        source = element.get("src")
        value = expression_attribute(element, "expr", self._dialect)
        if value is None and source is not None:
            value = self._actions.parse_text(self._actions.fetch(element, source))
        elif value is None:
            value = self._actions.inline(element)
        return Datum(self._actions.required(element, "id"), value, place=element.place)

    def _output(self, element: Element) -> Payload | None:
        done = element.first("donedata") or extension_child(element, "output")
        return None if done is None else self._actions.payload(done)

    def _invoke(self, element: Element) -> Invoke:
        finalize = element.first("finalize")
        given = extension_child(element, "input")
        input = None if given is None else self._actions.content(given)
        payload = Payload(self._actions.payload(element).params, input)
        source = self._actions.text_or_expression(element, "src", "srcexpr")
        return Invoke(
            id=element.get("id"),
            id_location=element.get("idlocation"),
            source=source,
            content=self._child(element, source),
            type=self._actions.text_or_expression(element, "type", "typeexpr"),
            payload=payload,
            finalize=None if finalize is None else self._actions.block(finalize),
            is_forwarding=element.get("autoforward") == "true",
            place=element.place,
        )

    def _child(self, element: Element, source: Value | None) -> Value | Definition | None:
        content = element.first("content")
        if content is None:
            return self._file(source)
        inner = content.first("scxml")
        if inner is not None:
            return read_element(inner, self._resolve)
        return self._actions.content(content)

    def _file(self, source: Value | None) -> Definition | None:
        """Return the chart in a file beside this one, if there is such a file."""
        if not isinstance(source, Literal) or not isinstance(source.value, str):
            return None
        text = self._resolve(source.value)
        return None if text is None else read_scxml(text, resolve=self._resolve)


def _kind(element: Element, children: tuple[State, ...]) -> Kind:
    match element.tag:
        case "parallel" | "final" | "history" as kind:
            return kind
    return "compound" if any(child.kind != "history" for child in children) else "atomic"


def _without_generated(elements: list[Element]) -> list[Element]:
    return [element for element in elements if not is_generated(element)]


def event_descriptor(word: str) -> str:
    """Return an event descriptor without the optional `.*` or `.` at its end."""
    return word if word == "*" else word.removesuffix(".*").removesuffix(".")
