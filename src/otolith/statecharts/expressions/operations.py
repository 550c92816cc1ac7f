"""Operations: the closures an expression is made of, each taking a scope and giving a value.

What an expression sees, and the two ways in which one can fail.

Dialects: what the operators mean in Python's words and in ECMAScript's.

The functions and methods an expression may call, and no others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias


class ExpressionError(Exception):
    """The text is not an expression of this language."""


class EvaluationError(Exception):
    """The expression was read, but has no value here."""


class Scope(Protocol):
    """The data, the variables of the system, and which states are active."""

    @property
    def data(self) -> Mapping[str, Any]:
        """The variables of the chart."""

    def system_variable(self, name: str) -> Any:
        """Return a variable of the system, such as `_event`; a KeyError if it has none."""

    def is_active(self, state: str) -> bool:
        """Return whether a state is active now."""


LARGEST_BITS = 4_096
LONGEST = 100_000
"""How many bits a number, and how many items or characters a list or text, may come to."""


class Dialect:
    """Python's meaning of the operators, bounded; other dialects differ from it."""

    name = "python"

    def truth(self, value: Any) -> bool:
        return bool(value)

    def equal(self, left: Any, right: Any) -> bool:
        return bool(left == right)

    def same(self, left: Any, right: Any) -> bool:
        """Compare without converting; True and 1 are different."""
        return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)

    def less(self, left: Any, right: Any) -> bool:
        if _are_numbers(left, right) or _are(str, left, right) or _are(list, left, right):
            return bool(_guarded(lambda: left < right))
        raise _unfit("<", left, right)

    def add(self, left: Any, right: Any) -> Any:
        if _are_numbers(left, right):
            return bounded(left + right)
        if _are(str, left, right) or _are(list, left, right):
            return joined(left, right)
        raise _unfit("+", left, right)

    def multiply(self, left: Any, right: Any) -> Any:
        if not _are_numbers(left, right):
            raise _unfit("*", left, right)
        _check_bits(_bits(left) + _bits(right))
        return bounded(left * right)

    def power(self, left: Any, right: Any) -> Any:
        if not _are_numbers(left, right):
            raise _unfit("**", left, right)
        _check_bits(_bits(left) * abs(right) if abs(right) < LARGEST_BITS else math.inf)
        return bounded(_guarded(lambda: left**right))

    def divide(self, left: Any, right: Any) -> Any:
        if not _are_numbers(left, right):
            raise _unfit("/", left, right)
        return bounded(_guarded(lambda: left / right))

    def remainder(self, left: Any, right: Any) -> Any:
        if not _are_numbers(left, right):
            raise _unfit("%", left, right)
        return bounded(_guarded(lambda: left % right))

    def member(self, value: Any, name: str) -> Any:
        if isinstance(value, dict) and name in value:
            return value[name]
        raise EvaluationError(f"{_kind(value)} has no member {name!r}")

    def item(self, value: Any, key: Any) -> Any:
        if isinstance(value, dict) and isinstance(key, str):
            return self.member(value, key)
        if isinstance(value, list | str) and type(key) is int:
            return _guarded(lambda: value[key])
        raise EvaluationError(f"{_kind(value)} has no item {key!r}")

    def text(self, value: Any) -> str:
        return str(value)


class Ecmascript(Dialect):
    """ECMAScript's meaning, as far as documents lean on it."""

    name = "ecmascript"

    def truth(self, value: Any) -> bool:
        return True if isinstance(value, list | dict) else bool(value)

    def equal(self, left: Any, right: Any) -> bool:
        if isinstance(left, str) != isinstance(right, str) and None not in (left, right):
            number, text = (right, left) if isinstance(left, str) else (left, right)
            return not isinstance(number, list | dict) and self.text(number) == text
        return bool(left == right)

    def less(self, left: Any, right: Any) -> bool:
        return False if left is None or right is None else super().less(left, right)

    def add(self, left: Any, right: Any) -> Any:
        if isinstance(left, str) or isinstance(right, str):
            return joined(self.text(left), self.text(right))
        return super().add(left, right)

    def divide(self, left: Any, right: Any) -> Any:
        found = super().divide(left, right)
        return int(found) if found == int(found) else found

    def remainder(self, left: Any, right: Any) -> Any:
        if not _are_numbers(left, right):
            raise _unfit("%", left, right)
        found = _guarded(lambda: math.fmod(left, right))
        return int(found) if found == int(found) else found

    def member(self, value: Any, name: str) -> Any:
        if name == "length" and isinstance(value, list | str):
            return len(value)
        if isinstance(value, dict):
            return value.get(name)
        raise EvaluationError(f"{_kind(value)} has no member {name!r}")

    def item(self, value: Any, key: Any) -> Any:
        if isinstance(value, list | str) and type(key) is int:
            return value[key] if 0 <= key < len(value) else None
        return super().item(value, key)

    def text(self, value: Any) -> str:
        if value is None:
            return "undefined"
        return str(value).lower() if isinstance(value, bool) else str(value)


PYTHON = Dialect()
ECMASCRIPT = Ecmascript()
DIALECTS = {dialect.name: dialect for dialect in (PYTHON, ECMASCRIPT)}


def bounded(value: Any) -> Any:
    """Return a number that is neither too large to keep nor no number at all."""
    if isinstance(value, int):
        _check_bits(_bits(value))
    elif not isinstance(value, float) or not math.isfinite(value):
        raise EvaluationError("the result is not a finite number")
    return value


def joined(left: Any, right: Any) -> Any:
    """Return two texts or two lists as one, if it is not too long."""
    if len(left) + len(right) > LONGEST:
        raise EvaluationError(f"the result is longer than {LONGEST}")
    return left + right


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 64


