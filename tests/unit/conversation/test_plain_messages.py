"""Message dicts as providers write them: the format is recognised, or the message is refused."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import otolith
from otolith.conversation import (
    Attachment,
    Conversation,
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from otolith.conversation.formats.recognition import format_of
from otolith.errors import BadMessage

CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
USE = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
PICTURE = "iVBORw0KGgo="
CHAT_PICTURE = {"type": "image_url", "image_url": {"url": "https://x.y/a.png", "detail": "low"}}
PNG = {"type": "base64", "media_type": "image/png", "data": PICTURE}

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "developer", "content": "Use tools."},
    {"role": "user", "content": [{"type": "text", "text": "look"}, CHAT_PICTURE]},
    {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "2"},
    {"role": "assistant", "content": "It is 2."},
]
ANTHROPIC = [
    {"role": "user", "content": "look"},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, USE],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "2", "is_error": True},
            {"type": "text", "text": "and this?", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": PNG},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "It is 2."}]},
]
RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "look"}]},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "2"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is 2.", "annotations": []}],
    },
]


@pytest.fixture
def chat():
    times = count(1000)
    return Conversation(otolith.open("memory:").session("s"), clock=lambda: next(times))


@pytest.mark.parametrize(
    ("messages", "format"),
    [(CHAT, "openai"), (ANTHROPIC, "anthropic"), (RESPONSES, "responses")],
    ids=["openai", "anthropic", "responses"],
)
def test_the_messages_of_a_provider_are_added_and_given_back(chat, messages, format):
    chat.extend(messages)
    loaded = chat.thread("loaded")
    loaded.load(messages, format)

    assert chat.dump(format) == loaded.dump(format)
    assert [each.parts for each in chat] == [each.parts for each in loaded]


def test_messages_of_two_providers_and_our_own_are_one_conversation(chat):
    chat.append(Message(Role.USER, (Text("look"),)))
    chat.append(CHAT[3])
    chat.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]})
    chat.extend([Message(Role.USER, (Text("and?"),)), {"role": "assistant", "content": "done"}])

    assert [each.role for each in chat] == ["user", "assistant", "tool", "user", "assistant"]
    assert chat[2].results[0].call_id == chat[1].calls[0].id


def test_content_and_calls_may_be_dicts(chat):
    cached = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    chat.system_prompt = [cached]
    chat.user(["look", CHAT_PICTURE], name="ann")
    chat.assistant("calling", tool_calls=[CHAT_CALL], reasoning="hm")
    chat.user({"type": "tool_result", "tool_use_id": "c1", "content": "2"})
    chat.assistant([{"type": "text", "text": "again"}], tool_calls=[USE | {"id": "c2"}])
    chat.user({"role": "user", "content": "whole"})

    assert chat[1].name == "ann"
    assert chat[1].parts == (Text("look"), Attachment("image/*", url="https://x.y/a.png"))
    assert chat.dump("openai")["messages"][1]["content"][1] == CHAT_PICTURE  # with its detail
    assert chat[2].parts == (Reasoning("hm"), Text("calling"), ToolCall("c1", "f", {"a": 1}))
    assert chat[3].parts == (ToolResult("c1", "2"),)
    assert chat[4].parts == (Text("again"), ToolCall("c2", "f", {"a": 1}))
    assert (chat[5].role, chat[5].text) == (Role.USER, "whole")
    assert chat.dump("anthropic")["system"] == [cached]


def test_an_answer_of_anthropic_is_its_role_and_its_content(chat):
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    assert chat.append(answer).text == "Hi"
    assert not chat[0].meta.get(".as responses")


@pytest.mark.parametrize(
    ("message", "format"),
    [
        ({"role": "user", "content": "x"}, "openai"),
        ({"role": "assistant", "content": [{"type": "text", "text": "x"}]}, "openai"),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "x"}]}, "openai"),
        ({"role": "user", "content": [{"type": "video_url", "video_url": {"url": "x"}}]}, "openai"),
        ({"role": "user", "content": [{"type": "document", "source": {}}]}, "anthropic"),
        ({"role": "assistant", "content": [{"type": "web_search_tool_result"}]}, "anthropic"),
        ({"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}, "responses"),
        ({"type": "web_search_call", "id": "ws_1", "status": "completed"}, "responses"),
        ({"type": "message", "role": "developer", "content": "x"}, "responses"),
    ],
)
def test_a_format_is_told_by_what_only_it_has(message, format):
    assert format_of(message) == format


@pytest.mark.parametrize(
    ("message", "problem", "said"),
    [
        ({"content": "x"}, "wrong_type", "role of a message must be one of"),
        ({"role": "bot", "content": "x"}, "wrong_type", "got 'bot'"),
        ({"role": "user", "contents": "x"}, "wrong_type", "got the keys role, contents"),
        ({"role": "user", "parts": [{"text": "x"}]}, "wrong_type", "must have content"),
        ({"role": "user", "content": 5}, "wrong_type", "content must be a text or a list"),
        ({"role": "user", "content": ["x"]}, "wrong_type", "block of content must be a dict"),
        ({"role": "user", "content": [{"text": "x"}]}, "wrong_type", "type of a block"),
        ({"role": "user", "content": [{"type": "hologram"}]}, "ambiguous", "'hologram'"),
        ({"type": "text", "text": "x"}, "wrong_type", "type of content"),
        ({"role": "user", "content": ""}, "empty", "is empty"),
        ({}, "wrong_type", "keys: none"),
        (5, "wrong_type", "got int 5"),
        (
            {"role": "assistant", "content": [USE], "tool_calls": [CHAT_CALL]},
            "ambiguous",
            "tool_calls (openai), tool_use (anthropic)",
        ),
        ({"role": "assistant", "tool_calls": [{"id": "c1"}]}, "wrong_type", "taken for"),
    ],
)
def test_what_is_ambiguous_or_wrong_is_refused_with_a_reason(chat, message: Any, problem, said):
    with pytest.raises(BadMessage) as refused:
        chat.append(message)

    assert refused.value.problem == problem
    assert said in str(refused.value)
    assert refused.value.hint
    assert len(chat) == 0


def test_a_message_of_another_role_is_refused(chat):
    with pytest.raises(BadMessage, match="must be of the user, got one of the assistant"):
        chat.user({"role": "assistant", "content": "x"})


def test_parts_and_dicts_are_not_mixed(chat):
    with pytest.raises(BadMessage) as refused:
        chat.user([Text("look"), CHAT_PICTURE])
    assert refused.value.problem == "wrong_type"


def test_one_wrong_dict_adds_none_of_a_batch(chat):
    with pytest.raises(BadMessage):
        chat.extend([{"role": "user", "content": "x"}, {"role": "user"}])
    assert len(chat) == 0
