"""How answers end: what a provider's word means for the loop, whole or streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otolith import Versioned
from otolith.agent import (
    Agent,
    AnthropicModel,
    OpenAIModel,
    Outcome,
    Reply,
    ReplyEnding,
    TokenUsage,
)
from otolith.conversation import Message, Role, Text
from otolith.text.tokens import estimate_tokens
from tests.unit.agent.provider import serving

ASKED = [Message(Role.USER, (Text("Hi"),))]


def events(*found: dict[str, Any]) -> dict[str, bytes]:
    lines = (b"data: " + json.dumps(each).encode() + b"\n\n" for each in found)
    return {"raw": b"".join(lines)}


def anthropic(why: str, *content: Any, usage: Any = None, is_streamed: bool = False) -> Any:
    """Return an answer; a content block that is text stands for one of text."""
    blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]
    usage = usage or {"input_tokens": 1, "output_tokens": 5}
    if not is_streamed:
        whole = {"role": "assistant", "content": blocks, "stop_reason": why, "usage": usage}
        return {"raw": json.dumps(whole).encode()}
    counted = dict.fromkeys(usage) | {"output_tokens": usage["output_tokens"]}
    return events(
        {"type": "message_start", "message": {"usage": usage | {"output_tokens": 1}}},
        *(
            {"type": "content_block_start", "index": i, "content_block": b}
            for i, b in enumerate(blocks)
        ),
        {"type": "message_delta", "delta": {"stop_reason": why}, "usage": counted},
        {"type": "message_stop"},
    )


def openai(why: str, text: str | None, is_streamed: bool = False, **fields: Any) -> Any:
    message = {"role": "assistant", "content": text, **fields}
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    if is_streamed:
        return events(
            {"choices": [{"delta": message}]},
            {"choices": [{"delta": {}, "finish_reason": why}]},
            {"choices": [], "usage": usage},
        )
    choice = {"message": message, "finish_reason": why}
    return {"raw": json.dumps({"choices": [choice], "usage": usage}).encode()}


def model(url: str, protocol: str) -> Any:
    if protocol == "openai":
        return OpenAIModel(f"{url}/v1", "m", retries=0)
    return AnthropicModel("m", base_url=url, retries=0)


def run(protocol: str, is_streamed: bool, *answers: Any) -> tuple[Outcome, list[dict[str, Any]]]:
    with serving(*answers) as provider:
        heard = (lambda _: None) if is_streamed else None
        outcome = Agent(model(provider.url, protocol), on_text=heard).run("q", Versioned())
    return outcome, provider.requests


streamed = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


@pytest.mark.parametrize(
    ("word", "ending"),
    [
        ("stop", ReplyEnding.DONE),
        ("end_turn", ReplyEnding.DONE),
        ("tool_use", ReplyEnding.DONE),
        ("", ReplyEnding.DONE),
        ("a word of a server of one's own", ReplyEnding.DONE),
        ("length", ReplyEnding.CUT_OFF),
        ("max_tokens", ReplyEnding.CUT_OFF),
        ("max_output_tokens", ReplyEnding.CUT_OFF),
        ("model_context_window_exceeded", ReplyEnding.CUT_OFF),
        ("pause_turn", ReplyEnding.PAUSED),
        ("refusal", ReplyEnding.REFUSED),
        ("content_filter", ReplyEnding.REFUSED),
    ],
)
def test_an_ending_is_the_same_for_all_providers(word, ending):
    reply = Reply(Message(Role.ASSISTANT, (Text("x"),)), stop_reason=word)
    assert reply.ending is ending
    assert [reply.is_cut_off, reply.is_paused, reply.is_refused] == [
        ending is each for each in (ReplyEnding.CUT_OFF, ReplyEnding.PAUSED, ReplyEnding.REFUSED)
    ]


@streamed
@pytest.mark.parametrize("why", ["max_tokens", "model_context_window_exceeded"])
def test_half_an_answer_of_anthropic_is_asked_for_again(why, is_streamed):
    answers = [anthropic(why, "half", is_streamed=is_streamed)]
    answers += [anthropic("end_turn", "whole", is_streamed=is_streamed)]
    outcome, _ = run("anthropic", is_streamed, *answers)
    assert (outcome.ended, outcome.answer) == ("done", "whole")


@streamed
def test_a_paused_answer_is_sent_back_and_continued(is_streamed):
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    answers = [
        anthropic("pause_turn", search, is_streamed=is_streamed),
        anthropic("pause_turn", found, "The first half", is_streamed=is_streamed),
        anthropic("end_turn", "and the second.", is_streamed=is_streamed),
    ]
    outcome, requests = run("anthropic", is_streamed, *answers)
    assert (outcome.ended, outcome.answer) == ("done", "The first half\nand the second.")
    assert [each["role"] for each in requests[-1]["messages"]] == ["user", "assistant"]
    text = {"type": "text", "text": "The first half"}
    assert requests[-1]["messages"][-1]["content"] == [search, found, text]


@streamed
@pytest.mark.parametrize("content", [(), ("I will n",)], ids=["empty", "half"])
def test_a_refusal_of_anthropic_ends_the_run_with_an_error(content, is_streamed):
    outcome, requests = run(
        "anthropic", is_streamed, anthropic("refusal", *content, is_streamed=is_streamed)
    )
    assert outcome.ended == "error"
    assert "refused to answer (refusal)" in outcome.error
    assert len(requests) == 1


@streamed
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (("content_filter", None), "(content_filter): it gave no reason"),
        (("content_filter", "half"), "(content_filter): half"),
        (("stop", None, "I cannot help."), "(refusal): I cannot help."),
    ],
)
def test_a_refusal_of_openai_ends_the_run_with_an_error(answer, error, is_streamed):
    why, text, *refusal = answer
    fields = {"refusal": refusal[0]} if refusal else {}
    outcome, requests = run(
        "openai", is_streamed, openai(why, text, is_streamed=is_streamed, **fields)
    )
    assert outcome.ended == "error"
    assert error in outcome.error
    assert len(requests) == 1


def test_the_arguments_of_a_call_that_a_stream_cut_off_are_empty():
    call = {"type": "tool_use", "id": "t1", "name": "delete", "input": {}}
    half = {"type": "input_json_delta", "partial_json": '{"path": "/tm'}
    plan = events(
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_delta", "index": 0, "delta": half},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    )
    with serving(plan) as provider:
        reply = model(provider.url, "anthropic").complete(ASKED, on_text=lambda _: None)
    assert reply.is_cut_off
    assert [(each.name, dict(each.arguments)) for each in reply.message.calls] == [("delete", {})]


@streamed
def test_tokens_that_were_cached_are_counted(is_streamed):
    cached = {
        "input_tokens": 12,
        "cache_creation_input_tokens": 50,
        "cache_read_input_tokens": 900,
        "output_tokens": 5,
    }
    heard = (lambda _: None) if is_streamed else None
    for protocol, answer, counted in (
        ("anthropic", anthropic("end_turn", "x", usage=cached, is_streamed=is_streamed), 962),
        ("openai", openai("stop", "x", is_streamed=is_streamed), 9),
    ):
        with serving(answer) as provider:
            reply = model(provider.url, protocol).complete(ASKED, on_text=heard)
        assert reply.usage == TokenUsage(counted, 5)


def test_a_context_stays_in_its_budget_when_the_provider_caches_prompts():
    """The counts of replies correct later estimates: a count that is too low lets contexts grow."""
    budget, state, sizes = 2000, Versioned(), []

    def cached(body: dict[str, Any]) -> Any:
        sizes.append(estimate_tokens(json.dumps(body["messages"])))
        usage = {"input_tokens": 12, "cache_creation_input_tokens": 50, "output_tokens": 5}
        return anthropic("end_turn", "ok", usage=usage | {"cache_read_input_tokens": sizes[-1]})

    with serving(cached) as provider:
        agent = Agent(model(provider.url, "anthropic"), context_tokens=budget)
        for number in range(30):
            agent.run(f"question {number}: " + "some words to fill the room " * 25, state)
    assert budget / 2 < max(sizes) <= budget
