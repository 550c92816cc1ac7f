"""Writes a `Definition` as XState's JSON.

Version 5 is used where it suffices, then the data-only forms of version 6 (`@xstate.assign`,
`{"@expr": ...}`), then our extensions and annotations (`extensions`), which other tools ignore.

XState stores the transitions of a state by trigger: `on` by event, `onDone`, those of an invoke,
`after` by delay, `always`. That loses their order, and splits a transition with several events.
Where either matters, the transition is annotated (`Slots`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from otolith.statecharts.definition import (
    Action,
    Assign,
    Block,
    Call,
    Cancel,
    Definition,
    Emit,
    Expression,
    Guard,
    Invoke,
    Literal,
    Log,
    Param,
    Payload,
    Raise,
    Send,
    State,
    Transition,
    Value,
    validate,
)
from otolith.statecharts.formats.extensions import (
    PREFIX,
    NestedFormat,
    action_to_json,
    payload_to_json,
    value_to_json,
    with_annotations,
)

_ALIASES = {
    "done.invoke.": "xstate.done.actor.",
    "error.invoke.": "xstate.error.actor.",
    "done.state.": "xstate.done.state.",
}


class Slot(NamedTuple):
    """One place for a transition: which list, of which invoke, under which key."""

    list: str
    invoke: int
    key: str


class Slots:
    """Finds places for the transitions of one state of a chart."""

    def __init__(self, state: State, name: str) -> None:
        self._state = state
        self._name = name
        self._invokes = {invoke.id: at for at, invoke in enumerate(state.invokes) if invoke.id}

    def placed(self) -> Iterator[tuple[Transition, dict[str, Any], list[Slot]]]:
        """Yield each transition with its annotations and its slots."""
        transitions = self._state.transitions
        places = [self._places(transition) for transition in transitions]
        is_kept = all(len(slots) == 1 for slots in places) and self._is_in_order(places)
        for order, (transition, slots) in enumerate(zip(transitions, places, strict=True)):
            notes: dict[str, Any] = {} if is_kept else {"order": order}
            if self._loses_events(transition, slots):
                notes["events"] = list(transition.events)
            if transition.delay is not None and _read_delay(slots[0].key) != transition.delay:
                notes["delay"] = value_to_json(transition.delay)
            yield transition, notes, slots

    def put(
        self, slot: Slot, config: Any, found: dict[str, Any], invokes: list[dict[str, Any]]
    ) -> None:
        """Add a transition to a slot."""
        around = invokes[slot.invoke] if slot.invoke >= 0 else found
        if slot.list in {"on", "after"}:
            around, name = around.setdefault(slot.list, {}), slot.key
        else:
            name = slot.list
        there = around.get(name)
        if there is None:
            around[name] = config
        else:
            around[name] = [*there, config] if isinstance(there, list) else [there, config]

    def _places(self, transition: Transition) -> list[Slot]:
        if transition.delay is not None:
            return [Slot("after", -1, _delay_key(transition.delay))]
        return [self._place(event) for event in transition.events] or [Slot("always", -1, "")]

    def _place(self, event: str) -> Slot:
        if event == f"done.state.{self._state.id}":
            return Slot("onDone", -1, "")
        for start, name in (("done.invoke.", "onDone"), ("error.invoke.", "onError")):
            at = self._invokes.get(event.removeprefix(start)) if event.startswith(start) else None
            if at is not None:
                return Slot(name, at, "")
        for ours, theirs in _ALIASES.items():
            if event.startswith(ours) and self._event(theirs + event.removeprefix(ours)) == event:
                return Slot("on", -1, theirs + event.removeprefix(ours))
        return Slot("on", -1, event)

    def _event(self, key: str) -> str:
        """Return the event that the reader makes of a key of `on`."""
        for ours, theirs in _ALIASES.items():
            if key.startswith(theirs):
                return ours + key.removeprefix(theirs).removeprefix(f"{self._name}.")
        return key

    def _loses_events(self, transition: Transition, slots: list[Slot]) -> bool:
        if len(slots) > 1 or slots[0].list == "after":
            return bool(transition.events)
        return slots[0].list == "on" and transition.events != (self._event(slots[0].key),)

    def _is_in_order(self, places: list[list[Slot]]) -> bool:
        """Return whether reading slot after slot gives the same order."""
        keys: dict[Slot, int] = {}
        for slots in places:
            keys.setdefault(slots[0], len(keys))
        read = sorted(
            range(len(places)), key=lambda at: (_rank(places[at][0]), keys[places[at][0]])
        )
        return read == list(range(len(places)))


def _rank(slot: Slot) -> tuple[int, int, int]:
    if slot.invoke >= 0:
        return 2, slot.invoke, int(slot.list == "onError")
    return {"on": 0, "onDone": 1, "after": 3, "always": 4}[slot.list], 0, 0


def _delay_key(delay: Value) -> str:
    return delay.text if isinstance(delay, Expression) else str(delay.value)


def _read_delay(key: str) -> Value:
    """Return the delay that the reader makes of a key of `after`."""
    if key.replace(".", "", 1).isdigit():
        return Literal(float(key) if "." in key else int(key))
    return Literal(key) if key[:1].isdigit() else Expression(key)


Path = tuple[str, ...]
_NOT_A_KEY = re.compile(r"[.\\]|^#|^__proto__$|^\s|\s$|^$")


def unused_name(definition: Definition) -> str:
    """Return the id of the machine: its name, made different from every state's id."""
    name = definition.name or "machine"
    taken = {state.id for state, _ in _walk(definition.root)}
    while name in taken:
        name += "_"
    return name


