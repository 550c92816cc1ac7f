"""SCXML, read into a definition.

The executable content of SCXML, read into actions.
"""

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
    computed,
    delay_of,
    events_of,
    guard_of,
    is_generated,
    own,
    own_child,
    plain,
    remarks,
    tags,
)
from otolith.statecharts.formats.xml import OWN, Element, read_xml

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
        return If(tuple(IfBranch(guard, tuple(actions)) for guard, actions in arms))

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


_STATES = ("state", "parallel", "final", "history")
_DIALECTS = {None: "python", "": "python", "null": "python", "python": "python"}
_DIALECTS |= {"ecmascript": "ecmascript", "c89": "ecmascript", "otolith": "python"}


def read_scxml(text: str, *, resolve: Callable[[str], str | None] | None = None) -> Definition:
    """Return the definition that an SCXML document is.

    Args:
        text: The document.
        resolve: What returns the text that a `src` names, or None; without it there is none.

    Raises:
        BadChart: it is not SCXML that could run.
    """
    return read_element(read_xml(text), resolve or (lambda name: None))


def read_element(element: Element, resolve: Callable[[str], str | None]) -> Definition:
    """Return the definition of an `<scxml>` element."""
    if element.tag != "scxml" or not element.is_scxml:
        raise BadChart("the outermost element is not <scxml>", place=element.place)
    datamodel = element.get("datamodel")
    if datamodel not in _DIALECTS:
        raise BadChart(
            f"the data model {datamodel} is not known here",
            place=element.place,
            hint="ecmascript and python are, and null",
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
        inner = next((child for child in element.children if own(child, "root")), None)
        root_id = own(element if inner is None else inner, "id") or f"#{name or 'scxml'}"
        own_script = own_child(element, "script")
        binding: Binding = "late" if element.get("binding") == "late" else "early"
        scripts: Block = tuple(self._actions.script(child) for child in element.all("script"))
        return Definition(
            name=name,
            root=self._state(element if inner is None else inner, id=root_id),
            dialect=self._dialect,
            matching="exact" if own(element, "matching") == "exact" else "prefix",
            binding=binding,
            is_scxml=own(element, "rules") != "xstate",
            script=scripts if own_script is None else self._actions.block(own_script),
            version=own(element, "version") or "",
            description=own(element, "description") or "",
        )

    def _state(self, element: Element, id: str | None = None) -> State:
        id = id or own(element, "id") or element.get("id") or self._made_up(element)
        children = tuple(self._state(child) for child in _real(element.all(*_STATES)))
        kind = _kind(element, children)
        return State(
            id=id,
            kind=kind,
            children=children,
            initial=self._initial(element, kind, children),
            is_deep=element.get("type") == "deep",
            transitions=self._transitions(element) if kind != "history" else (),
            entry=tuple(self._actions.block(child) for child in _real(element.all("onentry"))),
            exit=tuple(self._actions.block(child) for child in _real(element.all("onexit"))),
            invokes=tuple(self._invoke(child) for child in element.all("invoke")),
            data=self._data(element),
            output=self._output(element),
            tags=tags(element),
            place=element.place,
            **remarks(element),
        )

    def _made_up(self, element: Element) -> str:
        self._unnamed += 1
        return f"_{element.tag}{self._unnamed}"

    def _initial(
        self, element: Element, kind: Kind, children: tuple[State, ...]
    ) -> Transition | None:
        if kind == "history":
            return self._only_transition(element)
        if kind != "compound":
            return None
        inner = element.first("initial")
        if inner is not None:
            return self._only_transition(inner)
        names = self._targets(element, "initial")
        first = next(child.id for child in children if child.kind != "history")
        return Transition((), tuple(names) or (first,), is_internal=False, place=element.place)

    def _only_transition(self, element: Element) -> Transition | None:
        found = element.first("transition")
        return None if found is None else self._transition(found)

    def _transitions(self, element: Element) -> tuple[Transition, ...]:
        return tuple(self._transition(child) for child in _real(element.all("transition")))

    def _transition(self, element: Element) -> Transition:
        said = tuple(_descriptor(word) for word in (element.get("event") or "").split())
        return Transition(
            events=events_of(element, said),
            targets=self._targets(element, "target"),
            is_internal=element.get("type") == "internal",
            guard=guard_of(element, self._dialect),
            actions=self._actions.block(element),
            delay=delay_of(element),
            place=element.place,
            **remarks(element),
        )

    def _targets(self, element: Element, name: str) -> tuple[str, ...]:
        words = (element.get(name) or "").split()
        return tuple(self._aliases.get(word, word) for word in words)

    def _data(self, element: Element) -> tuple[Datum, ...]:
        models = element.all("datamodel")
        return tuple(self._datum(child) for model in models for child in model.all("data"))

    def _datum(self, element: Element) -> Datum:
        source = element.get("src")
        value = computed(element, "expr", self._dialect)
        if value is None and source is not None:
            value = self._actions.written(self._actions.fetched(element, source))
        elif value is None:
            value = self._actions.inline(element)
        return Datum(self._actions.needed(element, "id"), value, place=element.place)

    def _output(self, element: Element) -> Payload | None:
        done = element.first("donedata") or own_child(element, "output")
        return None if done is None else self._actions.payload(done)

    def _invoke(self, element: Element) -> Invoke:
        finalize = element.first("finalize")
        given = own_child(element, "input")
        input = None if given is None else self._actions.content(given)
        payload = Payload(self._actions.payload(element).params, input)
        source = self._actions.either(element, "src", "srcexpr")
        return Invoke(
            id=element.get("id"),
            id_location=element.get("idlocation"),
            source=source,
            content=self._child(element, source),
            type=self._actions.either(element, "type", "typeexpr"),
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
        """Return the chart of a file that stands beside this one, if there is such a file."""
        if not isinstance(source, Literal) or not isinstance(source.value, str):
            return None
        text = self._resolve(source.value)
        return None if text is None else read_scxml(text, resolve=self._resolve)


def _kind(element: Element, children: tuple[State, ...]) -> Kind:
    if element.tag == "parallel":
        return "parallel"
    if element.tag == "final":
        return "final"
    if element.tag == "history":
        return "history"
    return "compound" if any(child.kind != "history" for child in children) else "atomic"


def _real(elements: list[Element]) -> list[Element]:
    return [element for element in elements if not is_generated(element)]


def _descriptor(word: str) -> str:
    return word if word == "*" else word.removesuffix(".*").removesuffix(".")
