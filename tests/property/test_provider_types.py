"""The types that OpenAI and Anthropic publish: what they allow is given back, what we send fits."""

from __future__ import annotations

import json
from typing import Any

import pytest

import otolith
from otolith.agent import AnthropicModel, OpenAIModel, Tool
from otolith.conversation import Conversation, Message, Role, Text, read, write
from otolith.errors import BadMessage, OverBudget
from tests.unit.agent.provider import serving
from tests.unit.conversation.provider_types import (
    MESSAGES,
    Samples,
    anthropic_types,
    chat_types,
    documents,
    refusals,
    response_types,
)

FORMATS = list(MESSAGES)
QUESTION = Message(Role.USER, (Text("and now?"),))
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@pytest.mark.parametrize("format", FORMATS)
def test_documents_of_the_published_types_are_given_back(format, rounds):
    for seed in range(rounds(150, 3_000)):
        document = documents(seed, format, is_linked=False)
        assert write(read(document, format), format) == document, seed


@pytest.mark.parametrize("format", FORMATS)
def test_contexts_of_any_document_are_of_the_published_types(format, rounds):
    for seed in range(rounds(50, 1_500)):
        chat = otolith.open("memory:").session("s").conversation
        try:
            chat.load(documents(seed, format, is_linked=True), format)
        except BadMessage as error:
            assert error.problem == "misplaced"  # noqa: PT017 - the types let a user call tools
            continue
        chat.user("and now?")
        for for_ in MESSAGES:
            for budget in (100_000, 60 + 40 * (seed % 20)):
                check_context(chat, budget, for_, seed)


def check_context(chat: Conversation, budget: int, for_: str, seed: int) -> None:
    try:
        context = chat.context(budget, for_)
    except OverBudget:
        return
    for message in context.messages:
        assert refusals(message, MESSAGES[for_]) == [], (seed, for_, budget, message)


# ---------------------------------------------------------------- requests


REQUESTS = {
    "openai": (
        "openai.types.chat.completion_create_params",
        "CompletionCreateParamsNonStreaming",
        "CompletionCreateParamsStreaming",
    ),
    "anthropic": (
        "anthropic.types.message_create_params",
        "MessageCreateParamsNonStreaming",
        "MessageCreateParamsStreaming",
    ),
}


def lookup(city: str, days: int = 1, deep: dict[str, list[float]] | None = None) -> str:
    """Look up the weather."""
    return city


def model(format: str, url: str, **options: Any) -> Any:
    if format == "openai":
        return OpenAIModel(f"{url}/v1", "m", retries=0, options=options)
    return AnthropicModel("m", base_url=url, retries=0, options=options)


@pytest.mark.parametrize("format", list(REQUESTS))
def test_every_request_is_of_the_published_type(format, rounds):
    module, *names = REQUESTS[format]
    whole, streamed = (getattr(pytest.importorskip(module), name) for name in names)
    own = {"type": "function", "function": {"name": "own"}} if format == "openai" else WEB_SEARCH
    with serving({"text": "ok"}) as provider:
        asked = model(format, provider.url, temperature=0.5, tools=[own])
        for seed in range(rounds(40, 1_000)):
            given = FORMATS[seed % len(FORMATS)]
            messages = read(documents(seed, given, is_linked=True), given)
            messages = [each for each in messages if each.role is Role.ASSISTANT or not each.calls]
            for on_text, hint in ((None, whole), (lambda _: None, streamed)):
                asked.complete([*messages, QUESTION], tools=[Tool(lookup)], on_text=on_text)
                body = provider.requests.pop()
                assert refusals(body, hint) == [], (seed, given, body)
                assert len(body["tools"]) == 2


# ---------------------------------------------------------------- streams


def test_a_streamed_answer_of_anthropic_is_the_whole_one(rounds):
    event_type = anthropic_types.RawMessageStreamEvent
    for seed in range(rounds(60, 2_000)):
        answer = anthropic_answer(Samples(seed))
        events = list(anthropic_events(answer))
        for event in events:
            assert refusals(event, event_type) == [], event
        check_streamed("anthropic", answer, events, seed)


def test_a_streamed_answer_of_openai_is_the_whole_one(rounds):
    for seed in range(rounds(60, 2_000)):
        answer = openai_answer(Samples(seed))
        assert refusals(answer, chat_types.ChatCompletion) == []
        events = list(openai_events(answer))
        for event in events:
            assert refusals(event, chat_types.ChatCompletionChunk) == [], event
        check_streamed("openai", answer, events, seed)


def check_streamed(format: str, answer: Any, events: list[Any], seed: int) -> None:
    lines = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events)
    with serving({"raw": json.dumps(answer).encode()}, {"raw": lines}) as provider:
        asked = model(format, provider.url)
        whole = asked.complete([QUESTION])
        heard: list[str] = []
        assert asked.complete([QUESTION], on_text=heard.append) == whole, seed
    assert "".join(heard) == "".join(
        part.text for part in whole.message.parts if isinstance(part, Text)
    )


