"""The functions and methods an expression may call, and no others."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from otolith.agent.lifecycle.expressions.dialects import LONGEST, PYTHON, bounded, joined
from otolith.agent.lifecycle.expressions.scope import EvaluationError

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
