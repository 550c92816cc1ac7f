"""Bounds in Annotated: those of msgspec.Meta, annotated-types and pydantic's Field, as checks."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from otolith.agent.checking.misfit import Misfit

_SPEAKERS = {"msgspec", "annotated_types", "pydantic"}

_COMPARED: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "gt": (operator.gt, "> {}"),
    "ge": (operator.ge, ">= {}"),
    "lt": (operator.lt, "< {}"),
    "le": (operator.le, "<= {}"),
    "multiple_of": (lambda value, bound: value % bound == 0, "a multiple of {}"),
    "min_length": (lambda value, bound: len(value) >= bound, "at least {} long"),
    "max_length": (lambda value, bound: len(value) <= bound, "at most {} long"),
    "pattern": (lambda value, bound: re.search(bound, value) is not None, "text like {!r}"),
    "func": (lambda value, bound: bool(bound(value)), "accepted by {}"),
}


def constraints(metadata: Iterable[Any]) -> Iterator[Callable[[Any], None]]:
    """Yield a check for each bound that is known; other annotations mean nothing here."""
    for each in metadata:
        if type(each).__module__.partition(".")[0] not in _SPEAKERS:
            continue
        inner = getattr(each, "metadata", None)
        if isinstance(inner, list | tuple):  # pydantic's Field holds a list of bounds
            yield from constraints(inner)
        for name, (holds, text) in _COMPARED.items():
            bound = getattr(each, name, None)
            if bound is not None:
                yield _bounded(holds, bound, text)


def _bounded(holds: Callable[[Any, Any], bool], bound: Any, text: str) -> Callable[[Any], None]:
    expected = text.format(getattr(bound, "__qualname__", bound))

    def check(value: Any) -> None:
        try:
            fits = holds(value, bound)
        except (TypeError, ValueError, ArithmeticError):
            fits = False
        if not fits:
            raise Misfit(expected, value)

    return check
