"""Timers are deadlines: they fire in order, at their own time, in whatever process."""

from __future__ import annotations

import json

from otolith.statecharts import Chart, ChartSnapshot

SECOND = 1_000_000
FLAT = Chart.from_table({("a", "go"): "b", ("b", "go"): "a"}, initial="a")


def waiting():
    return Chart.from_data(
        {
            "id": "wait",
            "initial": "idle",
            "states": {
                "idle": {"on": {"go": "waiting"}},
                "waiting": {"after": {"1000": "late", "5s": "later"}, "on": {"stop": "idle"}},
                "late": {"after": {"1000": "later"}},
                "later": {},
            },
        }
    )


def test_a_timer_fires_when_its_deadline_has_come_and_not_before():
    chart = waiting()
    snapshot = chart.step(chart.start().snapshot, "go", now=10 * SECOND).snapshot

    assert snapshot.next_due == 11 * SECOND
    assert chart.advance(snapshot, 11 * SECOND - 1).snapshot.phase == "waiting"
    assert chart.advance(snapshot, 11 * SECOND).snapshot.phase == "late"


def test_what_follows_from_a_timer_counts_from_its_deadline_not_from_when_somebody_looked():
    chart = waiting()
    snapshot = chart.step(chart.start().snapshot, "go", now=0).snapshot

    much_later = chart.advance(snapshot, 60 * SECOND)

    assert [line.entered for line in much_later.trace] == [("late",), ("later",)]
    assert much_later.snapshot.time == 60 * SECOND


def test_leaving_a_state_forgets_its_timers():
    chart = waiting()
    snapshot = chart.step(chart.start().snapshot, "go", now=0).snapshot

    assert chart.step(snapshot, "stop", now=1).snapshot.timers == ()


def test_a_step_first_fires_what_came_due():
    chart = waiting()
    snapshot = chart.step(chart.start().snapshot, "go", now=0).snapshot
    restored = ChartSnapshot.from_data(json.loads(json.dumps(snapshot.to_data())))
    lenient = Chart(chart.definition, is_strict=False)

    moved = lenient.step(restored, "stop", now=1 * SECOND)

    assert moved.snapshot.phase == "late"


def test_time_does_not_go_back():
    chart = waiting()
    snapshot = chart.step(chart.start().snapshot, "go", now=10 * SECOND).snapshot

    again = chart.step(snapshot, "stop", now=3).snapshot
    plain = chart.step(chart.step(again, "go", now=4).snapshot, "stop", now=5).snapshot

    assert (again.time, plain.time) == (10 * SECOND, 10 * SECOND)


def test_time_does_not_go_back_where_steps_are_looked_up_either():
    snapshot = FLAT.start(now=10).snapshot
    times = []
    for now in (20, 5, 6, None, 30):
        snapshot = FLAT.step(snapshot, "go", now=now).snapshot
        times.append(snapshot.time)

    assert times == [20, 20, 20, 20, 30]


def test_timers_due_together_fire_in_the_order_they_were_set():
    chart = Chart.from_scxml("""
      <scxml><state id="a"><onentry><send event="second" delay="2s"/>
        <send event="one" delay="1s"/><send event="two" delay="1s"/></onentry>
        <transition event="*"><log expr="_event.name"/></transition></state></scxml>""")

    moved = chart.advance(chart.start().snapshot, 2 * SECOND)

    assert [effect.params["value"] for effect in moved.effects] == ["one", "two", "second"]


def test_a_delayed_event_can_be_cancelled():
    chart = Chart.from_scxml("""
      <scxml><state id="a"><onentry><send id="x" event="ring" delay="1s"/></onentry>
        <transition event="quiet"><cancel sendid="x"/></transition>
        <transition event="ring" target="b"/></state><state id="b"/></scxml>""")
    start = chart.start().snapshot

    quiet = chart.step(start, "quiet").snapshot

    assert chart.advance(start, SECOND).snapshot.phase == "b"
    assert chart.advance(quiet, SECOND).snapshot.phase == "a"


def test_a_delay_can_be_a_variable():
    chart = Chart.from_data(
        {
            "initial": "a",
            "context": {"patience": 20},
            "states": {"a": {"after": {"patience": "b"}}, "b": {}},
        }
    )

    assert chart.start().snapshot.next_due == 20_000