def anthropic_answer(samples: Samples) -> dict[str, Any]:
    """Return an answer with blocks of every kind that a stream builds up."""
    pick = samples.random
    made: list[dict[str, Any]] = []
    for at in range(pick.randrange(1, 5)):
        kind = pick.choice(("text", "cited", "thinking", "tool_use", "server_tool_use"))
        if kind in ("text", "cited"):
            block: dict[str, Any] = {"type": "text", "text": "Grass is green. ", "citations": None}
            if kind == "cited":
                cited = anthropic_types.CitationCharLocationParam
                block["citations"] = [samples.value(cited) | {"file_id": None} for _ in range(2)]
        elif kind == "thinking":
            block = {"type": "thinking", "thinking": "hm, well", "signature": "sig=="}
        else:
            name = "web_search" if kind == "server_tool_use" else "f"
            block = {"type": kind, "id": f"t{at}", "name": name, "input": {"q": ["ü", at]}}
        made.append(block)
    made.append({"type": "text", "text": "Done.", "citations": None})
    usage = {
        "input_tokens": 3,
        "output_tokens": 9,
        "cache_read_input_tokens": pick.choice((None, 70)),
        "cache_creation_input_tokens": pick.choice((None, 5)),
    }
    stop_reason = pick.choice(("end_turn", "tool_use", "max_tokens", "pause_turn", "refusal"))
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": made,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def anthropic_events(answer: dict[str, Any]) -> Any:
    usage = answer["usage"] | {"output_tokens": 1}
    head = {**answer, "content": [], "stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": head}
    for at, block in enumerate(answer["content"]):
        empty = {
            "text": {"text": "", "citations": None},
            "thinking": {"thinking": "", "signature": ""},
        }.get(block["type"], {"input": {}})
        yield {"type": "content_block_start", "index": at, "content_block": block | empty}
        for delta in anthropic_deltas(block):
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}
    yield {"type": "message_stop"}


def anthropic_deltas(block: dict[str, Any]) -> Any:
    for half in halves(block.get("text", "")):
        yield {"type": "text_delta", "text": half}
    for citation in block.get("citations") or ():
        yield {"type": "citations_delta", "citation": citation}
    for half in halves(block.get("thinking", "")):
        yield {"type": "thinking_delta", "thinking": half}
    if "signature" in block:
        yield {"type": "signature_delta", "signature": block["signature"]}
    for half in halves(json.dumps(block["input"]) if "input" in block else ""):
        yield {"type": "input_json_delta", "partial_json": half}


def halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]] if text else []


def openai_answer(samples: Samples) -> dict[str, Any]:
    pick = samples.random
    call = {"type": "function", "function": {"name": "f", "arguments": '{"q": ["ü"]}'}}
    calls = [{"id": f"c{at}"} | call for at in range(pick.randrange(3))]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": pick.choice((None, "Grass is green.", "ü")),
        "refusal": pick.choice((None, None, "I will not.")),
    }
    if calls:
        message["tool_calls"] = calls
    if message["refusal"]:
        message["content"] = None
    elif not calls:
        message["content"] = "Done."
    reason = pick.choice(("stop", "length", "tool_calls", "content_filter"))
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    choice = {"index": 0, "finish_reason": reason, "logprobs": None, "message": message}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return head | {"choices": [choice], "usage": usage}


def openai_events(answer: dict[str, Any]) -> Any:
    head = {name: answer[name] for name in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    (choice,) = answer["choices"]
    message = choice["message"]

    def chunk(delta: dict[str, Any], why: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": why}]}

    yield chunk({"role": "assistant", "content": None})
    for name in ("content", "refusal"):
        for half in halves(message[name] or ""):
            yield chunk({name: half})
    for at, call in enumerate(message.get("tool_calls", ())):
        function = call["function"] | {"arguments": ""}
        yield chunk({"tool_calls": [call | {"index": at, "function": function}]})
        for half in halves(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": half}}]})
    yield chunk({}, choice["finish_reason"])
    yield head | {"choices": [], "usage": answer["usage"]}


# ---------------------------------------------------------------- objects of the packages


def test_the_objects_of_the_packages_are_messages_too():
    chat = otolith.open("memory:").session("s").conversation
    for seed in range(20):
        answer = openai_answer(Samples(seed))["choices"][0]["message"]
        for at, call in enumerate(answer.get("tool_calls", ())):
            call["id"] = f"{seed}-{at}"
        chat.append(chat_types.ChatCompletionMessage.model_validate(answer))
        assert [call.id for call in chat[-1].calls] == [
            call["id"] for call in answer.get("tool_calls", ())
        ]
    block = {"type": "text", "text": "Hi", "citations": None}
    answer = anthropic_answer(Samples(1)) | {"content": [block]}
    assert chat.append(anthropic_types.Message.model_validate(answer)).text == "Hi"
    item = response_types.ResponseFunctionToolCall.model_validate(
        {"type": "function_call", "call_id": "r1", "name": "f", "arguments": "{}"}
    )
    assert chat.append(item).calls[0].id == "r1"
