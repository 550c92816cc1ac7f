"""Branches of tasks: what commits by itself lands with the result, or not at all."""

from __future__ import annotations

import pytest

import otolith
from otolith.flows import Flow, ProcessExecutor

flow_elsewhere = Flow("elsewhere")


@flow_elsewhere.task
def ask_for_a_branch(task):
    """Ask for what is not there in another process."""
    return task.branch().name


@pytest.fixture
def flow():
    return Flow("work")


def branches(state):
    return [name for name in state.repo.branches(state.session) if name != "main"]


def test_what_was_committed_lands_with_the_result(state, flow):
    @flow.task
    def write(task):
        branch = task.branch()
        branch["draft"] = "first"
        branch.commit("first")
        branch["draft"] = "second"
        branch.commit("second")
        task.state["seen"] = task.state.get("draft")
        return branch.name

    run = state.flow(flow)
    run.work()

    assert (state["draft"], state["seen"]) == ("second", None)
    assert branches(state) == [run.result("write")]
    landed = [commit for commit in state.log() if len(commit.parents) == 2]
    assert [commit.message for commit in landed] == ["work: write returned"]
    before = state.at(landed[0].parents[0])
    assert "draft" not in before
    assert run.at(landed[0].parents[0]).task("write").status == "running"
    assert run.at(landed[0]).task("write").status == "done"


def test_what_was_left_staged_on_the_branch_lands_too(state, flow):
    @flow.task
    def write(task):
        task.branch()["draft"] = "staged"

    state.flow(flow).work()
    state.refresh()

    assert state["draft"] == "staged"


def test_a_failed_attempt_leaves_nothing_and_the_next_begins_anew(state, flow):
    @flow.task(retries=2, pause="1ms", validate=lambda found: found[1] == 3)
    def write(task):
        branch = task.branch()
        branch["count"] = branch.get("count", 0) + 1
        branch.commit("counted")
        if task.attempt == 1:
            raise OSError("down")
        return [branch["count"], task.attempt]

    run = state.flow(flow)
    run.work()
    state.refresh()

    assert run.result("write") == [1, 3]
    assert state["count"] == 1
    assert len(branches(state)) == 3


def test_a_conflict_is_a_failed_attempt_and_the_next_sees_what_others_did(state, flow):
    state["plan"] = "ours"
    state.commit("a plan")

    @flow.task(retries=1, pause="1ms")
    def write(task):
        branch = task.branch()
        seen = branch["plan"]
        branch["plan"] = f"{seen}, edited"
        branch.commit("edited")
        if task.attempt == 1:
            other = state.fork("other")
            other["plan"] = "theirs"
            other.commit("theirs")
            state.merge(other)
        return [seen, task.feedback]

    run = state.flow(flow)
    run.work()
    state.refresh()

    seen, feedback = run.result("write")
    assert seen == "theirs"
    assert "cannot be committed: others have changed plan since" in feedback
    assert state["plan"] == "theirs, edited"


def test_tasks_beside_each_other_have_branches_of_their_own(state, flow):
    for name in ("a", "b", "c"):

        @flow.task(name=name)
        def write(task):
            branch = task.branch()
            branch[task.name] = branch.name
            branch.commit("written")
            return branch.name

    run = state.flow(flow)
    run.work(workers=3)
    state.refresh()

    assert len(set(run.results().values())) == 3
    assert {name: state[name] for name in "abc"} == run.results()


def test_a_question_and_its_answer_are_on_one_branch(state, flow):
    @flow.task
    def write(task):
        branch = task.branch()
        branch["asked"] = branch.get("asked", 0) + 1
        branch.commit("asked")
        return task.ask("How?")

    run = state.flow(flow)
    run.work()
    assert "asked" not in state
    run.answer("write", "so")
    run.work()
    state.refresh()

    assert state["asked"] == 2
    assert len(branches(state)) == 1


def test_after_a_rollback_it_is_done_on_a_new_branch(state, flow):
    @flow.task
    def write(task):
        branch = task.branch()
        branch["draft"] = branch.name
        branch.commit("written")
        return branch.name

    run = state.flow(flow)
    begin = state.head
    run.work()
    first = run.result("write")
    state.rollback(begin)
    assert "draft" not in state
    run.work()
    state.refresh()

    assert state["draft"] == run.result("write") != first


def test_a_fork_goes_on_from_what_the_other_side_did(repo, state, flow):
    """The fork is made in the middle of the task, whose worker is on the other branch."""

    @flow.task
    def write(task):
        branch = task.branch()
        branch["steps"] = [*branch.get("steps", []), task.state.name]
        branch.commit("a step")
        if task.state.name == "main" and task.attempt == 1:
            state.refresh()
            state.fork("fork").flow(flow).work()
        return branch["steps"]

    run = state.flow(flow)
    run.work()

    assert run.result("write") == ["main"]
    assert repo.session("trip", branch="fork").flow(flow).result("write") == ["main", "fork"]


def test_the_state_of_a_task_is_not_committed_by_itself(state, flow):
    @flow.task
    def write(task):
        task.state["draft"] = "half"
        task.state.commit("too early")

    progress = state.flow(flow).work()

    assert "not inside a transaction (it is committed with the result" in progress.failures["write"]
    assert "draft" not in state


def test_another_process_has_no_branch(tmp_path):
    with otolith.open(tmp_path / "a.db") as repo, ProcessExecutor(1) as executor:
        run = repo.session("s").flow(flow_elsewhere)
        progress = run.work(executor=executor)

    assert "task.branch is not there in another process" in progress.failures["ask_for_a_branch"]


def test_a_task_calls_only_what_knows_how(state, flow):
    flow.task(lambda task: task.call(len, x=3), name="wrong")

    assert "cannot be called in a task" in state.flow(flow).work().failures["wrong"]
