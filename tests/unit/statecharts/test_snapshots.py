"""A snapshot is one immutable value that can be written down at any moment."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otolith.errors import BadValue, ChartMismatch, Corrupt, StepFailed
from otolith.frozen import freeze
from otolith.statecharts import Chart, ChartEvent, ChartSnapshot, enqueue, turn

TRIP = {
    "id": "trip",
    "initial": "idle",
    "context": {"tries": 0, "seen": []},
    "states": {
        "idle": {"on": {"plan": "work"}},
        "work": {
            "type": "parallel",
            "on": {"pause": "paused", "fail": {"target": "idle", "actions": ["forget"]}},
            "states": {
                "think": {
                    "initial": "first",
                    "states": {
                        "first": {"after": {"1000": "second"}, "on": {"next": "second"}},
                        "second": {"on": {"next": "first"}, "entry": ["count"]},
                        "past": {"type": "history"},
                    },
                },
                "ask": {
                    "initial": "out",
                    "states": {
                        "out": {"on": {"call": {"target": "in", "guard": {"@expr": "tries < 3"}}}},
                        "in": {
                            "invoke": {
                                "id": "clerk",
                                "src": {
                                    "id": "clerk",
                                    "initial": "busy",
                                    "states": {
                                        "busy": {"after": {"500": "free"}},
                                        "free": {"type": "final"},
                                    },
                                },
                                "onDone": {"target": "out", "actions": ["count", "note"]},
                            },
                            "on": {"next": "out"},
                        },
                    },
                },
            },
        },
        "paused": {"on": {"resume": "work.think.past"}},
    },
}
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["plan", "next", "call", "pause", "resume", "fail", "clock"]),
        st.integers(0, 1_500_000),
    ),
    max_size=25,
)


def trip():
    chart = Chart.from_data(TRIP)
    chart.is_strict = False

    @chart.action
    def count(data, event):
        return {"tries": data["tries"] + 1, "seen": [*data["seen"], event.name]}

    @chart.action
    def forget(data, event):
        return {"tries": 0}

    return chart


def move(chart, snapshot, event, now):
    if event == "clock":
        return chart.advance(snapshot, now)
    return chart.step(snapshot, event, {"why": [event]}, now=now)


def again(snapshot):
    return ChartSnapshot.from_data(json.loads(json.dumps(snapshot.to_data())))


@settings(max_examples=2 * settings().max_examples)
@given(MOVES)
def test_a_run_interrupted_between_all_steps_is_indistinguishable(moves):
    chart = trip()
    here = there = chart.start(session="s")
    now = 0
    for event, wait in moves:
        now += wait
        here = move(chart, here.snapshot, event, now)
        there = move(trip(), again(there.snapshot), event, now)
        assert there == here


@settings(max_examples=2 * settings().max_examples)
@given(MOVES)
def test_a_run_interrupted_between_all_macrosteps_ends_the_same(moves):
    chart = trip()
    whole = pieces = chart.start(session="s").snapshot
    now = 0
    for event, wait in moves:
        now += wait
        whole = chart.advance(whole, now).snapshot
        pieces = in_turns(again(pieces), now)
        if event != "clock":
            whole = chart.step(whole, event, now=now).snapshot
            pieces = in_turns(enqueue(pieces, ChartEvent(event)), now)
        assert pieces._replace(seq=0) == whole._replace(seq=0)


def in_turns(snapshot, now):
    while (moved := turn(trip().compiled, again(snapshot), now)) is not None:
        snapshot = moved.snapshot
    return snapshot._replace(time=max(snapshot.time, now))


@settings(max_examples=2 * settings().max_examples)
@given(MOVES)
def test_old_snapshots_never_change(moves):
    chart = trip()
    snapshot = chart.start().snapshot
    past = [(snapshot, json.dumps(snapshot.to_data()))]
    now = 0
    for event, wait in moves:
        now += wait
        snapshot = move(chart, snapshot, event, now).snapshot
        past.append((snapshot, json.dumps(snapshot.to_data())))

    assert all(json.dumps(old.to_data()) == text for old, text in past)


def test_an_action_that_writes_in_place_is_told_so_and_changes_nothing():
    chart = Chart.from_data(
        {
            "initial": "a",
            "context": {"items": [1]},
            "states": {"a": {"on": {"go": {"actions": ["sneak"]}}}},
        }
    )

    @chart.action
    def sneak(data, event):
        data["items"].append(2)

    before = chart.start().snapshot
    with pytest.raises(ValueError, match=r"sneak.*in place"):
        chart.step(before, "go")

    assert before.data == {"items": [1]}


def test_what_is_handed_in_can_be_changed_afterwards_without_harm():
    chart = Chart.from_data(
        {"initial": "a", "states": {"a": {"on": {"go": {"actions": ["keep"]}}}}}
    )

    @chart.action
    def keep(data, event):
        return {"kept": event.data}

    mine = {"list": [1]}
    after = chart.step(chart.start().snapshot, "go", mine).snapshot
    mine["list"].append(2)

    assert after.data["kept"] == {"list": [1]}


def test_a_snapshot_can_be_pickled_and_is_equal():
    snapshot = trip().start({"x": {"y": [1]}}).snapshot

    assert pickle.loads(pickle.dumps(snapshot)) == snapshot


def test_data_that_json_cannot_carry_is_refused_at_the_door():
    chart = trip()

    with pytest.raises(BadValue, match="set"):
        chart.start({"x": {1, 2}})
    with pytest.raises(BadValue, match="inf"):
        chart.step(chart.start().snapshot, "plan", {"x": float("inf")})


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"format": 99},
        {**trip().start().snapshot.to_data(), "timers": [{}]},
        {**trip().start().snapshot.to_data(), "queue": 3},
        {**trip().start().snapshot.to_data(), "data": {"x": object()}},
    ],
)
def test_what_is_no_snapshot_is_said_to_be_corrupt(broken):
    with pytest.raises(Corrupt):
        ChartSnapshot.from_data(broken)


@pytest.mark.parametrize(
    "states",
    [
        (),
        ("nowhere",),
        ("work",),
        ("idle", "paused"),
        ("work.think.first",),
        ("work.think.first", "work.think.second", "work.ask.out"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(states):
    chart = trip()
    snapshot = chart.start().snapshot._replace(configuration=states)

    with pytest.raises(Corrupt, match="impossible"):
        chart.step(snapshot, "plan")


def test_a_snapshot_of_another_chart_is_refused_by_name():
    chart = trip()
    other = Chart.from_data({"id": "other", "initial": "idle", "states": {"idle": {}}})

    with pytest.raises(ChartMismatch, match="other") as caught:
        other.step(chart.start().snapshot, "plan")

    assert (caught.value.expected, caught.value.actual) == (other.hash, chart.hash)


def test_a_snapshot_of_another_chart_is_refused_where_steps_are_looked_up_too():
    one = Chart.from_table({("a", "go"): "b", ("b", "go"): "a"}, initial="a", name="one")
    two = Chart.from_table({("a", "go"): "b", ("b", "go"): "a"}, initial="a", name="two")
    for _ in range(2):
        two.step(two.start().snapshot, "go")

    with pytest.raises(ChartMismatch):
        two.step(one.start().snapshot, "go")


def test_what_was_set_at_the_first_entry_is_not_set_again_after_a_restore():
    text = """
      <scxml binding="late"><state id="a"><transition event="go" target="b"/></state>
        <state id="b"><datamodel><data id="n" expr="7"/></datamodel>
          <transition event="go" target="a"><assign location="n" expr="n + 1"/></transition>
        </state></scxml>"""
    snapshot = Chart.from_scxml(text).start().snapshot
    for _ in range(3):
        snapshot = Chart.from_scxml(text).step(again(snapshot), "go").snapshot

    assert (snapshot.phase, snapshot.data["n"]) == ("b", 8)


def test_what_is_frozen_is_not_copied_again():
    value = freeze({"a": [1, {"b": 2}]})

    assert freeze(value) is value
    assert freeze({"x": value})["x"] is value


def test_the_data_of_a_snapshot_is_the_same_object_when_a_step_did_not_touch_it():
    chart = trip()
    before = chart.start().snapshot

    assert chart.step(before, "plan").snapshot.data is before.data


# ---------------------------------------------------------------- values that contain themselves


def grown(expression, rounds, **bound):
    assign = {"type": "xstate.assign", "context": {"l": {"@expr": expression}}}
    chart = Chart.from_data(
        {
            "id": "m",
            "initial": "a",
            "context": {"l": [1]},
            "states": {"a": {"on": {"go": {"actions": bound.get("action", assign)}}}},
        }
    )
    if bound:
        chart.action("grow")(lambda data, event: {"l": [data["l"], data["l"]]})
    snapshot = chart.start().snapshot
    for _ in range(rounds):
        snapshot = chart.step(snapshot, "go").snapshot
    return snapshot


@pytest.mark.parametrize(
    ("expression", "bound"),
    [
        ("[context.l, context.l]", {}),
        ("{'a': context.l, 'b': context.l}", {}),
        ("", {"action": ["grow"]}),
    ],
)
def test_a_value_that_doubles_is_refused_before_it_cannot_be_written_out(expression, bound):
    assert len(json.dumps(grown(expression, 10, **bound).to_data())) > 2**10

    with pytest.raises(StepFailed, match="items, written out, and at most 1,000,000 fit"):
        grown(expression, 30, **bound)


def test_a_value_that_is_nested_in_itself_is_refused_when_it_is_too_deep():
    assert grown("[context.l]", 98).to_data()

    with pytest.raises(StepFailed, match="nested more than 100 deep"):
        grown("[context.l]", 5_000)


def test_an_event_that_carries_itself_twice_is_refused():
    again = {"type": "xstate.raise", "event": {"type": "go", "x": {"@expr": "[event.x, event.x]"}}}
    chart = Chart.from_data(
        {"id": "m", "initial": "a", "states": {"a": {"on": {"go": {"actions": again}}}}}
    )

    with pytest.raises(StepFailed, match="written out"):
        chart.step(chart.start().snapshot, "go", {"x": [1]})


def test_what_is_large_and_not_nested_in_itself_fits():
    chart = Chart.from_table({("a", "go"): "a"}, initial="a")

    assert len(chart.start({"rows": list(range(900_000))}).snapshot.data["rows"]) == 900_000
