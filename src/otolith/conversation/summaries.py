"""Summaries: what a range of messages came to, made once and kept beside the log.

    summaries    by "<stop>-<hash>": {text, stop, model, prompt}

A summary is of all messages before `stop`. Its hash is that of their cell, which is made of all of
them, of the prompt and of the model: threads and branches that share these messages share the
summary, and where they differ it is not found. A rollback undoes it like any edit.

A summariser is a function of the messages and of what an earlier summary said of those before them.
It may have attributes `model` and `prompt`, which are part of the hash; without a model, what the
function is called and made of is (naming.py). The one that is built in needs no model: it picks
sentences.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from otolith.agent.conversation.checking import check_text
from otolith.agent.conversation.estimating import estimate, shorten
from otolith.agent.conversation.formats.words import words
from otolith.agent.conversation.message import Message, Reasoning, Role
from otolith.agent.conversation.naming import name_of
from otolith.agent.conversation.record import SUMMARIES, Record
from otolith.core import digest
from otolith.errors import BadValue

LABEL = "[Summary of the conversation so far, written by a machine]\n"
TOKENS = 512
"""How long a summary of the built-in summariser may be."""

_SENTENCE = re.compile(r"[^.!?\n。！？]+[.!?。！？]*")  # noqa: RUF001  # full-width marks end sentences
_WORD = re.compile(r"\w{3,}")
_CAP = 500
_HASH_BYTES = 8


class Summariser(Protocol):
    """What makes a summary."""

    def __call__(self, messages: Sequence[Message], before: str, /) -> str: ...


class Summary(NamedTuple):
    """What all messages before an index came to."""

    stop: int
    text: str
    model: str
    prompt: str = ""


class Summaries:
    """The summaries of one thread."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @property
    def is_empty(self) -> bool:
        """Whether there is none."""
        return self._record.cell(SUMMARIES) is None

    def find(self, low: int, high: int, key: tuple[str, str] | None = None) -> Summary | None:
        """Return the summary up to the latest message from low to high; `key` names its maker."""
        found = list(self._all(low, high, key))
        return found[-1] if found else None

    def first(self, low: int, high: int, key: tuple[str, str] | None = None) -> Summary | None:
        """Return the summary up to the earliest message from low to high."""
        return next(self._all(low, high, key), None)

    def _all(self, low: int, high: int, key: tuple[str, str] | None) -> Iterator[Summary]:
        for name, kept in self._record.entries(SUMMARIES, f"{low:08x}"):
            stop = int(name[:8], 16)
            if stop > high:
                break
            summary = _summary(kept)
            is_wanted = key is None or (summary.model, summary.prompt) == key
            if is_wanted and name == self._name(stop, summary.model, summary.prompt):
                yield summary

    def keep(self, summary: Summary) -> None:
        """Stage a summary."""
        name = self._name(summary.stop, summary.model, summary.prompt)
        self._record.put(summary._asdict(), SUMMARIES, name)

    def _name(self, stop: int, model: str, prompt: str) -> str:
        """Return what a summary of these messages is kept under."""
        if not 0 < stop <= self._record.length():
            return ""
        cells = self._record.state.cells
        told = digest(cells.loosen(self._record.prefix(stop)))
        said = cells.encoding.encode([told.hex(), stop, prompt, model])
        return f"{stop:08x}-{digest(said)[:_HASH_BYTES].hex()}"


def key_of(summariser: Any) -> tuple[str, str]:
    """Return the model and the prompt of a summariser."""
    model = getattr(summariser, "model", None)
    name = name_of(summariser) if model is None else str(model)
    return name, str(getattr(summariser, "prompt", ""))


def ask(summariser: Summariser, messages: Sequence[Message], before: str) -> str:
    """Return what a summariser makes of messages, and of the summary of those before them.

    Raises:
        BadValue: it gave something else than words.
    """
    told: Any = summariser(messages, before)
    if not isinstance(told, str) or not told.strip():
        why = f"a summariser gave {told!r:.60}, which is no summary"
        raise BadValue(why, hint="return the text of one")
    check_text(told)
    return told


def _summary(kept: dict[str, Any]) -> Summary:
    return Summary(kept["stop"], kept["text"], kept["model"], kept["prompt"])


# The summariser that is built in


def extractive(messages: Sequence[Message], before: str = "", /) -> str:
    """Return the sentences that say most, in their order, without asking any model.

    The first thing the user said is always among them. A sentence counts by its words: common in
    the whole, but not in all messages; those of the user count for more, those of tools for less.
    """
    sentences = list(_sentences(messages))
    tally = Tally(word for _, _, text in sentences for word in set(_words(text)))
    many = max(len(messages), 1)

    def weight(place: int) -> float:
        _, role, text = sentences[place]
        said = _words(text)
        score = sum(tally[word] * (1 - tally[word] / (many + 1)) for word in set(said))
        return score / (len(said) + 4) * _VOICES[role]

    ranked = sorted(range(len(sentences)), key=lambda place: (-weight(place), place))
    first = next((at for at, (_, role, _) in enumerate(sentences) if role is Role.USER), None)
    chosen = _within([first] if first is not None else [], ranked, sentences, before)
    told = [f"{sentences[place][1]}: {sentences[place][2]}" for place in sorted(chosen)]
    return "\n".join(filter(None, [shorten_to(before, TOKENS // 2), *told]))


def _within(
    first: list[int], ranked: list[int], sentences: list[tuple[int, Role, str]], before: str
) -> list[int]:
    left = TOKENS - min(estimate(before), TOKENS // 2)
    chosen: list[int] = []
    for place in [*first, *(place for place in ranked if place not in first)]:
        cost = estimate(sentences[place][2]) + 4
        if cost <= left:
            chosen.append(place)
            left -= cost
    return chosen


def shorten_to(text: str, tokens: int) -> str:
    """Return a text, or its head and tail if it is longer than so many tokens."""
    return text if estimate(text) <= tokens else shorten(text, tokens, " … ")


def _sentences(messages: Sequence[Message]) -> list[tuple[int, Role, str]]:
    out: list[tuple[int, Role, str]] = []
    for at, message in enumerate(messages):
        parts = [words(part) for part in message.parts if not isinstance(part, Reasoning)]
        said = "\n".join(parts)[: 20 * _CAP if message.role is not Role.TOOL else _CAP]
        pieces = (found.strip() for found in _SENTENCE.findall(said))
        out += [(at, message.role, piece[:_CAP]) for piece in pieces if _words(piece)]
    return out


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


_VOICES = {Role.USER: 1.5, Role.ASSISTANT: 1.0, Role.TOOL: 0.4, Role.SYSTEM: 0.2}
extractive.model = "extractive"  # type: ignore[attr-defined]
