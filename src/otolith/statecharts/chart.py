"""A chart: a definition, the functions its names stand for, and the verbs on its snapshots."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, TypeVar, overload

from otolith.agent.lifecycle.bindings import Bindings, Effective
from otolith.agent.lifecycle.definition import Definition
from otolith.agent.lifecycle.formats.files import read_file
from otolith.agent.lifecycle.formats.scxml_reading import read_scxml
from otolith.agent.lifecycle.formats.tables import read_table
from otolith.agent.lifecycle.formats.xstate_reading import read_xstate
from otolith.agent.lifecycle.model import Model
from otolith.agent.lifecycle.snapshot import Event, Snapshot
from otolith.agent.lifecycle.stepping import Step, advance, selects, start, step
from otolith.agent.lifecycle.studied import Studied
from otolith.errors import ChartMismatch, Invalid

F = TypeVar("F", bound=Callable[..., Any])
Migration = Callable[[Snapshot], Snapshot]


class Chart(Studied):
    """A statechart. Make one with `load`, `from_data`, `from_scxml`, `from_table` or a class.

    `is_strict`: an event that the chart does not accept is an `IllegalTransition`; charts from
    SCXML drop it, as the standard says.
    """

    def __init__(self, definition: Definition, *, is_strict: bool | None = None) -> None:
        self.definition = definition
        self.is_strict = not definition.is_scxml if is_strict is None else is_strict
        self.bindings = Bindings()
        self.model = Model(definition, self.bindings)
        self._migrations: dict[str, Migration] = {}

    def __repr__(self) -> str:
        return f"Chart({self.name!r}, {len(self.states)} states, {self.hash[:12]})"

    # ------------------------------------------------------------ making one

    @classmethod
    def load(cls, path: str | Path) -> Chart:
        """Return the chart in a file: XState JSON or YAML, or SCXML."""
        return cls(read_file(path))

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Chart:
        """Return the chart of a dict in the shape of XState's config."""
        return cls(read_xstate(data))

    @classmethod
    def from_scxml(cls, text: str, *, resolve: Callable[[str], str | None] | None = None) -> Chart:
        """Return the chart of an SCXML document; `resolve` returns the text that a `src` names."""
        return cls(read_scxml(text, resolve=resolve))

    @classmethod
    def from_table(
        cls,
        table: Mapping[tuple[Any, str], Any],
        *,
        initial: Any,
        final: Collection[Any] = (),
        name: str = "table",
        data: Mapping[str, Any] | None = None,
        version: str = "",
    ) -> Chart:
        """Return the chart of `{(state, event): next state}`; the state `*` is any."""
        return cls(
            read_table(table, initial=initial, final=final, name=name, data=data, version=version)
        )

    # ------------------------------------------------------------ what it is

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def version(self) -> str:
        return self.definition.version

    @property
    def hash(self) -> str:
        """A name for what the chart does; descriptions, tags and layout do not change it."""
        return self.model.hash

    @property
    def states(self) -> tuple[str, ...]:
        """The ids of all states in document order, without the root."""
        return tuple(node.id for node in self.model.order[1:])

    @property
    def events(self) -> tuple[str, ...]:
        """The event descriptors its transitions name, in document order."""
        names = (event for arc in self.model.arcs for event in arc.events)
        return tuple(dict.fromkeys(names))

    @property
    def problems(self) -> tuple[str, ...]:
        """What SCXML tells only when it happens: expressions that cannot be read, by place."""
        return tuple(self.model.problems)

    # ------------------------------------------------------------ binding names

    @overload
    def guard(self, function: F) -> F: ...
    @overload
    def guard(self, function: str) -> Callable[[F], F]: ...
    def guard(self, function: Any) -> Any:
        """Register a guard: `guard(data, event) -> bool`, with the guard's params by name."""
        return _registered(self.bindings.guards, function)

    @overload
    def action(self, function: F) -> F: ...
    @overload
    def action(self, function: str) -> Callable[[F], F]: ...
    def action(self, function: Any) -> Any:
        """Register a pure action: `action(data, event)` returns a dict of updates, or None."""
        return _registered(self.bindings.actions, function)

    def effect(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        retry: int = 0,
        timeout: float | None = None,
        is_repeatable: bool = True,
        asks: Callable[..., Any] | None = None,
    ) -> Any:
        """Register what carries out the effects of a name, after the step: `function(effect)`.

        `retry` is how often it is tried again if it raises; `timeout`, in seconds, is for functions
        that are awaited: nothing stops one that blocks. What is not repeatable is never called
        twice with one key, and `asks(effect)` tells whether one that was begun has happened.

        Raises:
            Invalid: a timeout for a function that is not awaited.
        """

        def register(found: F) -> F:
            if timeout is not None and not iscoroutinefunction(found):
                raise Invalid(
                    f"{found.__name__} blocks, and cannot be stopped after {timeout:g} s",
                    hint="make it async, or give the timeout to what it calls",
                )
            effective = Effective(found, retry, timeout, is_repeatable, asks)
            self.bindings.effects[name or found.__name__] = effective
            return found

        return register if function is None else register(function)

    def child(self, name: str, chart: Chart) -> None:
        """Register a chart that `invoke` finds by this name."""
        self.bindings.charts[name] = chart.model

    def outlet(self, type: str) -> None:
        """Register a type of `send` that the host carries out."""
        self.bindings.outlets.add(type)

    # ------------------------------------------------------------ running

    def start(
        self, data: Mapping[str, Any] | None = None, *, now: int = 0, session: str = ""
    ) -> Step:
        """Return the first snapshot, with what it asks for and how it came about.

        Args:
            data: Values to begin with; they go before those of the chart.
            now: Microseconds since 1970.
            session: A name for this run; keys of effects begin with it.
        """
        return start(self.model, data, now=now, session=session)

    def step(
        self,
        snapshot: Snapshot,
        event: str | Event,
        data: Any = None,
        *,
        now: int | None = None,
    ) -> Step:
        """Return what an event makes of a snapshot, which itself stays as it is.

        Raises:
            IllegalTransition: it is not accepted now; the error lists what is.
            StepFailed: a guard or action failed, or the chart does not come to rest.
            ChartMismatch: the snapshot is of another chart.
        """
        if data is not None:
            event = Event(event if isinstance(event, str) else event.name, data)
        return step(self.model, snapshot, event, now, is_strict=self.is_strict)

    def advance(self, snapshot: Snapshot, now: int) -> Step:
        """Return what time makes of a snapshot: timers that came due, in their order."""
        return advance(self.model, snapshot, now)

    def allowed(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the events that active states have transitions for; guards are not asked."""
        if snapshot.status != "running":
            return ()
        return self.model.allowed(self.model.mask_of(snapshot.configuration))

    def can(self, snapshot: Snapshot, event: str | Event, data: Any = None) -> bool:
        """Return whether an event would be taken now; guards are asked, nothing changes."""
        if data is not None:
            event = Event(event if isinstance(event, str) else event.name, data)
        return selects(self.model, snapshot, event)

    # ------------------------------------------------------------ other versions

    def migrate_from(self, old_hash: str, function: Migration) -> None:
        """Register what turns a snapshot of an older chart into one of this chart."""
        self._migrations[old_hash] = function

    def migrate(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot of this chart: as it is, or by the migrations that lead here.

        Raises:
            ChartMismatch: no migration leads here, or what it made does not fit this chart.
        """
        seen: set[str] = set()
        while snapshot.chart != self.hash:
            function = self._migrations.get(snapshot.chart)
            if function is None or snapshot.chart in seen:
                raise self._mismatch(snapshot, "no migration leads here")
            seen.add(snapshot.chart)
            before = snapshot.chart
            snapshot = function(snapshot)
            if snapshot.chart == before:
                snapshot = snapshot._replace(chart=self.hash, version=self.version)
        unknown = [name for name in snapshot.configuration if name not in self.model.nodes]
        if unknown:
            raise self._mismatch(snapshot, f"there is no state {', '.join(unknown)}")
        return snapshot

    def _mismatch(self, snapshot: Snapshot, why: str) -> ChartMismatch:
        return ChartMismatch(
            f"this snapshot is of chart {snapshot.chart[:12]}, not of {self.name}: {why}",
            expected=self.hash,
            actual=snapshot.chart,
            hint="declare chart.migrate_from(old_hash, function)",
        )


def _registered(table: dict[str, Callable[..., Any]], function: Any) -> Any:
    if not isinstance(function, str):
        table[function.__name__] = function
        return function

    def register(found: F) -> F:
        table[function] = found
        return found

    return register
