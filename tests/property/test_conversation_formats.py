"""What a format can hold is not lost: a document that is read and written again is the same."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import otolith
from otolith.conversation import Conversation, Text, read, write
from otolith.conversation.formats import FORMATS
from otolith.conversation.formats.unknown_fields import difference, restore_fields
from otolith.errors import BadMessage
from tests.property.test_context_laws import counted

MANY = settings(max_examples=3 * settings().max_examples)

words = st.sampled_from(["", "hello", "two\nlines", "ünï", " spaced ", "user: no", '{"a": 1}'])
leaves = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | words
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
objects = st.lists(
    st.tuples(st.sampled_from(["q", "n", "deep"]), values),
    max_size=3,
    unique_by=lambda pair: pair[0],
).map(dict)
pngs = st.sampled_from([b"", b"\x89PNG", b"x" * 50]).map(lambda b: base64.b64encode(b).decode())


def shaped(required, optional=None):
    return st.fixed_dictionaries(required, optional=optional or {})


def maybe_more(strategy):
    """Add keys that nobody has heard of."""
    more = st.dictionaries(
        st.sampled_from(["cache_control", "x_new", "status"]), values, max_size=1
    )
    return st.tuples(strategy, more).map(lambda pair: pair[0] | pair[1])


unknown = maybe_more(shaped({"type": st.sampled_from(["new_thing", "search_result"])}))


def _tight(value):
    """Return JSON without spaces, its keys in the order in which they came."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


# ---------------------------------------------------------------- OpenAI, chat

chat_parts = maybe_more(
    shaped({"type": st.just("text"), "text": words})
    | shaped(
        {
            "type": st.just("image_url"),
            "image_url": shaped(
                {"url": pngs.map("data:image/png;base64,{}".format) | st.just("https://x/y.png")},
                {"detail": st.just("high")},
            ),
        }
    )
    | shaped(
        {
            "type": st.just("input_audio"),
            "input_audio": shaped({"data": pngs, "format": st.sampled_from(["wav", "mp3", "ogg"])}),
        }
    )
    | shaped(
        {
            "type": st.just("file"),
            "file": shaped(
                {"file_data": pngs.map("data:application/pdf;base64,{}".format)},
                {"filename": st.just("a.pdf")},
            )
            | shaped({"file_id": st.just("file-1")}),
        }
    )
    | shaped({"type": st.just("refusal"), "refusal": words})
    | unknown
)
arguments = (
    objects.map(json.dumps)
    | objects.map(_tight)
    | st.sampled_from(["", "{", "[1]", '{"b": 1, "a": 2}', "NaN"])
)


@st.composite
def chat_documents(draw):
    messages = []
    for number in range(draw(st.integers(0, 5))):
        content = draw(words | st.lists(chat_parts, max_size=3) | st.none())
        role = draw(st.sampled_from(["system", "developer", "user", "assistant"]))
        message = {"role": role, "content": content} | draw(
            shaped({}, {"name": st.just("ann"), "x_new": values})
        )
        messages.append(message)
        if role == "assistant":
            message |= draw(shaped({}, {"refusal": st.none() | words, "reasoning_content": words}))
            calls = [_chat_call(draw, f"c{number}-{n}") for n in range(draw(st.integers(0, 3)))]
            if calls:
                message["tool_calls"] = calls
            for call in calls:
                said = draw(words | st.lists(chat_parts, max_size=2))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
    return {"messages": messages}


def _chat_call(draw, id):
    if draw(st.integers(0, 4)) == 0:
        return {"id": id, "type": "custom", "custom": {"name": "run", "input": draw(words)}}
    function = {"name": "search", "arguments": draw(arguments)}
    return {"id": id, "type": "function", "function": function} | draw(
        shaped({}, {"index": leaves})
    )


# ---------------------------------------------------------------- OpenAI, responses


@st.composite
def responses_documents(draw):
    items = []
    for number in range(draw(st.integers(0, 8))):
        items += draw(st.sampled_from(_ITEMS))(draw, f"c{number}")
    return draw(shaped({}, {"instructions": words})) | {"input": items}


def _spoken(draw, id):
    role = draw(st.sampled_from(["user", "assistant", "system", "developer"]))
    kind = "output_text" if role == "assistant" else "input_text"
    parts = maybe_more(
        shaped({"type": st.just(kind), "text": words})
        | shaped({"type": st.just("refusal"), "refusal": words})
        | shaped(
            {
                "type": st.just("input_image"),
                "image_url": pngs.map("data:image/png;base64,{}".format),
            },
            {"detail": st.just("low")},
        )
        | unknown
    )
    content = draw(words | st.lists(parts, max_size=3))
    return [{"role": role, "content": content} | draw(shaped({}, {"type": st.just("message")}))]


def _reasoned(draw, id):
    told = st.lists(shaped({"type": st.just("summary_text"), "text": words}), max_size=2)
    made = shaped(
        {"type": st.just("reasoning"), "id": st.just(f"rs_{id}"), "summary": told},
        {"encrypted_content": words | st.none(), "status": st.just("completed")},
    )
    return [draw(made)]


def _called(draw, id):
    call = {"type": "function_call", "call_id": id, "name": "f", "arguments": draw(arguments)}
    call |= draw(shaped({}, {"id": st.just("fc_1"), "status": st.just("completed")}))
    said = draw(
        words | st.lists(shaped({"type": st.just("input_text"), "text": words}), max_size=2)
    )
    return [call, {"type": "function_call_output", "call_id": id, "output": said}]


