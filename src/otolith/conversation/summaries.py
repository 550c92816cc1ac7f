"""Summaries: texts that stand for the first messages of a thread, made once and stored.

    .summaries.<thread>    by "<stop>-<hash>": {text, stop, model, prompt}

A summary is of all messages before `stop`. Its hash is made from the cell of these messages, the
prompt and the model. So threads and branches with the same messages share a summary, and where
their messages differ it is not found. A rollback undoes it like any edit.

A summariser is a function of messages and of the summary of those before them. Its attributes
`model` and `prompt`, if it has them, are part of the hash; the identity of the function takes the
place of a missing model (`function_identity.py`). The built-in one, `extractive`, needs no model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from otolith.conversation.append import check_text
from otolith.conversation.formats.parts import part_text
from otolith.conversation.function_identity import function_identity
from otolith.conversation.message import Message, Reasoning, Role
from otolith.conversation.storage import SUMMARIES, ConversationStore
from otolith.core import digest
from otolith.errors import BadValue
from otolith.text.tokens import estimate_tokens, shorten

LABEL = "[Summary of the conversation so far, written by a machine]\n"
"""The first line of the message that holds a summary in a context."""
_HASH_BYTES = 8


class Summariser(Protocol):
    """A function that makes a summary."""

    def __call__(self, messages: Sequence[Message], before: str, /) -> str:
        """Return a summary of messages; `before` is the summary of those before them."""


class Summary(NamedTuple):
    """A text that stands for all messages before an index."""

    stop: int
    text: str
    model: str
    prompt: str = ""


class SummaryStore:
    """The stored summaries of one thread. A `key` is the model and the prompt of a summariser."""

    def __init__(self, store: ConversationStore) -> None:
        self._store = store

    @property
    def is_empty(self) -> bool:
        """Whether nothing is stored."""
        return self._store.cell(SUMMARIES) is None

    def find(self, first: int, last: int, key: tuple[str, str] | None = None) -> Iterator[Summary]:
        """Yield the summaries that stop at an index from first to last, the shortest first."""
        for name, stored in self._store.entries(SUMMARIES, f"{first:08x}"):
            stop = int(name[:8], 16)
            if stop > last:
                break
            fields = (stored["stop"], stored["text"], stored["model"], stored["prompt"])
            summary = Summary(*fields)
            is_wanted = key is None or (summary.model, summary.prompt) == key
            if is_wanted and name == self._name(stop, summary.model, summary.prompt):
                yield summary

    def longest(self, last: int, key: tuple[str, str] | None = None) -> Summary | None:
        """Return the summary that stops at the highest index up to `last`."""
        found = list(self.find(0, last, key))
        return found[-1] if found else None

    def put(self, summary: Summary) -> None:
        """Stage a summary."""
        name = self._name(summary.stop, summary.model, summary.prompt)
        self._store.put(summary._asdict(), SUMMARIES, name)

    def _name(self, stop: int, model: str, prompt: str) -> str:
        """Return the key for a summary of these messages; empty if the log is shorter."""
        if not 0 < stop <= self._store.length():
            return ""
        cells = self._store.state.cells
        messages = digest(cells.loosen(self._store.prefix(stop)))
        encoded = cells.encoding.encode([messages.hex(), stop, prompt, model])
        return f"{stop:08x}-{digest(encoded)[:_HASH_BYTES].hex()}"


def summariser_key(summariser: Any) -> tuple[str, str]:
    """Return the model and the prompt of a summariser."""
    model = getattr(summariser, "model", None)
    name = function_identity(summariser) if model is None else str(model)
    return name, str(getattr(summariser, "prompt", ""))


def summarise(
    summariser: Summariser, messages: Sequence[Message], before: Summary | None, stop: int
) -> Summary:
    """Return a new summary up to `stop`, of messages and of the summary of those before them.

    Raises:
        BadValue: the summariser did not return a text.
    """
    text: Any = summariser(messages, "" if before is None else before.text)
    if not isinstance(text, str) or not text.strip():
        raise BadValue(
            f"a summariser must return a text, got {text!r:.60}", hint="return the summary"
        )
    check_text(text)
    return Summary(stop, text, *summariser_key(summariser))


# The built-in summariser

_SENTENCE = re.compile(r"[^.!?\n。！？]+[.!?。！？]*")  # noqa: RUF001  # full-width marks end sentences
_WORD = re.compile(r"\w{3,}")
_MAX_TOKENS = 512
_MAX_SENTENCE, _MAX_MESSAGE, _MAX_TOOL_MESSAGE = 500, 10_000, 500
"""In letters."""
_ROLE_WEIGHTS = {Role.USER: 1.5, Role.ASSISTANT: 1.0, Role.TOOL: 0.4, Role.SYSTEM: 0.2}


def extractive(messages: Sequence[Message], before: str = "", /) -> str:
    """Return the most telling sentences, in their order, without asking a model.

    The first sentence of the user is always among them. A sentence counts by its words: common in
    the whole, but not in all messages; those of the user count for more, those of tools for less.
    """
    sentences = [(message.role, text) for message in messages for text in _sentences(message)]
    frequency = Counter(word for _, text in sentences for word in set(_words(text)))
    total = max(len(messages), 1)

    def weight(place: int) -> float:
        """Return how much a sentence counts."""
        role, text = sentences[place]
        words = _words(text)
        score = sum(frequency[word] * (1 - frequency[word] / (total + 1)) for word in set(words))
        return score / (len(words) + 4) * _ROLE_WEIGHTS[role]

    ranked = sorted(range(len(sentences)), key=lambda place: (-weight(place), place))
    first = next((at for at, (role, _) in enumerate(sentences) if role is Role.USER), None)
    ranked = ranked if first is None else [first, *(at for at in ranked if at != first)]
    left = _MAX_TOKENS - min(estimate_tokens(before), _MAX_TOKENS // 2)
    chosen: list[int] = []
    for place in ranked:
        cost = estimate_tokens(sentences[place][1]) + 4
        if cost <= left:
            chosen.append(place)
            left -= cost
    lines = [f"{sentences[place][0]}: {sentences[place][1]}" for place in sorted(chosen)]
    return "\n".join(filter(None, [shorten_to(before, _MAX_TOKENS // 2), *lines]))


extractive.model = "extractive"  # type: ignore[attr-defined]


def shorten_to(text: str, tokens: int) -> str:
    """Return a text, or its head and tail if it has more tokens."""
    return text if estimate_tokens(text) <= tokens else shorten(text, tokens, " … ")


def _sentences(message: Message) -> list[str]:
    """Return the sentences of a message that have words."""
    parts = [part_text(part) for part in message.parts if not isinstance(part, Reasoning)]
    limit = _MAX_TOOL_MESSAGE if message.role is Role.TOOL else _MAX_MESSAGE
    found = (each.strip() for each in _SENTENCE.findall("\n".join(parts)[:limit]))
    return [text[:_MAX_SENTENCE] for text in found if _words(text)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
