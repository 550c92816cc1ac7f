"""A context does as little to a log as it must, in a fixed order, and says what it did."""

from __future__ import annotations

from itertools import count

import pytest

import otolith
from otolith.conversation import Conversation, Extra, Message, Role, Text, TokenCounter, ToolCall
from otolith.conversation.context import ContextBuilder, ContextRules, MessageSource
from otolith.conversation.context.budget import roundest
from otolith.conversation.storage import ConversationStore
from otolith.errors import Invalid, OverBudget
from tests.unit.conversation.legality import faults

PARAGRAPH = "The flight leaves in the morning and arrives at night, with one stop. " * 4
ASKED, GIVEN = "mcp_approval_request", "mcp_approval_response"
PROVIDERS = ["openai", "responses", "anthropic", "plain"]


@pytest.fixture
def state():
    return otolith.open("memory:").session("s")


@pytest.fixture
def chat(state):
    times = count(1000)
    return Conversation(state, clock=lambda: next(times))


def stepped(chat, number, result, tool="search", arguments=None):
    """Let the assistant call a tool and the tool answer."""
    chat.assistant(tool_calls=[ToolCall(f"c{number}", tool, arguments or {"n": number})])
    chat.tool(f"c{number}", result)


def done(context):
    return [each.done for each in context.why]


def counted(monkeypatch):
    """Return a list that grows with every message that is read from the store."""
    read: list[int] = []
    whole = ConversationStore._decode

    def counting(self, cell, at):
        read.append(at)
        return whole(self, cell, at)

    monkeypatch.setattr(ConversationStore, "_decode", counting)
    return read


# ---------------------------------------------------------------- tiers


def test_what_fits_is_not_touched(chat):
    chat.system("be brief")
    chat.user("hello")
    stepped(chat, 1, "x" * 2000)

    context = chat.context(10_000, "openai")

    assert context.why == ()
    assert len(context.messages) == 4


def test_one_huge_part_keeps_its_head_and_tail(chat):
    chat.user("read it")
    stepped(chat, 1, "BEGIN " + PARAGRAPH * 100 + " END")

    context = chat.context(1000, "openai")
    said = context.messages[-1]["content"]

    assert done(context) == ["clamped"]
    assert said.startswith("BEGIN")
    assert said.endswith("END")
    assert "left out" in said
    assert context.tokens <= 1000


def test_a_file_that_was_read_again_is_told_once(chat):
    chat.user("work on it")
    for number in range(4):
        stepped(chat, number, PARAGRAPH * 2, "read", {"path": "a.py"})
    for number in range(4, 8):
        stepped(chat, number, f"ok {number}", "write")

    context = chat.context(680, "openai")
    results = [each["content"] for each in context.messages if each["role"] == "tool"]

    assert results.count(PARAGRAPH * 2) == 1
    assert done(context) == ["repeated"] * 3


def test_old_results_are_blanked_before_anything_is_dropped(chat):
    chat.user("work on it")
    for number in range(12):
        stepped(chat, number, f"{number}: {PARAGRAPH}")

    context = chat.context(900, "openai")

    assert set(done(context)) == {"blanked"}
    assert len(context.messages) == 25
    assert context.messages[-1]["content"] == f"11: {PARAGRAPH}"


def test_what_does_not_fit_is_dropped_in_whole_units(chat):
    chat.system("be brief")
    for number in range(40):
        chat.user(f"question {number}? {PARAGRAPH}")
        stepped(chat, number, f"{number}: {PARAGRAPH}")
        chat.assistant(f"answer {number}. {PARAGRAPH}")

    context = chat.context(2000, "openai")

    assert faults(context.messages, "openai") == []
    assert context.messages[0] == {"role": "system", "content": "be brief"}
    assert context.messages[1]["role"] == "user"
    assert context.dropped.ranges == (range(1, context.start),)
    assert ("dropped", "older than what fits") in [each[2:] for each in context.why]
    assert context.tokens <= 2000


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_the_user_asked_stays_though_the_agent_worked_for_long(chat, provider):
    chat.user("the task is this")
    for number in range(300):
        stepped(chat, number, f"{number}: {PARAGRAPH}")

    context = chat.context(1500, provider)

    assert "the task is this" in str(context.messages[0])
    assert faults(context.messages, provider) == []
    assert ("kept", "the user's last message") in [each[2:] for each in context.why]


