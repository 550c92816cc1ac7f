"""Two branches of one machine, merged: region by region, else by telling one side's events after.

What is merged is what `storage.py` keeps, all of it as one value. Both sides went on from the same
snapshot, the base, each with events of its own.

1. *By region.* Where the branches moved different regions of a parallel state, each region is taken
   from the side that moved it, and so are data, history, timers and children, each by its key.
2. *By replay.* Otherwise, or if the chart would not be at rest like that, their events are told
   to our snapshot in their order. A chart that refuses one of them leaves a conflict.

Effects are not asked for twice: what a side has carried out is done, what waits on either side
goes on waiting, and of a replay only what their branch did not ask for already is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from otolith.core import digest
from otolith.errors import Error
from otolith.frozen import FrozenDict
from otolith.shapes import mapping
from otolith.statecharts.chart import Chart
from otolith.statecharts.engine.chart_layout import Node
from otolith.statecharts.engine.step import Step, is_at_rest
from otolith.statecharts.snapshot import Effect, Event, Snapshot
from otolith.statecharts.storage import (
    DATA,
    LOG,
    OUTBOX,
    SNAPSHOT,
    Recorded,
    Waiting,
    log_of,
    outbox_of,
    snapshot_of,
)

RESOLVER = "lifecycle"


class _Apart(Exception):
    """Both sides changed the same thing in different ways."""


class Side(NamedTuple):
    """A machine on one side of a merge."""

    snapshot: Snapshot
    log: list[Recorded]
    outbox: dict[str, Waiting]

    @classmethod
    def of(cls, kept: object) -> Side:
        """Return what is kept of a machine.

        Raises:
            Corrupt: it is no machine.
        """
        found = mapping(kept, "a machine", object)
        snapshot = snapshot_of(found.get(SNAPSHOT), found.get(DATA))
        return cls(snapshot, log_of(found.get(LOG)), outbox_of(found.get(OUTBOX)))

    def to_data(self) -> dict[str, Any]:
        """Return it as it is kept."""
        snapshot = self.snapshot.to_data()
        kept = {SNAPSHOT: snapshot, DATA: snapshot.pop("data"), LOG: [list(e) for e in self.log]}
        outbox = {key: each.to_data() for key, each in self.outbox.items()}
        return kept | ({OUTBOX: outbox} if outbox else {})


class Merging:
    """Merges the machines of a repo whose charts are known in this process."""

    def __init__(self) -> None:
        self._charts: dict[str, Chart] = {}

    @classmethod
    def among(cls, resolvers: dict[str, Any]) -> Merging:
        """Return the one among the resolvers of a repo; it is made if there is none."""
        known = resolvers.setdefault(RESOLVER, cls())
        assert isinstance(known, cls)
        return known

    def know(self, chart: Chart) -> None:
        """Merge machines of this chart from now on."""
        self._charts[chart.hash] = chart

    def __call__(self, base: Any, ours: Any, theirs: Any) -> Any:
        """Return both sides as one; NotImplemented where that takes a decision."""
        if base is None:
            return NotImplemented
        try:
            sides = [Side.of(kept) for kept in (base, ours, theirs)]
        except Error:
            return NotImplemented
        charts = {side.snapshot.chart for side in sides}
        chart = self._charts.get(charts.pop()) if len(charts) == 1 else None
        if chart is None:
            return NotImplemented
        try:
            return merged(chart, *sides).to_data()
        except (_Apart, Error):
            return NotImplemented


def merged(chart: Chart, base: Side, ours: Side, theirs: Side) -> Side:
    """Return both sides as one."""
    new = theirs.log[len(base.log) :]
    log = [*ours.log, *new]
    outbox = _three_way(base.outbox, ours.outbox, theirs.outbox)
    try:
        snapshot = _by_region(chart, base.snapshot, ours.snapshot, theirs.snapshot)
    except _Apart:
        pass
    else:
        if _is_whole(chart, snapshot):
            return Side(snapshot, log, outbox)
    steps = _told(chart, ours.snapshot, new)
    asked = _asked(_told(chart, base.snapshot, new))
    extra = _unasked(steps, asked)
    snapshot = steps[-1].snapshot if steps else ours.snapshot
    return Side(snapshot, log, outbox | extra)


# By region


def _by_region(chart: Chart, base: Snapshot, ours: Snapshot, theirs: Snapshot) -> Snapshot:
    if base.queue or ours.queue or theirs.queue:
        raise _Apart
    sides = [chart.model.mask_of(each.configuration) for each in (base, ours, theirs)]
    mask = _active(chart.model.root, *sides)
    return ours._replace(
        configuration=chart.model.leaves_of(mask),
        seq=ours.seq + theirs.seq - base.seq,
        time=max(ours.time, theirs.time),
        status=_one(base.status, ours.status, theirs.status),
        data=FrozenDict(_three_way(base.data, ours.data, theirs.data)),
        history=FrozenDict(_three_way(base.history, ours.history, theirs.history)),
        timers=_listed(base.timers, ours.timers, theirs.timers),
        children=_listed(base.children, ours.children, theirs.children),
        output=_one(base.output, ours.output, theirs.output),
        counter=max(ours.counter, theirs.counter),
        bound=tuple(dict.fromkeys((*ours.bound, *theirs.bound))),
    )


def _active(node: Node, base: int, ours: int, theirs: int) -> int:
    """Return the active states of both sides, of a state and everything below it."""
    within = node.bit | node.below
    base, ours, theirs = base & within, ours & within, theirs & within
    if ours in (base, theirs) or theirs == base:
        return theirs if ours == base else ours
    below = [child for child in node.children if (base & ours & theirs) & child.bit]
    if node.kind != "parallel" and len(below) != 1:
        raise _Apart
    if not below or not base & ours & theirs & node.bit:
        raise _Apart
    mask = node.bit
    for child in below:
        mask |= _active(child, base, ours, theirs)
    return mask


def _is_whole(chart: Chart, snapshot: Snapshot) -> bool:
    """Tell whether nothing follows from a snapshot that was put together."""
    if not is_at_rest(chart.model, snapshot):
        return False
    mask = chart.model.mask_of(snapshot.configuration)
    return not any(
        node.kind == "parallel"
        and node.bit & mask
        and all(_is_over(c, mask) for c in node.children)
        for node in chart.model.order
    )


def _is_over(node: Node, mask: int) -> bool:
    if node.kind == "parallel":
        return all(_is_over(child, mask) for child in node.children)
    return any(child.kind == "final" and child.bit & mask for child in node.children)


# By replay


def _told(chart: Chart, snapshot: Snapshot, events: Iterable[Recorded]) -> list[Step]:
    """Return the steps that events make; one that is refused raises."""
    steps: list[Step] = []
    for event, data, time in events:
        if not event:
            step = chart.advance(snapshot, time)
        else:
            step = chart.step(snapshot, Event(event, data), now=time)
        snapshot = step.snapshot
        steps.append(step)
    return steps


def _asked(steps: Iterable[Step]) -> Counter[str]:
    return Counter(_content(effect) for step in steps for effect in step.effects)


def _unasked(steps: Iterable[Step], asked: Counter[str]) -> dict[str, Waiting]:
    """Return the effects of steps that nobody has asked for yet."""
    left, found = asked.copy(), dict[str, Waiting]()
    for step in steps:
        for place, effect in enumerate(step.effects):
            content = _content(effect)
            if left[content]:
                left[content] -= 1
                continue
            order = step.snapshot.seq, place
            key = digest(f"{effect.session} {order} {content}".encode())[:16].hex()
            found[key] = Waiting(replace(effect, key=key), order)
    return found


def _content(effect: Effect) -> str:
    """Return what an effect does, whenever it was asked for."""
    return repr({**effect.to_data(), "key": ""})


# By key


def _three_way(base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Any:
    result = dict(ours)
    for key in dict.fromkeys((*base, *theirs)):
        value = _one(base.get(key, _GONE), ours.get(key, _GONE), theirs.get(key, _GONE))
        result.pop(key, None)
        if value is not _GONE:
            result[key] = value
    return result


def _listed(base: tuple[Any, ...], ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> Any:
    named = [{each.id: each for each in side} for side in (base, ours, theirs)]
    return tuple(_three_way(*named).values())


def _one(base: Any, ours: Any, theirs: Any) -> Any:
    if _is_same(ours, theirs) or _is_same(theirs, base):
        return ours
    if _is_same(ours, base):
        return theirs
    raise _Apart


def _is_same(one: object, other: object) -> bool:
    return one == other and repr(one) == repr(other)  # 1 is not True, nor 1.0


_GONE = object()