class Targets:
    """Keys and ids of states, and how one refers to another.

    `keys` are the names of states in their parents; `explicit` are the ids that must be written,
    because they differ from the path of keys.
    """

    def __init__(self, root: State, name: str) -> None:
        self._root = root
        self._name = name
        self.keys: dict[str, str] = {}
        self._paths: dict[str, Path] = {root.id: ()}
        for state, parent in _walk(root):
            self._add(state, parent)
        paths = self._paths.items()
        self.explicit = {id for id, path in paths if path and ".".join(path) != id}
        if any(self._is_unclear(id) for id in self._paths):
            self.explicit = self._paths.keys() - {root.id}

    def _add(self, state: State, parent: State) -> None:
        above = self._paths[parent.id]
        key = state.id.removeprefix(f"{'.'.join(above)}.") if above else state.id
        if _NOT_A_KEY.search(key):
            key = re.sub(r"\W+", "_", key).strip("_") or "state"
        taken = {self.keys.get(child.id) for child in parent.children}
        while key in taken:
            key += "_"
        self.keys[state.id] = key
        self._paths[state.id] = (*above, key)

    def _is_unclear(self, id: str) -> bool:
        """Return whether a path from the machine's name could be read as one from another state."""
        words = [*self._name.split("."), *self._paths[id]]
        return any(".".join(words[:length]) in self.explicit for length in range(1, len(words) + 1))

    def reference(self, source: State, target: str) -> str:
        """Return how a transition of a state refers to its target."""
        here, there = self._paths[source.id], self._paths[target]
        if here and there and here[:-1] == there[:-1]:
            return there[-1]
        if len(there) > len(here) and there[: len(here)] == here:
            return "." + ".".join(there[len(here) :])
        if target in self.explicit and (len(self.explicit) == len(self.keys) or "." not in target):
            return f"#{target}"
        return "#" + ".".join((self._name, *there))

    def inside(self, state: State, target: str) -> str:
        """Return how a state refers to an initial state inside it."""
        return ".".join(self._paths[target][len(self._paths[state.id]) :])


def _walk(state: State) -> Iterator[tuple[State, State]]:
    for child in state.children:
        yield child, state
        yield from _walk(child)


_BUILT_IN = frozenset({"assign", "raise", "sendTo", "sendParent", "cancel", "log", "emit"})


def actions_data(block: Block) -> list[Any]:
    """Return actions as a list, each a name or an object."""
    return [_action(action) for action in block]


