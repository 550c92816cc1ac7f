r"""Reads the states of XState's JSON (version 5, and the data of version 6) into a `Definition`.

| XState | a chart |
| --- | --- |
| `id` of the root | the name of the chart; the id of its root is `#` and the name |
| `id` of a state, else its path with dots | the id of the state |
| `type`, else `compound` with `states`, `history` with `history`, and `atomic` | its kind |
| `on`, `onDone`, `invoke.onDone` and `onError`, `after`, `timeout`, `always` | its transitions |
| `reenter: true` | a transition that is not internal |
| `entry`, `exit` | one block of actions each (`xstate_actions`) |
| `context` of the root | its data |
| `invoke`: a name or a chart as `src`, `input` | an invoke; without an id `<state>.<number>` |

Events that XState generates are read by their SCXML names (`EVENT_ALIASES`). A target is a sibling,
`.child`, `.` for the state itself, or `#id` with an optional path, in which `\.` is a dot of a key.
An `initial` may be a key with dots as it is.

What XState cannot express is in annotations of ours under `meta.otolith`. Of a state: `entry` and
`exit` (the number of actions in each block), `data`, `output`, `initial`, `invokes`, the root's
`id`, and `chart` (properties of the whole). Of a transition: `order` (its position in the state),
`events` (all of them) and `delay`. A chart that XState can express has none. A `meta` of the user
that contains `otolith` is moved to `meta.otolith.meta`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, get_args

from otolith.errors import BadChart, BadValue
from otolith.frozen import freeze
from otolith.statecharts.definition import (
    Action,
    Block,
    Datum,
    Definition,
    Expression,
    Invoke,
    Kind,
    Literal,
    State,
    Transition,
    Value,
)
from otolith.statecharts.formats.xstate_actions import (
    as_list,
    check_keys,
    payload_from_json,
    read_actions,
    read_guard,
    read_payload,
    read_value,
    value_from_json,
)

ANNOTATIONS = "otolith"
"""The key of our annotations in a `meta`."""
CHART_PROPERTIES: dict[str, tuple[Any, ...]] = {
    "name": (),
    "dialect": ("python", "ecmascript"),
    "matching": ("prefix", "exact"),
    "binding": ("early", "late"),
    "is_scxml": (True, False),
}
"""Properties of a whole chart, and the values each may have; a name may be any text."""
EVENT_ALIASES = {
    "xstate.done.actor.": "done.invoke.",
    "xstate.error.actor.": "error.invoke.",
    "xstate.done.state.": "done.state.",
}
"""Beginnings of the events that XState generates, and their SCXML names."""
_MAX_DEPTH = 100
_MAX_DATA_DEPTH = 3 * _MAX_DEPTH  # a state is two levels below its parent, and has data
_MAX_DIGITS = 30  # more than any number has that can be a delay
_IGNORED_KEYS = frozenset({"key", "order", "parent", "route", "transitions"})
"""What XState itself writes into a state, and what has no meaning here."""
_STATE_KEYS = _IGNORED_KEYS | {
    *("after", "always", "description", "entry", "exit", "history", "id", "initial", "invoke"),
    *("meta", "on", "onDone", "onTimeout", "output", "states", "tags", "target", "timeout", "type"),
}
_ROOT_KEYS = _STATE_KEYS | {
    *("context", "version", "options", "types", "schemas", "tsTypes", "delimiter", "strict"),
    *("preserveActionOrder", "predictableActionArguments", "$schema"),
}
_TRANSITION_KEYS = frozenset(
    {"actions", "cond", "description", "guard", "meta", "reenter", "target"}
    | {"delay", "eventType", "source"}
)
_INVOKE_KEYS = frozenset(
    {"autoForward", "description", "id", "input", "meta", "onDone", "onError", "onSnapshot"}
    | {"src", "systemId", "type"}
)
_HISTORIES = ("shallow", "deep", True, False, None)
Path = tuple[str, ...]


def read_xstate(data: Mapping[str, Any]) -> Definition:
    """Return the definition of a machine config.

    Raises:
        BadChart: it is not a valid config.
    """
    if not isinstance(data, Mapping):
        raise BadChart("a chart must be an object", place="the document")
    try:
        return _Reader(_plain(data)).document()
    except BadValue as error:
        raise BadChart(error.message, place="the document", hint=error.hint) from error


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a document as plain JSON data.

    Raises:
        BadValue: it contains other types, or is nested too deep.
    """
    if depth > _MAX_DATA_DEPTH:
        raise BadChart(f"it is nested more than {_MAX_DATA_DEPTH} deep", place="the document")
    if isinstance(value, Mapping):
        return {_key(key): _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, depth + 1) for inner in value]
    return freeze(value)


