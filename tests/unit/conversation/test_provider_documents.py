"""What providers document is loaded and dumped without loss, and legal for the others."""

from __future__ import annotations

import pytest

import otolith
from otolith.conversation import (
    Attachment,
    Conversation,
    Extra,
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    read,
    write,
)
from otolith.conversation.context import ContextBuilder, ContextRules, MessageSource
from tests.unit.conversation.legality import faults
from tests.unit.conversation.provider_documents import (
    ANTHROPIC,
    CHAT,
    DOCUMENTS,
    PNG,
    RESPONSES,
)

PROVIDERS = ["openai", "responses", "anthropic", "plain"]


@pytest.fixture
def state():
    return otolith.open("memory:").session("s")


@pytest.fixture
def chat(state):
    return Conversation(state, clock=lambda: 7)


def sent(messages, provider, budget=1_000_000):
    return ContextBuilder(MessageSource.of(messages), ContextRules(budget, provider)).build()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_dumped_as_it_was_loaded(state, chat, name):
    chat.load(DOCUMENTS[name], name)
    state.commit()

    assert Conversation(state.at("@")).dump(name) == DOCUMENTS[name]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_sent_as_it_came_to_its_own_provider(chat, name):
    chat.load(DOCUMENTS[name], name)

    context = chat.context(1_000_000, name)

    assert faults(context.messages, name, context.system) == []
    assert context.why == ()
    if name in ("openai", "responses"):
        given = DOCUMENTS[name]["messages" if name == "openai" else "input"]
        assert context.messages == [_without_old_reasoning(message) for message in given]


def _without_old_reasoning(message):
    """Return a message of an earlier turn as it is sent to servers that give reasoning."""
    return {field: value for field, value in message.items() if field != "reasoning_content"}


def test_a_request_has_the_names_of_its_provider(chat):
    for name in ("openai", "responses", "anthropic"):
        other = chat.thread(name)
        other.load(DOCUMENTS[name], name)
        assert other.context(1_000_000, name).request.keys() == DOCUMENTS[name].keys()


@pytest.mark.parametrize("budget", [1_000_000, 6000, 2500, 900, 300])
@pytest.mark.parametrize("other", PROVIDERS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_legal_for_every_provider(chat, name, other, budget):
    chat.load(DOCUMENTS[name], name)

    context = chat.context(budget, other)

    assert faults(context.messages, other, context.system) == []
    assert context.tokens <= budget
    assert "Thanks" in str(context.messages[-1])


@pytest.mark.parametrize("name", ["openai", "responses", "anthropic"])
def test_bytes_are_kept_as_bytes_and_only_so(chat, name):
    chat.load(DOCUMENTS[name], name)
    files = [part for each in chat for part in each.parts if isinstance(part, Attachment)]

    assert b"\x89PNG picture" in [file.data for file in files]
    assert PNG not in str([each.meta for each in chat])


def test_what_a_model_would_not_do_is_told_to_the_others():
    assistant = Message(
        Role.ASSISTANT, (Extra("openai:refusal", {"type": "refusal", "refusal": "No."}),)
    )
    log = [Message(Role.USER, (Text("do it"),)), assistant, Message(Role.USER, (Text("please"),))]

    for provider in PROVIDERS:
        assert "No." in str(sent(log, provider).messages)


def test_a_text_file_is_a_document_of_anthropic_and_read_back_as_a_file():
    file = Attachment("text/plain", b"Gate 7", name="notes.txt")
    document = write([Message(Role.USER, (file,))], "anthropic")

    assert document["messages"][0]["content"] == [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Gate 7"},
            "title": "notes.txt",
        }
    ]
    assert read(document, "anthropic")[0].parts == (file,)


