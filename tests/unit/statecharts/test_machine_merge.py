"""Two branches of one machine, merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otolith import Disk, Versioned
from otolith.statecharts import Chart, Machine


@pytest.fixture
def state(tmp_path: Path) -> Versioned:
    return Versioned(Disk(tmp_path / "a.db"))


def region(name: str, *, to: str = "") -> dict[str, Any]:
    """Return a region with three states in a row, the last one final."""
    step = {"target": f"{name}2", "actions": [f"did_{name}"]}
    return {
        "initial": f"{name}1",
        "states": {
            f"{name}1": {"on": {f"{name}_go": step}},
            f"{name}2": {"on": {f"{name}_end": f"{name}3"}},
            f"{name}3": {"type": "final"},
        },
    }


def trip() -> Chart:
    chart = Chart.from_data(
        {
            "id": "trip",
            "initial": "booking",
            "context": {"a": 0, "b": 0},
            "states": {
                "booking": {
                    "type": "parallel",
                    "states": {"a": region("a"), "b": region("b")},
                    "onDone": "booked",
                    "on": {"cancel": "cancelled"},
                },
                "booked": {"entry": ["confirm"]},
                "cancelled": {},
            },
        }
    )
    for name in ("a", "b"):
        chart.action(f"did_{name}")(lambda data, event, name=name: {name: data[name] + 1})
    return chart


def parted(state: Versioned, chart: Chart) -> tuple[Machine, Versioned, Machine]:
    machine = state.lifecycle(chart)
    state.commit("begun")
    side = state.fork("side")
    return machine, side, side.lifecycle(chart)


def test_each_region_comes_from_the_branch_that_moved_it(state: Versioned) -> None:
    machine, side, other = parted(state, trip())
    machine.send("a_go")
    state.commit("a")
    other.send("b_go")
    side.commit("b")
    assert state.merge("side").conflicts == ()
    assert machine.phase == "booking.a.a2, booking.b.b2"
    assert dict(machine.data) == {"a": 1, "b": 1}
    assert [each.event for each in machine.log()] == ["a_go", "b_go"]
    machine.send("a_end")
    machine.send("b_end")
    assert machine.phase == "booked"


def test_a_machine_that_is_over_only_when_both_are_goes_on(state: Versioned) -> None:
    machine, side, other = parted(state, trip())
    for event in ("a_go", "a_end"):
        machine.send(event)
    state.commit("a")
    for event in ("b_go", "b_end"):
        other.send(event)
    side.commit("b")
    assert state.merge("side").conflicts == ()
    assert machine.phase == "booked"
    assert [waiting.effect.name for waiting in machine.outbox()] == ["confirm"]


def test_their_events_are_told_after_ours_where_regions_are_the_same(state: Versioned) -> None:
    machine, side, other = parted(state, trip())
    machine.send("a_go")
    state.commit("a")
    other.send("b_go")
    other.send("cancel")
    side.commit("cancelled")
    assert state.merge("side").conflicts == ()
    assert machine.phase == "cancelled"
    assert [each.event for each in machine.log()] == ["a_go", "b_go", "cancel"]
    assert dict(machine.data) == {"a": 1, "b": 1}


def test_an_event_that_is_not_taken_any_more_is_a_conflict(state: Versioned) -> None:
    machine, side, other = parted(state, trip())
    machine.send("cancel")
    state.commit("cancelled")
    other.send("b_go")
    side.commit("b")
    merged = state.merge("side")
    assert [conflict.path for conflict in merged.conflicts] == [".lifecycle/main"]
    state.resolve_conflict(".lifecycle/main", take="theirs")
    state.commit("merged")
    assert machine.phase == "booking.a.a1, booking.b.b2"


def test_a_chart_that_is_not_known_here_leaves_a_conflict(state: Versioned, tmp_path: Path) -> None:
    machine, side, other = parted(state, trip())
    machine.send("a_go")
    state.commit("a")
    other.send("b_go")
    side.commit("b")
    state.close()
    again = Versioned(Disk(tmp_path / "a.db"))
    assert len(again.merge("side").conflicts) == 1


def test_an_unmoved_machine_follows_the_other_branch(state: Versioned) -> None:
    machine, side, other = parted(state, trip())
    state["x"] = 1
    state.commit("x")
    other.send("a_go")
    side.commit("a")
    state.merge("side")
    assert machine.phase == "booking.a.a2, booking.b.b1"


def test_an_effect_that_one_side_carried_out_is_not_done_again(state: Versioned) -> None:
    chart = Chart.from_data(
        {
            "id": "c",
            "type": "parallel",
            "states": {
                "a": {"initial": "a1", "states": {"a1": {"on": {"a": {"actions": ["tell"]}}}}},
                "b": {"initial": "b1", "states": {"b1": {"on": {"b": {"actions": ["tell"]}}}}},
            },
        }
    )
    told: list[str] = []
    chart.effect(name="tell")(lambda effect: told.append(effect.key))
    machine, side, other = parted(state, chart)
    machine.send("a")
    state.commit("a")
    other.send("b")
    side.commit("b")
    other.carry_out()
    machine.carry_out()
    assert state.merge("side").conflicts == ()
    machine.carry_out()
    assert len(told) == 2
    assert machine.outbox() == []


def test_an_event_that_both_sides_took_cannot_be_told_twice(state: Versioned) -> None:
    chart = trip()
    machine, side, other = parted(state, chart)
    for event in ("a_go", "a_end", "b_go", "b_end"):
        other.send(event)
    side.commit("booked")
    machine.send("a_go")
    state.commit("a")
    merged = state.merge("side")
    assert [conflict.path for conflict in merged.conflicts] == [".lifecycle/main"]


def test_two_handles_that_race_for_one_machine_both_land(state: Versioned) -> None:
    chart = trip()
    machine = state.lifecycle(chart)
    state.commit("begun")
    rival = Versioned(state.repo)
    other = rival.lifecycle(chart)
    machine.send("a_go")
    other.send("b_go")
    state.commit("a")
    rival.commit("b")
    state.refresh()
    assert machine.phase == "booking.a.a2, booking.b.b2"


def test_values_that_are_equal_and_not_the_same_are_apart(state: Versioned) -> None:
    chart = Chart.from_data(
        {
            "id": "c",
            "type": "parallel",
            "context": {"x": 0},
            "states": {
                "a": {"initial": "a1", "states": {"a1": {"on": {"one": {"actions": ["one"]}}}}},
                "b": {"initial": "b1", "states": {"b1": {"on": {"true": {"actions": ["true"]}}}}},
            },
        }
    )
    chart.action("one")(lambda data, event: {"x": 1})
    chart.action("true")(lambda data, event: {"x": True})
    machine, side, other = parted(state, chart)
    machine.send("one")
    state.commit("one")
    other.send("true")
    side.commit("true")
    state.merge("side")
    assert machine.data["x"] is True  # told after ours, as the regions could not be joined
