"""Summaries are made once, belong to what they are of, and go where it goes."""

from __future__ import annotations

from itertools import count

import pytest

import otolith
from otolith.agent.conversation import Conversation, Message, Role, Text, extractive
from otolith.errors import Invalid

PARAGRAPH = "The flight leaves in the morning and arrives at night, with one stop. " * 4


@pytest.fixture
def state():
    return otolith.open("memory:").session("s")


@pytest.fixture
def chat(state):
    times = count(1000)
    chat = Conversation(state, clock=lambda: next(times))
    for number in range(60):
        chat.user(f"question {number}? {PARAGRAPH}")
        chat.assistant(f"answer {number}. {PARAGRAPH}")
    state.commit()
    return chat


class Teller:
    """A summariser that counts how often it is asked."""

    model, prompt = "teller-1", "tell it"

    def __init__(self):
        self.asked = []

    def __call__(self, messages, before, /):
        self.asked.append((len(messages), before))
        return f"summary {len(self.asked)}"


def test_a_summariser_is_asked_once_for_the_same_messages(chat):
    teller = Teller()

    first = chat.context(2000, "openai", summariser=teller)
    again = chat.context(2000, "openai", summariser=teller)

    assert len(teller.asked) == 1
    assert first.summary == again.summary == "summary 1"
    assert "written by a machine" in first.messages[0]["content"]
    assert first.messages == again.messages
    assert {each.done for each in first.why} >= {"summarised"}


def test_a_summary_goes_on_from_the_one_before(chat):
    teller = Teller()
    chat.summarise(50, summariser=teller)
    chat.summarise(80, summariser=teller)

    assert teller.asked == [(50, ""), (30, "summary 1")]


def test_another_prompt_or_model_is_another_summary(chat):
    teller, other = Teller(), Teller()
    other.prompt = "tell it better"
    chat.summarise(50, summariser=teller)
    chat.summarise(50, summariser=other)

    assert len(teller.asked) == len(other.asked) == 1


def test_forks_share_summaries_of_what_they_share(state, chat):
    teller = Teller()
    chat.summarise(50, summariser=teller)
    same, edited = chat.fork(100), chat.edit(20, "something else")

    same.summarise(50, summariser=teller)
    assert len(teller.asked) == 1
    edited.extend(Message(Role.USER, (Text(f"more {n}"),)) for n in range(60))
    edited.summarise(50, summariser=teller)
    assert len(teller.asked) == 2


def test_a_rollback_undoes_a_summary(state, chat):
    teller = Teller()
    before = state.head
    chat.summarise(50, summariser=teller)
    state.commit()
    state.rollback(before)

    chat.summarise(50, summariser=teller)

    assert len(teller.asked) == 2


def test_a_summary_that_is_there_is_used_without_a_summariser(chat):
    start = chat.context(2000, "openai").start
    chat.summarise(start + 4, summariser=Teller())

    context = chat.context(2000, "openai")

    assert context.summary == "summary 1"
    assert context.start == start + 4
    assert context.tokens <= 2000


def test_a_summariser_that_fails_leaves_a_window_and_a_reason(chat):
    def broken(messages, before):
        raise TimeoutError("no answer")

    context = chat.context(2000, "openai", summariser=broken)

    assert context.summary == ""
    assert context.messages
    assert any("no answer" in each.why for each in context.why)


def test_the_log_is_as_it_was(chat):
    before = list(chat)
    chat.context(500, "anthropic", summariser=extractive)

    assert list(chat) == before


def test_there_must_be_something_to_summarise(state):
    with pytest.raises(Invalid):
        Conversation(state, thread="empty", clock=lambda: 1).summarise()


# ---------------------------------------------------------------- without a model


def test_the_built_in_summary_has_what_the_user_wanted_first():
    said = [
        Message(Role.USER, (Text("Book me a flight to Lisbon for Anna. Thanks!"),)),
        Message(Role.ASSISTANT, (Text("Sure. " + PARAGRAPH * 30),)),
        Message(Role.USER, (Text("An aisle seat, please."),)),
    ]

    told = extractive(said)

    assert told.startswith("user: Book me a flight to Lisbon for Anna.")
    assert len(told) < 3000
    assert told == extractive(said)
