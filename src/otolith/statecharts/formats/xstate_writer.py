"""Writes a `Definition` as XState's JSON; `xstate_reader` has the table of what becomes what.

Version 5 is used where it suffices, then the data of version 6 (`@xstate.assign`,
`{"@expr": ...}`), then our actions (`xstate_actions`) and annotations, which other tools ignore.

XState stores the transitions of a state by trigger: `on` by event, `onDone`, those of an invoke,
`after` by delay, `always`. That loses their order, and splits a transition with several events.
Where either matters, the transition is annotated (`Slots`).

XState's states have keys that are unique in their parent, and ids only where they are needed. The
keys are made from the ids of the chart; an id that is not the path of keys is written (`Targets`).

A state of SCXML with two blocks on entry, and one transition for two events, is annotated:

    "busy": {
      "entry": ["start", "log"],
      "on": {
        "done": {"target": "idle", "reenter": true, "meta": {"otolith": {...}}},
        "fail": {"target": "idle", "reenter": true, "meta": {"otolith": {...}}}
      },
      "meta": {"otolith": {"entry": [1, 1]}}
    }

where both transitions have `{"order": 0, "events": ["done", "fail"]}`, and are read as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from otolith.statecharts.definition import (
    Definition,
    Expression,
    Invoke,
    Literal,
    Payload,
    State,
    Transition,
    Value,
    validate,
    walk,
)
from otolith.statecharts.formats.xstate_actions import (
    payload_to_json,
    value_to_json,
    write_actions,
    write_guard,
    write_payload,
)
from otolith.statecharts.formats.xstate_reader import (
    ANNOTATIONS,
    CHART_PROPERTIES,
    EVENT_ALIASES,
    escape_key,
    read_delay,
    read_event,
)

_RANKS = {"on": 0, "onDone": 1, "after": 3, "always": 4}
_NOT_A_KEY = re.compile(r"[.\\]|^#|^__proto__$|^\s|\s$|^$")


def to_xstate(definition: Definition) -> dict[str, Any]:
    """Return the chart as a machine config of plain JSON data.

    Raises:
        BadChart: the chart is not valid.
    """
    return _Writer(definition).document()


class Slot(NamedTuple):
    """One place for a transition: which list, of which invoke (or -1), under which key."""

    list: str
    invoke: int = -1
    key: str = ""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Where the reader meets this slot among those of a state."""
        if self.invoke >= 0:
            return 2, self.invoke, int(self.list == "onError")
        return _RANKS[self.list], 0, 0


class Slots:
    """Finds places for the transitions of one state of a chart."""

    def __init__(self, state: State, machine: str) -> None:
        self._state = state
        self._machine = machine
        self._invokes = {invoke.id: at for at, invoke in enumerate(state.invokes) if invoke.id}

    def placed(self) -> Iterator[tuple[Transition, dict[str, Any], list[Slot]]]:
        """Yield each transition with its annotations and its slots."""
        transitions = self._state.transitions
        places = [self._slots(transition) for transition in transitions]
        has_order = all(len(slots) == 1 for slots in places) and _is_in_order(places)
        for order, (transition, slots) in enumerate(zip(transitions, places, strict=True)):
            notes: dict[str, Any] = {} if has_order else {"order": order}
            if self._loses_events(transition, slots):
                notes["events"] = list(transition.events)
            if transition.delay is not None and read_delay(slots[0].key) != transition.delay:
                notes["delay"] = value_to_json(transition.delay)
            yield transition, notes, slots

    def _slots(self, transition: Transition) -> list[Slot]:
        delay = transition.delay
        if delay is not None:
            key = delay.text if isinstance(delay, Expression) else str(delay.value)
            return [Slot("after", key=key)]
        return [self._slot(event) for event in transition.events] or [Slot("always")]

    def _slot(self, event: str) -> Slot:
        """Return the place of an event; a key of `on` is used only if it is read as this event."""
        if event == f"done.state.{self._state.id}":
            return Slot("onDone")
        for start, name in (("done.invoke.", "onDone"), ("error.invoke.", "onError")):
            at = self._invokes.get(event.removeprefix(start)) if event.startswith(start) else None
            if at is not None:
                return Slot(name, at)
        for theirs, ours in EVENT_ALIASES.items():
            key = theirs + event.removeprefix(ours)
            if event.startswith(ours) and read_event(key, self._machine) == event:
                return Slot("on", key=key)
        return Slot("on", key=event)

    def _loses_events(self, transition: Transition, slots: list[Slot]) -> bool:
        """Return whether its slots do not say which events a transition has."""
        if len(slots) > 1 or slots[0].list == "after":
            return bool(transition.events)
        read = (read_event(slots[0].key, self._machine),)
        return slots[0].list == "on" and transition.events != read


