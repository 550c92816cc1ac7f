"""Summaries are made once, belong to what they are of, and go where it goes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import count

import pytest

import otolith
from otolith.conversation import Attachment, Conversation, Message, Role, Text, extractive
from otolith.conversation.summaries import summariser_key
from otolith.errors import BadValue, Invalid

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


@pytest.mark.parametrize("nonsense", [None, "", "  \n", 7, b"They talked."])
def test_nonsense_is_no_summary(chat, nonsense):
    context = chat.context(2000, "openai", summariser=lambda *_: nonsense)

    assert context.summary == ""
    assert "no summary" in context.why[0].why
    assert chat._store.cell("summaries") is None
    with pytest.raises(BadValue):
        chat.summarise(50, summariser=lambda *_: nonsense)


def test_a_summariser_gets_messages_that_can_be_added_elsewhere(chat):
    chat.user([Text("see"), Attachment("image/png", b"PNG", name="a.png")])
    other = chat.thread("other")

    def tell(messages, before):
        other.extend(messages[-1:])
        return "They looked at a picture."

    chat.summarise(summariser=tell)

    assert other[0].parts[1].data == b"PNG"


class Style:
    """Something with methods that summarise."""

    def __init__(self, style):
        self.style = style

    def tell(self, messages, before):
        return f"told {self.style}"


@dataclass(frozen=True)
class Fixed(Style):
    """Something that can be told from others by what it is made of."""

    style: str


def closing(word):
    return lambda messages, before: f"told {word}"


def said(messages, before, *, word):
    return f"told {word}"


@pytest.mark.parametrize(
    "make",
    [
        closing,
        lambda word: Style(word).tell,
        lambda word: Fixed(word).tell,
        lambda word: partial(said, word=word),
        lambda word: (lambda m, b: "told one") if word == "one" else (lambda m, b: "told two"),
    ],
    ids=["closures", "methods", "methods of data", "partials", "lambdas"],
)
def test_two_functions_of_one_name_are_two_summarisers(chat, make):
    one, two = make("one"), make("two")

    assert chat.summarise(50, summariser=one).text == "told one"
    assert chat.summarise(50, summariser=two).text == "told two"
    assert chat.summarise(50, summariser=one).text == "told one"


@pytest.mark.parametrize(
    "make", [closing, lambda word: Fixed(word).tell, lambda word: partial(said, word=word)]
)
def test_what_is_made_again_of_the_same_is_the_same_summariser(make):
    assert summariser_key(make("one")) == summariser_key(make("one")) != summariser_key(make("two"))


def test_a_summariser_that_counts_its_calls_is_asked_once(chat):
    asked = []

    def tell(messages, before):
        asked.append(len(messages))
        return "They talked."

    for _ in range(3):
        chat.context(2000, "openai", summariser=tell)

    assert len(asked) == 1


def test_an_object_that_may_change_is_only_known_as_itself():
    one = Style("one")

    assert summariser_key(one.tell) == summariser_key(one.tell) != summariser_key(Style("one").tell)


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
