"""Surroundings: what can happen to a snapshot from outside, and what the real step makes of it.

`Untimed` is for charts without data: guards answer both ways, any timer that waits may be the next,
services may answer or fail. `Timed` is the chart as it is: its guards, its data, its clock; time
passes by waiting for the next timer, and events come at once. Both say how a chart may `begin`,
which `moves` there are now, what each may lead to when it is taken, and by which `key` two
snapshots are the same; `calm` bounds what could grow for ever, and `limits` tells of it.

Scripts: what is done to a chart from outside, item by item, as a person writes it down.

An item is the name of an event, a pair of a name and its data, or `("after", seconds)` to let
virtual time pass. An event that is really called `after` is written as an `ChartEvent`.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from otolith.errors import BadValue, StepFailed
from otolith.statecharts.analysis.abstract import Abstract, Way
from otolith.statecharts.engine.compiled_chart import CompiledChart, StateNode
from otolith.statecharts.engine.step import advance, start, step
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, Child, Timer

FAR = 1 << 50
MOST_EQUAL_TIMERS = 2
_PLATFORM = frozenset({"error", "error.execution", "error.communication", "error.platform"})


class Move(NamedTuple):
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

    def moves(self, model: CompiledChart, snapshot: ChartSnapshot) -> dict[tuple[str, str], Move]:
        """Return the events that somebody inside might take, each once."""
        found: dict[tuple[str, str], Move] = {}
        if snapshot.status != "running":
            return found
        for node in model.nodes_of(model.mask_of(snapshot.configuration)):
            for name in self._names(model, node):
                found.setdefault((name, ""), Move(name))
        for child in snapshot.children:
            found |= self._of_child(model, child)
        if self._given is not None:
            mask = model.mask_of(snapshot.configuration)
            heard = [each for each in self._given if model.candidates(mask, each.name).groups]
            forwarded = {name for name, _ in found}
            heard += [each for each in self._given if each not in heard and each.name in forwarded]
            return {(each.name, repr(each.data)): Move(each.name, each.data) for each in heard}
        return found

    def _of_child(self, model: CompiledChart, child: Child) -> dict[tuple[str, str], Move]:
        if child.is_service:
            names = (f"done.invoke.{child.id}", f"error.invoke.{child.id}")
            return {(name, ""): Move(name) for name in names}
        call = model.nodes[child.state].invokes[child.number]
        if child.snapshot is None or not call.invoke.is_forwarding:
            return {}
        below = model_below(model, child)
        return {} if below is None else self.moves(below, child.snapshot)

    def _names(self, model: CompiledChart, node: StateNode) -> tuple[str, ...]:
        key = (model.hash, node.id)
        found = self._by_node.get(key)
        if found is None:
            own = {name for _, name in node.delays}
            names = (event for arc in node.transitions for event in arc.events if event not in own)
            found = tuple(sample(model, name) for name in names if not is_from_inside(name))
            self._by_node[key] = found
        return found


def is_from_inside(descriptor: str) -> bool:
    """Return whether only the chart, its children or its services make such events."""
    stem = descriptor.removesuffix(".*").removesuffix(".")
    if stem in _PLATFORM or stem in {"done", "done.state", "done.invoke", "error.invoke"}:
        return True
    return stem.startswith(("done.state.", "done.invoke.", "error.invoke."))


def sample(model: CompiledChart, descriptor: str) -> str:
    """Return an event that a descriptor means, and no narrower one does."""
    if descriptor != "*" and not descriptor.endswith(".*"):
        return descriptor
    stem = descriptor.removesuffix("*")
    named = {event for arc in model.transitions for event in arc.events}
    word = "anything"
    while f"{stem}{word}" in named:
        word += "_"
    return f"{stem}{word}"


def model_below(model: CompiledChart, child: Child) -> CompiledChart | None:
    """Return the model of a child; None if it was read from a text."""
    content = model.nodes[child.state].invokes[child.number].content
    if isinstance(content, CompiledChart):
        return content
    found: CompiledChart | None = model.bindings.charts.get(child.source or "")
    return found


class Untimed:
    """The chart without its data; any timer may be the next to fire."""

    def __init__(self, model: CompiledChart, alphabet: Alphabet) -> None:
        self._abstract = Abstract(model)
        self._model = self._abstract.model
        self._oracle = self._abstract.oracle
        self._alphabet = alphabet
        self._limits: dict[str, None] = {}

    def begin(self) -> Iterator[Way]:
        return self._oracle.ways(lambda: start(self._model))

    def moves(self, snapshot: ChartSnapshot) -> Iterator[Move]:
        yield from self._alphabet.moves(self._model, snapshot).values()
        if snapshot.timers or snapshot.children:
            yield from _timers(snapshot, ())

    def take(self, snapshot: ChartSnapshot, move: Move) -> Iterator[Way]:
        if move.timer is not None:
            ready = _only_due(snapshot, move.timer, move.path)
            return self._oracle.ways(lambda: advance(self._model, ready, ready.time))
        if snapshot.timers or snapshot.children:
            snapshot = _only_due(snapshot, None, ())
        return self._oracle.ways(lambda: step(self._model, snapshot, move.event))

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

    def calm(self, snapshot: ChartSnapshot) -> ChartSnapshot:
        """Keep at most two timers of a kind: a chart may start more and more of them."""
        if len(snapshot.timers) <= MOST_EQUAL_TIMERS:
            return snapshot
        counts: dict[Hashable, int] = {}
        kept: list[Timer] = []
        for timer in snapshot.timers:
            kind = _untimed(timer)
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= MOST_EQUAL_TIMERS:
                kept.append(timer)
            else:
                self._limits[f"more than {MOST_EQUAL_TIMERS} timers for {timer.event.name}"] = None
        return snapshot._replace(timers=tuple(kept))

    def limits(self) -> Iterable[str]:
        words = [*self._abstract.blind, *self._limits]
        if self._oracle.is_exhausted:
            words.append("one event asks so many guards that not all answers were tried")
        return words


class Timed:
    """The chart as it is, with its data and its clock."""

    def __init__(
        self, model: CompiledChart, alphabet: Alphabet, data: dict[str, Any] | None
    ) -> None:
        self._model = model
        self._alphabet = alphabet
        self._data = data
        self._texts: dict[int, tuple[Any, str]] = {}

    def begin(self) -> Iterator[Way]:
        try:
            yield Way(start(self._model, self._data), None, is_sure=True)
        except StepFailed as error:
            yield Way(None, error, is_sure=True)

    def moves(self, snapshot: ChartSnapshot) -> Iterator[Move]:
        yield from self._alphabet.moves(self._model, snapshot).values()
        due = snapshot.next_due if snapshot.timers or snapshot.children else None
        if due is not None and snapshot.status == "running":
            first = min(_timers(snapshot, ()), key=_when)
            yield first._replace(wait=max(0, due - snapshot.time))

    def take(self, snapshot: ChartSnapshot, move: Move) -> Iterator[Way]:
        try:
            if move.wait is None:
                event = ChartEvent(move.event, move.data)
                found = step(self._model, snapshot, event)
            else:
                found = advance(self._model, snapshot, snapshot.time + move.wait)
        except StepFailed as error:
            yield Way(None, error, is_sure=True)
        else:
            yield Way(found, None, is_sure=True)

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

    def calm(self, snapshot: ChartSnapshot) -> ChartSnapshot:
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


def _timers(snapshot: ChartSnapshot, path: tuple[int, ...]) -> Iterator[Move]:
    if snapshot.status != "running":
        return
    for timer in snapshot.timers:
        yield Move(timer.event.name, None, timer, path)
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


def _when(move: Move) -> tuple[int, int]:
    return (0, 0) if move.timer is None else _order(move.timer)


def _order(timer: Timer) -> tuple[int, int]:
    return timer.due, timer.number


Item: TypeAlias = str | tuple[str, Any] | ChartEvent
SECOND = 1_000_000
AFTER = "after"


class Cue(NamedTuple):
    """An item that was read: an event or none, and how long to wait, or until when, before it."""

    event: ChartEvent | None
    wait: int = 0
    at: int | None = None

    @property
    def item(self) -> Item:
        """The cue as it is written in a script; `at` is not part of it."""
        if self.event is None:
            return (AFTER, seconds_of(self.wait))
        return written(self.event)


def cue_of(item: Item) -> Cue:
    """Return what an item of a script means.

    Raises:
        BadValue: it is neither the name of an event, nor a pair, nor a time to wait.
    """
    if isinstance(item, str):
        return Cue(ChartEvent(item))
    if isinstance(item, ChartEvent):
        return Cue(item)
    parts: Any = item
    if not isinstance(parts, tuple | list) or len(parts) != 2 or not isinstance(parts[0], str):
        raise BadValue(
            f"{item!r} is not an item of a script",
            hint="write a name, a pair of a name and data, or ('after', seconds)",
        )
    name, data = parts
    if name != AFTER:
        return Cue(ChartEvent(name, data))
    if isinstance(data, bool) or not isinstance(data, int | float) or not 0 <= data < 1e12:
        raise BadValue(f"{data!r} is not a number of seconds", hint="write ('after', 2.5)")
    return Cue(None, round(data * SECOND))


def cues_of(items: Iterable[Item]) -> tuple[Cue, ...]:
    return tuple(cue_of(item) for item in items)


def written(event: ChartEvent) -> Item:
    """Return an event as the item that `cue_of` reads it from."""
    if event.name == AFTER:
        return event
    return event.name if event.data is None else (event.name, event.data)


def seconds_of(microseconds: int) -> float:
    """Return a time in seconds, as a whole number where it is one."""
    return microseconds // SECOND if microseconds % SECOND == 0 else microseconds / SECOND


def told(item: Item) -> str:
    """Return an item in words."""
    cue = cue_of(item)
    if cue.event is None:
        return f"{seconds_of(cue.wait)} s pass"
    return cue.event.name
