"""Tasks that are added while a run goes on."""

from __future__ import annotations

from itertools import count

import pytest

from otolith.errors import Exists, Invalid, KeyNotFound
from otolith.flows import Flow, FlowTask, Task, flow_definition
from otolith.flows.flow_definition import check_count


def ordered(results):
    return sorted(results)


@pytest.fixture
def flow(calls):
    made = Flow("trip")

    @made.subtask
    def note(task):
        calls[task.name] += 1
        return task.name

    made.add(FlowTask("search", call=note))
    made.add(FlowTask("choose", call=note, after="search"))
    made.task(ordered, name="book", after="choose")
    return made


def test_parts_of_a_task_come_after_it_and_before_what_follows(state, flow):
    run = state.flow(flow)
    names = run.expand("choose", [FlowTask("visa", call="note"), FlowTask("seat", call="note")])

    assert names == ["visa", "seat"]
    assert run.graph.waits_for("book") == ["choose", "visa", "seat"]
    assert run.work().status == "done"
    assert run.result("book") == ["choose", "seat", "visa"]


def test_only_the_last_parts_are_waited_for(state, flow):
    run = state.flow(flow)
    run.expand("choose", [FlowTask("a", call="note"), FlowTask("b", call="note", after="a")])

    assert run.graph.waits_for("book") == ["choose", "b"]
    assert run.graph.waits_for("a") == ["choose"]


def test_a_cycle_is_refused_with_its_path_before_anything_is_written(state, flow):
    run = state.flow(flow)
    head = state.head

    with pytest.raises(Invalid, match=r"(visa -> book -> visa|book -> visa -> book)"):
        run.expand("choose", [FlowTask("visa", call="note", after="book")])
    assert state.refresh() == head
    assert run.work().status == "done"


def test_what_cannot_be_added_is_refused(state, flow):
    run = state.flow(flow)

    with pytest.raises(Exists, match="has a task 'search'"):
        run.expand("choose", [FlowTask("search", call="note")])
    with pytest.raises(Exists, match="has a task 'a'"):
        run.expand("choose", [FlowTask("a", call="note"), FlowTask("a", call="note")])
    with pytest.raises(KeyNotFound, match="'a' comes after 'nobody'"):
        run.expand("choose", [FlowTask("a", call="note", after="nobody")])
    with pytest.raises(KeyNotFound, match="calls 'fly'"):
        run.expand("choose", [FlowTask("a", call="fly")])
    with pytest.raises(KeyNotFound, match="no task 'chose'"):
        run.expand("chose", [FlowTask("a", call="note")])
    with pytest.raises(Invalid, match="must be a FlowTask"):
        run.expand("choose", ["a"])
    run.work()
    with pytest.raises(Invalid, match="book comes after choose, and is done already"):
        run.expand("choose", [FlowTask("a", call="note")])
    run.cancel()
    with pytest.raises(Invalid, match="was cancelled"):
        run.expand(None, [FlowTask("a", call="note")])


def test_a_task_adds_its_own_parts_while_it_runs(state, flow, calls):
    def plan(task, search):
        task.expand(FlowTask(f"part {n}", call="note") for n in range(3))
        return "planned"

    flow.task(plan, name="plan", after="search")
    flow.task(ordered, name="end", after="plan")
    run = state.flow(flow)

    assert run.work(2).status == "done"
    assert run.result("end") == ["part 0", "part 1", "part 2", "plan"]
    assert run.graph.waits_for("end") == ["plan", "part 0", "part 1", "part 2"]


def test_parts_that_cannot_be_added_fail_their_task(state, flow):
    flow.task(lambda task: task.expand([FlowTask("search", call="note")]), name="plan")
    run = state.flow(flow)

    progress = run.work()
    assert progress.failures == {"plan": "its parts cannot be added: run trip has a task 'search'"}
    assert progress.total == 4


def test_a_run_goes_on_after_it_was_expanded(state, flow):
    run = state.flow(flow)
    run.work()
    run.expand(None, [FlowTask("later", call="note", after="book", inputs={"x": 1})])

    assert run.progress().counts == {"done": 3, "pending": 1}
    assert run.work().status == "done"
    assert state.flow(key="trip").task("later").spec.inputs == {"x": 1}


