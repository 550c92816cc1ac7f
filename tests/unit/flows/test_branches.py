"""Runs on branches: forked, rolled back, advanced on both sides, and merged."""

from __future__ import annotations

import pytest

from otolith.errors import IllegalTransition, MergeConflict
from otolith.flows import Flow, FlowTask, TaskRecord, merge_tasks


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
