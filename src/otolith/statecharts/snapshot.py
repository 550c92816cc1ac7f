"""The snapshot: a running chart between two steps, as one immutable value.

It holds everything that the next step depends on: which states are active, what history states
remember, queued events, timers as absolute deadlines, the data, children with their own snapshots,
and the counter for generated ids. `to_data` returns one dict that JSON can carry and `from_data`
reads it back: in another process, a year later, the run continues as if it had never stopped.

The number of the step, the time and the counter are shared by a chart and its children. The root's
snapshot holds them; in the snapshots of children they are 0. Times are microseconds since 1970.
`time` never goes back: a clock that jumps is ignored.

A snapshot may come from a store that somebody changed. `from_data` checks what can be told without
the chart, and `check_fields` the same of a snapshot that was made by hand; the engine's `restore`
checks it against the chart. All verbs go through these, so all refuse it with the same error.

Effects are what a step asks the host to do, as data. Nothing impure happens inside a step: the host
carries effects out after the snapshot was stored. The key of an effect is made of the session's
name, the number of the step and the position in its list, so the same step done again gives the
same keys, and a host can see what it has already done. Two branches of one run make steps of the
same numbers: give each branch its own session name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from otolith.errors import BadValue, Corrupt
from otolith.frozen import EMPTY, FrozenDict, freeze, thaw
from otolith.shapes import NOTHING, Shape, fields, fits, mapping, several
from otolith.types import short_repr

Status: TypeAlias = Literal["running", "done", "error"]
EffectKind: TypeAlias = Literal["call", "send", "invoke", "stop", "log", "emit"]

_FORMAT = 1
_MAX_DEPTH = 50
"""How many charts may have invoked one another."""

_HINT = "restore an older one"
_LIMIT = 1 << 63
_STATUSES: tuple[Status, ...] = get_args(Status)
_TEXT: tuple[type, ...] = (str, NOTHING)
_EVENT: Shape = {"name": str, "data": object}
_EVENT_OPTIONAL: Shape = {"type": str} | dict.fromkeys(
    ("sendid", "origin", "origintype", "invokeid"), _TEXT
)
_TIMER: Shape = {"due": int, "number": int, "id": str, "event": dict}
_CHILD: Shape = {"id": str, "state": str, "number": int, "snapshot": (dict, NOTHING)}
_EFFECT: Shape = {"kind": str, "name": str, "key": str, "params": dict}
_EFFECT_OPTIONAL: Shape = {"session": str, "id": _TEXT, "target": _TEXT, "type": _TEXT}
_EFFECT_FIELDS = (*_EFFECT, *_EFFECT_OPTIONAL)
_SNAPSHOT: Shape = {
    "format": int,
    "seq": int,
    "time": int,
    "counter": int,
    "chart": str,
    "version": str,
    "session": str,
    "status": str,
    "configuration": list,
    "queue": list,
    "timers": list,
    "children": list,
    "bound": list,
    "data": (dict, NOTHING),
    "history": dict,
    "output": object,
}


_FIELD_KINDS: Shape = {
    **{name: kind for name, kind in _SNAPSHOT.items() if kind is str or kind is dict},
    **dict.fromkeys(("configuration", "queue", "timers", "children", "bound"), tuple),
    **dict.fromkeys(("seq", "time", "counter"), int),
    "data": dict,
}


class ChartEvent(NamedTuple):
    """An event as charts see it; the fields are those of SCXML's `_event`."""

    name: str
    data: Any = None
    type: str = "external"
    sendid: str | None = None
    origin: str | None = None
    origintype: str | None = None
    invokeid: str | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the event as one plain dict."""
        return {**self._asdict(), "data": thaw(self.data)}

    @classmethod
    def from_data(cls, data: object) -> ChartEvent:
        """Return the event that `to_data` gave.

        Raises:
            Corrupt: this is not such a dict.
        """
        found = fields(data, "an event", _EVENT, _EVENT_OPTIONAL)
        if not found["name"]:
            raise Corrupt("an event has no name", hint=_HINT)
        return cls(**{**found, "data": freeze(found["data"])})


class Timer(NamedTuple):
    """An event to deliver at the time `due`; `number` orders timers that are due together."""

    due: int
    number: int
    id: str
    event: ChartEvent
    target: str | None = None
    type: str | None = None


class Microstep(NamedTuple):
    """One line of a trace: the event, the states exited and entered, and the transitions taken.

    Transitions are numbers in document order; `session` is the path of the child, "" for the root.
    """

    event: str
    exited: tuple[str, ...]
    taken: tuple[int, ...]
    entered: tuple[str, ...]
    session: str = ""


class Child(NamedTuple):
    """What a state has invoked: a child chart with its snapshot, or a service of the host."""

    id: str
    state: str
    number: int
    """The position of the invoke among those of the state."""
    source: str | None = None
    """The name, or the SCXML text, by which the chart is found again."""
    snapshot: ChartSnapshot | None = None
    is_service: bool = False


@short_repr("phase", "status", "seq", "data", "output")
class ChartSnapshot(NamedTuple):
    """A running chart between two steps."""

    configuration: tuple[str, ...]
    """The active states that have no active child, in document order."""
    seq: int
    """The number of the step that made this snapshot."""
    time: int
    status: Status
    data: Mapping[str, Any]
    history: Mapping[str, tuple[str, ...]]
    queue: tuple[ChartEvent, ...]
    timers: tuple[Timer, ...]
    children: tuple[Child, ...]
    output: Any
    session: str
    counter: int
    bound: tuple[str, ...]
    """With late binding: the states whose data was initialized at their first entry."""
    chart: str
    """The hash of the chart."""
    version: str

    @property
    def phase(self) -> str:
        """The active state; of several regions, their states joined by a comma."""
        return ", ".join(self.configuration)

    @property
    def next_due(self) -> int | None:
        """When the next timer is due, here or in a child; None if there is none."""
        own = [timer.due for timer in self.timers]
        below = [child.snapshot.next_due for child in self.children if child.snapshot]
        return min([*own, *(due for due in below if due is not None)], default=None)

    def to_data(self) -> dict[str, Any]:
        """Return the snapshot as one plain dict that JSON can carry."""
        return {
            "format": _FORMAT,
            "chart": self.chart,
            "version": self.version,
            "session": self.session,
            "configuration": list(self.configuration),
            "status": self.status,
            "seq": self.seq,
            "time": self.time,
            "counter": self.counter,
            "data": thaw(self.data),
            "history": {name: list(states) for name, states in self.history.items()},
            "queue": [event.to_data() for event in self.queue],
            "timers": [
                {**timer._asdict(), "event": timer.event.to_data()} for timer in self.timers
            ],
            "children": [
                {**child._asdict(), "snapshot": child.snapshot and child.snapshot.to_data()}
                for child in self.children
            ],
            "bound": list(self.bound),
            "output": thaw(self.output),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> ChartSnapshot:
        """Return the snapshot that `to_data` gave.

        Raises:
            Corrupt: this is not such a dict.
        """
        try:
            return _snapshot(data, depth=0)
        except BadValue as error:
            message = f"this is not the data of a snapshot: {error.message}"
            raise Corrupt(message, hint=_HINT) from error


def _snapshot(data: object, depth: int) -> ChartSnapshot:
    """Return a snapshot with its children; `depth` counts those above it."""
    found = fields(data, "a snapshot", _SNAPSHOT, is_open=True)
    format = found.pop("format")
    if format != _FORMAT:
        raise Corrupt(f"a snapshot has format {format}", hint=f"format {_FORMAT} is read here")
    if depth > _MAX_DEPTH:
        message = f"charts have invoked one another more than {_MAX_DEPTH} deep"
        raise Corrupt(message, hint=_HINT)
    history = mapping(found["history"], "the history of a snapshot", list)
    snapshot = ChartSnapshot(
        **found
        | {
            "configuration": _texts(found["configuration"], "the configuration of a snapshot"),
            "data": freeze(found["data"]) if found["data"] else EMPTY,
            "history": FrozenDict({id: _texts(each, "a history") for id, each in history.items()}),
            "queue": tuple(ChartEvent.from_data(event) for event in found["queue"]),
            "timers": tuple(_timer(timer) for timer in found["timers"]),
            "children": tuple(_child(child, depth) for child in found["children"]),
            "output": freeze(found["output"]),
            "bound": _texts(found["bound"], "the bound states of a snapshot"),
        }
    )
    check_fields(snapshot)
    return snapshot


def _timer(data: object) -> Timer:
    """Return the timer of a dict."""
    found = fields(data, "a timer", _TIMER, {"target": _TEXT, "type": _TEXT})
    return Timer(**{**found, "event": ChartEvent.from_data(found["event"])})


def _child(data: object, depth: int) -> Child:
    """Return the child of a dict, with its snapshot."""
    found = fields(data, "a child", _CHILD, {"source": _TEXT, "is_service": bool})
    inner = found["snapshot"]
    return Child(**{**found, "snapshot": None if inner is None else _snapshot(inner, depth + 1)})


def check_fields(snapshot: ChartSnapshot) -> None:
    """Check that the fields of a snapshot have the types and the values that they can have.

    Raises:
        BadValue: it is not a snapshot at all.
        Corrupt: a field is of another type, or has a value that no step gives it.
    """
    kinds = tuple(map(type, snapshot)) if type(snapshot) is ChartSnapshot else ()
    if kinds not in _KNOWN_KINDS:
        _check_kinds(snapshot)
        _KNOWN_KINDS.add(kinds)
    if snapshot.status not in _STATUSES:
        hint = f"it must be one of {', '.join(_STATUSES)}"
        raise Corrupt(f"the status of a snapshot is {snapshot.status[:20]!r}", hint=hint)
    for name in ("seq", "time", "counter"):
        number = getattr(snapshot, name)
        if not (-_LIMIT if name == "time" else 0) <= number < _LIMIT:
            raise Corrupt(f"the {name} of a snapshot is {str(number)[:40]}", hint=_HINT)
    if snapshot.timers or snapshot.queue or snapshot.children:
        _check_elements(snapshot)


_KNOWN_KINDS: set[tuple[type, ...]] = set()
"""The types of fields that were checked already: there are few, and most steps meet the same."""


def _check_kinds(snapshot: object) -> None:
    """Check the types of the fields of a snapshot."""
    if not isinstance(snapshot, ChartSnapshot):
        raise BadValue(
            f"a snapshot must be a ChartSnapshot, got {type(snapshot).__name__}",
            hint="read it with ChartSnapshot.from_data",
        )
    for name, kind in _FIELD_KINDS.items():
        if not fits(getattr(snapshot, name), kind):
            got = type(getattr(snapshot, name)).__name__
            raise Corrupt(f"the {name} of a snapshot is a {got}", hint=_HINT)


def _check_elements(snapshot: ChartSnapshot) -> None:
    """Check the timers, children and waiting events of a snapshot."""
    _, _, _, _, _, _, queue, timers, children, *_ = snapshot
    is_right = (
        all(type(each) is Timer and type(each.due) is int for each in timers)
        and all(type(each) is Child for each in children)
        and len({each.id for each in children}) == len(children)
        and all(
            type(each) is ChartEvent and each.name
            for each in (*queue, *(timer.event for timer in timers))
        )
    )
    if not is_right:
        what = "a timer, a child or a waiting event that no step gives it"
        raise Corrupt(f"a snapshot has {what}", hint=_HINT)


def _texts(data: object, what: str) -> tuple[str, ...]:
    return tuple(several(data, what, str))


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a step asks the host to do.

    call: a named action with `params` as its arguments. send: an event for `target`. invoke and
    stop: start and stop the service `name`, known as `id`; it answers with `done.invoke.<id>` or
    `error.invoke.<id>`. log: a label and a value. emit: an event for listeners.
    """

    kind: EffectKind
    name: str
    key: str
    params: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    session: str = ""
    id: str | None = None
    target: str | None = None
    type: str | None = None

    def to_data(self) -> dict[str, Any]:
        """Return the effect as one plain dict."""
        return {
            **{name: getattr(self, name) for name in _EFFECT_FIELDS},
            "params": thaw(self.params),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Effect:
        """Return the effect that `to_data` gave.

        Raises:
            Corrupt: this is not such a dict.
        """
        found = fields(data, "an effect", _EFFECT, _EFFECT_OPTIONAL)
        if found["kind"] not in get_args(EffectKind):
            kind = found["kind"][:20]
            raise Corrupt(f"{kind!r} is not a known kind of effect", hint="upgrade otolith")
        try:
            return cls(**{**found, "params": freeze(found["params"])})
        except BadValue as error:
            raise Corrupt(f"an effect has {error.message}", hint="restore an older one") from error
