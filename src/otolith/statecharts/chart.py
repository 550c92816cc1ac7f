"""The chart: a definition, the functions that its names stand for, and the verbs on its snapshots.

`Chart` is the front of this room. The work is done elsewhere: `engine/` makes steps, `analysis/`
answers questions about a chart that does not run, `formats/` reads and writes documents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from inspect import iscoroutinefunction
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, overload

from otolith.errors import ChartMismatch, Corrupt, Invalid
from otolith.shapes import FUNCTION, NOTHING, check_argument
from otolith.statecharts import analysis
from otolith.statecharts.analysis import (
    ChartChange,
    Coverage,
    Finding,
    Paths,
    SimulationRun,
    StateGraph,
    Verdict,
)
from otolith.statecharts.analysis.explore import Guards
from otolith.statecharts.analysis.inputs import ScriptItem
from otolith.statecharts.analysis.paths import Goal
from otolith.statecharts.analysis.simulate import RecordedEvent
from otolith.statecharts.definition import Definition, hash_of
from otolith.statecharts.engine.compiled_chart import Bindings, CompiledChart, EffectHandler
from otolith.statecharts.engine.step import (
    StepResult,
    accepted_events,
    advance,
    is_enabled,
    restore,
    start,
    step,
)
from otolith.statecharts.formats.files import read_file, read_table, texts_beside
from otolith.statecharts.formats.graphviz import to_dot
from otolith.statecharts.formats.mermaid import to_mermaid
from otolith.statecharts.formats.scxml_reader import read_scxml
from otolith.statecharts.formats.scxml_writer import to_scxml
from otolith.statecharts.formats.xstate_reader import read_xstate
from otolith.statecharts.formats.xstate_writer import to_xstate
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, check_fields

F = TypeVar("F", bound=Callable[..., Any])
Migration = Callable[[ChartSnapshot], ChartSnapshot]


class Chart:
    """A statechart. Make one with `load`, `from_data`, `from_scxml`, `from_table` or a class.

        chart = Chart.load("booking.json")
        snapshot, effects, trace = chart.step(chart.start().snapshot, "new_task")

    `is_strict`: an event that the chart does not accept raises `IllegalTransition`. Charts from
    SCXML drop such an event, as the standard says.
    """

    def __init__(self, definition: Definition, *, is_strict: bool | None = None) -> None:
        if not isinstance(definition, Definition):
            raise Invalid(
                f"a chart is read by a method of the class, got {type(definition).__name__}",
                hint="use Chart.from_data(dict), Chart.load(path) or Chart.from_scxml(text)",
            )
        self.definition = definition
        self.is_strict = not definition.is_scxml if is_strict is None else is_strict
        self.bindings = Bindings()
        self.compiled = CompiledChart(definition, self.bindings)
        self._migrations: dict[str, Migration] = {}

    def __repr__(self) -> str:
        return f"Chart({self.name!r}, {len(self.states)} states, {self.hash[:12]})"

    # ------------------------------------------------------------ reading documents

    @classmethod
    def load(cls, path: str | Path) -> Chart:
        """Return the chart in a file: XState JSON or YAML, or SCXML.

        An SCXML document may contain files of its folder (`src`), and invoke those whose names it
        computes (`srcexpr`). All are read now: a step opens no files.
        """
        if isinstance(path, Mapping):
            raise Invalid(
                "a chart in a dict is read by from_data", hint="use Chart.from_data(dict)"
            )
        check_argument(path, "path", (str, PathLike), "a path")
        chart = cls(read_file(path))
        chart.bindings.documents = texts_beside(path, chart.definition)
        return chart

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Chart:
        """Return the chart of a dict in the shape of XState's config."""
        return cls(read_xstate(data))

    @classmethod
    def from_scxml(cls, text: str, *, resolve: Callable[[str], str | None] | None = None) -> Chart:
        """Return the chart of an SCXML document; `resolve` returns the text that a `src` names."""
        check_argument(text, "text", str, "an SCXML document")
        return cls(read_scxml(text, resolve=resolve))

    @classmethod
    def from_table(
        cls,
        table: Mapping[tuple[Any, str], Any],
        *,
        initial: Any,
        final: Collection[Any] | None = None,
        name: str = "table",
        data: Mapping[str, Any] | None = None,
        version: str = "",
    ) -> Chart:
        """Return the chart of `{(state, event): next state}`; the state `*` stands for all.

        The chart ends in a `final` state: without the argument, in those that no row leads out of;
        with `final=()` it never ends.
        """
        fields = {"initial": initial, "name": name, "data": data, "version": version}
        chart = cls(read_table(table, final=final, **fields))
        before = hash_of(read_table(table, final=(), **fields))
        if final is None and before != chart.hash:
            # Earlier, a table had no final states but those it named; machines of then are stored.
            chart.migrate_from(before, chart._ended)
        return chart

    def _ended(self, snapshot: ChartSnapshot) -> ChartSnapshot:
        """Return the snapshot of a chart that has come to a final state, as done."""
        kinds = {self.compiled.nodes[id].kind for id in snapshot.configuration}
        return snapshot._replace(status="done") if kinds == {"final"} else snapshot

    # ------------------------------------------------------------ what it is

    @property
    def name(self) -> str:
        """The name that the document gives the chart."""
        return self.definition.name

    @property
    def version(self) -> str:
        """The version that the document gives the chart; "" if it gives none."""
        return self.definition.version

    @property
    def hash(self) -> str:
        """32 hex digits for what the chart does; descriptions, tags and layout do not count."""
        return self.compiled.hash

    @property
    def states(self) -> tuple[str, ...]:
        """The ids of all states in document order, without the root."""
        return tuple(node.id for node in self.compiled.order[1:])

    @property
    def events(self) -> tuple[str, ...]:
        """The event descriptors that its transitions name, in document order."""
        names = (event for each in self.compiled.transitions for event in each.events)
        return tuple(dict.fromkeys(names))

    @property
    def problems(self) -> tuple[str, ...]:
        """Expressions that cannot be parsed, by place; SCXML reports them only when they run."""
        return tuple(self.compiled.problems)

    # ------------------------------------------------------------ binding names

    @overload
    def guard(self, function: F) -> F: ...
    @overload
    def guard(self, function: str) -> Callable[[F], F]: ...
    def guard(self, function: Any) -> Any:
        """Register a guard: `guard(data, event) -> bool`, with the guard's params by name.

        Use it as a decorator, bare or with the name: `@chart.guard`, `@chart.guard("may pay")`.
        """
        return _register(self.bindings.guards, function)

    @overload
    def action(self, function: F) -> F: ...
    @overload
    def action(self, function: str) -> Callable[[F], F]: ...
    def action(self, function: Any) -> Any:
        """Register a pure action: `action(data, event)` returns a dict of updates, or None."""
        return _register(self.bindings.actions, function)

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

        `retry` is how often it is called again if it raises. `timeout`, in seconds, is for async
        functions: a blocking one cannot be stopped. A function that is not repeatable is never
        called twice with one key, and `asks(effect)` returns whether one that was begun happened.

        Raises:
            Invalid: a timeout for a function that is not async.
        """

        def register(found: F) -> F:
            check_argument(found, "function", FUNCTION, "a function")
            if timeout is not None and not iscoroutinefunction(found):
                raise Invalid(
                    f"{found.__name__} blocks and cannot be stopped after {timeout:g} s",
                    hint="make it async, or give the timeout to what it calls",
                )
            handler = EffectHandler(found, retry, timeout, is_repeatable, asks)
            self.bindings.effects[name or found.__name__] = handler
            return found

        return register if function is None else register(function)

    def child(self, name: str, chart: Chart) -> None:
        """Register a chart that `invoke` finds by this name."""
        check_argument(name, "name", str, "a text")
        check_argument(chart, "chart", Chart, "a Chart")
        self.bindings.charts[name] = chart.compiled

    def outlet(self, type: str) -> None:
        """Register a type of `send` that the host carries out, as an effect."""
        check_argument(type, "type", str, "a text")
        self.bindings.outlets.add(type)

    # ------------------------------------------------------------ running

    def start(
        self, data: Mapping[str, Any] | None = None, *, now: int = 0, session: str = ""
    ) -> StepResult:
        """Return the first snapshot, with the effects it asks for and its trace.

        Args:
            data: Values to begin with; they replace those of the chart.
            now: Microseconds since 1970.
            session: A name for this run; keys of effects begin with it.
        """
        return start(self.compiled, data, now=now, session=session)

    def step(
        self,
        snapshot: ChartSnapshot,
        event: str | ChartEvent,
        data: Any = None,
        *,
        now: int | None = None,
    ) -> StepResult:
        """Return what an event makes of a snapshot, which itself does not change.

        Raises:
            IllegalTransition: it is not accepted now; the error lists what is.
            StepFailed: a guard or action failed, or the chart does not come to rest.
            ChartMismatch: the snapshot is of another chart.
        """
        if data is not None:
            event = ChartEvent(event if isinstance(event, str) else event.name, data)
        if now is not None and type(now) is not int:
            check_argument(now, "now", int, "a number of microseconds, or None")
        return step(self.compiled, snapshot, event, now, is_strict=self.is_strict)

    def advance(self, snapshot: ChartSnapshot, now: int) -> StepResult:
        """Return what time makes of a snapshot: timers that came due, in their order."""
        return advance(self.compiled, snapshot, now)

    def allowed(self, snapshot: ChartSnapshot) -> tuple[str, ...]:
        """Return the events that active states have transitions for; guards are not asked."""
        return accepted_events(self.compiled, snapshot)

    def can(self, snapshot: ChartSnapshot, event: str | ChartEvent, data: Any = None) -> bool:
        """Return whether an event would be taken now; guards are asked, nothing changes."""
        if data is not None:
            event = ChartEvent(event if isinstance(event, str) else event.name, data)
        return is_enabled(self.compiled, snapshot, event)

    # ------------------------------------------------------------ other versions

    def migrate_from(self, old_hash: str, function: Migration) -> None:
        """Register what turns a snapshot of an older chart into one of this chart."""
        check_argument(old_hash, "old_hash", str, "the hash of a chart")
        self._migrations[old_hash] = function

    def migrate(self, snapshot: ChartSnapshot) -> ChartSnapshot:
        """Return a snapshot of this chart: the same, or one that migrations made of it.

        Raises:
            ChartMismatch: no migration leads here, or its result does not fit this chart.
            Corrupt: it is of this chart, and says what cannot be.
        """
        check_fields(snapshot)
        if snapshot.chart == self.hash:
            restore(self.compiled, snapshot, None)
            return snapshot
        seen: set[str] = set()
        while snapshot.chart != self.hash:
            old = snapshot.chart
            function = self._migrations.get(old)
            if function is None or old in seen:
                raise self._mismatch(snapshot, "no migration leads here")
            seen.add(old)
            snapshot = function(snapshot)
            if snapshot.chart == old:
                snapshot = snapshot._replace(chart=self.hash, version=self.version)
        try:
            restore(self.compiled, snapshot, None)
        except Corrupt as error:
            raise self._mismatch(
                snapshot, f"what it returned does not fit, {error.message}"
            ) from error
        return snapshot

    def _mismatch(self, snapshot: ChartSnapshot, why: str) -> ChartMismatch:
        return ChartMismatch(
            f"this snapshot is of chart {snapshot.chart[:12]}, not of {self.name}: {why}",
            expected=self.hash,
            actual=snapshot.chart,
            hint="declare chart.migrate_from(old_hash, function)",
        )

    # ------------------------------------------------------------ analysis

    def check(self) -> list[Finding]:
        """Return what is wrong with the chart, or probably not meant; errors first."""
        return analysis.check(self.compiled)

    def explore(
        self,
        *,
        guards: Guards = "both",
        events: Iterable[ScriptItem] | None = None,
        data: Mapping[str, Any] | None = None,
        max_configurations: int = 100_000,
    ) -> StateGraph:
        """Return every configuration that the chart can rest in, and what leads between them.

        With guards "both", each may be true or false, and a configuration that is not found cannot
        happen; with "real" they are asked, and every path that is found can be replayed.
        """
        check_argument(guards, "guards", str, '"both" or "real"')
        check_argument(events, "events", (Iterable, NOTHING), "a list of events, or None")
        check_argument(max_configurations, "max_configurations", int, "a whole number")
        return analysis.explore(
            self.compiled,
            guards=guards,
            events=events,
            data=data,
            max_configurations=max_configurations,
        )

    def paths(
        self,
        to: Goal | None = None,
        *,
        simple: bool = False,
        events: Iterable[ScriptItem] | None = None,
        data: Mapping[str, Any] | None = None,
        limit: int = 1_000,
    ) -> Paths:
        """Return the shortest path to each set of active states, or to the state `to`.

        With `simple`, all paths that meet no configuration twice. More than `limit` are not
        returned. `problems` of the result are events that failed, `unreached` states that were
        never entered.
        """
        check_argument(to, "to", (str, tuple, FUNCTION, NOTHING), "a state, or a function")
        check_argument(events, "events", (Iterable, NOTHING), "a list of events, or None")
        check_argument(data, "data", (Mapping, NOTHING), "a mapping, or None")
        check_argument(limit, "limit", int, "a whole number")
        find = analysis.simple_paths if simple else analysis.shortest_paths
        return find(self.compiled, to, limit=limit, events=events, data=data)

    def simulate(
        self, events: Iterable[ScriptItem], *, data: Mapping[str, Any] | None = None, now: int = 0
    ) -> SimulationRun:
        """Play a script: names, (name, data) pairs, and times to let pass.

        A time is "+6s" (us, ms, s, m, h, d), a number of seconds, ("after", 6) or a timedelta.

        An event that the chart does not take ends the run with a report, `run.refusal`.
        """
        strict = self.is_strict
        return analysis.simulate(self.compiled, events, data=data, now=now, is_strict=strict)

    def accepts(
        self,
        events: Iterable[RecordedEvent],
        *,
        data: Mapping[str, Any] | None = None,
        started: int | None = None,
    ) -> Verdict:
        """Return whether this chart would have taken a recorded run, such as `machine.log()`.

        `started` is when the run began, in microseconds; timers count from then.
        """
        check_argument(events, "events", Iterable, "a list of events")
        return analysis.accepts(self.compiled, events, start_data=data, started=started)

    def coverage(self, runs: Iterable[SimulationRun | Iterable[RecordedEvent]]) -> Coverage:
        """Return how much of the chart recorded or simulated runs have covered."""
        check_argument(runs, "runs", Iterable, "a list of runs")
        return analysis.coverage(self.compiled, runs)

    def diff(self, older: Chart) -> list[ChartChange]:
        """Return what changed since an older version of the chart, in words."""
        check_argument(older, "older", Chart, "a Chart")
        return analysis.diff(older.definition, self.definition)

    def test_source(
        self, paths: Paths, *, chart: str | None = None, data: dict[str, Any] | None = None
    ) -> str:
        """Return the source of a pytest file with a test for each path.

        `chart` says where the tests find the chart: "package.module:NAME", or its file.
        """
        check_argument(paths, "paths", Iterable, "the result of chart.paths()")
        check_argument(chart, "chart", (str, NOTHING), 'a text such as "package.module:NAME"')
        return analysis.pytest_cases(self.compiled if chart is None else chart, paths, data=data)

    # ------------------------------------------------------------ writing documents

    def to_xstate(self) -> dict[str, Any]:
        """Return the chart as an XState config, of plain data."""
        return to_xstate(self.definition)

    def to_scxml(self) -> str:
        """Return the chart as an SCXML document."""
        return to_scxml(self.definition)

    def to_mermaid(self, active: Collection[str] = ()) -> str:
        """Return a Mermaid diagram; `active` states are highlighted."""
        check_argument(active, "active", Collection, "a list of states")
        return to_mermaid(self.definition, active)

    def to_dot(self, active: Collection[str] = ()) -> str:
        """Return a Graphviz graph; `active` states are highlighted."""
        check_argument(active, "active", Collection, "a list of states")
        return to_dot(self.definition, active)


def _register(table: dict[str, Callable[..., Any]], function: Any) -> Any:
    """Put a function into a table by its own name, or return a decorator for a given name."""
    if not isinstance(function, str):
        check_argument(function, "function", FUNCTION, "a function, or its name")
        table[function.__name__] = function
        return function

    def register(found: F) -> F:
        table[function] = found
        return found

    return register
