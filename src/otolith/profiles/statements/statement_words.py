"""Word lists and patterns of the rules, read from `words.toml` on first use.

A list is words and phrases; "_" stands for a space in a phrase. A table has lists under their keys.
A pattern is a regular expression in which the names of lists stand for their words.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _file() -> dict[str, Any]:
    """Return the whole file, which is read once."""
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


@cache
def word_list(name: str, table: str = "words") -> frozenset[str]:
    """Return the words and phrases of a list."""
    return frozenset(each.replace("_", " ") for each in _file()[table][name].split())


@cache
def word_keys(table: str) -> dict[str, str]:
    """Return, for each word of a table, the key under which it is listed."""
    return {word: key for key in _file()[table] for word in word_list(key, table)}


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return a pattern; `{like dislike}` in it stands for the words of these lists."""
    written = _file()["patterns"][name].replace("\n", "")
    listed = re.sub(r"\{([a-z_]+(?: [a-z_]+)*)\}", lambda found: _any_of(found[1].split()), written)
    return re.compile(listed, re.IGNORECASE)


def _any_of(names: list[str]) -> str:
    """Return a pattern for the words of some lists, the longest first."""
    words = sorted({each for name in names for each in word_list(name)}, key=lambda x: (-len(x), x))
    return "(?:" + "|".join(re.escape(each).replace(r"\ ", r"\s+") for each in words) + ")"


@cache
def _first_words(name: str) -> frozenset[str]:
    return frozenset(each.split()[0] for each in word_list(name))


def may_have(name: str, words: frozenset[str]) -> bool:
    """Tell whether a text of these words may have a phrase of a list."""
    return not _first_words(name).isdisjoint(words)


@cache
def cues() -> frozenset[str]:
    """Return words of which every sentence that a rule can read has one."""
    verbs = ("like", "dislike", "endure", "prefer", "perfect", "habit", "want", "action", "diet")
    return frozenset(word for name in ("cue", *verbs) for word in _first_words(name))
