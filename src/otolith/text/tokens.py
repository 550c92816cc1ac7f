"""How many tokens a text is about, without any model's vocabulary.

A piece is a word, a number, a run of spaces, or a mark. A short word is one token and a longer one
another for every few letters; three digits are one; a mark is one, and two of the same kind are
often one as well; letters of other scripts and pictures count for themselves. The space before a
word belongs to the word.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r"([A-Za-z]+)|([0-9]+)|(\n)|([ \t\r]+)|([!-/:-@\[-`{-~]+)|(.)", re.DOTALL)
_WORD, _NUMBER, _LINE, _SPACE, _MARKS, _OTHER = range(1, 7)
_LETTERS, _DIGITS, _WIDE = 6, 3, 0x2E80


def count(text: str) -> int:
    """Return about how many tokens a text is; lines add up."""
    return sum(_cost(piece) for piece in _PIECE.finditer(text))


def cut(text: str, tokens: int) -> str:
    """Return as much of a text as fits; what was cut off is three dots."""
    left = tokens
    for piece in _PIECE.finditer(text):
        left -= _cost(piece)
        if left < 0:
            return _shortened(text, piece.start(), tokens)
    return text


def _shortened(text: str, end: int, tokens: int) -> str:
    """Return the text up to a piece that did not fit, with room made for the dots."""
    if tokens < 1:
        return ""
    start = text[:end].rstrip()
    while start and count(start) + 1 > tokens:
        last = max((piece.start() for piece in _PIECE.finditer(start)), default=0)
        start = start[:last].rstrip()
    return start + DOTS


DOTS = "…"


def _cost(piece: re.Match[str]) -> int:
    kind, size = piece.lastindex, piece.end() - piece.start()
    if kind == _WORD:
        return 1 + (size - 1) // _LETTERS
    if kind == _NUMBER:
        return -(-size // _DIGITS)
    if kind == _SPACE:
        return 0 if size == 1 else 1
    if kind == _MARKS:
        return -(-size // 2)
    return 2 if kind == _OTHER and ord(piece.group()) >= _WIDE else 1