def _is_in_order(places: list[list[Slot]]) -> bool:
    """Return whether reading slot after slot gives the same order."""
    firsts = [slots[0] for slots in places]
    numbers: dict[Slot, int] = {}
    for slot in firsts:
        numbers.setdefault(slot, len(numbers))
    order = [(slot.rank, numbers[slot]) for slot in firsts]
    return order == sorted(order)


def _put(config: Any, slot: Slot, state: dict[str, Any], invokes: list[dict[str, Any]]) -> None:
    """Add a transition to a slot of a written state, or of one of its invokes."""
    around, name = invokes[slot.invoke] if slot.invoke >= 0 else state, slot.list
    if name in {"on", "after"}:
        around, name = around.setdefault(name, {}), slot.key
    there = around.get(name)
    if there is not None:
        config = [*there, config] if isinstance(there, list) else [there, config]
    around[name] = config


class Targets:
    """Keys and ids of states, and how one refers to another.

    `keys` are the names of states in their parents; `explicit` are the ids that must be written,
    because they differ from the path of keys.
    """

    def __init__(self, root: State, machine: str) -> None:
        self._machine = machine
        self.keys: dict[str, str] = {}
        self._paths: dict[str, tuple[str, ...]] = {root.id: ()}
        for state, ancestors in walk(root):
            if ancestors:
                self._add(state, ancestors[-1])
        paths = self._paths.items()
        self.explicit = {id for id, path in paths if path and ".".join(path) != id}
        if any(self._is_unclear(path) for path in self._paths.values()):
            self.explicit = self._paths.keys() - {root.id}

    def _add(self, state: State, parent: State) -> None:
        """Give a state a key: its id without the path of its parent, made valid and unused."""
        above = self._paths[parent.id]
        key = state.id.removeprefix(f"{'.'.join(above)}.") if above else state.id
        if _NOT_A_KEY.search(key):
            key = re.sub(r"\W+", "_", key).strip("_") or "state"
        taken = {self.keys.get(child.id) for child in parent.children}
        while key in taken:
            key += "_"
        self.keys[state.id] = key
        self._paths[state.id] = (*above, key)

    def _is_unclear(self, path: tuple[str, ...]) -> bool:
        """Return whether a path from the machine's name could be read as one from another state."""
        words = [*self._machine.split("."), *path]
        return any(".".join(words[:length]) in self.explicit for length in range(1, len(words) + 1))

    def reference(self, source: State, target: str) -> str:
        """Return how a transition of a state refers to its target."""
        here, there = self._paths[source.id], self._paths[target]
        if here and there and here[:-1] == there[:-1]:
            return there[-1]
        if len(there) > len(here) and there[: len(here)] == here:
            return "." + ".".join(there[len(here) :])
        if target in self.explicit:
            return f"#{escape_key(target)}"
        return "#" + ".".join((escape_key(self._machine), *there))

    def inside(self, state: State, target: str) -> str:
        """Return how a state refers to an initial state inside it."""
        return ".".join(self._paths[target][len(self._paths[state.id]) :])


