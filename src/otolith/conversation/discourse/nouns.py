"""Names and nouns of an English sentence, found by the small words around them.

A phrase is a determiner, then adjectives and nouns, up to a verb or another small word.
"""

from __future__ import annotations

from collections.abc import Iterator

from otolith.agent.conversation.entities.kinds import noun_gender, noun_type
from otolith.agent.conversation.entities.lexicon import (
    ADJECTIVES,
    ASIDES,
    DETERMINERS,
    INDEFINITE,
    NUMBER_WORDS,
    PLURAL_WORDS,
    STOP,
    UNITS,
    VERBS,
    word_set,
)
from otolith.agent.conversation.entities.mention import Found
from otolith.agent.conversation.entities.names import POSSESSIVES, is_name_part, name_end, name_of
from otolith.agent.conversation.entities.pieces import Piece
from otolith.agent.conversation.entities.words import stem

_NOUNS_TOO = word_set("""
call order plan list review search draft copy print update upgrade change fix test run start stop
offer answer book play drink refund stay return share rent patch cover set cut break turn reply ride
""")
"""Verbs that are nouns as well: after an article and a noun they are taken for one."""
_AUXILIARIES = word_set("do does did can could will would should may might must let make")
_PARTS = word_set("its their his her what which")
_OBJECTS = word_set("me him her it them us you")
_SUBJECTS = word_set("i you we they he she it to who wir ich")


def english(pieces: list[Piece], text: str) -> Iterator[tuple[int, int, Found]]:
    """Yield the names and nouns of an English sentence."""
    at, is_first = 0, True
    while at < len(pieces):
        end = name_end(pieces, at)
        if end > at:
            end = _noun_after(pieces, at, end)
            yield name_of(
                pieces[at:end], text, pieces[at - 1].lower if at else "", is_first=is_first
            )
            at, is_first = end, False
            continue
        end, head = _phrase_end(pieces, at)
        if head is not None:
            before = pieces[at - 1].lower if at else ""
            yield _noun(pieces[at:end], text, before, is_first=is_first)
            at, is_first = end, False
            continue
        at += 1


def _noun_after(pieces: list[Piece], at: int, end: int) -> int:
    """Return where a name with its noun ends: "the Delta flight", "a Python script"."""
    is_opened = at > 0 and pieces[at].joins and pieces[at - 1].lower in DETERMINERS
    if not is_opened or pieces[end - 1].word.text.endswith(POSSESSIVES):
        return end
    while end < len(pieces) and pieces[end].joins and _is_plain_noun(pieces, end):
        end += 1
    return end


def _is_plain_noun(pieces: list[Piece], at: int) -> bool:
    """Tell whether a word is a noun for sure: of "the Astoria charges", the last may be a verb."""
    is_noun = _kind(pieces, at, is_opened=False) == "noun" or _ends(pieces, at)
    return is_noun and not pieces[at].is_capital and not pieces[at].lower.endswith("s")


def _phrase_end(pieces: list[Piece], at: int) -> tuple[int, int | None]:
    """Return where a noun phrase that begins here ends, and where its noun is, if one begins."""
    end = at
    has_determiner = _is_determiner(pieces[at].lower)
    if has_determiner:
        end += 1
    last: int | None = None
    is_opened = has_determiner
    may_end = has_determiner and (at == 0 or pieces[at - 1].lower not in _AUXILIARIES)
    while end < len(pieces) and (end == at or pieces[end].joins):
        is_opened = is_opened or (may_end and last is not None and _ends(pieces, end))
        kind = _kind(pieces, end, is_opened=is_opened)
        if kind == "stop" or is_name_part(pieces, end, is_inner=False):
            break
        if kind == "noun":
            last = end
        is_opened = kind == "adjective"
        end += 1
    return (at, None) if last is None else (last + 1, last)


def _ends(pieces: list[Piece], at: int) -> bool:
    """Tell whether a word may be the last noun of a phrase: "the video call", not "call him"."""
    after = pieces[at + 1] if at + 1 < len(pieces) else None
    is_verb = after is not None and after.joins and _is_object(after)
    return pieces[at].lower in _NOUNS_TOO and not is_verb


def _is_object(piece: Piece) -> bool:
    return piece.is_capital or piece.lower in DETERMINERS or piece.lower in _OBJECTS


def _is_determiner(lower: str) -> bool:
    return lower in DETERMINERS or (lower in NUMBER_WORDS and lower != "one")


def _kind(pieces: list[Piece], at: int, *, is_opened: bool) -> str:
    """Return what a word is: noun, adjective, or something that ends a phrase."""
    lower = pieces[at].lower
    if at and not is_opened and pieces[at - 1].lower in _SUBJECTS:
        return "stop"  # whatever comes after "I" and "to" is a verb
    if lower[0].isdigit():
        return "adjective" if is_opened or at == 0 else "stop"
    if lower in ADJECTIVES:
        return "adjective"
    if lower in VERBS:
        return "noun" if is_opened and lower not in STOP and not lower.endswith("ed") else "stop"
    if lower in STOP or lower in UNITS or lower.endswith("ly") or len(lower) < 2:
        return "stop"
    if lower.endswith(("ing", "ed")) and len(lower) > 4:
        inner = "noun" if lower.endswith("ing") else "adjective"
        return inner if is_opened else "stop"
    return "noun"


def _noun(pieces: list[Piece], text: str, before: str, *, is_first: bool) -> tuple[int, int, Found]:
    first, head = pieces[0].lower, pieces[-1].lower
    has_determiner = _is_determiner(first)
    core = pieces[1:] if has_determiner else pieces
    start, end = pieces[0].word.start, pieces[-1].word.end
    noun = stem(head)
    found = Found(
        text[core[0].word.start : end],
        noun_type(noun),
        start,
        tuple(stem(piece.lower) for piece in core),
        head=noun,
        form="noun" if has_determiner else "bare",
        number="plural" if _is_plural(first, head) else "singular",
        gender=noun_gender(noun) or "",
        is_definite=has_determiner and first not in INDEFINITE and first not in NUMBER_WORDS,
        is_first=is_first,
        is_aside=first in _PARTS or before in ASIDES,
    )
    return start, end, found


def _is_plural(determiner: str, noun: str) -> bool:
    if determiner in ("a", "an", "this", "each", "every", "another", "one"):
        return False
    if determiner in PLURAL_WORDS or NUMBER_WORDS.get(determiner, 1) > 1 or noun in PLURAL_WORDS:
        return True
    return noun.endswith("s") and not noun.endswith(("ss", "us", "is", "news"))
