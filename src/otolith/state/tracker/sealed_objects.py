"""Sealed objects: those that are stored as pickles, and the objects inside of them.

No step leads into a *sealed* object: an instance of any class, or an array of objects. But it
may have an object in it that is elsewhere in the state too. Its *parts* are the objects that can
change and that pickling it meets, and the step to a part is its number in that order. The order
depends on the content alone: strings, tuples and other values that never change do not count,
because two of them that are equal may as well be one.

A part cannot be replaced where it is. `SealedObjects.copies` makes another object instead, by
pickling: the pickle refers to the objects that take the places of others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

from otolith.codecs import Codecs, copied, part_at, pickled_objects
from otolith.core import Path
from otolith.state.tracker.fingerprints import is_fixed


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
            found = set(map(id, self.parts(value)))
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


def _of(kinds: set[type], values: list[Any]) -> list[Any]:
    return [each for each in values if type(each) in kinds]


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
    return not is_fixed(kind) and not issubclass(kind, tuple | frozenset)


def hides_references(value: Any) -> bool:
    """Tell whether an object has others in it that the garbage collector does not see."""
    return type(value).__name__ == "ndarray" and bool(value.dtype.hasobject)
