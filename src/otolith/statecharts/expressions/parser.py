"""The parser of expressions: from a text to tokens, and from tokens to closures.

Precedence from weak to strong: `a if b else c` and `b ? a : c`; `or || ??`; `and &&`; `not`;
comparisons; `+ -`; `* / // %`; `! - + typeof`; `**`; members, items and calls. Each level is a
method that returns a closure, which takes a scope and returns a value. Depth and length are
limited, so that no document can exhaust the stack. The parser also notes what an expression refers
to, for analysis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, TypeAlias

from otolith.statecharts.expressions.dialects import (
    CLASSES,
    ECMASCRIPT,
    FUNCTIONS,
    MAX_LENGTH,
    METHODS,
    Dialect,
    EvaluationError,
    ExpressionError,
    Function,
    Scope,
)

Evaluate: TypeAlias = Callable[[Scope], Any]
"""A compiled expression."""

_MAX_CHARACTERS = 10_000  # of a whole expression
_MAX_NUMERAL = 400  # characters of a number: converting a longer one is slow
_MAX_DEPTH = 40  # of nested brackets and operators: each is a frame of Python's stack
_MAX_OPERATORS = 100  # in one chain, such as a + b + c

_TOKENS = re.compile(
    r"""(?P<space>\s+|/\*.*?\*/)
      | (?P<comment>//[^\n]*)
      | (?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
      | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
      | (?P<operator>===|!==|\*\*|&&|\|\||\?\?|\?\.|\+\+|--|[-+*/=!<>]=|[-+*/%<>!?:.,;=()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
    **dict.fromkeys(("null", "None", "undefined")),
}
_KEYWORDS = """
    and as assert async await break case catch class const continue debugger def default del
    delete do elif else enum except export extends finally for from function global if
    implements import in instanceof interface is lambda let new nonlocal not or package pass
    private protected public raise return static super switch this throw try typeof var void
    while with yield
"""
_RESERVED = frozenset(_KEYWORDS.split()) | _CONSTANTS.keys()
_COMPARISONS = ("==", "!=", "===", "!==", "<", ">", "<=", ">=", "in", "instanceof", "is")
_NAMESPACES = frozenset({"Math", "Array", "JSON"})
_TYPE_NAMES = {bool: "boolean", int: "number", float: "number", str: "string"}


class Token(NamedTuple):
    """One token: its kind, its text, its value, and whether it is the first of its line."""

    kind: str
    text: str
    value: Any
    starts_line: bool


_END = Token("end", "the end", None, starts_line=True)


@dataclass(slots=True)
class ExpressionReferences:
    """What an expression refers to."""

    variables: set[str] = field(default_factory=set)
    """Variables that must exist; the operand of `typeof` need not."""
    context_fields: set[str] = field(default_factory=set)
    """Variables that are read as members of `context`."""
    states: set[str] = field(default_factory=set)
    """States that `In` is asked about."""


def tokenize(text: str, dialect: Dialect) -> list[Token]:
    """Return the tokens of a text without blanks and comments; in Python's dialect `//` divides."""
    if len(text) > _MAX_CHARACTERS:
        message = f"an expression has {len(text)} characters, at most {_MAX_CHARACTERS} are allowed"
        raise ExpressionError(message)
    tokens: list[Token] = []
    position, starts_line = 0, True
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            raise ExpressionError(f"{text[position]!r} does not belong in an expression")
        kind, word = str(match.lastgroup), match[0]
        if kind == "comment" and dialect is not ECMASCRIPT:
            kind, word = "operator", "//"
        position += len(word)
        if kind in {"space", "comment"}:
            starts_line = starts_line or "\n" in word
            continue
        tokens.append(Token(kind, word, _token_value(kind, word), starts_line))
        starts_line = False
    return tokens


def _token_value(kind: str, word: str) -> Any:
    """Return the value of a literal; refuse names and numbers that are not allowed."""
    if kind == "string":
        return _ESCAPE.sub(_unescape, word[1:-1])
    if kind == "name" and word.startswith("__"):
        raise ExpressionError(f"{word} is not a name that an expression may use")
    if kind != "number":
        return word
    if word[:2] in {"0x", "0X"}:
        return int(word, 16)
    if len(word) > _MAX_NUMERAL:
        raise ExpressionError(f"a number has more than {_MAX_NUMERAL} characters")
    number = int(word) if word.isdigit() else float(word)
    if number == math.inf:
        raise ExpressionError(f"{word} is too large")
    return number


def _unescape(match: re.Match[str]) -> str:
    """Return the character that an escape such as a backslash and an n stands for."""
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPES.get(match[3], match[3])


class Parser:
    """Parses one text; each method of a level of precedence returns a closure."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.dialect = dialect
        self.references = ExpressionReferences()
        self.position = 0
        self._tokens = tokenize(text, dialect)
        self._depth = 0
        self._operators = 0
        self._variables: set[Evaluate] = set()
        """The closures that are nothing but a variable: `typeof` treats them differently."""

    # ------------------------------------------------------------ tokens

    @property
    def token(self) -> Token:
        """The current token."""
        return self._tokens[self.position] if self.position < len(self._tokens) else _END

    @property
    def previous(self) -> str:
        """The text of the token before the current one."""
        return self._tokens[self.position - 1].text if self.position else ""

    @property
    def following(self) -> str:
        """The text of the token after the current one."""
        after = self.position + 1
        return self._tokens[after].text if after < len(self._tokens) else ""

    @property
    def words(self) -> frozenset[str]:
        """Every name in the text."""
        return frozenset(token.text for token in self._tokens if token.kind == "name")

    def take(self, *texts: str) -> str | None:
        """Skip the current token and return its text, if it is one of these operators or words."""
        token = self.token
        if token.kind not in {"operator", "name"} or token.text not in texts:
            return None
        self.position += 1
        return token.text

    def expect(self, text: str) -> None:
        """Skip this operator or word; raise ExpressionError if it is not the current token."""
        if self.take(text) is None:
            self.fail()

    def fail(self) -> NoReturn:
        """Raise ExpressionError for the current token."""
        raise ExpressionError(f"{self.token.text!r} is not expected here")

    def finish(self) -> None:
        """Raise ExpressionError if anything is left over."""
        if self.token is not _END:
            self.fail()

    def name(self, *, is_member: bool = False) -> str:
        """Parse a name; only members may be called like a keyword."""
        token = self.token
        if token.kind != "name" or (not is_member and token.text in _RESERVED):
            self.fail()
        self.position += 1
        return token.text

    # ------------------------------------------------------------ locations

    def location(self) -> tuple[str, list[tuple[bool, Any]]]:
        """Parse a location: a variable, then members (True, name) or items (False, key)."""
        variable = self.name()
        steps: list[tuple[bool, Any]] = []
        while mark := self.take(".", "["):
            if mark == ".":
                steps.append((True, self.name(is_member=True)))
            else:
                steps.append((False, self.expression()))
                self.expect("]")
        return variable, steps

    def value_at(self, position: int) -> Evaluate:
        """Parse what stands at an earlier position as a value, and come back."""
        here, self.position = self.position, position
        value = self._postfix()
        self.position = here
        return value

    # ------------------------------------------------------------ levels of precedence

    def expression(self) -> Evaluate:
        """Parse a whole expression."""
        self._descend()
        truth, value = self.dialect.truth, self._or()
        if self.take("?"):
            test, yes = value, self.expression()
            self.expect(":")
        elif self.take("if"):
            test, yes = self._or(), value
            self.expect("else")
        else:
            self._depth -= 1
            return value
        no = self.expression()
        self._depth -= 1
        return lambda scope: yes(scope) if truth(test(scope)) else no(scope)

    def _descend(self) -> None:
        """Count one level of nesting; raise ExpressionError if there are too many."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ExpressionError(f"the expression is nested more than {_MAX_DEPTH} deep")

    def _take_operator(self, *texts: str) -> str | None:
        """Skip the next operator of a chain; each nests a closure deeper, so they are counted."""
        found = self.take(*texts)
        if found is not None:
            self._operators += 1
            if self._operators > _MAX_OPERATORS:
                raise ExpressionError(f"an expression has more than {_MAX_OPERATORS} operators")
        return found

    def _or(self) -> Evaluate:
        """Parse `a or b`, `a || b` and `a ?? b`, which takes b only if a is None."""
        value = self._and()
        while symbol := self._take_operator("or", "||", "??"):
            is_decided = _is_not_none if symbol == "??" else self.dialect.truth
            value = _first_that(is_decided, value, self._and())
        return value

    def _and(self) -> Evaluate:
        """Parse `a and b` and `a && b`."""
        truth, value = self.dialect.truth, self._not()
        while self._take_operator("and", "&&"):
            value = _first_that(lambda found: not truth(found), value, self._not())
        return value

    def _not(self) -> Evaluate:
        """Parse `not a`; any number of `not` makes one closure."""
        count = 0
        while self.take("not"):
            count += 1
        value = self._comparison()
        return self._negated(value, is_odd=count % 2 == 1) if count else value

    def _negated(self, value: Evaluate, *, is_odd: bool) -> Evaluate:
        """Return the truth of a value, or its opposite."""
        truth = self.dialect.truth
        if is_odd:
            return lambda scope: not truth(value(scope))
        return lambda scope: truth(value(scope))

    def _comparison(self) -> Evaluate:
        """Compare; `a < b < c` is a chain in Python and goes from left to right in ECMAScript."""
        first = self._sum()
        tests: list[tuple[Function, Evaluate]] = []
        while symbol := self._comparison_symbol():
            operand = self._class() if symbol == "instanceof" else self._sum()
            tests.append((self.dialect.comparisons[symbol], operand))
        if len(tests) > 1 and self.dialect is not ECMASCRIPT:
            return _chain(first, tests)
        for test, operand in tests:
            first = _binary(test, first, operand)
        return first

    def _comparison_symbol(self) -> str | None:
        """Parse the operator of a comparison, of one word or two."""
        if self.take("not"):
            self.expect("in")
            return "not in"
        symbol = self.take(*_COMPARISONS)
        return "is not" if symbol == "is" and self.take("not") else symbol

    def _class(self) -> Evaluate:
        """Parse what stands to the right of `instanceof`."""
        found = CLASSES.get(self.token.text)
        if found is None:
            self.fail()
        self.position += 1
        return lambda scope: found

    def _sum(self) -> Evaluate:
        """Parse `a + b - c`."""
        return self._left_to_right(("+", "-"), self._product)

    def _product(self) -> Evaluate:
        """Parse `a * b / c // d % e`."""
        return self._left_to_right(("*", "/", "//", "%"), self._unary)

    def _left_to_right(self, symbols: tuple[str, ...], operand: Callable[[], Evaluate]) -> Evaluate:
        """Parse operands of one level, joined by any of these operators."""
        value = operand()
        while symbol := self._take_operator(*symbols):
            value = _binary(self.dialect.arithmetic[symbol], value, operand())
        return value

    def _unary(self) -> Evaluate:
        """Parse `!a`, `-a`, `+a` and `typeof a`."""
        symbols: list[str] = []
        while symbol := self.take("!", "-", "+", "typeof"):
            symbols.append(symbol)
        if len(symbols) > _MAX_DEPTH:
            raise ExpressionError(f"more than {_MAX_DEPTH} signs stand in a row")
        value = self._power()
        for symbol in reversed(symbols):
            if symbol == "!":
                value = self._negated(value, is_odd=True)
            elif symbol == "typeof":
                value = _type_of(value, is_variable=value in self._variables)
            else:
                value = _binary(self.dialect.multiply, _constant(-1 if symbol == "-" else 1), value)
        return value

    def _power(self) -> Evaluate:
        """Parse `a ** b`, which binds tighter than a sign to its left, as in Python."""
        base = self._postfix()
        if self.take("**"):
            self._descend()
            base = _binary(self.dialect.power, base, self._unary())
            self._depth -= 1
        return base

    def _postfix(self) -> Evaluate:
        """Parse members, items and method calls: `a.b[c].d()`."""
        start = self.position
        value = self._atom()
        for _ in range(_MAX_DEPTH):
            if self.take(".", "?."):
                name = self.name(is_member=True)
                if self.take("("):
                    value = _method_call(name, value, self._list(")"))
                    continue
                if self.position - start == 3 and self._tokens[start].text == "context":
                    self.references.context_fields.add(name)
                value = _member(self.dialect, value, name)
            elif self.take("["):
                value = _binary(self.dialect.item, value, self.expression())
                self.expect("]")
            else:
                return value
        raise ExpressionError(f"more than {_MAX_DEPTH} members stand in a row")

    def _atom(self) -> Evaluate:
        """Parse a literal, a list, a dict, parentheses, a variable or a call."""
        token = self.token
        if token.kind in {"number", "string"}:
            self.position += 1
            return _constant(token.value)
        if self.take("("):
            value = self.expression()
            self.expect(")")
            return value
        if self.take("["):
            items = self._list("]")
            return lambda scope: [item(scope) for item in items]
        if self.take("{"):
            return self._dict()
        if token.kind == "name" and token.text in _CONSTANTS:
            self.position += 1
            return _constant(_CONSTANTS[token.text])
        return self._variable_or_call()

    def _variable_or_call(self) -> Evaluate:
        """Parse a name, or a call of a function of the closed list."""
        start, is_optional = self.position, self.previous == "typeof"
        name = self.name()
        if name in _NAMESPACES and self.take("."):
            name = f"{name}.{self.name(is_member=True)}"
            self.expect("(")
        elif not self.take("("):
            if not is_optional:
                self.references.variables.add(name)
            value = _variable(name)
            self._variables.add(value)
            return value
        arguments = self._list(")")
        if name == "In":
            if self.position - start == 4:
                self.references.states.add(str(self._tokens[start + 2].value))
            return _is_active(arguments)
        if name not in FUNCTIONS:
            raise ExpressionError(f"{name}() is not a function of this language")
        return _call(name, FUNCTIONS[name], arguments)

    def _list(self, end: str) -> list[Evaluate]:
        """Parse items up to the end of a list or of arguments."""
        items: list[Evaluate] = []
        while not self.take(end):
            items.append(self.expression())
            self._separator(end)
        return items

    def _dict(self) -> Evaluate:
        """Parse the pairs of a dict; its keys must turn out to be strings."""
        pairs: list[tuple[Evaluate, Evaluate]] = []
        while not self.take("}"):
            if self.token.kind == "name" and self.following == ":":
                key = _constant(self.name(is_member=True))  # a bare word is a key, as in JSON5
            else:
                key = self.expression()
            self.expect(":")
            pairs.append((key, self.expression()))
            self._separator("}")

        def evaluate(scope: Scope) -> dict[str, Any]:
            """Return the value in a scope."""
            found = {key(scope): value(scope) for key, value in pairs}
            if len(found) > MAX_LENGTH or not all(isinstance(key, str) for key in found):
                raise EvaluationError("the keys of a dict must be strings")
            return found

        return evaluate

    def _separator(self, end: str) -> None:
        """Skip the comma between items; before the end there need not be one."""
        if self.take(",") is None and self.token.text != end:
            self.fail()


# ---------------------------------------------------------------- closures


def _constant(value: Any) -> Evaluate:
    return lambda scope: value


def _variable(name: str) -> Evaluate:
    """Look a name up in the data, then among the system variables."""

    def evaluate(scope: Scope) -> Any:
        """Return the value in a scope."""
        data = scope.data
        if name in data:
            return data[name]
        try:
            return scope.system_variable(name)
        except KeyError:
            raise EvaluationError(f"{name} is not defined") from None

    return evaluate


def _binary(function: Function, left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda scope: function(left(scope), right(scope))


def _member(dialect: Dialect, value: Evaluate, name: str) -> Evaluate:
    get = dialect.member
    return lambda scope: get(value(scope), name)


def _is_not_none(value: Any) -> bool:
    return value is not None


def _first_that(is_decided: Callable[[Any], bool], left: Evaluate, right: Evaluate) -> Evaluate:
    """Return the left value if it decides, else the right one, which is evaluated only then."""

    def evaluate(scope: Scope) -> Any:
        """Return the value in a scope."""
        found = left(scope)
        return found if is_decided(found) else right(scope)

    return evaluate


def _chain(first: Evaluate, tests: list[tuple[Function, Evaluate]]) -> Evaluate:
    """Compare neighbours, until one test fails: `a < b < c`."""

    def evaluate(scope: Scope) -> bool:
        """Return the value in a scope."""
        left = first(scope)
        for test, operand in tests:
            right = operand(scope)
            if not test(left, right):
                return False
            left = right
        return True

    return evaluate


def _type_of(value: Evaluate, *, is_variable: bool) -> Evaluate:
    """Return what `typeof` returns; a variable that does not exist is "undefined"."""

    def evaluate(scope: Scope) -> str:
        """Return the value in a scope."""
        try:
            found = value(scope)
        except EvaluationError:
            if is_variable:
                return "undefined"
            raise
        return "undefined" if found is None else _TYPE_NAMES.get(type(found), "object")

    return evaluate


def _call(name: str, function: Function, arguments: list[Evaluate]) -> Evaluate:
    """Call a function; what it raises has no value in this scope."""

    def evaluate(scope: Scope) -> Any:
        """Return the value in a scope."""
        values = [argument(scope) for argument in arguments]
        try:
            return function(*values)
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise EvaluationError(f"{name}(): {error}") from error

    return evaluate


def _method_call(name: str, value: Evaluate, arguments: list[Evaluate]) -> Evaluate:
    """Call a method of a value; the closed list says for which kinds of values it is."""
    if name not in METHODS:
        raise ExpressionError(f".{name}() is not a method of this language")
    kind, function = METHODS[name]

    def call(receiver: Any, *values: Any) -> Any:
        """Call the method, if the receiver is of its type."""
        if not isinstance(receiver, kind):
            raise EvaluationError(f"a {type(receiver).__name__} has no method {name}")
        return function(receiver, *values)

    return _call(name, call, [value, *arguments])


def _is_active(arguments: list[Evaluate]) -> Evaluate:
    """Ask the scope whether a state is active: `In('busy')`."""
    if len(arguments) != 1:
        raise ExpressionError("In() takes the id of one state")
    state = arguments[0]

    def evaluate(scope: Scope) -> bool:
        """Return the value in a scope."""
        found = state(scope)
        if not isinstance(found, str):
            raise EvaluationError("In() takes the id of a state")
        return scope.is_active(found)

    return evaluate
