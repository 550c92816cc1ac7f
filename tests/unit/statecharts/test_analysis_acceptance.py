"""A chart accepts a recorded run exactly if a simulation of it does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otolith import Memory, Versioned
from otolith.errors import BadValue
from otolith.statecharts import AGENT, Chart
from otolith.statecharts.analysis import accepts, coverage, explore, simulate
from tests.unit.statecharts.random_charts import EVENTS, configs

SECOND = 1_000_000


def test_a_run_the_chart_takes_is_accepted():
    verdict = accepts(AGENT.compiled, [("new_task", {"goal": "fly"}, 10), ("plan_ready", None, 20)])

    assert verdict
    assert (verdict.phase, verdict.index, verdict.event, verdict.allowed) == (
        "executing",
        None,
        None,
        (),
    )
    assert verdict.run.stages[-1].time == 20


def test_the_first_event_that_is_not_taken_is_told():
    run = [("new_task", None, 1), ("observe", None, 2), ("nonsense", None, 3)]

    verdict = accepts(AGENT.compiled, run)

    assert not verdict
    assert (verdict.index, verdict.event, verdict.phase) == (1, "observe", "planning")
    assert verdict.allowed == ("plan_ready", "fail")


def test_timers_fire_between_recorded_events():
    states = {"a": {"after": {"1000": "b"}, "on": {"x": "c"}}, "b": {"on": {"y": "c"}}, "c": {}}
    model = Chart.from_data({"initial": "a", "states": states}).compiled

    assert accepts(model, [("x", None, SECOND // 2)], started=0)
    assert not accepts(model, [("x", None, 2 * SECOND)], started=0)
    assert accepts(model, [("y", None, 2 * SECOND)], started=0)


def test_the_log_of_a_machine_is_accepted_by_its_own_chart_and_not_by_another():
    wait = {"after": {"1000": "late"}, "on": {"ring": "waiting"}}
    states = {"open": {"on": {"ring": "waiting"}}, "waiting": wait, "late": {"on": {"go": "open"}}}
    chart = Chart.from_data({"id": "door", "initial": "open", "states": states})
    ticks = iter(range(0, 10**9, 700_000))
    machine = Versioned(Memory(), clock=lambda: next(ticks)).lifecycle(chart)
    for _ in range(2):
        machine.send("ring")
    machine.advance(machine.snapshot.time + 5 * SECOND)
    machine.send("go")
    other = Chart.from_table(
        {("open", "ring"): "waiting", ("waiting", "ring"): "open"}, initial="open"
    )

    assert "" in [each.event for each in machine.log()]
    assert accepts(chart.compiled, machine.log()).phase == machine.phase == "open"
    assert accepts(other.compiled, machine.log()).event == "go"


def test_guards_see_the_data_the_run_was_started_with():
    go = {"target": "b", "guard": {"@expr": "context.goal == 'fly'"}}
    states = {"a": {"on": {"x": go}}, "b": {}}
    model = Chart.from_data({"initial": "a", "context": {"goal": ""}, "states": states}).compiled

    assert accepts(model, [("x", None, 1)], start_data={"goal": "fly"})
    assert not accepts(model, [("x", None, 1)])


def test_scxml_drops_events_but_a_verdict_does_not():
    text = '<scxml xmlns="http://www.w3.org/2005/07/scxml"><state id="a"/></scxml>'
    model = Chart.from_scxml(text).compiled

    assert not accepts(model, [("x", None, 1)])
    assert accepts(model, [("x", None, 1)], is_strict=False)


def test_what_is_no_recorded_event_is_refused():
    with pytest.raises(BadValue, match="recorded"):
        accepts(AGENT.compiled, [("new_task", None, "noon")])  # type: ignore[list-item]


@settings(max_examples=2 * settings().max_examples)
@given(configs(has_counter=True, has_timers=True), st.lists(st.sampled_from(EVENTS)))
def test_a_verdict_agrees_with_a_simulation(config, script):
    model = Chart.from_data(config).compiled

    run = simulate(model, script)
    verdict = accepts(model, [(name, None, 0) for name in script])

    assert verdict.is_accepted == run.is_accepted
    assert verdict.run == run


# ---------------------------------------------------------------- coverage


def test_coverage_tells_what_runs_have_been_through_and_what_not():
    found = coverage(AGENT.compiled, [[("new_task", None, 1), ("fail", None, 2)]])

    assert found.states.covered == ("idle", "planning", "error")
    assert found.states.missing == ("executing", "waiting_feedback", "reflecting", "done")
    assert found.transitions.covered == ("#agent on fail to error", "idle on new_task to planning")
    assert found.pairs.covered == ("idle on new_task to planning, then #agent on fail to error",)
    assert (
        "executing on observe to reflecting, then reflecting on replan to planning"
        in found.pairs.missing
    )
    assert (found.runs, found.refused, found.limits) == (1, 0, ())


def test_all_paths_together_cover_everything():
    graph = explore(AGENT.compiled, guards="real")
    runs = [
        simulate(
            AGENT.compiled, [*(edge.item for edge in graph.path_to(before)), edge.item, after.item]
        )
        for edge in graph.edges
        for before in [graph.configurations[edge.source]]
        for after in graph.edges
        if after.source == edge.target
    ]
    runs.append(simulate(AGENT.compiled, ["fail"]))

    found = coverage(AGENT.compiled, runs)

    assert (found.states.share, found.transitions.share, found.pairs.share) == (1, 1, 1)


def test_what_a_refused_run_did_before_counts():
    found = coverage(AGENT.compiled, [["new_task", "nonsense"]])

    assert found.refused == 1
    assert "planning" in found.states.covered


def test_no_runs_cover_nothing():
    found = coverage(AGENT.compiled, [])

    assert (found.states.share, found.transitions.share, found.pairs.share) == (0, 0, 0)
