"""A conversation takes messages that make sense, refuses others, and reads only what it must."""

from __future__ import annotations

from itertools import count

import pytest

import otolith
from bench.disk import resting_bytes
from otolith.conversation import (
    Attachment,
    Conversation,
    Extra,
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from otolith.conversation.storage import ConversationStore
from otolith.errors import BadMessage, Invalid, ReadOnly


@pytest.fixture
def state():
    return otolith.open("memory:").session("s")


@pytest.fixture
def chat(state):
    times = count(1000)
    return Conversation(state, clock=lambda: next(times))


def called(chat, *ids):
    chat.assistant(tool_calls=[ToolCall(id, "search", {"q": id}) for id in ids])


def counted(monkeypatch):
    """Return a list that grows with every message that is read from the store."""
    read: list[int] = []
    whole = ConversationStore._decode

    def counting(self, cell, at):
        read.append(at)
        return whole(self, cell, at)

    monkeypatch.setattr(ConversationStore, "_decode", counting)
    return read


# ---------------------------------------------------------------- what is kept


def test_what_was_said_is_read_as_it_was_said(state, chat):
    parts = (
        Reasoning("hm", "sig", {"from": "x"}),
        Text("Look:"),
        Attachment("image/png", b"\x89PNG", name="a.png"),
        Extra("openai:refusal", {"refusal": "no"}),
    )
    said = chat.append(Message(Role.ASSISTANT, parts, name="bot", meta={"cost": 0.5}))
    state.commit()

    kept = Conversation(state.at("@"))[0]

    assert kept == said
    assert kept.parts == parts
    assert (kept.name, kept.meta, kept.time) == ("bot", {"cost": 0.5}, 1000)
    assert kept.tokens is not None
    assert kept.tokens.counter == "estimate-1"


def test_nothing_lasts_before_the_commit(state, chat):
    chat.user("hello")
    state.commit()
    chat.user("again")
    state.discard()

    assert [each.text for each in chat] == ["hello"]


def test_ids_depend_on_what_was_said_and_on_nothing_else():
    def ids(*said):
        chat = Conversation(otolith.open("memory:").session("s"), clock=lambda: 7)
        return [chat.user(each).id for each in said]

    assert ids("a", "b", "b") == ids("a", "b", "b")
    assert len(set(ids("a", "a", "a"))) == 3
    assert ids("x", "b")[1] != ids("a", "b")[1]


def test_data_that_a_tool_gives_becomes_json(chat):
    called(chat, "c1", "c2", "c3")

    assert chat.tool("c1", {"b": 1, "a": [True]}).results[0].content == '{"b":1,"a":[true]}'
    assert chat.tool("c2", "text").results[0].content == "text"
    assert chat.tool("c3", [Text("a"), Text("b")]).results[0].content == (Text("a"), Text("b"))


def test_a_conversation_as_it_was_is_read_and_not_changed(state, chat):
    chat.user("hello")
    then = state.commit()
    chat.user("later")
    state.commit()

    old = Conversation(state.at(then))

    assert [each.text for each in old] == ["hello"]
    assert old.context(100, "openai").messages == [{"role": "user", "content": "hello"}]
    for verb in (lambda: old.user("x"), lambda: old.fork(0, "y"), old.summarise):
        with pytest.raises(ReadOnly):
            verb()


def test_the_last_message_of_many_is_read_alone(state, chat, monkeypatch):
    chat.extend(Message(Role.USER, (Text(f"message {n} " * 20),)) for n in range(3000))
    state.commit()
    read = counted(monkeypatch)

    fresh = Conversation(state.at("@"))

    assert fresh[-1].text.startswith("message 2999")
    assert [each.text[:12] for each in fresh[-3:-1]] == ["message 2997", "message 2998"]
    assert len(read) <= 3


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (Message(Role.USER, ()), "empty"),
        (Message(Role.ASSISTANT, (Text("  \n"),)), "empty"),
        (Message(Role.USER, (Text("half \ud800"),)), "not_text"),
        (Message(Role.ASSISTANT, (ToolCall("a", "f", {"deep": ["\udfff"]}),)), "not_text"),
        (Message(Role.USER, (ToolCall("a", "f"),)), "misplaced"),
        (Message(Role.SYSTEM, (ToolResult("a", "x"),)), "misplaced"),
        (Message(Role.TOOL, (Text("x"),)), "misplaced"),
        (Message(Role.TOOL, (ToolResult("a", "x"),)), "no_call"),
        (Message(Role.ASSISTANT, (ToolCall("", "f"),)), "no_id"),
        (Message(Role.ASSISTANT, (ToolCall("a", "f"), ToolCall("a", "g"))), "duplicate_call"),
    ],
)
def test_a_message_that_makes_no_sense_is_refused_and_says_why(chat, message, problem):
    with pytest.raises(BadMessage) as refused:
        chat.append(message)

    assert refused.value.problem == problem
    assert refused.value.hint
    assert len(chat) == 0


def test_bytes_are_text_if_they_are_utf8(chat):
    assert chat.user("héllo".encode()).text == "héllo"
    with pytest.raises(BadMessage, match="not UTF-8"):
        chat.user(b"\xff\xfe")