def _key(key: Any) -> str:
    """Return a key as text; delays of `after` are numbers in Python and YAML."""
    if isinstance(key, str):
        return str(key)
    if type(key) in (int, float, bool):
        return str(freeze(key))
    raise BadChart(f"a key must be a text, got {type(key).__name__}", place="the document")


def read_event(key: str, machine: str) -> str:
    """Return the event of a key of `on`, in a machine with this name."""
    for theirs, ours in EVENT_ALIASES.items():
        if key.startswith(theirs):
            return ours + key.removeprefix(theirs).removeprefix(f"{machine}.")
    return key


def read_delay(key: str) -> Value:
    """Return the delay of a key of `after`: milliseconds, a duration, or an expression."""
    if key.isascii() and key.replace(".", "", 1).isdigit():
        return Literal(float(key) if "." in key else int(key))
    return Literal(key) if key[:1].isdigit() else Expression(key)


class _Reader:
    """Reads one machine: first the ids of all states, which targets need, then the states."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._name = str(data.get("id") or "machine")
        self._ids: dict[Path, str] = {}
        self._paths: dict[str, Path] = {}
        """Where `#id` leads: the states with an id in the document, and the machine itself."""
        self._index_states(data, ())
        self._paths.setdefault(self._name, ())
        self._max_words = max(name.count(".") + 1 for name in self._paths)

    def _index_states(self, data: Any, path: Path) -> None:
        """Check a state and all below it, and note their ids; the first of two equal ids wins.

        `validate` refuses a chart with two equal ids, with a better message.
        """
        place = ".".join(path) or self._name
        if len(path) > _MAX_DEPTH:
            raise BadChart(f"states are nested more than {_MAX_DEPTH} deep", place=place)
        _check_state(data, place)
        check_keys(data, _STATE_KEYS if path else _ROOT_KEYS, "a state", place)
        notes = {} if path else split_annotations(data.get("meta"))[1]
        id = data.get("id") if path else None
        if id is not None:
            self._paths.setdefault(str(id), path)
        self._ids[path] = str(id or ".".join(path) or notes.get("id") or f"#{self._name}")
        for key, inner in (data.get("states") or {}).items():
            self._index_states(inner, (*path, key))

    def document(self) -> Definition:
        """Return the definition, with the annotated properties of the whole chart."""
        data, place = self._data, self._name
        root = self._state(data, ())
        notes = split_annotations(data.get("meta"))[1].get("chart") or {}
        if not isinstance(notes, dict):
            raise BadChart(f"meta.{ANNOTATIONS}.chart must be an object", place=place)
        found = {name: value for name, value in notes.items() if name in CHART_PROPERTIES}
        for name, value in found.items():
            allowed = CHART_PROPERTIES[name]
            if not (value in allowed if allowed else isinstance(value, str)):
                raise BadChart(f"{value!r} is not a {name} of a chart", place=place)
        definition = Definition(
            name=self._name,
            root=root,
            script=read_actions(notes.get("script"), place),
            version=str(data.get("version") or ""),
            description=str(data.get("description") or ""),
        )
        return replace(definition, **found)

    # ------------------------------------------------------------ states

    def _state(self, data: Mapping[str, Any], path: Path) -> State:
        id = self._ids[path]
        kind = _kind(data)
        if kind not in get_args(Kind):
            raise BadChart(f"{kind!r} is not a type of state", place=id)
        if kind == "history" and data.get("history") not in _HISTORIES:
            why = f"history must be shallow or deep, got {data['history']!r}"
            raise BadChart(why, place=id)
        children = (data.get("states") or {}).items()
        configs = [
            {"src": config} if isinstance(config, str) else config
            for config in as_list(data.get("invoke"))
        ]
        invokes = [_invoke(config, id, number) for number, config in enumerate(configs)]
        output = data.get("output")
        found = State(
            id=id,
            kind=kind,
            children=tuple(self._state(inner, (*path, key)) for key, inner in children),
            initial=self._initial(data, path, kind),
            is_deep=data.get("history") == "deep",
            transitions=self._transitions(data, path, zip(invokes, configs, strict=True)),
            entry=_blocks(data.get("entry"), f"{id} entry"),
            exit=_blocks(data.get("exit"), f"{id} exit"),
            invokes=tuple(invokes),
            data=() if path else _context(data.get("context"), id),
            output=None if output is None else read_payload(output, f"{id} output"),
            tags=tuple(str(tag) for tag in as_list(data.get("tags"))),
            meta=data.get("meta"),
            description=str(data.get("description") or ""),
            place=id,
        )
        try:
            return _with_annotations(found)
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise BadChart(f"meta.{ANNOTATIONS} cannot be read: {error}", place=id) from error

    def _initial(self, data: Mapping[str, Any], path: Path, kind: Kind) -> Transition | None:
        """Return the initial transition of a compound state, or the default of a history state."""
        place = f"{self._ids[path]} initial"
        if kind == "history":
            targets = self._targets(data.get("target"), path, path[:-1], place)
            targets = targets or self._initial_targets(path[:-1])
            return Transition((), targets, is_internal=False, place=place)
        initial = data.get("initial")
        if kind != "compound" or initial is None:
            return None
        config = initial if isinstance(initial, Mapping) else {"target": initial}
        check_keys(config, _TRANSITION_KEYS, "an initial transition", place)
        given = [str(each) for each in as_list(config.get("target"))]
        given = [escape_key(each) if (*path, each) in self._ids else each for each in given]
        targets = self._targets(given, path, path, place)
        actions = read_actions(config.get("actions"), place)
        return Transition((), targets, is_internal=False, actions=actions, place=place)

    def _initial_targets(self, path: Path) -> tuple[str, ...]:
        """Return the initial targets of a state; for a parallel one, all its regions.

        They are the default of a history state in it that names none.
        """
        data: Any = self._data
        for key in path:
            data = data["states"][key]
        if data.get("type") == "parallel":
            states = data.get("states") or {}
            names = [name for name, inner in states.items() if _kind(inner) != "history"]
            return tuple(self._ids[*path, name] for name in names)
        found = self._initial(data, path, "compound")
        return () if found is None else found.targets

    # ------------------------------------------------------------ transitions

    def _transitions(
        self, data: Mapping[str, Any], path: Path, invokes: Iterable[tuple[Invoke, Any]]
    ) -> tuple[Transition, ...]:
        """Return the transitions of a state, in the order of their triggers in the module's head.

        `Slot.rank` of the writer repeats this order.
        """
        id = self._ids[path]
        triggers: list[tuple[Any, str | None, Value | None]] = [
            (config, read_event(key, self._name), None)
            for key, config in (data.get("on") or {}).items()
        ]
        triggers.append((data.get("onDone"), f"done.state.{id}", None))
        for invoke, config in invokes:
            triggers.append((config.get("onDone"), f"done.invoke.{invoke.id}", None))
            triggers.append((config.get("onError"), f"error.invoke.{invoke.id}", None))
        for key, config in (data.get("after") or {}).items():
            if len(key) > _MAX_DIGITS and key.isascii() and key.replace(".", "", 1).isdigit():
                why = f"a delay has {len(key)} digits, at most {_MAX_DIGITS}"
                raise BadChart(why, place="after")
            triggers.append((config, None, read_delay(key)))
        if "timeout" in data:
            wait = read_value(data["timeout"], f"{id} timeout")
            triggers.append((data.get("onTimeout"), None, wait))
        triggers.append((data.get("always"), None, None))
        return tuple(
            self._transition(config, path, event, delay)
            for configs, event, delay in triggers
            for config in as_list(configs)
        )

    def _transition(
        self, config: Any, path: Path, event: str | None, delay: Value | None
    ) -> Transition:
        trigger = event if event is not None else "after" if delay else "always"
        place = f"{self._ids[path]} on {trigger}"
        if isinstance(config, str):
            config = {"target": config}
        if not isinstance(config, Mapping):
            raise BadChart("a transition must be a target or an object", place=place)
        check_keys(config, _TRANSITION_KEYS, "a transition", place)
        if not isinstance(config.get("meta"), Mapping | None):
            raise BadChart("the meta of a transition must be an object", place=place)
        return Transition(
            events=() if event is None else (event,),
            targets=self._targets(config.get("target"), path, path[:-1], place),
            is_internal=not config.get("reenter", False),
            guard=read_guard(config.get("guard", config.get("cond")), place),
            actions=read_actions(config.get("actions"), place),
            delay=delay,
            description=str(config.get("description") or ""),
            meta=config.get("meta"),
            place=place,
        )

    def _targets(self, given: Any, path: Path, around: Path, place: str) -> tuple[str, ...]:
        """Return the ids of one target or several of a state; a bare name is a state `around`."""
        found: list[str] = []
        for target in map(str, as_list(given)):
            if target == ".":
                id = self._ids.get(path)
            elif target.startswith("#"):
                id = self._ids.get(self._absolute(_keys(target[1:])))
            elif target.startswith("."):
                id = self._ids.get((*path, *_keys(target[1:])))
            else:
                id = self._ids.get((*around, *_keys(target)))
            if id is None:
                raise BadChart(f"there is no state {target!r}", place=place)
            found.append(id)
        return tuple(found)

    def _absolute(self, words: list[str]) -> Path:
        """Return the path of `#id` or `#id.path`; ids may have dots, and the longest wins."""
        for length in range(min(len(words), self._max_words), 0, -1):
            start = self._paths.get(".".join(words[:length]))
            if start is not None:
                return (*start, *words[length:])
        return tuple(words)


def _kind(data: Mapping[str, Any]) -> Any:
    """Return the type of a state; without one, what its fields make it."""
    if data.get("type"):
        return data["type"]
    if data.get("states"):
        return "compound"
    return "history" if data.get("history") else "atomic"


def _keys(path: str) -> list[str]:
    """Return the keys of a path: dots separate them, unless a backslash is before the dot."""
    keys, letters = [""], iter(path)
    for letter in letters:
        if letter == ".":
            keys.append("")
        else:
            keys[-1] += next(letters, "") if letter == "\\" else letter
    return keys


def escape_key(key: str) -> str:
    """Return a key, or an id, as one key of a path."""
    return key.replace("\\", "\\\\").replace(".", "\\.")


def _blocks(value: Any, place: str) -> tuple[Block, ...]:
    found = read_actions(value, place)
    return (found,) if found else ()


def _invoke(config: Any, state: str, number: int) -> Invoke:
    place = f"{state} invoke {number}"
    if not isinstance(config, Mapping):
        raise BadChart("an invoke must be an object", place=place)
    check_keys(config, _INVOKE_KEYS, "an invoke", place)
    source = config.get("src")
    is_inline = isinstance(source, Mapping) and "states" in source
    if not is_inline and not isinstance(source, str):
        raise BadChart("the src of an invoke must name a chart or service", place=place)
    return Invoke(
        id=str(config.get("id") or f"{state}.{number}"),
        source=None if is_inline else Literal(source),
        content=read_xstate(source) if isinstance(source, Mapping) else None,
        payload=read_payload(config.get("input"), place),
        is_forwarding=bool(config.get("autoForward", False)),
        place=place,
    )


def _context(value: Any, place: str) -> tuple[Datum, ...]:
    if not isinstance(value, Mapping | None):
        raise BadChart("the context must be an object", place=place)
    return tuple(
        Datum(name, read_value(inner, f"{place} context"), place=place)
        for name, inner in (value or {}).items()
    )


def _check_state(data: Any, place: str) -> None:
    """Check the types of a state's fields.

    Raises:
        BadChart: the state, one of its tables or its meta is not an object, or a name not a text.
    """
    if not isinstance(data, Mapping):
        raise BadChart("a state must be an object", place=place)
    if not isinstance(data.get("meta"), Mapping | None):
        raise BadChart("the meta of a state must be an object", place=place)
    for name in ("states", "on", "after"):
        if data.get(name) and not isinstance(data[name], Mapping):
            got = type(data[name]).__name__
            raise BadChart(f"{name} must be an object, got {got}", place=place)
    for name in ("id", "type", "history", "version", "description"):
        if isinstance(data.get(name), Mapping | list):
            got = type(data[name]).__name__
            raise BadChart(f"{name} must be a text, got {got}", place=place)


# ---------------------------------------------------------------- annotations


def split_annotations(meta: Any) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the meta of the user, and our annotations that were in it.

    Raises:
        BadChart: the user's meta, which the annotations contain, is not an object.
    """
    if not isinstance(meta, dict) or not isinstance(meta.get(ANNOTATIONS), dict):
        return meta, {}
    notes = meta[ANNOTATIONS]
    if "meta" in notes:
        if not isinstance(notes["meta"], dict | None):
            raise BadChart("it must be an object", place=f"meta.{ANNOTATIONS}.meta")
        return notes["meta"], notes
    rest = {name: value for name, value in meta.items() if name != ANNOTATIONS}
    return rest or None, notes


