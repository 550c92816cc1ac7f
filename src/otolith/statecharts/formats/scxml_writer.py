"""Writes a `Definition` as SCXML; `scxml_reader` has the table of what becomes what.

What SCXML cannot express is written in a namespace of ours (`scxml_actions` lists it), so that the
chart reads back unchanged. Three things are also written for processors that ignore it, marked
`otolith:generated`:

- a root that acts (transitions, actions, invokes, output) is a `<state>` inside `<scxml>`, beside a
  `<final>` that ends the session when the root is done;
- a delayed transition waits for an event `otolith.after.<number>`, which `<onentry>` sends with the
  delay and `<onexit>` cancels;
- a state whose id is not an XML name has a similar one, and its own as `otolith:id`.

XState's `{"after": {"1000": {"target": "b", "guard": "ready"}}}` in a state `a` becomes:

    <state id="a">
      <onentry otolith:generated="true">
        <send event="otolith.after.1" id="otolith.after.1" delay="1000ms" otolith:as="delay:ms"/>
      </onentry>
      <onexit otolith:generated="true"><cancel sendid="otolith.after.1"/></onexit>
      <transition event="otolith.after.1" cond="false" otolith:guard="ready" target="b"
                  type="internal" otolith:delay="1000"/>
    </state>
"""

from __future__ import annotations

import re

from otolith.statecharts.definition import (
    Definition,
    Invoke,
    Literal,
    Payload,
    Script,
    Send,
    State,
    Transition,
    validate,
    walk,
)
from otolith.statecharts.formats.scxml_actions import ActionWriter
from otolith.statecharts.formats.scxml_reader import event_descriptor
from otolith.statecharts.formats.xml import EXTENSION, SCXML, XmlTag, json_text
from otolith.statecharts.formats.xstate_actions import value_to_json

_NAME = re.compile(r"[^\W\d][\w.-]*")
_GENERATED = {"otolith:generated": "true"}


def to_scxml(definition: Definition) -> str:
    """Return the chart as an SCXML document.

    Raises:
        BadChart: the chart is not valid, or a text has a character that XML cannot contain.
    """
    document = _Writer(definition).document()
    names = (name for tag in document.walk() for name in (tag.name, *tag.attributes))
    spaces = {"xmlns": SCXML}
    if any(name.startswith("otolith:") for name in names):
        spaces["xmlns:otolith"] = EXTENSION
    document.attributes = {**spaces, **document.attributes}
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', *document.lines()]) + "\n"


