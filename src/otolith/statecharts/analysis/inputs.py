"""Surroundings: what can happen to a snapshot from outside, and what the real step makes of it.

`AbstractEnvironment` is for charts without data: guards answer both ways, any timer that waits may
be the next, services may answer or fail. `RealEnvironment` is the chart as it is: its guards, its
data, its clock; time passes by waiting for the next timer, and events come at once. Both say how a
chart may `begin`, which `moves` there are now, what each may lead to when it is taken, and by which
`key` two snapshots are the same; `limit_timers` bounds what could grow for ever, and `limits` tells
of it.

Scripts: what is done to a chart from outside, item by item, as a person writes it down.

An item is the name of an event, a pair of a name and its data, or `("after", seconds)` to let
virtual time pass. An event that is really called `after` is item_of_event as an `ChartEvent`.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from otolith.errors import BadValue, StepFailed
from otolith.statecharts.analysis.abstract import AbstractChart, PossibleStep
from otolith.statecharts.engine.compiled_chart import CompiledChart, StateNode
from otolith.statecharts.engine.step import advance, start, step
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, Child, Timer

FAR = 1 << 50
MAX_EQUAL_TIMERS = 2
_PLATFORM = frozenset({"error", "error.execution", "error.communication", "error.platform"})


class ChartInput(NamedTuple):
    """Something that can happen: an event, or a timer of the chart or of one below it."""

    event: str
    data: Any = None
    timer: Timer | None = None
    path: tuple[int, ...] = ()
    """Which child's timer it is: positions among children, from the top."""
    wait: int | None = None


class Alphabet:
    """The events that a chart can be sent from outside, state by state."""

    def __init__(self, events: Iterable[ChartEvent] | None) -> None:
        self._given = None if events is None else tuple(events)
        self._by_node: dict[tuple[str, str], tuple[str, ...]] = {}

    def moves(
        self, chart: CompiledChart, snapshot: ChartSnapshot
    ) -> dict[tuple[str, str], ChartInput]:
        """Return the events that somebody inside might take, each once."""
        found: dict[tuple[str, str], ChartInput] = {}
        if snapshot.status != "running":
            return found
        for node in chart.nodes_of(chart.mask_of(snapshot.configuration)):
            for name in self._names(chart, node):
                found.setdefault((name, ""), ChartInput(name))
        for child in snapshot.children:
            found |= self._of_child(chart, child)
        if self._given is not None:
            mask = chart.mask_of(snapshot.configuration)
            heard = [each for each in self._given if chart.candidates(mask, each.name).groups]
            forwarded = {name for name, _ in found}
            heard += [each for each in self._given if each not in heard and each.name in forwarded]
            return {
                (each.name, repr(each.data)): ChartInput(each.name, each.data) for each in heard
            }
        return found

    def _of_child(self, chart: CompiledChart, child: Child) -> dict[tuple[str, str], ChartInput]:
        if child.is_service:
            names = (f"done.invoke.{child.id}", f"error.invoke.{child.id}")
            return {(name, ""): ChartInput(name) for name in names}
        invoke = chart.nodes[child.state].invokes[child.number]
        if child.snapshot is None or not invoke.invoke.is_forwarding:
            return {}
        below = chart_of_child(chart, child)
        return {} if below is None else self.moves(below, child.snapshot)

    def _names(self, chart: CompiledChart, node: StateNode) -> tuple[str, ...]:
        key = (chart.hash, node.id)
        found = self._by_node.get(key)
        if found is None:
            own = {name for _, name in node.delays}
            names = (
                event
                for transition in node.transitions
                for event in transition.events
                if event not in own
            )
            found = tuple(
                example_event(chart, name) for name in names if not is_internal_event(name)
            )
            self._by_node[key] = found
        return found


def is_internal_event(descriptor: str) -> bool:
    """Return whether only the chart, its children or its services make such events."""
    stem = descriptor.removesuffix(".*").removesuffix(".")
    if stem in _PLATFORM or stem in {"done", "done.state", "done.invoke", "error.invoke"}:
        return True
    return stem.startswith(("done.state.", "done.invoke.", "error.invoke."))


def example_event(chart: CompiledChart, descriptor: str) -> str:
    """Return an event that a descriptor means, and no narrower one does."""
    if descriptor != "*" and not descriptor.endswith(".*"):
        return descriptor
    stem = descriptor.removesuffix("*")
    named = {event for transition in chart.transitions for event in transition.events}
    word = "anything"
    while f"{stem}{word}" in named:
        word += "_"
    return f"{stem}{word}"


def chart_of_child(chart: CompiledChart, child: Child) -> CompiledChart | None:
    """Return the chart of a child; None if it was read from a text."""
    content = chart.nodes[child.state].invokes[child.number].content
    if isinstance(content, CompiledChart):
        return content
    found: CompiledChart | None = chart.bindings.charts.get(child.source or "")
    return found


