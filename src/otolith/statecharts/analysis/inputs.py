"""The inputs of a chart: what can happen to a snapshot from outside, and what steps make of it.

An *environment* says which first steps a chart can make, which inputs are possible in a snapshot,
which steps each can cause, and by which key two snapshots count as the same.

`AbstractEnvironment` is for charts without data: guards answer both ways, any timer may be the next
to fire, services may answer or fail. `RealEnvironment` is the chart with its guards, its data and
its clock: time passes by waiting for the next timer, and events come at once.

A *script* is a list of inputs as people write them: the name of an event, a pair of a name and its
data, or a time to let pass on the virtual clock:

    "+6s"  "+250ms"  "+1.5h"        a text with a plus; the units are us, ms, s, m, h and d
    6  2.5                          a number of seconds
    ("after", 6)  ("after", "6s")   a pair; without a unit, seconds
    timedelta(seconds=6)            also in a pair

`parse_item` is the only parser of these, for Python and for the command line. An event that is
really called `after` or `+6s` is written as a `ChartEvent`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from otolith.durations import duration_microseconds
from otolith.errors import BadValue, StepFailed
from otolith.statecharts.analysis.abstract import AbstractChart, PossibleStep
from otolith.statecharts.engine.compiled_chart import CompiledChart, StateNode
from otolith.statecharts.engine.step import advance, start, step
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, Child, Timer

AFTER = "after"
_TIME = re.compile(r"\+\.?\d")
SECOND = 1_000_000
PLATFORM_ERRORS = frozenset({"error", "error.execution", "error.communication", "error.platform"})
_INTERNAL = PLATFORM_ERRORS | {"done", "done.state", "done.invoke", "error.invoke"}
_FAR = 1 << 50
_MAX_EQUAL_TIMERS = 2

ScriptItem: TypeAlias = str | tuple[str, Any] | ChartEvent | int | float | timedelta


# ---------------------------------------------------------------- scripts


class ParsedItem(NamedTuple):
    """An item of a script: an event or none, and how long to wait, or until when, before it."""

    event: ChartEvent | None
    wait: int = 0
    at: int | None = None

    @property
    def item(self) -> ScriptItem:
        """The item as it is written in a script, without `at`."""
        return (AFTER, to_seconds(self.wait)) if self.event is None else event_item(self.event)


def parse_item(item: ScriptItem) -> ParsedItem:
    """Return what an item of a script means.

    Raises:
        BadValue: it is neither the name of an event, nor a pair, nor a time to wait.
    """
    if isinstance(item, ChartEvent):
        return ParsedItem(item)
    if isinstance(item, str) and not _TIME.match(item):
        return ParsedItem(ChartEvent(item))
    if isinstance(item, str | int | float | timedelta):
        return ParsedItem(None, _wait(item.removeprefix("+") if isinstance(item, str) else item))
    parts: Any = item
    if not isinstance(parts, tuple | list) or len(parts) != 2 or not isinstance(parts[0], str):
        raise BadValue(
            f"{item!r} is not an item of a script",
            hint="write a name, a pair of a name and data, or a time such as '+6s'",
        )
    name, data = parts
    return ParsedItem(ChartEvent(name, data)) if name != AFTER else ParsedItem(None, _wait(data))


def _wait(time: Any) -> int:
    """Return the microseconds of a time: a text, a number of seconds, or a timedelta.

    Raises:
        BadValue: it is none of these, or negative, or longer than 30,000 years.
    """
    found = duration_microseconds(time.strip().removeprefix("+") if isinstance(time, str) else time)
    if found is None:
        hint = "write '+6s', ('after', 6), 6 or a timedelta; units are us, ms, s, m, h and d"
        raise BadValue(f"{time!r} is not a time to let pass", hint=hint)
    return found


def event_item(event: ChartEvent) -> ScriptItem:
    """Return an event as the item that `parse_item` reads it from."""
    if event.name == AFTER or _TIME.match(event.name):
        return event
    return event.name if event.data is None else (event.name, event.data)


def format_item(item: ScriptItem) -> str:
    """Return an item in words."""
    parsed = parse_item(item)
    return f"{to_seconds(parsed.wait)} s pass" if parsed.event is None else parsed.event.name


def format_time(microseconds: int) -> str:
    """Return a time as scripts write it, in seconds and without loss: `6s`, `0.00025s`."""
    return f"{(Decimal(microseconds) / SECOND).normalize():f}s"


def to_seconds(microseconds: int) -> float:
    """Return a time in seconds, as a whole number where it is one."""
    return microseconds // SECOND if microseconds % SECOND == 0 else microseconds / SECOND


# ---------------------------------------------------------------- events


class ChartInput(NamedTuple):
    """An input that is possible now: an event, or a timer of the chart or of one below it."""

    event: str
    data: Any = None
    timer: Timer | None = None
    path: tuple[int, ...] = ()
    """Which child's timer it is: positions among children, from the top."""
    wait: int | None = None
    """How long the timer still waits, in microseconds, where that is known."""


