"""What one provider cannot be sent is put into words or left out, and a context says so."""

from __future__ import annotations

import json

import pytest

import otolith
from otolith.conversation import (
    Attachment,
    Conversation,
    Extra,
    Message,
    Role,
    Text,
    ToolCall,
    ToolResult,
    read,
    write,
)
from tests.unit.conversation.legality import faults

PROVIDERS = ["openai", "responses", "anthropic"]
ASKED = {"type": "mcp_approval_request", "id": "m1", "name": "rm", "arguments": "{}"}
ASKED |= {"server_label": "shell"}
GIVEN = {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": True}


@pytest.fixture
def chat():
    return Conversation(otolith.open("memory:").session("s"), clock=lambda: 1)


def whys(context):
    return [(each.start, each.done, each.why) for each in context.why]


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("media", ["application/zip", "video/mp4", "image/svg+xml"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_of_a_kind_that_nobody_takes_is_named(chat, media, provider):
    chat.user([Text("see"), Attachment(media, b"data", name="a.bin")])

    context = chat.context(10_000, provider)

    assert faults(context.messages, provider) == []
    assert f"[{media}: a.bin]" in str(context.messages)
    why = f"for {provider}, [{media}: a.bin] is only named"
    assert whys(context) == [(0, "foreign", why)]


def test_a_sound_is_for_chat_and_is_named_elsewhere(chat):
    chat.user([Text("hear"), Attachment("audio/wav", b"RIFF", name="a.wav")])

    assert "input_audio" in str(chat.context(10_000, "openai").messages)
    assert "[audio/wav: a.wav]" in str(chat.context(10_000, "responses").messages)


def test_what_is_named_in_a_request_is_dumped_as_it_came(chat):
    file = {"file_data": "data:application/zip;base64,UEs=", "filename": "a.zip"}
    document = {"messages": [{"role": "user", "content": [{"type": "file", "file": file}]}]}
    chat.load(document, "openai")

    assert "[application/zip: a.zip]" in str(chat.context(1_000, "openai").messages)
    assert chat.dump("openai") == document


def test_a_picture_that_a_tool_gave_is_only_named_for_chat(chat):
    chat.assistant(tool_calls=[ToolCall("c1", "draw")])
    chat.tool("c1", [Text("done"), Attachment("image/png", b"PNG", name="a.png")])

    assert whys(chat.context(10_000, "anthropic")) == []
    (why,) = whys(chat.context(10_000, "openai"))
    assert why == (1, "foreign", "for openai, [image/png: a.png] is only named")


def test_the_address_of_a_document_goes_from_one_provider_to_the_other():
    url = "https://x/a.pdf"
    item = {"role": "user", "content": [{"type": "input_file", "file_url": url}]}
    block = {"type": "document", "source": {"type": "url", "url": url}}

    ours = read({"input": [item]}, "responses")
    theirs = read([{"role": "user", "content": [block]}], "anthropic")

    assert write(ours, "responses") == {"input": [item]}
    assert write(ours, "anthropic")["messages"][0]["content"] == [block]
    assert write(theirs, "responses")["input"][0]["content"] == item["content"]


# ---------------------------------------------------------------- parts of one provider


def test_a_document_of_words_is_said_in_words(chat):
    source = {"type": "content", "content": [{"type": "text", "text": "Gate 7 is closed."}]}
    block = {"type": "document", "source": source}
    chat.load([{"role": "user", "content": [block, {"type": "text", "text": "?"}]}], "anthropic")

    context = chat.context(1_000, "openai")

    assert "Gate 7 is closed." in str(context.messages)
    assert whys(context) == [(0, "foreign", "for openai, anthropic:document is said in words")]


def test_what_was_found_is_said_in_words(chat):
    content = [{"type": "text", "text": "Gate 7 is closed."}]
    found = {"type": "search_result", "source": "https://x", "title": "Gates", "content": content}
    chat.load([{"role": "user", "content": [found]}], "anthropic")

    assert "Gate 7 is closed." in str(chat.context(1_000, "openai").messages)


def test_a_speaker_has_a_name_that_is_taken(chat):
    document = {"messages": [{"role": "user", "content": "hi", "name": "Ann Lee"}]}
    chat.load(document, "openai")

    assert chat.context(1_000, "openai").messages[0]["name"] == "Ann_Lee"
    assert chat.dump("openai") == document


def test_what_cannot_be_said_at_all_is_told(chat):
    chat.user([Text("see"), Extra("anthropic:container_upload", {"file_id": "f1"})])

    context = chat.context(1_000, "openai")

    why = "for openai, anthropic:container_upload is left out"
    assert whys(context) == [(0, "foreign", why)]


def test_a_tool_of_words_is_one_for_responses_too(chat):
    called = ToolCall("c1", "run", raw="print(1)", extra={"type": "custom"})
    chat.user("run it")
    chat.assistant(tool_calls=[called])
    chat.tool("c1", "1")

    messages = chat.context(1_000, "responses").messages

    call, result = messages[1:]
    assert (call["type"], call["input"]) == ("custom_tool_call", "print(1)")
    assert result["type"] == "custom_tool_call_output"
    assert faults(messages, "responses") == []


def test_a_file_that_is_not_taken_is_named_in_what_a_tool_of_words_gave(chat):
    chat.user("pack it")
    chat.assistant(tool_calls=[ToolCall("c1", "run", raw="zip", extra={"type": "custom"})])
    chat.tool("c1", [Text("done"), Attachment("application/zip", b"PK", name="a.zip")])

    context = chat.context(1_000, "responses")

    assert faults(context.messages, "responses") == []
    assert "a.zip" in str(context.messages[-1])
    assert [done for _, done, _ in whys(context)] == ["foreign"]


# ---------------------------------------------------------------- approvals, and a local shell


def test_leave_is_given_to_what_asked_for_it_or_not_at_all(chat):
    chat.load({"input": [{"role": "user", "content": "clean up"}, ASKED, GIVEN]}, "responses")
    for number in range(20):
        chat.user(f"question {number} " * 20)
        chat.assistant("answer " * 20)

    for budget in range(200, 4_000, 200):
        context = chat.context(budget, "responses")
        assert faults(context.messages, "responses") == []
    assert "mcp_approval_response" in str(chat.context(10_000, "responses").messages)


def test_leave_is_no_turn_of_the_user(chat):
    chat.load({"input": [{"role": "user", "content": "clean up"}, ASKED, GIVEN]}, "responses")

    assert [each.role for each in chat] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    assert chat.turns[-1].user.text == "clean up"
    assert chat.dump("responses")["input"][1:] == [ASKED, GIVEN]


def test_the_output_of_a_local_shell_names_its_call_by_id(chat):
    action = {"type": "exec", "command": ["ls"], "env": {}}
    call = {"type": "local_shell_call", "id": "ls_1", "call_id": "c1", "action": action}
    output = {"type": "local_shell_call_output", "id": "c1", "output": json.dumps({"out": "a"})}
    document = {"input": [{"role": "user", "content": "list"}, call, output]}

    chat.load(document, "responses")

    assert chat[2].results[0].call_id == "c1"
    assert chat.dump("responses") == document
    assert faults(chat.context(1_000, "responses").messages, "responses") == []


def test_what_was_kept_as_the_users_is_paired_as_well(chat):
    chat.append(Message(Role.ASSISTANT, (Extra("responses:mcp_approval_request", ASKED),)))
    chat.append(Message(Role.USER, (Extra("responses:mcp_approval_response", GIVEN),)))
    chat.append(Message(Role.USER, (Extra("responses:mcp_approval_response", GIVEN), Text("so?"))))

    context = chat.context(1_000, "responses")

    assert faults(context.messages, "responses") == []
    assert whys(context) == [(2, "orphaned", "its call was answered before")]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_result_of_files_is_legal_everywhere(chat, provider):
    parts = (Text("two"), Attachment("application/zip", b"PK"), Attachment("text/plain", b"hi"))
    chat.assistant(tool_calls=[ToolCall("c1", "pack")])
    chat.append(Message(Role.TOOL, (ToolResult("c1", parts, is_error=True),)))

    assert faults(chat.context(1_000, provider).messages, provider) == []


def test_reasoning_content_goes_back_with_the_calls_of_its_own_turn_only(chat):
    """DeepSeek R1 refuses that of earlier turns; its successors want that of the calls."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "1", "reasoning_content": "first thought"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    chat.load(said, "openai")

    sent = chat.context(10_000, "openai").messages

    assert sent == [said[0], {"role": "assistant", "content": "1"}, *said[2:]]
    assert chat.dump("openai")["messages"] == said
