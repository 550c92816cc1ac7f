"""Documents become messages that mean the same, and other documents as far as these can."""

from __future__ import annotations

import base64

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
    read,
    write,
)
from otolith.conversation.context import ContextBuilder, ContextRules, MessageSource
from otolith.conversation.token_counts import ESTIMATED
from otolith.errors import BadMessage, BadValue, Invalid
from tests.unit.conversation.legality import faults

PNG = base64.b64encode(b"\x89PNG").decode()
CALL = ToolCall("c1", "search", {"to": "NYC"})
TALK = [
    Message(Role.SYSTEM, (Text("be brief"),)),
    Message(Role.USER, (Text("see"), Attachment("image/png", b"\x89PNG"))),
    Message(Role.ASSISTANT, (Reasoning("hm", "sig"), Text("ok"), CALL, ToolCall("c2", "f"))),
    Message(Role.TOOL, (ToolResult("c1", "found"),)),
    Message(Role.TOOL, (ToolResult("c2", "broken", is_error=True),)),
]


@pytest.fixture
def chat():
    return otolith.open("memory:").session("s").conversation


def test_a_chat_is_written_as_openai_has_it():
    assert write(TALK, "openai")["messages"] == [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "search", "arguments": '{"to":"NYC"}'},
                },
                {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: broken"},
    ]


def test_a_chat_is_written_as_anthropic_has_it():
    written = write(TALK, "anthropic")

    assert written["system"] == "be brief"
    assert written["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "ok"},
        {"type": "tool_use", "id": "c1", "name": "search", "input": {"to": "NYC"}},
        {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
    ]
    broken = {"type": "tool_result", "tool_use_id": "c2", "content": "broken", "is_error": True}
    assert written["messages"][3]["content"] == [broken]


def test_calls_in_a_row_are_items_of_responses_and_one_message_here():
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": '{"x": 1}'},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
    ]

    assistant, tool = read(items, "responses")

    assert [call.id for call in assistant.calls] == ["a", "b"]
    assert assistant.calls[1].arguments == {"x": 1}
    assert tool.results[0].call_id == "a"
    assert write([assistant, tool], "responses") == {"input": items}


def test_a_transcript_is_read_by_its_speakers():
    text = "system: be brief\nUser: one\nand more\n\\user: quoted\nAI: two\n"

    said = [(str(each.role), each.text) for each in read(text, "plain")]

    assert said == [
        ("system", "be brief"),
        ("user", "one\nand more\nuser: quoted"),
        ("assistant", "two"),
    ]


def test_arguments_keep_the_order_they_came_in():
    given = '{"b":1,"a":2}'
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": given}}
    document = {"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    state = otolith.open("memory:").session("s")
    chat = Conversation(state, clock=lambda: 1)
    chat.load(document, "openai")
    state.commit()

    assert Conversation(state.at("@")).dump("openai") == document
    assert chat[0].calls[0].arguments == {"a": 2, "b": 1}


def test_arguments_are_kept_and_counted_once():
    text = '{"path": "a.py", "text": "' + "some words here " * 50 + '"}'
    call = {"id": "c", "type": "function", "function": {"name": "write", "arguments": text}}
    (message,) = read([{"role": "assistant", "content": None, "tool_calls": [call]}], "openai")

    assert message.calls[0].arguments["path"] == "a.py"
    assert message.meta == {}
    assert str(message.to_data()).count("some words") == 50
    assert Message.from_data(message.to_data()) == message
    assert ESTIMATED.message(message) < 1.1 * ESTIMATED.count(text) + 20
    (block,) = write([message], "anthropic")["messages"][0]["content"]
    assert block["input"]["path"] == "a.py"


def test_huge_arguments_are_clamped_however_they_came():
    text = '{"path": "a.py", "text": "' + "some words here " * 900 + '"}'
    call = {"id": "c", "type": "function", "function": {"name": "write", "arguments": text}}
    document = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]

    for provider in ("openai", "responses", "anthropic", "plain"):
        context = ContextBuilder(
            MessageSource.of(read(document, "openai")), ContextRules(600, provider)
        ).build()
        assert len(str(context.messages)) < 3000
        assert "a.py" in str(context.messages)


@pytest.mark.parametrize(
    "text", ['{"a": "\\ud800"}', "[1]", '{"a": NaN}', "{", '"x"', " ", "[" * 10**5]
)
def test_what_is_no_object_of_whole_text_is_kept_as_it_came(text):
    state = otolith.open("memory:").session("s")
    chat = Conversation(state, clock=lambda: 1)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": text}}
    document = {"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    chat.load(document, "openai")
    state.commit()

    kept = Conversation(state.at("@"))
    assert kept.dump("openai") == document
    assert kept[0].calls[0].arguments == {}
    assert kept.dump("anthropic")["messages"][0]["content"][0]["input"] == {"input": text}


def test_arguments_that_are_no_json_are_kept_as_they_came():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}
    (message,) = read([{"role": "assistant", "content": None, "tool_calls": [call]}], "openai")

    assert message.calls[0].raw == '{"a": '
    assert write([message], "anthropic")["messages"][0]["content"][0]["input"] == {
        "input": '{"a": '
    }


def test_bytes_of_a_picture_are_kept_as_bytes():
    part = {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"},
    }
    (message,) = read([{"role": "user", "content": [part]}], "openai")

    assert message.parts == (Attachment("image/png", b"\x89PNG"),)
    assert PNG not in str(message.meta)


