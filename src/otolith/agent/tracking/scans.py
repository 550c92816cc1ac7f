"""Which objects are in which held values, remembered from one look to the next.

To find what is shared, the identities of all mutable objects are needed. A value whose content has
not changed has the same shape as before, so it is enough to see that the objects that have others
inside still have the same ones: those that hold nothing but numbers and texts are not entered.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from otolith.agent.tracking.fixed import is_fixed
from otolith.agent.tracking.sharing import levels
from otolith.core import Path

_MANY = 256


class Scan(NamedTuple):
    """The identities in one value, and what they were found in."""

    value: object
    imprint: object  # as long as it is this one, the content is the same
    entered: list[object]
    inside: list[int]
    seen: set[int]
    twice: set[int]

    def stands(self, value: object, imprint: object) -> bool:
        """Tell whether a value still has the same objects in it."""
        if value is not self.value or imprint is not self.imprint or imprint is None:
            return False
        return _inside(self.entered) == self.inside


class Scans:
    """The scans of all held values."""

    def __init__(self) -> None:
        self._known: dict[Path, Scan] = {}

    def shared(self, held: Mapping[Path, object], imprints: Mapping[Path, object]) -> set[int]:
        """Return the identities of the objects that are in more than one place."""
        known, self._known = self._known, {}
        for path, value in held.items():
            scan = known.get(path)
            if scan is None or not scan.stands(value, imprints[path]):
                scan = _scan(value, imprints[path])
            self._known[path] = scan
        return _in_several(self._known.values())


def _scan(value: object, imprint: object) -> Scan:
    entered: list[object] = []
    seen: set[int] = set()
    twice: set[int] = set()
    above: list[Any] = []
    for mutable, again in levels([value], seen):
        entered += _holders(above)
        twice |= again
        above = mutable
    return Scan(value, imprint, entered, _inside(entered), seen, twice)


def _holders(objects: list[Any]) -> list[Any]:
    """Return those that have mutable objects inside. Where there are many, all will do."""
    if len(objects) > _MANY:
        return objects
    return [each for each in objects if not all(map(is_fixed, map(type, gc.get_referents(each))))]


def _inside(entered: list[object]) -> list[int]:
    return list(map(id, gc.get_referents(*entered)))


def _in_several(scans: Iterable[Scan]) -> set[int]:
    some = list(scans)
    shared = set[int]().union(*(scan.twice for scan in some))
    together = set[int]().union(*(scan.seen for scan in some))
    if len(together) < sum(len(scan.seen) for scan in some):
        counts = Counter(chain.from_iterable(scan.seen for scan in some))
        shared |= {identity for identity, count in counts.items() if count > 1}
    return shared
