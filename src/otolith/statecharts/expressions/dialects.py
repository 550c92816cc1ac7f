"""The meaning of operators, functions and methods in expressions, in two dialects.

`Dialect` gives operators the meaning they have in Python, `Ecmascript` the one that SCXML documents
rely on. Both work on plain data and are bounded: a number has at most `MAX_BITS` bits, a list or a
text at most `MAX_LENGTH` items, so that no document can use up the memory or the time of its host.
`FUNCTIONS` and `METHODS` are closed lists: an expression can call these and nothing else.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

MAX_BITS = 4_096
MAX_LENGTH = 100_000
_MAX_NUMERAL = 400

Function: TypeAlias = Callable[..., Any]
Kind: TypeAlias = "type | tuple[type, ...]"


class ExpressionError(Exception):
    """The text is not an expression of this language."""


class EvaluationError(Exception):
    """The expression has no value in this scope."""


class Scope(Protocol):
    """What an expression sees: the data, the system variables, and which states are active."""

    @property
    def data(self) -> Mapping[str, Any]:
        """The variables of the chart."""

    def system_variable(self, name: str) -> Any:
        """Return a system variable such as `_event`; raise KeyError if there is none."""

    def is_active(self, state: str) -> bool:
        """Return whether a state is active now."""


# ---------------------------------------------------------------- dialects


class Dialect:
    """Python's meaning of the operators, bounded; other dialects differ from it."""

    name = "python"

    def __init__(self) -> None:
        same, equal, less = self.same, self.equal, self.less
        self.comparisons: dict[str, Callable[[Any, Any], bool]] = {
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
        self.arithmetic: dict[str, Callable[[Any, Any], Any]] = {
            "+": self.add,
            "-": lambda left, right: self.add(left, self.multiply(-1, right)),
            "*": self.multiply,
            "/": self.divide,
            "//": self.floor_divide,
            "%": self.remainder,
            "**": self.power,
        }

    def truth(self, value: Any) -> bool:
        """Return whether a value counts as true."""
        return bool(value)

    def equal(self, left: Any, right: Any) -> bool:
        """Compare two values: the operator `==`."""
        return bool(left == right)

    def same(self, left: Any, right: Any) -> bool:
        """Compare without converting, `===` or `is`: True and 1 are different."""
        return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)

    def less(self, left: Any, right: Any) -> bool:
        """Order two numbers, two texts or two lists."""
        if not any(_are(kind, left, right) for kind in ((int, float), str, list)):
            raise _undefined("<", left, right)
        return bool(_evaluate(operator.lt, left, right))

    def add(self, left: Any, right: Any) -> Any:
        """Add two numbers, or join two texts or two lists."""
        if _are((int, float), left, right):
            return bounded(left + right)
        if _are(str, left, right) or _are(list, left, right):
            return joined(left, right)
        raise _undefined("+", left, right)

    def multiply(self, left: Any, right: Any) -> Any:
        """Multiply two numbers."""
        _check_numbers("*", left, right)
        _check_bits(_bits(left) + _bits(right))
        return bounded(left * right)

    def power(self, left: Any, right: Any) -> Any:
        """Raise a number to a power; the size of the result is checked before it is computed."""
        _check_numbers("**", left, right)
        _check_bits(_bits(left) * abs(right) if abs(right) < MAX_BITS else math.inf)
        return bounded(_evaluate(operator.pow, left, right))

    def divide(self, left: Any, right: Any) -> Any:
        """Divide two numbers."""
        _check_numbers("/", left, right)
        return bounded(_evaluate(operator.truediv, left, right))

    def floor_divide(self, left: Any, right: Any) -> Any:
        """Divide without remainder, as this dialect computes the remainder."""
        whole = self.add(left, self.multiply(-1, self.remainder(left, right)))
        if isinstance(left, int) and isinstance(right, int):
            return whole // right
        return self.divide(whole, right)

    def remainder(self, left: Any, right: Any) -> Any:
        """Return the remainder of a division; its sign is that of the divisor."""
        _check_numbers("%", left, right)
        return bounded(_evaluate(operator.mod, left, right))

    def member(self, value: Any, name: str) -> Any:
        """Return `value.name`, which is an item of a dict."""
        if isinstance(value, dict) and name in value:
            return value[name]
        raise EvaluationError(f"{_kind(value)} has no member {name!r}")

    def item(self, value: Any, key: Any) -> Any:
        """Return `value[key]`."""
        if isinstance(value, dict) and isinstance(key, str):
            return self.member(value, key)
        if isinstance(value, list | str) and type(key) is int:
            return _evaluate(operator.getitem, value, key)
        raise EvaluationError(f"{_kind(value)} has no item {key!r}")


