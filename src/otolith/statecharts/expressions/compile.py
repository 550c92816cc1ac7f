"""The compiler of expressions, locations and scripts: from texts to closures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from otolith.errors import BadValue
from otolith.frozen import freeze, with_item
from otolith.statecharts.expressions.dialects import (
    Dialect,
    EvaluationError,
    ExpressionError,
    Scope,
)
from otolith.statecharts.expressions.parser import Evaluate, Parser

_DECLARATIONS = ("var", "let", "const")
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=")


class Location(NamedTuple):
    """What can be assigned: a variable, or an item inside its value."""

    name: str
    """The variable."""
    is_nested: bool
    updated: Callable[[Scope, Any, Any], Any]
    """Returns the new value of the variable, given a scope, its old value and what is assigned."""


class Statement(NamedTuple):
    """One assignment of a script."""

    location: Location
    value: Evaluate


def compile_expression(text: str, dialect: Dialect) -> Evaluate:
    """Return the closure of an expression.

    Raises:
        ExpressionError: the text is not an expression of this language.
    """
    parser = Parser(text, dialect)
    value = parser.expression()
    parser.finish()
    return value


def compile_location(text: str, dialect: Dialect) -> Location:
    """Return the location that a text names: `x`, `x.y` or `x[0].y`.

    Raises:
        ExpressionError: the text is not a location.
    """
    parser = Parser(text, dialect)
    location = _location(parser)
    parser.finish()
    return location


def compile_script(text: str, dialect: Dialect) -> list[Statement]:
    """Return the assignments of a script, such as `x = x + 1; var y = 2, z`.

    Raises:
        ExpressionError: the text contains anything else.
    """
    parser = Parser(text, dialect)
    statements: list[Statement] = []
    while parser.token.kind != "end":
        if parser.take(";"):
            continue
        if statements and not parser.token.starts_line and parser.previous != ";":
            parser.fail()
        if parser.take(*_DECLARATIONS):
            statements += _declarations(parser)
        else:
            statements.append(_statement(parser))
    return statements


def _declarations(parser: Parser) -> list[Statement]:
    """Parse `x = 1, y, z = 2`; a name without a value does not change."""
    statements: list[Statement] = []
    while True:
        if parser.following in _ASSIGNMENTS:
            statements.append(_statement(parser))
        else:
            parser.name()
        if not parser.take(","):
            return statements


def _statement(parser: Parser) -> Statement:
    """Parse one assignment; `x += 1` reads the location as a value first."""
    start = parser.position
    location = _location(parser)
    symbol = parser.take(*_ASSIGNMENTS, "++", "--")
    if symbol is None:
        raise ExpressionError("a script consists of assignments only, such as: x = x + 1")
    if symbol == "=":
        return Statement(location, parser.expression())
    old = parser.value_at(start)
    change = (lambda scope: 1) if symbol in {"++", "--"} else parser.expression()
    apply = parser.dialect.arithmetic[symbol[0]]
    return Statement(location, lambda scope: apply(old(scope), change(scope)))


def _location(parser: Parser) -> Location:
    """Parse a location, and return how its variable changes when it is assigned."""
    name, steps = parser.location()

    def updated(scope: Scope, old: Any, value: Any) -> Any:
        keys = [key if is_member else key(scope) for is_member, key in steps]
        return _with_value_at(old, keys, value)

    return Location(name, bool(steps), updated)


def _with_value_at(old: Any, keys: list[Any], value: Any) -> Any:
    """Return a copy of the old value with another value at the end of these keys."""
    if not keys:
        return freeze(value)
    key, *rest = keys
    try:
        return with_item(old, key, _with_value_at(old[key] if rest else None, rest, value))
    except (KeyError, IndexError, TypeError) as error:
        raise EvaluationError(f"{key!r} does not exist, so it cannot be assigned") from error
    except BadValue as error:
        raise EvaluationError(str(error)) from error
