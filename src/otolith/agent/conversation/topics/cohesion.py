"""How much two stretches of a conversation have in common: words, and fields of meaning."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from otolith.agent.conversation.entities import content_words, stem, words_in
from otolith.agent.conversation.entities.lexicon import word_set
from otolith.agent.conversation.topics.fields import fields_of

_SAYS_NOTHING = frozenset(
    map(
        stem,
        word_set("""
        good great nice fine perfect correct right sounds yes yeah thanks bunch okay sure awesome
        cool wonderful lovely excellent works everything needed wait love prefer gut toll super
        prima perfekt richtig klingt danke passt
        price cost address phone number total rating name location long much time date preis kosten
        kostet adresse telefon telefonnummer nummer bewertung uhrzeit dauert
        """),
    )
)
"""Words of agreement, and of what anything may have, like a price: they belong to every topic."""
_REPLY = 0.4
"""What a word counts that only the answer has."""
_SPECIFIC = 4
_FADING = 0.8
"""What is left of how much a field counts, with each turn."""


@dataclass(slots=True)
class Vocabulary:
    """The words of a topic or a turn, with how much each counts."""

    words: Counter[str] = field(default_factory=Counter)
    fields: dict[str, float] = field(default_factory=dict)

    def take(self, other: Vocabulary) -> None:
        """Add what a turn says."""
        self.words.update(other.words)
        for name in self.fields:
            self.fields[name] *= _FADING
        for name, weight in other.fields.items():
            self.fields[name] = self.fields.get(name, 0.0) + weight


class Rarity:
    """How rare words are in a conversation: those in every turn say nothing about the topic."""

    def __init__(self) -> None:
        self._turns = 0
        self._counts: Counter[str] = Counter()
        self._surfaces: dict[str, Counter[str]] = {}

    def take(self, words: Iterable[str]) -> None:
        """Count the words of a turn."""
        self._turns += 1
        self._counts.update(set(words))

    def see(self, text: str) -> None:
        """Remember how words are written."""
        for word in words_in(text):
            self._surfaces.setdefault(stem(word.text), Counter())[word.text] += 1

    def weight(self, word: str) -> float:
        """Return how much a word says."""
        rare = math.log(1 + (self._turns + 2) / (self._counts[word] + 1))
        length = min(len(word), 2 * _SPECIFIC) / _SPECIFIC
        return rare * (0.4 if word.isdigit() else 0.6 + 0.4 * length)

    def surface(self, word: str) -> str:
        """Return how a word is mostly written."""
        seen = self._surfaces.get(word)
        return max(seen.items(), key=lambda each: (each[1], each[0]))[0] if seen else word

    def keywords(self, words: Mapping[str, float], most: int) -> tuple[str, ...]:
        """Return the words that say most about a topic."""
        listed = [word for word in words if not word.isdigit() and len(word) > 2]
        listed.sort(key=lambda word: (-words[word] * self.weight(word), word))
        return tuple(self.surface(word) for word in listed[:most])


def vocabulary(text: str, *, weight: float = 1.0) -> Vocabulary:
    """Return the words of a text, and the fields that they are of."""
    words = Counter(word for word in content_words(text) if word not in _SAYS_NOTHING)
    fields: dict[str, float] = {}
    for word, count in words.items():
        names = fields_of(word)
        for name in names:
            fields[name] = fields.get(name, 0.0) + weight * count / len(names)
    weighed: Counter[str] = Counter()
    for word, count in words.items():
        weighed[word] = count * weight  # type: ignore[assignment]  # a Counter counts in parts, too
    return Vocabulary(weighed, fields)


def reply_vocabulary(text: str) -> Vocabulary:
    """Return the words of an answer, which count for less than those of the question."""
    return vocabulary(text, weight=_REPLY)


def shared_words(turn: Vocabulary, topic: Vocabulary, rarity: Rarity) -> tuple[float, list[str]]:
    """Return which part of what a turn says is in a topic, from 0 to 1, and by which words."""
    total = hits = 0.0
    common = []
    for word, count in turn.words.items():
        weight = rarity.weight(word) * min(count, 1.0)
        total += weight
        if word in topic.words:
            hits += weight
            common.append(word)
    return (hits / total if total else 0.0), sorted(common, key=lambda w: -rarity.weight(w))


def shared_fields(turn: Vocabulary, topic: Vocabulary) -> float:
    """Return how alike two stretches are by the fields of their words, from 0 to 1."""
    dot = sum(weight * topic.fields.get(name, 0.0) for name, weight in turn.fields.items())
    sizes = (math.sqrt(sum(w * w for w in each.fields.values())) for each in (turn, topic))
    norm = math.prod(sizes)
    return dot / norm if norm else 0.0
