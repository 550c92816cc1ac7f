"""Mentions in running text: names, nouns and values, in English and German.

A phrase is a determiner, then adjectives and nouns or a name, up to a word that ends it:

    Open | the old report | and send | it | to | my sister Julia | .

In English every word ends a phrase that `words.toml` lists as a verb or a small word, and names are
written with capitals. In German all nouns are, and the article or the ending tells the gender. What
is in no list is taken for a noun. That is wrong now and then, and can be seen: a candidate shows
the words it was found by.

Values (prices, dates, files) and lists are found first; the words in them belong to no phrase. A
noun and the name right after it are one mention, and what is named one after the other is a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from otolith.conversation.discourse.entities import Mention
from otolith.conversation.discourse.lists import ListText, json_of, lists_in, tool_lists
from otolith.conversation.discourse.measures import values_in
from otolith.conversation.discourse.word_lists import number_word, stem_list, word_list
from otolith.text.words import GERMAN_STOP_WORDS, STOP_WORDS, is_german, stem, words_in

MAX_LETTERS = 20_000
"""How much of one text is read; a tool may return a whole book."""

_SENTENCE = re.compile(
    r"(?:[^.!?:\n]|[.!?:](?=\S)|(?<=\b[DM]r)\.|(?<=\bM[rs]s)\.|(?<=\bProf)\.)*(?:[.!?:\n]+|$)"
)
_ROW_GAP = re.compile(
    r"^\s*(?:,|;|&|/|and|or|und|oder|vs\.?|bzw\.?|,\s*(?:and|or|und|oder))"
    r"\s*(?:the|a|an|der|die|das|den|dem|ein|eine|einen)?\s*$",
    re.IGNORECASE,
)
_APPOSITION_GAP = re.compile(r",?\s+(?:called|named|namens)\s+[\"„“]?")
_TITLES = {"mr": "m", "herr": "m", "herrn": "m", "mrs": "f", "ms": "f", "miss": "f", "frau": "f"}
_OTHER_TITLES = ("dr", "prof", "professor", "doctor", "sir", "madam")
_AFTER_SUBJECT = ("i", "you", "we", "they", "he", "she", "it", "to", "who")
_OBJECTS = ("me", "him", "her", "it", "them", "us", "you", "to")
_SINGULAR = ("a", "an", "this", "that", "each", "every", "another", "one")
_GERMAN_ENDINGS = {
    "f": ("ung", "heit", "keit", "schaft", "tion", "tat", "ik", "ei", "enz", "anz", "ur"),
    "n": ("chen", "lein", "ment", "um", "tum"),
    "m": ("ling", "ismus", "or", "er"),
}
_GERMAN_PLURAL = re.compile(r".+(?:(?:ung|heit|keit|schaft|ion|tät)en|innen)")
_TOPICAL = {"about", "of", "regarding"}
"""What stands after another preposition is mentioned in passing: "a message from Kim"."""
_SUBJECT_GENDERS = {"der": "m", "dieser": "m", "die": "f", "diese": "f"}
"""At the beginning of a sentence these are nominative, most likely."""
_ARTICLE_GENDERS = {
    **dict.fromkeys(("einen", "meinen", "keinen"), "m"),
    **dict.fromkeys(("eine", "meine"), "f"),
    **dict.fromkeys(("das", "dieses"), "n"),
}


@dataclass(frozen=True, slots=True)
class TextMentions:
    """What a text mentions, in its order."""

    mentions: tuple[Mention, ...]
    lists: tuple[ListText, ...]
    rows: tuple[tuple[int, ...], ...]
    """Which of the mentions are named in one row: "Anna, Ben and Carl"."""
    is_german: bool


class _Token(NamedTuple):
    """A word of a sentence."""

    text: str
    start: int
    end: int
    joins: bool
    """Whether only a space or a hyphen stands between it and the word before."""
    lower: str
    """The word in small letters, without a possessive s."""

    @property
    def is_capital(self) -> bool:
        return self.text[0].isupper()

    @property
    def is_number(self) -> bool:
        return self.text[0].isdigit()


_Placed = tuple[int, int, Mention]
"""Where a mention begins and ends, with its determiner."""


@lru_cache(maxsize=4096)
def read_mentions(text: str, *, german: bool, tool: str | None = None) -> TextMentions:
    """Return what a text mentions; `tool` is the name of the tool that returned it.

    `german` is the language to assume if the text itself does not tell.
    """
    text = text[:MAX_LETTERS]
    lists = () if tool is None else tuple(tool_lists(text, tool))
    if tool is not None and json_of(text) is not None:
        return TextMentions((), lists, (), german)
    taken = []
    if not lists:
        lists = tuple(lists_in(text))
        taken = [(each.start, each.end) for each in lists]
    values = [
        each for each in values_in(text) if not any(one <= each[0] < end for one, end in taken)
    ]
    language = is_german(text)
    is_de = german if language is None else language
    taken += [(start, end) for start, end, _ in values]
    sentences = _sentences(text, taken)
    nouns = (each for tokens in sentences for each in _phrases(tokens, text, is_de=is_de))
    found = _with_appositions(text, sorted([*values, *nouns], key=lambda each: each[:2]))
    rows = tuple(_rows(text, found))
    return TextMentions(tuple(each for _, _, each in found), lists, rows, is_de)


def noun_type(head: str) -> str:
    """Return the type of what a noun stands for, by its stem."""
    if head in stem_list("roles") or _role_gender(head):
        return "person"
    if head in stem_list("file_nouns"):
        return "file"
    return "place" if head in stem_list("place_nouns") else "thing"


def number_of_noun(determiner: str, noun: str, *, is_de: bool) -> str:
    """Return whether a noun with its determiner is singular or plural; empty if unknown."""
    if {determiner, noun} & word_list("plural") or (number_word(determiner) or 1) > 1:
        return "plural"
    if determiner in _SINGULAR:
        return "singular"
    if not is_de:
        ends = noun.endswith("s") and not noun.endswith(("ss", "us", "is", "news"))
        return "plural" if ends else "singular"
    part, is_singular = _german_part(noun)
    if (part and not is_singular) or _GERMAN_PLURAL.fullmatch(noun.lower()):
        return "plural"
    is_other = determiner in ("die", "unsere") and german_gender(noun) in ("m", "n")
    return "plural" if is_other and not part else "singular" if determiner or part else ""


@lru_cache(maxsize=4096)
def german_gender(noun: str) -> str:
    """Return the gender of a German noun: that of its last part, or of its ending."""
    head = stem(noun)
    if _role_gender(head):
        return _role_gender(head)
    part, _ = _german_part(noun)
    if part:
        return part
    endings = (gender for gender, ends in _GERMAN_ENDINGS.items() if head.endswith(ends))
    return next(endings, "f" if noun.lower().endswith("e") else "")


@lru_cache(maxsize=4096)
def _german_part(noun: str) -> tuple[str, bool]:
    """Return the gender of the longest listed noun at the end, and whether it is singular."""
    lower, head = noun.lower(), stem(noun)
    parts = [
        (len(each), gender, lower.endswith(each))
        for gender in "mfn"
        for each in word_list(f"german_{gender}")
        if head == stem(each) or (len(each) > 3 and head.endswith(stem(each)))
    ]
    return max(parts)[1:] if parts else ("", False)


def _role_gender(head: str) -> str:
    return "m" if head in stem_list("male_roles") else "f" * (head in stem_list("female_roles"))


# Phrases


def _sentences(text: str, taken: Sequence[tuple[int, int]]) -> Iterator[list[_Token]]:
    """Yield the words of each sentence, but for what is taken as a value or a list."""
    for sentence in _SENTENCE.finditer(text):
        tokens: list[_Token] = []
        before = offset = sentence.start()
        for word in words_in(sentence.group()):
            start, end = offset + word.start, offset + word.end
            if not any(begin < end and start < stop for begin, stop in taken):
                gap = text[before:start]
                joins = bool(tokens) and (gap in ("-", ". ") or not gap.strip(" "))
                lower = word.lower.removesuffix("'s")
                tokens.append(_Token(word.text, start, end, joins, lower))
            before = end
        yield tokens


def _is_known_name(lower: str) -> bool:
    lists = ("men", "women", "cities")
    return lower in _TITLES or any(lower in word_list(name) for name in lists)


def _name_type(lowers: Sequence[str], before: str) -> tuple[str, str]:
    """Return what a name is of, and the gender; `before` is the word before it."""
    if lowers[0] in _TITLES or lowers[0] in _OTHER_TITLES:
        return "person", _TITLES.get(lowers[0], "")
    if lowers[0] in word_list("cities") or {*map(stem, lowers)} & stem_list("place_nouns"):
        return "place", ""
    for lower in lowers:
        if lower in word_list("men") or lower in word_list("women"):
            return "person", "m" if lower in word_list("men") else "f"
    return ("place" if before in ("in", "near", "nach", "aus", "visit", "via") else "thing"), ""


def _phrases(tokens: Sequence[_Token], text: str, *, is_de: bool) -> Iterator[_Placed]:
    kind_of = _german_kind if is_de else _english_kind
    at, is_first = 0, True
    while at < len(tokens):
        has_determiner = _is_determiner(tokens[at].lower, is_de=is_de)
        begin = last = end = at + has_determiner
        kind = "determiner" if has_determiner else ""
        while kind != "possessive" and end < len(tokens) and (end == at or tokens[end].joins):
            kind = kind_of(tokens, end, kind, has_determiner=has_determiner)
            if not kind:
                break
            end += 1
            last = last if kind == "adjective" else end
        if last > begin:
            determiner = tokens[at].lower if has_determiner else ""
            before = tokens[at - 1].lower if at else ""
            mention = _mention(tokens[begin:last], determiner, before, text, is_de=is_de)
            start = tokens[at].start
            yield start, tokens[last - 1].end, replace(mention, start=start, is_first=is_first)
            is_first = False
        at = max(last, at + 1)


def _is_determiner(lower: str, *, is_de: bool) -> bool:
    if is_de:
        return lower in word_list("german_determiners")
    return lower in word_list("determiners") or (number_word(lower) or 1) > 1


def _mention(
    phrase: Sequence[_Token], determiner: str, before: str, text: str, *, is_de: bool
) -> Mention:
    nouns = [token for token in phrase if token.is_capital or token.is_number or not is_de]
    lowers, last = [token.lower for token in nouns], phrase[-1]
    words = tuple(stem(token.lower) for token in phrase if token.lower not in _TITLES)
    words = words or tuple(lowers)
    head, kinds = words[-1], stem_list("place_nouns") | stem_list("file_nouns")
    type, gender = _name_type(lowers, before if is_de and not determiner else determiner or before)
    is_name = phrase[0].is_capital
    if is_de:
        is_name = len(nouns) > 1 or (type != "thing" and _is_known_name(lowers[0]))
    if is_name and (last.is_capital or last.is_number):
        head = next((word for word in words if word in kinds), head)
    else:  # a noun, or a name with one: "the Delta flight"
        type, gender = noun_type(head), _role_gender(head)
    if is_de:
        genders = _ARTICLE_GENDERS if before else _ARTICLE_GENDERS | _SUBJECT_GENDERS
        article = genders.get(determiner, "")
        gender = gender or (is_name and article) or german_gender(lowers[-1]) or article
    is_doubtful = len(phrase) == 1 and not before and not determiner and type == "thing"
    is_part = determiner in ("its", "their", "his", "her", "what", "which")
    is_indefinite = determiner in word_list("indefinite") or number_word(determiner)
    return Mention(
        text=re.sub(r"['\u2019]s$", "", text[nouns[0].start : last.end]),
        form="name" if is_name and not is_doubtful else "noun" if determiner else "bare",
        is_aside=before in word_list("prepositions") - _TOPICAL or (is_part and not is_name),
        type=type,
        words=words,
        head=head,
        number="singular" if is_name else number_of_noun(determiner, last.lower, is_de=is_de),
        gender=gender,
        is_definite=is_name or (bool(determiner) and not is_indefinite),
    )


def _english_kind(tokens: Sequence[_Token], at: int, before: str, *, has_determiner: bool) -> str:
    """Return what a word is in a phrase; empty if it ends it. `before` is what the last word is."""
    token, lower = tokens[at], tokens[at].lower
    if _is_name_part(tokens, at, is_inner=before == "name"):
        is_last = token.text.endswith(("'s", "\u2019s"))
        return ("possessive" if is_last else "name") if before in ("", "determiner", "name") else ""
    if (token.is_capital and at == 0) or (before == "name" and not has_determiner):
        return ""
    if before == "name" and lower.endswith("s"):
        return ""  # "the Astoria charges"
    is_opened = before in ("determiner", "adjective")
    if lower in word_list("adjectives") or (token.is_number and is_opened):
        return "adjective"
    if lower in word_list("verbs") or lower.endswith(("ing", "ed")):
        return "noun" if is_opened and lower not in STOP_WORDS and lower[-2:] != "ed" else ""
    is_verb = at > 0 and not is_opened and tokens[at - 1].lower in _AFTER_SUBJECT
    is_small = lower in STOP_WORDS or lower in word_list("units") or lower.endswith("ly")
    return "" if is_verb or is_small or token.is_number or len(lower) < 2 else "noun"


def _has_object(tokens: Sequence[_Token], at: int) -> bool:
    """Tell whether what follows a word shows that it is a verb: "call him"."""
    after = tokens[at + 1] if at + 1 < len(tokens) and tokens[at + 1].joins else None
    return after is not None and (
        after.is_capital or after.lower in _OBJECTS or after.lower in word_list("determiners")
    )


def _is_name_part(tokens: Sequence[_Token], at: int, *, is_inner: bool) -> bool:
    token, lower = tokens[at], tokens[at].lower
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    has_capital = after is not None and after.joins and after.is_capital and after.lower != "i"
    if token.is_number:
        return is_inner and tokens[at - 1].is_capital
    if lower in ("of", "van", "von", "de"):
        return is_inner and has_capital  # "Heart of Glass"
    if not token.is_capital or lower.partition("'")[0] in ("i", "ok"):
        return False
    if lower in STOP_WORDS or (lower in word_list("verbs") and at == 0):
        is_title = is_inner or (at > 0 and has_capital)
        return is_title and lower not in word_list("determiners")
    if at > 0 or _is_known_name(lower):
        return True
    if lower.endswith(("ing", "ed", "ly", "s", "tion")) or lower in word_list("adjectives"):
        return has_capital and not lower.endswith("ing")
    is_noun = stem(lower) in stem_list("place_nouns") | stem_list("file_nouns")
    return has_capital or not (is_noun or _has_object(tokens, at))


def _german_kind(tokens: Sequence[_Token], at: int, before: str, *, has_determiner: bool) -> str:
    """Return what a word is in a phrase; empty if it ends it. All nouns have capitals."""
    token, lower = tokens[at], tokens[at].lower
    is_listed = bool(_german_part(token.text)[0]) or noun_type(stem(lower)) != "thing"
    is_small = lower in GERMAN_STOP_WORDS or lower in word_list("german_determiners")
    if before == "noun":
        is_name = token.is_capital and not is_listed and not is_small
        return "noun" if token.is_number or is_name else ""  # "ICE 612", "Frau Berger"
    if not token.is_capital:
        is_adjective = before in ("determiner", "adjective") and not is_small
        return "adjective" if is_adjective and not token.is_number else ""
    if lower in word_list("units") or len(lower) < 2 or (is_small and not is_listed):
        return ""
    after = tokens[1] if len(tokens) > 1 and tokens[1].joins else None
    is_subject = after is not None and (
        after.is_capital or after.is_number or after.lower in word_list("german_after_nouns")
    )
    return "noun" if at > 0 or is_listed or _is_known_name(lower) or is_subject else ""


# Phrases that belong together


def _with_appositions(text: str, found: Sequence[_Placed]) -> list[_Placed]:
    """Make one of a noun and the name right after it: "my sister Julia", "the file a.csv"."""
    joined: list[_Placed] = []
    for start, end, name in found:
        noun = joined[-1][2] if joined else None
        gap = text[joined[-1][1] : start] if joined else ""
        if noun is None or not _is_apposition(noun, name, gap):
            joined.append((start, end, name))
            continue
        one = replace(
            name,
            type=noun.type if noun.type in ("person", "file") else name.type,
            start=noun.start,
            head=noun.head,
            gender=name.gender or noun.gender,
            aliases=noun.words,
            is_first=noun.is_first,
        )
        joined[-1] = joined[-1][0], end, one
    return joined


def _is_apposition(noun: Mention, name: Mention, gap: str) -> bool:
    if noun.form != "noun" or noun.number == "plural" or name.form != "name":
        return False
    is_next = noun.is_definite and gap in (" ", " `", ' "', " '", " „", " “")
    return is_next or bool(_APPOSITION_GAP.fullmatch(gap))


def _rows(text: str, found: Sequence[_Placed]) -> Iterator[tuple[int, ...]]:
    """Yield what is named one after the other; two with only a comma between are not a row."""
    row: list[int] = []
    gaps = ""
    for at, each in enumerate([*found, None]):
        last = found[row[-1]] if row else None
        if each is not None and last is not None:
            gap = text[last[1] : each[0]]
            is_value = "value" in (last[2].form, each[2].form)
            if _ROW_GAP.match(gap) and (not is_value or last[2].type == each[2].type):
                row.append(at)
                gaps += gap
                continue
        if len(row) > 2 or (len(row) == 2 and re.search(r"\w|[&/]", gaps)):
            yield tuple(row)
        row, gaps = [at], ""
