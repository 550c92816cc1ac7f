"""The token estimate: about how many tokens a text has, without a model's vocabulary.

Byte-pair vocabularies agree more than they differ. The text is split into pieces, and each piece
has a price:

    word        1 token for each 6 letters, or for each 2 letters if there are accents in it;
                the space or underscore before a word belongs to it
    number      1 token for each 3 digits, and 1 for the space before it
    line break  1 token for any number of breaks in a row
    marks       1 token for each 2 punctuation marks in a row
    key         2 tokens for each 3 characters of base64, hashes and other long mixed strings
    scripts     1 token for each Chinese, Japanese or Korean sign, 3 for 8 letters of Greek,
                Cyrillic, Hebrew, Arabic, Thai and so on; 2 for emoji and other rare signs

No piece reaches over a line break, so the estimate of a text is at most the sum of the estimates
of its lines, each with 1 for its break. `docs/how-to/hold-a-conversation.md` compares the estimate
with real vocabularies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from otolith.text.lines import ELLIPSIS

ESTIMATE = "estimate-1"
"""The name of this estimate. It is stored with counts, so a changed estimate needs a new name."""
LETTERS_PER_TOKEN = 16
"""More letters than a token has in any text, except in long runs of spaces."""

_PIECE = re.compile(
    r"((?=[A-Za-z+/=_-]{0,24}[0-9])[A-Za-z0-9+/=_-]{25,})"  # a key, a hash, base64
    r"|(_?[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+)"
    r"|( ?[0-9]+)"
    r"|([\r\n]+)"
    r"|([ \t]+)"
    r"|([!-/:-@\[-`{-~]+)"
    r"|([\u0370-\u1dff\u1f00-\u1fff]+)"  # Greek, Cyrillic, Hebrew, Arabic, Thai ...
    r"|([\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef]+)"  # Chinese, Japanese, Korean
    r"|(.)",
    re.DOTALL,
)
_KEY, _WORD, _NUMBER, _LINES, _SPACE, _MARKS, _ALPHABET, _SIGNS, _OTHER = range(1, 10)
_LETTERS, _LETTERS_WITH_ACCENTS = 6, 2
_FIRST_RARE_SIGN = 0x2000


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    total, is_ascii = 0, text.isascii()
    for piece in _PIECE.finditer(text):
        kind, size = piece.lastindex, piece.end() - piece.start()
        if kind == _WORD and is_ascii:  # the fast path: most pieces of most texts
            total += 1 + (size - 1) // _LETTERS
        elif kind == _SPACE:
            total += size > 1
        else:
            total += _price(piece)
    return total


def _price(piece: re.Match[str]) -> int:
    """Return how many tokens a piece takes."""
    kind, size = piece.lastindex, piece.end() - piece.start()
    if kind == _WORD:
        has_accents = size > 1 and not piece.group().isascii()
        return 1 + (size - 1) // (_LETTERS_WITH_ACCENTS if has_accents else _LETTERS)
    if kind == _SPACE:
        return size > 1
    if kind == _NUMBER:
        has_space = piece.group()[0] == " "
        return has_space - (has_space - size) // 3
    if kind == _LINES:
        return 1
    if kind == _MARKS:
        return -(-size // 2)
    if kind == _KEY:
        return -(-size * 2 // 3)
    if kind == _ALPHABET:
        return -(-size * 3 // 8)
    if kind == _SIGNS:
        return size
    return 2 if ord(piece.group()) >= _FIRST_RARE_SIGN else 1


def cut(text: str, tokens: int) -> str:
    """Return the beginning of a text within a number of tokens; an ellipsis marks what is missing.

    The result is empty if there is no room for the dots.
    """
    left = tokens
    for piece in _PIECE.finditer(text):
        left -= _price(piece)
        if left < 0:
            break
    else:
        return text
    start = text[: piece.start()].rstrip()
    while start and estimate_tokens(start + ELLIPSIS) > tokens:
        last_piece = max((piece.start() for piece in _PIECE.finditer(start)), default=0)
        start = start[:last_piece].rstrip()
    return start + ELLIPSIS if estimate_tokens(start + ELLIPSIS) <= tokens else ""


def shorten(text: str, tokens: int, marker: str) -> str:
    """Return the head and the tail of a text with a marker between them, within so many tokens.

    Only as much of a long text is read as might be left of it.
    """
    room = tokens - estimate_tokens(marker)
    reach = min(len(text), max(room, 0) * LETTERS_PER_TOKEN)
    heads = _priced_pieces(_PIECE.finditer(text[:reach]), room // 2)
    ends = reversed([*_PIECE.finditer(text[-reach:])])
    tails = [
        (reach - end, reach - start, price) for start, end, price in _priced_pieces(ends, room // 2)
    ]
    while room >= 2:
        head = text[: _length_within(heads, room // 2)]
        tail = text[len(text) - _length_within(tails, room // 2) :]
        short = f"{head}{marker}{tail}"
        excess = estimate_tokens(short) - tokens
        if excess <= 0:
            return short
        room -= excess
    return marker


def _priced_pieces(pieces: Iterable[re.Match[str]], tokens: int) -> list[tuple[int, int, int]]:
    """Return start, end and price of pieces, up to the one where so many tokens are spent."""
    found, left = [], tokens
    for piece in pieces:
        price = _price(piece)
        found.append((*piece.span(), price))
        left -= price
        if left < 0:
            break
    return found


def _length_within(pieces: list[tuple[int, int, int]], tokens: int) -> int:
    """Return how many letters fit into so many tokens; a long piece is cut inside."""
    left = tokens
    for start, end, price in pieces:
        if price > left:
            return start + (end - start) * left // price
        left -= price
    return pieces[-1][1] if pieces else 0