def test_what_was_pinned_stays_with_its_call_and_results(chat):
    chat.system("be brief")
    chat.user("hello")
    stepped(chat, 0, "important")
    chat.pin(3)
    for number in range(1, 100):
        chat.user(f"{number} {PARAGRAPH}")

    context = chat.context(1000, "anthropic")

    assert "important" in str(context.messages)
    assert faults(context.messages, "anthropic") == []
    assert not {0, 2, 3} & set(context.dropped)


def test_a_result_to_a_call_that_was_pinned_stays_too(chat):
    call = ToolCall("c1", "search", {})
    chat.append(Message(Role.ASSISTANT, (call,), is_pinned=True))
    chat.tool("c1", "kept as well")
    for number in range(100):
        chat.user(f"{number} {PARAGRAPH}")

    assert "kept as well" in str(chat.context(1000, "openai").messages)


def test_what_answers_a_pinned_part_stays_with_it_in_a_list_too():
    asked = Extra(f"responses:{ASKED}", {"type": ASKED, "id": "m"})
    given = {"type": GIVEN, "approval_request_id": "m", "approve": True}
    talk = [Message(Role.USER, (Text(f"{number} {PARAGRAPH}"),)) for number in range(100)]
    answered = Message(Role.TOOL, (Extra(f"responses:{GIVEN}", given),), is_pinned=True)

    source = MessageSource.of([Message(Role.ASSISTANT, (asked,)), *talk, answered])

    assert source.permanent == (0, 101)
    assert (
        str(ContextBuilder(source, ContextRules(500, "responses")).build().messages).count("'m'")
        == 2
    )


# ---------------------------------------------------------------- pairs


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_without_a_result_gets_one_that_says_so(chat, provider):
    chat.user("go")
    chat.assistant(tool_calls=[ToolCall("a", "f"), ToolCall("b", "f")])
    chat.tool("b", "done")
    chat.user("what happened?")

    context = chat.context(1000, provider)

    assert faults(context.messages, provider) == []
    assert "interrupted" in str(context.messages)
    assert done(context) == ["interrupted"]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_result_that_came_late_is_put_with_its_call(chat, provider):
    chat.user("go")
    chat.assistant(tool_calls=[ToolCall("a", "f")])
    chat.user("are you there?")
    chat.tool("a", "done")

    context = chat.context(1000, provider)

    assert faults(context.messages, provider) == []
    assert "interrupted" not in str(context.messages)
    assert "are you there?" in str(context.messages[-1])


# ---------------------------------------------------------------- budgets


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_budget_below_the_system_prompt_is_an_error_that_says_what_is_needed(chat, provider):
    chat.system(PARAGRAPH)
    chat.user("hello")

    with pytest.raises(OverBudget) as refused:
        chat.context(20, provider)

    assert refused.value.budget == 20
    assert chat.context(refused.value.needed, provider).tokens <= refused.value.needed


def test_tools_take_their_part_of_the_budget(chat):
    chat.user("hello")

    assert chat.context(100, tools_tokens=50).tokens == chat.context(100).tokens + 50
    with pytest.raises(OverBudget):
        chat.context(100, tools_tokens=99)


@pytest.mark.parametrize("wrong", [{"for_": "nobody"}, {"budget": -1}, {"keep_last": -1}])
def test_a_context_that_makes_no_sense_is_refused(chat, wrong):
    with pytest.raises(Invalid):
        chat.context(**{"budget": 100} | wrong)


def test_how_much_is_read_depends_on_the_budget_and_not_on_the_log(state, chat, monkeypatch):
    said = (f"{number} {PARAGRAPH}" for number in range(3000))
    chat.extend(Message(Role.USER, (Text(text),)) for text in said)
    state.commit()
    read = counted(monkeypatch)

    Conversation(state.at("@")).context(2000, "openai")

    assert len(read) < 60


def test_of_a_huge_result_only_so_much_is_looked_at_as_may_be_left(chat):
    chat.user("read it")
    stepped(chat, 1, "some words here and there " * 40_000)
    looked = []

    def letters(text):
        looked.append(len(text))
        return len(text) // 4

    context = chat.context(2000, "openai", counter=TokenCounter("letters", letters))

    assert context.tokens <= 2000
    assert sum(looked) - 40_000 * 26 < 100_000  # it is counted once as a whole


# ---------------------------------------------------------------- what is said about it


