"""A snapshot: a running chart between two steps, as one immutable value.

Everything the next step depends on is in it: which states are active, what history remembers,
events that wait, timers as absolute deadlines, the data, the children with their own snapshots,
and the counter that ids are made from. `to_data` gives one dict that JSON can carry, `from_data`
takes it back: in another process, a year later, the run goes on as if nothing had happened.

What a world of charts shares (the number of the step, the time, the counter) is told by its root;
in the snapshots of children it is 0.

Times are microseconds since 1970, as everywhere in otolith. `time` never goes back: a clock that
jumps is not followed.

Effects: what a step asks the world to do, as data.

Nothing impure happens inside a step. What the chart wants done outside leaves it as a list of
effects, and the host carries them out after the snapshot was kept. The key of an effect is made of
the session's name, the number of the step and the place in its list: the same step done again
gives the same keys, so that a host can see what it did already. Two branches of one run make
steps of the same numbers: give each branch its own session name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from otolith.errors import BadValue, Corrupt
from otolith.frozen import EMPTY, FrozenDict, freeze, thaw
from otolith.shapes import NOTHING, Shape, fields, mapping, several

Status: TypeAlias = Literal["running", "done", "error"]
FORMAT = 1


class Event(NamedTuple):
    """Something that happened, as charts see it."""

    name: str
    data: Any = None
    type: str = "external"
    sendid: str | None = None
    origin: str | None = None
    origintype: str | None = None
    invokeid: str | None = None


class Timer(NamedTuple):
    """An event to be delivered when `due` has come; `number` orders those due together."""

    due: int
    number: int
    id: str
    event: Event
    target: str | None = None
    type: str | None = None


class Microstep(NamedTuple):
    """One line of a trace: what was left, taken (numbers of transitions) and entered, and why."""

    event: str
    exited: tuple[str, ...]
    taken: tuple[int, ...]
    entered: tuple[str, ...]
    session: str = ""


class Child(NamedTuple):
    """What a state has invoked: a child chart with its snapshot, or a service outside."""

    id: str
    state: str
    number: int
    """Which of the state's invokes this is."""
    source: str | None = None
    """The name, or the text, that the chart was found by while running."""
    snapshot: Snapshot | None = None
    is_service: bool = False


class Snapshot(NamedTuple):
    """A running chart between two steps."""

    configuration: tuple[str, ...]
    """The active states that have no active child, in document order."""
    seq: int
    time: int
    status: Status
    data: Mapping[str, Any]
    history: Mapping[str, tuple[str, ...]]
    queue: tuple[Event, ...]
    timers: tuple[Timer, ...]
    children: tuple[Child, ...]
    output: Any
    session: str
    counter: int
    bound: tuple[str, ...]
    """With late binding: the states whose data was set at their first entry."""
    chart: str
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
            "format": FORMAT,
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
            "queue": [_event_data(event) for event in self.queue],
            "timers": [_timer_data(timer) for timer in self.timers],
            "children": [_child_data(child) for child in self.children],
            "bound": list(self.bound),
            "output": thaw(self.output),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Snapshot:
        """Return the snapshot that `to_data` gave.

        Raises:
            Corrupt: this is not such a dict.
        """
        try:
            return _snapshot(data)
        except BadValue as error:
            raise Corrupt(
                f"this is not the data of a snapshot: {error.message}", hint="restore an older one"
            ) from error


def _event_data(event: Event) -> dict[str, Any]:
    return {**event._asdict(), "data": thaw(event.data)}


def _timer_data(timer: Timer) -> dict[str, Any]:
    return {**timer._asdict(), "event": _event_data(timer.event)}


def _child_data(child: Child) -> dict[str, Any]:
    return {**child._asdict(), "snapshot": child.snapshot and child.snapshot.to_data()}


