"""Threads share what they have in common, and nothing of what they have not."""

from __future__ import annotations

import pytest

import otolith
from bench.disk import resting_bytes
from otolith.conversation import Conversation, Message, Role, Text, ToolCall
from otolith.errors import BadMessage, Exists


@pytest.fixture
def state():
    return otolith.open("memory:").session("s")


@pytest.fixture
def chat(state):
    chat = Conversation(state, clock=lambda: 5)
    chat.user("find a flight")
    chat.assistant(tool_calls=[ToolCall("c1", "search")])
    chat.tool("c1", "three flights")
    chat.assistant("Three. Which one?")
    return chat


def test_a_fork_begins_alike_and_goes_on_by_itself(chat):
    other = chat.fork(3, "other")
    other.assistant("There are three.")

    assert [each.id for each in other[:3]] == [each.id for each in chat[:3]]
    assert chat[3].text == "Three. Which one?"
    assert other.about == ("other", 4, 5, "main", 3, {})


@pytest.mark.parametrize("wrong", ["", "   ", Message(Role.USER, (ToolCall("c9", "x"),))])
def test_an_edit_that_is_refused_leaves_nothing_behind(state, chat, wrong):
    state.commit("asked")

    with pytest.raises(BadMessage):
        chat.edit(0, wrong)

    assert list(chat.threads()) == ["main"]
    assert state.is_clean


def test_a_call_that_was_left_behind_can_be_made_again(chat):
    other = chat.fork(1, "other")

    other.assistant(tool_calls=[ToolCall("c1", "search")])
    other.tool("c1", "no flights")

    assert other[2].results[0].content == "no flights"
    with pytest.raises(BadMessage):
        chat.assistant(tool_calls=[ToolCall("c1", "search")])


def test_a_call_whose_result_was_left_behind_can_be_answered(chat):
    other = chat.fork(2, "other")

    other.tool("c1", "no flights")

    assert len(other) == 3


def test_to_edit_is_to_fork(chat):
    edited = chat.edit(0, "find a train")

    assert [each.text for each in edited] == ["find a train"]
    assert edited[0].role is Role.USER
    assert chat[0].text == "find a flight"
    assert edited.thread_name == "main-2"


def test_calls_are_not_edited_by_words(chat):
    with pytest.raises(BadMessage):
        chat.edit(1, "I did not call")
    with pytest.raises(BadMessage):
        chat.edit(2, "nothing")

    assert list(chat.threads()) == ["main"]


def test_a_thread_is_created_listed_and_resumed(state, chat):
    chat.create("support", meta={"user": "ann"})
    state.commit()

    with pytest.raises(Exists):
        chat.create("support")
    found = Conversation(state.at("@")).threads()
    assert list(found) == ["main", "support"]
    assert found["support"].meta == {"user": "ann"}
    assert found["support"].messages == 0
    chat.thread("support").user("hello")
    assert Conversation(state, thread="support")[0].text == "hello"


@pytest.mark.parametrize(("at", "kept"), [(None, 4), (4, 4), (-1, 3), (0, 0)])
def test_a_fork_begins_with_as_many_messages_as_it_is_told(chat, at, kept):
    assert len(chat.fork(at)) == kept


@pytest.mark.parametrize("at", [5, -5])
def test_a_fork_beyond_the_log_is_refused(chat, at):
    with pytest.raises(IndexError):
        chat.fork(at)


def test_a_fork_of_a_long_thread_stores_next_to_nothing(tmp_path):
    with otolith.open(tmp_path / "a.db") as repo:
        state = repo.session("s")
        chat = Conversation(state, clock=lambda: 5)
        said = (f"{number} " + "something to say " * 30 for number in range(2000))
        chat.extend(Message(Role.USER, (Text(text),)) for text in said)
        state.commit()
        before = resting_bytes(tmp_path / "a.db")
        chat.fork(1990, "other")
        state.commit()

        assert resting_bytes(tmp_path / "a.db") - before < 20_000
