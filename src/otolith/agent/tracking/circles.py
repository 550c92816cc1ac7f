"""Values that have themselves inside: they have no end, and cannot be written down as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from otolith.codecs import fields_of
from otolith.core import Path

_PLAIN = frozenset({dict, list, tuple})

_DEEPEST = 256
"""What is nested deeper is refused for that, in circles or not."""


def circle_in(value: object) -> tuple[Path, object] | None:
    """Return the steps to a container that is inside of itself, and that container."""
    done: set[int] = set()
    above: dict[int, Path] = {}
    waiting: list[tuple[Any, Path, bool]] = [(value, (), False)]
    while waiting:
        part, steps, is_left = waiting.pop()
        if is_left:
            del above[id(part)]
            done.add(id(part))
        elif id(part) in above:
            return above[id(part)], part
        elif id(part) not in done and len(steps) <= _DEEPEST:
            above[id(part)] = steps
            waiting.append((part, steps, True))
            waiting += [(each, (*steps, step), False) for step, each in _containers(part)]
    return None


def _containers(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the containers in a value, and the steps to them."""
    parts: Iterable[tuple[Any, Any]]
    if type(value) is dict:
        parts = value.items()
    elif type(value) in (list, tuple):
        parts = enumerate(value)
    else:
        names = fields_of(type(value)) or ()
        parts = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    return [pair for pair in parts if type(pair[1]) in _PLAIN or fields_of(type(pair[1]))]
