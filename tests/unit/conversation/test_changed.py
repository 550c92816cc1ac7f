"""Messages that were read from a document and changed since, and functions that are told apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

import otolith
from otolith.conversation import (
    Attachment,
    Conversation,
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    function_identity,
)
from otolith.text.tokens import estimate_tokens


@pytest.fixture
def chat() -> Conversation:
    return otolith.open("memory:").session("s").conversation


def test_a_message_that_was_changed_is_sent_as_it_is(chat):
    chat.load([{"role": "user", "content": [{"type": "text", "text": "alpha alpha"}]}], "openai")
    edited = chat.edit(0, replace(chat[0], parts=(Text("alpha alpha"), Text("beta"))))
    (sent,) = edited.context(1000, "openai").messages
    assert [part["text"] for part in sent["content"]] == ["alpha alpha", "beta"]


def test_what_was_added_to_a_message_is_sent(chat):
    chat.load({"input": [{"role": "user", "content": "What is in the picture?"}]}, "responses")
    more = (Attachment("image/png", url="https://x/p.png"), Text("Answer in French."))
    edited = chat.edit(0, replace(chat[0], parts=(*chat[0].parts, *more)))
    sent = str(edited.context(10_000, "responses").messages)
    assert "https://x/p.png" in sent
    assert "Answer in French." in sent


def test_what_was_taken_out_of_a_message_does_not_come_back(chat):
    chat.load("human: My password is hunter2\nAI: ok\n", "plain")
    edited = chat.edit(0, replace(chat[0], parts=(Text("My password is [removed]"),)))
    assert "hunter2" not in edited.dump("plain")
    assert "[removed]" in edited.dump("plain")


LONG = "some words " * 400


@pytest.mark.parametrize(
    ("document", "form"),
    [
        ([{"role": "user", "content": LONG, "a": LONG, "b": LONG}], "openai"),
        (
            {
                "input": [
                    {"role": "user", "content": "hi"},
                    {
                        "type": "reasoning",
                        "id": "rs_1",
                        "summary": [{"type": "summary_text", "text": LONG}],
                        "content": [{"type": "reasoning_text", "text": LONG}],
                    },
                    {"role": "assistant", "content": "done"},
                ]
            },
            "responses",
        ),
    ],
)
def test_what_a_document_says_twice_counts_twice(chat, document, form):
    chat.load(document, form)
    made = chat.context(100_000, form)
    assert made.tokens >= 0.9 * estimate_tokens(str(made.messages))
    dumped = chat.dump(form)
    assert dumped == (document if isinstance(document, dict) else {"messages": document})


@dataclass
class Summariser:
    """Cannot be a key, for it may change."""

    asked: int = 0

    def __call__(self, messages: Any, budget: int) -> str:
        self.asked += 1
        return f"summary {self.asked}"

    def summarise(self, messages: Any, budget: int) -> str:
        return self(messages, budget)


class Slotted:
    """Can be followed by nobody."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, messages: Any, budget: int) -> str:
        self.asked += 1
        return f"summary {self.asked}"


@pytest.mark.parametrize(
    ("made", "of"),
    [
        (Summariser, lambda one: one),
        (Summariser, lambda one: one.summarise),
        (Slotted, lambda one: one),
    ],
)
def test_a_summariser_is_asked_once_whatever_it_is(chat, made, of):
    for number in range(60):
        chat.user(f"q{number} " + "word " * 40)
    one = made()
    told = {chat.context(1500, "openai", summariser=of(one)).summary for _ in range(4)}
    assert (len(told), one.asked) == (1, 1)


def test_what_functions_close_over_together_is_looked_at_once(monkeypatch):
    tools: dict[str, Any] = {}
    for number in range(50):

        def tool(x: int, number: int = number) -> Any:
            return tools, number

        tools[f"t{number}"] = tool
    looks: list[object] = []
    parts = function_identity._parts

    def looking(value: object) -> Any:
        looks.append(value)
        return parts(value)

    monkeypatch.setattr(function_identity, "_parts", looking)
    names = [function_identity.function_identity(each) for each in tools.values()]
    assert len(set(names)) == 50
    assert len(looks) < 50 * 50 * 20


def test_whether_the_prefix_was_kept_can_always_be_asked(chat):
    chat.user("x " * 400, is_pinned=True)
    chat.assistant("answer")
    chat.pin(0, is_pinned=False)
    chat.user("next")
    assert isinstance(chat.context(200, "openai").prefix_kept, bool)


def test_it_can_be_asked_where_reasoning_was_too_long(chat):
    chat.user("go")
    call = ToolCall("a", "f", {})
    chat.assistant("t", reasoning=Reasoning("hmm " * 400, "sig"), tool_calls=[call])
    chat.tool("a", "ok")
    chat.assistant("done")
    chat.user("next")
    assert isinstance(chat.context(200, "anthropic").prefix_kept, bool)


@dataclass
class Letters:
    """A counter that cannot be a key."""

    per_token: int = 4

    def __call__(self, text: str) -> int:
        return len(text) // self.per_token


def test_any_callable_counts(chat):
    chat.user("word " * 100)
    assert chat.context(1500, "openai", counter=Letters(2)).tokens > 200
    fresh = [chat.context(1500, "openai", counter=lambda text: len(text) // 3) for _ in range(3)]
    assert len({each.tokens for each in fresh}) == 1


def test_a_pin_reaches_all_that_belongs_together(chat):
    chat.assistant(tool_calls=[ToolCall("a", "f", {})])
    chat.assistant("w " * 150, tool_calls=[ToolCall("b", "g", {})])
    results = (ToolResult("a", "ra " * 20), ToolResult("b", "rb " * 20))
    chat.append(Message(Role.TOOL, results))
    chat.pin(0)
    assert [message.is_pinned for message in chat] == [True, True, True]
