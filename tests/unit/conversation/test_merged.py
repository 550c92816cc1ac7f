"""A merged log is read for what it is: nothing that was known of another one is told of it."""

from __future__ import annotations

import pytest

import otolith
from otolith.conversation import Conversation
from otolith.conversation.summaries import SummaryStore


@pytest.fixture
def sides():
    """Three branches of one conversation: its own, and two that went on beside it."""
    state = otolith.open("memory:").session("s")
    state.conversation.user("hello")
    state.commit("base")
    ours, theirs = state.fork("a"), state.fork("b")
    ours.conversation.user("Find a hotel called Astoria")
    ours.commit("a")
    theirs.conversation.user("Find a restaurant called Bristol in Rome, with a table for two")
    theirs.commit("b")
    state.conversation.user("thanks")
    state.commit("s")
    return state, ours, theirs


def known(chat):
    """Return all that is worked out of a whole thread."""
    said = [hit.message.text for hit in chat.search("astoria")]
    labels = [each.label for each in chat.entities()]
    return said, chat.tokens, labels, [each.spans for each in chat.topics()]


def test_another_merge_is_another_conversation_though_it_ends_alike(sides):
    state, ours, theirs = sides
    chat = state.conversation
    state.merge(ours)
    first = known(chat)
    state.undo()

    state.merge(theirs)

    assert first[0] == ["Find a hotel called Astoria"]
    assert known(chat) == known(Conversation(state.at("@")))
    assert chat.search("astoria") == []


def test_a_summary_of_one_merge_is_not_that_of_another(sides):
    state, ours, theirs = sides
    summaries = SummaryStore(state.conversation._store)
    state.merge(ours)
    one = summaries._name(3, "model", "")
    state.undo()
    state.merge(theirs)

    assert state.conversation[2].text == "thanks"
    assert summaries._name(3, "model", "") != one


def test_what_is_new_is_read_and_nothing_else(sides):
    state, ours, _ = sides
    chat = state.conversation
    state.merge(ours)
    chat.search("hotel")
    index = chat._store.cache.indices["main"].value
    chat.user("One more word about Astoria")

    assert len(chat.search("astoria")) == 2
    assert chat._store.cache.indices["main"].value is index
