"""Phrases that compare: "the cheapest one", "der frühere", "the bigger of the two"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from otolith.agent.conversation.entities import words_in
from otolith.agent.conversation.references.asked import Asked, last_noun

_SUPERLATIVES = {
    word: (measures.split(), is_most)
    for words, measures, is_most in (
        ("cheapest lowest-priced billigst günstigst preiswertest", "price", False),
        ("priciest dearest costliest teuerst kostspieligst", "price", True),
        ("fastest quickest schnellst", "minutes", False),
        ("slowest langsamst", "minutes", True),
        ("shortest kürzest", "minutes distance pages", False),
        ("longest längst", "minutes distance pages", True),
        ("earliest soonest frühest frühst", "clock date", False),
        ("latest spätest", "clock date year", True),
        ("newest neuest jüngst aktuellst", "date year", True),
        ("oldest ältest", "date year", False),
        ("best highest-rated top-rated best-rated bestbewertet beliebtest", "rating", True),
        ("worst schlechtest", "rating", False),
        ("closest nearest nächstgelegen", "distance", False),
        ("farthest furthest weitest entferntest", "distance", True),
        ("biggest largest größt", "area size pages", True),
        ("smallest kleinst", "area size pages", False),
        ("heaviest schwerst", "weight", True),
        ("lightest leichtest", "weight", False),
        ("highest höchst", "rating percent price", True),
        ("lowest niedrigst", "price percent rating", False),
    )
    for word in words.split()
}
_COMPARATIVE = re.compile(
    r"^(?:the|der|die|das|den|dem) (\w+er|\w+ere[nrsm]?)"
    r"(?: (?:one|of the two|der beiden|von beiden|(\w+)))?$"
)
_PAIRS = """
cheaper-cheapest faster-fastest quicker-quickest slower-slowest shorter-shortest longer-longest
earlier-earliest later-latest newer-newest older-oldest better-best worse-worst closer-closest
nearer-nearest bigger-biggest larger-largest smaller-smallest heavier-heaviest lighter-lightest
pricier-priciest billiger-billigst günstiger-günstigst teurer-teuerst schneller-schnellst
langsamer-langsamst kürzer-kürzest länger-längst früher-frühest später-spätest neuer-neuest
älter-ältest besser-best schlechter-schlechtest größer-größt kleiner-kleinst leichter-leichtest
"""
_COMPARATIVES = {one: most for one, _, most in (pair.partition("-") for pair in _PAIRS.split())}
_ENDINGS = ("e", "en", "er", "es", "em")
_PHRASED = (
    (re.compile(r"\b(?:most expensive|highest price)"), ("price",), True),
    (re.compile(r"\b(?:least expensive|lowest price|best price)"), ("price",), False),
    (re.compile(r"\b(?:highest|best|top)[ -]rated|\bhighest rating"), ("rating",), True),
    (re.compile(r"\b(?:lowest|worst)[ -]rated|\blowest rating"), ("rating",), False),
    (re.compile(r"\bmost recent"), ("date", "year", "clock"), True),
)


def superlative(text: str) -> Asked | None:
    """Return what a phrase that compares asks for; None if it compares nothing."""
    for pattern, measures, is_most in _PHRASED:
        if pattern.search(text):
            return _asked(measures, pattern.sub("", text), is_most=is_most)
    comparative = _COMPARATIVE.match(text)
    if comparative is not None:
        one = next((each for each in _COMPARATIVES if comparative[1].startswith(each)), "")
        if one:
            listed, is_most = _SUPERLATIVES[_COMPARATIVES[one]]
            return _asked(listed, comparative[2] or "", is_most=is_most, count=2)
    for word in words_in(text):
        root = _root(word.lower)
        if root in _SUPERLATIVES:
            listed, is_most = _SUPERLATIVES[root]
            return _asked(listed, text[word.end :], is_most=is_most)
    return None


def _root(word: str) -> str:
    """Return a superlative without its German ending."""
    roots = (word.removesuffix(ending) for ending in _ENDINGS)
    return next((root for root in roots if root != word and root in _SUPERLATIVES), word)


def _asked(measures: Iterable[str], rest: str, *, is_most: bool, count: int = 1) -> Asked:
    return Asked(
        "superlative",
        "singular",
        head=last_noun(rest),
        measures=tuple(measures),
        is_most=is_most,
        count=count,
    )