def _computed(draw, id):
    call = {"type": "computer_call", "call_id": id, "action": draw(objects)}
    return [call, {"type": "computer_call_output", "call_id": id, "output": draw(objects)}]


def _searched(draw, id):
    return [{"type": "web_search_call", "id": id, "status": "completed"}]


_ITEMS = [_spoken, _spoken, _reasoned, _called, _computed, _searched]


# ---------------------------------------------------------------- Anthropic

sources = (
    shaped({"type": st.just("base64"), "media_type": st.just("image/png"), "data": pngs})
    | shaped({"type": st.just("url"), "url": st.just("https://x/y.png")})
    | shaped({"type": st.just("file"), "file_id": st.just("f1")})
)
said_blocks = maybe_more(
    shaped({"type": st.just("text"), "text": words}, {"citations": st.lists(values, max_size=1)})
    | shaped({"type": st.just("image"), "source": sources})
    | shaped({"type": st.just("document"), "source": sources}, {"title": words})
    | unknown
)
thought_blocks = st.sampled_from(
    [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}},
    ]
)


@st.composite
def anthropic_documents(draw):
    messages = []
    for number in range(draw(st.integers(0, 5))):
        asked = draw(words | st.lists(said_blocks, max_size=3))
        messages.append({"role": "user", "content": asked})
        blocks = draw(st.lists(thought_blocks | said_blocks, max_size=3))
        calls = [
            {"type": "tool_use", "id": f"t{number}-{n}", "name": "f", "input": draw(objects)}
            for n in range(draw(st.integers(0, 3)))
        ]
        messages.append(
            {"role": "assistant", "content": draw(words) if not calls else blocks + calls}
        )
        results = [_anthropic_result(draw, call["id"]) for call in calls]
        if results:
            more = draw(st.lists(said_blocks, max_size=1))
            mixed = draw(st.permutations(results + more))
            messages.append({"role": "user", "content": mixed})
    system = draw(
        st.none()
        | words
        | st.lists(maybe_more(shaped({"type": st.just("text"), "text": words})), max_size=2)
    )
    return ({} if system is None else {"system": system}) | {"messages": messages}


def _anthropic_result(draw, id):
    more = shaped(
        {}, {"content": words | st.lists(said_blocks, max_size=2), "is_error": st.booleans()}
    )
    return {"type": "tool_result", "tool_use_id": id} | draw(more)


# ---------------------------------------------------------------- the laws

lines = st.sampled_from(
    ["user: hi", "User: Hi there", "assistant:  two", "AI: x", "tool (search): 3", "more", "",
     "\\user: quoted", "\\\\ai: twice", "Human:no space", "  user: indented"]
)  # fmt: skip
transcripts = st.lists(lines).map("\n".join)
DOCUMENTS = {
    "openai": chat_documents(),
    "responses": responses_documents(),
    "anthropic": anthropic_documents(),
    "plain": transcripts,
}
any_document = st.one_of(*(st.tuples(st.just(name), made) for name, made in DOCUMENTS.items()))


@MANY
@given(any_document)
def test_what_is_read_is_written_again(document):
    name, given_ = document

    assert _exact(write(read(given_, name), name)) == _exact(given_)


@MANY
@given(any_document)
def test_what_was_kept_in_a_state_is_written_again(document):
    name, given_ = document
    state = otolith.open("memory:").session("s")
    chat = Conversation(state, clock=lambda: 7)
    chat.load(given_, name)
    state.commit()

    assert _exact(Conversation(state.at("@")).dump(name)) == _exact(given_)


LONG = "A sentence that is long enough to be worth finding again. "


@MANY
@given(any_document, st.integers(1, 3))
def test_what_is_kept_beside_a_message_does_not_say_it_again(document, times):
    name, given_ = document
    long = _lengthened(given_, LONG * times)

    messages = read(long, name)

    assert _exact(write(messages, name)) == _exact(long)
    for message in filter(_is_words, messages):
        beside = json.dumps(message.to_data().get("meta", {}))
        assert not (LONG in beside and LONG in message.text)


def _is_words(message):
    return all(isinstance(part, Text) for part in message.parts)


def _lengthened(value, text):
    """Return a document in which a word is a long text."""
    if isinstance(value, dict):
        return {key: _lengthened(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [_lengthened(item, text) for item in value]
    return (
        value.replace("hello", text).replace("Hi there", text) if isinstance(value, str) else value
    )


@MANY
@given(any_document, st.sampled_from(["openai", "responses", "anthropic"]))
def test_what_is_sent_of_a_document_takes_no_more_than_was_counted(document, provider):
    name, given_ = document
    chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 7)
    chat.load(given_, name)

    context = chat.context(10**6, provider)

    assert counted(context) <= context.estimate


@given(any_document, st.sampled_from(sorted(FORMATS)))
def test_any_format_can_be_written_whatever_was_read(document, other):
    name, given_ = document

    json.dumps(write(read(given_, name), other))


@given(values, values)
def test_a_difference_leads_from_one_value_to_the_other(one, other):
    left = difference(one, other)

    assert _exact(one if left is None else restore_fields(one, left)) == _exact(other)


def _exact(value):
    """Return JSON, in which 1, 1.0 and true are three things."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_half_a_character_is_refused(name):
    document = {"messages": [{"role": "user", "content": "\ud800"}]}
    chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 7)

    with pytest.raises(BadMessage) as refused:
        chat.load(document, name)

    assert refused.value.problem == "not_text"
    assert len(chat) == 0
