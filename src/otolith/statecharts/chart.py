"""A chart: a definition, the functions its names stand for, and the verbs on its snapshots.

What can be asked of a chart that does not run: is it right, where does it lead, its text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, TypeVar, overload

from otolith.errors import ChartMismatch, Invalid
from otolith.statecharts import analysis
from otolith.statecharts.analysis import (
    Change,
    Coverage,
    Finding,
    Forecast,
    Graph,
    Paths,
    Run,
    Verdict,
)
from otolith.statecharts.analysis.explore import Guards
from otolith.statecharts.analysis.inputs import Item
from otolith.statecharts.analysis.paths import Goal
from otolith.statecharts.analysis.simulate import Recorded
from otolith.statecharts.definition import Definition
from otolith.statecharts.engine.compiled_chart import Bindings, CompiledChart, Effective
from otolith.statecharts.engine.step import Step, advance, selects, start, step
from otolith.statecharts.formats.files import read_file, read_table
from otolith.statecharts.formats.graphviz import to_dot
from otolith.statecharts.formats.mermaid import to_mermaid
from otolith.statecharts.formats.scxml_reader import read_scxml
from otolith.statecharts.formats.scxml_writer import to_scxml
from otolith.statecharts.formats.xstate_reader import read_xstate
from otolith.statecharts.formats.xstate_writer import to_xstate
from otolith.statecharts.snapshot import Event, Snapshot


class Studied:
    """A chart, to be looked into. Nothing here changes it, and nothing outside is done."""

    definition: Definition
    model: CompiledChart
    is_strict: bool

    # Is it right?

    def check(self) -> list[Finding]:
        """Return what is wrong with the chart, or likely not meant; errors first."""
        return analysis.check(self.model)

    def explore(
        self,
        *,
        guards: Guards = "both",
        events: Iterable[Item] | None = None,
        data: Mapping[str, Any] | None = None,
        max_configurations: int = 100_000,
    ) -> Graph:
        """Return every configuration that the chart can rest in, and what leads between them.

        With guards "both", each may say yes or no, and what is not found cannot happen; with "real"
        they are asked, and every way that is found really replays.
        """
        return analysis.explore(
            self.model,
            guards=guards,
            events=events,
            data=data,
            max_configurations=max_configurations,
        )

    # Where does it lead?

    def paths(
        self,
        to: Goal | None = None,
        *,
        simple: bool = False,
        events: Iterable[Item] | None = None,
        data: Mapping[str, Any] | None = None,
        limit: int = 1_000,
    ) -> Paths:
        """Return the shortest path to each set of active states, or to the state `to`.

        With `simple`, all paths that meet no configuration twice, up to `limit`.
        """
        if simple:
            return analysis.simple_paths(self.model, to, limit=limit, events=events, data=data)
        return analysis.shortest_paths(self.model, to, events=events, data=data)

    def simulate(
        self, events: Iterable[Item], *, data: Mapping[str, Any] | None = None, now: int = 0
    ) -> Run:
        """Play a script: names, (name, data) pairs, and ("after", seconds) to let time pass.

        What the chart does not take ends the run with a report, `run.refusal`.
        """
        strict = self.is_strict
        return analysis.simulate(self.model, events, data=data, now=now, is_strict=strict)

    def forecast(
        self,
        seed: int,
        runs: int = 1_000,
        *,
        weights: Mapping[str, float] | None = None,
        events: Iterable[Item] | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Forecast:
        """Return what many random runs come to; `weights` are how often a second events happen."""
        return analysis.monte_carlo(
            self.model, seed, runs, weights=weights, events=events, data=data
        )

    # What about the past?

    def accepts(
        self,
        events: Iterable[Recorded],
        *,
        data: Mapping[str, Any] | None = None,
        started: int | None = None,
    ) -> Verdict:
        """Tell whether this chart would have taken a run that was recorded, as `machine.log()`.

        `started` is when the run began, in microseconds; timers count from then.
        """
        return analysis.accepts(self.model, events, start_data=data, started=started)

    def coverage(self, runs: Iterable[Run | Iterable[Recorded]]) -> Coverage:
        """Return how much of the chart recorded or simulated runs have covered."""
        return analysis.coverage(self.model, runs)

    def diff(self, older: Studied) -> list[Change]:
        """Return what was changed since an older version of the chart, in words."""
        return analysis.diff(older.definition, self.definition)

    # Tests

    def test_source(
        self, paths: Paths, *, chart: str | None = None, data: dict[str, Any] | None = None
    ) -> str:
        """Return the source of a pytest file with a test for each path.

        `chart` says where the tests find the chart: "package.module:NAME", or its file.
        """
        return analysis.pytest_cases(self.model if chart is None else chart, paths, data=data)

    def walker(
        self, *, events: Iterable[Item] | None = None, data: Mapping[str, Any] | None = None
    ) -> type[Any]:
        """Return a state machine for Hypothesis that walks through the chart at random."""
        return analysis.machine_of(self.model, events=events, data=data)

    # How is it written?

    def to_xstate(self) -> dict[str, Any]:
        """Return the chart as a config of XState, of plain data."""
        return to_xstate(self.definition)

    def to_scxml(self) -> str:
        """Return the chart as an SCXML document."""
        return to_scxml(self.definition)

    def to_mermaid(self, active: Collection[str] = ()) -> str:
        """Return a diagram in Mermaid's language; `active` states stand out."""
        return to_mermaid(self.definition, active)

    def to_dot(self, active: Collection[str] = ()) -> str:
        """Return a graph in the language of Graphviz; `active` states stand out."""
        return to_dot(self.definition, active)


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
        self.model = CompiledChart(definition, self.bindings)
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
