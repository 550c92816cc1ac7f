"""Timers are deadlines: they fire in order, at their own time, in whatever process."""

from __future__ import annotations

import json

import pytest

from otolith.errors import StepFailed
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


# ---------------------------------------------------------------- long pauses

HOUR = 3_600 * SECOND
YEAR = 365 * 24 * HOUR


def ticking(**delays):
    """Return a chart with a region for each timer, which counts how often it has fired."""
    regions = {
        name: {
            "after": {
                str(milliseconds): {
                    "target": name,
                    "reenter": True,
                    "actions": {
                        "type": "xstate.assign",
                        "context": {name: {"@expr": f"context.{name} + 1"}},
                    },
                }
            },
            "on": {"tell": {"actions": ["told"]}},
        }
        for name, milliseconds in delays.items()
    }
    return Chart.from_data(
        {
            "id": "ticking",
            "initial": "both",
            "context": dict.fromkeys(delays, 0),
            "states": {
                "both": {
                    "type": "parallel",
                    "states": {
                        f"r_{name}": {"initial": name, "states": {name: region}}
                        for name, region in regions.items()
                    },
                }
            },
        }
    )


@pytest.mark.parametrize("pause", [3 * HOUR, YEAR, 1_000 * YEAR])
def test_a_periodic_timer_catches_up_after_a_long_pause(pause):
    chart = ticking(often=1_000)
    first = chart.start(now=YEAR).snapshot

    for late in (chart.advance(first, YEAR + pause), chart.step(first, "tell", now=YEAR + pause)):
        assert late.snapshot.time == YEAR + pause
        assert late.snapshot.data["often"] == 10_001
        assert late.snapshot.next_due == YEAR + pause + SECOND
    assert [effect.name for effect in late.effects] == ["told"]


def test_a_short_pause_skips_nothing():
    chart = ticking(often=1_000)

    late = chart.advance(chart.start().snapshot, 2 * HOUR + SECOND // 2).snapshot

    assert late.data["often"] == 7_200
    assert late.next_due == 2 * HOUR + SECOND


def test_timers_that_are_due_when_the_clock_skips_fire_once_each():
    chart = ticking(often=1_000, seldom=4 * 3_600_000)

    late = chart.advance(chart.start().snapshot, 5 * HOUR).snapshot

    assert late.data == {"often": 10_001, "seldom": 1}
    assert {timer.due for timer in late.timers} == {5 * HOUR + SECOND, 9 * HOUR}


def test_in_slices_every_round_is_made():
    chart = ticking(often=1_000)
    snapshot = chart.start().snapshot
    for hour in range(1, 5):
        snapshot = chart.advance(snapshot, hour * HOUR).snapshot

    assert snapshot.data["often"] == 4 * 3_600


def test_a_timer_without_delay_that_sets_itself_still_fails_the_step():
    chart = ticking(always=0)

    with pytest.raises(StepFailed, match="without coming to rest"):
        chart.advance(chart.start().snapshot, SECOND)