def test_a_newer_flow_keeps_what_was_added(state, flow):
    state.flow(flow).expand("choose", [FlowTask("visa", call="note")])
    again = state.flow(flow)

    assert again.graph.waits_for("book") == ["choose", "visa"]


def test_too_many_tasks_are_refused(state, flow, monkeypatch):
    run = state.flow(flow)
    monkeypatch.setattr("otolith.flows.flow_definition.MOST_TASKS", 5)

    with pytest.raises(Invalid, match="at most 5 tasks, got 6"):
        run.expand("choose", [FlowTask(f"t{n}", call="note") for n in range(3)])
    flow.add(FlowTask("t4", call="note"))
    flow.add(FlowTask("t5", call="note"))
    with pytest.raises(Invalid, match="at most 5 tasks, got 6"):
        flow.add(FlowTask("t6", call="note"))
    assert len(flow.tasks) == 5


def test_a_quarter_of_a_million_tasks_is_the_limit(state):
    assert flow_definition.MOST_TASKS == 250_000
    check_count(250_000)
    with pytest.raises(Invalid, match="at most 250,000 tasks, got 250,001"):
        check_count(250_001)


def test_what_never_ends_is_refused_when_there_are_too_many(state, flow, monkeypatch):
    monkeypatch.setattr("otolith.flows.flow_definition.MOST_TASKS", 50)
    made = count()

    def endless():
        return (FlowTask(f"t{each}", call="note") for each in made)

    run = state.flow(flow)
    with pytest.raises(Invalid, match="at most 50 tasks, got 51"):
        run.expand("choose", endless())
    assert next(made) == 48  # three were there
    flow.task(lambda task: task.expand(endless()), name="plan")
    assert "at most 50 tasks" in state.flow(flow).work().failures["plan"]


def test_a_task_that_names_nothing_calls_the_function_of_its_name(state, flow):
    @flow.subtask
    def visa(choose):
        return f"a visa for {choose}"

    run = state.flow(flow)
    run.expand("choose", [Task("visa", after="choose")])
    run.work()

    assert Task is FlowTask
    assert run.result("visa") == "a visa for choose"


def test_a_task_without_a_function_says_what_is_missing(state, flow):
    run = state.flow(flow)
    with pytest.raises(KeyNotFound, match="'visa' has no function: it names none") as caught:
        run.expand("choose", [Task("visa", after="choose")])

    assert caught.value.hint is not None
    assert "call= with a function of the flow, or goal= for a person" in caught.value.hint
    assert "functions are: note, book" in caught.value.hint


def test_who_is_refused_is_not_among_those_that_are_there(state, flow):
    run = state.flow(flow)
    with pytest.raises(KeyNotFound, match="'visa' comes after 'nobody'") as caught:
        run.expand("choose", [Task("visa", call="note", after="nobody")])

    assert caught.value.hint == "the tasks are: search, choose, book"


def test_a_question_may_be_asked_again_and_have_several_lines(state, flow):
    run = state.flow(flow)
    names = [run.ask("Go on?\nIt costs 455."), run.ask("Go on?\nIt costs 455."), run.ask("x" * 900)]
    run.work()

    assert names[:2] == ["Go on? It costs 455.", "Go on? It costs 455. (2)"]
    assert run.progress().questions[names[1]] == "Go on?\nIt costs 455."
    run.answer(names[1], True)
    assert run.result(names[1]) is True
    with pytest.raises(Exists, match="has a task 'search'"):
        run.ask("Again?", name="search")
    with pytest.raises(Invalid, match="a question needs words"):
        run.ask(" \n")


def test_a_parameter_called_key_can_be_given_only_by_the_task(state):
    flow = Flow("f")
    with pytest.raises(Invalid, match="a parameter 'key', and state"):
        flow.task(lambda key: key, name="one")
    flow.task(lambda key: key, name="two", inputs={"key": 2})
    flow.task(lambda: 3, name="key")
    flow.task(lambda key: key, name="three", after="key")
    run = state.flow(flow, key="any")
    run.work()

    assert run.results() == {"two": 2, "key": 3, "three": 3}
