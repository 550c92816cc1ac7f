"""Phrases that refer to something: "it", "that file", "the one with breakfast", "sie"."""

from __future__ import annotations

import re

from otolith.agent.conversation.entities import content_words, stem, words_in
from otolith.agent.conversation.entities.kinds import german_gender, german_number, noun_type
from otolith.agent.conversation.entities.lexicon import (
    DETERMINERS,
    GERMAN_DETERMINERS,
    NUMBER_WORDS,
    PREPOSITIONS,
    word_set,
)
from otolith.agent.conversation.references.asked import EMPTY_NOUNS, Asked, last_noun
from otolith.agent.conversation.references.ordinals import ordinal
from otolith.agent.conversation.references.superlatives import superlative

_PERSON = ("person",)
_PLACE = ("place",)
PRONOUNS = {
    word: asked
    for words, asked in {
        "he him his himself": Asked("pronoun", "singular", ("m",), _PERSON),
        "she her hers herself": Asked("pronoun", "singular", ("f",), _PERSON),
        "it its itself": Asked("pronoun", "singular"),
        "they them their theirs themselves": Asked("pronoun", "plural"),
        "this that": Asked("pronoun", "singular"),
        "these those": Asked("pronoun", "plural"),
        "there here": Asked("pronoun", "singular", (), _PLACE),
        "then": Asked("pronoun", "singular", (), ("date", "time")),
        "er ihn ihm sein seine seinen seinem seiner seines dieser diesen den dessen": Asked(
            "pronoun", "singular", ("m",), is_german=True
        ),
        "sie": Asked("pronoun", "", ("f", "plural"), is_german=True),
        "ihr ihre ihren ihrem ihrer diese die deren": Asked(
            "pronoun", "", ("f", "plural"), is_german=True
        ),
        "ihnen denen": Asked("pronoun", "plural", is_german=True),
        "es": Asked("pronoun", "singular", ("n",), is_german=True),
        "das dies dieses diesem": Asked("pronoun", "singular", ("n", "any"), is_german=True),
        "der": Asked("pronoun", "singular", ("m",), is_german=True),
        "dem": Asked("pronoun", "singular", ("m", "n"), is_german=True),
        "dort dorthin dahin da hier": Asked("pronoun", "singular", (), _PLACE, is_german=True),
        "dann": Asked("pronoun", "singular", (), ("date", "time"), is_german=True),
        "davon damit dafür darauf darüber dazu daran dabei darin": Asked(
            "pronoun", "", ("m", "f", "n", "any"), is_german=True
        ),
    }.items()
    for word in words.split()
}

_MIDDLE = ("middle", "mittlere", "mittleren", "mittlerer")
_OTHER = ("other", "others", "andere", "anderen", "anderer", "anderes", "anderem")
_NEXT = word_set("next following nächste nächsten nächster nächstes folgende folgenden")
_PREVIOUS = ("previous", "vorige", "vorigen", "voriger", "vorherige", "vorherigen")

_SEVERAL = re.compile(
    r"^(?:both(?: of (?:them|those|these))?|all(?: of (?:them|those|these))?"
    r"|(?:alle|die) ?beiden?|beide|alle(?: davon)?|all (?:the )?(?P<noun>\w+)|alle (?P<nomen>\w+)"
    r"|(?:the|these|those|die|diese|all) (?P<count>two|three|four|five|zwei|drei|vier|fünf|beiden)"
    r"(?: of them| davon| (?P<last>\w+))?)$",
    re.IGNORECASE,
)
_WITH = re.compile(
    r"^(?:the |that )?(?:one|ones)\s+(?P<rest>.+)$|^(?:der|die|das|den|dem|denen|diejenigen?)\s+"
    r"(?:mit|aus|von|für|in|um|am|bei|nach|ohne|auf|zu|zum)\s+(?P<mit>.+)$",
    re.IGNORECASE,
)
_ONE = re.compile(r"^(?:the |that |this )(?P<rest>.+?)\s+ones?$", re.IGNORECASE)
_DEMONSTRATIVE = word_set("""
this that these those dieser diese dieses diesen diesem jener jene jenes jenen jenem
""")