@pytest.mark.parametrize(
    "attachment",
    [
        Attachment("image/png", b"x", name="a.png"),
        Attachment("image/svg+xml", b"<svg/>"),
        Attachment("image/tiff", b"x"),
        Attachment("audio/mpeg", b"x"),
        Attachment("application/zip", b"x", name="a.zip"),
        Attachment("text/csv", b"a,b"),
        Attachment("text/plain", b"\xff"),
        Attachment("application/zip", url="https://example.org/a.zip"),
        Attachment("image/*", url="https://example.org/a"),
    ],
)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("role", [Role.SYSTEM, Role.USER, Role.ASSISTANT])
def test_an_attachment_is_sent_as_the_provider_takes_it_from_this_role(role, provider, attachment):
    log = [Message(Role.USER, (Text("see"),)), Message(role, (Text("this"), attachment))]

    context = sent([*log, Message(Role.USER, (Text("well?"),))], provider)

    assert faults(context.messages, provider, context.system) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_ids_and_names_are_made_such_as_the_provider_takes(provider):
    ids = ["x" * 100, "x" * 99 + "y", "a b/c", "x" * 100 + "z"]
    calls = tuple(ToolCall(id, "my tool.v2 " + "n" * 80) for id in ids)
    asked = Message(Role.USER, (Text("go"),), name="Ann <ann@example.org>")

    context = sent([asked, Message(Role.ASSISTANT, calls)], provider)

    assert faults(context.messages, provider) == []
    assert [each.done for each in context.why] == ["interrupted"]


# ---------------------------------------------------------------- OpenAI, chat


def test_calls_without_ids_are_kept_for_the_format_that_has_them():
    messages = read(CHAT, "openai")
    (called,) = [
        each
        for each in messages
        if any(isinstance(part, Extra) and "function_call" in part.type for part in each.parts)
    ]

    assert "function_call" in str(write([called], "openai"))
    assert write([called], "anthropic") == {"messages": []}


def test_what_a_server_calls_reasoning_is_kept_once():
    said = {"role": "assistant", "content": "4", "reasoning_content": "2 + 2"}
    (message,) = read([said], "openai")

    assert message.parts[0] == Reasoning("2 + 2", extra={"from": "reasoning_content"})
    assert message.meta == {}
    assert write([message], "openai")["messages"] == [said]
    assert "2 + 2" not in str(write([message], "anthropic"))


# ---------------------------------------------------------------- OpenAI, responses


@pytest.mark.parametrize(
    "document", [{"input": "hello"}, {"instructions": "be brief", "input": "hello"}]
)
def test_what_is_asked_may_be_a_text_alone(chat, document):
    chat.load(document, "responses")

    assert chat[-1].text == "hello"
    assert chat.dump("responses") == document
    chat.assistant("hi")
    assert [each["role"] for each in chat.dump("responses")["input"]] == ["user", "assistant"]
    assert faults(chat.context(100, "responses").messages, "responses") == []


def test_later_instructions_are_not_lost(chat):
    chat.load({"instructions": "be brief", "input": "hello"}, "responses")
    chat.load({"instructions": "be kind", "input": "and?"}, "responses")

    context = chat.context(1000, "responses")

    assert context.system == "be brief"
    assert {"type": "message", "role": "system", "content": "be kind"} in context.messages


def test_a_built_in_tool_has_its_item_for_arguments():
    calls = [call for each in read(RESPONSES, "responses") for call in each.calls]

    assert calls[1].arguments == {"input": "print(1)\n"}
    assert calls[2].arguments["action"] == {"type": "click", "button": "left", "x": 3, "y": 4}
    assert "id" not in calls[2].arguments


def test_a_tool_of_ones_own_is_answered_in_its_kind(chat):
    call = {"type": "custom_tool_call", "call_id": "a", "name": "run", "input": "1"}
    chat.load([{"role": "user", "content": "go"}, call, call | {"call_id": "b"}], "responses")
    chat.tool("a", "done")

    context = chat.context(1000, "responses")

    assert faults(context.messages, "responses") == []
    assert [each["type"] for each in context.messages[-2:]] == ["custom_tool_call_output"] * 2


def test_a_call_that_words_cannot_answer_is_left_out(chat):
    thought = {"type": "reasoning", "id": "rs", "summary": []}
    call = {"type": "computer_call", "id": "cu", "call_id": "a", "action": {"type": "wait"}}
    chat.load([{"role": "user", "content": "go"}, thought, call], "responses")

    context = chat.context(1000, "responses")

    assert [each.get("role") for each in context.messages] == ["user"]
    assert {each.done for each in context.why} == {"interrupted", "orphaned"}


def test_what_a_server_did_goes_with_the_reasoning_that_led_to_it():
    search = {"type": "web_search_call", "id": "ws", "action": {"query": "word " * 3000}}
    items = [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
        search,
        {"type": "message", "role": "assistant", "content": "found"},
        {"role": "user", "content": "thanks"},
    ]

    context = sent(read(items, "responses"), "responses", 900)

    assert [each.get("type", "message") for each in context.messages] == ["message"] * 3
    assert ("clamped", 1) in [(each.done, each.start) for each in context.why]


