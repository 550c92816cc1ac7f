"""What was said is found again, the best first, and always in the same order."""

from __future__ import annotations

import unicodedata

import pytest

import otolith
from otolith.conversation import Conversation, Message, Role, Text, ToolCall


@pytest.fixture
def state():
    return otolith.open("memory:").session("s")


@pytest.fixture
def chat(state):
    chat = Conversation(state, clock=lambda: 1)
    chat.user("I want to fly to Lisbon")
    chat.assistant("Do you prefer an aisle or a window seat?")
    chat.user("An aisle seat, and a seat near the exit")
    chat.assistant(tool_calls=[ToolCall("c1", "book", {"seat": "12C", "city": "Lisbon"})])
    chat.tool("c1", "booked: aisle, confirmation QX7")
    chat.user("Und ein Café in der Nähe des Hotels?")
    chat.user("我想预订酒店")
    return chat


def test_words_that_stand_together_come_first(chat):
    hits = chat.search("aisle seat")

    assert [hit.index for hit in hits] == [2, 1, 4, 3]
    assert hits[0].words == ("aisle", "seat")
    assert "aisle seat" in hits[0].snippet


@pytest.mark.parametrize(
    ("query", "index"),
    [("LISBON", 0), ("seats", 2), ("cafe", 5), ("qx7", 4), ("酒店", 6), ("12c", 3)],
)
def test_case_accents_plurals_and_scripts_do_not_matter(chat, query, index):
    assert index in [hit.index for hit in chat.search(query)]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("항공권을 예약하고 싶어요", "예약"),
        ("항공권을 예약하고 싶어요", "항공권"),
        (unicodedata.normalize("NFD", "항공권을 예약하고 싶어요"), "예약"),
        ("ホテルを予約したい", "予約"),
        ("バスはどこですか", "バス"),
        ("ฉันต้องการจองโรงแรม", "โรงแรม"),
        ("मुझे होटल चाहिए", "होटल"),
        ("Straße nach Köln", "STRASSE koln"),
        ("Οδός Αθηνάς", "ΟΔΟΣ"),
        ("Ça coûte cher", "ca COUTE"),
        ("ﬁnd the ofﬁce", "office"),
    ],
)
def test_whatever_script_it_is_written_in_it_is_found(state, said, asked):
    chat = Conversation(state, thread="scripts", clock=lambda: 1)
    for text in ("hello", said, "1 2 3"):
        chat.user(text)

    assert [hit.index for hit in chat.search(asked)] == [1]


@pytest.mark.parametrize("said", ["Ça coûte cher", "Das ist groß", "…½ Ça coûte", "여행 예약"])
def test_a_snippet_is_what_was_said(state, said):
    chat = Conversation(state, thread="shown", clock=lambda: 1)
    chat.user(said)

    assert chat.search(said)[0].snippet == said


def test_a_snippet_is_cut_where_the_word_is(state):
    chat = Conversation(state, thread="long", clock=lambda: 1)
    chat.user("½ Maß Weißbier … " * 40 + "Ça coûte cher. " + "où ça? " * 40)

    (hit,) = chat.search("coute")

    assert "Ça coûte cher" in hit.snippet
    assert len(hit.snippet) <= 162


def test_nothing_is_found_for_what_nobody_said(chat):
    assert chat.search("zeppelin") == chat.search("") == chat.search("?!") == []


def test_only_so_many_are_given(chat):
    assert len(chat.search("seat", k=1)) == 1


def test_what_is_new_is_found_and_what_was_undone_is_not(state, chat):
    state.commit()
    assert chat.search("submarine") == []
    chat.user("or a submarine")
    assert [hit.index for hit in chat.search("submarine")] == [7]
    state.discard()
    assert chat.search("submarine") == []
    chat.user("by train")
    assert [hit.index for hit in chat.search("train")] == [7]


def test_a_thread_is_searched_by_itself(chat):
    chat.fork(1, "short").user("a window seat")

    assert [hit.index for hit in chat.thread("short").search("seat")] == [1]


def test_what_means_the_same_is_found_with_vectors(chat):
    asked = []

    def embed(texts):
        asked.append(len(texts))
        return [[float("fly" in text or "plane" in text), 0.1] for text in texts]

    assert chat.search("plane", k=1, embed=embed)[0].index == 0
    chat.search("plane", k=1, embed=embed)
    assert asked == [8, 1]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("我想预订酒店", "酒店"),
        ("ホテルを予約したい", "予約"),
        ("항공권을 예약하고 싶어요", "예약"),
    ],
)
def test_a_note_is_recalled_by_the_words_that_a_search_knows(state, said, asked):
    state.memory.note("wish", said)
    state.memory.note("other", "an aisle seat near the exit")

    assert [each.key for each in state.memory.recall(asked) if each.relevance > 0.5] == ["wish"]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("boxes of oranges", "box"),
        ("all the cities", "city"),
        ("he runs", "run"),
        ("we stopped there", "stop"),
        ("zwei Flüge", "Flug"),
        ("Buchungen", "buchung"),
    ],
)
def test_endings_do_not_matter_as_in_notes(state, said, asked):
    chat = Conversation(state)
    chat.user("something else")
    chat.user(said)
    state.memory.note("said", said)

    assert [hit.message.text for hit in chat.search(asked)] == [said]
    assert [note.value for note in state.memory.recall(asked)] == [said]


def test_a_hit_names_the_words_as_they_were_asked_for(state):
    chat = Conversation(state)
    chat.user("Cities and prices")
    assert chat.search("price of a city")[0].words == ("price", "city")


def test_the_name_of_who_said_it_counts(state):
    chat = Conversation(state, clock=lambda: 1)
    for name in ("ann", "bob", "cleo"):
        chat.append(Message(Role.USER, (Text("I adopted a cat"),), name=name))

    assert chat.search("what did Bob adopt?")[0].index == 1


def test_an_answer_is_found_by_the_words_of_its_question(state):
    chat = Conversation(state, clock=lambda: 1)
    chat.user("I live in Rome, the weather is fine")
    chat.user("Why did you move to Sweden?")
    chat.user("My grandma lives there")
    for text in ("What is new?", "I live quietly", "Good to hear", "Bye"):
        chat.user(text)

    assert [hit.index for hit in chat.search("who lives in Sweden", k=2)] == [1, 2]


def test_a_message_without_a_word_of_the_query_is_not_found_for_its_neighbours(state):
    chat = Conversation(state, clock=lambda: 1)
    chat.user("a zebra")
    chat.user("hello")

    assert [hit.index for hit in chat.search("zebra")] == [0]