class Alphabet:
    """The events that a chart can be sent from outside: those given, or those its states name."""

    def __init__(self, items: Iterable[ScriptItem] | None) -> None:
        parsed = None if items is None else [parse_item(item).event for item in items]
        self._given = None if parsed is None else [event for event in parsed if event]
        self._by_state: dict[tuple[str, str], tuple[str, ...]] = {}

    def inputs(self, chart: CompiledChart, snapshot: ChartSnapshot) -> list[ChartInput]:
        """Return the events that the chart or a child of it might take, each once."""
        names = self._names(chart, snapshot)
        if self._given is None:
            return [ChartInput(name) for name in names]
        if snapshot.status != "running":
            return []
        mask = chart.mask_of(snapshot.configuration)
        taken = [each for each in self._given if chart.candidates(mask, each.name).groups]
        taken += [each for each in self._given if each not in taken and each.name in names]
        unique = {(each.name, repr(each.data)): each for each in taken}
        return [ChartInput(each.name, each.data) for each in unique.values()]

    def _names(self, chart: CompiledChart, snapshot: ChartSnapshot) -> dict[str, None]:
        """Return the names of events that active states, services and children may take."""
        names: dict[str, None] = {}
        if snapshot.status != "running":
            return names
        for node in chart.nodes_of(chart.mask_of(snapshot.configuration)):
            names |= dict.fromkeys(self._names_of_state(chart, node))
        for child in snapshot.children:
            invoke = chart.nodes[child.state].invokes[child.number]
            if child.is_service:
                names |= {f"done.invoke.{child.id}": None, f"error.invoke.{child.id}": None}
            elif child.snapshot is not None and invoke.invoke.is_forwarding:
                below = _chart_of_child(chart, child)
                names |= {} if below is None else self._names(below, child.snapshot)
        return names

    def _names_of_state(self, chart: CompiledChart, node: StateNode) -> tuple[str, ...]:
        """Return the names of events that the transitions of a state match."""
        key = (chart.hash, node.id)
        found = self._by_state.get(key)
        if found is None:
            timers = {name for _, name in node.delays}
            names = [name for each in node.transitions for name in each.events]
            found = self._by_state[key] = tuple(
                example_event(chart, name)
                for name in names
                if name not in timers and not is_internal_event(name)
            )
        return found


def is_internal_event(descriptor: str) -> bool:
    """Return whether only the chart, its children or its services make such events."""
    stem = descriptor.removesuffix(".*").removesuffix(".")
    return stem in _INTERNAL or stem.startswith(("done.state.", "done.invoke.", "error.invoke."))


def example_event(chart: CompiledChart, descriptor: str) -> str:
    """Return an event that a descriptor matches and no narrower one does."""
    if descriptor != "*" and not descriptor.endswith(".*"):
        return descriptor
    stem = descriptor.removesuffix("*")
    word = "anything"
    while f"{stem}{word}" in chart.event_names:
        word += "_"
    return f"{stem}{word}"