# ---------------------------------------------------------------- Anthropic


def test_what_a_server_found_goes_with_what_it_was_asked():
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [{"type": "web_search_result", "encrypted_content": "word " * 3000}],
    }
    asked = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "sealed"},
        asked,
        found,
        {"type": "text", "text": "It is 482."},
    ]
    document = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": "thanks"},
    ]

    context = sent(read(document, "anthropic"), "anthropic", 900)

    assert [block["type"] for block in context.messages[1]["content"]] == [
        "thinking",
        "redacted_thinking",
        "text",
    ]


def test_no_more_places_to_cache_are_sent_than_the_api_takes(chat):
    def said(role, at):
        text = {"type": "text", "text": f"{role} {at}", "cache_control": {"type": "ephemeral"}}
        return {"role": role, "content": [text]}

    chat.load({"system": ANTHROPIC["system"], "messages": []}, "anthropic")
    for at in range(5):
        chat.load([said("user", at), said("assistant", at)], "anthropic")

    context = chat.context(10_000, "anthropic")

    assert faults(context.messages, "anthropic", context.system) == []
    cached = [at for at, each in enumerate(context.messages) if "cache_control" in str(each)]
    assert cached == [7, 8, 9]


def test_a_reply_is_loaded_as_the_api_gave_it(chat):
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "hi", "citations": None}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    chat.user("hello")
    chat.load([reply], "anthropic")

    assert chat.dump("anthropic")["messages"][1] == reply
    assert faults(chat.context(1000, "anthropic").messages, "anthropic") == []


def test_ids_that_change_change_in_calls_and_results_alike(chat):
    """What stands beside a message from its provider has the old id."""
    for at in range(2):
        call = {"type": "tool_use", "id": "t.1", "name": "f", "input": {}, "cache_control": {}}
        result = {"type": "tool_result", "tool_use_id": "t.1", "content": [], "more": at}
        document = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        other = chat.thread(f"thread-{at}")
        other.user("go")
        other.load(document, "anthropic")
    log = [*chat.thread("thread-0"), *chat.thread("thread-1")]

    context = sent(log, "anthropic")

    assert faults(context.messages, "anthropic") == []


# ---------------------------------------------------------------- the checker itself

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
USED = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
USER = {"role": "user", "content": "x"}
ITEM = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "x"}


@pytest.mark.parametrize(
    ("provider", "messages"),
    [
        ("openai", [{"role": "tool", "tool_call_id": "a", "content": "x"}]),
        ("openai", [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}]),
        ("openai", [{"role": "assistant", "content": None, "tool_calls": []}]),
        ("openai", [{"role": "assistant", "content": "", "tool_calls": None}]),
        ("openai", [{"role": "user", "content": []}]),
        ("openai", [{"role": "user", "content": "x", "name": "a b"}]),
        ("openai", [{"role": "assistant", "content": [{"type": "image_url"}]}]),
        ("responses", [OUTPUT]),
        ("responses", [ITEM]),
        ("responses", [ITEM, OUTPUT, OUTPUT]),
        ("responses", [ITEM, OUTPUT | {"type": "custom_tool_call_output"}]),
        ("responses", [{"type": "reasoning", "id": "r", "summary": []}, USER]),
        ("responses", [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]),
        ("anthropic", [{"role": "assistant", "content": "x"}]),
        ("anthropic", [USER, USER]),
        ("anthropic", [USER, {"role": "assistant", "content": [USE]}]),
        ("anthropic", [USER, {"role": "assistant", "content": [USE]}, USER]),
        ("anthropic", [{"role": "user", "content": [USED]}]),
        ("anthropic", [{"role": "user", "content": [{"type": "text", "text": " "}]}]),
        ("anthropic", [{"role": "user", "content": "x", "id": "msg"}]),
        ("anthropic", [USER, {"role": "assistant", "content": "x "}]),
        ("anthropic", [{"role": "user", "content": [{"type": "image", "title": "x", "source":
                       {"type": "url", "url": "u"}}]}]),
        ("anthropic", [USER, {"role": "assistant", "content": [{"type": "thinking",
                       "thinking": "x", "signature": "s"}]}]),
        ("plain", [{"role": "user", "content": ""}]),
    ],
)  # fmt: skip
def test_what_a_provider_refuses_is_a_fault(provider, messages):
    assert faults(messages, provider) != []
