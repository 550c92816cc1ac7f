"""Names and nouns of an English sentence, found by the small words around them.

A phrase is a determiner, then adjectives and nouns, up to a verb or another small word.

Names: words with capitals, and what they are the names of.

Names and nouns of a German sentence: all that is written with a capital.

The article tells the gender, and whether it is one or several.

Names and nouns in running text, in English and German; values and lists are found elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from otolith.conversation.discourse.mentions import Found, Piece, sentences_in, without_possessive
from otolith.conversation.discourse.noun_kinds import (
    CITIES,
    FILE_NOUNS,
    MEN,
    OTHER_TITLES,
    PLACE_NOUNS,
    SINGULAR,
    TITLES,
    WOMEN,
    german_gender,
    german_number,
    is_german_noun,
    noun_gender,
    noun_type,
)
from otolith.text.lexicon import (
    ADJECTIVES,
    ASIDES,
    DETERMINERS,
    GERMAN,
    GERMAN_DETERMINERS,
    INDEFINITE,
    NUMBER_WORDS,
    PLURAL_WORDS,
    STOP,
    UNITS,
    VERBS,
    word_set,
)
from otolith.text.words import stem

_BRIDGES = ("of", "of the", "van", "von", "de")
_BEFORE_PLACES = word_set("in near nach aus visit via")
_PRONOUNS_AND_TO = word_set("me him her it them us you i we they he she to")
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
        following.lower in DETERMINERS
        or following.lower in _PRONOUNS_AND_TO
        or ":" in following.gap
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


def prose_in(
    text: str, taken: list[tuple[int, int]], *, is_german: bool
) -> Iterator[tuple[int, int, Found]]:
    """Yield names and nouns with where they stand; what is taken already is left out."""
    read = german if is_german else english
    for pieces in sentences_in(text, taken):
        yield from read(pieces, text)
