"""Runs on branches: forked, rolled back, advanced on both sides, and merged."""

from __future__ import annotations

import pytest

from otolith.errors import Corrupt, IllegalTransition, MergeConflict
from otolith.flows import Flow, FlowTask, TaskRecord, merge_tasks
from otolith.flows.storage import StoredFlow


@pytest.fixture
def flow(calls):
    made = Flow("two")

    @made.subtask
    def count(task):
        calls[task.name] += 1
        return f"{task.name} {task.inputs.get('suffix', '')}"

    for name in ("left", "right"):
        made.add(FlowTask(name, call=count))
    made.add(FlowTask("both", call=count, after=["left", "right"]))
    return made


def test_a_fork_recomputes_nothing(state, flow, calls):
    state.flow(flow).work()
    fork = state.fork("try")
    run = fork.flow(flow)

    assert run.work().status == "done"
    assert set(calls.values()) == {1}


def test_two_branches_that_advance_different_tasks_merge(state, flow, calls):
    run = state.flow(flow)
    fork = state.fork("try")
    other = fork.flow(flow)
    other.cancel("right")
    other.work()
    run.cancel("left")
    run.work()
    run.retry("left")
    other.retry("right")
    assert run.task("right").status == other.task("left").status == "done"

    assert state.merge(fork).kind == "merged"
    assert run.work().status == "done"
    assert calls == {"left": 1, "right": 1, "both": 1}


def test_the_same_task_done_differently_on_both_is_a_conflict(state, calls):
    def made(text):
        flow = Flow("one")
        flow.task(lambda: text, name="task")
        return flow

    run = state.flow(made("mine"))
    fork = state.fork("try")
    fork.flow(made("yours")).work()
    run.work()

    result = state.merge(fork)
    paths = [conflict.path for conflict in result.conflicts]
    assert paths == [".flows/one/results/task", ".flows/one/tasks/task"]
    with pytest.raises(MergeConflict, match="to decide first"):
        state.commit()
    for path in paths:
        state.resolve_conflict(path, take="theirs")
    state.commit("yours")
    assert run.result("task") == "yours"


def test_the_same_result_on_both_is_no_conflict(state, flow, calls):
    run = state.flow(flow)
    fork = state.fork("try")
    fork.flow(flow).work()
    run.work()

    assert state.merge(fork).kind == "merged"
    assert run.status == "done"


def test_a_rollback_takes_results_back_and_they_are_made_again(state, flow, calls):
    run = state.flow(flow)
    first = state.head
    run.work()
    state.rollback(first)

    assert run.progress().counts == {"pending": 3}
    assert run.work().status == "done"
    assert calls["both"] == 2


def test_two_runs_of_one_state_do_not_touch_each_other(state, flow, calls):
    one, two = state.flow(flow, key="one"), state.flow(flow, key="two")
    one.work()

    assert two.progress().counts == {"pending": 3}
    assert {run.key: run.status for run in state.flows()} == {"one": "done", "two": "running"}


@pytest.mark.parametrize("swap", [False, True])
def test_what_ended_wins_over_what_only_began(swap):
    began = TaskRecord("running", attempt=3, worker="w").to_data()
    done = TaskRecord("done", attempt=1, product=b"p").to_data()
    sides = (done, began) if swap else (began, done)

    assert merge_tasks(None, *sides) == done


def test_records_that_are_none_are_a_conflict():
    done = TaskRecord("done", product=b"p").to_data()

    assert merge_tasks(None, done, {"status": "sleeping"}) is NotImplemented
    assert merge_tasks(None, done, {**done, "product": b"q"}) is NotImplemented


def test_an_event_that_a_status_does_not_accept_is_a_typed_error():
    with pytest.raises(IllegalTransition, match="task a is done, and cannot start") as caught:
        TaskRecord("done").after("a", "start")
    assert caught.value.allowed == ("again",)


def two_chains():
    flow = Flow("chains")
    for name, after in (("a", ()), ("b", "a"), ("d", ()), ("c", "d")):
        flow.task(lambda: 1, name=name, after=after)
    return flow


def expanded_on_both(state):
    """Let x make b wait for c on one branch, and y make c wait for b on the other."""
    run = state.flow(two_chains())
    fork = state.fork("try")
    run.expand("a", [FlowTask("x", call="a", after="c")])
    fork.flow(key="chains").expand("d", [FlowTask("y", call="a", after="b")])
    return run, fork


@pytest.mark.parametrize("take", ["ours", "theirs"])
def test_tasks_that_would_wait_for_each_other_after_a_merge_are_a_conflict(state, take):
    run, fork = expanded_on_both(state)
    result = state.merge(fork)

    assert [each.path for each in result.conflicts] == [".flows/chains/plan"]
    assert "wait for each other: " in result.conflicts[0].why
    for name in ("b -> y", "y -> c", "c -> x", "x -> b"):
        assert name in result.conflicts[0].why
    state.resolve_conflict(".flows/chains/plan", take=take)
    state.commit("decided")
    assert run.work().counts == {"done": 5}
    assert ("x" in run.graph) == (take == "ours")


def test_a_branch_with_such_a_plan_is_not_merged_without_a_decision(state):
    run, fork = expanded_on_both(state)
    head = state.head
    state.merge(fork)

    with pytest.raises(MergeConflict, match="to decide first"):
        state.commit()
    assert state.head == head
    assert run.progress().total == 5


def test_two_branches_that_expand_one_run_merge(state):
    run = state.flow(two_chains())
    fork = state.fork("try")
    run.expand("a", [FlowTask("x", call="a")])
    fork.flow(key="chains").expand("a", [FlowTask("y", call="a")])

    assert state.merge(fork).ok
    assert set(run.graph.waits_for("b")) == {"a", "x", "y"}


def test_a_run_that_cannot_be_read_hides_no_other(state):
    state.flow(two_chains())
    stored = StoredFlow(state, "bad")
    stored.put({"flow": "bad", "created": 1}, "head")
    stored.put({"call": "a", "after": ["self"]}, "plan", "self")
    state.commit()

    bad, good = state.flows()
    assert (bad.key, good.key, good.status) == ("bad", "chains", "running")
    with pytest.raises(Corrupt, match="the plan of the run bad is not sound"):
        bad.progress()