class _Writer:
    """Writes one chart; a chart inside an invoke has a writer for itself."""

    def __init__(self, definition: Definition) -> None:
        validate(definition)
        self._definition = definition
        self._root = definition.root
        self._actions = ActionWriter(definition.dialect)
        self._delays = 0
        self._ids: dict[str, str] = {}
        known = {state.id for state, _ in walk(self._root)}
        for id in [state.id for state, _ in walk(self._root)]:
            self._ids[id] = id if _NAME.fullmatch(id) else _xml_id(id, known)
            known.add(self._ids[id])

    def document(self) -> XmlTag:
        """Return the `<scxml>` element."""
        definition, root = self._definition, self._root
        tag = XmlTag("scxml", {"version": "1.0"})
        tag.put("name", definition.name or None)
        tag.put("datamodel", definition.dialect)
        tag.put("binding", "late" if definition.binding == "late" else None)
        tag.put("otolith:matching", None if definition.matching == "prefix" else "exact")
        tag.put("otolith:rules", None if definition.is_scxml else "xstate")
        tag.put("otolith:version", definition.version or None)
        tag.put("otolith:description", definition.description or None)
        scripts = self._actions.block(definition.script)
        if not all(isinstance(action, Script) for action in definition.script):
            scripts = [XmlTag("otolith:script", children=scripts)]
        if not self._is_plain_root():
            tag.put("initial", self._ids[root.id])
            tag.children = [*scripts, *self._root_as_state(root)]
            return tag
        tag.put("otolith:id", None if root.id == f"#{definition.name or 'scxml'}" else root.id)
        if root.initial is not None:
            tag.put("initial", self._targets(root.initial))
        _put_remarks(tag, root)
        tag.children = [*self._data(root), *scripts, *map(self._state, root.children)]
        return tag

    def _is_plain_root(self) -> bool:
        """Return whether `<scxml>` itself can express the root."""
        root, initial = self._root, self._root.initial
        acts = root.transitions or root.entry or root.exit or root.invokes or root.output
        is_simple = initial is not None and not initial.actions and not initial.is_internal
        transitions = (each for state, _ in walk(root) for each in state.transitions)
        is_target = any(root.id in transition.targets for transition in transitions)
        return root.kind == "compound" and is_simple and not acts and not is_target

    def _root_as_state(self, root: State) -> list[XmlTag]:
        """Return the root as a state in `<scxml>`, and a final state for other processors."""
        inner = self._state(root)
        inner.put("otolith:root", "true")
        end = f"{self._ids[root.id]}.end"
        while end in self._ids.values():
            end += "_"
        done = {"event": f"done.state.{self._ids[root.id]}", "target": end, **_GENERATED}
        inner.children.append(XmlTag("transition", done))
        return [inner, XmlTag("final", {"id": end, **_GENERATED})]

    # ------------------------------------------------------------ states

    def _state(self, state: State) -> XmlTag:
        name = state.kind if state.kind in {"parallel", "final", "history"} else "state"
        id = self._ids[state.id]
        tag = XmlTag(name, {"id": id})
        tag.put("otolith:id", None if id == state.id else state.id)
        if state.kind == "history":
            tag.put("type", "deep" if state.is_deep else "shallow")
        _put_remarks(tag, state)
        tag.put("otolith:description", state.description or None)
        tag.children += self._data(state)
        for word, blocks in (("onentry", state.entry), ("onexit", state.exit)):
            tag.children += [XmlTag(word, children=self._actions.block(each)) for each in blocks]
        self._add_initial(tag, state)
        for transition in state.transitions:
            tag.children += self._transition_tags(transition)
        tag.children += [self._invoke(invoke) for invoke in state.invokes]
        tag.children += [self._state(child) for child in state.children]
        if state.output is not None:
            word = "donedata" if state.kind == "final" else "otolith:output"
            tag.children.append(XmlTag(word, children=self._actions.payload(state.output)))
        return tag

    def _data(self, state: State) -> list[XmlTag]:
        data = [
            self._actions.fill(XmlTag("data", {"id": datum.name}), datum.value)
            for datum in state.data
        ]
        return [XmlTag("datamodel", children=data)] if data else []

    def _add_initial(self, tag: XmlTag, state: State) -> None:
        """Add the initial transition: an attribute where it has targets only, else an element."""
        initial = state.initial
        if initial is None:
            return
        if state.kind == "history":
            tag.children.append(self._transition(initial))
        elif initial.actions or initial.is_internal:
            tag.children.append(XmlTag("initial", children=[self._transition(initial)]))
        else:
            tag.put("initial", self._targets(initial))

    # ------------------------------------------------------------ transitions and invokes

    def _transition_tags(self, transition: Transition) -> list[XmlTag]:
        """Return a transition; a delayed one with a send and a cancel for other processors."""
        tag = self._transition(transition)
        if transition.delay is None:
            return [tag]
        self._delays += 1
        name = f"otolith.after.{self._delays}"
        tag.attributes = {"event": name, **tag.attributes}
        tag.put("otolith:delay", json_text(value_to_json(transition.delay), "delay"))
        send = self._actions.block((Send(Literal(name), id=name, delay=transition.delay),))
        cancel = [XmlTag("cancel", {"sendid": name})]
        return [
            XmlTag("onentry", dict(_GENERATED), send),
            XmlTag("onexit", dict(_GENERATED), cancel),
            tag,
        ]

    def _transition(self, transition: Transition) -> XmlTag:
        """Return `<transition>`; events that its `event` cannot express are repeated as JSON."""
        tag = XmlTag("transition")
        if transition.events:
            words = [re.sub(r"\s+", "_", event) or "_" for event in transition.events]
            tag.put("event", " ".join(words))
            if tuple(map(event_descriptor, words)) != transition.events:
                tag.put("otolith:events", json_text(transition.events, "events"))
        self._actions.set_guard(tag, transition.guard)
        tag.put("target", self._targets(transition) or None)
        tag.put("type", "internal" if transition.is_internal else None)
        tag.put("otolith:description", transition.description or None)
        if transition.meta is not None:
            tag.put("otolith:meta", json_text(transition.meta, "meta"))
        tag.children = self._actions.block(transition.actions)
        return tag

    def _targets(self, transition: Transition) -> str:
        return " ".join(self._ids[target] for target in transition.targets)

    def _invoke(self, invoke: Invoke) -> XmlTag:
        """Return `<invoke>`; its `<content>` is the chart, so one value as input is ours."""
        tag = XmlTag("invoke", children=self._actions.payload(Payload(invoke.payload.params)))
        tag.put("id", invoke.id)
        tag.put("idlocation", invoke.id_location)
        self._actions.set(tag, "type", invoke.type)
        self._actions.set(tag, "src", invoke.source)
        tag.put("autoforward", "true" if invoke.is_forwarding else None)
        if invoke.payload.content is not None:
            given = self._actions.fill(XmlTag("otolith:input"), invoke.payload.content)
            tag.children.append(given)
        if isinstance(invoke.content, Definition):
            tag.children.append(XmlTag("content", children=[_Writer(invoke.content).document()]))
        elif invoke.content is not None:
            tag.children.append(self._actions.fill(XmlTag("content"), invoke.content))
        if invoke.finalize is not None:
            tag.children.append(XmlTag("finalize", children=self._actions.block(invoke.finalize)))
        return tag


def _xml_id(id: str, known: set[str]) -> str:
    """Return an id like this one that is valid in XML and not known yet."""
    found = re.sub(r"[^\w.-]+", "_", id).lstrip("0123456789.-") or "state"
    while found in known:
        found += "_"
    return found


def _put_remarks(tag: XmlTag, state: State) -> None:
    if state.tags:
        tag.put("otolith:tags", json_text(state.tags, "tags"))
    if state.meta is not None:
        tag.put("otolith:meta", json_text(state.meta, "meta"))
