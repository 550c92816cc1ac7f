"""Flows that a model calls, and models that judge results of flows."""

from __future__ import annotations

from typing import Any

import pytest

import otolith
from otolith.agent import Agent, ScriptedModel, flow_tool, judge, ledger_in
from otolith.errors import BadReply, Invalid, Unavailable
from otolith.flows import Flow


@pytest.fixture
def state():
    with otolith.open("memory:") as repo:
        yield repo.session("trip")


@pytest.fixture
def flow():
    made = Flow("plan a trip")

    @made.task
    def search(dest: str, most: int = 2) -> list[str]:
        return [f"{dest} {number}" for number in range(most)]

    @made.task(after=search)
    def choose(search: list[str]) -> str:
        return search[-1]

    return made


def said(state):
    return [
        part for message in state.conversation.messages() for part in message.to_data()["parts"]
    ]


def test_a_model_calls_a_flow_and_gets_its_last_result(state, flow):
    made = flow_tool(flow, state)
    assert made.name == "plan_a_trip"
    assert set(made.parameters["properties"]) == {"dest", "most", "run"}
    assert made.parameters["required"] == ["dest"]
    lines: list[Any] = [
        {"call": "plan_a_trip", "dest": "NYC"},
        {"call": "plan_a_trip", "dest": "NYC"},
        "ok",
    ]
    agent = Agent(ScriptedModel(lines), tools=[made])

    assert agent.run("plan it", state).answer == "ok"
    assert [entry.result for entry in ledger_in(state)] == ["NYC 1", "NYC 1"]
    assert [run.status for run in state.flows()] == ["done", "done"]


def test_results_are_of_all_last_tasks_or_of_one(state, flow):
    flow.task(lambda search: f"{len(search)} found", name="count", after="search")

    assert flow_tool(flow, state)(dest="NYC", run="", idempotency_key="a") == {
        "choose": "NYC 1",
        "count": "2 found",
    }
    one = flow_tool(flow, state, result="search")
    assert one(dest="NYC", run="", idempotency_key="b") == ["NYC 0", "NYC 1"]


def test_the_same_call_is_the_same_run(state, flow):
    made = flow_tool(flow, state)
    for _ in range(2):
        made(dest="NYC", run="", idempotency_key="the same")

    assert len(state.flows()) == 1


def test_a_run_that_waits_for_a_person_is_looked_at_again(state):
    flow = Flow("ask")
    flow.task(lambda task: task.ask("Aisle?"), name="seat")
    made = flow_tool(flow, state)

    waits = made(run="", idempotency_key="a")
    assert waits == {"waits for": {"seat": "Aisle?"}, "run": "ask a"}
    state.flow(key=waits["run"]).answer("seat", "yes")
    assert made(run=waits["run"], idempotency_key="b") == "yes"


def test_a_run_that_fails_says_why(state):
    flow = Flow("fails")
    flow.task(lambda: 1 / 0, name="divide")

    with pytest.raises(Unavailable, match="divide: ZeroDivisionError"):
        flow_tool(flow, state)(run="", idempotency_key="a")


def test_an_input_may_not_take_the_place_of_a_parameter_of_the_tool(state):
    flow = Flow("clash")
    flow.task(lambda run: run, name="go")

    with pytest.raises(Invalid, match="has an input run"):
        flow_tool(flow, state)


# Judges


def test_a_judge_lets_through_or_says_why():
    seen = []

    def model(messages):
        seen.append(messages[-1].text)
        return (
            '{"accepted": true}'
            if "300" in messages[-1].text
            else 'No. {"accepted": false, "reason": "700 is too much"}'
        )

    check = judge(model, "the price is below 500")

    assert check({"price": 300}) is True
    assert check({"price": 700}) == "700 is too much"
    assert "the price is below 500" in seen[0]


def test_the_reason_of_a_judge_reaches_the_next_attempt(state):
    flow = Flow("buy")
    verdicts = ScriptedModel([lambda messages: '{"accepted": %s, "reason": "too dear"}' % (
        "true" if "300" in messages[-1].text else "false"
    )])  # fmt: skip
    flow.task(
        lambda feedback: 300 if feedback == "too dear" else 700,
        name="choose", retries=1, pause="1ms", validate=judge(verdicts, "below 500"),
    )  # fmt: skip

    run = state.flow(flow)
    assert run.work().status == "done"
    assert run.result("choose") == 300


@pytest.mark.parametrize(
    "said",
    [
        "Yes, it is accepted.",
        '{"accepted": "true"}',
        '{"accepted": 1}',
        '{"reason": "fine"}',
        '{"accepted": true} or {"accepted": false}',
        '["accepted", true]',
        "{" * 100_000,
        '{"accepted": ' * 20_000 + "}" * 20_000,
    ],
)
def test_what_is_no_verdict_is_no_pass(state, said):
    asked = []

    def model(messages):
        asked.append(messages)
        return said

    check = judge(model, "below 500")
    with pytest.raises(BadReply, match="gave no verdict"):
        check(300)
    assert len(asked) == 3
    flow = Flow("buy")
    flow.task(lambda: 300, name="choose", validate=check)
    assert "gave no verdict" in state.flow(flow).work().failures["choose"]


def test_a_judge_may_correct_itself():
    check = judge(ScriptedModel(["Sure!", '{"accepted": false, "reason": ""}']), "below 500")

    assert check(700) == "it does not meet: below 500"
