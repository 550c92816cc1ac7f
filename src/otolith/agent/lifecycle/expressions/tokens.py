"""Tokens: an expression cut into numbers, strings, names and operators."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from otolith.agent.lifecycle.expressions.scope import ExpressionError

LONGEST_TEXT = 10_000

_PIECES = re.compile(
    r"""(?P<space>\s+|/\*.*?\*/)
      | (?P<comment>//[^\n]*)
      | (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
      | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
      | (?P<operator>===|!==|\*\*|&&|\|\||\?\?|\?\.|\+\+|--|[-+*/=!<>]=|[-+*/%<>!?:.,;=()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)


class Token(NamedTuple):
    """One piece: its kind, its text, its value, and whether a line starts with it."""

    kind: str
    text: str
    value: object
    starts_line: bool


END = Token("end", "the end", None, starts_line=True)


def tokens_of(text: str, *, has_comments: bool) -> list[Token]:
    """Cut a text into tokens; blanks and comments are left out. Without comments, // divides."""
    if len(text) > LONGEST_TEXT:
        raise ExpressionError(f"an expression of {len(text)} characters is too long")
    found: list[Token] = []
    at, starts_line = 0, True
    while at < len(text):
        piece = _PIECES.match(text, at)
        if piece is None:
            raise ExpressionError(f"{text[at]!r} does not belong in an expression")
        at, kind, word = piece.end(), str(piece.lastgroup), piece[0]
        if kind == "comment" and not has_comments:
            at, kind, word = piece.start() + 2, "operator", "//"
        if kind in {"space", "comment"}:
            starts_line = starts_line or "\n" in word
            continue
        found.append(Token(kind, word, _value(kind, word), starts_line))
        starts_line = False
    return found


def _value(kind: str, word: str) -> object:
    if kind == "number":
        return _number(word)
    if kind == "string":
        return _ESCAPE.sub(_unescaped, word[1:-1])
    if kind == "name" and word.startswith("__"):
        raise ExpressionError(f"{word} is not a name that an expression may use")
    return word


def _number(word: str) -> int | float:
    if word[:2] in {"0x", "0X"}:
        return int(word, 16)
    if len(word) > 400:
        raise ExpressionError("a number of more than 400 characters")
    found = int(word) if word.isdigit() else float(word)
    if found == math.inf:
        raise ExpressionError(f"{word} is too large")
    return found


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPES.get(match[3], match[3])
