"""The mutable sessions that a step works on while it runs.

Snapshots are immutable, so a step takes them apart: a `ChartSession` holds the state of one running
chart and is changed in place; a `StepScope` holds what all sessions of one step share (the time,
the effects and the trace so far, the counter for ids). At the end of the step `snapshot` puts the
pieces together again. A step that fails drops its sessions, and the old snapshot stays valid.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from otolith.errors import BadValue, StepFailed
from otolith.frozen import EMPTY, FrozenDict, FrozenList, check_extent, freeze, with_items
from otolith.statecharts.snapshot import (
    ChartEvent,
    ChartSnapshot,
    Child,
    Effect,
    EffectKind,
    Microstep,
    Status,
    Timer,
)

AnyCompiledChart: TypeAlias = Any
"""A `CompiledChart`. It is made of functions that take a session, so its module imports this one,
and its type cannot be named here."""

SCXML_PROCESSOR = "http://www.w3.org/TR/scxml/#SCXMLEventProcessor"
SYSTEM_NAMES = frozenset({"_event", "_sessionid", "_name", "_ioprocessors", "_x"})
"""The variables of SCXML that a chart can read and not assign."""


class ChartFailure(Exception):
    """A failure inside a chart: it becomes an error event for the chart, or a `StepFailed`."""

    def __init__(
        self, message: str, *, kind: str = "execution", place: str = "", send_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.place = place
        self.send_id = send_id


class StepScope:
    """What the sessions of one step share."""

    __slots__ = ("_key_prefix", "counter", "effects", "now", "root", "seq", "session_id", "trace")

    def __init__(self, now: int, seq: int, counter: int, session_id: str) -> None:
        self.now = now
        self.seq = seq
        self.counter = counter
        self.session_id = session_id
        self._key_prefix = ""
        self.effects: list[Effect] = []
        self.trace: list[Microstep] = []
        self.root: ChartSession

    def next_number(self) -> int:
        """Return the next number for generated ids; the counter is part of the snapshot."""
        self.counter += 1
        return self.counter

    def next_key(self) -> str:
        """Return the key of the next effect: session, number of the step, position in its list."""
        if not self._key_prefix:
            self._key_prefix = f"{self.session_id}:{self.seq}:"
        return f"{self._key_prefix}{len(self.effects)}"


class ChartSession:
    """One running chart in the middle of a step; also the scope that its expressions see."""

    __slots__ = (
        *("bound", "chart", "child_sessions", "children", "data", "event", "external_queue"),
        *("history", "id", "internal_queue", "invoke_id", "is_silent", "is_stopping", "mask"),
        *("output", "parent", "path", "scope", "states_to_invoke", "status", "timers"),
    )

    def __init__(
        self,
        scope: StepScope,
        chart: AnyCompiledChart,
        mask: int,
        snapshot: ChartSnapshot,
        *,
        parent: ChartSession | None = None,
        invoke_id: str | None = None,
    ) -> None:
        """Take a snapshot apart; the caller adds the sessions of its children."""
        self.scope = scope
        self.chart = chart
        self.mask = mask
        """The configuration: one bit per active state, see `compiled_chart.py`."""
        self.parent = parent
        self.invoke_id = invoke_id
        self.id = snapshot.session
        self.path = "" if parent is None else self.id.removeprefix(scope.session_id).lstrip("/")
        """The ids of the invokes that lead here from the root session, joined by slashes."""
        self.status: Status = snapshot.status
        self.output: Any = snapshot.output
        data = snapshot.data
        self.data: FrozenDict = data if type(data) is FrozenDict else freeze(data)
        self.history: Mapping[str, tuple[str, ...]] = snapshot.history
        self.bound: tuple[str, ...] = snapshot.bound
        self.external_queue: list[ChartEvent] = [*snapshot.queue]
        self.timers: list[Timer] = [*snapshot.timers]
        self.children: list[Child] = [*snapshot.children]
        self.child_sessions: dict[str, ChartSession] = {}
        self.internal_queue: deque[ChartEvent] = deque()
        self.states_to_invoke = 0
        self.event: ChartEvent | None = None
        self.is_stopping = False
        """A final child of the root was entered; the session ends after this microstep."""
        self.is_silent = False
        """The session was stopped from outside and must not report to its parent."""

    def with_descendants(self) -> Iterator[ChartSession]:
        """Yield this session and those below it, parents first."""
        yield self
        for child in list(self.child_sessions.values()):
            yield from child.with_descendants()

    # ------------------------------------------------------------ the scope of expressions

    def system_variable(self, name: str) -> Any:
        """Return a system variable; raise KeyError if there is none of this name."""
        definition = self.chart.definition
        if name == "_event":
            return None if self.event is None else FrozenDict(self.event._asdict())
        if name == "_sessionid":
            return self.id
        if name == "_name":
            return definition.name
        if name == "_ioprocessors":
            here = FrozenDict({"location": f"#_scxml_{self.id}"})
            return FrozenDict({SCXML_PROCESSOR: here, "scxml": here})
        if name == "context" and not definition.is_scxml:
            return self.data
        if name == "event" and not definition.is_scxml and self.event is not None:
            fields = self.event.data if isinstance(self.event.data, dict) else {}
            return FrozenDict({"output": self.event.data, **fields, "type": self.event.name})
        raise KeyError(name)

    def is_active(self, state: str) -> bool:
        """Return whether a state is in the configuration: the predicate `In()`."""
        node = self.chart.nodes.get(state)
        return node is not None and bool(self.mask & node.bit)

    # ------------------------------------------------------------ the verbs of actions

    def assign(self, updates: Mapping[str, Any]) -> None:
        """Set variables; the dict that a snapshot holds is replaced, never written to."""
        if not SYSTEM_NAMES.isdisjoint(updates):
            names = ", ".join(sorted(SYSTEM_NAMES.intersection(updates)))
            raise ChartFailure(f"{names} is a system variable and cannot be assigned")
        found = _frozen(updates)
        for value in found.values():
            _check_extent(value)
        self.data = with_items(self.data, found)

    def add_effect(
        self, kind: EffectKind, name: str, params: Mapping[str, Any] = EMPTY, **fields: Any
    ) -> None:
        """Add an effect to those that the step returns to the host."""
        scope = self.scope
        params = EMPTY if params is EMPTY else freeze_value(params)
        scope.effects.append(Effect(kind, name, scope.next_key(), params, self.id, **fields))

    def execute(self, block: Iterable[Callable[[ChartSession], None]]) -> None:
        """Run the actions of a block; the first failure ends the block."""
        try:
            for action in block:
                action(self)
        except ChartFailure as failure:
            self.report(failure)

    def report(self, failure: ChartFailure) -> None:
        """Raise an error event in the chart if it handles such events, else fail the step."""
        name = f"error.{failure.kind}"
        if name not in self.chart.error_events:
            raise StepFailed(
                str(failure),
                place=failure.place or self.chart.definition.name,
                hint=f"handle {name} in the chart, or fix the guard or action",
            ) from failure
        details = {"message": str(failure), "place": failure.place}
        self.internal_queue.append(ChartEvent(name, freeze(details), "platform", failure.send_id))

    # ------------------------------------------------------------ back to a value

    def snapshot(self) -> ChartSnapshot:
        """Return the snapshot of this session and, inside it, of the sessions below."""
        children = tuple(self.children)
        if self.child_sessions:
            below = {id: session.snapshot() for id, session in self.child_sessions.items()}
            children = tuple(
                child._replace(snapshot=below[child.id]) if child.id in below else child
                for child in children
            )
        scope, chart = self.scope, self.chart
        is_root = self.parent is None  # what the sessions share is stored once, with the root
        return ChartSnapshot(
            chart.leaf_ids(self.mask),
            scope.seq if is_root else 0,
            scope.now if is_root else 0,
            self.status,
            self.data,
            self.history if type(self.history) is FrozenDict else FrozenDict(self.history),
            tuple(self.external_queue),
            tuple(self.timers),
            children,
            self.output,
            self.id,
            scope.counter if is_root else 0,
            self.bound,
            chart.hash,
            chart.definition.version,
        )


def empty_snapshot(chart: AnyCompiledChart, session_id: str) -> ChartSnapshot:
    """Return the snapshot of a session before its first step."""
    return ChartSnapshot(
        *((), 0, 0, "running", EMPTY, EMPTY, (), (), (), None),
        *(session_id, 0, (), chart.hash, chart.definition.version),
    )


def freeze_value(value: Any) -> Any:
    """Return a computed value, frozen; raise `ChartFailure` if it is too large, or not plain."""
    found = _frozen(value)
    _check_extent(found)
    return found


def _frozen(value: Any) -> Any:
    try:
        return freeze(value)
    except BadValue as error:
        raise ChartFailure(str(error)) from error


def _check_extent(value: Any) -> None:
    if type(value) is FrozenDict or type(value) is FrozenList:
        try:
            check_extent(value)
        except BadValue as error:
            raise ChartFailure(str(error)) from error
