"""Which notes answer a question: those that speak of it, and of these the strongest.

The score is relevance x strength. Relevance is how much of what the question asks about is in the
note, from 0 to 1; words that few notes have weigh more. Words are compared by their stems; where
they are not set apart by spaces, by their signs, as in a search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from otolith.agent.conversation.entities import content_words
from otolith.agent.conversation.terms import signs
from otolith.agent.memory.note import Note

Relevance: TypeAlias = Callable[[str, Note], float]
"""A judge of your own: the question and a note in, how relevant it is from 0 to 1 out."""

_ALIKE = 0.6
"""What a word counts that only begins like the one asked for, or is part of it."""
_SHARED_LETTERS = 5


class Recalled(NamedTuple):
    """A note that came to mind, and why."""

    note: Note
    score: float
    relevance: float
    strength: float

    @property
    def key(self) -> str:
        """The key of the note."""
        return self.note.key

    @property
    def value(self) -> Any:
        """What the note says."""
        return self.note.value


class Words:
    """The words of notes, kept as long as the notes are as they were."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, frozenset[str]]] = {}

    def of(self, note: Note) -> frozenset[str]:
        """Return the stems of the words in a note."""
        text = note.text
        known = self._known.get(note.key)
        if known is None or known[0] != text:
            known = self._known[note.key] = text, frozenset(_compared(text))
        return known[1]


def _compared(text: str) -> set[str]:
    """Return what of a text is compared: stems of words, and signs that are words by themselves."""
    alone = set(signs(text))
    if not alone:
        return set(content_words(text))
    return {word for word in content_words(text) if alone.isdisjoint(signs(word))} | alone


def relevances(query: str, notes: Mapping[str, frozenset[str]]) -> dict[str, float]:
    """Return how relevant each of some notes is, by the words of each."""
    asked = _compared(query)
    if not asked:
        return dict.fromkeys(notes, 1.0)
    weights = _weights(asked, notes.values())
    total = sum(weights.values())
    return {
        key: sum(weight * _match(word, words) for word, weight in weights.items()) / total
        for key, words in notes.items()
    }


def _weights(asked: Iterable[str], notes: Iterable[frozenset[str]]) -> dict[str, float]:
    listed = list(notes)
    counts = Counter(word for words in listed for word in words)
    return {word: math.log(1 + (len(listed) + 1) / (counts[word] + 0.5)) for word in sorted(asked)}


def _match(word: str, words: frozenset[str]) -> float:
    if word in words:
        return 1.0
    if len(word) < _SHARED_LETTERS:
        return 0.0
    start = word[:_SHARED_LETTERS]
    return _ALIKE if any(each.startswith(start) or word in each for each in words) else 0.0
