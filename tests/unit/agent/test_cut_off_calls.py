"""Tool calls of an answer that reached its limit: none is carried out, and the model is told."""

from __future__ import annotations

from typing import Any

import pytest

from otolith import Live, Versioned
from otolith.agent import Agent, AgentState, Orchestrator, Reply, ScriptedModel, Tool
from otolith.conversation import Message, Role, ToolCall
from tests.unit.agent.provider import serving
from tests.unit.agent.test_endings import anthropic, model, openai


def deleting(done: list[str]) -> Tool:
    def delete(path: str = "/") -> str:
        done.append(path)
        return "deleted"

    return Tool(delete, effects="once")


def cut_off(*calls: ToolCall) -> Reply:
    return Reply(Message(Role.ASSISTANT, calls), stop_reason="max_tokens")


def anthropic_call(given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "delete", "input": given}


def openai_call(arguments: str) -> list[dict[str, Any]]:
    function = {"name": "delete", "arguments": arguments}
    return [{"index": 0, "id": "c1", "type": "function", "function": function}]


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("protocol", "answer", "rest"),
    [
        ("anthropic", ("max_tokens", "I delete /tmp/x", anthropic_call({})), ("end_turn", "ok")),
        (
            "anthropic",
            ("model_context_window_exceeded", anthropic_call({"path": "/t"})),
            ("end_turn", "ok"),
        ),
        ("openai", ("length", None, ""), ("stop", "ok")),
        ("openai", ("length", None, '{"path": "/t'), ("stop", "ok")),
        ("openai", ("length", None, '{"path": "/t"}'), ("stop", "ok")),
    ],
)
def test_a_call_that_the_provider_cut_off_is_not_carried_out(protocol, answer, rest, is_streamed):
    done: list[str] = []
    if protocol == "anthropic":
        plans = [anthropic(*each, is_streamed=is_streamed) for each in (answer, rest)]
    else:
        why, text, arguments = answer
        plans = [
            openai(why, text, is_streamed, tool_calls=openai_call(arguments)),
            openai(rest[0], rest[1], is_streamed),
        ]
    with serving(*plans) as provider:
        heard = (lambda _: None) if is_streamed else None
        agent = Agent(model(provider.url, protocol), tools=[deleting(done)], on_text=heard)
        assert agent.run("clean", Versioned()).answer == "ok"
    assert done == []
    assert "cut off, not carried out" in str(provider.requests[1])


def test_the_tools_of_the_loop_are_not_called_either():
    given = ToolCall("c1", "give_result", {"result": []})
    agent = Agent(
        ScriptedModel([lambda _: cut_off(given), {"call": "give_result", "result": ["a"]}])
    )

    @agent.task
    def find(q: str) -> list[str]:  # type: ignore[empty-body]
        """Find them."""

    assert find("x") == ["a"]


def test_a_model_that_is_cut_off_each_time_ends_with_an_error():
    call = ToolCall("c1", "delete", {})
    done: list[str] = []
    agent = Agent(lambda _: cut_off(call), tools=[deleting(done)], max_repairs=2)
    outcome = agent.run("clean", Versioned())
    assert (outcome.ended, outcome.steps, done) == ("error", 3, [])


@pytest.mark.parametrize("where", [Versioned, Live])
@pytest.mark.parametrize("is_later", [False, True])
def test_a_step_of_ones_own_cannot_carry_it_out(where, is_later):
    done: list[str] = []

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        if s.phase == "planning":
            reply = o.complete(s.messages)
            s = s.to_executing().say(reply.message)
            if is_later:
                return s
        [call] = s.messages[-1].calls
        return s.to_done(o.call(call).text)

    made = Orchestrator(
        where(),
        step=step,
        model=lambda _: cut_off(ToolCall("c1", "delete", {})),
        tools=[deleting(done)],
    )
    assert made.run("clean").answer.startswith("cut off, not carried out")
    assert done == []


def test_repairs_are_counted_in_a_row():
    replies: list[Any] = []
    for _ in range(5):
        replies += [{"call": "give_result", "result": "bad"}, {"call": "look"}]
    agent = Agent(ScriptedModel([*replies, {"call": "give_result", "result": 7}]))
    agent.tool(name="look")(lambda: "seen")

    @agent.task
    def count(q: str) -> int:  # type: ignore[empty-body]
        """Count them."""

    assert count("x") == 7
