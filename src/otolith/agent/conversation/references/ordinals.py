"""Phrases with a place in a list: "the second one", "die letzten beiden", "number 3"."""

from __future__ import annotations

import re

from otolith.agent.conversation.entities.lexicon import NUMBER_WORDS, word_set
from otolith.agent.conversation.references.asked import Asked, last_noun

_OPENERS = word_set("""
the that this my der die das den dem zum zur beim im des two three zwei drei beiden
""")
_ENGLISH_ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)
_GERMAN_ORDINALS = (
    "erst",
    "zweit",
    "dritt",
    "viert",
    "fünft",
    "sechst",
    "siebt",
    "acht",
    "neunt",
    "zehnt",
)
_ORDINAL = {word: at for at, word in enumerate(_ENGLISH_ORDINALS)}
_ORDINAL |= {
    root + ending: at
    for at, root in enumerate(_GERMAN_ORDINALS)
    for ending in ("e", "en", "er", "es", "em", "ere", "erer", "eren")
}
_ORDINAL |= {"last": -1, "final": -1, "former": 0, "latter": -1, "penultimate": -2}
_ORDINAL |= {f"letzt{e}": -1 for e in ("e", "en", "er", "es", "em", "ere", "erer", "eres", "eren")}
_ORDINAL |= {f"vorletzt{ending}": -2 for ending in ("e", "en", "er", "es", "em")}
_DIGIT_ORDINAL = re.compile(r"^(\d{1,2})(?:st|nd|rd|th|\.)$")
_MARKED = re.compile(
    r"^(?:the |die |der |das )?"
    r"(?:number|no\.?|nr\.?|option|item|choice|nummer|variante|punkt|vorschlag|answer|#)"
    r"\s*#?(\d{1,2}|[a-h]|one|two|three|four|five|eins|zwei|drei|vier|fünf)$",
    re.IGNORECASE,
)
_BARE_MARK = re.compile(r"^#?(\d{1,2})[.)]?$")


def ordinal(text: str) -> Asked | None:
    """Return what a phrase with a place in a list asks for; None if it is none."""
    marked = _MARKED.match(text) or _BARE_MARK.match(text)
    if marked is not None:
        mark = str(NUMBER_WORDS.get(marked[1], marked[1]))
        return Asked("ordinal", "singular", mark=mark)
    words = re.findall(r"[\w'-]+\.?", text)
    for at, word in enumerate(words[:3]):
        digits = _DIGIT_ORDINAL.match(word)
        place = int(digits[1]) - 1 if digits else _ORDINAL.get(word.rstrip("."))
        if place is None or (at > 0 and words[0] not in _OPENERS):
            continue
        rest = words[at + 1 :]
        if rest[:2] == ["to", "last"]:
            place, rest = -(place + 1), rest[2:]
        before = NUMBER_WORDS.get(words[at - 1], 1) if at else 1
        count = max(_count(rest[0]) if rest else 1, before)
        return _placed(place, count, last_noun(" ".join(rest)))
    return None


def _placed(place: int, count: int, head: str) -> Asked:
    if place < 0:
        place = -count if count > 1 else place
    number = "plural" if count > 1 else "singular"
    return Asked("ordinal", number, head=head, first=place, count=count)


def _count(word: str) -> int:
    """Return how many: "the last two" are two, "the last one" is one."""
    return int(word) if word.isdecimal() else NUMBER_WORDS.get(word, 1)