def _chart_of_child(chart: CompiledChart, child: Child) -> CompiledChart | None:
    """Return the chart of a child; None if it was read from a text."""
    content = chart.nodes[child.state].invokes[child.number].content
    if isinstance(content, CompiledChart):
        return content
    return chart.bindings.charts.get(child.source or "")


# ---------------------------------------------------------------- environments


class AbstractEnvironment:
    """The chart without its data; any timer may be the next to fire."""

    def __init__(self, chart: CompiledChart, alphabet: Alphabet) -> None:
        self._abstract = AbstractChart(chart)
        self._chart = self._abstract.chart
        self._oracle = self._abstract.oracle
        self._alphabet = alphabet
        self._limits: dict[str, None] = {}

    def first_steps(self) -> Iterator[PossibleStep]:
        """Yield the ways in which the chart can start."""
        return self._oracle.possible_steps(lambda: start(self._chart))

    def inputs(self, snapshot: ChartSnapshot) -> Iterator[ChartInput]:
        """Yield what can happen in a snapshot."""
        yield from self._alphabet.inputs(self._chart, snapshot)
        yield from _timer_inputs(snapshot, ())

    def steps(self, snapshot: ChartSnapshot, input: ChartInput) -> Iterator[PossibleStep]:
        """Yield what an input can cause."""
        ready = snapshot
        if snapshot.timers or snapshot.children:
            ready = _with_only_due(snapshot, input.timer, input.path)
        if input.timer is not None:
            return self._oracle.possible_steps(lambda: advance(self._chart, ready, ready.time))
        return self._oracle.possible_steps(lambda: step(self._chart, ready, input.event))

    def key(self, snapshot: ChartSnapshot) -> Hashable:
        """Return what tells a snapshot from others: all but data and times."""
        if not (snapshot.timers or snapshot.children or snapshot.history or snapshot.queue):
            return snapshot.configuration, snapshot.status
        return (
            snapshot.configuration,
            snapshot.status,
            tuple(sorted(map(_timer_kind, snapshot.timers))),
            tuple(
                (child.state, child.number, child.snapshot and self.key(child.snapshot))
                for child in snapshot.children
            ),
            tuple(event.name for event in snapshot.queue),
            tuple(sorted(snapshot.history.items())),
        )

    def bounded(self, snapshot: ChartSnapshot) -> ChartSnapshot:
        """Return a snapshot with at most two timers of a kind: a chart may start ever more."""
        if len(snapshot.timers) <= _MAX_EQUAL_TIMERS:
            return snapshot
        counts: Counter[Hashable] = Counter()
        timers: list[Timer] = []
        for timer in snapshot.timers:
            kind = _timer_kind(timer)
            counts[kind] += 1
            if counts[kind] <= _MAX_EQUAL_TIMERS:
                timers.append(timer)
            else:
                self._limits[f"more than {_MAX_EQUAL_TIMERS} timers for {timer.event.name}"] = None
        return snapshot._replace(timers=tuple(timers))

    def limits(self) -> Iterable[str]:
        """Return why what was found may not be all there is."""
        found = [*self._abstract.blind, *self._limits]
        if self._oracle.is_exhausted:
            found.append("one event asks so many guards that not all answers were tried")
        return found