def test_what_says_nothing_to_this_provider_is_told(chat):
    chat.user("go")
    chat.assistant([Extra("responses:web_search_call", {"type": "web_search_call", "id": "w"})])
    chat.extend([Message(Role.USER, (Text(" "),))], allow_empty=True)
    chat.assistant(reasoning="hm")

    context = chat.context(1000, "openai")

    assert [each[0::2] for each in context.why] == [(2, "empty"), (3, "orphaned"), (1, "foreign")]
    assert "foreign" not in done(chat.context(1000, "responses"))


# ---------------------------------------------------------------- prompt caches


def test_to_ask_whether_a_cache_holds_asks_no_model(chat):
    asked = []

    def summariser(messages, before):
        asked.append(len(messages))
        return "they talked"

    for number in range(60):
        chat.user(f"question {number}? {PARAGRAPH}")
        chat.assistant(f"answer {number}. {PARAGRAPH}")
    context = chat.context(2000, "openai", summariser=summariser)
    assert len(asked) == 1

    assert context.prefix_kept in (True, False)
    assert len(asked) == 1


def test_a_new_summary_is_known_to_break_a_cache(chat):
    """Each context is compared with the one that was really sent before it."""
    before, truths = None, []
    for number in range(80):
        chat.user(f"question {number}? {PARAGRAPH}")
        context = chat.context(3000, "openai", summariser=lambda messages, told: "they talked")
        if before is not None:
            truths.append((context.prefix_kept, context.extends(before)))
        before = context
        chat.assistant(f"answer {number}. {PARAGRAPH}")

    assert all(told == true for told, true in truths)
    assert 3 < sum(not true for _, true in truths) < 30


def test_what_a_provider_counted_may_break_a_cache_and_that_is_told(chat):
    before, truths = None, []
    for number in range(60):
        chat.user(f"question {number}? {PARAGRAPH}")
        context = chat.context(3000, "openai")
        if before is not None:
            truths.append((context.prefix_kept, context.extends(before)))
        before = context
        chat.assistant(f"answer {number}. {PARAGRAPH}")
        chat.usage(input_tokens=context.estimate * (1 + number // 20), context=context)

    assert all(told == true for told, true in truths)


@pytest.mark.parametrize("is_pinned", [True, False])
def test_a_pin_breaks_a_cache_and_that_is_told(chat, is_pinned):
    for number in range(60):
        chat.user(f"question {number}? {PARAGRAPH}", is_pinned=not is_pinned and number == 1)
        chat.assistant(f"answer {number}. {PARAGRAPH}")
    chat.user("first")
    before = chat.context(3000, "openai")
    chat.assistant("yes")
    chat.pin(2, is_pinned=is_pinned)
    chat.user("second")
    after = chat.context(3000, "openai")

    assert (after.prefix_kept, after.extends(before)) == (False, False)
    chat.assistant("yes")
    chat.user("third")
    assert chat.context(3000, "openai").prefix_kept


def test_a_fork_does_not_know_of_later_pins(chat):
    for number in range(30):
        chat.user(f"question {number}? {PARAGRAPH}")
        chat.assistant(f"answer {number}. {PARAGRAPH}")
    chat.pin(2)
    other = chat.fork(40)
    other.user("first")
    other.assistant("yes")
    other.user("second")

    assert other[2].is_pinned
    assert other.context(2000, "openai").prefix_kept


def test_a_cut_stays_where_it_is_for_many_messages(chat):
    starts, kept = [], 0
    for number in range(200):
        chat.user(f"question {number}? {PARAGRAPH}")
        context = chat.context(6000, "openai")
        starts.append(context.start)
        kept += context.prefix_kept
        chat.assistant(f"answer {number}. {PARAGRAPH}")

    assert starts == sorted(starts)
    assert 2 < len(set(starts)) < 30
    assert kept > 170


def test_a_context_says_whether_a_cached_prompt_still_holds(chat):
    chat.user("one")
    first = chat.context(10_000, "anthropic")
    chat.assistant("two")
    chat.user("three")
    second = chat.context(10_000, "anthropic")

    assert first.prefix_kept
    assert second.prefix_kept
    assert second.extends(first)
    assert not first.extends(second)


@pytest.mark.parametrize(
    ("low", "high", "found"), [(5, 9, 8), (9, 11, 10), (0, 5, 0), (7, 7, 7), (33, 70, 64)]
)
def test_the_roundest_number_has_the_most_zeros(low, high, found):
    assert roundest(low, high) == found
