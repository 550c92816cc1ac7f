"""What makes no sense is refused before it is kept, and the thread is as it was."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

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
    Tokens,
    ToolCall,
    ToolResult,
)
from otolith.errors import BadMessage, BadValue, Invalid

HALF = "\ud800"


@pytest.fixture
def state():
    return otolith.open("memory:").session("s")


@pytest.fixture
def chat(state):
    times = count(1000)
    chat = Conversation(state, clock=lambda: next(times))
    chat.user("hello")
    chat.assistant(tool_calls=[ToolCall("open", "search", {})])
    return chat


def user(*parts: Any, **more: Any) -> Message:
    return Message(Role.USER, parts, **more)


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        7,
        user(Text(cast("str", 7))),
        user(Text(cast("str", b"x"))),
        user(Text("x"), time=-1),
        user(Text("x"), time=1.5),
        user(Text("x"), name=None),
        user(Text("x"), tokens=Tokens(-1, "me")),
        user(Text("x"), tokens=5),
        user(Attachment("image/png", cast("bytes", bytearray(b"x")))),
        user(Attachment("image/png", cast("bytes", "x"))),
        user(Attachment("image/png", b"x", name=cast("str", None))),
        user(Attachment("image/png", url="x", extra={".file": ["00", 1]})),
        Message(Role.ASSISTANT, (ToolCall(cast("str", 7), "f"),)),
        Message(Role.TOOL, (ToolResult("open", cast("str", 7)),)),
        Message(Role.TOOL, (ToolResult("open", (cast("Text", ToolCall("x", "f")),)),)),
    ],
)
def test_what_is_of_the_wrong_type_is_refused_and_the_thread_is_read_as_before(chat, message):
    with pytest.raises(BadMessage) as refused:
        chat.append(message)

    assert refused.value.problem == "wrong_type"
    assert refused.value.hint
    assert [each.text for each in chat] == ["hello", ""]


@pytest.mark.parametrize("parts", [5, None, "hello", Text("x"), (7,), [{"type": "text"}], (None,)])
def test_a_message_of_anything_but_parts_is_refused_when_it_is_made(parts):
    with pytest.raises(BadMessage, match="must be a tuple of parts") as refused:
        Message(Role.USER, parts)

    assert refused.value.problem == "wrong_type"
    assert "chat.user" in refused.value.hint


def test_a_role_may_be_named_and_parts_may_be_a_list(state, chat):
    chat.append(Message(cast("Role", "user"), cast("tuple[Text]", [Text("again")])))
    state.commit()

    assert Conversation(state.at("@"))[-1].text == "again"
    with pytest.raises(BadValue):
        Message(cast("Role", "boss"), ())


@pytest.mark.parametrize(
    "message",
    [
        user(Attachment("", b"x")),
        Message(Role.ASSISTANT, (ToolCall("c1", ""),)),
        Message(Role.ASSISTANT, (Extra("", None),)),
        Message(Role.ASSISTANT, (Reasoning(""), Text("x"))),
        Message(Role.TOOL, (ToolResult("open", ()),)),
        Message(Role.TOOL, (ToolResult("open", (Text(""), Attachment("", url="u"))),)),
    ],
)
def test_what_is_empty_is_read_as_empty(state, chat, message):
    chat.append(message)
    state.commit()

    assert Conversation(state.at("@"))[-1].parts == message.parts


@pytest.mark.parametrize("arguments", [[1], 7, {1: 2}, {"a": {1}}, {"a": b"x"}, {"a": object()}])
def test_arguments_are_plain_data(arguments):
    with pytest.raises(BadValue):
        ToolCall("c1", "f", arguments)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_know_is_no_argument(number):
    with pytest.raises(BadValue):
        ToolCall("c1", "f", {"x": number})
    with pytest.raises(BadValue):
        user(Text("x"), meta={"x": [number]})


def test_data_is_not_nested_for_ever(chat):
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(BadValue):
        ToolCall("c1", "f", {"x": deep})
    with pytest.raises(BadMessage):
        chat.tool("open", deep)
    with pytest.raises(BadValue):
        chat.load([{"role": "user", "content": "x", "more": deep}], "openai")
    assert len(chat) == 2


def test_an_attachment_is_bytes_or_where_they_are(chat):
    with pytest.raises(BadMessage) as refused:
        chat.user(Attachment("image/png"))

    assert refused.value.problem == "empty"


# ---------------------------------------------------------------- half a character


@pytest.mark.parametrize(
    "message",
    [
        user(Text(HALF)),
        user(Text("x"), name=HALF),
        user(Text("x"), meta={"a": [HALF]}),
        user(Text("x"), meta={HALF: 1}),
        user(Attachment("image/png", b"x", name=HALF)),
        user(Attachment("image/png", url=HALF)),
        Message(Role.ASSISTANT, (Reasoning(HALF),)),
        Message(Role.ASSISTANT, (Reasoning("x", HALF),)),
        Message(Role.ASSISTANT, (ToolCall(HALF, "f"),)),
        Message(Role.ASSISTANT, (ToolCall("c1", HALF),)),
        Message(Role.ASSISTANT, (ToolCall("c1", "f", {HALF: 1}),)),
        Message(Role.ASSISTANT, (ToolCall("c1", "f", raw=HALF),)),
        Message(Role.ASSISTANT, (Extra("x", [HALF]),)),
        Message(Role.TOOL, (ToolResult("open", HALF),)),
        Message(Role.TOOL, (ToolResult("open", (Text(HALF),)),)),
    ],
)
def test_half_a_character_is_refused_wherever_it_is(chat, message):
    with pytest.raises(BadMessage) as refused:
        chat.append(message)

    assert refused.value.problem == "not_text"
    assert len(chat) == 2


def test_a_summary_is_text(chat):
    with pytest.raises(BadMessage):
        chat.summarise(summariser=lambda messages, before: HALF)
    chat.extend(user(Text("word " * 60)) for _ in range(20))

    context = chat.context(400, summariser=lambda messages, before: HALF)

    assert context.summary == ""
    assert any("half a character" in each.why for each in context.why)


# ---------------------------------------------------------------- threads and numbers


@pytest.mark.parametrize(
    "name", ["", " ", "a/b", ".tables", "..", "a\nb", "a\0b", HALF, "x" * 10_000, 7, None]
)
def test_some_names_are_not_for_threads(state, chat, name):
    for verb in (chat.thread, chat.create, lambda name: chat.fork(0, name)):
        if name is not None or verb in (chat.thread, chat.create):
            with pytest.raises(Invalid):
                verb(name)
    assert list(chat.threads()) == ["main"]


@pytest.mark.parametrize("name", ["u-7f3a", "Ann's trip", "日本", "a.b@c:d", "x" * 200])
def test_other_names_are(state, chat, name):
    chat.create(name).user("hello")
    state.commit()

    assert Conversation(state.at("@"), thread=name)[0].text == "hello"
    assert name in chat.threads()


@pytest.mark.parametrize("meta", [{"x": object()}, {"x": float("nan")}, {"x": HALF}, {1: 2}])
def test_what_is_said_about_a_thread_is_plain_data(chat, meta):
    with pytest.raises(Invalid):
        chat.create("other", meta=meta)
    assert list(chat.threads()) == ["main"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget": None},
        {"budget": "8k"},
        {"budget": 10.5},
        {"budget": True},
        {"tools_tokens": -1},
        {"keep_results": -1},
        {"slack": 1},
        {"slack": -0.1},
    ],
)
def test_a_context_is_made_by_numbers(chat, wrong):
    with pytest.raises(Invalid):
        chat.context(**{"budget": 100} | wrong)


@pytest.mark.parametrize("wrong", [-1, 1.5, None])
def test_what_a_provider_counted_is_a_count(chat, wrong):
    with pytest.raises(Invalid):
        chat.usage(input_tokens=wrong)


@pytest.mark.parametrize(
    "verb",
    [
        lambda chat: chat.summarise(99),
        lambda chat: chat.summarise(-99),
        lambda chat: chat.pin(99),
        lambda chat: chat.edit(99, "x"),
        lambda chat: chat[99],
    ],
)
def test_a_message_that_is_not_there_is_an_index_error(chat, verb):
    with pytest.raises(IndexError, match="among 2"):
        verb(chat)


@pytest.mark.parametrize(
    "verb",
    [
        lambda chat: chat.search("hotel", k="3"),
        lambda chat: chat.search("hotel", k=-1),
        lambda chat: chat.search("hotel", k=True),
        lambda chat: chat.resolve(None),
        lambda chat: chat.resolve(b"it", at=0),
        lambda chat: chat.resolve("it", at="0"),
        lambda chat: chat.resolve("it", judge=lambda *_: [5]),
        lambda chat: chat.resolve("it", judge=lambda *_: [-1]),
        lambda chat: chat.resolve("it", judge=lambda *_: 0),
        lambda chat: chat.resolve("it", judge=lambda *_: "0"),
        lambda chat: chat.resolve("it", judge=lambda *_: [None]),
    ],
)
def test_what_is_no_question_is_refused_with_a_hint(chat, verb):
    chat.user("Find a hotel")

    with pytest.raises(BadValue) as refused:
        verb(chat)
    assert refused.value.hint


def test_nothing_at_all_is_a_conversation_too(state):
    chat = Conversation(state, clock=lambda: 1)

    assert (len(chat), list(chat), chat.tokens, len(chat.turns)) == (0, [], 0, 0)
    assert [*chat.search("x"), *chat.topics(), *chat.extend([]), *chat.load([], "openai")] == []
    assert chat.context(100, "anthropic").messages == []
    assert chat.dump("openai") == {"messages": []}
    assert (chat.threads(), repr(chat)) == ({}, "<Conversation main, 0 messages>")