def _with_annotations(state: State) -> State:
    """Return a state with its annotations applied, and removed from its meta."""
    meta, notes = split_annotations(state.meta)
    place = state.id
    found: dict[str, Any] = {"meta": meta, "transitions": _in_order(state.transitions)}
    for side in ("entry", "exit"):
        if side in notes:
            found[side] = _split_blocks(getattr(state, side), notes[side], place)
    if "data" in notes:
        found["data"] = tuple(_datum(form, place) for form in notes["data"])
    if "output" in notes:
        found["output"] = payload_from_json(notes["output"], place)
    if "initial" in notes and state.initial is not None:
        actions = read_actions(notes["initial"].get("actions"), state.initial.place)
        found["initial"] = replace(
            state.initial,
            is_internal=bool(notes["initial"].get("internal", False)),
            actions=actions or state.initial.actions,
        )
    if "invokes" in notes:
        if not isinstance(notes["invokes"], list) or len(notes["invokes"]) != len(state.invokes):
            raise BadChart("annotations of invokes must be one for each", place=place)
        found["invokes"] = tuple(
            invoke if note is None else _annotated_invoke(note, invoke.place)
            for invoke, note in zip(state.invokes, notes["invokes"], strict=True)
        )
    return replace(state, **found)


def _annotated_invoke(note: dict[str, Any], place: str) -> Invoke:
    """Return an invoke from its annotation, which has all of its fields."""
    texts = [note.get("id"), note.get("idLocation")]
    if not all(isinstance(text, str | None) for text in texts):
        raise BadChart("an id must be a text", place=place)
    names = [name for name in ("source", "type", "content") if name in note]
    values: dict[str, Any] = {name: value_from_json(note[name]) for name in names}
    if "chart" in note:
        values["content"] = read_xstate(note["chart"])
    finalize = note.get("finalize")
    return Invoke(
        id=note.get("id"),
        id_location=note.get("idLocation"),
        payload=payload_from_json(note.get("payload", {}), place),
        finalize=None if finalize is None else read_actions(finalize, place),
        is_forwarding=bool(note.get("forwarding", False)),
        place=place,
        **values,
    )


