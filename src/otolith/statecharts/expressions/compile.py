"""From the texts of a chart to closures: expressions, places to assign to, and scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from otolith.errors import BadValue
from otolith.frozen import freeze, with_item
from otolith.statecharts.expressions import operations
from otolith.statecharts.expressions.operations import (
    Dialect,
    Evaluate,
    EvaluationError,
    ExpressionError,
    Scope,
)
from otolith.statecharts.expressions.parser import Parser

_DECLARING = ("var", "let", "const")
_ASSIGNING = ("=", "+=", "-=", "*=", "/=")


class Location(NamedTuple):
    """A place to assign to: the variable, and how its new value is made of the old one."""

    name: str
    is_nested: bool
    updated: Callable[[Scope, Any, Any], Any]


class Statement(NamedTuple):
    """One line of a script: a place, and the value it gets."""

    location: Location
    value: Evaluate


def compile_expression(text: str, dialect: Dialect) -> Evaluate:
    """Return the closure of an expression.

    Raises:
        ExpressionError: the text is not an expression of this language.
    """
    parser = Parser(text, dialect)
    found = parser.expression()
    parser.finish()
    return found


def compile_location(text: str, dialect: Dialect) -> Location:
    """Return the place that a text names: `x`, `x.y` or `x[0].y`."""
    parser = Parser(text, dialect)
    found = _location(parser)
    parser.finish()
    return found


def compile_script(text: str, dialect: Dialect) -> list[Statement]:
    """Return the assignments a script is made of; there is nothing else a script can be."""
    parser = Parser(text, dialect)
    found: list[Statement] = []
    while parser.token.kind != "end":
        if parser.take(";"):
            continue
        if found and not parser.token.starts_line and parser.previous != ";":
            parser.fail()
        if parser.take(*_DECLARING):
            found += _declarations(parser)
        else:
            found.append(_statement(parser))
    return found


def _declarations(parser: Parser) -> list[Statement]:
    """Read `var x = 1, y, z = 2`; a name without a value stays what it is."""
    found: list[Statement] = []
    while True:
        if parser.following in _ASSIGNING:
            found.append(_statement(parser))
        else:
            parser.name()
        if not parser.take(","):
            return found


def _statement(parser: Parser) -> Statement:
    start = parser.position
    location = _location(parser)
    operator = parser.take(*_ASSIGNING, "++", "--")
    if operator is None:
        raise ExpressionError("a script is made of assignments only, such as: x = x + 1")
    if operator == "=":
        return Statement(location, parser.expression())
    now = parser.again(start)
    change = operations.constant(1) if operator in {"++", "--"} else parser.expression()
    return Statement(location, operations.arithmetic(parser.dialect, operator[0], now, change))


def _location(parser: Parser) -> Location:
    name, steps = parser.steps()

    def updated(scope: Scope, old: Any, value: Any) -> Any:
        keys = [key if is_member else key(scope) for is_member, key in steps]
        return _with(old, keys, value)

    return Location(name, bool(steps), updated)


def _with(old: Any, keys: list[Any], value: Any) -> Any:
    """Return a copy of the old value with another value at the end of these keys."""
    if not keys:
        return freeze(value)
    key, *rest = keys
    try:
        inner = _with(old[key], rest, value) if rest else freeze(value)
        return with_item(old, key, inner)
    except (KeyError, IndexError, TypeError) as error:
        raise EvaluationError(f"there is no {key!r} to assign to") from error
    except BadValue as error:
        raise EvaluationError(str(error)) from error
