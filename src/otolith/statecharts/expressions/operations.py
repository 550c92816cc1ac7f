"""Operations: the closures an expression is made of, each taking a scope and giving a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from otolith.agent.lifecycle.expressions.callables import METHODS
from otolith.agent.lifecycle.expressions.dialects import ECMASCRIPT, LONGEST, Dialect
from otolith.agent.lifecycle.expressions.scope import EvaluationError, ExpressionError, Scope

Evaluate: TypeAlias = Callable[[Scope], Any]
_Pairs: TypeAlias = "list[tuple[Evaluate, Evaluate]]"


def constant(value: Any) -> Evaluate:
    return lambda scope: value


def variable(name: str) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        data = scope.data
        if name in data:
            return data[name]
        try:
            return scope.system(name)
        except KeyError:
            raise EvaluationError(f"{name} is not known") from None

    evaluate.__name__ = "variable"
    return evaluate


def conditional(dialect: Dialect, test: Evaluate, yes: Evaluate, no: Evaluate) -> Evaluate:
    truth = dialect.truth
    return lambda scope: yes(scope) if truth(test(scope)) else no(scope)


def either(dialect: Dialect, left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        found = left(scope)
        return found if dialect.truth(found) else right(scope)

    return evaluate


def first_known(_: Dialect, left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        found = left(scope)
        return right(scope) if found is None else found

    return evaluate


def both(dialect: Dialect, left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        found = left(scope)
        return right(scope) if dialect.truth(found) else found

    return evaluate


def negation(dialect: Dialect, value: Evaluate, *, is_odd: bool) -> Evaluate:
    truth = dialect.truth
    if is_odd:
        return lambda scope: not truth(value(scope))
    return lambda scope: truth(value(scope))


def _contains(holder: Any, item: Any) -> bool:
    if isinstance(holder, str) and not isinstance(item, str):
        raise EvaluationError("only a text is in a text")
    if not isinstance(holder, str | list | dict) or isinstance(item, list | dict) > isinstance(
        holder, list
    ):
        raise EvaluationError(f"nothing is in a {type(holder).__name__}")
    return item in holder


def _compare(dialect: Dialect, operator: str) -> Callable[[Any, Any], bool]:
    less, equal, same = dialect.less, dialect.equal, dialect.same
    found: dict[str, Callable[[Any, Any], bool]] = {
        "==": equal,
        "!=": lambda left, right: not equal(left, right),
        "===": same,
        "is": same,
        "!==": lambda left, right: not same(left, right),
        "is not": lambda left, right: not same(left, right),
        "<": less,
        ">": lambda left, right: less(right, left),
        "<=": lambda left, right: equal(left, right) or less(left, right),
        ">=": lambda left, right: equal(left, right) or less(right, left),
        "in": lambda left, right: _contains(right, left),
        "not in": lambda left, right: not _contains(right, left),
        "instanceof": isinstance,
    }
    return found[operator]


def comparison(dialect: Dialect, first: Evaluate, links: list[tuple[str, Evaluate]]) -> Evaluate:
    """Compare; in Python's words `a < b < c` is a chain, in ECMAScript's from left to right."""
    tests = [(_compare(dialect, operator), value) for operator, value in links]
    if len(tests) == 1:
        test, right = tests[0]
        return lambda scope: test(first(scope), right(scope))

    def chained(scope: Scope) -> bool:
        left = first(scope)
        for test, value in tests:
            right = value(scope)
            if not test(left, right):
                return False
            left = right
        return True

    def folded(scope: Scope) -> Any:
        left = first(scope)
        for test, value in tests:
            left = test(left, value(scope))
        return left

    return folded if dialect is ECMASCRIPT else chained


def arithmetic(dialect: Dialect, operator: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if operator == "-":
        return lambda scope: dialect.add(left(scope), dialect.multiply(-1, right(scope)))
    if operator == "//":
        return lambda scope: _floor(dialect, left(scope), right(scope))
    apply = {
        "+": dialect.add,
        "*": dialect.multiply,
        "/": dialect.divide,
        "%": dialect.remainder,
        "**": dialect.power,
    }[operator]
    return lambda scope: apply(left(scope), right(scope))


def _floor(dialect: Dialect, left: Any, right: Any) -> Any:
    whole = dialect.add(left, dialect.multiply(-1, dialect.remainder(left, right)))
    if isinstance(left, int) and isinstance(right, int):
        return whole // right
    return dialect.divide(whole, right)


def unary(dialect: Dialect, mark: str, value: Evaluate) -> Evaluate:
    if mark == "!":
        return negation(dialect, value, is_odd=True)
    if mark == "typeof":
        return _kind_of(value)
    sign = -1 if mark == "-" else 1
    return lambda scope: dialect.multiply(sign, value(scope))


def _kind_of(value: Evaluate) -> Evaluate:
    is_variable = getattr(value, "__name__", "") == "variable"

    def evaluate(scope: Scope) -> str:
        try:
            found = value(scope)
        except EvaluationError:
            if is_variable:
                return "undefined"
            raise
        if found is None:
            return "undefined"
        names = {bool: "boolean", int: "number", float: "number", str: "string"}
        return names.get(type(found), "object")

    return evaluate


def member(dialect: Dialect, value: Evaluate, name: str) -> Evaluate:
    get = dialect.member
    return lambda scope: get(value(scope), name)


def item(dialect: Dialect, value: Evaluate, key: Evaluate) -> Evaluate:
    get = dialect.item
    return lambda scope: get(value(scope), key(scope))


def method(value: Evaluate, name: str, arguments: list[Evaluate]) -> Evaluate:
    if name not in METHODS:
        raise ExpressionError(f".{name}() is not a method of this language")
    kind, function = METHODS[name]

    def evaluate(scope: Scope) -> Any:
        found = value(scope)
        if not isinstance(found, kind):
            raise EvaluationError(f"a {type(found).__name__} has no method {name}")
        return _called(name, function, [found, *(argument(scope) for argument in arguments)])

    return evaluate


def call(name: str, function: Callable[..., Any], arguments: list[Evaluate]) -> Evaluate:
    return lambda scope: _called(name, function, [argument(scope) for argument in arguments])


def _called(name: str, function: Callable[..., Any], values: list[Any]) -> Any:
    try:
        return function(*values)
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise EvaluationError(f"{name}(): {error}") from error


def is_active(arguments: list[Evaluate]) -> Evaluate:
    if len(arguments) != 1:
        raise ExpressionError("In() takes the id of one state")
    state = arguments[0]

    def evaluate(scope: Scope) -> bool:
        found = state(scope)
        if not isinstance(found, str):
            raise EvaluationError("In() takes the id of a state")
        return scope.is_active(found)

    return evaluate


def listed(items: list[Evaluate]) -> Evaluate:
    return lambda scope: [item(scope) for item in items]


def mapped(pairs: _Pairs) -> Evaluate:
    def evaluate(scope: Scope) -> dict[str, Any]:
        found = {key(scope): value(scope) for key, value in pairs}
        if len(found) > LONGEST or not all(isinstance(key, str) for key in found):
            raise EvaluationError("the keys of plain data are strings")
        return found

    return evaluate
