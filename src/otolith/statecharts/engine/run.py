"""A run: one chart in the middle of a step, and the world of charts it belongs to.

Snapshots are immutable, so a step works on runs: a `Run` is a snapshot taken apart, with the state
of one session that changes while events are handled; its `World` is what the sessions of one step
share: the time, the effects and trace so far, the counter. When the step is over they are put
together again; when it fails they are thrown away, and the old snapshot is what it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from otolith.errors import BadValue, StepFailed
from otolith.frozen import EMPTY, FrozenDict, freeze, with_items
from otolith.statecharts.snapshot import (
    Child,
    Effect,
    EffectKind,
    Event,
    Microstep,
    Snapshot,
    Status,
    Timer,
)

Model: TypeAlias = Any
"""A `model.Model`. Plans are made of actions, and actions are functions of a run: the arrow points
here, so the type cannot be named."""

SCXML_PROCESSOR = "http://www.w3.org/TR/scxml/#SCXMLEventProcessor"
SYSTEM_NAMES = frozenset({"_event", "_sessionid", "_name", "_ioprocessors", "_x"})


class Failure(Exception):
    """Something in the chart went wrong while it ran; it becomes an event or a `StepFailed`."""

    def __init__(
        self, message: str, *, kind: str = "execution", place: str = "", sendid: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.place = place
        self.sendid = sendid


class StepScope:
    """What the sessions of one step share."""

    __slots__ = ("_prefix", "counter", "effects", "now", "root", "seq", "session", "trace")

    def __init__(self, now: int, seq: int, counter: int, session: str) -> None:
        self.now = now
        self.seq = seq
        self.counter = counter
        self.session = session
        self._prefix = ""
        self.effects: list[Effect] = []
        self.trace: list[Microstep] = []
        self.root: ChartSession

    def next_number(self) -> int:
        """Return the next number that ids are made from; no chance is involved."""
        self.counter += 1
        return self.counter

    def next_key(self) -> str:
        """Return the key of the next effect: the session, the step, and the place in it."""
        if not self._prefix:
            self._prefix = f"{self.session}:{self.seq}:"
        return f"{self._prefix}{len(self.effects)}"


class ChartSession:
    """One session in the middle of a step; also the scope its expressions see."""

    __slots__ = (
        "bound",
        "children",
        "data",
        "event",
        "history",
        "internal",
        "invokeid",
        "is_silent",
        "is_stopping",
        "mask",
        "model",
        "output",
        "parent",
        "path",
        "queue",
        "runs",
        "session",
        "status",
        "timers",
        "to_invoke",
        "world",
    )

    def __init__(
        self,
        world: StepScope,
        model: Model,
        mask: int,
        kept: Snapshot,
        *,
        parent: ChartSession | None = None,
        invokeid: str | None = None,
    ) -> None:
        """Take a snapshot apart; the children in it are up to the caller."""
        self.world = world
        self.model = model
        self.mask = mask
        self.parent = parent
        self.invokeid = invokeid
        self.session = kept.session
        self.path = "" if parent is None else self.session.removeprefix(world.session).lstrip("/")
        """Where it is in the world: empty for the root, else ids of invokes."""
        self.status: Status = kept.status
        self.output: Any = kept.output
        data = kept.data
        self.data: FrozenDict = data if type(data) is FrozenDict else freeze(data)
        self.history: Mapping[str, tuple[str, ...]] = kept.history
        self.bound: tuple[str, ...] = kept.bound
        self.queue: list[Event] = [*kept.queue]
        self.timers: list[Timer] = [*kept.timers]
        self.children: list[Child] = [*kept.children]
        self.runs: dict[str, ChartSession] = {}
        self.internal: deque[Event] = deque()
        self.to_invoke = 0
        self.event: Event | None = None
        self.is_stopping = False
        self.is_silent = False

    # ------------------------------------------------------------ what expressions see

    def system(self, name: str) -> Any:
        """Return one of the variables that belong to the system."""
        if name == "_event":
            return None if self.event is None else FrozenDict(self.event._asdict())
        if name == "_sessionid":
            return self.session
        if name == "_name":
            return self.model.definition.name
        if name == "_ioprocessors":
            here = FrozenDict({"location": f"#_scxml_{self.session}"})
            return FrozenDict({SCXML_PROCESSOR: here, "scxml": here})
        if name == "context" and not self.model.definition.is_scxml:
            return self.data
        if name == "event" and not self.model.definition.is_scxml and self.event is not None:
            fields = self.event.data if isinstance(self.event.data, dict) else {}
            return FrozenDict({"output": self.event.data, **fields, "type": self.event.name})
        raise KeyError(name)

    def is_active(self, state: str) -> bool:
        node = self.model.nodes.get(state)
        return node is not None and bool(self.mask & node.bit)

    # ------------------------------------------------------------ what actions do

    def assign(self, name: str, value: Any) -> None:
        """Give a variable a value; the dict that a snapshot holds is never written to."""
        if name in SYSTEM_NAMES:
            raise Failure(f"{name} belongs to the system and cannot be assigned to")
        self.data = with_items(self.data, {name: frozen(value)})

    def merge(self, updates: dict[str, Any]) -> None:
        """Give several variables their values at once."""
        if not SYSTEM_NAMES.isdisjoint(updates):
            mine = ", ".join(sorted(SYSTEM_NAMES.intersection(updates)))
            raise Failure(f"{mine} belongs to the system and cannot be assigned to")
        self.data = with_items(self.data, frozen(updates))

    def effect(
        self, kind: EffectKind, name: str, params: Mapping[str, Any] = EMPTY, **fields: Any
    ) -> None:
        """Ask the host for something; it is told after the step."""
        world = self.world
        given = EMPTY if params is EMPTY else frozen(params)
        world.effects.append(Effect(kind, name, world.next_key(), given, self.session, **fields))

    def execute(self, block: Iterable[Callable[[ChartSession], None]]) -> None:
        """Do the actions of a block; the first failure ends it."""
        try:
            for action in block:
                action(self)
        except Failure as failure:
            self.fail(failure)

    def fail(self, failure: Failure) -> None:
        """Turn a failure into an error event if this chart deals with those, else stop the step."""
        name = f"error.{failure.kind}"
        if name not in self.model.heard:
            raise StepFailed(
                str(failure),
                place=failure.place or self.model.definition.name,
                hint=f"handle {name} in the chart, or mend the guard or action",
            ) from failure
        told = {"message": str(failure), "place": failure.place}
        self.internal.append(Event(name, freeze(told), "platform", failure.sendid))


def frozen(value: Any) -> Any:
    """Freeze a value that a chart computed."""
    try:
        return freeze(value)
    except BadValue as error:
        raise Failure(str(error)) from error


def blank(model: Model, session: str) -> Snapshot:
    """Return what a session is before its first step."""
    return Snapshot(
        *((), 0, 0, "running", EMPTY, EMPTY, (), (), (), None),
        *(session, 0, (), model.hash, model.definition.version),
    )


def taken(run: ChartSession) -> Snapshot:
    """Return the snapshot of a run and, inside it, of the runs below it."""
    children: tuple[Child, ...] = ()
    if run.children:
        children = tuple(
            child._replace(snapshot=taken(run.runs[child.id])) if child.id in run.runs else child
            for child in run.children
        )
    world, model = run.world, run.model
    is_root = run.parent is None  # what the world shares is told once, by its root
    return Snapshot(
        model.leaves_of(run.mask),
        world.seq if is_root else 0,
        world.now if is_root else 0,
        run.status,
        run.data,
        FrozenDict(run.history) if type(run.history) is not FrozenDict else run.history,
        tuple(run.queue),
        tuple(run.timers),
        children,
        run.output,
        run.session,
        world.counter if is_root else 0,
        run.bound,
        model.hash,
        model.definition.version,
    )