class _Writer:
    """Writes one machine: `found` is what XState has for a state, `notes` its annotations."""

    def __init__(self, definition: Definition) -> None:
        validate(definition)
        self._definition = definition
        self._root = definition.root
        self._machine = definition.name or "machine"
        ids = {state.id for state, _ in walk(self._root)} - {self._root.id}
        while self._machine in ids:  # `#id` could mean both
            self._machine += "_"
        self._targets = Targets(self._root, self._machine)

    def document(self) -> dict[str, Any]:
        """Return the machine config."""
        description = self._definition.description or self._root.description
        head = {
            "id": self._machine,
            **_present(version=self._definition.version, description=description),
        }
        return {**head, **self._state(self._root)}

    def _state(self, state: State) -> dict[str, Any]:
        is_root = state is self._root
        notes = self._root_notes() if is_root else {}
        found: dict[str, Any] = {}
        if state.id in self._targets.explicit:
            found["id"] = state.id
        if state.kind != ("compound" if state.children else "atomic"):
            found["type"] = state.kind
        description = "" if is_root else state.description
        found |= _present(description=description, tags=list(state.tags))
        self._add_data(state, found, notes)
        self._add_initial(state, found, notes)
        for side, blocks in (("entry", state.entry), ("exit", state.exit)):
            actions = tuple(action for block in blocks for action in block)
            found |= _present(**{side: write_actions(actions)})
            if len(blocks) > 1 or (blocks and not actions):  # XState has one block
                notes[side] = [len(block) for block in blocks]
        self._add_transitions(state, found, notes)
        if state.children:
            keys = self._targets.keys
            found["states"] = {keys[child.id]: self._state(child) for child in state.children}
        if state.output is not None:
            data = write_payload(state.output)
            if data is not None:
                found["output"] = data
            else:
                notes["output"] = payload_to_json(state.output)
        return {**found, **_meta(state.meta, notes)}

    def _root_notes(self) -> dict[str, Any]:
        """Return the id of the root and the properties of the chart that differ from XState's."""
        definition, default = self._definition, Definition(self._machine, self._root)
        id = self._root.id if self._root.id != f"#{self._machine}" else ""
        chart = {
            name: getattr(definition, name)
            for name in CHART_PROPERTIES
            if getattr(definition, name) != getattr(default, name)
        }
        chart |= _present(script=write_actions(definition.script))
        return _present(id=id, chart=chart)

    def _add_data(self, state: State, found: dict[str, Any], notes: dict[str, Any]) -> None:
        """Add the data as the context; only the root has one, and only of known values."""
        known = {datum.name: datum.value for datum in state.data if datum.value is not None}
        is_root = state is self._root
        if known and is_root:
            found["context"] = {name: value_to_json(value) for name, value in known.items()}
        if state.data and not (is_root and len(known) == len(state.data)):
            notes["data"] = [
                [datum.name, *([] if datum.value is None else [value_to_json(datum.value)])]
                for datum in state.data
            ]

    def _add_initial(self, state: State, found: dict[str, Any], notes: dict[str, Any]) -> None:
        """Add the initial state, or the target of a history state."""
        initial = state.initial
        if state.kind == "history":
            found["history"] = "deep" if state.is_deep else "shallow"
        if initial is None:
            return
        start: dict[str, Any] = {"internal": True} if initial.is_internal else {}
        actions = _present(actions=write_actions(initial.actions))
        if state.kind == "history":
            found["target"] = self._references(state, initial)
            start |= actions
        else:
            inside = [self._targets.inside(state, target) for target in initial.targets]
            found["initial"] = _one_or_list(inside)
            if actions or len(inside) > 1:
                found["initial"] = {"target": found["initial"], **actions}
        if start:
            notes["initial"] = start

    def _add_transitions(self, state: State, found: dict[str, Any], notes: dict[str, Any]) -> None:
        invokes = [_invoke(invoke, state, at) for at, invoke in enumerate(state.invokes)]
        for transition, extra, slots in Slots(state, self._machine).placed():
            config = self._transition(transition, state, extra)
            for slot in slots:
                _put(config, slot, found, invokes)
        if invokes:
            found["invoke"] = _one_or_list(invokes)
        lacking = [None if _is_plain(invoke) else _invoke_notes(invoke) for invoke in state.invokes]
        if any(note is not None for note in lacking):
            notes["invokes"] = lacking

    def _transition(self, transition: Transition, state: State, extra: dict[str, Any]) -> Any:
        """Return a transition with annotations `extra`; one that has only a target is a text."""
        found: dict[str, Any] = {}
        if transition.targets:
            found["target"] = self._references(state, transition)
        if transition.guard is not None:
            found["guard"] = write_guard(transition.guard)
        found |= _present(
            actions=write_actions(transition.actions),
            reenter=not transition.is_internal,
            description=transition.description,
        )
        found |= _meta(transition.meta, extra)
        is_short = found.keys() == {"target"} and len(transition.targets) == 1
        return found["target"] if is_short else found

    def _references(self, state: State, transition: Transition) -> Any:
        return _one_or_list(
            [self._targets.reference(state, target) for target in transition.targets]
        )


