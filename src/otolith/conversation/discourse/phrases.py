"""Phrases that refer to something, parsed into what they ask for.

    it, she, those, dort            pronoun: agrees in number, gender and type
    the hotel, die Firma            definite: a noun
    that file, diese Datei          demonstrative: a noun, and recent
    Bristol                         name
    the second one, number 3        ordinal: a place, or a mark, in a list
    the last two                    ordinal, with a count
    the cheapest, der frühere       superlative: the least or the most of a measure
    the one with breakfast          described: an item that has these words
    both, all three hotels          several: a whole list
    the other two, the middle one   other, middle: beside what was picked, or between

The forms of a list are tried first, in the order of `parse_reference`: "the last message" is a
place in a list before it is a noun. Most forms are regular expressions in `words.toml`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from otolith.conversation.discourse.nouns import read_mentions
from otolith.conversation.discourse.word_lists import (
    keys_by_word,
    number_word,
    pattern,
    stem_list,
    word_list,
    word_table,
)
from otolith.text.words import content_words


@dataclass(frozen=True, slots=True)
class ReferenceQuery:
    """What a phrase asks for."""

    kind: str
    """Of all mentions: pronoun, definite, demonstrative or name. Of a list: ordinal, superlative,
    described, several, other or middle."""
    number: str = ""
    """singular, plural, or empty if the phrase may be either."""
    genders: tuple[str, ...] = ()
    """The genders that fit; "plural" is listed for a German pronoun that fits that as well."""
    types: tuple[str, ...] = ()
    """The types of entities that fit; all of them if it is empty."""
    head: str = ""
    """The stem of the noun, if the phrase has one that names a kind."""
    words: tuple[str, ...] = ()
    """The stems of the other words."""
    first: int = 0
    """The place in a list, from 0; below 0 from its end."""
    count: int = 1
    """How many are asked for; 0 for all of them."""
    mark: str = ""
    """The number or letter of an item: "option b"."""
    measures: tuple[str, ...] = ()
    """What is compared; the first measure that a list shows is taken."""
    is_most: bool = False
    """Whether the most of it is asked for, rather than the least."""


_DIGIT_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th|\.)")
_DEMONSTRATIVE = re.compile(r"th(?:is|at|ese|ose)|dies(?:e[rsnm]?)|jene[rsnm]?")
_PLURAL = re.compile(r".*(?:others|ones)|die .*anderen|(?:the|that) ones .*|d(?:enen|iejenigen).*")


def parse_reference(phrase: str, *, german: bool = False) -> ReferenceQuery | None:
    """Return what a phrase asks for; None if it asks for nothing.

    `german` is the language to assume where the phrase itself does not tell.
    """
    phrase = phrase.strip().strip(".,;:!?\"'“”„()").strip()
    if not phrase:
        return None
    opened = pattern("leading").match(phrase)
    phrase = (phrase[opened.end() :].lstrip(" ,") if opened else phrase) or "it"
    text = re.sub(r"\s+", " ", phrase).lower()
    pronoun = _pronouns().get(re.sub(r"^(th\w+) ones?$", r"\1", text))
    return (
        pronoun
        or _superlative(text)
        or _ordinal(text)
        or _form(text)
        or _noun(phrase, german=german)
    )


@cache
def _pronouns() -> dict[str, ReferenceQuery]:
    """Return what each pronoun asks for."""
    found: dict[str, ReferenceQuery] = {}
    for row in word_table("pronouns"):
        genders, types = tuple(row.get("genders", "").split()), tuple(row.get("types", "").split())
        query = ReferenceQuery("pronoun", row.get("number", ""), genders, types)
        found |= dict.fromkeys(row["words"].split(), query)
    return found


def _last_noun(text: str) -> str:
    """Return the stem of the last word that names a kind: not "one" or "option"."""
    stems = [word for word in content_words(text) if word not in stem_list("empty_nouns")]
    return stems[-1] if stems else ""


def _form(text: str) -> ReferenceQuery | None:
    """Parse a phrase by the regular expressions of `[forms]`, which are named by their kind."""
    for kind, forms in word_table("forms").items():
        for form in forms:
            found = re.fullmatch(form, text)
            if found is not None:
                parts = found.groupdict()
                count = max(number_word(word) or 0 for word in text.split())
                is_plural = kind == "several" or count > 1 or _PLURAL.fullmatch(text)
                mark = parts.get("mark") or ""
                return ReferenceQuery(
                    kind,
                    "plural" if is_plural and not mark else "singular",
                    head=_last_noun(parts.get("noun") or ""),
                    words=tuple(content_words(parts.get("words") or "")),
                    count=count if kind == "several" else 1,
                    mark=str(number_word(mark) or mark),
                )
    return None


def _superlative(text: str) -> ReferenceQuery | None:
    """Parse "the cheapest flight", "the most expensive one", "die günstigere"."""
    if " " not in text and not text.endswith("st"):
        return None  # "later" alone is a time
    joined = re.sub(r"\b(most|least|highest|lowest|best|worst|top) (?=\w)", r"\1-", text)
    for found in [*re.finditer(r"[\w-]+", joined), *re.finditer(r"\w+", text)]:
        for table in ("least", "most"):
            measures = _listed(table, found.group())
            if measures:
                return ReferenceQuery(
                    "superlative",
                    "singular",
                    head=_last_noun(found.string[found.end() :]),
                    measures=tuple(measures.split()),
                    is_most=table == "most",
                )
    return None


def _ordinal(text: str) -> ReferenceQuery | None:
    """Parse "the second to last", "the 3rd", "die letzten beiden"."""
    words = re.findall(r"[\w'-]+\.?", text)
    for at, word in enumerate(words[:3]):
        digits = _DIGIT_ORDINAL.fullmatch(word)
        key = str(int(digits[1]) - 1) if digits else _listed("ordinals", word.rstrip("."))
        if not key:
            continue
        place, rest = int(key), words[at + 1 :]
        if rest[:2] == ["to", "last"]:
            place, rest = -(place + 1), rest[2:]
        count = max(number_word(each) or 1 for each in ("one", *rest[:1], *words[:at][-1:]))
        place = -count if place < 0 and count > 1 else place
        number = "plural" if count > 1 else "singular"
        head = _last_noun(" ".join(rest))
        return ReferenceQuery("ordinal", number, head=head, first=place, count=count)
    return None


def _listed(table: str, word: str) -> str:
    """Return the key of a word in a table, with or without a German ending; empty if none."""
    known = keys_by_word(table)
    root = re.sub(r"(?:er)?e[nrsm]?$", "", word)
    return (known.get(word) or known.get(root) or ("",))[0]


def _noun(phrase: str, *, german: bool) -> ReferenceQuery | None:
    """Parse a noun with a determiner, or a name, as it would be read in a text."""
    first = phrase.partition(" ")[0].lower()
    mentions = read_mentions(phrase, german=german).mentions
    stems = [word for each in mentions for word in each.words] or content_words(phrase)
    if not stems:
        return None
    head, number = (mentions[0].head, mentions[0].number) if mentions else (stems[-1], "")
    has_determiner = first in word_list("determiners") | word_list("german_determiners")
    kind = "definite" if has_determiner else "name"
    kind = "demonstrative" if _DEMONSTRATIVE.fullmatch(first) else kind
    words = tuple(word for word in stems if kind == "name" or word != head)
    return ReferenceQuery(kind, number, head=head, words=words)
