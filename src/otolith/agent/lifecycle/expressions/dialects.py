"""Dialects: what the operators mean in Python's words and in ECMAScript's."""

from __future__ import annotations

import math
from typing import Any

from otolith.agent.lifecycle.expressions.scope import EvaluationError

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
