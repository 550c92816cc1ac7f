"""Two versions of a chart are compared in plain words."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings

from otolith.statecharts import AGENT, Chart
from otolith.statecharts.analysis import diff
from tests.unit.statecharts.random_charts import configs

OLD: dict[str, Any] = {
    "id": "trip",
    "initial": "idle",
    "states": {
        "idle": {"on": {"start": "working"}},
        "working": {
            "initial": "plan",
            "states": {"plan": {"on": {"next": "act"}}, "act": {"on": {"next": "plan"}}},
            "on": {"stop": {"target": "idle", "guard": "may_stop"}},
            "after": {"1000": "idle"},
        },
        "over": {"type": "final"},
    },
}


def changed(change):
    new = deepcopy(OLD)
    change(new["states"], new)
    return [(each.kind, each.message) for each in diff(read(OLD), read(new))]


def read(config):
    return Chart.from_data(config).definition


def test_a_chart_is_not_different_from_itself():
    assert diff(AGENT.definition, AGENT.definition) == []
    assert changed(lambda states, chart: states["idle"].update(description="Nothing to do.")) == []


def test_states_are_added_and_removed():
    def add(states, chart):
        states["paused"] = {}
        states["working"]["states"]["look"] = {}

    def remove(states, chart):
        del states["over"]

    assert changed(add) == [
        ("state_added", "working.look was added in working"),
        ("state_added", "paused was added"),
    ]
    assert changed(remove) == [("state_removed", "over was removed")]


def test_a_state_with_an_id_of_its_own_is_moved():
    old, new = deepcopy(OLD), deepcopy(OLD)
    old["states"]["working"]["states"]["look"] = {"id": "look"}
    new["states"]["look"] = {"id": "look"}

    found = [(each.kind, each.message) for each in diff(read(old), read(new))]

    assert found == [("state_moved", "look was moved from working to the top")]


def test_transitions_are_added_removed_and_retargeted():
    def change(states, chart):
        states["idle"]["on"] = {"start": "over", "skip": "over"}
        del states["working"]["states"]["act"]["on"]

    assert changed(change) == [
        ("transition_retargeted", "idle on start to working leads to over now"),
        ("transition_added", "idle on skip to over was added"),
        ("transition_removed", "working.act on next to working.plan was removed"),
    ]


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        (None, "has no guard any more; it was may_stop"),
        ("is_late", "has the guard is_late now, not may_stop"),
        ({"type": "may_stop", "params": {"n": 1}}, "has the guard may_stop with other params"),
    ],
)
def test_guards_change(guard, words):
    def change(states, chart):
        states["working"]["on"]["stop"]["guard"] = guard

    ((kind, message),) = changed(change)

    assert kind == "guard_changed"
    assert message.startswith(f"working on stop to idle {words}")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (False, True, "leaves and enters working itself now"),
        (True, False, "does not leave working itself now"),
    ],
)
def test_a_transition_becomes_internal_or_external(before, after, words):
    old, new = deepcopy(OLD), deepcopy(OLD)
    for config, reenter in ((old, before), (new, after)):
        config["states"]["working"]["on"]["again"] = {"target": ".plan", "reenter": reenter}

    assert [(each.kind, each.message) for each in diff(read(old), read(new))] == [
        ("transition_changed", f"working on again to working.plan {words}")
    ]


def test_a_guard_that_is_new_is_told():
    def change(states, chart):
        states["idle"]["on"]["start"] = {"target": "working", "guard": "is_ready"}

    assert changed(change) == [
        ("guard_changed", "idle on start to working has the guard is_ready now")
    ]


def test_actions_change():
    def change(states, chart):
        states["idle"]["entry"] = "greet"
        states["idle"]["on"]["start"] = {"target": "working", "actions": "count"}

    assert changed(change) == [
        ("actions_changed", "what idle does on entry was changed"),
        ("actions_changed", "what idle on start to working does was changed"),
    ]


def test_delays_kinds_beginnings_and_orders_change():
    def change(states, chart):
        states["working"]["after"] = {"2000": "idle"}
        states["working"]["initial"] = "act"
        states["over"] = {}
        chart["context"] = {"n": 1}

    assert changed(change) == [
        ("state_changed", "what #trip declares was changed"),
        ("state_changed", "working begins in working.act now, not in working.plan"),
        ("transition_changed", "working after 1000 to idle happens after 2000 now"),
        ("state_changed", "over is atomic now, and was final"),
    ]


def test_transitions_that_changed_places_are_told():
    one, two = {"target": "working", "guard": "g"}, {"target": "over"}
    old, new = deepcopy(OLD), deepcopy(OLD)
    old["states"]["idle"]["on"]["start"] = [one, two]
    new["states"]["idle"]["on"]["start"] = [two, one]

    assert [each.message for each in diff(read(old), read(new))] == [
        "the transitions of idle are in another order"
    ]


def test_a_new_name_is_told_and_the_states_are_the_same():
    assert changed(lambda states, chart: chart.update(id="journey")) == [
        ("chart", "the name was changed from 'trip' to 'journey'")
    ]


@settings(max_examples=2 * settings().max_examples)
@given(configs(has_counter=True, has_timers=True), configs(has_counter=True, has_timers=True))
def test_no_changes_are_told_exactly_if_both_do_the_same(one, other):
    left, right = Chart.from_data(one), Chart.from_data(other)

    assert (diff(left.definition, right.definition) == []) == (left.hash == right.hash)
    assert diff(left.definition, Chart.from_data(one).definition) == []
