"""Messages that are removed and system prompts that are replaced: earlier commits have the old."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import otolith
from otolith import Versioned
from otolith.agent import Agent, ScriptedModel
from otolith.conversation import Attachment, Conversation, ToolCall
from otolith.errors import BadMessage, ReadOnly


@pytest.fixture
def state():
    times = count(1000)
    return otolith.open("memory:", clock=lambda: next(times)).session("s")


@pytest.fixture
def chat(state):
    chat = state.conversation
    chat.system("You book flights.")
    chat.user("to NYC")
    chat.assistant(tool_calls=[ToolCall("c1", "search")])
    chat.tool("c1", "482")
    return chat


def texts(chat: Any) -> list[str]:
    return [each.text or each.role for each in chat]


def test_the_last_message_is_removed_and_its_call_waits_again(state, chat):
    commit = state.commit("asked")
    assert chat.pop().results[0].content == "482"

    chat.tool("c1", "512")
    state.commit("asked again")

    assert chat[-1].results[0].content == "512"
    assert Conversation(state.at(commit))[-1].results[0].content == "482"
    state.rollback(commit)
    assert state.conversation[-1].results[0].content == "482"


def test_a_call_that_was_removed_may_be_made_again(chat):
    chat.pop()
    chat.pop()
    with pytest.raises(BadMessage, match="which no message called"):
        chat.tool("c1", "late")
    chat.assistant(tool_calls=[ToolCall("c1", "search")])
    assert chat.tool("c1", "482")


def test_a_thread_without_messages_has_none_to_remove(chat):
    chat.clear()
    assert (len(chat), chat.tokens, chat.system_prompt) == (0, 0, "")
    assert list(chat.threads()) == ["main"]
    assert chat.search("NYC") == []
    with pytest.raises(IndexError):
        chat.pop()
    chat.user("to Rome")
    assert chat.context(100, "openai").messages == [{"role": "user", "content": "to Rome"}]


def test_nothing_is_removed_from_a_snapshot(state, chat):
    state.commit("asked")
    then = Conversation(state.at("@"))
    for change in (then.pop, then.clear, lambda: setattr(then, "system_prompt", "x")):
        with pytest.raises(ReadOnly):
            change()


def test_a_merge_removes_what_either_removed_and_has_what_either_said(state):
    chat = state.conversation
    for number in range(4):
        chat.user(f"old {number}")
    state.commit("base")
    other = state.fork("other")
    chat.pop()
    chat.user("ours")
    state.commit("ours")
    for _ in range(2):
        other.conversation.pop()
    other.conversation.user("theirs")
    other.commit("theirs")

    assert state.merge(other).ok
    assert texts(state.conversation) == ["old 0", "old 1", "ours", "theirs"]


def test_messages_of_a_branch_stay_if_another_cleared_the_thread(state, chat):
    state.commit("base")
    other = state.fork("other")
    chat.clear()
    state.commit("cleared")
    other.conversation.assistant(tool_calls=[ToolCall("c2", "book")])
    other.conversation.user([Attachment("text/plain", b"a file")])
    other.commit("went on")

    assert state.merge(other).ok
    merged = state.conversation
    assert [each.role for each in merged] == ["assistant", "user"]
    assert merged[1].parts[0].data == b"a file"
    assert merged.tool("c2", "booked")  # its call is not where it was


def test_the_system_prompt_is_replaced_where_it_was(state, chat):
    commit = state.commit("asked")
    ids = [each.id for each in chat[1:]]

    chat.system_prompt = "You book trains."

    assert chat.system_prompt == "You book trains."
    assert [each.id for each in chat[1:]] == ids
    assert chat.context(1000, "anthropic").system == "You book trains."
    assert [each["role"] for each in chat.context(1000, "openai").messages].count("system") == 1
    assert Conversation(state.at(commit)).system_prompt == "You book flights."
    assert chat.tool  # the thread goes on
    chat.assistant("482")
    assert texts(chat)[-1] == "482"


def test_several_system_messages_are_one_prompt_and_none_removes_them(chat):
    chat.system_prompt = None
    assert (chat.system_prompt, chat[0].text) == ("", "to NYC")
    chat.pop()
    chat.tool("c1", "found from where the call is now")

    fresh = chat.thread("fresh")
    fresh.system("One.")
    fresh.system("Two.")
    fresh.user("hi")
    fresh.system("Three, later.")
    assert fresh.system_prompt == "One.\nTwo."
    fresh.system_prompt = "New."
    assert texts(fresh) == ["New.", "hi", "Three, later."]
    assert fresh._store.permanent_indices() == (0, 2)


def test_a_prompt_that_is_empty_or_wrong_is_refused_and_the_old_one_stays(chat):
    for wrong in ("", "  ", 5, [ToolCall("c9", "x")]):
        with pytest.raises(BadMessage):
            chat.system_prompt = wrong
    assert chat.system_prompt == "You book flights."


def test_a_prompt_that_two_branches_replaced_is_both_of_them(state, chat):
    state.commit("base")
    other = state.fork("other")
    chat.system_prompt = "Ours."
    state.commit("ours")
    other.conversation.system_prompt = "Theirs."
    other.conversation.assistant("went on")
    other.commit("theirs")

    assert state.merge(other).ok
    assert state.conversation.system_prompt == "Ours.\nTheirs."
    assert texts(state.conversation)[-1] == "went on"


@pytest.mark.parametrize("provider", ["openai", "anthropic", "responses", "plain"])
@pytest.mark.parametrize("budget", [60, 1000])
def test_a_context_may_have_a_system_prompt_of_its_own(chat, provider, budget):
    chat.system("Second.")  # later: it is not the prompt
    for number in range(20 if budget < 100 else 1):
        chat.user(f"number {number}")

    context = chat.context(budget, provider, system="Be brief.")

    sent = str(context.messages) + str(context.system)
    assert "Be brief." in sent
    assert "Second." in sent
    assert "You book flights." not in sent
    assert context.tokens <= budget
    assert 0 in context.dropped
    assert (0, 1, "replaced") in [each[:3] for each in context.why]
    assert chat.system_prompt == "You book flights."
    assert "You book flights." in str(chat.context(1000, provider).request)


def test_a_context_may_have_no_system_prompt(chat):
    assert chat.context(1000, "anthropic", system="").system is None
    fresh = chat.thread("fresh")
    fresh.user("hi")
    context = fresh.context(1000, "openai", system=[{"type": "text", "text": "Be brief."}])
    assert context.messages[0]["content"] == [{"type": "text", "text": "Be brief."}]
    assert list(context.dropped) == []


def test_a_prefix_is_not_said_to_be_kept_after_another_prompt(chat):
    chat.assistant("482")
    chat.user("more")
    assert chat.context(1000, "openai").prefix_kept
    chat.system_prompt = "You book trains."
    assert not chat.context(1000, "openai").prefix_kept


def test_an_agent_goes_on_after_messages_were_removed():
    state = Versioned()
    agent = Agent(ScriptedModel(["one", "two"]))
    agent.run("first", state)
    state.conversation.pop()
    state.commit("taken back")
    outcome = agent.run("second", state)
    assert outcome.answer == "one"  # the script counts what the assistant has said
    assert texts(state.conversation) == ["first", "second", "one"]