def _check_bits(bits: float) -> None:
    if bits > LARGEST_BITS:
        raise EvaluationError(f"the result is a number of more than {LARGEST_BITS} bits")


def _guarded(operation: Any) -> Any:
    try:
        return operation()
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise EvaluationError(str(error)) from error


def _are(kind: type, left: Any, right: Any) -> bool:
    return isinstance(left, kind) and isinstance(right, kind)


def _are_numbers(left: Any, right: Any) -> bool:
    return isinstance(left, int | float) and isinstance(right, int | float)


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _unfit(operator: str, left: Any, right: Any) -> EvaluationError:
    return EvaluationError(f"{_kind(left)} {operator} {_kind(right)} has no meaning")


Function = Callable[..., Any]


def _items(value: Any) -> Any:
    """Return what may be gone through: a list, a text, or the names of a dict."""
    if isinstance(value, list | str | dict):
        return value
    raise EvaluationError(f"a {type(value).__name__} has no items")


def _numbers(values: tuple[Any, ...]) -> list[Any]:
    found = list(_items(values[0])) if len(values) == 1 else list(values)
    if not found or not all(isinstance(value, int | float) for value in found):
        raise EvaluationError("numbers are needed")
    return found


def _integer(value: Any) -> int:
    if isinstance(value, str) and len(value) > 400:
        raise EvaluationError("a number of more than 400 characters")
    return int(bounded(int(value)))


def _text(value: Any) -> str:
    if isinstance(value, list | dict):
        raise EvaluationError(f"a {type(value).__name__} is not turned into text here")
    return str(value)


def _json(value: Any) -> str:
    found = json.dumps(value, separators=(",", ":"))
    if len(found) > LONGEST:
        raise EvaluationError(f"the result is longer than {LONGEST}")
    return found


def _has(value: Any, name: Any) -> bool:
    return isinstance(value, dict) and name in value


def _concatenated(value: Any, *more: Any) -> Any:
    if isinstance(value, str):
        return joined(value, "".join(str(item) for item in more))
    found = list(value)
    for item in more:
        found = joined(found, item if isinstance(item, list) else [item])
    return found


def _index(value: Any, item: Any) -> int:
    if isinstance(value, str):
        return value.find(item)
    return value.index(item) if item in value else -1


def _join(value: Any, between: str = ",") -> str:
    length = sum(len(str(item)) + len(between) for item in value)
    if length > LONGEST:
        raise EvaluationError(f"the result is longer than {LONGEST}")
    return between.join(str(item) for item in value)


def _of(kind: type | tuple[type, ...], names: Iterable[str], function: Function) -> dict[str, Any]:
    return dict.fromkeys(names, (kind, function))


FUNCTIONS: dict[str, Function] = {
    "len": lambda value: len(_items(value)),
    "abs": lambda value: abs(bounded(value)),
    "min": lambda *values: min(_numbers(values)),
    "max": lambda *values: max(_numbers(values)),
    "sum": lambda values: bounded(sum(_numbers((values,)))) if values else 0,
    "round": lambda value, digits=0: round(bounded(value), digits) if digits else round(value),
    "any": lambda values: any(_items(values)),
    "all": lambda values: all(_items(values)),
    "int": _integer,
    "float": lambda value: bounded(float(value)),
    "str": _text,
    "bool": bool,
    "hasattr": _has,
    "Number": lambda value: bounded(float(value)) if "." in str(value) else _integer(value),
    "String": _text,
    "Boolean": bool,
    "parseInt": _integer,
    "parseFloat": lambda value: bounded(float(value)),
    "Math.abs": lambda value: abs(bounded(value)),
    "Math.min": lambda *values: min(_numbers((list(values),))),
    "Math.max": lambda *values: max(_numbers((list(values),))),
    "Math.floor": lambda value: math.floor(bounded(value)),
    "Math.ceil": lambda value: math.ceil(bounded(value)),
    "Math.round": lambda value: math.floor(bounded(value) + 0.5),
    "Math.pow": PYTHON.power,
    "JSON.stringify": _json,
    "Array.isArray": lambda value: isinstance(value, list),
}

METHODS: dict[str, tuple[type | tuple[type, ...], Function]] = {
    **_of(dict, ["get"], lambda value, key, default=None: value.get(key, default)),
    **_of(dict, ["keys"], list),
    **_of(dict, ["values"], lambda value: list(value.values())),
    **_of(dict, ["hasOwnProperty"], lambda value, name: name in value),
    **_of(str, ["startswith", "startsWith"], lambda value, start: value.startswith(start)),
    **_of(str, ["endswith", "endsWith"], lambda value, end: value.endswith(end)),
    **_of(str, ["lower", "toLowerCase"], lambda value: value.lower()),
    **_of(str, ["upper", "toUpperCase"], lambda value: value.upper()),
    **_of(str, ["strip", "trim"], lambda value: value.strip()),
    **_of(str, ["split"], lambda value, between: value.split(between)),
    **_of((str, list), ["includes"], lambda value, item: item in value),
    **_of((str, list), ["indexOf"], _index),
    **_of((str, list), ["concat"], _concatenated),
    **_of((str, list), ["count"], lambda value, item: value.count(item)),
    **_of(list, ["join"], _join),
    **_of((str, list), ["slice"], lambda value, start=0, end=None: value[start:end]),
}

KINDS: dict[str, type | tuple[type, ...]] = {
    "Array": list,
    "Object": (dict, list),
    "String": str,
    "Number": (int, float),
}
"""What may stand to the right of `instanceof`."""


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
            return scope.system_variable(name)
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