class RealEnvironment:
    """The chart with its data and its clock."""

    def __init__(
        self, chart: CompiledChart, alphabet: Alphabet, data: dict[str, Any] | None
    ) -> None:
        self._chart = chart
        self._alphabet = alphabet
        self._data = data
        self._texts: dict[int, tuple[Any, str]] = {}

    def first_steps(self) -> Iterator[PossibleStep]:
        """Yield the one way in which the chart starts."""
        try:
            yield PossibleStep(start(self._chart, self._data), None, is_sure=True)
        except StepFailed as error:
            yield PossibleStep(None, error, is_sure=True)

    def inputs(self, snapshot: ChartSnapshot) -> Iterator[ChartInput]:
        """Yield what can happen in a snapshot: events, and the timer that is due first."""
        yield from self._alphabet.inputs(self._chart, snapshot)
        due = snapshot.next_due if snapshot.timers or snapshot.children else None
        if due is not None and snapshot.status == "running":
            first = min(_timer_inputs(snapshot, ()), key=lambda each: (each.timer or ())[:2])
            yield first._replace(wait=max(0, due - snapshot.time))

    def steps(self, snapshot: ChartSnapshot, input: ChartInput) -> Iterator[PossibleStep]:
        """Yield what an input causes."""
        try:
            if input.wait is None:
                found = step(self._chart, snapshot, ChartEvent(input.event, input.data))
            else:
                found = advance(self._chart, snapshot, snapshot.time + input.wait)
        except StepFailed as error:
            yield PossibleStep(None, error, is_sure=True)
        else:
            yield PossibleStep(found, None, is_sure=True)

    def key(self, snapshot: ChartSnapshot) -> Hashable:
        """Return what tells a snapshot from others: all of it, with times counted from now."""
        data = self._text(snapshot.data) if snapshot.data else ""
        head = (snapshot.configuration, snapshot.status, data, snapshot.bound)
        if not (snapshot.timers or snapshot.children or snapshot.history or snapshot.queue):
            return head
        return (
            *head,
            tuple(
                (timer.due - snapshot.time, *_timer_kind(timer), self._text(timer.event.data))
                for timer in sorted(snapshot.timers, key=lambda timer: timer[:2])
            ),
            tuple(
                (child.id, child.source, child.snapshot and self.key(child.snapshot))
                for child in snapshot.children
            ),
            tuple((event.name, self._text(event.data)) for event in snapshot.queue),
            tuple(sorted(snapshot.history.items())),
        )

    def bounded(self, snapshot: ChartSnapshot) -> ChartSnapshot:
        """Return the snapshot: nothing of it is left out here."""
        return snapshot

    def limits(self) -> Iterable[str]:
        """Return nothing: every step is a real one."""
        return ()

    def _text(self, value: Any) -> str:
        """Return data as a text, made once for each object."""
        known = self._texts.get(id(value))
        if known is None:
            known = self._texts[id(value)] = (value, json.dumps(value, sort_keys=True))
        return known[1]


# ---------------------------------------------------------------- timers


def _timer_inputs(snapshot: ChartSnapshot, path: tuple[int, ...]) -> Iterator[ChartInput]:
    """Yield the timers of a snapshot and its children as inputs."""
    if snapshot.status != "running":
        return
    for timer in snapshot.timers:
        yield ChartInput(timer.event.name, None, timer, path)
    for position, child in enumerate(snapshot.children):
        if child.snapshot is not None:
            yield from _timer_inputs(child.snapshot, (*path, position))


def _with_only_due(
    snapshot: ChartSnapshot, timer: Timer | None, path: tuple[int, ...]
) -> ChartSnapshot:
    """Return the snapshot with one timer due now and all others far away."""
    due, far = snapshot.time, snapshot.time + _FAR
    timers = tuple(
        each._replace(due=due if each is timer and not path else far) for each in snapshot.timers
    )
    children = tuple(
        child._replace(
            snapshot=child.snapshot
            and _with_only_due(child.snapshot, timer if path[:1] == (position,) else None, path[1:])
        )
        for position, child in enumerate(snapshot.children)
    )
    return snapshot._replace(timers=timers, children=children)


def _timer_kind(timer: Timer) -> tuple[str, str, str]:
    """Return what a timer is for, without its time; generated ids are left out."""
    id = "" if timer.id.startswith("send.") else timer.id
    return timer.event.name, id, timer.target or ""
