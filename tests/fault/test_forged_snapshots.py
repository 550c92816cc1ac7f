"""A snapshot that somebody changed is refused by every verb: in a store, as data, as a value."""

from __future__ import annotations

from typing import Any, cast

import pytest

from otolith import Memory, Versioned
from otolith.errors import BadValue, ChartMismatch, Corrupt
from otolith.statecharts import Chart, ChartEvent, ChartSnapshot, machines_in

CHART = Chart.from_data(
    {
        "id": "m",
        "initial": "out",
        "states": {
            "out": {"on": {"go": "in"}, "after": {"1000": "in"}},
            "in": {
                "initial": "one",
                "invoke": {"id": "w", "src": "work"},
                "on": {"leave": "out", "back": ".past"},
                "states": {
                    "one": {"on": {"next": "both"}},
                    "both": {"type": "parallel", "states": {"x": {}, "y": {}}},
                    "past": {"history": "shallow"},
                    "deep": {"history": "deep"},
                },
            },
        },
    }
)


def snapshot_of(*events: str) -> ChartSnapshot:
    snapshot = CHART.start().snapshot
    for event in events:
        snapshot = CHART.step(snapshot, event).snapshot
    return snapshot


GOOD = snapshot_of("go", "next")
CHILD = GOOD.to_data()["children"][0]
TIMER = snapshot_of().to_data()["timers"][0]
FORGED: dict[str, dict[str, Any]] = {
    "a status": {"status": "weird"},
    "a configuration that is a text": {"configuration": "x"},
    "a configuration of a dict": {"configuration": [{"a": 1}]},
    "no configuration": {"configuration": []},
    "an unknown state": {"configuration": ["nowhere"]},
    "a state twice": {"configuration": ["in.both.x", "in.both.x", "in.both.y"]},
    "half of a parallel state": {"configuration": ["in.both.x"]},
    "an unknown history": {"history": {"nowhere": ["out"]}},
    "a history of other states": {"history": {"in.past": ["out"]}},
    "a history of two states": {"history": {"in.past": ["in.one", "in.both"]}},
    "a history of nothing": {"history": {"in.past": []}},
    "a deep history of half a state": {"history": {"in.deep": ["in.both.x"]}},
    "a history that is a text": {"history": {"in.past": "in.one"}},
    "a negative step": {"seq": -5},
    "a step that is a truth": {"seq": True},
    "a huge time": {"time": 10**30},
    "a negative counter": {"counter": -1},
    "a child of no invoke": {"children": [{**CHILD, "number": 7}]},
    "a child of a negative invoke": {"children": [{**CHILD, "number": -1}]},
    "a child of an unknown state": {"children": [{**CHILD, "state": "nowhere"}]},
    "a child of a state that is not active": {"configuration": ["out"], "children": [CHILD]},
    "a child twice": {"children": [CHILD, CHILD]},
    "a timer for no event": {"timers": [{**TIMER, "event": {"name": "", "data": None}}]},
    "a huge timer": {"timers": [{**TIMER, "due": 10**30}]},
    "an event without a name": {"queue": [{"name": "", "data": None}]},
    "an unknown bound state": {"bound": ["nowhere"]},
    "a failed chart in an unknown state": {"status": "error", "configuration": ["nowhere"]},
}
each_forged = pytest.mark.parametrize("change", FORGED.values(), ids=FORGED.keys())
each_verb = pytest.mark.parametrize(
    "verb",
    [
        lambda chart, snapshot: chart.step(snapshot, "leave"),
        lambda chart, snapshot: chart.advance(snapshot, 10),
        lambda chart, snapshot: chart.can(snapshot, "leave"),
        lambda chart, snapshot: chart.allowed(snapshot),
        lambda chart, snapshot: chart.migrate(snapshot),
    ],
    ids=["step", "advance", "can", "allowed", "migrate"],
)


@each_verb
@each_forged
def test_every_verb_says_that_it_is_corrupt(change, verb):
    with pytest.raises(Corrupt):
        verb(CHART, ChartSnapshot.from_data({**GOOD.to_data(), **change}))


@each_verb
@each_forged
def test_one_that_was_changed_in_memory_is_corrupt_too(change, verb):
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in change.items()
    }
    with pytest.raises(Corrupt):
        verb(CHART, GOOD._replace(**fields))


@each_verb
def test_one_of_another_chart_is_a_mismatch_for_every_verb(verb):
    other = Chart.from_table({("out", "leave"): "in"}, initial="out")

    with pytest.raises(ChartMismatch):
        verb(other, GOOD)


@each_forged
def test_a_machine_does_not_open_on_it(change):
    state = Versioned(Memory())
    machine = state.lifecycle(CHART)
    machine.send("go")
    machine.send("next")
    state.commit("begun")
    stored = machine.snapshot.to_data()
    del stored["data"]
    path = (".lifecycle", "main", "snapshot")
    state.write_reserved(path, state.cells.put({**stored, **change}))

    with pytest.raises(Corrupt):
        state.lifecycle(CHART)


@each_verb
@pytest.mark.parametrize("other", [None, {}, (), 5, "out", [1, 2, 3]], ids=repr)
def test_what_is_no_snapshot_at_all_is_a_bad_value(other, verb):
    with pytest.raises(BadValue, match="must be a ChartSnapshot"):
        verb(CHART, other)


NOT_EVENTS: list[Any] = [5, None, [], {}, ChartEvent(cast("Any", 5)), ChartEvent("")]


@pytest.mark.parametrize("event", NOT_EVENTS, ids=repr)
def test_what_is_no_event_is_a_bad_value(event):
    with pytest.raises(BadValue, match="an event must"):
        CHART.step(GOOD, event)
    with pytest.raises(BadValue, match="an event must"):
        CHART.can(GOOD, event)


def test_a_snapshot_of_a_step_is_accepted_however_it_travelled():
    assert CHART.step(ChartSnapshot.from_data(GOOD.to_data()), "leave") == CHART.step(GOOD, "leave")
    assert machines_in(Versioned(Memory())) == {}