def _in_order(transitions: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """Return transitions in their annotated order; one that was split by event is joined."""
    found: dict[int, Transition] = {}
    for position, transition in enumerate(transitions):
        meta, notes = split_annotations(transition.meta)
        changes: dict[str, Any] = {"meta": meta}
        if "events" in notes:
            changes["events"] = tuple(str(event) for event in notes["events"])
        if "delay" in notes:
            changes["delay"] = value_from_json(notes["delay"])
        order = notes.get("order", position)
        order = order if isinstance(order, int) else position
        found.setdefault(order, replace(transition, **changes))
    return tuple(found[order] for order in sorted(found))


def _split_blocks(blocks: tuple[Block, ...], sizes: Any, place: str) -> tuple[Block, ...]:
    """Return the actions of a state in blocks of the annotated sizes."""
    actions: list[Action] = [action for block in blocks for action in block]
    if not isinstance(sizes, list) or sum(sizes) != len(actions):
        raise BadChart("annotated block sizes do not match its actions", place=place)
    found: list[Block] = []
    for size in sizes:
        found.append(tuple(actions[:size]))
        actions = actions[size:]
    return tuple(found)


def _datum(form: Any, place: str) -> Datum:
    if not isinstance(form, list) or len(form) not in {1, 2}:
        raise BadChart("annotated data must be names and values", place=place)
    return Datum(str(form[0]), value_from_json(form[1]) if len(form) == 2 else None, place=place)
