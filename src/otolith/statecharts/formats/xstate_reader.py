"""Reads XState's JSON (version 5, and the data-only forms of version 6) into a `Definition`.

A state's id is its `id`, else its path with dots. Transitions are internal unless they have
`reenter`. An invoke without an id is named by its state and number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from otolith.errors import BadChart, BadValue
from otolith.frozen import freeze
from otolith.statecharts.definition import (
    Action,
    Assign,
    Block,
    Call,
    Cancel,
    Datum,
    Definition,
    Emit,
    Expression,
    Guard,
    Invoke,
    Kind,
    Literal,
    Log,
    NamedGuard,
    Param,
    Payload,
    Raise,
    Send,
    State,
    Transition,
    Value,
)
from otolith.statecharts.formats.extensions import (
    PREFIX,
    AnnotationReader,
    NestedFormat,
    action_from_json,
    split_annotations,
)

_LANGUAGES = {None: "ecmascript", "js": "ecmascript", "javascript": "ecmascript"}
_LANGUAGES |= {"ecmascript": "ecmascript", "python": "python", "otolith": "python"}


def as_list(value: Any) -> list[Any]:
    """Return one item or several as a list; None is an empty list."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def read_value(value: Any, place: str) -> Value:
    """Return a literal, or the expression of `{"@expr": ...}`.

    Raises:
        BadChart: the language is unknown, or there is code inside the data.
    """
    if isinstance(value, dict) and "@expr" in value:
        language = value.get("@lang")
        if not isinstance(language, str | None) or language not in _LANGUAGES:
            raise BadChart(f"expressions in {language} are not supported", place=place)
        return Expression(str(value["@expr"]), _LANGUAGES[language])
    if isinstance(value, dict) and value.keys() == {"@value"}:
        return Literal(value["@value"])
    _reject_code(value, place)
    return Literal(value)


def _reject_code(value: Any, place: str) -> None:
    if isinstance(value, dict):
        if "@code" in value or "@expr" in value:
            raise BadChart(
                "code, or an expression inside other data, is not supported",
                place=place,
                hint="name a registered function, or use @expr for the value as a whole",
            )
        for inner in value.values():
            _reject_code(inner, place)
    elif isinstance(value, list | tuple):
        for inner in value:
            _reject_code(inner, place)


def read_params(value: Any, place: str) -> tuple[Param, ...]:
    """Return named values.

    Raises:
        BadChart: it is code or one expression instead.
    """
    if value is None:
        return ()
    if not isinstance(value, dict) or "@expr" in value or "@code" in value:
        raise BadChart("params must be named values, not code or one expression", place=place)
    return tuple(Param(str(name), read_value(inner, place)) for name, inner in value.items())


def read_payload(value: Any, place: str) -> Payload:
    """Return the payload of an output or input: named values, or one value."""
    if isinstance(value, dict) and not {"@expr", "@value"} & value.keys():
        return Payload(read_params(value, place))
    return Payload((), None if value is None else read_value(value, place))


def read_guard(value: Any, place: str) -> Guard | None:
    """Return a guard: a name, an object with a type, or an expression."""
    if value is None:
        return None
    if isinstance(value, str):
        return NamedGuard(value)
    if isinstance(value, dict) and "@expr" in value:
        found = read_value(value, place)
        assert isinstance(found, Expression)
        return found
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return NamedGuard(value["type"], read_params(value.get("params"), place))
    raise BadChart("a guard must be a name, or an object with a type or @expr", place=place)


def read_actions(value: Any, place: str) -> Block:
    """Return one action or several."""
    return tuple(action for entry in as_list(value) for action in _read(entry, place))


def _read(value: Any, place: str) -> tuple[Action, ...]:
    if isinstance(value, str):
        return (Call(value),)
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise BadChart("an action must be a name, or an object with a type", place=place)
    if value["type"].startswith(PREFIX):
        return (action_from_json(value, place, NESTED),)
    name = value["type"].removeprefix("@").removeprefix("xstate.")
    if name != value["type"] and name in _BUILT_IN:
        return _BUILT_IN[name](value, place)
    return (Call(value["type"], read_params(value.get("params"), place)),)


