"""A definition as XState's JSON.

It is version 5 wherever that has words for it. What it has none for is written in the data-only
forms of version 6 (`@xstate.assign`, `{"@expr": ...}`), else in own forms (`own_forms`) and in
notes under `meta.otolith` (`own_notes`), which the reader reads back. Other tools pass over those.
"""

from __future__ import annotations

from typing import Any

from otolith.agent.lifecycle.definition import (
    Block,
    Definition,
    Expression,
    Invoke,
    Literal,
    Payload,
    State,
    Transition,
    Value,
)
from otolith.agent.lifecycle.formats.own_forms import payload_form, value_form
from otolith.agent.lifecycle.formats.own_notes import noted
from otolith.agent.lifecycle.formats.xstate_slots import Slots
from otolith.agent.lifecycle.formats.xstate_targets import Targets, free_name
from otolith.agent.lifecycle.formats.xstate_words import actions_data, guard_data, payload_data
from otolith.agent.lifecycle.validation import validate


def to_xstate(definition: Definition) -> dict[str, Any]:
    """Return the chart as a machine's config, of plain data that JSON can hold.

    Raises:
        BadChart: it could not run.
    """
    return _Writer(definition).document()


class _Writer:
    def __init__(self, definition: Definition) -> None:
        validate(definition)
        self._definition = definition
        self._name = free_name(definition)
        self._targets = Targets(definition.root, self._name)

    def document(self) -> dict[str, Any]:
        definition = self._definition
        found = self._state(definition.root)
        head: dict[str, Any] = {"id": self._name}
        if definition.version:
            head["version"] = definition.version
        description = definition.description or definition.root.description
        if description:
            head["description"] = description
        return {**head, **found}

    def _chart_notes(self) -> dict[str, Any]:
        """Return what holds for the whole chart and is not so in XState."""
        definition = self._definition
        plain = Definition(self._name, definition.root)
        words = ("name", "dialect", "matching", "binding", "is_scxml")
        found: dict[str, Any] = {
            word: getattr(definition, word)
            for word in words
            if getattr(definition, word) != getattr(plain, word)
        }
        if definition.script:
            found["script"] = actions_data(definition.script)
        return found

    # ------------------------------------------------------------ states

    def _state(self, state: State) -> dict[str, Any]:
        is_root = state is self._definition.root
        found: dict[str, Any] = {}
        notes: dict[str, Any] = {}
        if is_root:
            self._note_root(state, notes)
        elif state.id in self._targets.explicit:
            found["id"] = state.id
        if state.kind != ("compound" if state.children else "atomic"):
            found["type"] = state.kind
        if state.description and not is_root:
            found["description"] = state.description
        if state.tags:
            found["tags"] = list(state.tags)
        self._add_data(state, found, notes)
        self._add_start(state, found, notes)
        for side, blocks in (("entry", state.entry), ("exit", state.exit)):
            _add_blocks(side, blocks, found, notes)
        self._add_ways(state, found, notes)
        if state.children:
            keys = self._targets.keys
            found["states"] = {keys[child.id]: self._state(child) for child in state.children}
        if state.output is not None:
            data = payload_data(state.output)
            found |= {} if data is None else {"output": data}
            notes |= {"output": payload_form(state.output)} if data is None else {}
        meta = noted(state.meta, notes)
        return found if meta is None else {**found, "meta": meta}

    def _note_root(self, state: State, notes: dict[str, Any]) -> None:
        if state.id != f"#{self._name}":
            notes["id"] = state.id
        chart = self._chart_notes()
        if chart:
            notes["chart"] = chart

    def _add_data(self, state: State, found: dict[str, Any], notes: dict[str, Any]) -> None:
        known = {datum.name: datum.value for datum in state.data if datum.value is not None}
        is_root = state is self._definition.root
        if known and is_root:
            found["context"] = {name: value_form(value) for name, value in known.items()}
        if state.data and not (is_root and len(known) == len(state.data)):
            notes["data"] = [
                [datum.name, *([] if datum.value is None else [value_form(datum.value)])]
                for datum in state.data
            ]

    def _add_start(self, state: State, found: dict[str, Any], notes: dict[str, Any]) -> None:
        """Add where a state begins, or where a history state leads."""
        initial = state.initial
        if state.kind == "history":
            found["history"] = "deep" if state.is_deep else "shallow"
        if initial is None:
            return
        start: dict[str, Any] = {"internal": True} if initial.is_internal else {}
        if state.kind == "history":
            found["target"] = _one_or_more(
                [self._targets.written(state, target) for target in initial.targets]
            )
            start |= {"actions": actions_data(initial.actions)} if initial.actions else {}
        else:
            inside = [self._targets.inside(state, target) for target in initial.targets]
            found["initial"] = _one_or_more(inside)
            if initial.actions or len(inside) > 1:
                found["initial"] = {"target": found["initial"]}
            if initial.actions:
                found["initial"]["actions"] = actions_data(initial.actions)
        if start:
            notes["initial"] = start

    # ------------------------------------------------------------ ways and children

    def _add_ways(self, state: State, found: dict[str, Any], notes: dict[str, Any]) -> None:
        invokes = [self._invoke(invoke, state, at) for at, invoke in enumerate(state.invokes)]
        slots = Slots(state, self._name)
        for transition, extra, places in slots.placed():
            config = self._transition(transition, state, extra)
            for place in places:
                slots.put(place, config, found, invokes)
        if invokes:
            found["invoke"] = invokes[0] if len(invokes) == 1 else invokes
        lacking = [None if _is_plain(invoke) else _invoke_notes(invoke) for invoke in state.invokes]
        if any(note is not None for note in lacking):
            notes["invokes"] = lacking

    def _transition(self, way: Transition, state: State, extra: dict[str, Any]) -> Any:
        found: dict[str, Any] = {}
        if way.targets:
            targets = [self._targets.written(state, target) for target in way.targets]
            found["target"] = _one_or_more(targets)
        if way.guard is not None:
            found["guard"] = guard_data(way.guard)
        if way.actions:
            found["actions"] = actions_data(way.actions)
        if not way.is_internal:
            found["reenter"] = True
        if way.description:
            found["description"] = way.description
        meta = noted(way.meta, extra)
        if meta is not None:
            found["meta"] = meta
        return found["target"] if found.keys() == {"target"} and len(way.targets) == 1 else found

    def _invoke(self, invoke: Invoke, state: State, number: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if invoke.id and invoke.id != f"{state.id}.{number}":
            found["id"] = invoke.id
        found["src"] = _source(invoke)
        data = payload_data(invoke.payload)
        if data and invoke.payload != Payload():
            found["input"] = data
        if invoke.is_forwarding:
            found["autoForward"] = True
        return found


def _add_blocks(
    side: str, blocks: tuple[Block, ...], found: dict[str, Any], notes: dict[str, Any]
) -> None:
    """Add the actions of some blocks; XState has one block, so how many are in each is noted."""
    actions = [action for block in blocks for action in block]
    if actions:
        found[side] = actions_data(tuple(actions))
    if len(blocks) > 1 or (blocks and not actions):
        notes[side] = [len(block) for block in blocks]


def _source(invoke: Invoke) -> Any:
    if isinstance(invoke.source, Literal) and isinstance(invoke.source.value, str):
        return invoke.source.value
    if isinstance(invoke.content, Definition):
        return to_xstate(invoke.content)
    return invoke.id or "computed"


def _is_plain(invoke: Invoke) -> bool:
    """Whether XState can say all of it."""
    is_named = isinstance(invoke.source, Literal) and isinstance(invoke.source.value, str)
    is_inline = invoke.source is None and isinstance(invoke.content, Definition)
    is_source_plain = is_inline or (is_named and invoke.content is None)
    has_input = payload_data(invoke.payload) is not None
    is_own = invoke.type is not None or invoke.id_location is not None
    return bool(
        invoke.id and is_source_plain and has_input and not is_own and invoke.finalize is None
    )


def _invoke_notes(invoke: Invoke) -> dict[str, Any]:
    found: dict[str, Any] = {}
    values: dict[str, Value | None] = {"source": invoke.source, "type": invoke.type}
    if isinstance(invoke.content, Definition):
        found["chart"] = to_xstate(invoke.content)
    elif isinstance(invoke.content, Expression | Literal):
        values["content"] = invoke.content
    found |= {name: value_form(value) for name, value in values.items() if value is not None}
    texts = {"id": invoke.id, "idLocation": invoke.id_location}
    found |= {name: text for name, text in texts.items() if text is not None}
    if invoke.payload != Payload():
        found["payload"] = payload_form(invoke.payload)
    if invoke.finalize is not None:
        found["finalize"] = actions_data(invoke.finalize)
    return {**found, "forwarding": True} if invoke.is_forwarding else found


def _one_or_more(items: list[str]) -> Any:
    return items[0] if len(items) == 1 else items