def test_data_of_ones_own_is_not_sent_and_not_counted():
    chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 1)
    mine = {"openai": {"request_id": "r1"}, "trace": "x" * 1000}
    chat.append(Message(Role.USER, (Text("hello"),), meta=mine))

    for name in ("openai", "responses", "anthropic", "plain"):
        assert "r1" not in str(chat.dump(name))
        assert chat.context(20, name).tokens <= 20
    assert chat[0].meta == mine


def test_a_document_with_a_result_nobody_asked_for_is_refused():
    chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 1)
    document = [{"role": "tool", "tool_call_id": "x", "content": "1"}]

    with pytest.raises(BadMessage):
        chat.load(document, "openai")


@pytest.mark.parametrize(
    ("document", "format"),
    [
        ([{"role": "user", "content": "x"}, 7], "openai"),
        ([{"role": "assistant", "tool_calls": [{"id": "a"}]}], "openai"),
        ({"wrong": 1}, "anthropic"),
        ({"messages": {}}, "anthropic"),
        ({"messages": "x"}, "openai"),
        ({"input": ["x"]}, "responses"),
        ([{"content": "x"}], "openai"),
        ([{"content": "x"}], "responses"),
        ([{"role": None, "content": "x"}], "anthropic"),
        ([{"role": "user", "content": [{"type": "tool_result"}]}], "anthropic"),
        (7, "plain"),
    ],
)
def test_what_is_no_such_document_is_refused(document, format):
    with pytest.raises(BadValue):
        read(document, format)


@pytest.mark.parametrize(
    "part", [{}, {"type": "text"}, {"type": "text", "text": [None]}, {"type": 7}]
)
@pytest.mark.parametrize("name", ["openai", "responses", "anthropic"])
def test_a_part_that_is_none_is_kept_as_it_came_and_breaks_nothing(name, part):
    chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 1)
    messages = [{"role": "user", "content": [part]}, {"role": "user", "content": "x"}]
    document = {"input" if name == "responses" else "messages": messages}
    chat.load(document, name)

    assert chat.dump(name) == document
    for provider in ("openai", "responses", "anthropic", "plain"):
        assert chat.context(1000, provider).messages
        chat.dump(provider)


def test_a_format_that_nobody_knows_is_refused():
    with pytest.raises(Invalid):
        read([], "telegram")


@pytest.mark.parametrize("provider", ["openai", "anthropic", "responses"])
def test_two_calls_of_one_id_get_two_ids(provider):
    """Two branches that were merged may both have made a call of the same id."""
    log = []
    for _ in range(2):
        log.append(Message(Role.USER, (Text("go"),)))
        log.append(Message(Role.ASSISTANT, (ToolCall("same", "f"),)))
        log.append(Message(Role.TOOL, (ToolResult("same", "ok"),)))

    context = ContextBuilder(MessageSource.of(log), ContextRules(1000, provider)).build()

    assert faults(context.messages, provider) == []
    assert "same_2" in str(context.messages)


def test_a_custom_call_without_input_is_written_with_an_empty_one():
    call = ToolCall("a", "search", {}, extra={"item": "custom_tool_call"})

    (item,) = write([Message(Role.ASSISTANT, (call,))], "responses")["input"]

    assert item["input"] == ""


def test_a_later_system_message_of_anthropic_is_given_back_and_sent_as_it_came(chat):
    document = {
        "system": "You book flights.",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "yes"},
            {"role": "system", "content": [{"type": "text", "text": "be brief"}]},
            {"role": "user", "content": "go"},
        ],
    }
    assert write(read(document, "anthropic"), "anthropic") == document
    chat.load(document, "anthropic")
    context = chat.context(1000, "anthropic")
    assert (context.system, context.messages) == (document["system"], document["messages"])
    assert chat.context(1000, "openai").messages[3]["role"] == "system"


def test_a_later_system_message_of_another_provider_is_told_to_anthropic_by_the_user():
    said = [{"role": role, "content": "x"} for role in ("user", "system")]
    written = write(read(said, "openai"), "anthropic")
    assert written["messages"][1] == {"role": "user", "content": "<system>x</system>"}


def test_the_first_system_message_is_the_prompt_of_a_request_wherever_it_was(chat):
    messages = [{"role": role, "content": "x"} for role in ("system", "user")]
    chat.load({"messages": messages}, "anthropic")
    assert chat.dump("anthropic") == {"messages": messages}
    assert chat.context(1000, "anthropic").system == "x"


@pytest.mark.parametrize("item", [{"id": "msg_1"}, {"id": "msg_1", "type": None}])
def test_a_reference_to_an_item_needs_no_type(item):
    document = {"input": [{"role": "user", "content": "hi"}, item]}
    assert write(read(document, "responses"), "responses") == document


def test_a_request_to_the_responses_api_has_the_fields_that_its_types_require(chat):
    chat.user([Text("look"), Attachment("image/png", b"x")])
    chat.assistant([Text("one"), Text("two")])
    first, second = chat.context(10_000, "responses").messages
    assert first["content"][1]["detail"] == "auto"
    assert second == {"type": "message", "role": "assistant", "content": "one\ntwo"}


def test_a_text_that_the_responses_api_wrote_is_sent_back_with_annotations(chat):
    block = {"type": "output_text", "text": "hi"}
    written = {"type": "message", "role": "assistant", "id": "m1", "status": "completed"}
    chat.load({"input": [{**written, "content": [block]}]}, "responses")
    [sent] = chat.context(10_000, "responses").messages
    assert sent == {**written, "content": [{**block, "annotations": []}]}
