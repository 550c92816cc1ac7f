"""Conversations to measure on: turns of text alone, or with calls of tools and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import otolith
from bench.words import MESSAGE_BYTES, Words
from otolith import conversation

CALL_BYTES = 80
Say = Callable[[], int]
"""Adds one message and returns how many bytes were said."""


def chat_in(state: otolith.Versioned) -> conversation.Conversation:
    """Return the conversation of a state, with a system prompt and a clock that goes by itself."""
    times = count(1_790_000_000_000_000, 1_234_567)
    chat = conversation.Conversation(state, clock=lambda: next(times))
    chat.system("You are a helpful assistant that books flights.")
    return chat


def turns(chat: conversation.Conversation, seed: int = 6, size: int = MESSAGE_BYTES) -> Say:
    """Return what lets user and assistant speak in turn."""
    said = _texts(seed, size)
    who = _ever((chat.user, chat.assistant))

    def say() -> int:
        next(who)(next(said))
        return size

    return say


def turns_with_tools(chat: conversation.Conversation, seed: int = 6) -> Say:
    """Return what lets the user speak, the assistant call, a tool answer, the assistant speak."""
    said, numbers = _texts(seed, MESSAGE_BYTES), count()

    def say() -> int:
        number, text = next(numbers), next(said)
        step, id = number % 4, f"call_{number // 4:08d}"
        if step == 1:
            chat.assistant(
                tool_calls=[conversation.ToolCall(id, "search", {"query": text[:CALL_BYTES]})]
            )
            return CALL_BYTES
        if step == 2:
            chat.tool(id, text)
        else:
            (chat.user if step == 0 else chat.assistant)(text)
        return MESSAGE_BYTES

    return say


def _texts(seed: int, size: int) -> Iterator[str]:
    words = Words(seed)
    while True:
        yield words.text(size)


def _ever(ways: tuple[Callable[[str], object], ...]) -> Iterator[Callable[[str], object]]:
    while True:
        yield from ways