class AbstractEnvironment:
    """The chart without its data; any timer may be the next to fire."""

    def __init__(self, chart: CompiledChart, alphabet: Alphabet) -> None:
        self._abstract = AbstractChart(chart)
        self._chart = self._abstract.chart
        self._oracle = self._abstract.oracle
        self._alphabet = alphabet
        self._limits: dict[str, None] = {}

    def begin(self) -> Iterator[PossibleStep]:
        return self._oracle.ways(lambda: start(self._chart))

    def moves(self, snapshot: ChartSnapshot) -> Iterator[ChartInput]:
        yield from self._alphabet.moves(self._chart, snapshot).values()
        if snapshot.timers or snapshot.children:
            yield from _timers(snapshot, ())

    def take(self, snapshot: ChartSnapshot, move: ChartInput) -> Iterator[PossibleStep]:
        if move.timer is not None:
            ready = _only_due(snapshot, move.timer, move.path)
            return self._oracle.ways(lambda: advance(self._chart, ready, ready.time))
        if snapshot.timers or snapshot.children:
            snapshot = _only_due(snapshot, None, ())
        return self._oracle.ways(lambda: step(self._chart, snapshot, move.event))

    def key(self, snapshot: ChartSnapshot) -> Hashable:
        if not (snapshot.timers or snapshot.children or snapshot.history or snapshot.queue):
            return snapshot.configuration, snapshot.status
        timers = sorted(map(_untimed, snapshot.timers))
        children = tuple(
            (each.state, each.number, self._child_key(each)) for each in snapshot.children
        )
        queue = tuple(event.name for event in snapshot.queue)
        history = tuple(sorted(snapshot.history.items()))
        return snapshot.configuration, snapshot.status, tuple(timers), children, queue, history

    def _child_key(self, child: Child) -> Hashable:
        return None if child.snapshot is None else self.key(child.snapshot)

    def limit_timers(self, snapshot: ChartSnapshot) -> ChartSnapshot:
        """Keep at most two timers of a kind: a chart may start more and more of them."""
        if len(snapshot.timers) <= MAX_EQUAL_TIMERS:
            return snapshot
        counts: dict[Hashable, int] = {}
        kept: list[Timer] = []
        for timer in snapshot.timers:
            kind = _untimed(timer)
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= MAX_EQUAL_TIMERS:
                kept.append(timer)
            else:
                self._limits[f"more than {MAX_EQUAL_TIMERS} timers for {timer.event.name}"] = None
        return snapshot._replace(timers=tuple(kept))

    def limits(self) -> Iterable[str]:
        words = [*self._abstract.blind, *self._limits]
        if self._oracle.is_exhausted:
            words.append("one event asks so many guards that not all answers were tried")
        return words


class RealEnvironment:
    """The chart as it is, with its data and its clock."""

    def __init__(
        self, chart: CompiledChart, alphabet: Alphabet, data: dict[str, Any] | None
    ) -> None:
        self._chart = chart
        self._alphabet = alphabet
        self._data = data
        self._texts: dict[int, tuple[Any, str]] = {}

    def begin(self) -> Iterator[PossibleStep]:
        try:
            yield PossibleStep(start(self._chart, self._data), None, is_sure=True)
        except StepFailed as error:
            yield PossibleStep(None, error, is_sure=True)

    def moves(self, snapshot: ChartSnapshot) -> Iterator[ChartInput]:
        yield from self._alphabet.moves(self._chart, snapshot).values()
        due = snapshot.next_due if snapshot.timers or snapshot.children else None
        if due is not None and snapshot.status == "running":
            first = min(_timers(snapshot, ()), key=_when)
            yield first._replace(wait=max(0, due - snapshot.time))

    def take(self, snapshot: ChartSnapshot, move: ChartInput) -> Iterator[PossibleStep]:
        try:
            if move.wait is None:
                event = ChartEvent(move.event, move.data)
                found = step(self._chart, snapshot, event)
            else:
                found = advance(self._chart, snapshot, snapshot.time + move.wait)
        except StepFailed as error:
            yield PossibleStep(None, error, is_sure=True)
        else:
            yield PossibleStep(found, None, is_sure=True)

    def key(self, snapshot: ChartSnapshot) -> Hashable:
        data = self._text(snapshot.data) if snapshot.data else ""
        if not (snapshot.timers or snapshot.children or snapshot.history or snapshot.queue):
            return snapshot.configuration, snapshot.status, data, snapshot.bound
        timers = tuple(
            self._waiting(each, snapshot.time) for each in sorted(snapshot.timers, key=_order)
        )
        children = tuple(
            (each.id, each.source, each.snapshot and self.key(each.snapshot))
            for each in snapshot.children
        )
        queue = tuple((event.name, self._text(event.data)) for event in snapshot.queue)
        history = tuple(sorted(snapshot.history.items()))
        head = (snapshot.configuration, snapshot.status, data, snapshot.bound)
        return *head, timers, children, queue, history

    def limit_timers(self, snapshot: ChartSnapshot) -> ChartSnapshot:
        return snapshot

    def limits(self) -> Iterable[str]:
        return ()

    def _waiting(self, timer: Timer, now: int) -> Hashable:
        return timer.due - now, *_untimed(timer), self._text(timer.event.data)

    def _text(self, value: Any) -> str:
        """Return data as a text, made once for each object."""
        known = self._texts.get(id(value))
        if known is None:
            known = self._texts[id(value)] = (value, json.dumps(value, sort_keys=True))
        return known[1]