class Ecmascript(Dialect):
    """ECMAScript's meaning, as far as documents rely on it; null and undefined are None."""

    name = "ecmascript"

    def truth(self, value: Any) -> bool:
        """Return whether a value counts as true; empty lists and dicts do."""
        return True if isinstance(value, list | dict) else bool(value)

    def equal(self, left: Any, right: Any) -> bool:
        """Compare two values; a number equals the text that spells it."""
        if isinstance(left, str) != isinstance(right, str) and None not in (left, right):
            number, text = (right, left) if isinstance(left, str) else (left, right)
            return not isinstance(number, list | dict) and _ecmascript_text(number) == text
        return bool(left == right)

    def less(self, left: Any, right: Any) -> bool:
        """Order two values; a missing one is neither less nor greater."""
        return False if left is None or right is None else super().less(left, right)

    def add(self, left: Any, right: Any) -> Any:
        """Add two numbers, or join; what is added to a text becomes a text."""
        if isinstance(left, str) or isinstance(right, str):
            return joined(_ecmascript_text(left), _ecmascript_text(right))
        return super().add(left, right)

    def divide(self, left: Any, right: Any) -> Any:
        """Divide two numbers; a whole result is an int."""
        return _whole(super().divide(left, right))

    def remainder(self, left: Any, right: Any) -> Any:
        """Return the remainder of a division; its sign is that of the dividend."""
        _check_numbers("%", left, right)
        return _whole(_evaluate(math.fmod, left, right))

    def member(self, value: Any, name: str) -> Any:
        """Return `value.name`; a missing item of a dict is None."""
        if name == "length" and isinstance(value, list | str):
            return len(value)
        return value.get(name) if isinstance(value, dict) else super().member(value, name)

    def item(self, value: Any, key: Any) -> Any:
        """Return `value[key]`; an index out of range gives None."""
        if isinstance(value, list | str) and type(key) is int:
            return value[key] if 0 <= key < len(value) else None
        return super().item(value, key)


PYTHON = Dialect()
ECMASCRIPT = Ecmascript()
DIALECTS = {dialect.name: dialect for dialect in (PYTHON, ECMASCRIPT)}


# ---------------------------------------------------------------- bounds and errors


def bounded(value: Any) -> Any:
    """Return a number if it is finite and not too large."""
    if isinstance(value, int):
        _check_bits(_bits(value))
    elif not isinstance(value, float) or not math.isfinite(value):
        raise EvaluationError("the result is not a finite number")
    return value


def joined(left: Any, right: Any) -> Any:
    """Return two texts or two lists as one, if the result is not too long."""
    _check_length(len(left) + len(right))
    return left + right


def _check_length(length: int) -> None:
    if length > MAX_LENGTH:
        raise EvaluationError(f"the result is longer than {MAX_LENGTH}")


def _bits(value: Any) -> int:
    """Return the size of a number; a float counts as 64 bits."""
    return value.bit_length() if isinstance(value, int) else 64


def _check_bits(bits: float) -> None:
    if bits > MAX_BITS:
        raise EvaluationError(f"the result is a number of more than {MAX_BITS} bits")


def _check_numbers(symbol: str, left: Any, right: Any) -> None:
    if not _are((int, float), left, right):
        raise _undefined(symbol, left, right)


def _evaluate(function: Function, *values: Any) -> Any:
    """Call an operation; what it raises has no value."""
    try:
        return function(*values)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise EvaluationError(str(error)) from error


def _are(kind: Kind, left: Any, right: Any) -> bool:
    return isinstance(left, kind) and isinstance(right, kind)


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _undefined(symbol: str, left: Any, right: Any) -> EvaluationError:
    """Return the error for operands that an operator is not defined for."""
    return EvaluationError(f"{_kind(left)} {symbol} {_kind(right)} is not defined")


def _whole(number: Any) -> Any:
    """Return an int for a float that is whole, as ECMAScript prints it."""
    return int(number) if number == int(number) else number


def _ecmascript_text(value: Any) -> str:
    """Return the text that ECMAScript converts a value to."""
    if value is None:
        return "undefined"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _contains(container: Any, item: Any) -> bool:
    """Return whether an item is in a text, a list or the keys of a dict."""
    if isinstance(container, str) and not isinstance(item, str):
        raise EvaluationError(f"{_kind(item)} cannot be in a text")
    is_unhashable = isinstance(item, list | dict) and not isinstance(container, list)
    if not isinstance(container, str | list | dict) or is_unhashable:
        raise EvaluationError(f"{_kind(item)} cannot be in {_kind(container)}")
    return item in container


# ---------------------------------------------------------------- functions and methods


def _items(value: Any) -> Any:
    """Return a value that can be iterated: a list, a text, or a dict."""
    if not isinstance(value, list | str | dict):
        raise EvaluationError(f"{_kind(value)} has no items")
    return value


