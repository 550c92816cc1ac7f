"""A run of a flow: what is done, in which order, and what is there afterwards."""

from __future__ import annotations

from threading import Lock

import pytest

from otolith.errors import BadValue, Exists, Invalid, KeyNotFound
from otolith.flows import Flow, FlowTask


def trip(calls):
    flow = Flow("trip")

    @flow.task
    def search(dest: str) -> list[str]:
        calls["search"] += 1
        return [f"{dest} 7:40", f"{dest} 9:15"]

    @flow.task(after=search)
    def choose(search):
        calls["choose"] += 1
        return search[0]

    @flow.task(after=[search, choose])
    def book(choose, search, seat="aisle"):
        calls["book"] += 1
        return [choose, len(search), seat]

    return flow


def test_tasks_get_the_results_of_those_they_come_after(state, calls):
    run = state.flow(trip(calls), dest="NYC")

    assert run.work().status == "done"
    assert run.result("book") == ["NYC 7:40", 2, "aisle"]
    assert run.results() == {
        "search": ["NYC 7:40", "NYC 9:15"],
        "choose": "NYC 7:40",
        "book": ["NYC 7:40", 2, "aisle"],
    }


def test_a_step_is_one_commit(state, calls):
    run = state.flow(trip(calls), dest="NYC")
    run.work()

    messages = [commit.message for commit in state.log()]
    assert messages == [
        "trip: book returned",
        "trip: choose returned",
        "trip: search returned",
        "trip: begins",
        "trip: a run of trip",
    ]


def test_the_same_key_is_the_same_run(state, calls):
    state.flow(trip(calls), key="t1", dest="NYC").work()
    again = state.flow(trip(calls), key="t1", dest="NYC")

    assert again.work().status == "done"
    assert calls == {"search": 1, "choose": 1, "book": 1}
    assert [each.key for each in state.flows()] == ["t1"]


def test_the_same_key_with_another_input_is_refused(state, calls):
    state.flow(trip(calls), key="t1", dest="NYC")

    with pytest.raises(Invalid, match="begun with another dest"):
        state.flow(trip(calls), key="t1", dest="Rome")
    other = Flow("other")
    with pytest.raises(Invalid, match="of the flow 'trip', not 'other'"):
        state.flow(other, key="t1")


def test_inputs_are_checked_before_anything_is_written(state, calls):
    with pytest.raises(Invalid, match="needs dest"):
        state.flow(trip(calls))
    with pytest.raises(Invalid, match="no input destination"):
        state.flow(trip(calls), dest="NYC", destination="NYC")
    with pytest.raises(BadValue, match="the input dest cannot be stored"):
        state.flow(trip(calls), dest=(each for each in "NYC"))
    assert state.head is None


def test_what_is_staged_on_the_state_stays_staged(state, calls):
    state["note"] = "mine"
    state.flow(trip(calls), dest="NYC").work()

    assert [change.path for change in state.status()] == ["note"]
    state.commit("mine")
    assert state.flow(key="trip").status == "done"


def test_a_task_edits_the_state_together_with_its_result(state):
    flow = Flow("f")

    @flow.task
    def spend(task):
        task.state["budget"] = 400
        return "spent"

    run = state.flow(flow)
    run.work()

    assert state["budget"] == 400
    [commit, *_] = state.log()
    assert commit.message == "f: spend returned"
    assert state.at(commit.parents[0]).get("budget") is None


def test_what_a_failed_task_did_to_the_state_is_dropped(state):
    flow = Flow("f")

    @flow.task
    def spend(task):
        task.state["budget"] = 400
        raise RuntimeError("no")

    run = state.flow(flow)

    assert run.work().status == "failed"
    assert "budget" not in state


def test_a_result_that_cannot_be_stored_fails_its_task(state):
    flow = Flow("f")

    @flow.task(retries=5)
    def make():
        return (each for each in "abc")

    run = state.flow(flow)

    assert run.work().status == "failed"
    assert "its result cannot be stored" in run.task("make").record.error
    with pytest.raises(KeyNotFound, match="make is failed"):
        run.result("make")


def test_a_result_is_a_copy_for_each_task_that_gets_it(state):
    flow = Flow("f")

    @flow.task
    def make():
        return [1]

    @flow.task(after=make)
    def one(make):
        make.append(2)
        return make

    @flow.task(after=make)
    def two(make):
        return make

    run = state.flow(flow)
    run.work()

    assert run.results() == {"make": [1], "one": [1, 2], "two": [1]}


def test_coroutines_are_awaited(state):
    flow = Flow("f")

    @flow.task
    async def make() -> int:
        return 3

    run = state.flow(flow)
    run.work()
    assert run.result("make") == 3


