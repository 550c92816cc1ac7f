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
    the other two, the next one     other, next, previous, middle: beside what was picked

The forms of a list are tried first, in the order of `parse_reference`: "the last message" is a
place in a list before it is a noun.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from otolith.conversation.discourse.nouns import noun_type, number_of_noun
from otolith.conversation.discourse.word_lists import (
    keys_by_word,
    number_word,
    stem_list,
    word_list,
    word_table,
)
from otolith.text.words import content_words, stem, words_in


@dataclass(frozen=True, slots=True)
class ReferenceQuery:
    """What a phrase asks for."""

    kind: str
    """Of all mentions: pronoun, definite, demonstrative or name. Of a list: ordinal, superlative,
    described, several, other, next, previous or middle."""
    number: str = ""
    """singular, plural, or empty if the phrase may be either."""
    genders: tuple[str, ...] = ()
    """The genders that fit; "plural" and "any" are listed for German pronouns that fit those."""
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


_LEADING = re.compile(
    r"^(?:(?:and|or|but|what about|how about|und|oder|aber|was ist mit|wie wäre(?:'s| es) mit)\b"
    r",?\s*)+",
    re.IGNORECASE,
)
_MARKED = re.compile(
    r"^(?:(?:the |die |der |das )?(?:number|no\.?|nr\.?|option|item|choice|nummer|variante|punkt"
    r"|vorschlag|answer|#)\s*#?(\d{1,2}|[a-h]|one|two|three|four|five|eins|zwei|drei|vier|fünf)"
    r"|#?(\d{1,2})[.)]?)$"
)
_DIGIT_ORDINAL = re.compile(r"^(\d{1,2})(?:st|nd|rd|th|\.)$")
_OPENER = re.compile(
    r"the|that|this|my|d(?:er|ie|as|en|em|es)|zu[mr]|beim|im|two|three|zwei|drei|beiden"
)
_SEVERAL = re.compile(
    r"^(?:both(?: of (?:them|those|these))?|all(?: of (?:them|those|these))?"
    r"|(?:alle|die) ?beiden?|beide|alle(?: davon)?|(?:all (?:the )?|alle )(?P<noun>\w+)"
    r"|(?:the|these|those|die|diese|all) (?P<count>two|three|four|five|zwei|drei|vier|fünf|beiden)"
    r"(?: of them| davon| (?P<last>\w+))?)$"
)
_POSITIONS = {
    "other": re.compile(r"\b(?:others?|andere[nrsm]?)\b"),
    "next": re.compile(r"\b(?:next|following|nächste[nrs]?|folgenden?)\b"),
    "previous": re.compile(r"\b(?:previous|vor(?:her)?ige[nr]?)\b"),
    "middle": re.compile(r"\b(?:middle|mittlere[nr]?)\b"),
}
_DESCRIBED = re.compile(
    r"^(?:the |that )?ones?\s+(?P<after>.+)$"
    r"|^(?:der|die|das|den|dem|denen|diejenigen?)\s+"
    r"(?:mit|aus|von|für|in|um|am|bei|nach|ohne|auf|zu|zum)\s+(?P<mit>.+)$"
    r"|^(?:the |that |this )(?P<before>.+?)\s+ones?$"
)
_DEMONSTRATIVE = re.compile(r"th(?:is|at|ese|ose)|dies(?:e[rsnm]?)|jene[rsnm]?")
_ENDS_NOUN = re.compile(
    "i[nm]|a[mn]|auf|aus|bei|mit|nach|vo[nm]|für|über|ohne|that|which|der|die|das|you|we|i"
)


def parse_reference(phrase: str, *, german: bool = False) -> ReferenceQuery | None:
    """Return what a phrase asks for; None if it asks for nothing.

    `german` is the language to assume where the phrase itself does not tell.
    """
    text = re.sub(r"\s+", " ", phrase.strip().strip(".,;:!?\"'“”„()").strip()).lower()
    if not text:
        return None
    text = _LEADING.sub("", text) or "it"
    pronoun = _pronouns().get(re.sub(r"^(th\w+) ones?$", r"\1", text))
    if pronoun is not None:
        return pronoun
    for parse in (_several, _superlative, _ordinal, _position, _described):
        asked = parse(text)
        if asked is not None:
            return asked
    return _noun(_LEADING.sub("", phrase.strip()), german=german)


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


def _several(text: str) -> ReferenceQuery | None:
    found = _SEVERAL.match(text)
    if found is None:
        return None
    noun = found["noun"] or found["last"] or ""
    count = 2 if re.search(r"both|beide", text) else number_word(found["count"] or noun) or 0
    return ReferenceQuery("several", "plural", head=_last_noun(noun), count=count)


