"""Contexts of long conversations: how long they take, and how much of the log they read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from time import process_time
from unittest.mock import patch

import otolith
from bench.agent.talk import chat_in, turns_with_tools
from bench.commits import label
from bench.ground import SESSION, Ground, tell
from bench.table import Budget, Figure, Row, time_of
from bench.timing import Samples, once
from bench.words import Words
from otolith import conversation

BUDGET = 8_000
NOTE = (
    "Turns with tools as above, all of one commit. Warm: made a second time from the same state,"
    " as after one more message. In CPU time. What is read is counted in messages."
)


def rows(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    touched: dict[int, int] = {}
    for count in (sizes.some_messages, sizes.many_messages):
        tell(f"contexts of {count:,} messages")
        with otolith.open(ground.place(f"talk-{count}"), durability="fast") as repo:
            chat = _talked(repo, count)
            touched[count] = _read_by(chat)
            if count == sizes.many_messages:
                yield from _timed(chat, ground, label(count))
    few, many = touched.values()
    work = f"context of {BUDGET:,} tokens: messages read of {label(sizes.many_messages)}"
    peer = f"of {label(sizes.some_messages)}"
    limit = Budget(1.5, "x", of="ratio")
    figures = Figure(many, ""), Figure(few, "")
    yield Row("context-read", work, figures[0], peer, figures[1], many / few, limit, note=NOTE)


def _talked(repo: otolith.Repo, count: int) -> conversation.Conversation:
    state = repo.session(SESSION)
    chat = chat_in(state)
    say = turns_with_tools(chat)
    for _ in range(count):
        say()
    state.commit("talked")
    return conversation.Conversation(repo.session(SESSION), clock=chat._clock)


def _read_by(chat: conversation.Conversation) -> int:
    """Count the messages that a context reads from a log that nobody has looked at."""
    kind = type(chat._store)
    read, whole = [0], kind.read

    def counting(record, start: int, stop: int, log: bytes | None = None):
        read[0] += max(stop - start, 0)
        return whole(record, start, stop, log)

    with patch.object(kind, "read", counting):
        chat.context(BUDGET, "openai")
    return read[0]


def _cpu(chat: conversation.Conversation, provider: str) -> float:
    """Return the CPU time of a context, which waits for nothing, so that others do not count."""
    began = process_time()
    chat.context(BUDGET, provider)
    return process_time() - began


def _timed(chat: conversation.Conversation, ground: Ground, long: str) -> Iterator[Row]:
    limit = Budget(0.005, "s")
    for provider in ("openai", "anthropic"):
        took = Samples()
        chat.context(BUDGET, provider)
        for _ in range(ground.sizes.blocks):
            took.blocks.append([_cpu(chat, provider) for _ in range(5)])
        work = f"{long} messages: context of {BUDGET:,} tokens for {provider}, warm"
        yield Row(f"context-{provider}", work, time_of(took), budget=limit, note=NOTE)
    last = Samples()
    last.run(lambda: chat[-1], ground.sizes.reads)
    yield Row("last", f"{long} messages: the last one", time_of(last))
    words = Words(6).text(200).split()
    first = once(lambda: chat.search(words[0]))
    yield Row("search-first", f"{long} messages: the first search", Figure(first, "s"))
    found = Samples()
    for word, other in pairwise(words):
        found.run(lambda: chat.search(f"{word} {other}"), 1)  # noqa: B023  # run at once
    yield Row("search", f"{long} messages: a search for two words", time_of(found))
