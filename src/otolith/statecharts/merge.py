"""The merge of two branches of one machine: region by region, else by replaying one side's events.

A machine merges as one value: all that `storage.py` stores of it. Both sides started from the same
snapshot, the base, and each took other events.

1. *By region.* Where the branches moved different regions of a parallel state, each region comes
   from the side that moved it; data, history, timers and children likewise, each by its key.
2. *By replay.* Otherwise, or if the chart would not be at rest in the result, their events are
   sent to our snapshot in their order. If the chart refuses one of them, the merge is a conflict.

No effect is asked for twice: an effect that one side has carried out is done, one that is pending
on either side stays pending, and a replay adds only the effects that their branch did not ask for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from otolith.core import digest
from otolith.errors import Error
from otolith.frozen import FrozenDict
from otolith.statecharts.chart import Chart
from otolith.statecharts.engine.compiled_chart import StateNode
from otolith.statecharts.engine.microstep import is_in_final_state
from otolith.statecharts.engine.step import StepResult, is_at_rest
from otolith.statecharts.snapshot import ChartEvent, ChartSnapshot, Effect
from otolith.statecharts.storage import LoggedEvent, PendingEffect, StoredMachine

_RESOLVER = "lifecycle"
_ABSENT = object()


class _Divergence(Exception):
    """Both sides changed the same thing in different ways."""


class MachineMerger:
    """The merge resolver for the machines of a repo whose charts are known in this process."""

    def __init__(self) -> None:
        self._charts: dict[str, Chart] = {}

    def __repr__(self) -> str:
        return f"<MachineMerger {', '.join(chart.name for chart in self._charts.values())}>"

    @classmethod
    def among(cls, resolvers: dict[str, Any]) -> MachineMerger:
        """Return the merger among the resolvers of a repo; add one if there is none."""
        known = resolvers.setdefault(_RESOLVER, cls())
        assert isinstance(known, cls)
        return known

    def know(self, chart: Chart) -> None:
        """Merge machines of this chart from now on."""
        self._charts[chart.hash] = chart

    def __call__(self, base: Any, ours: Any, theirs: Any) -> Any:
        """Return the merged machine as it is stored; NotImplemented if it is a conflict."""
        if base is None:
            return NotImplemented
        try:
            sides = [StoredMachine.from_data(stored) for stored in (base, ours, theirs)]
            charts = {side.snapshot.chart for side in sides}
            chart = self._charts.get(charts.pop()) if len(charts) == 1 else None
            return NotImplemented if chart is None else _merge(chart, *sides).to_data()
        except (_Divergence, Error):
            return NotImplemented


def _merge(
    chart: Chart, base: StoredMachine, ours: StoredMachine, theirs: StoredMachine
) -> StoredMachine:
    """Return both sides as one machine; raise an `Error` if the chart refuses a replayed event."""
    their_events = theirs.log[len(base.log) :]
    log = [*ours.log, *their_events]
    outbox = _merge_by_key(base.outbox, ours.outbox, theirs.outbox)
    try:
        snapshot = _merge_by_region(chart, base.snapshot, ours.snapshot, theirs.snapshot)
        if _is_stable(chart, snapshot):
            return StoredMachine(snapshot, log, outbox)
    except _Divergence:
        pass
    steps = _replay(chart, ours.snapshot, their_events)
    asked = Counter(
        _content(effect)
        for step in _replay(chart, base.snapshot, their_events)
        for effect in step.effects
    )
    snapshot = steps[-1].snapshot if steps else ours.snapshot
    past = digest(repr([list(event) for event in log]).encode()).hex()
    return StoredMachine(snapshot, log, outbox | _new_effects(steps, asked, past))


# ---------------------------------------------------------------- by region


def _merge_by_region(
    chart: Chart, base: ChartSnapshot, ours: ChartSnapshot, theirs: ChartSnapshot
) -> ChartSnapshot:
    """Return the snapshot in which each region, variable, timer and child is from its side.

    Events that wait in a queue have an order, which two sides cannot share: they are replayed.
    """
    if base.queue or ours.queue or theirs.queue:
        raise _Divergence
    compiled = chart.compiled
    masks = [compiled.mask_of(side.configuration) for side in (base, ours, theirs)]
    return ours._replace(
        configuration=compiled.leaf_ids(_merge_masks(compiled.root, *masks)),
        seq=ours.seq + theirs.seq - base.seq,
        time=max(ours.time, theirs.time),
        status=_merge_value(base.status, ours.status, theirs.status),
        data=FrozenDict(_merge_by_key(base.data, ours.data, theirs.data)),
        history=FrozenDict(_merge_by_key(base.history, ours.history, theirs.history)),
        timers=_merge_by_id(base.timers, ours.timers, theirs.timers),
        children=_merge_by_id(base.children, ours.children, theirs.children),
        output=_merge_value(base.output, ours.output, theirs.output),
        counter=max(ours.counter, theirs.counter),
        bound=tuple(dict.fromkeys((*ours.bound, *theirs.bound))),
    )


def _merge_masks(node: StateNode, base: int, ours: int, theirs: int) -> int:
    """Return the merged configuration of a state and everything below it."""
    within = node.bit | node.descendant_mask
    base, ours, theirs = base & within, ours & within, theirs & within
    if ours in (base, theirs) or theirs == base:
        return theirs if ours == base else ours
    in_all = base & ours & theirs
    children = [child for child in node.children if in_all & child.bit]
    if not children or not in_all & node.bit or (node.kind != "parallel" and len(children) != 1):
        raise _Divergence
    mask = node.bit
    for child in children:
        mask |= _merge_masks(child, base, ours, theirs)
    return mask


def _is_stable(chart: Chart, snapshot: ChartSnapshot) -> bool:
    """Return whether a merged snapshot would cause no transition and no `done` event."""
    compiled = chart.compiled
    mask = compiled.mask_of(snapshot.configuration)
    return is_at_rest(compiled, snapshot) and not any(
        node.kind == "parallel" and node.bit & mask and is_in_final_state(node, mask)
        for node in compiled.order
    )


# ---------------------------------------------------------------- by replay


def _replay(
    chart: Chart, snapshot: ChartSnapshot, events: Iterable[LoggedEvent]
) -> list[StepResult]:
    """Return the steps that logged events make; one that the chart refuses raises."""
    steps: list[StepResult] = []
    for event, data, time in events:
        if event:
            steps.append(chart.step(snapshot, ChartEvent(event, data), now=time))
        else:
            steps.append(chart.advance(snapshot, time))
        snapshot = steps[-1].snapshot
    return steps


def _new_effects(
    steps: Iterable[StepResult], asked: Counter[str], past: str
) -> dict[str, PendingEffect]:
    """Return the effects of steps that were not asked for yet, under keys of their own.

    `past` identifies the merged events, so that only the same merge gives an effect the same key.
    """
    found: dict[str, PendingEffect] = {}
    for step in steps:
        for position, effect in enumerate(step.effects):
            content = _content(effect)
            if asked[content]:
                asked[content] -= 1
                continue
            order = step.snapshot.seq, position
            key = digest(f"{effect.session} {past} {order} {content}".encode())[:16].hex()
            found[key] = PendingEffect(replace(effect, key=key), order)
    return found


def _content(effect: Effect) -> str:
    """Return what an effect does, whichever step asked for it."""
    return repr({**effect.to_data(), "key": ""})


# ---------------------------------------------------------------- by key


def _merge_by_key(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge two dicts key by key; a key is absent where one side removed it.

    New keys come last and are sorted, so that the order is the same whoever merges whom.
    """
    result: dict[str, Any] = {}
    new = sorted({*ours, *theirs}.difference(base))
    for key in (*base, *new):
        sides = (side.get(key, _ABSENT) for side in (base, ours, theirs))
        value = _merge_value(*sides)
        if value is not _ABSENT:
            result[key] = value
    return result


def _merge_by_id(base: tuple[Any, ...], ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> Any:
    """Merge two lists of timers or children by their ids."""
    sides = ({each.id: each for each in side} for side in (base, ours, theirs))
    return tuple(_merge_by_key(*sides).values())


def _merge_value(base: Any, ours: Any, theirs: Any) -> Any:
    """Return the value of the side that changed it; raise `_Divergence` if both did."""
    if _is_same(ours, theirs) or _is_same(theirs, base):
        return ours
    if _is_same(ours, base):
        return theirs
    raise _Divergence


def _is_same(one: object, other: object) -> bool:
    return one == other and repr(one) == repr(other)  # 1 is not True, nor 1.0
