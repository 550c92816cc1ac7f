"""Two branches that both went on are one conversation: nothing is lost, and contexts stay legal."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

import otolith
from otolith.conversation import Conversation, Role, ToolCall
from otolith.errors import BadMessage, OverBudget
from tests.unit.conversation.legality import faults

FEWER = settings(max_examples=max(settings().max_examples // 2, 20))
PROVIDERS = ("openai", "responses", "anthropic", "plain")
IDS = ["a", "b", "c.1"]

texts = st.sampled_from(["yes", "Find me a flight to NYC.", "word " * 80, "日本語" * 30])
additions = st.one_of(
    st.tuples(st.just("user"), texts),
    st.tuples(st.just("assistant"), texts),
    st.tuples(st.just("system"), texts),
    st.tuples(st.just("pinned"), texts),
    st.tuples(st.just("call"), st.lists(st.sampled_from(IDS), min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("answer"), st.sampled_from(IDS)),
    st.tuples(st.just("summarise"), st.just("")),
)
removals = st.one_of(
    st.tuples(st.just("pop"), st.just("")),
    st.tuples(st.just("clear"), st.just("")),
    st.tuples(st.just("prompt"), texts),
)
acts = st.one_of(additions, additions, additions, removals)
sides = st.lists(acts, max_size=8)


def act(chat, acts):
    """Do what can be done: a call that was made on this branch already is refused."""
    for what, given_ in acts:
        try:
            if what == "call":
                chat.assistant(tool_calls=[ToolCall(id, "search", {"q": id}) for id in given_])
            elif what == "answer":
                chat.tool(given_, "found " * 30)
            elif what == "pinned":
                chat.user(given_, is_pinned=True)
            elif what == "clear":
                chat.clear()
            elif what == "prompt":
                chat.system_prompt = given_
            elif what in ("summarise", "pop") and len(chat):
                getattr(chat, what)()
            elif what not in ("summarise", "pop"):
                getattr(chat, what)(given_)
        except BadMessage as error:
            assert error.problem in ("duplicate_call", "no_call", "answered")  # noqa: PT017


def branches(base, ours, theirs):
    times = count(1)
    repo = otolith.open("memory:", clock=lambda: next(times))
    state = repo.session("s")
    act(state.conversation, base)
    state.commit(allow_empty=True)
    other = state.fork("other")
    act(state.conversation, ours)
    state.commit(allow_empty=True)
    act(other.conversation, theirs)
    other.commit(allow_empty=True)
    return state, other


@FEWER
@given(sides, sides, sides, st.integers(0, 400) | st.integers(0, 3000))
def test_a_merged_conversation_loses_nothing_and_its_contexts_are_legal(base, ours, theirs, budget):
    state, other = branches(base, ours, theirs)
    shared = ids(state.at("@~1"))
    mine, yours = ids(state), ids(other)
    wanted = (shared & mine & yours) + (mine - shared) + (yours - shared)

    merge = state.merge(other)

    chat = Conversation(state.at("@"))
    assert merge.ok
    assert Counter(each.id for each in chat) == wanted
    assert chat.tokens == sum(each.tokens.count for each in chat if each.tokens)
    check(chat, budget)


def ids(state):
    return Counter(each.id for each in Conversation(state))


@FEWER
@given(sides, sides, sides)
def test_every_call_of_a_merged_conversation_can_be_answered_once(base, ours, theirs):
    state, other = branches(base, ours, theirs)
    state.merge(other)
    chat = state.conversation
    called = {call.id for each in chat for call in each.calls}
    answered = {result.call_id for each in chat for result in each.results}
    for id in sorted(called - answered):
        chat.tool(id, "late")
    for id in IDS:
        if id in called:
            with pytest.raises(BadMessage) as refused:
                chat.assistant(tool_calls=[ToolCall(id, "search")])
            assert refused.value.problem == "duplicate_call"
        else:
            chat.assistant(tool_calls=[ToolCall(id, "search")])


@FEWER
@given(sides, sides, sides, st.lists(additions, max_size=8))
def test_a_merged_conversation_goes_on(base, ours, theirs, after):
    state, other = branches(base, ours, theirs)
    state.merge(other)
    chat = state.conversation
    before = [each.id for each in chat]

    act(chat, after)

    assert [each.id for each in chat][: len(before)] == before
    check(chat, 1000)


@FEWER
@given(sides, sides, sides)
def test_whoever_merges_whom_gets_the_same_conversation(base, ours, theirs):
    state, other = branches(base, ours, theirs)
    mine, yours = state.fork("mine"), other.fork("yours")
    mine.merge(other)
    yours.merge(state)

    assert list(mine.conversation) == list(yours.conversation)


some = st.lists(acts, min_size=1, max_size=2)


@given(some, some, some, some)
@example(
    [("user", "yes")],
    [("user", "Find me a flight to NYC.")],
    [("assistant", "Take the train to Rome.")],
    [("user", "thanks")],
)
def test_what_is_known_of_one_merge_is_not_told_of_another(base, one, two, ours):
    state, first = branches(base, [], one)
    second = state.fork("second")
    act(second.conversation, two)
    second.commit(allow_empty=True)
    chat = state.conversation
    act(chat, ours)  # said last, so that both merges may end with it
    state.commit(allow_empty=True)
    state.merge(first)
    known(chat)
    state.undo()

    state.merge(second)

    assert known(chat) == known(Conversation(state.at("@")))


def known(chat):
    """Return all that is worked out of a whole thread and kept in memory."""
    found = [(hit.index, hit.score) for hit in chat.search("flight to find, yes")]
    labels = [(each.label, each.mentions) for each in chat.entities()]
    spans = [each.spans for each in chat.topics()]
    told = [(each.entity.label, each.score) for each in chat.resolve("it")]
    return found, labels, spans, told, chat.tokens, chat._store.last_user_index()


def check(chat, budget):
    """Check what is told of a log without reading all of it, and what is sent of it."""
    said = list(chat)
    users = [at for at, each in enumerate(said) if each.role is Role.USER]
    stays = [at for at, each in enumerate(said) if each.role is Role.SYSTEM or each.is_pinned]
    assert list(chat._store.permanent_indices()) == stays
    assert chat._store.last_user_index() == (users[-1] if users else None)
    for provider in PROVIDERS:
        try:
            context = chat.context(budget, provider)
        except OverBudget as error:
            event("over budget")
            assert error.needed > budget  # noqa: PT017
            continue
        event("cut" if len(context.dropped) else "whole")
        assert context.tokens <= budget
        assert faults(context.messages, provider, context.system) == []
        for text in {said[at].text for at in stays}:
            assert text.strip() in str(context.messages) + str(context.system)
