"""Mentions and entities: what was spoken of, where, and what is known of it.

The words of a sentence, with what stands between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from otolith.text.words import Word, words_in

TYPES = ("person", "place", "thing", "file", "number", "price", "date", "time", "item", "variable")
SOURCES = ("user", "assistant", "tool", "system", "variable")

_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Found:
    """Something that a text speaks of, as it stands there."""

    text: str
    type: str
    start: int
    words: tuple[str, ...]
    """The stems of its words, without articles."""
    head: str = ""
    """The stem of the noun that says what it is."""
    form: str = "noun"  # name, noun, bare, value, item or variable
    number: str = ""  # singular, plural, or nobody can tell
    gender: str = ""  # m, f, n, or nobody can tell; of German nouns, the grammatical one
    is_definite: bool = False
    is_first: bool = False
    """Whether it comes first in its sentence: that is mostly what the sentence is about."""
    is_aside: bool = False
    """Whether it is spoken of in passing: Kim in "a message from Kim", the price in "its price"."""
    measures: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    """Numbers that it was shown with: price, minutes, rating …"""
    line: str = ""
    """All that was shown of it, if it was shown in a list."""
    aside: tuple[str, ...] = ()
    """Words by which it is called as well: of "my sister Julia", sister."""


@dataclass(frozen=True, slots=True)
class Mention:
    """Where an entity was spoken of."""

    message: int
    start: int
    text: str
    source: str
    form: str
    """How: by name, noun, as an item of a list, or by a reference like "it"."""
    is_first: bool = False
    is_aside: bool = False


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that was spoken of, as far as it is known at one message."""

    id: int
    label: str
    type: str
    number: str
    gender: str
    mentions: tuple[Mention, ...]
    names: tuple[str, ...]
    """Whatever it was called, the first first."""
    measures: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    members: tuple[Entity, ...] = ()
    """Of several things together, each of them."""
    line: str = ""

    @property
    def message(self) -> int:
        """The last message that spoke of it; -1 if it is a variable that none did."""
        return self.mentions[-1].message if self.mentions else -1

    @property
    def source(self) -> str:
        """Who spoke of it first."""
        return self.mentions[0].source if self.mentions else "variable"

    def __str__(self) -> str:
        return self.label


_SENTENCE = re.compile(
    r"(?:[^.!?:\n]|[.!?:](?=\S)|(?<=\b[DM]r)\.|(?<=\bM[rs]s)\.|(?<=\bProf)\.)*(?:[.!?:\n]+|$)"
)
_POSSESSIVE = re.compile("['\u2019]s$")


class Piece(NamedTuple):
    """A word of a sentence, and what stands between it and the one before."""

    word: Word
    gap: str
    at: int

    @property
    def lower(self) -> str:
        """The word in small letters, without a possessive s."""
        return without_possessive(self.word.lower)

    @property
    def is_capital(self) -> bool:
        """Whether it is written with a capital."""
        return self.word.text[0].isupper()

    @property
    def joins(self) -> bool:
        """Whether only a space or a hyphen stands before it."""
        return self.gap in (" ", "-", "", ". ") or (
            self.gap.strip(" ") == "" and "\n" not in self.gap
        )


def without_possessive(text: str) -> str:
    """Return a text without the s of a possessive at its end."""
    return _POSSESSIVE.sub("", text)


def sentences_in(text: str, taken: list[tuple[int, int]]) -> Iterator[list[Piece]]:
    """Yield the sentences of a text; words that are taken already are left out."""
    for sentence in _SENTENCE.finditer(text):
        yield _pieces(text, sentence.start(), sentence.end(), taken)


def _pieces(text: str, start: int, end: int, taken: list[tuple[int, int]]) -> list[Piece]:
    pieces: list[Piece] = []
    before = start
    for word in words_in(text[start:end]):
        here = Word(word.text, word.start + start, word.end + start)
        if any(begin < here.end and here.start < stop for begin, stop in taken):
            before = max(here.end, before)
            continue
        gap = text[before : here.start] if pieces else ""
        pieces.append(Piece(here, gap, len(pieces)))
        before = here.end
    return pieces
