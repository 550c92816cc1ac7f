"""A budget is kept to, and used: by what is sent, whatever was counted elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import otolith
from otolith.conversation import (
    Attachment,
    Conversation,
    Message,
    Role,
    Text,
    TokenCounter,
    Tokens,
    ToolCall,
)
from otolith.conversation.token_counts import ESTIMATED
from otolith.text.tokens import estimate_tokens
from tests.unit.conversation.legality import faults

WORDS = "some words here " * 30
SENTENCES = "A sentence about flights to New York and aisle seats. " * 400


@pytest.fixture
def chat():
    return Conversation(otolith.open("memory:").session("s"), clock=lambda: 1)


def talked(chat, turns=60):
    for number in range(turns):
        chat.user(f"q{number} {WORDS}")
        chat.assistant(WORDS)


def done(context):
    return [each.done for each in context.why]


# ---------------------------------------------------------------- what a message costs


def test_what_a_reply_took_is_not_what_it_costs_to_send_it(chat):
    chat.user("6*7?")
    reply = Message(Role.ASSISTANT, (Text("42"),), tokens=Tokens(6002, "openai"))
    chat.append(reply)

    assert chat.context(4_000, "openai").tokens < 30
    assert chat.tokens < 30


def test_a_count_that_is_too_low_is_not_believed_either(chat):
    chat.append(Message(Role.USER, (Text(SENTENCES),), tokens=Tokens(1, "anthropic")))

    assert chat.context(2_000, "openai").tokens > 500


def test_a_file_of_text_costs_what_its_text_does(chat):
    text = chat.user(SENTENCES).tokens.count

    file = chat.user(Attachment("text/plain", SENTENCES.encode())).tokens.count

    assert text <= file < text + 30


def test_a_counter_of_ones_own_reads_files_of_text(chat):
    chat.user(Attachment("text/plain", SENTENCES.encode()))

    letters = chat.context(10**6, "anthropic", counter=TokenCounter("letters", len)).tokens

    assert letters > len(SENTENCES)


def test_a_huge_file_of_text_keeps_its_head_and_its_tail(chat):
    chat.user(Attachment("text/plain", f"first {SENTENCES} last".encode(), name="log.txt"))

    context = chat.context(1_000, "anthropic")

    (document,) = context.messages[0]["content"]
    said = document["source"]["data"]
    assert (said[:5], said[-4:], done(context)) == ("first", "last", ["clamped"])
    assert estimate_tokens(said) < context.tokens <= 1_000


def test_reasoning_that_is_sent_back_is_counted(chat):
    document = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "reasoning_content": SENTENCES, "content": "ho"},
    ]
    chat.load(document, "openai")

    context = chat.context(10**6, "openai")

    assert "reasoning_content" in context.messages[1]
    assert context.tokens > estimate_tokens(SENTENCES)


# ---------------------------------------------------------------- what came in another shape


@pytest.mark.parametrize(
    ("format", "document"),
    [
        ("anthropic", [{"role": "user", "content": [{"type": "text", "text": SENTENCES}]}]),
        ("openai", [{"role": "user", "content": [{"type": "text", "text": SENTENCES}]}]),
        ("responses", {"input": SENTENCES}),
        ("responses", [{"role": "user", "content": SENTENCES}]),
        ("responses", {"instructions": SENTENCES, "input": []}),
        ("plain", f"Human: {SENTENCES}"),
    ],
)
def test_the_shape_of_a_text_is_not_a_second_text(chat, format, document):
    (message,) = chat.load(document, format)

    needed = ESTIMATED.message(Message(Role.USER, (Text(message.text),)))
    assert needed <= message.tokens.count <= needed + 1
    assert len(json.dumps(message.to_data())) < len(SENTENCES) + 500
    assert chat.dump(format) in (document, {"messages": document}, {"input": document})


def test_a_short_text_in_a_list_costs_what_it_says(chat):
    (message,) = chat.load(
        [{"role": "user", "content": [{"type": "text", "text": "hello"}]}], "openai"
    )

    assert message.tokens == chat.user("hello").tokens


def test_what_was_kept_in_the_older_way_is_written_as_it_was_read(chat):
    content = [{"type": "text", "text": "hello there"}]
    left = {"#": {"0": {"~": {"content": {"=": content}}}}}
    chat.append(Message(Role.USER, (Text("hello there"),), meta={".as openai": left}))

    assert chat.dump("openai") == {"messages": [{"role": "user", "content": content}]}


def test_a_message_that_was_changed_by_hand_is_written_as_it_is(chat):
    (old,) = chat.load({"input": SENTENCES}, "responses")
    seen = Attachment("image/*", url="https://x")
    chat.append(replace(old, parts=(seen,), id="", tokens=None))

    assert "https://x" in str(chat.context(10_000, "responses").messages[1])


# ---------------------------------------------------------------- what providers counted


def test_a_summary_is_scaled_like_all_else(chat):
    talked(chat)
    chat.usage(input_tokens=3 * chat.tokens)

    context = chat.context(4_000, "openai", summariser=lambda *_: "They talked. " * 800)

    assert context.summary
    assert context.tokens <= 4_000


def test_nothing_is_dropped_that_fits_by_what_was_counted(chat):
    talked(chat)
    chat.usage(input_tokens=chat.tokens // 2)

    whole = chat.context(10**6, "openai").tokens

    assert len(chat.context(whole, "openai").dropped) == 0


# ---------------------------------------------------------------- huge arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"xs": list(range(20_000))},
        {f"key {number}": number for number in range(20_000)},
        {"rows": [{"name": "Ann", "age": 7}] * 5_000},
        {"deep": {"er": [["word"] * 20_000]}},
    ],
)
@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic"])
def test_huge_arguments_stay_an_object(chat, arguments, provider):
    chat.user("plot it")
    chat.assistant(tool_calls=[ToolCall("c1", "plot", arguments)])
    chat.tool("c1", "done")

    context = chat.context(8_000, provider)

    assert faults(context.messages, provider) == []
    assert done(context) == ["clamped"]
    assert next(iter(arguments)) in str(context.messages)


def test_what_is_short_beside_huge_arguments_stays_as_it_was(chat):
    chat.user("plot it")
    chat.assistant(
        tool_calls=[ToolCall("c1", "plot", {"colour": "red", "xs": list(range(20_000))})]
    )
    chat.tool("c1", "done")

    call = chat.context(4_000, "openai").messages[1]["tool_calls"][0]["function"]
    given = json.loads(call["arguments"])

    assert given["colour"] == "red"
    assert given["xs"].startswith("[0,1,2,")


# ---------------------------------------------------------------- late results


def test_a_late_result_whose_call_is_gone_is_told(chat):
    chat.assistant("old " * 300)
    chat.assistant(tool_calls=[ToolCall("c1", "job", {"x": "y " * 300})])
    chat.user("meanwhile: is it raining?")
    chat.assistant("no")
    chat.tool("c1", "JOB FINISHED")
    chat.assistant("bye " * 60)

    context = chat.context(70, "openai")

    assert "JOB FINISHED" not in str(context.messages)
    assert list(context.dropped) == [0, 1, 4]
    assert "late result" in next(each.why for each in context.why if each.start == 4)
