"""Words: cut out of text, and brought to a form in which plural and singular are the same.

The stems are rough, for English and German alike: they only serve to compare words, and nobody
gets to see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from otolith.text.lexicon import GERMAN, STOP

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+(?:[.,]\d+)*")
_PARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_FOLDED = str.maketrans({"ä": "a", "ö": "o", "ü": "u", "ß": "ss", "é": "e", "è": "e", "á": "a"})
_SHORTEST = 4


class Word(NamedTuple):
    """A word where it stands."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The word in small letters, with a straight apostrophe."""
        return self.text.lower().replace("\u2019", "'")


def words_in(text: str) -> list[Word]:
    """Return the words of a text, numbers too."""
    return [Word(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Return what words of one family have in common."""
    lower = word.lower().replace("\u2019", "'")
    has_umlaut = any(letter in lower for letter in "äöü")
    bare = re.sub(r"'(s|re|ll|ve|d|m)?$", "", lower).translate(_FOLDED)
    if len(bare) < _SHORTEST or bare[0].isdigit():
        return bare
    return _undoubled(_without_ending(bare, has_umlaut=has_umlaut))


def _without_ending(word: str, *, has_umlaut: bool) -> str:
    if word.endswith("ies"):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    endings = ("ing", "ed", "en", "e", *(("ern", "er") if has_umlaut else ()))
    for ending in sorted(endings, key=len, reverse=True):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return word[:-1] + "i" if word.endswith("y") else word


def _undoubled(word: str) -> str:
    ends_twice = len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] not in "ls"
    return word[:-1] if ends_twice else word


def content_words(text: str) -> list[str]:
    """Return the stems of the words that carry meaning, in order; names are taken apart."""
    return list(_content(text))


def _content(text: str) -> Iterator[str]:
    for part in _PARTS.split(text):
        for word in words_in(part):
            if word.lower not in STOP and (len(word.text) > 1 or word.text.isdigit()):
                yield stem(word.text)


def is_german(text: str) -> bool | None:
    """Tell whether a text is German; None if it says nothing about that."""
    words = [word.lower for word in words_in(text)]
    german = sum(word in GERMAN for word in words)
    english = sum(word in STOP and word not in GERMAN for word in words)
    if any(letter in text for letter in "äöüßÄÖÜ"):
        german += 1
    return None if german == english else german > english
