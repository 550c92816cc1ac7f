"""How many tokens a text is about, without any model's vocabulary.

Byte-pair vocabularies agree more than they differ: a short word with the space or underscore before
it is one token, a longer one another for every few letters, and for every two if there are accents
in it; three digits are one, and the space before them one more; line breaks in a row are one.
Chinese and Japanese are about one a sign, other alphabets three for eight letters. Keys and base64
are two for three letters and digits.

Measured against real vocabularies in `docs/how-to/hold-a-conversation.md`. `otolith.text.tokens`
is the estimate that a view of a state is cut by: there lines must add up, here they need not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ESTIMATE = "estimate-1"
"""The name of this way to count; another way would get another name."""

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
LETTERS_PER_TOKEN = 16
"""More than any text has but for long rows of spaces."""


def estimate(text: str) -> int:
    """Return about how many tokens a text is."""
    total, is_plain = 0, text.isascii()
    for piece in _PIECE.finditer(text):
        kind, size = piece.lastindex, piece.end() - piece.start()
        if kind == _WORD and is_plain:  # most pieces of most texts
            total += 1 + (size - 1) // _LETTERS
        elif kind == _SPACE:
            total += size > 1
        else:
            total += _cost(piece, kind, size)
    return total


def _cost(piece: re.Match[str], kind: int | None, size: int) -> int:
    if kind == _WORD:
        few = size > 1 and not piece.group().isascii()
        return 1 + (size - 1) // (_LETTERS_WITH_ACCENTS if few else _LETTERS)
    if kind == _SPACE:
        return size > 1
    if kind == _NUMBER:
        has_space = piece.group()[0] == " "
        return has_space - (has_space - size) // 3
    return _cost_of_signs(piece, kind, size)


def _cost_of_signs(piece: re.Match[str], kind: int | None, size: int) -> int:
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
    return 2 if ord(piece.group()) > _RARE else 1


_RARE = 0x1FFF


def shorten(text: str, tokens: int, marker: str) -> str:
    """Return the head and the tail of a text with a marker between them, within so many tokens.

    Of a long text only so much is looked at as might be left of it.
    """
    room = tokens - estimate(marker)
    reach = min(len(text), max(room, 0) * LETTERS_PER_TOKEN)
    heads = _pieces(_PIECE.finditer(text[:reach]), room // 2)
    ends = reversed([*_PIECE.finditer(text[-reach:])])
    tails = [(reach - end, reach - start, cost) for start, end, cost in _pieces(ends, room // 2)]
    while room >= 2:
        head = text[: _reach(heads, room // 2)]
        tail = text[len(text) - _reach(tails, room // 2) :]
        short = f"{head}{marker}{tail}"
        over = estimate(short) - tokens
        if over <= 0:
            return short
        room -= max(over, 1)
    return marker


def _pieces(matches: Iterable[re.Match[str]], tokens: int) -> list[tuple[int, int, int]]:
    """Return where pieces are and what they cost, up to the one that so many tokens end in."""
    pieces, left = [], tokens
    for piece in matches:
        start, end = piece.span()
        cost = _cost(piece, piece.lastindex, end - start)
        pieces.append((start, end, cost))
        left -= cost
        if left < 0:
            break
    return pieces


def _reach(pieces: list[tuple[int, int, int]], tokens: int) -> int:
    """Return how far into a text so many tokens reach; a long piece is cut in itself."""
    left = tokens
    for start, end, cost in pieces:
        if cost > left:
            return start + (end - start) * left // cost
        left -= cost
    return pieces[-1][1] if pieces else 0
