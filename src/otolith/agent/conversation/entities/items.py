"""The items of a list that was shown: what each is called, and what it measures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from otolith.agent.conversation.entities.mention import Found
from otolith.agent.conversation.entities.values import field_measures, measures_in
from otolith.agent.conversation.entities.words import content_words, stem

_BOLD = re.compile(r"^\*\*(.+?)\*\*:?")
_CUT = re.compile(
    "\\s[-\u2013\u2014|]\\s|:\\s|\\s?\\(|,\\s|;\\s|\\s[-\u2013\u2014]$|\\.\\s|\\s{2,}"
    r"|\s(?=[$€£]\s?\d)|\s(?:for|at|with|which|that|is|has|weighs|takes|runs|starts|costs?|leaves"
    r"|departs|hat|wiegt|mit|für|ab|um|kostet|ist)\s(?=.*\d)"
)
_LEADING = re.compile(
    r"^(?:one|another|a|an|the|ein|eine[rsnm]?|der|die|das|den)\s+"
    r"(?:(?:in|at|from|by|of|am|im|von|aus|bei)\s+)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A list that was shown, and what its items are called."""

    items: tuple[Found, ...]
    noun: str = ""
    """The stem of what they are, if somebody said."""
    marks: tuple[str, ...] = ()
    """How each is marked: by a number, a letter, or not at all."""
    start: int = 0


def item_of(line: str, whole: str, start: int, type: str = "item") -> Found:
    """Return an item of a list: its name is what comes before the first mark or number."""
    bold = _BOLD.match(line)
    name = bold.group(1) if bold else line
    cut = _CUT.search(name)
    if cut is not None and cut.start() >= 2:
        name = name[: cut.start()]
    name = _LEADING.sub("", name.strip(' *_`:.,"„“”')) or name.strip()
    words = tuple(dict.fromkeys(content_words(name)))
    return Found(
        name,
        type,
        start,
        words,
        head=words[-1] if words else "",
        form="item",
        number="singular",
        measures=measures_in(whole),
        line=whole.replace("**", ""),
    )


def record_item(label: str, fields: Mapping[str, Any], start: int) -> Found:
    """Return an item that is a record with fields."""
    line = ", ".join(f"{key}: {value}" for key, value in fields.items())
    words = tuple(dict.fromkeys(content_words(label)))
    return Found(
        label,
        "item",
        start,
        words,
        head=words[-1] if words else "",
        form="item",
        number="singular",
        measures=field_measures(fields),
        line=line,
    )


def noun_before(text: str) -> str:
    """Return the stem of the plural noun by which a list is announced."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    words = re.findall(r"[^\W\d_]+", lines[-1].split(". ")[-1]) if lines else []
    plural = [word for word in words if _is_plural(word)]
    return stem(plural[0]) if plural else ""


def _is_plural(word: str) -> bool:
    lower = word.lower()
    if not content_words(word):
        return False
    is_english = lower.endswith("s") and not lower.endswith(("ss", "us", "is", "'s"))
    is_german = word[0].isupper() and lower.endswith(("en", "er", "e", "s", "n"))
    return len(word) > 3 and (is_english or is_german)
