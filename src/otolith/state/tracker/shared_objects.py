"""Shared objects: which mutable objects are in more than one place of the held values.

A *place* is the keys, indexes and fields that lead to an object from the top of the state. Objects
are found by identity: lists, dicts and models by their own, arrays by that of the memory they are
views of (`identity`). Groups of places come in the order of their encoded keys, so that equal
states have equal groups.

Theory of operation:

1. `levels` walks whole levels of values at once with `gc.get_referents`, so that the loops are
   those of C. `ObjectScan` remembers what it found for one value.
2. A value whose content has not changed has the same shape. So a scan is still current if the
   containers it entered still refer to the same objects; containers that hold nothing but numbers
   and texts were never entered.
3. `ObjectScans` counts in how many held values each object is. Only if one is in several does
   `groups` walk the values key by key, to learn the places.
4. CPython counts the references to an object. If the objects in a value have no references but
   those from inside the value and our own, the program cannot reach it any more.

`ArrayView` records how an array looks at the memory of another one, so that it can do so again.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from otolith.codecs import Order, cyclic_objects, has_parts, parts_of
from otolith.core import Path
from otolith.state.tracker.fingerprints import is_fixed, never_changes
from otolith.state.tracker.held import HeldValue
from otolith.state.tracker.sealed_objects import SealedObjects, hides_references

STAND_IN = "DummyArray"
"""The class that `as_strided` puts between an array and the one it is a view of."""


class ArrayView(NamedTuple):
    """The part of an array that another array is a view of: first byte, shape and strides."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_fixed: bool = False  # read-only, where the whole array is not

    def dump(self) -> list[Any]:
        """Return the view as data to store."""
        data = [self.dtype, list(self.shape), list(self.strides), self.offset]
        return [*data, True] if self.is_fixed else data

    @classmethod
    def load(cls, data: Any) -> ArrayView:
        """Return the view that data describes."""
        dtype, shape, strides, offset, *fixed = data
        return cls(dtype, tuple(shape), tuple(strides), offset, any(fixed))

    def of(self, whole: Any) -> Any:
        """Return the view of an array, or None if the array does not have these bytes."""
        if not is_array(whole) or not self.fits(whole):
            return None
        numpy = sys.modules["numpy"]
        flat = whole.reshape(-1, order="A").view("u1")
        part = numpy.ndarray(self.shape, self.dtype, flat, self.offset, self.strides)
        if self.is_fixed:
            part.flags.writeable = False
        return part

    def fits(self, whole: Any) -> bool:
        """Tell whether an array has all bytes of this view."""
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


def view_in(whole: Any, part: Any) -> ArrayView | None:
    """Return how an array is a view of another one, or None if it reaches beyond it."""
    if part.size == 0 or part.dtype.hasobject:
        return None
    fixed = bool(whole.flags.writeable and not part.flags.writeable)
    view = ArrayView(part.dtype, part.shape, part.strides, _address(part) - _address(whole), fixed)
    return view if view.fits(whole) else None


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Return how many bytes before and after its first one an array reaches."""
    steps = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps)


_PLAIN = frozenset({dict, list, tuple})


class SharedPlace(NamedTuple):
    """A place of a shared object; for a view of an array, also which part it is."""

    path: Path
    view: ArrayView | None = None


Group: TypeAlias = list[SharedPlace]


def groups(
    held: Mapping[Path, HeldValue],
    common: set[int],
    order: Order,
    sealed: SealedObjects | None = None,
) -> list[Group]:
    """Return the places of what is shared in values or between them, a group to an object.

    `common` are the identities of what is in more than one place.
    """
    if not common:
        return []
    found: dict[int, list[tuple[Path, object]]] = {}
    walk = _Walk(common, order, sealed)
    for path in sorted(held, key=lambda path: [order(key) for key in path]):
        for steps, part in walk.within(held[path].value):
            found.setdefault(identity(part), []).append(((*path, *steps), part))
    shared = [same for same in found.values() if not never_changes(same[0][1])]
    return [group for same in shared if len(group := _group(same)) > 1]


def places_of(value: object, identities: set[int], order: Order) -> list[tuple[Path, object]]:
    """Return the steps to the objects in a value that have these identities, and those objects."""
    return _Walk(identities, order).within(value)


def steps_to(part: object, value: object) -> list[Path]:
    """Return the steps to every place of an object in a value that may contain itself."""
    found: list[Path] = []
    met: set[int] = set()
    waiting: list[tuple[Path, object]] = [((), value)]
    while waiting:
        steps, each = waiting.pop(0)
        if each is part:
            found.append(steps)
        elif id(each) not in met and not is_fixed(type(each)):
            met.add(id(each))
            waiting += [((*steps, step), inner) for step, inner in parts_of(each)]
    return found


def object_identities(
    values: Iterable[object], sealed: SealedObjects | None = None
) -> tuple[set[int], set[int]]:
    """Return the identities of the mutable objects in values, and of those found more than once."""
    seen: set[int] = set()
    twice: set[int] = set()
    inside: set[int] = set()
    for mutable, again in levels(values, seen):
        twice |= again
        if sealed is not None and not _are_plain(mutable):
            twice |= sealed.collect(mutable, inside)
    return seen | inside, twice | (seen & inside)


def levels(values: Iterable[object], seen: set[int]) -> Iterator[tuple[list[Any], set[int]]]:
    """Yield mutable objects in values that were not seen before, and the ids of those seen again.

    Each step handles one level of all values, so that the loops are those of C. The identities are
    added to `seen`.
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
        divided = {kind for kind in kinds if kind in _PLAIN or has_parts(kind)}
        level = gc.get_referents(*(mutable if divided == kinds else _of(divided, mutable)))


