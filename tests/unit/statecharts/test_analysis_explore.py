"""Exploring finds every configuration that there is, and no other."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from otolith.errors import BadValue, StepFailed
from otolith.statecharts import AGENT, Chart, advance, start, step
from otolith.statecharts.analysis import explore
from tests.unit.statecharts.random_charts import EVENTS, GUARDS, answers, bind_guards, configs

relaxed = settings(max_examples=2 * settings().max_examples)


def known(graph):
    return {(each.states, each.history, each.status) for each in graph.configurations}


def told(snapshot):
    return snapshot.configuration, tuple(sorted(snapshot.history.items())), snapshot.status


def brute_force(model, ways=(None,)):
    """Try every event everywhere, once for each way of setting the guards."""
    truth = model.bindings.guards
    waiting, found, seen = [], set(), set()

    def meet(make, way):
        for name, answer in (way or {}).items():
            truth[name] = lambda data, event, answer=answer: answer
        try:
            snapshot = make().snapshot
        except StepFailed:
            return
        found.add(told(snapshot))
        key = (told(snapshot), json.dumps(snapshot.data, sort_keys=True))
        if key not in seen:
            seen.add(key)
            waiting.append(snapshot)

    for way in ways:
        meet(lambda: start(model), way)
    while waiting:
        snapshot = waiting.pop()
        for event, way in product(EVENTS, ways):
            meet(lambda event=event, at=snapshot: step(model, at, event), way)
    return found


def all_ways():
    return [dict(zip(GUARDS, each, strict=True)) for each in product([False, True], repeat=2)]


# ---------------------------------------------------------------- against brute force


@relaxed
@given(configs())
def test_without_guards_it_finds_exactly_what_brute_force_finds(config):
    model = Chart.from_data(config).compiled

    found = brute_force(model)

    assert known(explore(model)) == found
    assert known(explore(model, guards="real")) == found


@relaxed
@given(configs(guards=GUARDS, has_chains=False))
def test_with_guards_it_finds_exactly_what_some_answers_lead_to(config):
    model = Chart.from_data(config).compiled

    assert known(explore(model)) == brute_force(model, all_ways())


@relaxed
@given(configs(guards=GUARDS))
def test_no_answers_of_guards_lead_where_it_did_not_look(config):
    model = Chart.from_data(config).compiled
    graph = explore(model)

    assert not graph.is_complete or known(graph) >= brute_force(model, all_ways())


@relaxed
@given(configs(has_counter=True))
def test_real_guards_are_asked_with_the_data_there_is(config):
    model = Chart.from_data(config).compiled
    found = brute_force(model)

    graph = explore(model)

    assert known(explore(model, guards="real")) == found
    assert not graph.is_complete or known(graph) >= found


@relaxed
@given(configs(guards=GUARDS, has_timers=True), st.data())
def test_no_run_with_timers_leaves_what_was_explored(config, data):
    chart = Chart.from_data(config)
    truth = bind_guards(chart)
    truth.update(data.draw(answers))
    graph = explore(chart.compiled)
    states = set(graph.states)
    assume(graph.is_complete)
    try:
        snapshot = chart.start().snapshot
    except StepFailed:
        return
    for _ in range(12):
        assert snapshot.configuration in states
        event = data.draw(st.sampled_from([*EVENTS, 5_000, 15_000, 1_000_000]))
        truth.update(data.draw(answers))
        try:
            if isinstance(event, int):
                snapshot = advance(chart.compiled, snapshot, snapshot.time + event).snapshot
            else:
                snapshot = step(chart.compiled, snapshot, event).snapshot
        except StepFailed:
            continue


# ---------------------------------------------------------------- what a graph tells


def test_every_edge_is_a_step_that_can_be_made():
    graph = explore(AGENT.compiled, guards="real")

    for edge in graph.edges:
        before, after = (graph.configurations[each] for each in (edge.source, edge.target))
        assert before.snapshot is not None
        assert step(AGENT.compiled, before.snapshot, edge.event).snapshot[0] == after.states
    assert len(graph.configurations) == 7
    assert graph.is_complete


def test_a_path_is_a_shortest_one():
    graph = explore(AGENT.compiled)
    done = graph.first(lambda each: each.states == ("done",))
    assert done is not None

    assert [edge.event for edge in graph.path_to(done)] == [
        "new_task",
        "plan_ready",
        "task_complete",
    ]
    assert done.depth == 3


def test_what_is_found_nowhere_never_holds():
    graph = explore(AGENT.compiled)

    assert graph.first(lambda each: len(each.states) > 1) is None


def test_the_limit_is_told():
    graph = explore(AGENT.compiled, max_configurations=3)

    assert len(graph.configurations) == 3
    assert graph.limits == ["stopped at 3 configurations; there are more"]
    assert not graph.is_complete


def test_a_chart_that_counts_is_cut_with_real_guards_and_not_with_both():
    count = {"type": "xstate.assign", "context": {"n": {"@expr": "context.n + 1"}}}
    config = {
        "initial": "a",
        "context": {"n": 0},
        "states": {"a": {"on": {"x": {"actions": count}}}},
    }
    model = Chart.from_data(config).compiled

    assert not explore(model, guards="real", max_configurations=50).is_complete
    assert len(explore(model).configurations) == 1


def test_only_the_events_that_are_given_are_sent():
    graph = explore(AGENT.compiled, events=["new_task", "fail"])

    assert {edge.event for edge in graph.edges} == {"new_task", "fail"}
    assert {each.phase for each in graph.configurations} == {"idle", "planning", "error"}


def test_events_bring_the_data_that_guards_want():
    enough = {"target": "paid", "guard": {"@expr": "event.amount >= 5"}}
    states = {"open": {"on": {"pay": enough}}, "paid": {"type": "final"}}
    model = Chart.from_data({"initial": "open", "states": states}).compiled

    little = explore(model, guards="real", events=[("pay", {"amount": 1})])
    much = explore(model, guards="real", events=[("pay", {"amount": 1}), ("pay", {"amount": 9})])

    assert {each.phase for each in little.configurations} == {"open"}
    assert much.edges[0].item == ("pay", {"amount": 9})


def test_timers_fire_in_any_order_if_time_is_left_out():
    def region(name, delay):
        states = {"wait": {"after": {delay: "over"}}, "over": {}}
        return {name: {"initial": "wait", "states": states}}

    config = {"type": "parallel", "states": {**region("x", "10"), **region("y", "20")}}
    model = Chart.from_data(config).compiled

    both = {each.states for each in explore(model).configurations}
    real = {each.states for each in explore(model, guards="real").configurations}

    assert both - real == {("x.wait", "y.over")}
    assert explore(model, guards="real").edges[0].item == ("after", 0.01)


def test_a_service_may_answer_or_fail():
    invoke = {"src": "search", "id": "s", "onDone": "found", "onError": "lost"}
    states = {"ask": {"invoke": invoke}, "found": {}, "lost": {}}
    model = Chart.from_data({"initial": "ask", "states": states}).compiled

    assert {each.phase for each in explore(model).configurations} == {"ask", "found", "lost"}


def test_a_child_chart_is_explored_with_its_parent():
    child = {
        "id": "child",
        "initial": "one",
        "states": {"one": {"after": {"10": "two"}}, "two": {"type": "final"}},
    }
    states = {"run": {"invoke": {"src": child, "id": "c", "onDone": "over"}}, "over": {}}
    model = Chart.from_data({"initial": "run", "states": states}).compiled

    graph = explore(model)

    assert {each.phase for each in graph.configurations} == {"run", "over"}
    assert graph.is_complete


def test_an_action_that_may_fail_leads_to_where_errors_are_handled():
    def states(entry):
        return {"a": {"entry": entry, "on": {"error.execution": "bad"}}, "bad": {}}

    divide = {"type": "xstate.assign", "context": {"n": {"@expr": "1 / context.n"}}}
    known = {"type": "xstate.assign", "context": {"n": 5}}
    failing = Chart.from_data({"initial": "a", "context": {"n": 1}, "states": states(divide)})
    safe = Chart.from_data({"initial": "a", "context": {"n": 1}, "states": states(known)})

    assert ("bad",) in explore(failing.compiled).states
    assert ("bad",) not in explore(safe.compiled).states


def test_guards_that_only_ask_for_states_are_asked():
    def region(name, on):
        return {name: {"initial": "off", "states": {"off": {"on": on}, "on": {}}}}

    after = {"target": "on", "guard": {"@expr": "In('x.on')"}}
    states = {**region("x", {"go": "on"}), **region("y", {"follow": after})}
    model = Chart.from_data({"type": "parallel", "states": states}).compiled

    assert ("x.off", "y.on") not in explore(model).states
    assert ("x.on", "y.on") in explore(model).states


def test_one_guard_may_answer_differently_in_another_state():
    guard = {"@expr": "context.n > 0 && In('b')"}
    states = {
        "a": {"on": {"go": "b"}},
        "b": {"always": [{"target": "c", "guard": guard}, {"target": "d"}]},
        "c": {"always": [{"target": "e", "guard": guard}, {"target": "f"}]},
        **{name: {} for name in "def"},
    }
    model = Chart.from_data({"initial": "a", "context": {"n": 1}, "states": states}).compiled

    assert set(explore(model, guards="real").states) == {("a",), ("f",)}
    assert ("f",) in explore(model).states


def test_a_loop_that_changes_data_is_followed_to_its_end():
    count = {"type": "xstate.assign", "context": {"n": {"@expr": "context.n + 1"}}}
    tell = {"type": "xstate.raise", "event": "told"}
    states: dict[str, Any] = {
        "a": {"always": [{"target": "b", "guard": {"@expr": "context.n < 3"}}, {"target": "c"}]},
        "b": {"entry": count, "always": "a"},
        "c": {"on": {"told": "d"}},
        "d": {},
    }
    raising = {**states, "b": {**states["b"], "entry": [count, tell]}}

    quiet, loud = (
        explore(Chart.from_data({"initial": "a", "context": {"n": 0}, "states": each}).compiled)
        for each in (states, raising)
    )

    assert (quiet.states, quiet.limits) == ((("c",), ("d",)), [])
    assert set(loud.states) == {("c",), ("d",)}
    assert loud.starts == [0, 1]
    assert quiet.problems == loud.problems == []


def test_what_cannot_be_followed_is_told():
    send = {"type": "xstate.raise", "event": {"type": {"@expr": "context.name"}}}
    states = {"a": {"entry": send, "on": {"x": "b"}}, "b": {}}
    model = Chart.from_data({"initial": "a", "context": {"name": "x"}, "states": states}).compiled

    assert explore(model).limits == ["an event is sent whose name is only known when it runs"]


def test_a_way_to_treat_guards_has_a_name():
    with pytest.raises(BadValue, match="perhaps"):
        explore(AGENT.compiled, guards="perhaps")  # type: ignore[arg-type]


def test_two_hundred_states_are_explored_each_once():
    table = {
        (f"s{i}", f"e{j}"): f"s{(i * 7 + j * 13 + 1) % 200}" for i in range(200) for j in range(5)
    }
    model = Chart.from_table(table, initial="s0").compiled

    graph = explore(model)

    assert (len(graph.configurations), len(graph.edges)) == (200, 1_000)
