"""Terms: the words of a text as search compares them, in any script.

Case, accents and endings do not matter: words are compared by their stems (`words.py`), as notes
are when they are recalled. Where words are not set apart by spaces, as in Chinese, Japanese, Thai,
Lao, Khmer and Burmese, a sign is a word; so it is in Korean, where endings are written on. Letters
of these scripts are left whole: a syllable of Korean is not taken apart.
"""

from __future__ import annotations

import re
import unicodedata

from otolith.text.words import stem

_SIGNS = (
    r"[\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    r"\u0e81-\u0ebd\u0ec0-\u0ece\u1000-\u1049\u1780-\u17d3"  # Lao, Burmese, Khmer
    r"\u2e80-\u2fff\u3005-\u3007\u3041-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\U00020000-\U0003ffff]"
)
_SIGN = re.compile(_SIGNS)
_WORD = re.compile(rf"{_SIGNS}|(?:(?!{_SIGNS})[^\W_]|[\u0900-\u0963\u0966-\u0dff])+")
"""Vowel signs of Indian scripts are not letters for `re`, but belong to a word."""

_PLAIN = re.compile(r"[^\W_]+")
_APART = {0x3099, 0x309A}
"""Marks that make another sign of a sign of Japanese, and no accents."""


class _Bare(dict[int, str]):
    """Letters as they are compared, worked out when one is met first."""

    def __missing__(self, letter: int) -> str:
        found = self[letter] = _bare_letter(chr(letter))
        return found


_BARE = _Bare()


def _bare_letter(letter: str) -> str:
    """Return a letter in lower case without its accents: "É" is "e"."""
    apart = unicodedata.normalize("NFKD", letter)
    if len(apart) > 1 or unicodedata.combining(apart[0]):
        kept = (each for each in apart if not _is_accent(each))
        apart = unicodedata.normalize("NFC", "".join(kept))
    return apart.casefold()


def _is_accent(letter: str) -> bool:
    """Tell whether a sign is a mark on a letter that does not change the word."""
    return (
        bool(unicodedata.combining(letter))
        and ord(letter) not in _APART
        and not _SIGN.match(letter)
    )


def terms(text: str) -> list[str]:
    """Return the words of a text as they are compared: their stems."""
    return list(map(stem, spelled_terms(text)))


def spelled_terms(text: str) -> list[str]:
    """Return the words of a text in lower case and without accents, one for each of `terms`."""
    pattern = _PLAIN if text.isascii() else _WORD
    return pattern.findall(_bare(text))


def signs(text: str) -> list[str]:
    """Return those words of a text that are signs."""
    return [] if text.isascii() else _SIGN.findall(_bare(text))


def _bare(text: str) -> str:
    """Return a text in lower case and without accents; plain ASCII takes the short way."""
    return text.lower() if text.isascii() else whole(text).translate(_BARE)


def whole(text: str) -> str:
    """Return a text whose letters are one sign each, where there is one."""
    return unicodedata.normalize("NFC", text)


def place_of(text: str, number: int) -> int:
    """Return where in a whole text its word of a number begins."""
    bare = _bare(text)
    found = next((each for at, each in enumerate(_WORD.finditer(bare)) if at == number), None)
    place = 0 if found is None else found.start()
    if len(bare) == len(text):
        return place
    reached = 0
    for at, letter in enumerate(text):
        if reached >= place:
            return at
        reached += len(_BARE[ord(letter)])
    return len(text)
