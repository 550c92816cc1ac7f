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

from otolith.conversation.discourse.entities import Mention, MentionedList
from otolith.conversation.discourse.lists import json_of, lists_in, tool_lists, values_in
from otolith.conversation.discourse.word_lists import number_word, type_of, word_list
from otolith.text.words import GERMAN_STOP_WORDS, STOP_WORDS, is_german, stem, words_in

_MAX_LETTERS = 20_000
"""How much of one text is read; a tool may return a whole book."""

_SENTENCE = re.compile(
    r"(?:[^.!?:\n]|[.!?:](?=\S)|(?<=\b[DM]r)\.|(?<=\bM[rs]s)\.|(?<=\bProf)\.)*(?:[.!?:\n]+|$)"
)
_ROW_GAP = re.compile(
    r"\s*(?:,|;|&|/|and|or|und|oder|vs\.?|bzw\.?|,\s*(?:and|or|und|oder))"
    r"\s*(?:the|a|an|der|die|das|den|dem|ein|eine|einen)?\s*",
    re.IGNORECASE,
)
_APPOSITION_GAP = re.compile(r" [`\"'„“]?|,?\s+(?:called|named|namens)\s+[\"„“]?")
_TOPICAL = {"about", "of", "regarding"}
"""What stands after another preposition is mentioned in passing: "a message from Kim"."""
_GERMAN_ENDINGS = {
    "f": ("ung", "heit", "keit", "schaft", "tion", "tät", "ik", "ei", "enz", "anz", "ur", "e"),
    "n": ("chen", "lein", "ment", "um"),
    "m": ("ling", "ismus", "or", "er"),
}
_ARTICLE_GENDERS = {
    **dict.fromkeys(("der", "dieser", "einen", "meinen", "keinen"), "m"),
    **dict.fromkeys(("die", "diese", "eine", "meine"), "f"),
    **dict.fromkeys(("das", "dieses"), "n"),
}


@dataclass(frozen=True, slots=True)
class TextMentions:
    """What a text mentions, in its order."""

    mentions: tuple[Mention, ...]
    lists: tuple[MentionedList, ...]
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
    is_capital: bool
    is_number: bool


@lru_cache(maxsize=4096)
def read_mentions(text: str, *, german: bool, tool: str | None = None) -> TextMentions:
    """Return what a text mentions; `tool` is the name of the tool that returned it.

    `german` is the language to assume if the text itself does not tell. Of what a tool returns as
    JSON only the lists are read.
    """
    text = text[:_MAX_LETTERS]
    lists = () if tool is None else tuple(tool_lists(text, tool))
    if tool is not None and json_of(text) is not None:
        return TextMentions((), lists, (), german)
    taken = []
    if not lists:
        lists = tuple(lists_in(text))
        taken = [(each.start, each.end) for each in lists]
    values = [x for x in values_in(text) if not any(one <= x.start < end for one, end in taken)]
    taken += [(each.start, each.end) for each in values]
    language = is_german(text)
    is_de = german if language is None else language
    for tokens in _sentences(text, taken):
        values += _phrases(tokens, text, is_de=is_de)
    found = _with_appositions(text, sorted(values, key=lambda each: each.start))
    return TextMentions(tuple(found), lists, tuple(_rows(text, found)), is_de)


def noun_type(head: str) -> tuple[str, str]:
    """Return the type of what a noun stands for, by its stem, and the gender of a person."""
    return type_of([head], "noun_types", stems=True)


def number_of_noun(determiner: str, noun: str, *, is_de: bool) -> str:
    """Return whether a noun with its determiner is singular or plural; empty if unknown."""
    if {determiner, noun} & word_list("plural") or (number_word(determiner) or 1) > 1:
        return "plural"
    if is_de:
        return "singular" if determiner else ""
    is_plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is", "news"))
    return "plural" if is_plural else "singular"


# Phrases


def _sentences(text: str, taken: Sequence[tuple[int, int]]) -> Iterator[list[_Token]]:
    """Yield the words of each sentence, but for what is taken as a value or a list."""
    for sentence in _SENTENCE.finditer(text):
        tokens: list[_Token] = []
        before = offset = sentence.start()
        for word in words_in(sentence.group()):
            start, end, first = offset + word.start, offset + word.end, word.text[0]
            if not any(begin < end and start < stop for begin, stop in taken):
                gap = text[before:start]
                joins = bool(tokens) and (gap in ("-", ". ") or not gap.strip(" "))
                lower = word.lower.removesuffix("'s")
                kinds = first.isupper(), first.isdigit()
                tokens.append(_Token(word.text, start, end, joins, lower, *kinds))
            before = end
        yield tokens


def _phrases(tokens: Sequence[_Token], text: str, *, is_de: bool) -> Iterator[Mention]:
    """Yield the noun phrases of a sentence; adjectives at the end of one belong to none."""
    kind_of = _german_kind if is_de else _english_kind
    determiners = word_list("german_determiners" if is_de else "determiners")
    at, is_first = 0, True
    while at < len(tokens):
        lower = tokens[at].lower
        has_determiner = lower in determiners or (number_word(lower) or 1) > 1
        begin = last = end = at + has_determiner
        kind = "determiner" if has_determiner else ""
        while kind != "possessive" and end < len(tokens) and (end == at or tokens[end].joins):
            kind = kind_of(tokens, end, kind)
            if not kind:
                break
            end += 1
            last = last if kind == "adjective" else end
        if last > begin:
            before = tokens[at - 1].lower if at else ""
            phrase, determiner = tokens[begin:last], lower if has_determiner else ""
            mention = _mention(phrase, determiner, before, text, is_de=is_de)
            yield replace(mention, start=tokens[at].start, is_first=is_first)
            is_first = False
        at = max(last, at + 1)


