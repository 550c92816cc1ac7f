"""For every history and budget, a context is legal and fits, or says why it cannot be."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from otolith.conversation import (
    Attachment,
    Extra,
    Message,
    Reasoning,
    Role,
    Text,
    Tokens,
    ToolCall,
    ToolResult,
    read,
)
from otolith.conversation.context import (
    ContextBuilder,
    ContextRules,
    MessageSource,
    all_messages_for,
)
from otolith.conversation.token_counts import ESTIMATED, Calibration, ProviderCount, TokenCounter
from otolith.errors import OverBudget
from otolith.text.tokens import estimate_tokens
from tests.unit.conversation.legality import faults

PROVIDERS = ("openai", "responses", "anthropic", "plain")

APPROVAL = "mcp_approval"
ids = st.sampled_from(["a", "b", "d.1", "d_1", "x" * 70, "x" * 71])
texts = st.sampled_from(
    ["yes", "Find me a flight to NYC.", " ", "", "word " * 60, "long words " * 900, "日本語" * 40]
)
said = texts.map(Text)
reasoning = st.builds(Reasoning, texts, st.sampled_from(["", "sig"]))
item = st.just(Reasoning("thought", "sealed", {"from": "responses", "id": "rs_1"}))
attachments = st.sampled_from(
    [
        Attachment("image/png", b"\x89PNG", name="a.png"),
        Attachment("application/pdf", b"%PDF", name="a.pdf"),
        Attachment("text/plain", b"Gate 7"),
        Attachment("text/plain", b"word " * 3000, name="long.txt"),
        Attachment("application/zip", b"PK"),
        Attachment("image/svg+xml", b"<svg/>"),
        Attachment("audio/wav", b"RIFF"),
        Attachment("video/mp4", b"mp4", name="film.mp4"),
        Attachment("application/pdf", url="https://x/a.pdf"),
        Attachment("image/*", url="https://x/a"),
    ]
)
extras = st.sampled_from(
    [
        Extra("anthropic:redacted_thinking", {"type": "redacted_thinking", "data": "xyz"}),
        Extra("openai:refusal", {"type": "refusal", "refusal": "no"}),
        Extra("responses:web_search_call", {"type": "web_search_call", "id": "ws_1"}),
        Extra("responses:mcp_call", {"type": "mcp_call", "id": "m", "output": "word " * 900}),
        Extra("openai:audio", {"id": "audio_1"}),
        *(
            Extra(f"responses:{APPROVAL}_request", {"type": f"{APPROVAL}_request", "id": id})
            for id in ("m1", "m2")
        ),
    ]
)
approvals = st.sampled_from(["m1", "m2"]).map(
    lambda name: Extra(
        f"responses:{APPROVAL}_response",
        {"type": f"{APPROVAL}_response", "approval_request_id": name, "approve": True},
    )
)
documents = st.just(
    Extra(
        "anthropic:document",
        {"type": "document", "source": {"type": "content", "content": "Gate 7 is closed."}},
    )
)
calls = st.builds(
    ToolCall,
    ids,
    st.sampled_from(["search", "read.file"]),
    st.sampled_from(
        [
            {},
            {"q": "x"},
            {"text": "file " * 1000},
            {"numbers": list(range(1000))},
            {f"key {number}": number for number in range(150)},
            {"deep": [{"a": {"b": ["word " * 20] * 60}}]},
        ]
    ),
    extra=st.sampled_from([{}, {}, {"item": "custom_tool_call"}, {"item": "computer_call"}]),
) | st.builds(ToolCall, ids, st.just("run"), raw=texts, extra=st.just({"type": "custom"}))
results = st.builds(
    ToolResult, ids, texts | st.tuples(said) | st.tuples(said, attachments), st.booleans()
)


FOUND = (
    Extra(
        "anthropic:server_tool_use", {"type": "server_tool_use", "id": "s1", "name": "web_search"}
    ),
    Extra(
        "anthropic:web_search_tool_result",
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": "word " * 700},
    ),
)
"""What a server was asked and what it found, which go together."""


def message(role, *parts, most=4):
    inside = st.lists(st.one_of(*parts), max_size=most).map(_flat)
    return st.builds(
        Message,
        st.just(role),
        inside,
        name=st.sampled_from(["", "", "ann", "Ann Lee"]),
        is_pinned=st.integers(0, 9).map(lambda n: n > 8),
        tokens=st.sampled_from([None, None, None, Tokens(1, "openai"), Tokens(9_000, "openai")]),
    )


def _flat(parts):
    return tuple(one for part in parts for one in (part if type(part) is tuple else (part,)))


wild = st.lists(
    message(Role.SYSTEM, said, attachments, most=2)
    | message(Role.USER, said, attachments, results, approvals, documents)
    | message(Role.ASSISTANT, said, reasoning, item, calls, extras, st.just(FOUND), attachments)
    | message(Role.TOOL, results, approvals),
    max_size=25,
)
"""Logs that nobody should have: orphans, repeated ids, calls without results, empty messages."""


@st.composite
def tame(draw):
    """Draw a log as an agent would leave it, of any length."""
    log = [Message(Role.SYSTEM, (Text("You book flights."),))] * draw(st.integers(0, 1))
    number = 0
    for _ in range(draw(st.integers(0, 12))):
        log.append(Message(Role.USER, (Text(draw(texts).strip() or "hello"),)))
        for _ in range(draw(st.integers(0, 3))):
            made = []
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                call = draw(calls)
                made.append(replace(call, id=f"c{number}", extra={}))
            log.append(Message(Role.ASSISTANT, (*draw(st.lists(reasoning, max_size=1)), *made)))
            if draw(st.integers(0, 4)) == 4:  # the results come late
                log.append(Message(Role.USER, (Text("meanwhile, is it raining?"),)))
                log.append(Message(Role.ASSISTANT, (Text("no"),)))
            log += [Message(Role.TOOL, (ToolResult(each.id, draw(texts)),)) for each in made]
        log.append(Message(Role.ASSISTANT, (Text(draw(texts).strip() or "done"),)))
    return log


logs = wild | tame()
budgets = st.integers(0, 400) | st.integers(0, 20_000)


def anchored(whole, some):
    """Return a scale by which some messages count for more or less than the others."""
    first = ProviderCount(3, 400, 0, 400)
    second = ProviderCount(6, 400 + int(100 * some), 0, 500)
    return Calibration([first, second, ProviderCount(9, int(1000 * whole), 0, 1000, 1)])


factors = st.sampled_from([0.25, 0.5, 1.0, 1.0, 1.3, 3.0, 4.0])
scales = st.builds(anchored, factors, factors)


def of(log, scale):
    return replace(MessageSource.of(log), calibration=scale)


JOB = [
    Message(Role.ASSISTANT, (Text("old " * 300),)),
    Message(Role.ASSISTANT, (ToolCall("c1", "job", {"x": "y " * 300}),)),
    Message(Role.USER, (Text("meanwhile: is it raining?"),)),
    Message(Role.ASSISTANT, (Text("no"),)),
    Message(Role.TOOL, (ToolResult("c1", "JOB FINISHED"),)),
    Message(Role.ASSISTANT, (Text("bye " * 60),)),
]


@given(logs, budgets, st.sampled_from(PROVIDERS), st.integers(0, 6), st.integers(0, 6), scales)
@example(
    [Message(Role.ASSISTANT, (ToolCall("x" * 70, "search"),))], 52, "openai", 0, 0, Calibration()
)
@example(JOB, 70, "openai", 4, 5, Calibration())
def test_a_context_is_legal_and_fits_or_says_why_not(log, budget, provider, last, results, scale):
    rules, over = ContextRules(budget, provider, keep_last=last, keep_results=results), None
    try:
        context = ContextBuilder(of(log, scale), rules).build()
    except OverBudget as error:
        event("over budget")
        over = error
        context = None
    if context is None:
        assert over is not None
        assert over.needed > over.budget == budget
        return
    event("cut" if len(context.dropped) else "whole")
    assert faults(context.messages, provider, context.system) == []
    assert context.tokens <= budget
    assert counted(context) <= context.estimate
    assert _untold(log, context) == []


@given(logs, budgets, st.sampled_from(PROVIDERS[:3]))
def test_a_request_is_legal_whatever_was_said(log, budget, provider):
    sent = all_messages_for(log, provider)

    assert faults(sent.messages, provider, sent.system) == []
    try:
        context = ContextBuilder(MessageSource.of(log), ContextRules(budget, provider)).build()
    except OverBudget:
        return
    name = "input" if provider == "responses" else "messages"
    again = all_messages_for(read({name: context.messages}, provider), provider)
    assert faults(again.messages, provider) == []


def _untold(log, context):
    """Return the messages of which nothing is said, neither in a context nor about it."""
    told = {at for each in context.why for at in range(each.start, each.stop)}
    there = json.dumps([context.messages, context.system], ensure_ascii=False)
    return [
        at
        for at, each in enumerate(log)
        for text in (each.text, *(result.content for result in each.results))
        if isinstance(text, str)
        and text.strip()
        and at not in told
        and json.dumps(text.strip().splitlines()[0], ensure_ascii=False)[1:-1] not in there
    ]


@given(logs, st.integers(0, 2000), st.sampled_from(PROVIDERS), scales)
def test_what_is_needed_is_enough(log, budget, provider, scale):
    needed = budget
    try:
        ContextBuilder(of(log, scale), ContextRules(budget, provider)).build()
    except OverBudget as error:
        event("over budget")
        needed = error.needed

    assert ContextBuilder(of(log, scale), ContextRules(needed, provider)).build().tokens <= needed


@given(logs, st.sampled_from(PROVIDERS), scales)
def test_what_takes_no_more_than_the_budget_is_sent_whole(log, provider, scale):
    whole = ContextBuilder(of(log, scale), ContextRules(10_000_000, provider)).build()

    context = ContextBuilder(of(log, scale), ContextRules(whole.tokens, provider)).build()

    assert (context.messages, context.tokens) == (whole.messages, whole.tokens)
    assert len(context.dropped) == 0


def counted(context):
    """Count again what is sent: all its texts, but not what pictures and files are encoded to."""
    total = 0
    waiting = [context.messages, context.system]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [v for k, v in value.items() if k not in _FORM]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and "base64" not in value:
            total += estimate_tokens(value)
    return total


_FORM = (
    "type",
    "role",
    "source",
    "image_url",
    "file",
    "file_data",
    "filename",
    "media_type",
    "title",
)


@given(logs, st.sampled_from(PROVIDERS))
def test_what_fits_is_sent_as_it_is(log, provider):
    context = ContextBuilder(MessageSource.of(log), ContextRules(10_000_000, provider)).build()

    assert len(context.dropped) == 0
    assert {each.done for each in context.why} <= {"interrupted", "orphaned", "empty", "foreign"}


@given(logs, budgets, st.sampled_from(PROVIDERS))
def test_the_same_log_gives_the_same_context(log, budget, provider):
    rules = ContextRules(budget, provider)
    try:
        first = ContextBuilder(MessageSource.of(log), rules).build()
    except OverBudget:
        assume(False)
    again = ContextBuilder(MessageSource.of(list(log)), rules).build()

    assert (again.messages, again.why, again.tokens) == (first.messages, first.why, first.tokens)


@given(tame(), budgets)
def test_what_stays_is_there_and_what_is_dropped_is_not_told_twice(log, budget):
    try:
        context = ContextBuilder(MessageSource.of(log), ContextRules(budget, "openai")).build()
    except OverBudget:
        assume(False)
    systems = [each.text for each in log if each.role is Role.SYSTEM]
    sent = [each["content"] for each in context.messages if each["role"] == "system"]

    assert sent == systems
    assert all(log[at].role is not Role.SYSTEM for at in context.dropped)
    told = [at for each in context.why if each.done == "dropped" for at in range(*each[:2])]
    assert sorted(told) == sorted(context.dropped)


@given(tame(), budgets)
def test_what_the_user_said_last_is_in_every_context(log, budget):
    users = [each for each in log if each.role is Role.USER and each.text.strip()]
    assume(users and len(users[-1].text) < 60)
    try:
        context = ContextBuilder(MessageSource.of(log), ContextRules(budget, "openai")).build()
    except OverBudget:
        assume(False)

    assert users[-1].text in [
        each["content"] for each in context.messages if each["role"] == "user"
    ]


@given(tame(), st.integers(50, 3000), st.sampled_from(PROVIDERS))
def test_another_counter_is_kept_to_as_well(log, budget, provider):
    letters = TokenCounter("letters", len)
    try:
        context = ContextBuilder(
            MessageSource.of(log), ContextRules(budget, provider, counter=letters)
        ).build()
    except OverBudget:
        return
    assert context.tokens <= budget
    assert faults(context.messages, provider) == []


@given(tame(), st.integers(400, 4000), st.sampled_from(PROVIDERS), scales)
def test_a_summary_is_part_of_the_budget(log, budget, provider, scale):
    def tell(messages, before):
        return "They talked at length. " * 400

    rules = ContextRules(budget, provider, summariser=tell)
    try:
        context = ContextBuilder(of(log, scale), rules).build()
    except OverBudget:
        assume(False)
    event("summary" if context.summary else "none")
    assert context.tokens <= budget
    assert faults(context.messages, provider) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_log_of_nothing_gives_a_context_of_nothing(provider):
    assert ContextBuilder(MessageSource.of([]), ContextRules(100, provider)).build().messages == []


@given(texts)
def test_an_estimate_is_of_the_text_alone(text):
    assert ESTIMATED.count(text) == estimate_tokens(text) >= 0
