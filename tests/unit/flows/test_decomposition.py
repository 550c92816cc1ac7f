"""Decomposition: what a model proposes is checked, corrected, approved, or dropped."""

from __future__ import annotations

import json

import pytest

import otolith
from otolith.agent import ScriptedModel
from otolith.errors import BadReply, Invalid, KeyNotFound, ModelFailed
from otolith.flows import Flow, FlowTask

ONE = {"name": "visa", "call": "check", "inputs": {"thing": "visa"}}


@pytest.fixture
def flow():
    made = Flow("trip")

    @made.task
    def search(dest: str) -> list[str]:
        """Search for flights."""
        return [dest]

    @made.task(after=search)
    def end(results):
        return sorted(results)

    @made.subtask
    def check(thing: str, search: list[str], often: int = 1) -> str:
        """Check one thing.

        At length.
        """
        return f"{thing} for {search[0]}"

    return made


@pytest.fixture
def run(state, flow):
    return state.flow(flow, dest="NYC")


def answers(*lines):
    """Return a function that answers one line after the other, and notes the prompts."""
    return Answers(lines)


class Answers:
    """A model that is a function."""

    def __init__(self, lines):
        self._left = iter(lines)
        self.prompts = []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        return next(self._left)


def test_what_is_proposed_is_done_before_what_waits_for_the_parent(run):
    more = [ONE, {"name": "cash", "goal": "Get cash", "after": ["visa"]}]

    assert run.decompose("get ready", model=answers(more), parent="search") == ["visa", "cash"]
    assert run.work().questions == {"cash": "Get cash"}
    run.answer("cash", "300")
    run.work()
    assert run.result("visa") == "visa for NYC"
    assert run.result("end") == ["cash", "search"]


def test_the_model_of_an_agent_gets_a_dialogue(run):
    model = ScriptedModel(["Let me think.", f"Here it is:\n```json\n{json.dumps([ONE])}\n```"])

    assert run.decompose("get ready", model=model, parent="search") == ["visa"]
    first, *rest = [(str(each.role), each.text) for each in model.asked[-1]]
    assert "check(thing, search, often=1) Check one thing." in first[1]
    assert "Goal: get ready" in first[1]
    assert [role for role, _ in rest] == ["assistant", "user"]
    assert "there is no JSON list in the answer" in rest[1][1]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("no", "no JSON list"),
        ("[{]", "not one JSON list"),
        ('{"tasks": 3}', "int 3, and not a list"),
        ("[]", "0 tasks, and must be 1 to 50"),
        ([3], "task 1 is int 3"),
        ([{"call": "check"}], "1 to 200 printable characters, got ''"),
        ([{"name": "visa"}], "neither a call nor a goal"),
        ([{**ONE, "name": "a\x1b[2J"}], "printable characters"),
        ([{**ONE, "name": "a" * 201}], "printable characters"),
        ([{**ONE, "name": 3}], "the field 'name', int 3"),
        ([{**ONE, "code": "import os"}], "the field 'code'"),
        ([ONE, ONE], "has a task 'visa'"),
        ([{**ONE, "name": "search"}], "has a task 'search'"),
        ([{**ONE, "call": "os.system"}], "calls 'os.system', which it may not call"),
        ([{**ONE, "inputs": {"thing": "a", "shell": 1}}], "the inputs shell"),
        ([{**ONE, "inputs": {}}], "gives check no thing"),
        ([{**ONE, "inputs": "thing"}], "the field 'inputs'"),
        ([{**ONE, "after": ["end"]}], "gives check no search"),
        ([{"name": "a", "goal": "a", "after": ["nowhere"]}], "nowhere"),
        ([{"name": "a", "goal": "a", "after": [["x"]]}], "a task must be"),
        ([{"name": "a", "goal": "a", "after": ["end"]}], "end -> a -> end|a -> end -> a"),
        (
            [{"name": each, "goal": "x", "after": [other]} for each, other in ("ab", "bc", "ca")],
            "a -> |-> a",
        ),
        ([{"name": f"t{n}", "goal": "x"} for n in range(10_000)], "10000 tasks"),
        ("[" * 100_000, "there is no JSON list|not one JSON list"),
        ("[" * 50_000 + "]" * 50_000, "not one JSON list"),
        ("x" * 300_000, "300,000 letters"),
        ('[{"name": "a", "goal": "\\ud800"}]', "half of a character"),
    ],
)
def test_nonsense_goes_back_with_the_reason_and_nothing_is_written(state, run, wrong, why):
    import re

    before = state.head
    model = answers(wrong, wrong, wrong)
    with pytest.raises(BadReply, match="no tasks that can be added") as caught:
        run.decompose("get ready", model=model, parent="search")

    assert re.search(why, str(caught.value)), caught.value
    assert len(model.prompts) == 3
    assert re.search(why, model.prompts[-1])
    state.refresh()
    assert state.head == before
    model = answers(wrong, wrong, [ONE])
    assert run.decompose("get ready", model=model, parent="search") == ["visa"]
    assert run.work().status == "done"


