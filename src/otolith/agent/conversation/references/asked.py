"""What a phrase asks for, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from otolith.agent.conversation.entities import content_words, stem, words_in
from otolith.agent.conversation.entities.lexicon import word_set

EMPTY_NOUNS = frozenset(
    map(
        stem,
        word_set("""
        one ones option options item items choice result results entry suggestion variant variante
        treffer vorschlag ergebnis eintrag möglichkeit alternative candidate kandidat two three four
        five zwei drei vier beiden
        """),
    )
)
"""Nouns that say nothing of what something is."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a phrase asks for."""

    kind: str
    """Pronoun, definite, demonstrative, name; of a list: ordinal, superlative, described, several,
    other, next, previous or middle."""
    number: str = ""
    genders: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    head: str = ""
    """The stem of the noun, if there is one that says something."""
    words: tuple[str, ...] = ()
    """The stems of the other words."""
    first: int = 0
    """The place in a list, from 0; below 0 from its end."""
    count: int = 1
    mark: str = ""
    measures: tuple[str, ...] = ()
    is_most: bool = False
    is_german: bool = False


def last_noun(text: str) -> str:
    """Return the stem of the last word that says what something is."""
    words = [stem(word.text) for word in words_in(text)]
    kept = [word for word in words if word not in EMPTY_NOUNS and content_words(word)]
    return kept[-1] if kept else ""
