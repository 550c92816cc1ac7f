"""Names: words with capitals, and what they are the names of."""

from __future__ import annotations

from otolith.agent.conversation.entities.kinds import (
    CITIES,
    FILE_NOUNS,
    MEN,
    OTHER_TITLES,
    PLACE_NOUNS,
    TITLES,
    WOMEN,
    noun_type,
)
from otolith.agent.conversation.entities.lexicon import (
    ADJECTIVES,
    ASIDES,
    DETERMINERS,
    STOP,
    VERBS,
    word_set,
)
from otolith.agent.conversation.entities.mention import Found
from otolith.agent.conversation.entities.pieces import Piece, without_possessive
from otolith.agent.conversation.entities.words import stem

_BRIDGES = ("of", "of the", "van", "von", "de")
_BEFORE_PLACES = word_set("in near nach aus visit via")
_OBJECTS = word_set("me him her it them us you i we they he she to")
POSSESSIVES = ("'s", "\u2019s")


def name_end(pieces: list[Piece], at: int) -> int:
    """Return where a name that begins here ends; here, if none does."""
    end = at
    while end < len(pieces) and is_name_part(pieces, end, is_inner=end > at):
        end += 1 + _bridge(pieces, end + 1)
        if pieces[end - 1].word.text.endswith(POSSESSIVES):
            break
    if end == at + 1 and at == 0 and not is_known(pieces[at].lower):
        return at if _is_common(pieces[at].lower) or _opens(pieces, at + 1) else end
    return end


def _bridge(pieces: list[Piece], at: int) -> int:
    """Return how many small words hold a name together here: "Heart of Glass"."""
    for count in (1, 2):
        small = [piece.lower for piece in pieces[at : at + count] if piece.joins]
        if " ".join(small) in _BRIDGES and at + count < len(pieces):
            after = pieces[at + count]
            if after.joins and after.is_capital and after.lower not in STOP:
                return count
    return 0


def _opens(pieces: list[Piece], after: int) -> bool:
    """Tell whether what follows the first word of a sentence says that it is a verb, or a label."""
    following = pieces[after] if after < len(pieces) else None
    return following is not None and (
        following.lower in DETERMINERS or following.lower in _OBJECTS or ":" in following.gap
    )


def is_name_part(pieces: list[Piece], at: int, *, is_inner: bool) -> bool:
    """Tell whether a word is part of a name; `is_inner` if one has begun."""
    piece = pieces[at]
    if is_inner and not piece.joins:
        return False
    if piece.word.text[0].isdigit():
        return is_inner and pieces[at - 1].is_capital
    if not piece.is_capital or piece.lower in ("i", "i'm", "i'd", "i'll", "i've", "ok"):
        return False
    if piece.lower in STOP or (piece.lower in VERBS and at == 0):
        return piece.lower not in DETERMINERS and (
            is_inner or (at > 0 and _opens_title(pieces, at))
        )
    return not (at == 0 and piece.lower.endswith("ing") and _opens_title(pieces, at))


def _opens_title(pieces: list[Piece], at: int) -> bool:
    """Tell whether another capital follows: "play Never Say Never", "Calling Anna"."""
    after = pieces[at + 1] if at + 1 < len(pieces) else None
    return after is not None and after.joins and after.is_capital and after.lower != "i"


def is_known(lower: str) -> bool:
    """Tell whether a word is a name that is known."""
    return lower in MEN or lower in WOMEN or lower in CITIES or lower in TITLES


def _is_common(lower: str) -> bool:
    """Tell whether a word at the start of a sentence is probably no name."""
    is_noun = stem(lower) in PLACE_NOUNS | FILE_NOUNS
    endings = ("ing", "ed", "ly", "s", "tion")
    return is_noun or lower in VERBS or lower in ADJECTIVES or lower.endswith(endings)


def name_of(
    pieces: list[Piece], text: str, before: str, *, is_first: bool
) -> tuple[int, int, Found]:
    """Return a name with where it stands; `before` is the word before it."""
    start, end = pieces[0].word.start, pieces[-1].word.end
    surface = without_possessive(text[start:end])
    lowers = [piece.lower for piece in pieces]
    type, gender = name_type(lowers, before)
    if not pieces[-1].is_capital and pieces[-1].word.text[0].isalpha():
        type, gender = noun_type(stem(lowers[-1])), ""
    words = tuple(stem(lower) for lower in lowers if lower not in TITLES)
    nouns = [stem(lower) for lower in lowers if stem(lower) in PLACE_NOUNS | FILE_NOUNS]
    found = Found(
        surface,
        type,
        start,
        words or tuple(lowers),
        head=_head(pieces, nouns, words),
        form="bare" if _is_doubtful(pieces, type) else "name",
        number="singular",
        gender=gender,
        is_definite=True,
        is_first=is_first,
        is_aside=before in ASIDES,
    )
    return start, end, found


def _head(pieces: list[Piece], nouns: list[str], words: tuple[str, ...]) -> str:
    """Return the noun of a name: the last word, if it is none of a name: "the Delta flight"."""
    if not pieces[-1].is_capital and not pieces[-1].word.text[0].isdigit():
        return words[-1] if words else ""
    return nouns[0] if nouns else words[-1] if words else ""


def _is_doubtful(pieces: list[Piece], type: str) -> bool:
    """Tell whether the capital may only be there because a sentence begins."""
    first = pieces[0]
    return len(pieces) == 1 and first.at == 0 and type == "thing" and first.word.text.istitle()


def name_type(lowers: list[str], before: str) -> tuple[str, str]:
    """Return what a name is of, and the gender; `before` is the word before it."""
    first = lowers[0]
    if first in TITLES:
        return "person", TITLES[first]
    if first in OTHER_TITLES:
        return "person", ""
    is_place = first in CITIES or any(stem(lower) in PLACE_NOUNS for lower in lowers)
    if is_place:
        return "place", ""
    for lower in lowers:
        if lower in MEN or lower in WOMEN:
            return "person", "m" if lower in MEN else "f"
    return ("place", "") if before in _BEFORE_PLACES else ("thing", "")
