"""Word lists of English and German, read from `words.toml` on first use.

Nothing here is loaded before a conversation is followed: importing the package costs no file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from otolith.text.words import stem


@cache
def _file() -> dict[str, Any]:
    """Return the whole file, which is read once."""
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def word_table(name: str) -> Any:
    """Return an entry of `words.toml` as it is written there."""
    return _file()[name]


@cache
def word_list(name: str) -> frozenset[str]:
    """Return the words of a list, in small letters."""
    return frozenset(word_table(name).split())


@cache
def stem_list(name: str) -> frozenset[str]:
    """Return the stems of the words of a list."""
    return frozenset(map(stem, word_list(name)))


@cache
def keys_by_word(name: str, *, stems: bool = False) -> dict[str, tuple[str, ...]]:
    """Return, for each word of a table, or for each stem, the keys under which it is listed."""
    found: dict[str, tuple[str, ...]] = {}
    for key, words in word_table(name).items():
        for word in map(stem, words.split()) if stems else words.split():
            found[word] = tuple(dict.fromkeys((*found.get(word, ()), key)))
    return found


def type_of(words: Iterable[str], table: str, *, stems: bool = False) -> tuple[str, str]:
    """Return the type, and the gender of a person, of the first word that a table lists."""
    known = keys_by_word(table, stems=stems)
    type, _, gender = next((known[x][0] for x in words if x in known), "thing").partition(" ")
    return type, gender


def number_word(word: str) -> int | None:
    """Return the number that a word up to ten, or a numeral, stands for; None if it has none."""
    (key,) = keys_by_word("numbers").get(word, (word,))
    return int(key) if key.isdecimal() else None


@cache
def pattern(name: str, table: str = "patterns") -> re.Pattern[str]:
    """Return a regular expression: alternatives that are whole words, or one that is written out.

    `{months}` in it stands for the words of that list; line breaks do not count.
    """
    entry = word_table(table)[name]
    written = entry if isinstance(entry, str) else rf"(?<!\w)(?:{'|'.join(entry)})(?!\w)"
    listed = re.sub(r"\{([a-z_]+)\}", lambda x: "|".join(word_table(x[1]).split()), written)
    return re.compile(listed.replace("\n", ""), re.IGNORECASE)