def guard_data(guard: Guard) -> Any:
    """Return a guard: its name, its name and params, or an expression."""
    if isinstance(guard, Expression):
        return value_to_json(guard)
    if not guard.params:
        return guard.name
    params = {param.name: value_to_json(param.value) for param in guard.params}
    return {"type": guard.name, "params": params}


def payload_data(payload: Payload) -> Any:
    """Return a payload as named values or one value; None if it is neither."""
    content = payload.content
    if content is None:
        return _params_to_json(payload.params)
    is_taken_for_params = isinstance(content, Literal) and isinstance(content.value, dict | None)
    return None if payload.params or is_taken_for_params else value_to_json(content)


def _params_to_json(params: Iterable[Param]) -> dict[str, Any] | None:
    """Return params as an object; None if two share a name, or a name begins with `@`."""
    pairs = [(param.name, value_to_json(param.value)) for param in params]
    found = dict(pairs)
    if len(found) < len(pairs) or any(name.startswith("@") for name in found):
        return None
    return found


NESTED = NestedFormat(actions_data, guard_data)


def _action(action: Action) -> Any:
    write = _WRITERS.get(type(action))
    found = None if write is None else write(action)
    return action_to_json(action, NESTED) if found is None else found


def _assign(action: Assign) -> Any:
    if action.location.startswith("@"):
        return None
    return {"type": "@xstate.assign", "context": {action.location: value_to_json(action.value)}}


def _event(event: Value, payload: Payload) -> dict[str, Any] | None:
    """Return an event as an object; None if its data cannot be fields beside `type`."""
    given = None if payload.content is not None else _params_to_json(payload.params)
    if given is None or "type" in given:
        return None
    return {"type": value_to_json(event), **given}


def _raise(action: Raise) -> Any:
    event = _event(Literal(action.event), action.payload)
    return None if event is None else {"type": "@xstate.raise", "event": event}


def _send(action: Send) -> Any:
    """Return `sendTo`, or a delayed `raise`; None for a send that XState cannot express."""
    if action.event is None or action.type is not None or action.id_location is not None:
        return None
    event = _event(action.event, action.payload)
    if event is None or (action.target is None and action.delay is None):
        return None
    if isinstance(action.event, Literal) and not isinstance(action.event.value, str):
        return None
    found: dict[str, Any] = {"type": "@xstate.raise", "event": event}
    if action.target is not None:
        found = {"type": "@xstate.sendTo", "target": value_to_json(action.target), "event": event}
        if isinstance(action.target, Literal) and not _is_address(action.target.value):
            return None
    if action.delay is not None:
        if isinstance(action.delay, Literal) and action.delay.value is None:
            return None
        found["delay"] = value_to_json(action.delay)
    return found if action.id is None else {**found, "id": action.id}


def _is_address(target: Any) -> bool:
    return isinstance(target, str) and target.startswith("#_")


def _cancel(action: Cancel) -> Any:
    return {"type": "@xstate.cancel", "id": value_to_json(action.id)}


def _log(action: Log) -> Any:
    if action.value is None:
        return None
    found: dict[str, Any] = {"type": "@xstate.log", "args": [value_to_json(action.value)]}
    return {**found, "label": action.label} if action.label else found


def _emit(action: Emit) -> Any:
    event = _event(action.event, action.payload)
    return None if event is None else {"type": "@xstate.emit", "event": event}


def _call(action: Call) -> Any:
    short = action.name.removeprefix("@").removeprefix("xstate.")
    is_taken = short != action.name and short in _BUILT_IN
    params = _params_to_json(action.params)
    if is_taken or action.name.startswith(PREFIX) or params is None:
        return None
    return {"type": action.name, "params": params} if params else action.name


_WRITERS: dict[type[Action], Callable[[Any], Any]] = {
    Assign: _assign,
    Raise: _raise,
    Send: _send,
    Cancel: _cancel,
    Log: _log,
    Emit: _emit,
    Call: _call,
}


