"""One object under several names: who shares what, written down so that it is one again when read.

Every place keeps a whole value of its own; the list of what is shared is kept beside them, under
`.aliases`. It is a promise that is checked: places that have come to differ are no longer joined.

    Place      the path a value was handed out under, the steps from there to the shared part, and
               for a view of an array how it looks at the array that comes first in its group
    Group      places that hold one object
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from otolith.agent.tracking.fixed import is_fixed
from otolith.codecs import fields_of
from otolith.core import Path, format_path, parse_path

ALIASES = ".aliases"

_PLAIN = frozenset({dict, list, tuple})

Steps: TypeAlias = tuple[Any, ...]
Walk: TypeAlias = Iterator[tuple[Steps, object]]


class Place(NamedTuple):
    """Where an object is."""

    unit: Path
    steps: Steps
    view: tuple[Any, ...] | None = None

    def dump(self) -> list[Any]:
        """Return the place as plain data."""
        view = None if self.view is None else list(self.view)
        return [format_path(self.unit), list(self.steps), view]

    @classmethod
    def load(cls, data: Any) -> Place:
        """Return the place that plain data describes."""
        unit, steps, view = data
        return cls(parse_path(unit), tuple(steps), None if view is None else tuple(view))


Group: TypeAlias = list[Place]


def groups(held: Mapping[Path, object]) -> dict[str, Group]:
    """Return what is shared within and between values, by the path of its first place."""
    common = _met_twice(list(held.values()))
    if not common:
        return {}
    places: dict[int, list[tuple[Place, object]]] = {}
    seen: set[int] = set()
    for unit in sorted(held, key=repr):
        for steps, part in _walk(held[unit], (), seen, common):
            places.setdefault(_identity(part), []).append((Place(unit, steps), part))
    found: dict[str, Group] = {}
    for same in places.values():
        group = _group(same)
        if len(group) > 1:
            first = group[0]
            found[format_path((*first.unit, *first.steps))] = group
    return found


def _met_twice(level: list[object]) -> set[int]:
    """Return the identities of mutable objects that are in more than one place.

    Whole levels of the values are looked at together, so that the loops are those of C.
    """
    seen: set[int] = set()
    twice: set[int] = set()
    while level:
        kinds = {kind for kind in set(map(type, level)) if not is_fixed(kind)}
        if not kinds:
            break
        mutable = [part for part in level if type(part) in kinds]
        identities = list(map(id if kinds <= _PLAIN else _identity, mutable))
        if len(set(identities)) < len(identities) or not seen.isdisjoint(identities):
            again = _repeated(identities, seen)
            twice.update(id for id, is_again in zip(identities, again, strict=True) if is_again)
            mutable = [part for part, is_again in zip(mutable, again, strict=True) if not is_again]
        seen.update(identities)
        level = gc.get_referents(*(part for part in mutable if _has_parts(type(part))))
    return twice


def _repeated(identities: list[int], seen: set[int]) -> list[bool]:
    """Tell of each identity whether it was met before, here or earlier."""
    met = seen.copy()
    again: list[bool] = []
    for identity in identities:
        again.append(identity in met)
        met.add(identity)
    return again


def _walk(value: object, steps: Steps, seen: set[int], common: set[int]) -> Walk:
    """Yield where the objects that are met twice are; what is in them, only the first time."""
    if is_fixed(type(value)):
        return
    identity = _identity(value)
    if identity in common:
        yield steps, value
    if identity in seen and identity in common:
        return
    seen.add(identity)
    for step, part in parts(value):
        yield from _walk(part, (*steps, step), seen, common)


def parts(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the steps into a value, and what is there."""
    if isinstance(value, dict):
        return list(value.items())
    if type(value) in (list, tuple):
        return list(enumerate(value))
    names = fields_of(type(value)) or ()
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def part_at(value: Any, steps: Steps) -> Any:
    """Return the part that steps lead to.

    Raises:
        LookupError, AttributeError: they lead nowhere.
    """
    for step in steps:
        value = value[step] if isinstance(value, dict | list | tuple) else getattr(value, step)
    return value


def replaced(value: Any, steps: Steps, part: object) -> Any:
    """Return a value with a part put in: the value itself, unless it is a tuple."""
    if not steps:
        return part
    step: Any = steps[0]
    current = value[step] if isinstance(value, dict | list | tuple) else getattr(value, step)
    new = replaced(current, steps[1:], part)
    if new is current:
        return value
    if type(value) is tuple:
        return (*value[:step], new, *value[step + 1 :])
    if isinstance(value, dict | list):
        value[step] = new
    elif isinstance(value, tuple):
        return value._replace(**{step: new})  # type: ignore[attr-defined]
    else:
        object.__setattr__(value, step, new)
    return value


def _has_parts(kind: type) -> bool:
    return kind in _PLAIN or fields_of(kind) is not None


def _identity(value: Any) -> int:
    """Return what two references to one object, or two views of one array, have in common."""
    while _is_array(value) and value.base is not None:
        value = value.base
    return id(value)


def _is_array(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


# Views of arrays


def _group(same: list[tuple[Place, Any]]) -> Group:
    first = same[0][1]
    if all(part is first for _, part in same):
        return [place for place, _ in same]
    widest = max(same, key=lambda pair: pair[1].nbytes if _is_array(pair[1]) else 0)
    base = widest[1]
    if not _is_array(base) or not (base.flags.c_contiguous or base.flags.f_contiguous):
        return []
    start = _address(base)
    group = [widest[0]]
    for place, part in same:
        view = _view(part, base, start) if _is_array(part) else None
        if view is not None and place is not widest[0]:
            group.append(place._replace(view=view))
    return group


def _view(part: Any, base: Any, start: int) -> tuple[Any, ...] | None:
    if part is base:
        return ("O", [], [], 0)
    offset = _address(part) - start
    low = sum(min(0, (n - 1) * s) for n, s in zip(part.shape, part.strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(part.shape, part.strides, strict=True))
    if part.size == 0 or offset + low < 0 or offset + high + part.itemsize > base.nbytes:
        return None
    return part.dtype, list(part.shape), list(part.strides), offset


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def view_of(base: Any, view: tuple[Any, ...]) -> Any:
    """Return an array, or the part of it that a view shows."""
    dtype, shape, strides, offset = view
    if isinstance(dtype, str):
        return base
    numpy = sys.modules["numpy"]
    flat = base.reshape(-1, order="A").view("u1")
    return numpy.ndarray(tuple(shape), dtype, flat, offset, tuple(strides))
