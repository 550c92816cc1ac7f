"""A simulation does what the engine does, tells why it ended, and never raises for the chart."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otolith.errors import BadValue, IllegalTransition, StepFailed
from otolith.statecharts import AGENT, Chart, ChartEvent
from otolith.statecharts.analysis import simulate
from tests.unit.statecharts.random_charts import EVENTS, configs

SECOND = 1_000_000


def waiting_room():
    states = {
        "open": {"on": {"ring": "waiting"}},
        "waiting": {"entry": "call_nurse", "after": {"60000": "home"}, "on": {"come in": "inside"}},
        "inside": {"type": "final"},
        "home": {"type": "final"},
    }
    return Chart.from_data({"id": "room", "initial": "open", "states": states})


def refusal(run):
    assert run.refusal is not None
    return run.refusal


# ---------------------------------------------------------------- scripts


def test_a_run_has_a_stage_for_the_start_and_for_each_item():
    run = simulate(AGENT.compiled, ["new_task", "plan_ready"])

    assert run.phases == ("idle", "planning", "executing")
    assert [stage.item for stage in run.stages] == [None, "new_task", "plan_ready"]
    assert run.is_accepted


def test_a_stage_has_the_effects_and_the_trace_of_its_step():
    run = simulate(waiting_room().compiled, ["ring"])

    assert [effect.name for effect in run.stages[1].effects] == ["call_nurse"]
    assert run.stages[1].trace[0].entered == ("waiting",)
    assert run.effects == run.stages[1].effects


def test_time_passes_when_it_is_told_to():
    stays = simulate(waiting_room().compiled, ["ring", ("after", 59.9)])
    leaves = simulate(waiting_room().compiled, ["ring", ("after", 60)], now=5 * SECOND)

    assert stays.phase == "waiting"
    assert (leaves.phase, leaves.stages[-1].time) == ("home", 65 * SECOND)


def test_events_bring_their_data():
    pay = {"target": "paid", "guard": {"@expr": "event.amount >= context.price"}}
    states = {"open": {"on": {"pay": pay}}, "paid": {}}
    model = Chart.from_data({"initial": "open", "context": {"price": 5}, "states": states}).compiled

    assert simulate(model, [("pay", {"amount": 5})]).phase == "paid"
    assert simulate(model, [("pay", {"amount": 5})], data={"price": 9}).phase == "open"
    assert simulate(model, [ChartEvent("pay", {"amount": 7})]).phase == "paid"


def test_an_event_that_is_not_accepted_ends_the_run_with_a_report():
    run = simulate(AGENT.compiled, ["new_task", "observe", "plan_ready"])

    assert run.phases == ("idle", "planning")
    assert (refusal(run).kind, refusal(run).index, refusal(run).item) == ("refused", 1, "observe")
    assert refusal(run).phase == "planning"
    assert refusal(run).allowed == ("plan_ready", "fail")
    assert "planning does not accept observe" in refusal(run).message


def test_a_chart_that_is_done_refuses_everything():
    run = simulate(AGENT.compiled, ["fail", "new_task"])

    assert (run.phase, refusal(run).allowed) == ("error", ())


def test_a_step_that_fails_ends_the_run_with_a_report():
    states = {"a": {"on": {"x": {"target": "b", "guard": "missing"}}}, "b": {}}
    run = simulate(Chart.from_data({"initial": "a", "states": states}).compiled, ["x"])

    assert (refusal(run).kind, refusal(run).phase, run.phase) == ("failed", "a", "a")
    assert "missing" in refusal(run).message


def test_a_chart_that_cannot_start_has_no_stages():
    states = {"a": {"always": "b"}, "b": {"always": "a"}}
    run = simulate(Chart.from_data({"initial": "a", "states": states}).compiled, ["x"])

    assert (run.stages, run.snapshot, run.phase) == ((), None, "")
    assert (refusal(run).index, refusal(run).kind, refusal(run).item) == (-1, "failed", None)


def test_an_event_that_scxml_would_drop_is_dropped_unless_it_is_strict():
    text = '<scxml xmlns="http://www.w3.org/2005/07/scxml"><state id="a"/></scxml>'
    model = Chart.from_scxml(text).compiled

    assert simulate(model, ["x"]).is_accepted
    assert not simulate(model, ["x"], is_strict=True).is_accepted


@pytest.mark.parametrize(
    "item",
    [
        *(-5, True, None, ("a", 1, 2), (1, "a"), ("after", -1), ("after", True), ("after", "soon")),
        *("+6sec", "+5.5.5s", ("after", "6 weeks"), timedelta(seconds=-1), 10**13),
    ],
    ids=repr,
)
def test_what_is_no_item_is_refused_before_anything_runs(item):
    with pytest.raises(BadValue):
        simulate(AGENT.compiled, ["new_task", item])


@settings(max_examples=2 * settings().max_examples)
@given(configs(has_counter=True, has_timers=True), st.lists(st.sampled_from([*EVENTS, 0.02, 2])))
def test_a_simulation_is_the_engine_step_by_step(config, script):
    chart = Chart.from_data(config)
    run = simulate(
        chart.compiled, [each if isinstance(each, str) else ("after", each) for each in script]
    )
    found: list[Any] = []
    message = ""
    try:
        found.append(chart.start())
        for item in script:
            last = found[-1].snapshot
            if isinstance(item, str):
                found.append(chart.step(last, item))
            else:
                found.append(chart.advance(last, last.time + round(item * SECOND)))
    except (IllegalTransition, StepFailed) as error:
        message = str(error)

    assert run.is_accepted == (not message)
    assert run.is_accepted or refusal(run).message in message
    assert [(each.snapshot, each.effects, each.trace) for each in run.stages] == found


@pytest.mark.parametrize(
    ("item", "microseconds"),
    [
        ("+6s", 6_000_000),
        ("+6", 6_000_000),
        ("+250us", 250),
        ("+0.5ms", 500),
        ("+1.5h", 5_400_000_000),
        ("+2m", 120_000_000),
        ("+1d", 86_400_000_000),
        (6, 6_000_000),
        (0.000001, 1),
        (("after", 6), 6_000_000),
        (("after", 2.5), 2_500_000),
        (("after", "6s"), 6_000_000),
        (("after", "+250us"), 250),
        (("after", timedelta(minutes=1)), 60_000_000),
        (timedelta(microseconds=7), 7),
    ],
    ids=repr,
)
def test_a_time_can_be_written_in_all_of_these_ways(item, microseconds):
    chart = Chart.from_data({"id": "m", "initial": "a", "states": {"a": {"on": {"+6s": {}}}}})

    run = chart.simulate([item, item])

    assert [stage.time for stage in run.stages] == [0, microseconds, 2 * microseconds]
    again = chart.simulate([stage.item for stage in run.stages if stage.item is not None])
    assert [stage.time for stage in again.stages] == [0, microseconds, 2 * microseconds]
    assert chart.simulate([ChartEvent("+6s")]).is_accepted