_ELLIPSIS = re.compile(
    r"^(?:(?:and|or|but|what about|how about|und|oder|aber|was ist mit|wie wäre(?:'s| es) mit)\b"
    r",?\s*)+",
    re.IGNORECASE,
)
_ONES = {"that one": "that", "this one": "this", "these ones": "these", "those ones": "those"}


def parsed(phrase: str, *, german: bool = False) -> Asked | None:
    """Return what a phrase asks for; None if it asks for nothing."""
    text = re.sub(r"\s+", " ", phrase.strip().strip(".,;:!?\"'“”„()").strip()).lower()
    if not text:
        return None
    text = _ELLIPSIS.sub("", text) or "it"
    pronoun = PRONOUNS.get(_ONES.get(text, text))
    if pronoun is not None:
        return pronoun
    tries = (_several, superlative, ordinal, _special, _described)
    found = next((asked for each in tries if (asked := each(text)) is not None), None)
    return found or _noun(_ELLIPSIS.sub("", phrase.strip()), german=german)


def _several(text: str) -> Asked | None:
    found = _SEVERAL.match(text)
    if found is None:
        return None
    noun = found["noun"] or found["nomen"] or found["last"] or ""
    number = found["count"] or (noun if noun in NUMBER_WORDS else "")
    count = 2 if re.search(r"both|beide", text) else NUMBER_WORDS.get(number, 0)
    is_noun = noun and stem(noun) not in EMPTY_NOUNS and noun not in NUMBER_WORDS
    return Asked("several", "plural", head=stem(noun) if is_noun else "", count=count)


def _special(text: str) -> Asked | None:
    words = text.split()
    if len(words) > 4 or words[0] not in (DETERMINERS | GERMAN_DETERMINERS):
        return None
    for names, kind in (
        (_OTHER, "other"),
        (_NEXT, "next"),
        (_PREVIOUS, "previous"),
        (_MIDDLE, "middle"),
    ):
        if any(word in names for word in words[1:]):
            head = last_noun(" ".join(word for word in words[1:] if word not in names))
            is_counted = any(NUMBER_WORDS.get(word, 1) > 1 for word in words)
            is_german = words[0] == "die" and text.endswith("anderen")
            is_plural = is_counted or is_german or text.endswith(("others", "ones"))
            return Asked(kind, "plural" if is_plural else "singular", head=head)
    return None


def _described(text: str) -> Asked | None:
    found = _WITH.match(text)
    rest = (found["rest"] or found["mit"]) if found else ""
    one = _ONE.match(text)
    rest = rest or (one["rest"] if one else "")
    words = tuple(content_words(rest))
    number = "plural" if re.search(r"\bones\b|^denen|^diejenigen", text) else "singular"
    return Asked("described", number, words=words) if words else None


_AFTER = PREPOSITIONS | word_set("""
in im am an auf aus bei mit nach von vom für über ohne that which der die das you we i
""")


def _noun(phrase: str, *, german: bool) -> Asked | None:
    words = [word.text for word in words_in(phrase)]
    if not words:
        return None
    first = words[0].lower()
    is_german = first in GERMAN_DETERMINERS or (german and first not in DETERMINERS)
    has_determiner = first in DETERMINERS or first in GERMAN_DETERMINERS
    core = words[1:] if has_determiner else words
    inner = next((at for at, word in enumerate(core) if at and word.lower() in _AFTER), len(core))
    stems = tuple(content_words(" ".join(core))) or tuple(stem(word) for word in core)
    if not stems:
        return None
    kind = "demonstrative" if first in _DEMONSTRATIVE else "definite" if has_determiner else "name"
    noun = core[inner - 1] if has_determiner else core[-1]
    number = _number(first, noun, is_german=is_german)
    gender = german_gender(noun) if is_german else None
    return Asked(
        kind,
        number,
        genders=(gender,) if gender else (),
        types=(noun_type(stem(noun)),),
        head=stem(noun),
        words=tuple(word for word in stems if word != stem(noun)) if kind != "name" else stems,
        is_german=is_german,
    )


def _number(determiner: str, noun: str, *, is_german: bool) -> str:
    if determiner in ("these", "those"):
        return "plural"
    if determiner in ("this", "that", "das", "dieses", "dem", "ein", "eine"):
        return "singular"
    if is_german:
        return german_number(noun)
    return "plural" if noun.endswith("s") and not noun.endswith(("ss", "us", "is")) else "singular"
