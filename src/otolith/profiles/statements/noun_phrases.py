"""Noun phrases: what a statement is about, as the key of a preference and its value.

A phrase is words before a noun, the noun, and words after it:

    overly | spicy | food          window | seat          movies | with excessive CGI
            words    noun          words    noun          noun     words after it

Its noun in the singular is the key; the words say which of its kind. Articles and words that only
count or stress are left out. The word lists are in `words.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from otolith.profiles.statements.statement_words import word_list

_MAX_WORDS, _MAX_ITEMS, _MAX_KEY_WORDS = 24, 4, 5
_WORD = re.compile(r"[^\s,;]+|,")
_EDGE = ".,;:!?\"'()[]*_~\u201c\u201d\u2026"
_IRREGULAR = {
    "buses": "bus",
    "children": "child",
    "clothes": "clothes",
    "dishes": "dish",
    "emojis": "emoji",
    "jeans": "jeans",
    "news": "news",
    "people": "people",
    "pants": "pants",
    "potatoes": "potato",
    "series": "series",
    "shoes": "shoe",
    "shorts": "shorts",
    "species": "species",
    "taxis": "taxi",
    "tomatoes": "tomato",
    "women": "woman",
    "men": "man",
} | {f"{each}s": each for each in ("movie", "cookie", "zombie", "brownie", "smoothie", "hoodie")}


class Item(NamedTuple):
    """A thing that somebody likes or not."""

    noun: str
    """As it was said."""
    before: str = ""
    """Which of its kind, as it was said."""
    after: str = ""

    @property
    def words(self) -> str:
        """Which of its kind: all words but the noun."""
        return f"{self.before} {self.after}".strip()

    @property
    def kind(self) -> str:
        """The noun in the singular, in small letters; a name stays as it is."""
        return self.noun.lower() if self.is_name else singular(self.noun.lower())

    @property
    def is_name(self) -> bool:
        """Whether it is a name of several words, such as "True Grit"."""
        before = self.before.split()
        return bool(before) and not self.after and all(x[0].isupper() for x in [*before, self.noun])

    @property
    def key(self) -> str:
        """The noun and its words as a key: "food/spicy"."""
        if self.is_name:
            return f"{self.words} {self.noun}".lower()
        words = [
            singular(each.lower()) if each.islower() else each.lower()
            for each in re.findall(r"[\w'+&.-]*\w", self.words)
            if each.lower() not in word_list("small")
        ][:_MAX_KEY_WORDS]
        return "/".join(filter(None, [self.kind, " ".join(words)]))

    @property
    def text(self) -> str:
        """The whole phrase, in small letters, its noun in the singular."""
        return f"{self.words} {self.kind}".strip()


class Phrases(NamedTuple):
    """What the object of a statement says."""

    items: tuple[Item, ...]
    other: Item | None = None
    """What it is preferred to."""
    context: str = ""
    """When it holds."""


@lru_cache(maxsize=4096)
def singular(word: str) -> str:
    """Return a noun in the singular: "flights" is "flight", "hiking" itself."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        return word[:-2]
    return word[:-1]


def gerund(verb: str) -> str:
    """Return the form of a verb that names what is done: "cook" is "cooking"."""
    if verb.endswith("ing"):
        return verb
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    if verb.endswith("e") and not verb.endswith(("ee", "ye", "oe")):
        return f"{verb[:-1]}ing"
    is_doubled = re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb)
    return f"{verb}{verb[-1]}ing" if is_doubled else f"{verb}ing"


def read_phrases(text: str, *, compares: bool = False) -> Phrases:
    """Return what an object says; `compares` if "to" and "over" name what is liked less."""
    words = _up_to_end(_WORD.findall(text)[:_MAX_WORDS])
    words, context = _split_context(words)
    other: Item | None = None
    if compares:
        words, rest = _split_comparison(words)
        other = next(iter(_items(rest)), None) if rest else None
    return Phrases(tuple(_items(words))[:_MAX_ITEMS], other, context)


def _lower(words: Iterable[str]) -> list[str]:
    return [each.lower().strip(_EDGE) if each != "," else each for each in words]


def _up_to_end(words: list[str]) -> list[str]:
    """Return the words before a reason, an example or a thank-you."""
    low, ends, verbs = _lower(words), word_list("end"), word_list("and_verb")
    for at in range(1, len(low)):
        word, following = low[at], low[at + 1] if at + 1 < len(low) else ""
        is_end = word in ends or f"{word} {following}" in ends
        is_end = is_end and not (word == "too" and following)
        is_end = is_end or (word == "not" and low[at - 1] == ",")
        is_clause = word in {"and", "or", "but"} and following in verbs
        is_apart = word == "," and following in {"and", "but", "so"} and "," not in low[:at]
        if is_end or is_clause or is_apart:
            return words[:at]
    return words