@pytest.mark.parametrize("workers", [1, 4])
def test_many_tasks_are_done_once_each(state, calls, workers):
    flow = Flow("many")

    @flow.subtask
    def count(task):
        calls[task.name] += 1
        return task.name

    for number in range(200):
        flow.add(FlowTask(f"t{number}", call=count))
    run = state.flow(flow)

    assert run.work(workers).counts == {"done": 200}
    assert set(calls.values()) == {1}
    assert len(calls) == 200
    assert len(list(state.log())) < 190  # what is short shares commits


def test_a_flow_is_checked_when_it_is_made():
    flow = Flow("f")
    first = flow.task(lambda: 1, name="first")

    with pytest.raises(Exists, match="has a task 'first'"):
        flow.task(lambda: 1, name="first")
    with pytest.raises(KeyNotFound, match="'two' comes after 'ferst'"):
        flow.task(lambda: 1, name="two", after="ferst")
    with pytest.raises(KeyNotFound, match="and there is no such task"):
        flow.task(lambda: 1, name="two", back_to="nobody")
    other = flow.task(lambda: 1, name="other")
    with pytest.raises(Invalid, match="does not come before it"):
        flow.task(lambda: 1, name="two", after=first, back_to=other)
    with pytest.raises(KeyNotFound, match="has none of its name"):
        flow.add(FlowTask("three"))
    assert list(flow.tasks) == ["first", "other"]
    assert len(flow.graph) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "retries must be at least 0, got -1"),
        ({"retries": "3"}, "retries must be a whole number"),
        ({"timeout": "soon"}, "timeout must be a time"),
        ({"timeout": 0}, "timeout must be a time"),
        ({"needs": {"api": 0}}, "at least 1, got 0"),
        ({"needs": {"api": 2}}, "needs 2 of api, and the flow has 1"),
        ({"needs": "api"}, "needs must be"),
        ({"validate": 3}, "validate must be a function"),
        ({"after": 3}, "after must be a task or several"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(Invalid, match=message):
        Flow("f").task(lambda: 1, name="one", **options)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, None, 3])
def test_names_that_nobody_can_read_are_refused(name):
    with pytest.raises(Invalid, match="needs a name"):
        Flow(name)
    with pytest.raises(Invalid, match="needs a name"):
        FlowTask(name, goal="do it")


def test_a_run_without_its_flow_can_be_looked_at_only(state, calls):
    state.flow(trip(calls), dest="NYC")
    run = state.flow(key="trip")

    assert run.progress().counts == {"pending": 3}
    with pytest.raises(Invalid, match="opened without its flow"):
        run.work()
    with pytest.raises(KeyNotFound, match="no run 'other'"):
        state.flow(key="other")
    with pytest.raises(Invalid, match="give a flow, or the key"):
        state.flow()


def test_a_function_that_is_gone_is_named(state):
    flow, later = Flow("f"), Flow("f")
    flow.task(lambda: 1, name="one")
    flow.task(lambda one: 2, name="two", after="one")
    later.task(lambda: 1, name="one")
    state.flow(flow)
    run = state.flow(later)

    with pytest.raises(Invalid, match="has no function two"):
        run.work()
    assert run.task("one").status == "done"


def test_a_newer_version_of_the_flow_adds_its_tasks(state, calls):
    state.flow(trip(calls), dest="NYC").work()
    newer = trip(calls)
    newer.task(lambda book: f"mailed {book[0]}", name="mail", after="book", retries=2)
    run = state.flow(newer, dest="NYC")

    assert run.work().status == "done"
    assert run.result("mail") == "mailed NYC 7:40"
    assert calls["book"] == 1


def test_the_past_of_a_run_can_be_read(state, calls):
    run = state.flow(trip(calls), dest="NYC")
    first = state.head
    run.work()

    assert run.at(first).progress().counts == {"pending": 3}
    assert state.at(first).flow(key="trip").status == "running"
    assert [each.name for each in run.diff(run.at(first))] == ["search", "choose", "book"]
    empty = state.repo.session("empty")
    before = empty.commit(allow_empty=True)
    with pytest.raises(KeyNotFound, match="no run 'trip'"):
        run.at(before)


def test_an_input_of_a_task_that_cannot_be_stored_is_named(state, calls):
    flow = trip(calls)
    flow.add(FlowTask("pay", call="search", inputs={"dest": Lock()}))

    with pytest.raises(BadValue, match="plan/pay: "):
        state.flow(flow, dest="NYC")
    assert state.is_clean
