"""What is shared between values of a state: joined again when they are read, kept up when not.

Every place keeps a whole value of its own; which of them are one object is kept beside them, under
`.aliases`, an entry to a place:

    path -> [path of the first place of its group, None or how it looks at the array there]

It is a promise that is checked: places that have come to differ, by other hands, are not joined.
Their entries stay until something else is committed, so that reading alone changes nothing.

Which objects are in which held values, remembered from one look to the next.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from otolith.core import Path
from otolith.state.tracking.fingerprints import is_fixed
from otolith.state.tracking.held import Held, Hold
from otolith.state.tracking.shared_objects import (
    Group,
    Order,
    Place,
    View,
    groups,
    identity,
    is_array,
    levels,
    part_at,
    replaced,
    view_in,
)

_MANY = 256
_MORE = 8
"""How many places may be found for each that is recorded: merged records may lead in circles."""

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


Entry: TypeAlias = list[Any]


class Aliases:
    """The record of a state, and the rules to follow it by.

    `reach` returns what is held at or above a path, read if need be, and None if nothing is there.
    """

    def __init__(
        self,
        *,
        reach: Callable[[Path], tuple[Path, Hold] | None],
        print: Callable[[object], int | None],
        order: Order,
    ) -> None:
        self._reach = reach
        self._print = print
        self._order = order
        self._scans = Scans()
        self._groups: dict[Path, Group] = {}
        self._shared: set[Path] = set()
        self._parted: set[Path] = set()
        self._pending: set[Path] | None = None  # groups to join, by their first places
        self._moves = 0

    def read(self, record: object) -> None:
        """Follow another record."""
        entries = record if isinstance(record, dict) else {}
        self._groups, self._shared, self._parted = {}, set(entries), set()
        for path in sorted(entries, key=lambda path: [self._order(key) for key in path]):
            first, view = entries[path]
            place = Place(path, None if view is None else View.load(view))
            self._groups.setdefault(first, []).append(place)
        self._close()

    def _close(self) -> None:
        """Put places together that are one because what they are in is one; merges part them."""
        home = {place.path: first for first, group in self._groups.items() for place in group}
        views = {place.path: place.view for group in self._groups.values() for place in group}
        waiting, room = list(home), _MORE * len(home)
        while waiting:
            path = waiting.pop()
            for twin in self._twins(path, home):
                if twin in home:
                    self._unite(home, twin, path)
                elif room:  # one side of a merge dropped it, the other built upon it
                    room -= 1
                    self._groups[home[path]].append(Place(twin, views[path]))
                    home[twin], views[twin] = home[path], views[path]
                    waiting.append(twin)

    def _unite(self, home: dict[Path, Path], path: Path, other: Path) -> None:
        if home[path] != home[other]:
            moved = self._groups.pop(home[path])
            self._groups[home[other]] += moved
            home.update({place.path: home[other] for place in moved})

    def _twins(self, path: Path, home: Mapping[Path, Path]) -> list[Path]:
        """Return the other names of a place: those of what it is in, and the steps from there."""
        outer = [length for length in range(1, len(path)) if path[:length] in home]
        return [
            place.path + path[length:]
            for length in outer
            for place in self._groups[home[path[:length]]]
        ]

    @property
    def has_parted(self) -> bool:
        """Whether there are places that are no longer what the record says."""
        return bool(self._parted)

    def above(self, path: Path) -> Path | None:
        """Return the first place on the way to a path, or there, that is shared."""
        if not self._shared:
            return None
        lengths = range(1, len(path) + 1)
        return next((path[:each] for each in lengths if path[:each] in self._shared), None)

    def join(self, path: Path) -> None:
        """Make one again what the value at a path, or a part of it, shares with others."""
        self._join_all(
            {
                first
                for first, group in self._groups.items()
                if any(place.path[: len(path)] == path for place in group)
            }
        )

    def rejoin(self, held: Held) -> None:
        """Join what is held by what the record says now."""
        self._join_all(
            {
                first
                for first, group in self._groups.items()
                if any(held.find(place.path) is not None for place in group)
            }
        )

    def forget(self, path: Path) -> None:
        """Note that what was at a path is gone, by our own hands."""
        self._parted.update(each for each in self._shared if each[: len(path)] == path)

    def _join_all(self, firsts: set[Path]) -> None:
        if self._pending is not None:  # in the middle of reading what is to be joined
            self._pending |= firsts
            return
        self._pending = firsts
        try:
            names = self._read_all(self._pending)
        finally:
            self._pending = None
        for _ in range(len(names) + 1):
            before = self._moves
            for first in names:
                self._join(self._groups[first])
            if self._moves == before:  # a tuple that was joined may be another one since
                break

    def _read_all(self, pending: set[Path]) -> list[Path]:
        """Hold everything that groups are made of, and the groups that are met on the way."""
        done: set[Path] = set()
        while pending > done:
            for first in pending - done:
                done.add(first)
                for place in self._groups[first]:
                    self._reach(place.path)
        return [first for first in self._groups if first in done]

    def _join(self, group: Group) -> None:
        self._parted.difference_update(place.path for place in group)
        self._parted.update(self._unjoined(group))

    def _unjoined(self, group: Group) -> list[Path]:
        """Join the places of a group; return those that are others than they were."""
        wholes = self._alike([place.path for place in group if place.view is None])
        joined: list[Path] = []
        for place in group:
            if not wholes:
                break
            if place.view is None:
                is_joined = place.path in wholes and self._put(place.path, wholes[place.path])
            else:
                is_joined = self._look_at(place.path, place.view, next(iter(wholes.values())))
            joined += [place.path] if is_joined else []
        if len(joined) < 2:
            joined = []
        return [place.path for place in group if place.path not in joined]

    def _alike(self, paths: list[Path]) -> dict[Path, object]:
        """Return the places that most have the content of, each with the one object for all."""
        alike: dict[int | None, dict[Path, object]] = {}
        for path in paths:
            part = self._part(path)
            if part is not None:
                alike.setdefault(self._print(part), {})[path] = part
        most = max(alike.values(), key=len, default={})
        return dict.fromkeys(most, next(iter(most.values()))) if most else {}

    def _look_at(self, path: Path, view: View, whole: Any) -> bool:
        """Let the place of a view look at an array again, if it shows the same."""
        part, shown = self._part(path), view.of(whole)
        if part is None or shown is None or self._print(part) != self._print(shown):
            return False
        return _is_view(whole, part, view) or self._put(path, shown)

    def _part(self, path: Path) -> Any:
        found = self._reach(path)
        if found is None:
            return None
        unit, hold = found
        try:
            return part_at(hold.value, path[len(unit) :])
        except (LookupError, AttributeError, TypeError):
            return None  # the value has changed its shape since, by other hands

    def _put(self, path: Path, part: object) -> bool:
        found = self._reach(path)
        if found is not None:
            unit, hold = found
            steps = path[len(unit) :]
            self._moves += part_at(hold.value, steps) is not part
            hold.value = replaced(hold.value, steps, part)
        return found is not None

    def is_alone(self, path: Path, hold: Hold) -> bool:
        """Tell whether nobody else has a reference to a value or to anything in it."""
        return self._scans.is_alone(path, hold)

    def record(self, held: Mapping[Path, Hold], *, is_edited: bool) -> dict[Path, Entry] | None:
        """Return the record of today, as data, or None if that of before still holds.

        Places that have parted are no reason for another one, unless something is edited anyway.
        """
        today = groups(held, self._scans.shared(held), self._order)
        if self._parted and not is_edited and _are_within(today, self._groups.values()):
            return None
        before = [
            [p for p in group if p.path not in self._parted] for group in self._groups.values()
        ]
        before = [group for group in before if len(group) > 1]
        others = [[p for p in group if not _is_held(p.path, held)] for group in before]
        known = [group for group, unread in zip(before, others, strict=True) if group != unread]
        is_whole = not any(unread for unread in others if unread not in before)
        if is_whole and self._still_says(known, today) and not (is_edited and self._parted):
            return None
        rest = [unread for unread in others if len(unread) > 1]
        return {path: entry for group in [*rest, *today] for path, entry in _entries(group)}

    def _still_says(self, known: list[Group], today: list[Group]) -> bool:
        """Tell whether groups are all there is. Those inside of others are not found today."""
        return _are_within(today, known) and all(map(self._is_one, known))

    def _is_one(self, group: Group) -> bool:
        """Tell whether the places of a group hold one object, or views of it."""
        parts = [(self._part(place.path), place.view) for place in group]
        whole = next((part for part, view in parts if view is None), None)
        return whole is not None and all(
            part is whole if view is None else _is_view(whole, part, view) for part, view in parts
        )


def _are_within(groups: Iterable[Group], others: Iterable[Group]) -> bool:
    """Tell whether all places that are one object are places of one of the other groups."""
    sets = [{place.path for place in group} for group in others]
    return all(any({p.path for p in group} <= paths for paths in sets) for group in groups)


def _is_view(whole: Any, part: Any, view: View) -> bool:
    return is_array(part) and identity(part) == identity(whole) and view_in(whole, part) == view


def _entries(group: Group) -> Iterator[tuple[Path, Entry]]:
    for path, view in group:
        yield path, [group[0].path, None if view is None else view.dump()]


def _is_held(path: Path, held: Mapping[Path, Hold]) -> bool:
    return any(path[:length] in held for length in range(1, len(path) + 1))