def _split_comparison(words: list[str]) -> tuple[list[str], list[str]]:
    """Return what is preferred, and what it is preferred to."""
    low = _lower(words)
    for at in range(1, len(low)):
        word, following = low[at], low[at + 1] if at + 1 < len(low) else ""
        if word == "rather" and following == "than":
            return words[:at], words[at + 2 :]
        if word == "instead" and following == "of":
            return words[:at], words[at + 2 :]
        is_amount = low[at - 1] in {"more", "less"} or following[:1].isdigit()
        if (
            word in {"over", "than", "to"}
            and not is_amount
            and following not in word_list("number")
        ):
            return words[:at], words[at + 1 :]
    return words, []


def _split_context(words: list[str]) -> tuple[list[str], str]:
    """Return the words without the occasion that they end with, and the occasion."""
    low = _lower(words)
    for at in range(1, len(low)):
        word, rest = low[at], low[at + 1 :]
        if not rest or len(rest) > 6:
            continue
        is_when = word in {"when", "whenever", "while", "during", "if"}
        is_occasion = word in {"on", "in", "at", "for"} and rest[-1] in word_list("context_word")
        if is_when or is_occasion:
            about = at + 4 if low[at : at + 4] == ["when", "it", "comes", "to"] else at
            return words[:at], " ".join(words[about:]).strip(_EDGE + " ")
    return words, ""


def _items(words: list[str]) -> Iterator[Item]:
    """Yield the things that words name, one for each that is joined by "and", "or" or a comma."""
    words, after = _split_after(_without_light_verb(words))
    parts = [part for part in _parts(words) if part]
    if not parts:
        if after:
            yield from _items_of_rest(after)
        return
    last = parts[-1]
    is_shared = len(last) > 1 and all(
        len(part) == 1 and not part[0].lower().endswith("s") for part in parts[:-1]
    )
    if is_shared and len(parts) > 1:
        parts = [[*part, last[-1]] for part in parts[:-1]] + [last]
    for part in parts:
        *before, noun = part
        yield Item(noun, " ".join(before), " ".join(after))


def _items_of_rest(after: list[str]) -> Iterator[Item]:
    """Yield the things of "anything with horror elements"."""
    rest = after[1:]
    words, more = _split_after(rest)
    for part in _parts(words):
        if part:
            yield Item(part[-1], " ".join(part[:-1]), " ".join(more))


def _without_light_verb(words: list[str]) -> list[str]:
    """Return the words without "using", "to eat" and other verbs that say nothing of the thing."""
    verbs = word_list("light_verb")
    while words:
        low = _lower(words[:3])
        if low[0] == "to" and len(words) > 1 and low[1] not in word_list("determiner"):
            if len(words) == 2:
                return [gerund(low[1])]
            if low[1] in verbs or " ".join(low[1:3]) in verbs:
                words = words[1:]
                continue
            return _activity([gerund(low[1]), *words[2:]])
        count = next((n for n in (3, 2, 1) if " ".join(low[:n]) in verbs and len(words) > n), 0)
        if not count:
            return _activity(words)
        words = words[count:]
    return words


def _activity(words: list[str]) -> list[str]:
    """Return the words of "hiking" and "solving puzzles"; none of "getting lost in a book"."""
    low = _lower(words[:2])
    is_deed = low[0].endswith("ing") and len(low[0]) > 4 and low[0] not in _no_deeds()
    is_vague = (
        len(words) > 5
        or low[0] in word_list("vague_deed")
        or (len(low) > 1 and low[1] in word_list("particle"))
    )
    return [] if is_deed and is_vague and "," not in words else words


@cache
def _no_deeds() -> frozenset[str]:
    return word_list("no_deed") | word_list("post") | word_list("determiner")


def _split_after(words: list[str]) -> tuple[list[str], list[str]]:
    """Return a phrase up to its noun, and what comes after the noun."""
    words = _without_determiners(words)
    low, posts = _lower(words), word_list("post")
    for at, word in enumerate(low):
        is_participle = (
            at
            and word.endswith(("ing", "ed"))
            and at + 1 < len(low)
            and low[at - 1].endswith("s")
            and not low[at - 1].endswith(("ss", "us"))
        )
        if word in posts or is_participle:
            return _clean(words[:at]), [each for each in words[at:] if each != ","]
    return _clean(words), []


def _without_determiners(words: list[str]) -> list[str]:
    determiners = word_list("determiner")
    while words:
        low = _lower(words[:3])
        count = next((n for n in (3, 2, 1) if " ".join(low[:n]) in determiners), 0)
        if not count:
            break
        words = words[count:]
    return words


def _clean(words: Iterable[str]) -> list[str]:
    """Return words without marks around them; commas stay."""
    found = [each if each == "," else each.strip(_EDGE) for each in words]
    return [each for each in found if each]


def _parts(words: list[str]) -> list[list[str]]:
    """Return what is joined by "and", "or" and commas."""
    found: list[list[str]] = [[]]
    for word in words:
        if word == "," or word.lower() in {"and", "or", "nor", "&"}:
            found.append([])
        else:
            found[-1].append(word)
    return [_without_determiners(part) for part in found if part]
