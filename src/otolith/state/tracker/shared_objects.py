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

No step leads into a *sealed* object, which is stored as a pickle: an instance of any class, or an
array of objects. But it may have an object in it that is elsewhere in the state too. Its *parts*
are the objects that can change and that pickling it meets, and the step to a part is its number in
that order. The order depends on the content alone: strings, tuples and other values that never
change do not count, because two of them that are equal may as well be one. A part cannot be
replaced where it is. `SealedObjects.copies` makes another object instead, by pickling: the pickle
refers to the objects that take the places of others.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

from otolith.codecs import (
    Codecs,
    Order,
    copied,
    cyclic_objects,
    has_parts,
    part_at,
    parts_of,
    pickled_objects,
)
from otolith.core import Path
from otolith.state.tracker.fingerprints import is_fixed, never_changes
from otolith.state.tracker.held import HeldValue

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


# Sealed objects


class SealedObjects:
    """Tells which objects are sealed, and what is inside of them."""

    def __init__(self, codec: object) -> None:
        self._codecs = codec if isinstance(codec, Codecs) else None
        self._known: dict[int, tuple[list[Any], list[Any]]] = {}

    def forget(self) -> None:
        """Look at each object again: the program may have changed it."""
        self._known.clear()

    def has_parts(self, value: Any) -> bool:
        """Tell whether a value is sealed."""
        if self._codecs is None:
            return False
        numpy = sys.modules.get("numpy")
        if numpy is not None and type(value) is numpy.ndarray:
            return bool(value.dtype.hasobject)
        return self._codecs.is_pickled(type(value))

    def parts(self, value: object) -> list[Any]:
        """Return the parts of a sealed object, in order."""
        known = self._known.get(id(value))
        if known is None:
            met, again = pickled_objects(value), set(map(id, pickled_objects(value)))
            # What is made only to be pickled, as by __getstate__, is another object each time.
            lasting = [each for each in met if id(each) in again]
            known = self._known[id(value)] = _divided(lasting, value)
        return known[1]

    def among(self, values: Iterable[Any]) -> list[Any]:
        """Return those of some values that are sealed."""
        found = list(values)
        kinds = {kind for kind in set(map(type, found)) if self._may_have_parts(kind)}
        return [each for each in found if type(each) in kinds and self.has_parts(each)]

    def collect(self, values: Iterable[object], inside: set[int]) -> set[int]:
        """Add the identities of what is inside of sealed values; return those that were there."""
        again: set[int] = set()
        for value in self.among(values):
            found = set(map(identity, self.parts(value)))
            again |= found & inside
            inside |= found
        return again

    def met(self, value: object) -> list[Any]:
        """Return what pickling a sealed object meets, and the dicts of attributes."""
        self.parts(value)
        return self._known[id(value)][0]

    def _may_have_parts(self, kind: type) -> bool:
        return self._codecs is not None and (
            kind.__name__ == "ndarray" or self._codecs.is_pickled(kind)
        )

    def part_at(self, value: Any, steps: Path) -> Any:
        """Return the part that steps lead to, also inside of a sealed object.

        Raises:
            LookupError, AttributeError, TypeError: there is no such part.
        """
        outer, inner = self.split(value, steps)
        found = part_at(value, outer)
        if not inner:
            return found
        number: Any = inner[0]
        return self.part_at(self.parts(found)[number], inner[1:])

    def split(self, value: Any, steps: Path) -> tuple[Path, Path]:
        """Return the steps to the first sealed object on the way, and those that lead into it.

        Raises:
            LookupError, AttributeError, TypeError: there is no such part.
        """
        for at, step in enumerate(steps):
            if self.has_parts(value):
                return steps[:at], steps[at:]
            value = part_at(value, (step,))
        return steps, ()

    def copies(
        self, values: Sequence[object], *, instead: Mapping[int, object], kept: Iterable[object]
    ) -> list[Any] | None:
        """Return sealed objects that have other objects in them; None if that is impossible."""
        made = copied(values, instead=instead, kept=kept)
        self.forget()
        return made


_DEFAULT_STATE: Any = object.__getstate__

_BUILT_IN = frozenset({dict, list, set, bytearray})
"""Types whose instances have no attributes."""


def _divided(met: list[Any], value: object) -> tuple[list[Any], list[Any]]:
    """Return objects and the dicts of their attributes, and those that can be shared, in order."""
    kinds = {kind for kind in set(map(type, met)) if _can_be_shared(kind)}
    found = [each for each in met if type(each) in kinds]
    # When an object is pickled, the dict of its attributes is a copy of it, and shared by nobody.
    tables = [_attributes(each) for each in _of(kinds - _BUILT_IN, found)]
    own = {id(value), *map(id, tables)}
    return met + tables, [each for each in found if id(each) not in own]


def _attributes(value: object) -> object:
    """Return the dict of an object's attributes, unless asking for it would make one."""
    kind: Any = type(value)
    if kind.__reduce__ is not object.__reduce__ or kind.__reduce_ex__ is not object.__reduce_ex__:
        return None
    if not (kind.__getstate__ is _DEFAULT_STATE or type(kind.__getstate__) is FunctionType):
        return None  # as of a BytesIO, whose pickle is another one once it has such a dict
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _can_be_shared(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, numpy.dtype):
        return False
    return not is_fixed(kind) and not issubclass(kind, tuple | frozenset)


# Places


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
        return [((number,), part) for number, part in parts if identity(part) in self._common]

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
            map(_hides_references, chain(_of({*map(type, objects)} - _PLAIN, objects), met))
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


def _hides_references(value: Any) -> bool:
    """Tell whether an object has others in it that the garbage collector does not see."""
    return type(value).__name__ == "ndarray" and bool(value.dtype.hasobject)