def _are_plain(values: list[Any]) -> bool:
    return _PLAIN.issuperset(map(type, values))


def _of(kinds: set[type], values: list[Any]) -> list[Any]:
    return [value for value in values if type(value) in kinds]


def _repeated(identities: list[int], seen: set[int]) -> list[bool]:
    """Return for each identity whether it was seen before, here or earlier."""
    known = seen.copy()
    again: list[bool] = []
    for each in identities:
        again.append(each in known)
        known.add(each)
    return again


class _Walk:
    """Finds the places of shared objects; what is inside of one is walked only once.

    An object in a value that contains itself has one place there: its stored form knows the others.
    """

    def __init__(self, common: set[int], order: Order, sealed: SealedObjects | None = None) -> None:
        self._common = common
        self._order = order
        self._sealed = sealed
        self._known: dict[int, list[tuple[Path, object]]] = {}
        self._above: set[int] = set()
        self._cyclic: set[int] = set()

    def within(self, value: object) -> list[tuple[Path, object]]:
        """Return the steps to the shared objects in a value, and those objects."""
        self._above.clear()
        try:
            return self._within(value)
        except _CycleMet:
            self._cyclic |= cyclic_objects(value)
            self._known.clear()
            self._above.clear()
            return self._within(value)

    def _within(self, value: object) -> list[tuple[Path, object]]:
        if is_fixed(type(value)):
            return []
        if id(value) in self._known:
            return self._known[id(value)]
        own = identity(value)
        if id(value) in self._cyclic:
            found = self._graph(value)
        elif id(value) in self._above:
            raise _CycleMet
        else:
            self._above.add(id(value))
            found = [((), value)] if own in self._common else []
            for step, part in parts_of(value, self._order):
                found += [((step, *steps), each) for steps, each in self._within(part)]
            found += self._inside(value)
            self._above.discard(id(value))
        if own in self._common:
            self._known[id(value)] = found
        return found

    def _inside(self, value: object) -> list[tuple[Path, object]]:
        """Return the numbers of the shared objects inside of a sealed one, and those objects."""
        if self._sealed is None or type(value) in _PLAIN or not self._sealed.has_parts(value):
            return []
        parts = enumerate(self._sealed.parts(value))
        return [((number,), part) for number, part in parts if id(part) in self._common]

    def _graph(self, top: object) -> list[tuple[Path, object]]:
        """Return the steps to shared objects in a value that contains itself, each object once."""
        found: list[tuple[Path, object]] = []
        met: set[int] = set()
        waiting: list[tuple[Path, object]] = [((), top)]
        while waiting:
            steps, value = waiting.pop(0)
            if id(value) in met or is_fixed(type(value)):
                continue
            met.add(id(value))
            if identity(value) in self._common:
                found.append((steps, value))
            found += [((*steps, *number), part) for number, part in self._inside(value)]
            parts = parts_of(value, self._order)
            waiting += [((*steps, step), part) for step, part in parts]
        return found


class _CycleMet(Exception):
    """A walk came back to an object that it is in."""


def _group(same: list[tuple[Path, Any]]) -> Group:
    """Return the places of one object, or of an array and the parts of it."""
    first = same[0][1]
    if all(part is first for _, part in same):
        return [SharedPlace(path) for path, _ in same]
    arrays = [(path, part) for path, part in same if is_array(part)]
    solid = [part for _, part in arrays if part.flags.forc]
    if not solid:
        return []
    whole = max(solid, key=lambda part: int(part.nbytes))
    group: Group = []
    for path, part in arrays:
        view = None if part is whole else view_in(whole, part)
        if part is whole or view is not None:
            group.append(SharedPlace(path, view))
    return group


_MANY = 256
_COUNTED = frozenset({dict, list, tuple})
"""Types without weak references: all references to their objects are counted."""


def _can_count() -> bool:
    """Tell whether this interpreter counts references exactly: not PyPy, nor free threads."""
    return hasattr(sys, "getrefcount") and getattr(sys, "_is_gil_enabled", lambda: True)()