def _mention(
    phrase: Sequence[_Token], determiner: str, before: str, text: str, *, is_de: bool
) -> Mention:
    """Return the mention that a phrase is; `before` is the word before its determiner."""
    nouns = [token for token in phrase if token.is_capital or token.is_number or not is_de]
    lowers, last = [token.lower for token in nouns], phrase[-1]
    words = tuple(stem(token.lower) for token in phrase)
    head = words[-1]
    type, gender = type_of(lowers, "names")
    if type == "place" and type_of(lowers[:1], "names")[0] != "place":
        type = "thing"  # "Hotel Paris"
    is_name = phrase[0].is_capital and (last.is_capital or last.is_number)
    if is_de:
        is_name = len(nouns) > 1 or (type != "thing" and noun_type(head)[0] == "thing")
    if not is_name:  # a noun, or a name with one: "the Delta flight"
        type, gender = noun_type(head)
        if is_de and not gender:
            article = "" if determiner == "der" and before else determiner
            endings = (each for each, ends in _GERMAN_ENDINGS.items() if last.lower.endswith(ends))
            gender = _ARTICLE_GENDERS.get(article) or next(endings, "")
    is_doubtful = len(phrase) == 1 and not before and not determiner and type == "thing"
    is_part = determiner in ("its", "their", "his", "her", "what", "which")
    is_indefinite = determiner in word_list("indefinite") or number_word(determiner)
    return Mention(
        end=last.end,
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


def _english_kind(tokens: Sequence[_Token], at: int, before: str) -> str:
    """Return what a word is in a phrase; empty if it ends it. `before` is what the last word is."""
    token, lower = tokens[at], tokens[at].lower
    if _is_name_part(tokens, at, is_inner=before == "name"):
        is_last = token.text.endswith(("'s", "\u2019s"))
        return ("possessive" if is_last else "name") if before in ("", "determiner", "name") else ""
    if before == "name" and lower.endswith("s"):
        return ""  # "the Astoria charges"
    is_opened = before in ("determiner", "adjective")
    if lower in word_list("adjectives"):
        return "adjective"
    if lower in word_list("verbs") or lower.endswith(("ing", "ed")):
        return "noun" if is_opened and lower not in STOP_WORDS and lower[-2:] != "ed" else ""
    is_small = lower in STOP_WORDS or lower in word_list("units") or len(lower) < 2
    return "" if is_small or token.is_number else "noun"


def _is_name_part(tokens: Sequence[_Token], at: int, *, is_inner: bool) -> bool:
    """Tell whether an English word belongs to a name; the first word of a sentence is doubtful."""
    token, lower = tokens[at], tokens[at].lower
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    has_capital = after is not None and after.joins and after.is_capital and after.lower != "i"
    if token.is_number or lower in ("of", "van", "von", "de"):
        return is_inner and (token.is_number or has_capital)  # "DL 47", "Heart of Glass"
    if not token.is_capital or lower.partition("'")[0] in ("i", "ok"):
        return False
    if lower in STOP_WORDS or (at == 0 and (lower in word_list("verbs") or lower.endswith("ing"))):
        return False
    is_plain = lower.endswith(("ed", "ly", "s", "tion")) or lower in word_list("adjectives")
    return at > 0 or has_capital or not is_plain


def _german_kind(tokens: Sequence[_Token], at: int, before: str) -> str:
    """Return what a word is in a phrase; empty if it ends it. All nouns have capitals."""
    token, lower = tokens[at], tokens[at].lower
    is_small = lower in GERMAN_STOP_WORDS or lower in word_list("german_determiners")
    if before == "noun":  # "ICE 612", "Frau Berger"
        return "noun" if token.is_number or (token.is_capital and not is_small) else ""
    if not token.is_capital:
        is_adjective = before in ("determiner", "adjective") and not is_small
        return "adjective" if is_adjective and not token.is_number else ""
    is_alone = at == 0 and not (len(tokens) > 1 and tokens[1].joins)  # "Super, danke"
    is_other = is_small or is_alone or lower in word_list("units") or len(lower) < 2
    return "" if is_other else "noun"


# Phrases that belong together


def _with_appositions(text: str, found: Sequence[Mention]) -> list[Mention]:
    """Make one of a noun and the name right after it: "my sister Julia", "the file a.csv"."""
    joined: list[Mention] = []
    for name in found:
        noun = joined[-1] if joined else Mention(form="")
        gap = _APPOSITION_GAP.fullmatch(text, noun.end, name.start)
        if gap is None or (noun.form, name.form) != ("noun", "name"):
            joined.append(name)
            continue
        joined[-1] = replace(
            name,
            type=noun.type if noun.type in ("person", "file") else name.type,
            start=noun.start,
            gender=name.gender or noun.gender,
            aliases=noun.words,
            is_first=noun.is_first,
        )
    return joined


def _rows(text: str, found: Sequence[Mention]) -> Iterator[tuple[int, ...]]:
    """Yield what is named one after the other; two with only a comma between are not a row."""
    row = [0]
    for at in range(1, len(found) + 1):
        if at < len(found) and _ROW_GAP.fullmatch(text, found[at - 1].end, found[at].start):
            row.append(at)
            continue
        gap = text[found[row[0]].end : found[at - 1].start]
        if len(row) > 2 or (len(row) == 2 and gap.strip() not in (",", ";")):
            yield tuple(row)
        row = [at]
