"""The words of a sentence, with what stands between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from otolith.agent.conversation.entities.words import Word, words_in

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