_TEXT: tuple[type, ...] = (str, NOTHING)
_EVENT: Shape = {"name": str, "data": object}
_EVENT_MORE: Shape = {"type": str, "sendid": _TEXT, "origin": _TEXT, "origintype": _TEXT}
_TIMER: Shape = {"due": int, "number": int, "id": str, "event": dict}
_CHILD: Shape = {"id": str, "state": str, "number": int, "snapshot": (dict, NOTHING)}
_SNAPSHOT: Shape = {
    "format": int,
    "configuration": list,
    "seq": int,
    "time": int,
    "status": str,
    "data": (dict, NOTHING),
    "history": dict,
    "queue": list,
    "timers": list,
    "children": list,
    "output": object,
    "session": str,
    "counter": int,
    "bound": list,
    "chart": str,
    "version": str,
}
_DEEPEST = 50
"""How many charts may have invoked one another."""


def _event(data: object) -> Event:
    found = fields(data, "an event", _EVENT, {**_EVENT_MORE, "invokeid": _TEXT})
    return Event(**{**found, "data": freeze(found["data"])})


def _timer(data: object) -> Timer:
    found = fields(data, "a timer", _TIMER, {"target": _TEXT, "type": _TEXT})
    return Timer(**{**found, "event": _event(found["event"])})


def _child(data: object, depth: int) -> Child:
    found = fields(data, "a child", _CHILD, {"source": _TEXT, "is_service": bool})
    inner = found["snapshot"]
    return Child(**{**found, "snapshot": None if inner is None else _snapshot(inner, depth + 1)})


def _texts(data: object, what: str) -> tuple[str, ...]:
    return tuple(several(data, what, str))


def _snapshot(data: object, depth: int = 0) -> Snapshot:
    found = fields(data, "a snapshot", _SNAPSHOT, is_open=True)
    if found["format"] != FORMAT or found["status"] not in get_args(Status):
        raise Corrupt(
            f"a snapshot has format {found['format']} and status {found['status'][:20]!r}",
            hint=f"format {FORMAT} is read here, with one of {', '.join(get_args(Status))}",
        )
    if depth > _DEEPEST:
        raise Corrupt(f"charts are nested more than {_DEEPEST} deep", hint="restore an older one")
    history = mapping(found["history"], "the history of a snapshot", list)
    return Snapshot(
        configuration=_texts(found["configuration"], "the configuration of a snapshot"),
        seq=found["seq"],
        time=found["time"],
        status=found["status"],
        data=freeze(found["data"]) if found["data"] else EMPTY,
        history=FrozenDict({name: _texts(each, "a history") for name, each in history.items()}),
        queue=tuple(_event(event) for event in found["queue"]),
        timers=tuple(_timer(timer) for timer in found["timers"]),
        children=tuple(_child(child, depth) for child in found["children"]),
        output=freeze(found["output"]),
        session=found["session"],
        counter=found["counter"],
        bound=_texts(found["bound"], "what is bound in a snapshot"),
        chart=found["chart"],
        version=found["version"],
    )


EffectKind: TypeAlias = Literal["call", "send", "invoke", "stop", "log", "emit"]
_EFFECT: Shape = {"kind": str, "name": str, "key": str, "params": dict}
_EFFECT_MORE: Shape = {"session": str, "id": _TEXT, "target": _TEXT, "type": _TEXT}


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing to do outside.

    call: a named action, `params` are its arguments. send: an event for `target`. invoke and stop:
    begin and end the service `name`, known as `id`; it answers with `done.invoke.<id>` or
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
            "kind": self.kind,
            "name": self.name,
            "key": self.key,
            "params": thaw(self.params),
            "session": self.session,
            "id": self.id,
            "target": self.target,
            "type": self.type,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Effect:
        """Return the effect that `to_data` gave.

        Raises:
            Corrupt: this is not such a dict.
        """
        found = fields(data, "an effect", _EFFECT, _EFFECT_MORE)
        if found["kind"] not in get_args(EffectKind):
            raise Corrupt(f"{found['kind'][:20]!r} is no kind of effect", hint="upgrade otolith")
        try:
            return cls(**{**found, "params": freeze(found["params"])})
        except BadValue as error:
            raise Corrupt(f"an effect has {error.message}", hint="restore an older one") from error

    def with_key(self, key: str) -> Effect:
        """Return the same effect under another key: a host may know more than a chart does."""
        return replace(self, key=key)
