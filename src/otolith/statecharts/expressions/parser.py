"""The parser: from tokens to closures, by precedence.

From weak to strong: `a if b else c` and `b ? a : c`; `or || ??`; `and &&`; `not`; comparisons;
`+ -`; `* / // %`; `! - + typeof`; `**`; members, items and calls. Nesting is counted, so that no
document can exhaust the stack.

Tokens: an expression cut into numbers, strings, names and operators.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from otolith.statecharts.expressions import operations
from otolith.statecharts.expressions.operations import (
    FUNCTIONS,
    KINDS,
    Dialect,
    Evaluate,
    ExpressionError,
)

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


DEEPEST = 40
LONGEST_CHAIN = 100
"""How deep expressions nest, and how many operators of one rank stand in a row."""

_CONSTANTS = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    "undefined": None,
}
_WORDS = """
    and as assert async await break case catch class const continue debugger def default del
    delete do elif else enum except export extends finally for from function global if
    implements import in instanceof interface is lambda let new nonlocal not or package pass
    private protected public raise return static super switch this throw try typeof var void
    while with yield
"""
_RESERVED = frozenset(_WORDS.split())
_COMPARISONS = frozenset({"==", "!=", "===", "!==", "<", ">", "<=", ">=", "in", "instanceof", "is"})
_NAMESPACES = frozenset({"Math", "Array", "JSON"})


class Parser:
    """Reads one text; each method reads one level of precedence and returns a closure."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.dialect = dialect
        self._tokens = tokens_of(text, has_comments=dialect.name == "ecmascript")
        self._at = 0
        self._depth = 0
        self._links = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else END

    def is_at(self, *texts: str) -> bool:
        return self.token.kind in {"operator", "name"} and self.token.text in texts

    def take(self, *texts: str) -> str | None:
        """Step over one of these operators or words, if it stands here."""
        if not self.is_at(*texts):
            return None
        self._at += 1
        return self._tokens[self._at - 1].text

    def expect(self, text: str) -> None:
        if self.take(text) is None:
            self.fail()

    def fail(self) -> NoReturn:
        raise ExpressionError(f"{self.token.text!r} is not expected here")

    def expression(self) -> Evaluate:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ExpressionError(f"the expression is nested more than {DEEPEST} deep")
        found = self._conditional()
        self._depth -= 1
        return found

    def _link(self, *texts: str) -> str | None:
        """Step over the next operator of a chain; each one nests a closure deeper."""
        found = self.take(*texts)
        if found is not None:
            self._links += 1
            if self._links > LONGEST_CHAIN:
                raise ExpressionError(f"more than {LONGEST_CHAIN} operators in one expression")
        return found

    def _conditional(self) -> Evaluate:
        first = self._either()
        if self.take("?"):
            yes = self.expression()
            self.expect(":")
            return operations.conditional(self.dialect, first, yes, self.expression())
        if self.take("if"):
            condition = self._either()
            self.expect("else")
            return operations.conditional(self.dialect, condition, first, self.expression())
        return first

    def _either(self) -> Evaluate:
        found = self._both()
        while operator := self._link("or", "||", "??"):
            build = operations.first_known if operator == "??" else operations.either
            found = build(self.dialect, found, self._both())
        return found

    def _both(self) -> Evaluate:
        found = self._negation()
        while self._link("and", "&&"):
            found = operations.both(self.dialect, found, self._negation())
        return found

    def _negation(self) -> Evaluate:
        count = 0
        while self.take("not"):
            count += 1
        found = self._comparison()
        return operations.negation(self.dialect, found, is_odd=count % 2 == 1) if count else found

    def _comparison(self) -> Evaluate:
        first = self._sum()
        links: list[tuple[str, Evaluate]] = []
        while operator := self._comparison_operator():
            links.append((operator, self._kind() if operator == "instanceof" else self._sum()))
        return operations.comparison(self.dialect, first, links) if links else first

    def _comparison_operator(self) -> str | None:
        if self.take("not"):
            self.expect("in")
            return "not in"
        operator = self.take(*_COMPARISONS)
        return "is not" if operator == "is" and self.take("not") else operator

    def _kind(self) -> Evaluate:
        kind = KINDS.get(self.token.text)
        if kind is None:
            self.fail()
        self._at += 1
        return operations.constant(kind)

    def _sum(self) -> Evaluate:
        return self._left_to_right(("+", "-"), self._product)

    def _product(self) -> Evaluate:
        return self._left_to_right(("*", "/", "//", "%"), self._unary)

    def _left_to_right(self, texts: tuple[str, ...], below: Callable[[], Evaluate]) -> Evaluate:
        found = below()
        while operator := self._link(*texts):
            found = operations.arithmetic(self.dialect, operator, found, below())
        return found

    def _unary(self) -> Evaluate:
        marks: list[str] = []
        while mark := self.take("!", "-", "+", "typeof"):
            marks.append(mark)
        if len(marks) > DEEPEST:
            raise ExpressionError("too many signs in a row")
        found = self._power()
        for mark in reversed(marks):
            found = operations.unary(self.dialect, mark, found)
        return found

    def _power(self) -> Evaluate:
        base = self._postfix()
        if self.take("**"):
            self._depth += 1
            if self._depth > DEEPEST:
                raise ExpressionError("too many powers")
            base = operations.arithmetic(self.dialect, "**", base, self._unary())
            self._depth -= 1
        return base

    def _postfix(self) -> Evaluate:
        found = self._atom()
        for _ in range(DEEPEST):
            if self.take(".", "?."):
                found = self._member(found)
            elif self.take("["):
                found = operations.item(self.dialect, found, self.expression())
                self.expect("]")
            else:
                return found
        raise ExpressionError(f"more than {DEEPEST} members in a row")

    def _member(self, value: Evaluate) -> Evaluate:
        name = self.name(is_member=True)
        if self.take("("):
            return operations.method(value, name, self._listed(")"))
        return operations.member(self.dialect, value, name)

    def name(self, *, is_member: bool = False) -> str:
        """Read a name; the words of the language are names of members only."""
        token = self.token
        if token.kind != "name" or (not is_member and token.text in _RESERVED | _CONSTANTS.keys()):
            self.fail()
        self._at += 1
        return token.text

    def _atom(self) -> Evaluate:
        token = self.token
        if token.kind in {"number", "string"}:
            self._at += 1
            return operations.constant(token.value)
        if self.take("("):
            found = self.expression()
            self.expect(")")
            return found
        if self.take("["):
            return operations.listed(self._listed("]"))
        if self.take("{"):
            return operations.mapped(self._pairs())
        if token.kind == "name" and token.text in _CONSTANTS:
            self._at += 1
            return operations.constant(_CONSTANTS[token.text])
        return self._named()

    def _named(self) -> Evaluate:
        name = self.name()
        if name in _NAMESPACES and self.take("."):
            name = f"{name}.{self.name(is_member=True)}"
            self.expect("(")
            return self._call(name)
        return self._call(name) if self.take("(") else operations.variable(name)

    def _call(self, name: str) -> Evaluate:
        arguments = self._listed(")")
        if name == "In":
            return operations.is_active(arguments)
        if name not in FUNCTIONS:
            raise ExpressionError(f"{name}() is not a function of this language")
        return operations.call(name, FUNCTIONS[name], arguments)

    def _listed(self, end: str) -> list[Evaluate]:
        found: list[Evaluate] = []
        while not self.take(end):
            found.append(self.expression())
            if not self.is_at(end):
                self.expect(",")
        return found

    def _pairs(self) -> list[tuple[Evaluate, Evaluate]]:
        found: list[tuple[Evaluate, Evaluate]] = []
        while not self.take("}"):
            key = self._pair_key()
            self.expect(":")
            found.append((key, self.expression()))
            if not self.is_at("}"):
                self.expect(",")
        return found

    def _pair_key(self) -> Evaluate:
        if self.token.kind == "name" and self.following == ":":  # a bare word is a key, as in JSON5
            return operations.constant(self.name(is_member=True))
        return self.expression()

    @property
    def position(self) -> int:
        return self._at

    @property
    def previous(self) -> str:
        """The text of the token before this one."""
        return self._tokens[self._at - 1].text if self._at else ""

    @property
    def following(self) -> str:
        """The text of the token after this one."""
        return self._tokens[self._at + 1].text if self._at + 1 < len(self._tokens) else ""

    def again(self, start: int) -> Evaluate:
        """Read what stands at an earlier position as a value, and come back."""
        here, self._at = self._at, start
        found = self._postfix()
        self._at = here
        return found

    def finish(self) -> None:
        """Refuse what is left over."""
        if self.token is not END:
            self.fail()

    def steps(self) -> tuple[str, list[tuple[bool, Any]]]:
        """Read a place to assign to: a name, then members (True, name) and items (False, key)."""
        root = self.name()
        found: list[tuple[bool, Any]] = []
        while operator := self.take(".", "["):
            if operator == ".":
                found.append((True, self.name(is_member=True)))
            else:
                found.append((False, self.expression()))
                self.expect("]")
        return root, found