def test_a_call_is_answered_once(chat):
    called(chat, "c1", "c2")
    chat.tool("c1", "one")
    chat.user("and?")
    chat.tool("c2", "two")

    for id in ("c1", "c2"):
        with pytest.raises(BadMessage) as refused:
            chat.tool(id, "again")
        assert refused.value.problem == "answered"


def test_of_many_messages_all_are_added_or_none(chat):
    good, bad = Message(Role.USER, (Text("x"),)), Message(Role.TOOL, (ToolResult("?", "x"),))

    with pytest.raises(BadMessage):
        chat.extend([good, good, bad])

    assert len(chat) == 0


@pytest.mark.parametrize("name", ["", "a/b", ".tables"])
def test_some_names_are_not_for_threads(state, name):
    with pytest.raises(Invalid):
        Conversation(state, thread=name)


# ---------------------------------------------------------------- attachments


def test_an_attachment_of_50_mb_is_kept_and_not_kept_twice(tmp_path):
    data = b"".join(number.to_bytes(4, "big") for number in range(50 * 2**20 // 4))
    with otolith.open(tmp_path / "a.db", durability="fast") as repo:
        state = repo.session("s")
        chat = Conversation(state, clock=lambda: 1)
        chat.user([Text("see"), Attachment("application/pdf", data, name="big.pdf")])
        state.commit()
        once = resting_bytes(tmp_path / "a.db")
        chat.user([Text("again"), Attachment("application/pdf", data, name="big.pdf")])
        chat.thread("other").user(Attachment("application/pdf", data))
        state.commit()

        assert chat[0].parts[1] == Attachment("application/pdf", data, name="big.pdf")
        assert resting_bytes(tmp_path / "a.db") < 1.05 * once


def test_an_attachment_over_the_limit_is_refused(state):
    chat = Conversation(state, clock=lambda: 1, attachment_limit_bytes=100)

    with pytest.raises(BadMessage, match="101 bytes") as refused:
        chat.user(Attachment("image/png", b"x" * 101))

    assert refused.value.problem == "too_large"
    assert refused.value.hint


def test_a_context_does_not_read_the_bytes_of_what_it_leaves_out(state, chat, monkeypatch):
    chat.user([Text("see"), Attachment("image/png", b"x" * 1000)])
    chat.extend(Message(Role.USER, (Text("word " * 50),)) for _ in range(50))
    state.commit()
    read = []
    monkeypatch.setattr(ConversationStore, "value", lambda self, *names: read.append(names[0]))

    Conversation(state.at("@")).context(500)

    assert "files" not in read


# ---------------------------------------------------------------- turns and pins


def test_turns_are_found_from_the_end_and_from_the_start(chat):
    chat.system("be brief")
    for number in range(100):
        chat.user(f"question {number}")
        chat.assistant(f"answer {number}")

    assert chat.turns[-1].text == "answer 99"
    assert chat.turns[-2].user.text == "question 98"
    assert chat.turns[1].start == 1
    assert len(chat.turns) == 101
    assert [turn.start for turn in reversed(chat.turns)] == [t.start for t in chat.turns][::-1]
    with pytest.raises(IndexError):
        chat.turns[500]


def test_what_was_pinned_can_be_unpinned(chat):
    chat.user("first")
    chat.pin(0)
    assert chat[0].is_pinned
    chat.pin(-1, is_pinned=False)
    assert not chat[0].is_pinned


def test_two_branches_that_both_went_on_are_merged(state, chat):
    chat.system("be brief")
    chat.user("hello")
    state.commit()
    other = state.fork("other")
    theirs = Conversation(other, clock=lambda: 2)
    called(theirs, "t1")
    theirs.tool("t1", "their result")
    theirs.user("remember this", is_pinned=True)
    other.commit()
    called(chat, "o1")
    chat.tool("o1", "our result")
    state.commit()

    assert state.merge("other").ok

    assert len(chat) == 7
    assert {each.id for each in chat} >= {each.id for each in theirs}
    pinned = [each.text for each in chat if each.is_pinned]
    assert pinned == ["remember this"]
    assert [at for at, each in enumerate(chat) if each.is_pinned or each.role == "system"] == list(
        chat._store.permanent_indices()
    )
    assert {result.call_id for each in chat for result in each.results} == {"t1", "o1"}

    (answer,) = [at for at, m in enumerate(chat) if m.results and m.results[0].call_id == "o1"]
    chat.pin(answer)
    pinned = [each for each in chat if each.is_pinned and each.role != "user"]
    assert pinned == [chat[answer - 1], chat[answer]]
    assert pinned[0].calls[0].id == "o1"


def test_a_call_is_not_dated_after_its_result(state):
    times = iter([1_000, 9_000])
    chat = Conversation(state, clock=lambda: next(times))
    call = Message(Role.ASSISTANT, (ToolCall("c1", "search"),))
    result = Message(Role.TOOL, (ToolResult("c1", "found"),), time=4_000)
    told = Message(Role.ASSISTANT, (Text("found it"),))

    chat.user("find it")
    chat.extend([call, result, told])

    assert [each.time for each in chat] == [1_000, 4_000, 4_000, 9_000]
