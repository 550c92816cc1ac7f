"""Phrases that refer to something: "it", "that file", "the one with breakfast", "sie".

What a phrase asks for, as a value.

Phrases with a place in a list: "the second one", "die letzten beiden", "number 3".

Phrases that compare: "the cheapest one", "der frühere", "the bigger of the two".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from otolith.conversation.discourse.noun_kinds import german_gender, german_number, noun_type
from otolith.text.lexicon import (
    DETERMINERS,
    GERMAN_DETERMINERS,
    NUMBER_WORDS,
    PREPOSITIONS,
    word_set,
)
from otolith.text.words import content_words, stem, words_in

EMPTY_NOUNS = frozenset(
    map(
        stem,
        word_set("""
        one ones option options item items choice result results entry suggestion variant variante
        treffer vorschlag ergebnis eintrag möglichkeit alternative candidate kandidat two three four
        five zwei drei vier beiden
        """),
    )
)
"""Nouns that say nothing of what something is."""


@dataclass(frozen=True, slots=True)
class PhraseQuery:
    """What a phrase asks for."""

    kind: str
    """Pronoun, definite, demonstrative, name; of a list: ordinal, superlative, described, several,
    other, next, previous or middle."""
    number: str = ""
    genders: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    head: str = ""
    """The stem of the noun, if there is one that says something."""
    words: tuple[str, ...] = ()
    """The stems of the other words."""
    first: int = 0
    """The place in a list, from 0; below 0 from its end."""
    count: int = 1
    mark: str = ""
    measures: tuple[str, ...] = ()
    is_most: bool = False
    is_german: bool = False


def last_noun(text: str) -> str:
    """Return the stem of the last word that says what something is."""
    words = [stem(word.text) for word in words_in(text)]
    kept = [word for word in words if word not in EMPTY_NOUNS and content_words(word)]
    return kept[-1] if kept else ""


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


def ordinal(text: str) -> PhraseQuery | None:
    """Return what a phrase with a place in a list asks for; None if it is none."""
    marked = _MARKED.match(text) or _BARE_MARK.match(text)
    if marked is not None:
        mark = str(NUMBER_WORDS.get(marked[1], marked[1]))
        return PhraseQuery("ordinal", "singular", mark=mark)
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


def _placed(place: int, count: int, head: str) -> PhraseQuery:
    if place < 0:
        place = -count if count > 1 else place
    number = "plural" if count > 1 else "singular"
    return PhraseQuery("ordinal", number, head=head, first=place, count=count)


def _count(word: str) -> int:
    """Return how many: "the last two" are two, "the last one" is one."""
    return int(word) if word.isdecimal() else NUMBER_WORDS.get(word, 1)


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


def superlative(text: str) -> PhraseQuery | None:
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


def _asked(measures: Iterable[str], rest: str, *, is_most: bool, count: int = 1) -> PhraseQuery:
    return PhraseQuery(
        "superlative",
        "singular",
        head=last_noun(rest),
        measures=tuple(measures),
        is_most=is_most,
        count=count,
    )


_PERSON = ("person",)
_PLACE = ("place",)
PRONOUNS = {
    word: asked
    for words, asked in {
        "he him his himself": PhraseQuery("pronoun", "singular", ("m",), _PERSON),
        "she her hers herself": PhraseQuery("pronoun", "singular", ("f",), _PERSON),
        "it its itself": PhraseQuery("pronoun", "singular"),
        "they them their theirs themselves": PhraseQuery("pronoun", "plural"),
        "this that": PhraseQuery("pronoun", "singular"),
        "these those": PhraseQuery("pronoun", "plural"),
        "there here": PhraseQuery("pronoun", "singular", (), _PLACE),
        "then": PhraseQuery("pronoun", "singular", (), ("date", "time")),
        "er ihn ihm sein seine seinen seinem seiner seines dieser diesen den dessen": PhraseQuery(
            "pronoun", "singular", ("m",), is_german=True
        ),
        "sie": PhraseQuery("pronoun", "", ("f", "plural"), is_german=True),
        "ihr ihre ihren ihrem ihrer diese die deren": PhraseQuery(
            "pronoun", "", ("f", "plural"), is_german=True
        ),
        "ihnen denen": PhraseQuery("pronoun", "plural", is_german=True),
        "es": PhraseQuery("pronoun", "singular", ("n",), is_german=True),
        "das dies dieses diesem": PhraseQuery("pronoun", "singular", ("n", "any"), is_german=True),
        "der": PhraseQuery("pronoun", "singular", ("m",), is_german=True),
        "dem": PhraseQuery("pronoun", "singular", ("m", "n"), is_german=True),
        "dort dorthin dahin da hier": PhraseQuery(
            "pronoun", "singular", (), _PLACE, is_german=True
        ),
        "dann": PhraseQuery("pronoun", "singular", (), ("date", "time"), is_german=True),
        "davon damit dafür darauf darüber dazu daran dabei darin": PhraseQuery(
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


def parsed(phrase: str, *, german: bool = False) -> PhraseQuery | None:
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


def _several(text: str) -> PhraseQuery | None:
    found = _SEVERAL.match(text)
    if found is None:
        return None
    noun = found["noun"] or found["nomen"] or found["last"] or ""
    number = found["count"] or (noun if noun in NUMBER_WORDS else "")
    count = 2 if re.search(r"both|beide", text) else NUMBER_WORDS.get(number, 0)
    is_noun = noun and stem(noun) not in EMPTY_NOUNS and noun not in NUMBER_WORDS
    return PhraseQuery("several", "plural", head=stem(noun) if is_noun else "", count=count)


def _special(text: str) -> PhraseQuery | None:
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
            return PhraseQuery(kind, "plural" if is_plural else "singular", head=head)
    return None


def _described(text: str) -> PhraseQuery | None:
    found = _WITH.match(text)
    rest = (found["rest"] or found["mit"]) if found else ""
    one = _ONE.match(text)
    rest = rest or (one["rest"] if one else "")
    words = tuple(content_words(rest))
    number = "plural" if re.search(r"\bones\b|^denen|^diejenigen", text) else "singular"
    return PhraseQuery("described", number, words=words) if words else None


_AFTER = PREPOSITIONS | word_set("""
in im am an auf aus bei mit nach von vom für über ohne that which der die das you we i
""")


def _noun(phrase: str, *, german: bool) -> PhraseQuery | None:
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
    return PhraseQuery(
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
