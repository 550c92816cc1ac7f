"""A path really replays, and leads where it says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from otolith.errors import BadValue, NotFound, StepFailed
from otolith.statecharts import AGENT, Chart, advance, start, step
from otolith.statecharts.analysis import shortest_paths, simple_paths
from tests.unit.statecharts.random_charts import EVENTS, configs

relaxed = settings(max_examples=2 * settings().max_examples)


def replayed(model, script):
    """Play a script with nothing but the engine; every event in it must be taken."""
    snapshot = start(model).snapshot
    for item in script:
        if isinstance(item, tuple) and item[0] == "after":
            now = snapshot.time + round(item[1] * 1_000_000)
            snapshot = advance(model, snapshot, now).snapshot
        else:
            snapshot = step(model, snapshot, item, is_strict=True).snapshot
    return snapshot


def distances(model):
    """Return how many events away each set of active states is, found without the explorer."""
    try:
        layer = [start(model).snapshot]
    except StepFailed:
        return {}
    found: dict[tuple[str, ...], int] = {}
    seen: set[str] = set()
    depth = 0
    while layer:
        for snapshot in layer:
            found.setdefault(snapshot.configuration, depth)
        layer = [after for snapshot in layer for after in followers(model, snapshot, seen)]
        depth += 1
    return found


def followers(model, snapshot, seen):
    for event in EVENTS:
        try:
            after = step(model, snapshot, event).snapshot
        except StepFailed:
            continue
        key = json.dumps([after.configuration, after.status, after.data, after.history])
        if key not in seen:
            seen.add(key)
            yield after


@relaxed
@given(configs(has_counter=True, has_timers=True))
def test_every_shortest_path_replays_to_where_it_says(config):
    model = Chart.from_data(config).compiled

    for path in shortest_paths(model, max_configurations=300):
        snapshot = replayed(model, path.script)
        assert (snapshot.configuration, snapshot.status) == (path.configuration, path.status)


@relaxed
@given(configs(has_counter=True, has_timers=True))
def test_every_simple_path_replays_to_where_it_says(config):
    model = Chart.from_data(config).compiled

    for path in simple_paths(model, limit=30, max_configurations=100):
        snapshot = replayed(model, path.script)
        assert (snapshot.configuration, snapshot.status) == (path.configuration, path.status)


@relaxed
@given(configs(has_counter=True))
def test_a_shortest_path_is_as_short_as_can_be(config):
    model = Chart.from_data(config).compiled

    found = {path.configuration: len(path) for path in shortest_paths(model)}

    assert found == distances(model)


def test_there_is_one_shortest_path_to_each_configuration():
    paths = shortest_paths(AGENT.compiled)

    assert [path.phase for path in paths] == [
        "idle",
        "error",
        "planning",
        "executing",
        "waiting_feedback",
        "reflecting",
        "done",
    ]
    assert paths.is_complete
    assert str(paths[-1]) == "new_task, plan_ready, task_complete -> done"


def test_a_path_to_a_state_stops_there():
    (path,) = shortest_paths(AGENT.compiled, "reflecting")

    assert path.script == ("new_task", "plan_ready", "observe")


def test_a_path_to_what_holds_is_a_counter_example():
    (path,) = shortest_paths(AGENT.compiled, lambda each: each.status == "done")

    assert path.script == ("fail",)


def test_no_path_to_what_cannot_be_reached():
    chart = Chart.from_data({"initial": "a", "states": {"a": {}, "b": {}}})

    assert list(shortest_paths(chart.compiled, "b")) == []
    assert shortest_paths(chart.compiled, "b").is_complete


def test_an_unknown_state_is_not_found():
    for find in (shortest_paths, simple_paths):
        with pytest.raises(NotFound, match="nowhere"):
            find(AGENT.compiled, "nowhere")


def test_a_path_through_time_says_how_long_to_wait():
    states = {"a": {"after": {"2500": "b"}}, "b": {"type": "final"}}
    model = Chart.from_data({"initial": "a", "states": states}).compiled

    (path,) = shortest_paths(model, "b")

    assert path.script == (("after", 2.5),)
    assert replayed(model, path.script).status == "done"


def test_simple_paths_are_all_ways_that_meet_nothing_twice():
    table = {("a", "x"): "b", ("a", "y"): "c", ("b", "x"): "c", ("b", "y"): "a", ("c", "x"): "d"}
    model = Chart.from_table(table, initial="a", final={"d"}).compiled

    found = simple_paths(model, "d")

    assert {path.script for path in found} == {("y", "x"), ("x", "x", "x")}
    assert found.is_complete
    assert len(simple_paths(model)) == 6


def test_a_simple_path_to_a_goal_ends_where_it_is_first_met():
    table = {("a", "x"): "b", ("b", "y"): "c", ("c", "x"): "d", ("b", "x"): "d"}
    model = Chart.from_table(table, initial="a").compiled

    found = simple_paths(model, lambda each: each.states in {("b",), ("d",)})

    assert [path.script for path in found] == [("x",)]


def test_more_paths_than_the_limit_are_told_of():
    found = simple_paths(AGENT.compiled, limit=2)

    assert len(found) == 2
    assert found.limits == ("stopped at 2 paths; there are more",)


def test_a_chart_that_counts_for_ever_is_left_once_all_states_were_met():
    count = {"type": "xstate.assign", "context": {"n": {"@expr": "context.n + 1"}}}
    over = {"target": "b", "guard": {"@expr": "context.n >= 4"}}
    states = {
        "a": {"on": {"up": {"actions": count}, "go": over}},
        "b": {"on": {"up": {"actions": count}}},
    }
    model = Chart.from_data({"initial": "a", "context": {"n": 0}, "states": states}).compiled

    paths = shortest_paths(model)

    assert paths[1].script == ("up", "up", "up", "up", "go")
    assert paths.is_complete


# ---------------------------------------------------------------- what did not lead anywhere


def test_an_event_that_failed_and_states_never_reached_are_reported():
    chart = Chart.from_data(
        {
            "id": "m",
            "initial": "a",
            "states": {
                "a": {"on": {"pay": {"target": "b", "guard": "has_money"}, "go": "c"}},
                "b": {"on": {"go": "d"}},
                "c": {},
                "d": {},
            },
        }
    )
    chart.guard("has_money")(lambda data, event: event.data["amount"] > 0)

    for found in (chart.paths(), chart.paths(simple=True)):
        assert [path.phase for path in found] == ["a", "c"]
        assert [(each.phase, each.event) for each in found.problems] == [("a", "pay")]
        assert "has_money" in found.problems[0].message
        assert found.unreached == ("b", "d")
    better = chart.paths(events=["go", ("pay", {"amount": 5})])
    assert (better.problems, better.unreached) == ((), ())


def test_a_chart_that_cannot_start_says_so():
    chart = Chart.from_data(
        {"id": "m", "initial": "a", "states": {"a": {"always": {"target": "a", "guard": "x"}}}}
    )

    found = chart.paths()

    assert (len(found), found.unreached) == (0, ("a",))
    assert str(found.problems[0]).startswith("the start failed")


@pytest.mark.parametrize("simple", [False, True])
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4])
def test_not_more_paths_than_the_limit_are_returned(limit, simple):
    chart = Chart.from_table({("a", "go"): "b", ("b", "go"): "c"}, initial="a")

    found = chart.paths(limit=limit, simple=simple)

    assert len(found) == min(limit, 3)
    assert found.is_complete == (limit >= 3)


def test_a_negative_limit_is_refused():
    with pytest.raises(BadValue, match="at least 0, got -1"):
        Chart.from_table({("a", "go"): "b"}, initial="a").paths(limit=-1)
