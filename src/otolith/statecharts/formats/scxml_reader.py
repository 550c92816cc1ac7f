"""Reads the states of SCXML into a `Definition`; `scxml_actions` reads executable content.

| SCXML | a chart |
| --- | --- |
| `<scxml>` | the root, with the id `#<name>`; or its one state marked `otolith:root` |
| `<state>` | a compound state if it has children other than history, else an atomic one |
| `initial`, `<initial>`, else the first child | the initial transition |
| `event="a b.* c."` | the events `a`, `b` and `c`: the end says nothing, since prefixes match |
| `type="internal"` | an internal transition; all others are external |
| `<onentry>`, `<onexit>` | one block each, so that a failure ends only its own |
| `<datamodel>`, `<donedata>`, `<invoke>` | the data, output and invokes of the state |

A state without an id gets `_<tag><number>`. An invoke whose `src` is a file that `resolve` finds
contains the chart of that file. A file that invokes itself, or one that leads back to it, cannot
contain it: there the name stays, and is looked up when the chart runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otolith.errors import BadChart
from otolith.statecharts.definition import (
    Binding,
    Block,
    Datum,
    Definition,
    Invoke,
    Kind,
    Literal,
    Payload,
    State,
    Transition,
    Value,
)
from otolith.statecharts.formats.scxml_actions import ActionReader
from otolith.statecharts.formats.xml import Element, read_xml
from otolith.statecharts.formats.xstate_actions import value_from_json

_MAX_FILES = 100
"""How many files one document may contain."""
_DIALECTS = {None: "python", "": "python", "null": "python", "python": "python"}
_DIALECTS |= {"ecmascript": "ecmascript", "c89": "ecmascript", "otolith": "python"}


def read_scxml(
    text: str, *, resolve: Callable[[str], str | None] | None = None, name: str = ""
) -> Definition:
    """Return the definition of an SCXML document.

    Args:
        text: The document.
        resolve: Returns the text of a `src`, or None; without it no `src` can be read.
        name: The name of its file, by which others may invoke it.

    Raises:
        BadChart: it is not a valid SCXML document.
    """
    return _read_element(read_xml(text), _limited(resolve or (lambda name: None)), (name,))


def _limited(resolve: Callable[[str], str | None]) -> Callable[[str], str | None]:
    """Return a function that reads a limited number of files: some may contain others twice."""
    numbers = iter(range(_MAX_FILES))

    def limited(name: str) -> str | None:
        """Return the text of a file."""
        if next(numbers, None) is None:
            raise BadChart(f"it reads more than {_MAX_FILES} files", place=name)
        return resolve(name)

    return limited


def _read_element(
    element: Element, resolve: Callable[[str], str | None], files: tuple[str, ...]
) -> Definition:
    """Return the definition of an element; `files` are those that it is in."""
    if element.tag != "scxml" or not element.is_scxml:
        raise BadChart("the outermost element must be <scxml>", place=element.place)
    datamodel = element.get("datamodel")
    if datamodel not in _DIALECTS:
        raise BadChart(
            f"the data model {datamodel} is not supported",
            place=element.place,
            hint="use ecmascript, python or null",
        )
    return _Reader(_DIALECTS[datamodel], resolve, files).document(element)


class _Reader:
    """Reads one `<scxml>` element; one inside an invoke has a reader for itself."""

    def __init__(
        self, dialect: str, resolve: Callable[[str], str | None], files: tuple[str, ...]
    ) -> None:
        self._resolve = resolve
        self._files = files
        self._actions = ActionReader(dialect, resolve)
        self._ids: dict[str, str] = {}
        """The ids of the chart for those that XML cannot have."""
        self._unnamed = 0

    def document(self, element: Element) -> Definition:
        """Return the definition of an `<scxml>` element."""
        name = element.get("name") or ""
        self._index_ids(element)
        root = next((child for child in element.children if child.get("otolith:root")), element)
        script = element.extension("script")
        scripts: Block = tuple(self._actions.script(child) for child in element.all("script"))
        binding: Binding = "late" if element.get("binding") == "late" else "early"
        return Definition(
            name=name,
            root=self._state(root, id=root.get("otolith:id") or f"#{name or 'scxml'}"),
            dialect=self._actions.dialect,
            matching="exact" if element.get("otolith:matching") == "exact" else "prefix",
            binding=binding,
            is_scxml=element.get("otolith:rules") != "xstate",
            script=scripts if script is None else self._actions.block(script),
            version=element.get("otolith:version") or "",
            description=element.get("otolith:description") or "",
        )

    def _index_ids(self, element: Element) -> None:
        id, real = element.get("id"), element.get("otolith:id")
        if id is not None and real is not None:
            self._ids[id] = real
        for child in element.children:
            if child.tag != "scxml":  # an invoked chart has ids of another chart
                self._index_ids(child)

    # ------------------------------------------------------------ states

    def _state(self, element: Element, id: str | None = None) -> State:
        id = id or element.get("otolith:id") or element.get("id")
        if not id:
            self._unnamed += 1
            id = f"_{element.tag}{self._unnamed}"
        inner = _written(element, "state", "parallel", "final", "history")
        children = tuple(self._state(child) for child in inner)
        kind = _kind(element, children)
        transitions = () if kind == "history" else _written(element, "transition")
        data = [child for model in element.all("datamodel") for child in model.all("data")]
        output = element.first("donedata") or element.extension("output")
        return State(
            id=id,
            kind=kind,
            children=children,
            initial=self._initial(element, kind, children),
            is_deep=element.get("type") == "deep",
            transitions=tuple(self._transition(child) for child in transitions),
            entry=tuple(self._actions.block(child) for child in _written(element, "onentry")),
            exit=tuple(self._actions.block(child) for child in _written(element, "onexit")),
            invokes=tuple(self._invoke(child) for child in element.all("invoke")),
            data=tuple(self._datum(child) for child in data),
            output=None if output is None else self._actions.payload(output),
            tags=_texts(element, "otolith:tags"),
            place=element.place,
            **_remarks(element),
        )

    def _initial(
        self, element: Element, kind: Kind, children: tuple[State, ...]
    ) -> Transition | None:
        """Return the initial transition of a compound state, or the default of a history state.

        None where the document lacks it: `validate` then says so.
        """
        if kind not in {"compound", "history"}:
            return None
        inner = element if kind == "history" else element.first("initial")
        if inner is not None:
            transition = inner.first("transition")
            return None if transition is None else self._transition(transition)
        first = next(child.id for child in children if child.kind != "history")
        targets = self._targets(element, "initial") or (first,)
        return Transition((), targets, is_internal=False, place=element.place)

    def _transition(self, element: Element) -> Transition:
        delay = element.json("otolith:delay")
        events = tuple(event_descriptor(word) for word in (element.get("event") or "").split())
        if element.get("otolith:delay") is not None:
            events = ()
        elif element.get("otolith:events") is not None:
            events = _texts(element, "otolith:events")
        return Transition(
            events=events,
            targets=self._targets(element, "target"),
            is_internal=element.get("type") == "internal",
            guard=self._actions.guard(element),
            actions=self._actions.block(element),
            delay=None if delay is None else value_from_json(delay),
            place=element.place,
            **_remarks(element),
        )

    def _targets(self, element: Element, name: str) -> tuple[str, ...]:
        return tuple(self._ids.get(word, word) for word in (element.get(name) or "").split())

    def _datum(self, element: Element) -> Datum:
        """Return a variable, with the value of its `expr`, its file or its text."""
        source = element.get("src")
        value = self._actions.expression(element, "expr")
        if value is None and source is not None:
            value = self._actions.parse(self._actions.fetch(element, source))
        elif value is None:
            value = self._actions.inline(element)
        return Datum(element.required("id"), value, place=element.place)

    # ------------------------------------------------------------ invokes

    def _invoke(self, element: Element) -> Invoke:
        finalize, given = element.first("finalize"), element.extension("input")
        input = None if given is None else self._actions.content(given)
        source = self._actions.value(element, "src")
        return Invoke(
            id=element.get("id"),
            id_location=element.get("idlocation"),
            source=source,
            content=self._child(element, source),
            type=self._actions.value(element, "type"),
            payload=Payload(self._actions.payload(element).params, input),
            finalize=None if finalize is None else self._actions.block(finalize),
            is_forwarding=element.get("autoforward") == "true",
            place=element.place,
        )

    def _child(self, element: Element, source: Value | None) -> Value | Definition | None:
        """Return the chart inside an invoke, the value of its content, or the chart of a file."""
        content = element.first("content")
        if content is not None:
            chart = content.first("scxml")
            if chart is None:
                return self._actions.content(content)
            return _read_element(chart, self._resolve, self._files)
        if not isinstance(source, Literal) or not isinstance(source.value, str):
            return None
        name = source.value.removeprefix("file:")
        text = None if name in self._files else self._resolve(name)
        if text is None:
            return None
        return _read_element(read_xml(text), self._resolve, (*self._files, name))


def event_descriptor(word: str) -> str:
    """Return an event descriptor without the optional `.*` or `.` at its end."""
    return word if word == "*" else word.removesuffix(".*").removesuffix(".")


def _kind(element: Element, children: tuple[State, ...]) -> Kind:
    match element.tag:
        case "parallel" | "final" | "history" as kind:
            return kind
    return "compound" if any(child.kind != "history" for child in children) else "atomic"


def _written(element: Element, *tags: str) -> list[Element]:
    """Return the children with these names, without those generated for other processors."""
    return [child for child in element.all(*tags) if child.get("otolith:generated") != "true"]


def _texts(element: Element, name: str) -> tuple[str, ...]:
    """Return the texts of an attribute that is a JSON list."""
    found = element.json(name) or []
    if not isinstance(found, list):
        raise BadChart(f"{name} must be a list", place=element.place)
    return tuple(str(text) for text in found)


def _remarks(element: Element) -> dict[str, Any]:
    """Return the description and meta of a state or transition."""
    meta = element.json("otolith:meta")
    if not isinstance(meta, dict | None):
        raise BadChart("otolith:meta must be an object", place=element.place)
    return {"description": element.get("otolith:description") or "", "meta": meta}