def _assign(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    context = value.get("context", value.get("assignment"))
    return tuple(Assign(param.name, param.value) for param in read_params(context, place))


def _event(value: dict[str, Any], place: str) -> tuple[Value, Payload]:
    event = value.get("event")
    if isinstance(event, str):
        return Literal(event), Payload()
    if not isinstance(event, dict) or "type" not in event:
        raise BadChart(f"{value['type']} has no event", place=place)
    fields = {name: inner for name, inner in event.items() if name != "type"}
    return read_value(event["type"], place), Payload(read_params(fields, place))


def _raise(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    event, payload = _event(value, place)
    delay = value.get("delay")
    if delay is None and isinstance(event, Literal):
        return (Raise(str(event.value), payload),)
    wait = None if delay is None else read_value(delay, place)
    return (Send(event, id=_id(value, place), delay=wait, payload=payload),)


def _id(value: dict[str, Any], place: str) -> str | None:
    found = value.get("id")
    if not isinstance(found, str | None):
        raise BadChart("the id of a sent event must be a text", place=place)
    return found


def _send_to(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    event, payload = _event(value, place)
    target = value.get("target", value.get("to"))
    if isinstance(target, str) and not target.startswith("#_"):
        target = f"#_{target}"
    delay = value.get("delay")
    wait = None if delay is None else read_value(delay, place)
    to = Literal("#_parent") if target is None else read_value(target, place)
    return (Send(event, target=to, id=_id(value, place), delay=wait, payload=payload),)


def _cancel(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    return (Cancel(read_value(value.get("id", value.get("sendId")), place)),)


def _log(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    values = as_list(value.get("args", value.get("value")))
    label = str(value.get("label") or "")
    return tuple(Log(label, read_value(inner, place)) for inner in values)


def _emit(value: dict[str, Any], place: str) -> tuple[Action, ...]:
    event, payload = _event(value, place)
    return (Emit(event, payload),)


_BUILT_IN = {
    "assign": _assign,
    "raise": _raise,
    "sendTo": _send_to,
    "sendParent": _send_to,
    "cancel": _cancel,
    "log": _log,
    "emit": _emit,
}

NESTED = NestedFormat(read_actions, read_guard)


_MAX_DEPTH = 100
_MAX_DATA_DEPTH = 3 * _MAX_DEPTH  # a state is two levels below its parent, and has data
_ALIASES = {
    "xstate.done.actor.": "done.invoke.",
    "xstate.error.actor.": "error.invoke.",
    "xstate.done.state.": "done.state.",
}
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


class _Reader:
    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._name = str(data.get("id") or "machine")
        self._ids: dict[Path, str] = {}
        self._explicit: dict[str, Path] = {}
        self._annotations = AnnotationReader(NESTED, read_xstate)
        self._index_states(data, ())
        names = (self._name, *self._explicit)
        self._max_words = max(name.count(".") + 1 for name in names)

    def _index_states(self, data: Any, path: Path) -> None:
        place = ".".join(path) or self._name
        if len(path) > _MAX_DEPTH:
            raise BadChart(f"states are nested more than {_MAX_DEPTH} deep", place=place)
        _check_state(data, place)
        given = data.get("id") if path else None
        if given is not None:
            self._explicit.setdefault(str(given), path)
        own = split_annotations(data.get("meta"))[1].get("id") if not path else None
        self._ids[path] = str(given or ".".join(path) or own or f"#{self._name}")
        for key, inner in (data.get("states") or {}).items():
            self._index_states(inner, (*path, str(key)))

    def document(self) -> Definition:
        found = Definition(
            name=self._name,
            root=self._state(self._data, ()),
            version=str(self._data.get("version") or ""),
            description=str(self._data.get("description") or ""),
        )
        return self._annotations.chart(found, self._data.get("meta"))

    def _state(self, data: Mapping[str, Any], path: Path) -> State:
        id = self._ids[path]
        children = tuple(
            self._state(inner, (*path, str(key)))
            for key, inner in (data.get("states") or {}).items()
        )
        kind = self._kind(data, id)
        invokes = [
            self._invoke(inner, id, number)
            for number, inner in enumerate(as_list(data.get("invoke")))
        ]
        output = data.get("output")
        found = State(
            id=id,
            kind=kind,
            children=children,
            initial=self._initial(data, path, kind),
            is_deep=data.get("history") == "deep",
            transitions=self._transitions(data, path, invokes),
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
        return self._annotations.state(found)

    def _kind(self, data: Mapping[str, Any], id: str) -> Kind:
        given = data.get("type") or ("compound" if data.get("states") else "atomic")
        kind = next((kind for kind in get_args(Kind) if kind == given), None)
        if kind is None:
            raise BadChart(f"{given!r} is not a type of state", place=id)
        found: Kind = kind
        return found

    def _initial(self, data: Mapping[str, Any], path: Path, kind: Kind) -> Transition | None:
        place = f"{self._ids[path]} initial"
        if kind == "history":
            return self._history_default(data, path, place)
        initial = data.get("initial")
        if kind != "compound" or initial is None:
            return None
        config = initial if isinstance(initial, Mapping) else {"target": initial}
        targets = tuple(
            self._find((*path, *str(target).split(".")), str(target), place)
            if not str(target).startswith(("#", "."))
            else self._target(str(target), path, place)
            for target in as_list(config.get("target"))
        )
        actions = read_actions(config.get("actions"), place)
        return Transition((), targets, is_internal=False, actions=actions, place=place)

    def _history_default(
        self, data: Mapping[str, Any], path: Path, place: str
    ) -> Transition | None:
        """Return the default of a history state: its target, else the parent's initial state."""
        targets = tuple(
            self._target(str(target), path, place) for target in as_list(data.get("target"))
        )
        if not targets:
            around: Any = self._data
            for key in path[:-1]:
                around = around["states"][key]
            targets = self._initial_targets(around, path[:-1])
        return Transition((), targets, is_internal=False, place=place)

    def _initial_targets(self, data: Mapping[str, Any], path: Path) -> tuple[str, ...]:
        """Return the initial targets of a state; for a parallel one, all its regions."""
        if data.get("type") == "parallel":
            states = data.get("states") or {}
            names = [name for name, inner in states.items() if inner.get("type") != "history"]
            return tuple(self._ids[*path, str(name)] for name in names)
        found = self._initial(data, path, "compound")
        return () if found is None else found.targets

    def _transitions(
        self, data: Mapping[str, Any], path: Path, invokes: list[Invoke]
    ) -> tuple[Transition, ...]:
        id = self._ids[path]
        found: list[Transition] = []
        for name, config in (data.get("on") or {}).items():
            found += self._transitions_of(config, path, (self._event(str(name)),))
        found += self._transitions_of(data.get("onDone"), path, (f"done.state.{id}",))
        for invoke, config in zip(invokes, as_list(data.get("invoke")), strict=True):
            if isinstance(config, str):  # a name without handlers
                continue
            found += self._transitions_of(config.get("onDone"), path, (f"done.invoke.{invoke.id}",))
            found += self._transitions_of(
                config.get("onError"), path, (f"error.invoke.{invoke.id}",)
            )
        for delay, config in (data.get("after") or {}).items():
            found += self._transitions_of(config, path, (), delay=_delay(delay))
        if "timeout" in data:
            wait = read_value(data["timeout"], f"{id} timeout")
            found += self._transitions_of(data.get("onTimeout"), path, (), delay=wait)
        found += self._transitions_of(data.get("always"), path, ())
        return tuple(found)

    def _event(self, name: str) -> str:
        for theirs, ours in _ALIASES.items():
            if name.startswith(theirs):
                return ours + name.removeprefix(theirs).removeprefix(f"{self._name}.")
        return name

    def _transitions_of(
        self, config: Any, path: Path, events: tuple[str, ...], delay: Value | None = None
    ) -> list[Transition]:
        what = events[0] if events else "after" if delay else "always"
        place = f"{self._ids[path]} on {what}"
        return [self._transition(one, path, events, delay, place) for one in as_list(config)]

    def _transition(
        self, config: Any, path: Path, events: tuple[str, ...], delay: Value | None, place: str
    ) -> Transition:
        if isinstance(config, str):
            config = {"target": config}
        if not isinstance(config, Mapping):
            raise BadChart("a transition must be a target or an object", place=place)
        if not isinstance(config.get("meta"), Mapping | None):
            raise BadChart("the meta of a transition must be an object", place=place)
        return Transition(
            events=events,
            targets=tuple(
                self._target(str(target), path, place) for target in as_list(config.get("target"))
            ),
            is_internal=not config.get("reenter", False),
            guard=read_guard(config.get("guard", config.get("cond")), place),
            actions=read_actions(config.get("actions"), place),
            delay=delay,
            description=str(config.get("description") or ""),
            meta=config.get("meta"),
            place=place,
        )

    def _target(self, target: str, path: Path, place: str) -> str:
        if target.startswith("#"):
            return self._absolute(target[1:], target, place)
        if target.startswith("."):
            return self._find((*path, *target[1:].split(".")), target, place)
        return self._find((*path[:-1], *target.split(".")), target, place)

    def _absolute(self, target: str, written: str, place: str) -> str:
        words = target.split(".")
        for length in range(min(len(words), self._max_words), 0, -1):
            name, rest = ".".join(words[:length]), tuple(words[length:])
            if name in self._explicit:
                return self._find((*self._explicit[name], *rest), written, place)
            if name == self._name:
                return self._find(rest, written, place)
        return self._find(tuple(words), written, place)

    def _find(self, path: Path, written: str, place: str) -> str:
        found = self._ids.get(path)
        if found is None:
            raise BadChart(f"there is no state {written!r}", place=place)
        return found

    def _invoke(self, config: Any, state: str, number: int) -> Invoke:
        place = f"{state} invoke {number}"
        if isinstance(config, str):
            config = {"src": config}
        if not isinstance(config, Mapping):
            raise BadChart("an invoke must be an object", place=place)
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


_OBJECTS = ("states", "on", "after")
_NAMES = ("id", "type", "history", "version", "description")
_MAX_DIGITS = 20


def _check_state(data: Any, place: str) -> None:
    """Check the types of a state's fields.

    Raises:
        BadChart: the state, one of its tables or its meta is not an object, or a name not a text.
    """
    if not isinstance(data, Mapping):
        raise BadChart("a state must be an object", place=place)
    if not isinstance(data.get("meta"), Mapping | None):
        raise BadChart("the meta of a state must be an object", place=place)
    for name in _OBJECTS:
        if data.get(name) and not isinstance(data[name], Mapping):
            got = type(data[name]).__name__
            raise BadChart(f"{name} must be an object, got {got}", place=place)
    for name in _NAMES:
        if isinstance(data.get(name), Mapping | list):
            got = type(data[name]).__name__
            raise BadChart(f"{name} must be a text, got {got}", place=place)


def _blocks(value: Any, place: str) -> tuple[Any, ...]:
    found = read_actions(value, place)
    return (found,) if found else ()


def _context(value: Any, place: str) -> tuple[Datum, ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise BadChart("the context must be an object", place=place)
    return tuple(
        Datum(str(name), read_value(inner, f"{place} context"), place=place)
        for name, inner in value.items()
    )


def _delay(delay: Any) -> Value:
    """Return a delay: milliseconds, a duration, or an expression."""
    text = str(delay)
    if text.isascii() and text.replace(".", "", 1).isdigit():
        if len(text) > _MAX_DIGITS:
            raise BadChart(f"a delay has {len(text)} digits, at most {_MAX_DIGITS}", place="after")
        return Literal(float(text) if "." in text else int(text))
    return Literal(text) if text[:1].isdigit() else Expression(text)
