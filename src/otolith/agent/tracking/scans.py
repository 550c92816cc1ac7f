"""Which objects are in which held values, remembered from one look to the next.

To find what is shared, the identities of all mutable objects are needed. A value whose content has
not changed has the same shape as before, so it is enough to see that the objects that have others
inside still have the same ones: those that hold nothing but numbers and texts are not entered.

Python counts the references to an object. If the objects in a value have none but those that are
inside the value, and ours, then nobody can change it until it is handed out again.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

from otolith.agent.tracking.fixed import is_fixed
from otolith.agent.tracking.hold import Hold
from otolith.agent.tracking.sharing import levels
from otolith.core import Path

_MANY = 256

_COUNTED = frozenset({dict, list, tuple})
"""Nothing leads to these but counted references: there are no weak ones to them."""


def _can_count() -> bool:
    """Tell whether references are counted, and by us: not on PyPy, nor where threads run free."""
    return hasattr(sys, "getrefcount") and getattr(sys, "_is_gil_enabled", lambda: True)()


_COUNTS = _can_count()
_BY_COUNTING = sum(map(sys.getrefcount, [object()])) - 1 if _COUNTS else 0
"""How many of the references that are counted are those of counting itself."""


class Scan(NamedTuple):
    """The objects in one value, and the references between them."""

    value: object
    imprint: object  # as long as it is this one, the content is the same
    objects: list[Any]
    entered: list[object]
    inside: list[int]
    seen: set[int]
    twice: set[int]

    def stands(self, value: object, imprint: object) -> bool:
        """Tell whether a value still has the same objects in it."""
        if value is not self.value or imprint is not self.imprint or imprint is None:
            return False
        return _inside(self.entered) == self.inside

    def is_alone(self, hold: Hold) -> bool:
        """Tell whether nobody else has a reference to any of these objects."""
        if not _COUNTS or hold.imprint is None or not self.stands(hold.value, hold.imprint):
            return False
        if not _COUNTED.issuperset(map(type, self.objects)):
            return False
        ours = chain(self.objects, self.entered, hold.imprint.keeps())
        known = sum(map(self.seen.__contains__, chain(map(id, ours), self.inside)))
        known += 2 + _BY_COUNTING * len(self.objects)  # the value is also that of this and the hold
        # Whoever took something out for a moment would not be noticed: so it is looked at twice.
        return sum(map(sys.getrefcount, self.objects)) == known and self.stands(
            hold.value, hold.imprint
        )


_NOTHING = Scan(None, None, [], [], [], set(), set())


class Scans:
    """The scans of all held values."""

    def __init__(self) -> None:
        self._known: dict[Path, Scan] = {}
        self._places: Counter[int] = Counter()  # in how many values an object is
        self._several: set[int] = set()

    def shared(self, held: Mapping[Path, Hold]) -> set[int]:
        """Return the identities of the objects that are in more than one place."""
        for path in self._known.keys() - held.keys():
            self._replace(path, _NOTHING)
        for path, hold in held.items():
            scan = self._known.get(path, _NOTHING)
            if not hold.rests and not scan.stands(hold.value, hold.imprint):
                self._replace(path, _scan(hold.value, hold.imprint))
        return self._several.union(*(scan.twice for scan in self._known.values() if scan.twice))

    def is_alone(self, path: Path, hold: Hold) -> bool:
        """Tell whether nobody else has a reference to a value or to anything in it."""
        return self._known.get(path, _NOTHING).is_alone(hold)

    def _replace(self, path: Path, scan: Scan) -> None:
        """Put a scan into the place of another. What is in both costs a loop in C."""
        old = self._known.pop(path, _NOTHING)
        if scan is not _NOTHING:
            self._known[path] = scan
        came = scan.seen - old.seen
        if len(old.seen) + len(came) > len(scan.seen):
            self._count(old.seen - scan.seen, -1)
        self._count(came, 1)

    def _count(self, objects: set[int], places: int) -> None:
        for each in objects:
            self._places[each] += places
            if self._places[each] > 1:
                self._several.add(each)
            else:
                self._several.discard(each)
                if not self._places[each]:
                    del self._places[each]


def _scan(value: object, imprint: object) -> Scan:
    objects: list[Any] = []
    entered: list[object] = []
    seen: set[int] = set()
    twice: set[int] = set()
    above: list[Any] = []
    for mutable, again in levels([value], seen):
        entered += _holders(above)
        twice |= again
        above = mutable
        objects += mutable
    return Scan(value, imprint, objects, entered, _inside(entered), seen, twice)


def _holders(objects: list[Any]) -> list[Any]:
    """Return those that have mutable objects inside. Where there are many, all will do."""
    if len(objects) > _MANY:
        return objects
    return [each for each in objects if not _has_only_fixed(each)]


def _has_only_fixed(value: object) -> bool:
    return all(map(is_fixed, set(map(type, gc.get_referents(value)))))


def _inside(entered: list[object]) -> list[int]:
    return list(map(id, gc.get_referents(*entered)))