def _numbers(values: tuple[Any, ...]) -> list[Any]:
    """Return the arguments of a function of numbers: several, or one list of them."""
    found = list(_items(values[0])) if len(values) == 1 else list(values)
    if not found or not all(isinstance(value, int | float) for value in found):
        raise EvaluationError("numbers are needed")
    return found


def _int(value: Any) -> int:
    """Convert to an int; a long text would take quadratic time."""
    if isinstance(value, str) and len(value) > _MAX_NUMERAL:
        raise EvaluationError(f"a number has more than {_MAX_NUMERAL} characters")
    return int(bounded(int(value)))


def _float(value: Any) -> Any:
    return bounded(float(value))


def _str(value: Any) -> str:
    """Convert to a text; the two dialects would write lists and dicts differently."""
    if isinstance(value, list | dict):
        raise EvaluationError(f"{_kind(value)} cannot be converted to a text")
    return str(value)


def _abs(value: Any) -> Any:
    return abs(bounded(value))


def _to_json(value: Any) -> str:
    """Return a value as JSON text, if it is not too long."""
    text = json.dumps(value, separators=(",", ":"))
    _check_length(len(text))
    return text


def _concat(value: Any, *more: Any) -> Any:
    """Join texts, or lists; what is not a list is one more item."""
    if isinstance(value, str):
        return joined(value, "".join(str(item) for item in more))
    found = list(value)
    for item in more:
        found = joined(found, item if isinstance(item, list) else [item])
    return found


def _index_of(value: Any, item: Any) -> int:
    """Return the position of an item, or -1."""
    if isinstance(value, str):
        return value.find(item)
    return value.index(item) if item in value else -1


def _join(value: Any, separator: str = ",") -> str:
    """Join items to a text; its length is checked before it is made."""
    _check_length(sum(len(str(item)) + len(separator) for item in value))
    return separator.join(str(item) for item in value)


FUNCTIONS: dict[str, Function] = {
    "len": lambda value: len(_items(value)),
    "abs": _abs,
    "min": lambda *values: min(_numbers(values)),
    "max": lambda *values: max(_numbers(values)),
    "sum": lambda values: bounded(sum(_numbers((values,)))) if values else 0,
    "round": lambda value, digits=0: round(bounded(value), digits) if digits else round(value),
    "any": lambda values: any(_items(values)),
    "all": lambda values: all(_items(values)),
    "int": _int,
    "float": _float,
    "str": _str,
    "bool": bool,
    "hasattr": lambda value, name: isinstance(value, dict) and name in value,
    "Number": lambda value: _float(value) if "." in str(value) else _int(value),
    "String": _str,
    "Boolean": bool,
    "parseInt": _int,
    "parseFloat": _float,
    "Math.abs": _abs,
    "Math.min": lambda *values: min(_numbers((list(values),))),
    "Math.max": lambda *values: max(_numbers((list(values),))),
    "Math.floor": lambda value: math.floor(bounded(value)),
    "Math.ceil": lambda value: math.ceil(bounded(value)),
    "Math.round": lambda value: math.floor(bounded(value) + 0.5),
    "Math.pow": PYTHON.power,
    "JSON.stringify": _to_json,
    "Array.isArray": lambda value: isinstance(value, list),
}

METHODS: dict[str, tuple[Kind, Function]] = {
    "get": (dict, lambda value, key, default=None: value.get(key, default)),
    "keys": (dict, list),
    "values": (dict, lambda value: list(value.values())),
    "hasOwnProperty": (dict, lambda value, name: name in value),
    "startswith": (str, lambda value, start: value.startswith(start)),
    "endswith": (str, lambda value, end: value.endswith(end)),
    "lower": (str, lambda value: value.lower()),
    "upper": (str, lambda value: value.upper()),
    "strip": (str, lambda value: value.strip()),
    "split": (str, lambda value, separator: value.split(separator)),
    "includes": ((str, list), lambda value, item: item in value),
    "indexOf": ((str, list), _index_of),
    "concat": ((str, list), _concat),
    "count": ((str, list), lambda value, item: value.count(item)),
    "slice": ((str, list), lambda value, start=0, end=None: value[start:end]),
    "join": (list, _join),
}
_ECMASCRIPT_SPELLINGS = {
    "startsWith": "startswith",
    "endsWith": "endswith",
    "toLowerCase": "lower",
    "toUpperCase": "upper",
    "trim": "strip",
}
METHODS |= {spelling: METHODS[name] for spelling, name in _ECMASCRIPT_SPELLINGS.items()}

CLASSES: dict[str, Kind] = {
    "Array": list,
    "Object": (dict, list),
    "String": str,
    "Number": (int, float),
}
"""What may stand to the right of `instanceof`."""
