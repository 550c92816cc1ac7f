"""One object under several names: which places of a state hold the same one.

A place is the keys, indexes and fields that lead to it from the top of the state. Places are found
by the identity of what is there: of lists, dicts and models, and of the memory of arrays. They
come in the order of their encoded keys, so that equal states have equal groups.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from otolith.agent.tracking.fixed import is_fixed, never_changes
from otolith.agent.tracking.hold import Hold
from otolith.agent.tracking.views import View, identity, is_array, view_in
from otolith.codecs import fields_of
from otolith.core import Path

_PLAIN = frozenset({dict, list, tuple})

Order: TypeAlias = Callable[[Any], bytes]
"""Gives the bytes that a key is sorted by."""


class Place(NamedTuple):
    """Where an object is; for part of an array, also how it looks at the whole."""

    path: Path
    view: View | None = None


Group: TypeAlias = list[Place]


def groups(held: Mapping[Path, Hold], common: set[int], order: Order) -> list[Group]:
    """Return the places of what is shared in values or between them, a group to an object.

    `common` are the identities of what is in more than one place.
    """
    if not common:
        return []
    found: dict[int, list[tuple[Path, object]]] = {}
    walk = _Walk(common, order)
    for path in sorted(held, key=lambda path: [order(key) for key in path]):
        for steps, part in walk.within(held[path].value):
            found.setdefault(identity(part), []).append(((*path, *steps), part))
    shared = [same for same in found.values() if not never_changes(same[0][1])]
    return [group for same in shared if len(group := _group(same)) > 1]


def places_of(value: object, identities: set[int], order: Order) -> list[tuple[Path, object]]:
    """Return the steps to the objects in a value that have these identities, and those objects."""
    return _Walk(identities, order).within(value)


def met(values: Iterable[object]) -> tuple[set[int], set[int]]:
    """Return the identities of the mutable objects in values, and of those met more than once."""
    seen: set[int] = set()
    twice: set[int] = set()
    for _, again in levels(values, seen):
        twice |= again
    return seen, twice


def levels(values: Iterable[object], seen: set[int]) -> Iterator[tuple[list[Any], set[int]]]:
    """Yield the mutable objects in values that were not met before, and who was met again.

    Whole levels of the values are looked at together, so that the loops are those of C. The
    identities go to `seen`.
    """
    level = list(values)
    while level:
        found = set(map(type, level))
        kinds = {kind for kind in found if not is_fixed(kind)}
        if not kinds:
            return
        mutable = level if kinds == found else _of(kinds, level)
        identities = list(map(id if kinds <= _PLAIN else identity, mutable))
        new, twice = set(identities), set[int]()
        if len(new) < len(identities) or not seen.isdisjoint(new):
            again = _repeated(identities, seen)
            twice.update(id for id, is_again in zip(identities, again, strict=True) if is_again)
            mutable = [part for part, is_again in zip(mutable, again, strict=True) if not is_again]
        seen |= new
        yield mutable, twice
        divided = {kind for kind in kinds if _has_parts(kind)}
        level = gc.get_referents(*(mutable if divided == kinds else _of(divided, mutable)))


def _of(kinds: set[type], values: list[Any]) -> list[Any]:
    return [value for value in values if type(value) in kinds]


def _repeated(identities: list[int], seen: set[int]) -> list[bool]:
    """Tell of each identity whether it was met before, here or earlier."""
    known = seen.copy()
    again: list[bool] = []
    for each in identities:
        again.append(each in known)
        known.add(each)
    return again


class _Walk:
    """Finds where the objects are that are met more than once; what is in them, only once."""

    def __init__(self, common: set[int], order: Order) -> None:
        self._common = common
        self._order = order
        self._known: dict[int, list[tuple[Path, object]]] = {}

    def within(self, value: object) -> list[tuple[Path, object]]:
        """Return the steps to the shared objects in a value, and those objects."""
        if is_fixed(type(value)):
            return []
        if id(value) in self._known:
            return self._known[id(value)]
        own = identity(value)
        found: list[tuple[Path, object]] = [((), value)] if own in self._common else []
        for step, part in _parts(value, self._order):
            found += [((step, *steps), each) for steps, each in self.within(part)]
        if own in self._common:
            self._known[id(value)] = found
        return found


def _parts(value: Any, order: Order) -> Iterable[tuple[Any, Any]]:
    """Return the steps into a value, and what is there."""
    if type(value) is dict:
        parts = [pair for pair in value.items() if not is_fixed(type(pair[1]))]
        return sorted(parts, key=lambda pair: order(pair[0]))
    if type(value) in (list, tuple):
        return list(enumerate(value))
    names = fields_of(type(value)) or ()
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def part_at(value: Any, steps: Path) -> Any:
    """Return the part that steps lead to.

    Raises:
        LookupError, AttributeError, TypeError: they lead nowhere.
    """
    for step in steps:
        value = _part(value, step)
    return value


def _part(value: Any, step: Any) -> Any:
    return value[step] if type(value) in _PLAIN else getattr(value, step)


def replaced(value: Any, steps: Path, part: object) -> Any:
    """Return a value with a part put in: the value itself, unless it is a tuple."""
    if not steps:
        return part
    step: Any = steps[0]
    current = _part(value, step)
    new = replaced(current, steps[1:], part)
    if new is current:
        return value
    if type(value) is tuple:
        return (*value[:step], new, *value[step + 1 :])
    if type(value) in _PLAIN:
        value[step] = new
    elif isinstance(value, tuple):
        return value._replace(**{step: new})  # type: ignore[attr-defined]
    else:
        object.__setattr__(value, step, new)
    return value


def _has_parts(kind: type) -> bool:
    return kind in _PLAIN or fields_of(kind) is not None


def _group(same: list[tuple[Path, Any]]) -> Group:
    """Return the places of one object, or of an array and the parts of it."""
    first = same[0][1]
    if all(part is first for _, part in same):
        return [Place(path) for path, _ in same]
    arrays = [(path, part) for path, part in same if is_array(part)]
    solid = [part for _, part in arrays if part.flags.forc]
    if not solid:
        return []
    whole = max(solid, key=lambda part: int(part.nbytes))
    group: Group = []
    for path, part in arrays:
        view = None if part is whole else view_in(whole, part)
        if part is whole or view is not None:
            group.append(Place(path, view))
    return group