def _superlative(text: str) -> ReferenceQuery | None:
    """Parse "the cheapest flight", "the most expensive one", "die günstigere"."""
    if " " not in text and not text.endswith("st"):
        return None  # "later" alone is a time
    joined = re.sub(r"\b(most|least|highest|lowest|best|worst|top) (?=\w)", r"\1-", text)
    for found in [*re.finditer(r"[\w-]+", joined), *re.finditer(r"\w+", text)]:
        word = found.group()
        forms = (word, *(word.removesuffix(ending) for ending in ("e", "en", "er", "es", "em")))
        for table in ("least", "most"):
            known = keys_by_word(table)
            measures = next((known[form][0] for form in forms if form in known), "")
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
    """Parse "option b", "the second to last", "die letzten beiden"."""
    marked = _MARKED.match(text)
    if marked is not None:
        mark = marked[1] or marked[2]
        return ReferenceQuery("ordinal", "singular", mark=str(number_word(mark) or mark))
    words = re.findall(r"[\w'-]+\.?", text)
    for at, word in enumerate(words[:3]):
        place = _place(word)
        if place is None or (at > 0 and not _OPENER.fullmatch(words[0])):
            continue
        rest = words[at + 1 :]
        if rest[:2] == ["to", "last"]:
            place, rest = -(place + 1), rest[2:]
        count = max(number_word(each) or 1 for each in ("one", *rest[:1], *words[:at][-1:]))
        place = -count if place < 0 and count > 1 else place
        number = "plural" if count > 1 else "singular"
        head = _last_noun(" ".join(rest))
        return ReferenceQuery("ordinal", number, head=head, first=place, count=count)
    return None


def _place(word: str) -> int | None:
    """Return the place in a list that an ordinal stands for: 3rd, zweiten, last."""
    digits = _DIGIT_ORDINAL.match(word)
    if digits:
        return int(digits[1]) - 1
    known = keys_by_word("ordinals")
    root = re.sub(r"(?:er)?e[nrsm]?$", "", word.rstrip("."))
    keys = known.get(word.rstrip(".")) or (root != word and known.get(root))
    return int(keys[0]) if keys else None


def _position(text: str) -> ReferenceQuery | None:
    first, _, rest = text.partition(" ")
    determiners = word_list("determiners") | word_list("german_determiners")
    if rest.count(" ") > 2 or first not in determiners:
        return None
    for kind, pattern in _POSITIONS.items():
        if pattern.search(rest):
            is_counted = any((number_word(word) or 1) > 1 for word in text.split())
            is_german_plural = first == "die" and text.endswith("anderen")
            is_plural = is_counted or is_german_plural or text.endswith(("others", "ones"))
            head = _last_noun(pattern.sub("", rest))
            return ReferenceQuery(kind, "plural" if is_plural else "singular", head=head)
    return None


def _described(text: str) -> ReferenceQuery | None:
    found = _DESCRIBED.match(text)
    words = tuple(content_words(found["after"] or found["mit"] or found["before"])) if found else ()
    number = "plural" if re.search(r"\bones\b|^denen|^diejenigen", text) else "singular"
    return ReferenceQuery("described", number, words=words) if words else None


def _noun(phrase: str, *, german: bool) -> ReferenceQuery | None:
    """Parse a noun with a determiner, or a name; what follows a preposition is no part of it."""
    words = [word.text for word in words_in(phrase)]
    first = words[0].lower() if words else ""
    is_english, is_german = (
        first in word_list("determiners"),
        first in word_list("german_determiners"),
    )
    has_determiner = is_english or is_german
    core = words[1:] if has_determiner else words
    stems = tuple(content_words(" ".join(core))) or tuple(map(stem, core))
    if not stems:
        return None
    lowers = [word.lower() for word in core]
    ends = (x in word_list("prepositions") or _ENDS_NOUN.fullmatch(x) for x in lowers[1:])
    end = next((at for at, is_end in enumerate(ends, 1) if is_end), len(core))
    noun = core[end - 1] if has_determiner else core[-1]
    kind = "definite" if has_determiner else "name"
    kind = "demonstrative" if _DEMONSTRATIVE.fullmatch(first) else kind
    is_de = is_german or (german and not is_english)
    return ReferenceQuery(
        kind,
        number_of_noun(first if has_determiner else "", noun, is_de=is_de),
        types=(noun_type(stem(noun)),),
        head=stem(noun),
        words=stems if kind == "name" else tuple(word for word in stems if word != stem(noun)),
    )
