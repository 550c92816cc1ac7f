"""Values that have themselves inside: they have no end, and cannot be written down as data."""

from __future__ import annotations

from typing import Any

from otolith.codecs import fields_of

_PLAIN = frozenset({dict, list, tuple})


def is_circular(value: object) -> bool:
    """Tell whether some container in a value is inside of itself."""
    done: set[int] = set()
    above: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(value, False)]
    while waiting:
        part, is_left = waiting.pop()
        if is_left:
            above.discard(id(part))
            done.add(id(part))
            continue
        if id(part) in above:
            return True
        if id(part) in done:
            continue
        inside = [each for each in _parts(part) if type(each) in _PLAIN or _has_fields(each)]
        if inside:
            above.add(id(part))
            waiting.append((part, True))
            waiting += [(each, False) for each in inside]
    return False


def _parts(value: Any) -> list[Any]:
    if type(value) is dict:
        return list(value.values())
    if type(value) in (list, tuple):
        return list(value)
    names = fields_of(type(value)) or ()
    return [getattr(value, name) for name in names if hasattr(value, name)]


def _has_fields(value: object) -> bool:
    return fields_of(type(value)) is not None