_COUNTS = _can_count()
_BY_COUNTING = sum(map(sys.getrefcount, [object()])) - 1 if _COUNTS else 0
"""How many references `sys.getrefcount` adds by counting."""


class ObjectScan(NamedTuple):
    """The objects in one value, and the references between them."""

    value: object
    imprint: object  # as long as it is this one, the content is the same
    objects: list[Any]
    entered: list[object]
    inside: list[int]
    seen: set[int]
    twice: set[int]
    is_hidden: bool = False  # it has references that cannot be compared

    def is_current(self, value: object, imprint: object) -> bool:
        """Tell whether a value still has the same objects in it."""
        if (
            self.is_hidden
            or value is not self.value
            or imprint is not self.imprint
            or imprint is None
        ):
            return False
        return _inside(self.entered) == self.inside

    def is_unreferenced(self, hold: HeldValue) -> bool:
        """Tell whether the program has no reference to any of these objects."""
        if not _COUNTS or hold.imprint is None or not self.is_current(hold.value, hold.imprint):
            return False
        if not _COUNTED.issuperset(map(type, self.objects)):
            return False
        ours = chain(self.objects, self.entered, hold.imprint.references())
        known = sum(map(self.seen.__contains__, chain(map(id, ours), self.inside)))
        known += 2 + _BY_COUNTING * len(self.objects)  # the value is also that of this and the hold
        # Another thread may have taken a part out for a moment: so the scan is compared twice.
        return sum(map(sys.getrefcount, self.objects)) == known and self.is_current(
            hold.value, hold.imprint
        )


_NOTHING = ObjectScan(None, None, [], [], [], set(), set())


class ObjectScans:
    """The scans of all held values."""

    def __init__(self, sealed: SealedObjects) -> None:
        self._sealed = sealed
        self._known: dict[Path, ObjectScan] = {}
        self._places: Counter[int] = Counter()  # in how many values an object is
        self._several: set[int] = set()

    def shared(self, held: Mapping[Path, HeldValue]) -> set[int]:
        """Return the identities of the objects that are in more than one place."""
        for path in self._known.keys() - held.keys():
            self._replace(path, _NOTHING)
        for path, hold in held.items():
            scan = self._known.get(path, _NOTHING)
            if not hold.is_unreferenced and not scan.is_current(hold.value, hold.imprint):
                self._replace(path, _scan(hold.value, hold.imprint, self._sealed))
        return self._several.union(*(scan.twice for scan in self._known.values() if scan.twice))

    def is_unreferenced(self, path: Path, hold: HeldValue) -> bool:
        """Tell whether the program has no reference to a value or to anything in it."""
        return self._known.get(path, _NOTHING).is_unreferenced(hold)

    def _replace(self, path: Path, scan: ObjectScan) -> None:
        """Replace a scan. Objects that are in both cost a loop in C."""
        old = self._known.pop(path, _NOTHING)
        if scan is not _NOTHING:
            self._known[path] = scan
        came = scan.seen - old.seen
        if len(old.seen) + len(came) > len(scan.seen):
            self._count(old.seen - scan.seen, -1)
        self._count(came, 1)

    def _count(self, objects: set[int], places: int) -> None:
        """Count objects in or out of a place, and keep those in several places."""
        for each in objects:
            self._places[each] += places
            if self._places[each] > 1:
                self._several.add(each)
            else:
                self._several.discard(each)
                if not self._places[each]:
                    del self._places[each]


def _scan(value: object, imprint: object, sealed: SealedObjects) -> ObjectScan:
    """Walk the objects below a value, level by level, and note those met twice."""
    objects: list[Any] = []
    entered: list[object] = []
    seen: set[int] = set()
    twice: set[int] = set()
    inside: set[int] = set()
    met: list[Any] = []
    above: list[Any] = []
    for mutable, again in levels([value], seen):
        entered += _holders(above)
        twice |= again
        if not _are_plain(mutable):
            twice |= sealed.collect(mutable, inside)
            met += chain.from_iterable(map(sealed.met, sealed.among(mutable)))
        above = mutable
        objects += mutable
    entered += met
    return ObjectScan(
        value,
        imprint,
        objects,
        entered,
        _inside(entered),
        seen | inside,
        twice | (seen & inside),
        is_hidden=any(
            map(hides_references, chain(_of({*map(type, objects)} - _PLAIN, objects), met))
        ),
    )


def _holders(objects: list[Any]) -> list[Any]:
    """Return the containers of mutable objects; of many objects, all, to save time."""
    if len(objects) > _MANY:
        return objects
    return [each for each in objects if not _has_only_fixed(each)]


def _has_only_fixed(value: object) -> bool:
    return all(map(is_fixed, set(map(type, gc.get_referents(value)))))


def _inside(entered: list[object]) -> list[int]:
    return list(map(id, gc.get_referents(*entered)))
