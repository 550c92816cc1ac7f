"""One object under several names: which places of a state hold the same one.

A place is the keys, indexes and fields that lead to it from the top of the state. Places are found
by the identity of what is there: of lists, dicts and models, and of the memory of arrays. They
come in the order of their encoded keys, so that equal states have equal groups.

Arrays that look at the memory of other arrays: how they do, so that they can again.

The state has moved: objects that were handed out take on what is there now.

Dicts, lists, sets and bytearrays are changed in place, and whoever has one sees it. What cannot be
is kept if it is the same as before, and otherwise replaced. An object that is in several places
takes on what is at the first of them, and no more: places may have come to differ.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from otolith.codecs import fields_of
from otolith.core import Path
from otolith.errors import BadValue
from otolith.state.tracking.fingerprints import is_fixed, never_changes
from otolith.state.tracking.held import Hold

STAND_IN = "DummyArray"
"""What `as_strided` puts between an array and the one that it looks at."""


class View(NamedTuple):
    """How part of an array looks at the whole: from which byte, and in which strides."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_fixed: bool = False  # it cannot be written to, where the whole can

    def dump(self) -> list[Any]:
        """Return the view as data that can be kept."""
        kept = [self.dtype, list(self.shape), list(self.strides), self.offset]
        return [*kept, True] if self.is_fixed else kept

    @classmethod
    def load(cls, data: Any) -> View:
        """Return the view that data describes."""
        dtype, shape, strides, offset, *fixed = data
        return cls(dtype, tuple(shape), tuple(strides), offset, any(fixed))

    def of(self, whole: Any) -> Any:
        """Return the part of an array that this view shows, or None if the array is another one."""
        if not is_array(whole) or not self.fits(whole):
            return None
        numpy = sys.modules["numpy"]
        flat = whole.reshape(-1, order="A").view("u1")
        part = numpy.ndarray(self.shape, self.dtype, flat, self.offset, self.strides)
        if self.is_fixed:
            part.flags.writeable = False
        return part

    def fits(self, whole: Any) -> bool:
        """Tell whether an array has what this view shows."""
        if not whole.flags.forc or whole.dtype.hasobject:
            return False
        low, high = _reach(self.shape, self.strides)
        end = self.offset + high + int(self.dtype.itemsize)
        return self.offset + low >= 0 and end <= int(whole.nbytes)


def is_array(value: object) -> bool:
    """Tell whether a value is an array of numpy, and not of a subclass."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def identity(value: Any) -> int:
    """Return what two references to one object, or two views of one array, have in common."""
    while is_array(value) and value.base is not None:
        value = value.base
        if type(value).__name__ == STAND_IN:
            value = value.base
    return id(value)


def view_in(whole: Any, part: Any) -> View | None:
    """Return how an array looks at another one, or None if it looks beyond it."""
    if part.size == 0 or part.dtype.hasobject:
        return None
    fixed = bool(whole.flags.writeable and not part.flags.writeable)
    view = View(part.dtype, part.shape, part.strides, _address(part) - _address(whole), fixed)
    return view if view.fits(whole) else None


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Return how far before and after its first byte an array reaches."""
    steps = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps)


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


class Adoption:
    """One move of the state.

    `live` are the values that may be changed, `fixed` those of other places that stay as they are.
    `keeps` tells whether an object in several places stays there where they are still the same.
    """

    def __init__(
        self,
        live: Iterable[object],
        *,
        fixed: Iterable[object] = (),
        print: Callable[[object], int | None],
        keeps: bool = False,
    ) -> None:
        stay = list(fixed)
        _, self._shared = met([*live, *stay])
        self._taken = self._shared & met(stay)[0] if self._shared and stay else set()
        self._print = print
        self._keeps = keeps

    def __call__(self, live: Any, fresh: Any) -> Any:
        """Return what a place holds from now on: the object that was there, if it can."""
        if type(live) is not type(fresh) or live is fresh or is_fixed(type(live)):
            return fresh
        own = identity(live)
        if own in self._taken:
            return live if self._keeps and self._is_same(live, fresh) else fresh
        if own in self._shared:
            self._taken.add(own)
        return self._adopted(live, fresh)

    def _adopted(self, live: Any, fresh: Any) -> Any:
        if type(live) is dict:
            new = {key: self(live.get(key), part) for key, part in fresh.items()}
            live.clear()
            live.update(new)
        elif type(live) is list:
            kept = [self(mine, part) for mine, part in zip(live, fresh, strict=False)]
            live[:] = [*kept, *fresh[len(kept) :]]
        elif type(live) is tuple and len(live) == len(fresh):
            new_parts = tuple(self(mine, part) for mine, part in zip(live, fresh, strict=True))
            is_same = all(mine is part for mine, part in zip(live, new_parts, strict=True))
            return live if is_same else new_parts
        elif type(live) is set:
            live.clear()
            live.update(fresh)
        elif type(live) is bytearray:
            live[:] = fresh
        else:
            return live if self._is_same(live, fresh) else fresh
        return live

    def _is_same(self, live: object, fresh: object) -> bool:
        try:
            mark = self._print(live)
        except BadValue:  # it was changed into something that cannot be kept
            return False
        return mark is not None and mark == self._print(fresh)
