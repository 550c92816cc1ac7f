"""What was said is found again, the best first, and always in the same order."""

from __future__ import annotations

import pytest

import otolith
from otolith.agent.conversation import Conversation, ToolCall


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
