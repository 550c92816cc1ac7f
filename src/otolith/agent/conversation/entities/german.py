"""Names and nouns of a German sentence: all that is written with a capital.

The article tells the gender, and whether it is one or several.
"""

from __future__ import annotations

from collections.abc import Iterator

from otolith.agent.conversation.entities.kinds import (
    PLACE_NOUNS,
    SINGULAR,
    german_gender,
    german_number,
    is_german_noun,
    noun_type,
)
from otolith.agent.conversation.entities.lexicon import (
    GERMAN,
    GERMAN_DETERMINERS,
    INDEFINITE,
    NUMBER_WORDS,
    PLURAL_WORDS,
    UNITS,
    word_set,
)
from otolith.agent.conversation.entities.mention import Found
from otolith.agent.conversation.entities.names import is_known, name_type
from otolith.agent.conversation.entities.pieces import Piece
from otolith.agent.conversation.entities.words import stem

_AFTER_NOUNS = word_set("""
ist sind war waren hat haben hatte kostet liegt läuft braucht nach von für mit in und oder wird aus
""")
_ALSO_PLURAL = word_set("die diese meine deine unsere keine")
_FIRST_GENDERS = {"der": "m", "die": "f", "das": "n", "dieser": "m", "diese": "f", "dieses": "n"}
_GERMAN_GENDERS = {
    "einen": "m",
    "eine": "f",
    "das": "n",
    "meinen": "m",
    "meine": "f",
    "dieses": "n",
    "keinen": "m",
}


def german(pieces: list[Piece], text: str) -> Iterator[tuple[int, int, Found]]:
    """Yield the names and nouns of a German sentence."""
    at, is_first = 0, True
    while at < len(pieces):
        if not _is_german_noun(pieces, at):
            at += 1
            continue
        end = _german_end(pieces, at)
        yield _german_found(pieces, at, end, text, is_first=is_first)
        at, is_first = end, False


def _is_german_noun(pieces: list[Piece], at: int) -> bool:
    piece = pieces[at]
    if not piece.is_capital or len(piece.lower) < 2:
        return False
    if (piece.lower in GERMAN or piece.lower in GERMAN_DETERMINERS) and piece.lower not in SINGULAR:
        return False
    if piece.lower in UNITS:
        return False
    return at > 0 or is_known(piece.lower) or _starts_german(pieces)


def _starts_german(pieces: list[Piece]) -> bool:
    """Tell whether the first word of a German sentence is a noun."""
    if is_german_noun(pieces[0].word.text):
        return True
    following = pieces[1] if len(pieces) > 1 else None
    if following is None or not following.joins:
        return False
    is_number = following.word.text[0].isdigit()
    return following.lower in _AFTER_NOUNS or following.is_capital or is_number


def _german_end(pieces: list[Piece], at: int) -> int:
    end = at + 1
    while end < len(pieces) and pieces[end].joins:
        piece = pieces[end]
        is_code = piece.word.text[0].isdigit()
        if not is_code and (not _is_german_noun(pieces, end) or is_german_noun(piece.word.text)):
            break
        end += 1
    return end


def _german_found(
    pieces: list[Piece], at: int, end: int, text: str, *, is_first: bool
) -> tuple[int, int, Found]:
    lowers = [piece.lower for piece in pieces[at:end]]
    start, stop = pieces[at].word.start, pieces[end - 1].word.end
    determiner, adjectives = _determiner(pieces, at)
    before = pieces[at - 1].lower if at else ""
    type, gender = name_type(lowers, before if not determiner else "")
    is_going = before in ("nach", "aus") and not determiner
    is_name = (
        len(lowers) > 1
        or (type != "thing" and is_known(lowers[0]))
        or (is_going and german_gender(lowers[-1]) is None)
    )
    head = lowers[0] if is_name and stem(lowers[0]) in PLACE_NOUNS else lowers[-1]
    if not is_name:
        type, gender = noun_type(stem(head)), ""
    articles = _FIRST_GENDERS if is_first and at == 1 else _GERMAN_GENDERS
    by_article = articles.get(determiner, "")
    grammar = gender or (by_article if is_name else "") or german_gender(head) or by_article
    found = Found(
        text[start:stop],
        type,
        pieces[at - adjectives - 1].word.start if determiner else start,
        (*(stem(piece.lower) for piece in pieces[at - adjectives : at]), *map(stem, lowers)),
        head=stem(head),
        form="name" if is_name else "noun" if determiner else "bare",
        number="singular" if is_name else _german_number(determiner, head),
        gender=grammar,
        is_definite=is_name or (bool(determiner) and determiner not in INDEFINITE),
        is_first=is_first,
    )
    return found.start, stop, found


def _determiner(pieces: list[Piece], at: int) -> tuple[str, int]:
    """Return the article before a noun, and how many adjectives stand between."""
    for back in (1, 2, 3):
        if at - back < 0 or not pieces[at - back + 1].joins:
            break
        lower = pieces[at - back].lower
        if lower in GERMAN_DETERMINERS:
            return lower, back - 1
        if lower in GERMAN or pieces[at - back].is_capital:
            break
    return "", 0


def _german_number(determiner: str, noun: str) -> str:
    if determiner in PLURAL_WORDS or NUMBER_WORDS.get(determiner, 1) > 1:
        return "plural"
    known = german_number(noun)
    if known:
        return known
    if determiner in _ALSO_PLURAL and german_gender(noun) in ("m", "n"):
        return "plural"
    return "singular" if determiner else ""