def to_xstate(definition: Definition) -> dict[str, Any]:
    """Return the chart as a machine config of plain JSON data.

    Raises:
        BadChart: the chart is not valid.
    """
    return _Writer(definition).document()


class _Writer:
    def __init__(self, definition: Definition) -> None:
        validate(definition)
        self._definition = definition
        self._name = unused_name(definition)
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
        """Return the properties of the chart that differ from XState's."""
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

    def _state(self, state: State) -> dict[str, Any]:
        is_root = state is self._definition.root
        found: dict[str, Any] = {}
        notes: dict[str, Any] = {}
        if is_root:
            self._annotate_root(state, notes)
        elif state.id in self._targets.explicit:
            found["id"] = state.id
        if state.kind != ("compound" if state.children else "atomic"):
            found["type"] = state.kind
        if state.description and not is_root:
            found["description"] = state.description
        if state.tags:
            found["tags"] = list(state.tags)
        self._add_data(state, found, notes)
        self._add_initial(state, found, notes)
        for side, blocks in (("entry", state.entry), ("exit", state.exit)):
            _add_blocks(side, blocks, found, notes)
        self._add_transitions(state, found, notes)
        if state.children:
            keys = self._targets.keys
            found["states"] = {keys[child.id]: self._state(child) for child in state.children}
        if state.output is not None:
            data = payload_data(state.output)
            found |= {} if data is None else {"output": data}
            notes |= {"output": payload_to_json(state.output)} if data is None else {}
        meta = with_annotations(state.meta, notes)
        return found if meta is None else {**found, "meta": meta}

    def _annotate_root(self, state: State, notes: dict[str, Any]) -> None:
        if state.id != f"#{self._name}":
            notes["id"] = state.id
        chart = self._chart_notes()
        if chart:
            notes["chart"] = chart

    def _add_data(self, state: State, found: dict[str, Any], notes: dict[str, Any]) -> None:
        known = {datum.name: datum.value for datum in state.data if datum.value is not None}
        is_root = state is self._definition.root
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
        if state.kind == "history":
            found["target"] = _one_or_list(
                [self._targets.reference(state, target) for target in initial.targets]
            )
            start |= {"actions": actions_data(initial.actions)} if initial.actions else {}
        else:
            inside = [self._targets.inside(state, target) for target in initial.targets]
            found["initial"] = _one_or_list(inside)
            if initial.actions or len(inside) > 1:
                found["initial"] = {"target": found["initial"]}
            if initial.actions:
                found["initial"]["actions"] = actions_data(initial.actions)
        if start:
            notes["initial"] = start

    def _add_transitions(self, state: State, found: dict[str, Any], notes: dict[str, Any]) -> None:
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

    def _transition(self, transition: Transition, state: State, extra: dict[str, Any]) -> Any:
        found: dict[str, Any] = {}
        if transition.targets:
            targets = [self._targets.reference(state, target) for target in transition.targets]
            found["target"] = _one_or_list(targets)
        if transition.guard is not None:
            found["guard"] = guard_data(transition.guard)
        if transition.actions:
            found["actions"] = actions_data(transition.actions)
        if not transition.is_internal:
            found["reenter"] = True
        if transition.description:
            found["description"] = transition.description
        meta = with_annotations(transition.meta, extra)
        if meta is not None:
            found["meta"] = meta
        is_short = found.keys() == {"target"} and len(transition.targets) == 1
        return found["target"] if is_short else found

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
    """Add the actions of blocks; XState has one block, so their sizes are annotated."""
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
    """Return whether XState can express the whole invoke."""
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
    found |= {name: value_to_json(value) for name, value in values.items() if value is not None}
    texts = {"id": invoke.id, "idLocation": invoke.id_location}
    found |= {name: text for name, text in texts.items() if text is not None}
    if invoke.payload != Payload():
        found["payload"] = payload_to_json(invoke.payload)
    if invoke.finalize is not None:
        found["finalize"] = actions_data(invoke.finalize)
    return {**found, "forwarding": True} if invoke.is_forwarding else found


def _one_or_list(items: list[str]) -> Any:
    return items[0] if len(items) == 1 else items