# ---------------------------------------------------------------- timers


def _timers(snapshot: ChartSnapshot, path: tuple[int, ...]) -> Iterator[ChartInput]:
    if snapshot.status != "running":
        return
    for timer in snapshot.timers:
        yield ChartInput(timer.event.name, None, timer, path)
    for position, child in enumerate(snapshot.children):
        if child.snapshot is not None:
            yield from _timers(child.snapshot, (*path, position))


def _only_due(snapshot: ChartSnapshot, timer: Timer | None, path: tuple[int, ...]) -> ChartSnapshot:
    """Return the snapshot with one timer due now and all others far away."""
    is_here = timer is not None and not path
    timers = tuple(
        each._replace(due=snapshot.time if is_here and each is timer else snapshot.time + FAR)
        for each in snapshot.timers
    )
    children = tuple(
        child
        if child.snapshot is None
        else child._replace(
            snapshot=_only_due(
                child.snapshot,
                timer if path and path[0] == position else None,
                path[1:],
            )
        )
        for position, child in enumerate(snapshot.children)
    )
    return snapshot._replace(timers=timers, children=children)


def _untimed(timer: Timer) -> tuple[str, str, str]:
    """Return what a timer is, but for when; ids that were made up are left out."""
    id = "" if timer.id.startswith("send.") else timer.id
    return timer.event.name, id, timer.target or ""


def _when(move: ChartInput) -> tuple[int, int]:
    return (0, 0) if move.timer is None else _order(move.timer)


def _order(timer: Timer) -> tuple[int, int]:
    return timer.due, timer.number


ScriptItem: TypeAlias = str | tuple[str, Any] | ChartEvent
SECOND = 1_000_000
AFTER = "after"


class ParsedItem(NamedTuple):
    """An item that was read: an event or none, and how long to wait, or until when, before it."""

    event: ChartEvent | None
    wait: int = 0
    at: int | None = None

    @property
    def item(self) -> ScriptItem:
        """The parsed as it is item_of_event in a script; `at` is not part of it."""
        if self.event is None:
            return (AFTER, to_seconds(self.wait))
        return item_of_event(self.event)


def parse_item(item: ScriptItem) -> ParsedItem:
    """Return what an item of a script means.

    Raises:
        BadValue: it is neither the name of an event, nor a pair, nor a time to wait.
    """
    if isinstance(item, str):
        return ParsedItem(ChartEvent(item))
    if isinstance(item, ChartEvent):
        return ParsedItem(item)
    parts: Any = item
    if not isinstance(parts, tuple | list) or len(parts) != 2 or not isinstance(parts[0], str):
        raise BadValue(
            f"{item!r} is not an item of a script",
            hint="write a name, a pair of a name and data, or ('after', seconds)",
        )
    name, data = parts
    if name != AFTER:
        return ParsedItem(ChartEvent(name, data))
    if isinstance(data, bool) or not isinstance(data, int | float) or not 0 <= data < 1e12:
        raise BadValue(f"{data!r} is not a number of seconds", hint="write ('after', 2.5)")
    return ParsedItem(None, round(data * SECOND))


def parse_script(items: Iterable[ScriptItem]) -> tuple[ParsedItem, ...]:
    return tuple(parse_item(item) for item in items)


def item_of_event(event: ChartEvent) -> ScriptItem:
    """Return an event as the item that `parse_item` reads it from."""
    if event.name == AFTER:
        return event
    return event.name if event.data is None else (event.name, event.data)


def to_seconds(microseconds: int) -> float:
    """Return a time in seconds, as a whole number where it is one."""
    return microseconds // SECOND if microseconds % SECOND == 0 else microseconds / SECOND


def format_item(item: ScriptItem) -> str:
    """Return an item in words."""
    parsed = parse_item(item)
    if parsed.event is None:
        return f"{to_seconds(parsed.wait)} s pass"
    return parsed.event.name