def _invoke(invoke: Invoke, state: State, number: int) -> dict[str, Any]:
    found = _present(id=invoke.id if invoke.id != f"{state.id}.{number}" else None)
    if isinstance(invoke.source, Literal) and isinstance(invoke.source.value, str):
        found["src"] = invoke.source.value
    elif isinstance(invoke.content, Definition):
        found["src"] = to_xstate(invoke.content)
    else:
        found["src"] = invoke.id or "computed"
    data = write_payload(invoke.payload)
    if data is not None and invoke.payload != Payload():
        found["input"] = data
    return found | _present(autoForward=invoke.is_forwarding)


def _is_plain(invoke: Invoke) -> bool:
    """Return whether XState can express the whole invoke."""
    is_named = isinstance(invoke.source, Literal) and isinstance(invoke.source.value, str)
    is_inline = invoke.source is None and isinstance(invoke.content, Definition)
    is_source_plain = is_inline or (is_named and invoke.content is None)
    has_input = write_payload(invoke.payload) is not None
    others = (invoke.type, invoke.id_location, invoke.finalize)
    is_simple = all(each is None for each in others)
    return bool(invoke.id and is_source_plain and has_input and is_simple)


def _invoke_notes(invoke: Invoke) -> dict[str, Any]:
    """Return all fields of an invoke, as the reader's `_annotated_invoke` reads them."""
    found: dict[str, Any] = {}
    values: dict[str, Value | None] = {"source": invoke.source, "type": invoke.type}
    if isinstance(invoke.content, Definition):
        found["chart"] = to_xstate(invoke.content)
    else:
        values["content"] = invoke.content
    found |= {name: value_to_json(value) for name, value in values.items() if value is not None}
    texts = {"id": invoke.id, "idLocation": invoke.id_location}
    found |= {name: text for name, text in texts.items() if text is not None}
    found |= _present(payload=payload_to_json(invoke.payload))
    if invoke.finalize is not None:
        found["finalize"] = write_actions(invoke.finalize)
    return found | _present(forwarding=invoke.is_forwarding)


def _meta(meta: dict[str, Any] | None, notes: dict[str, Any]) -> dict[str, Any]:
    """Return the meta of a state or transition with annotations; `split_annotations` reads it."""
    if meta is not None and ANNOTATIONS in meta:
        return {"meta": {ANNOTATIONS: {"meta": meta, **notes}}}
    if notes:
        return {"meta": {**(meta or {}), ANNOTATIONS: notes}}
    return {} if meta is None else {"meta": meta}


def _present(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


def _one_or_list(items: list[Any]) -> Any:
    return items[0] if len(items) == 1 else items