def test_only_some_functions_may_be_called(run):
    model = answers([{**ONE, "call": "search", "inputs": {}}], [ONE])

    assert run.decompose("ready", model=model, parent="search", calls=["check"]) == ["visa"]
    assert "search(dest)" not in model.prompts[0]
    with pytest.raises(KeyNotFound, match="no function shell"):
        run.decompose("ready", model=model, calls=["shell"])


def test_the_number_of_tasks_has_a_limit(run):
    two = [{"name": each, "goal": each} for each in "ab"]

    assert run.decompose("ready", model=answers(two, two[:1]), limit=1) == ["a"]
    with pytest.raises(Invalid, match="limit must be at least 1"):
        run.decompose("ready", model=answers(two), limit=0)


def test_a_policy_approves_refuses_or_changes(run):
    def seen(tasks):
        assert [each.name for each in tasks] == ["visa"]
        return False

    assert run.decompose("ready", model=answers([ONE]), parent="search", approve=seen) == []
    other = FlowTask("cash", goal="Get cash")
    assert run.decompose(
        "ready", model=answers([ONE]), parent="search", approve=lambda tasks: [*tasks, other]
    ) == ["visa", "cash"]
    with pytest.raises(Invalid, match="approve must return"):
        run.decompose("ready", model=answers([{"name": "a", "goal": "b"}]), approve=lambda _: "ok")


def test_a_person_approves_later_in_another_process(tmp_path, flow):
    with otolith.open(tmp_path / "a.db") as repo:
        run = repo.session("s").flow(flow, dest="NYC")
        names = run.decompose("get ready", model=answers([ONE]), parent="search", approve="person")
        assert names == ["approve get ready"]
        assert run.work().questions == {
            "approve get ready": "Add 1 tasks for 'get ready'?\n- visa: check(thing='visa')"
        }
    with otolith.open(tmp_path / "a.db") as repo:
        run = repo.session("s").flow(key="trip")  # as the command line does, without the flow
        with pytest.raises(Invalid, match="answer True or False"):
            run.answer("approve get ready", "yes")
        run.answer("approve get ready", answer=True)
        assert [each.name for each in run.tasks()] == ["search", "end", *names, "visa"]
        run = repo.session("s").flow(flow)
        assert run.work().status == "done"
        assert run.result("end") == ["approve get ready", "search", "visa"]


def test_what_a_person_refuses_is_not_added(run):
    (name,) = run.decompose("ready", model=answers([ONE]), parent="search", approve="person")
    (other,) = run.decompose("ready", model=answers([ONE]), parent="search", approve="person")
    assert (name, other) == ("approve ready", "approve ready (2)")
    run.work()
    run.answer(name, answer=False)
    run.answer(other, answer=True)

    assert run.work().status == "done"
    assert run.result("visa") == "visa for NYC"


def test_a_proposal_that_came_too_late_is_refused_and_can_be_answered_again(run):
    (name,) = run.decompose("ready", model=answers([ONE]), parent="search", approve="person")
    run.work()
    run.expand("search", [FlowTask("visa", goal="by hand")])

    with pytest.raises(otolith.Error, match="has a task 'visa'"):
        run.answer(name, answer=True)
    assert run.task(name).status == "waiting"
    run.answer(name, answer=False)


def test_a_cancelled_run_is_not_decomposed_and_no_model_is_asked(run):
    run.cancel()

    with pytest.raises(Invalid, match="was cancelled"):
        run.decompose("ready", model=answers())


def test_a_model_that_fails_breaks_nothing(state, run):
    def model(prompt):
        raise ModelFailed("the endpoint is down")

    before = state.head
    with pytest.raises(ModelFailed):
        run.decompose("ready", model=model)
    assert state.head == before
    assert run.work().status == "done"
