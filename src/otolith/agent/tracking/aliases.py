"""What is shared between values of a state: joined again when they are read, kept up when not.

Every place keeps a whole value of its own; which of them are one object is kept beside them, under
`.aliases`, an entry to a place:

    path -> [path of the first place of its group, None or how it looks at the array there]

It is a promise that is checked: places that have come to differ, by other hands, are not joined.
Their entries stay until something else is committed, so that reading alone changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from otolith.agent.tracking.held import Held, Hold
from otolith.agent.tracking.sharing import Group, Order, Place, groups, part_at, replaced
from otolith.agent.tracking.views import View, identity, view_in
from otolith.core import Path

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
        self._groups: dict[Path, Group] = {}
        self._shared: set[Path] = set()
        self._parted: set[Path] = set()
        self._joining: set[Path] = set()

    def read(self, record: object) -> None:
        """Follow another record."""
        entries = record if isinstance(record, dict) else {}
        self._groups, self._shared, self._parted = {}, set(entries), set()
        for path, (first, view) in entries.items():
            place = Place(path, None if view is None else View.load(view))
            self._groups.setdefault(first, []).append(place)

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
        for first, group in list(self._groups.items()):
            if any(place.path[: len(path)] == path for place in group):
                self._join(first, group)

    def rejoin(self, held: Held) -> None:
        """Join what is held by what the record says now."""
        for first, group in list(self._groups.items()):
            if any(held.find(place.path) is not None for place in group):
                self._join(first, group)

    def forget(self, path: Path) -> None:
        """Note that what was at a path is gone, by our own hands."""
        self._parted.update(each for each in self._shared if each[: len(path)] == path)

    def _join(self, first: Path, group: Group) -> None:
        if first in self._joining:
            return
        self._joining.add(first)
        try:
            for place in group:
                self._reach(place.path)
            self._parted.difference_update(place.path for place in group)
            self._parted.update(self._unjoined(group))
        finally:
            self._joining.discard(first)

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
        if identity(part) == identity(whole) and view_in(whole, part) == view:
            return True
        return self._put(path, shown)

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
            hold.value = replaced(hold.value, path[len(unit) :], part)
        return found is not None

    def record(self, held: Mapping[Path, object], *, is_edited: bool) -> dict[Path, Entry] | None:
        """Return the record of today, as data, or None if that of before still holds.

        Places that have parted are no reason for another one, unless something is edited anyway.
        """
        today = groups(held, self._order)
        whole = [
            [p for p in group if p.path not in self._parted] for group in self._groups.values()
        ]
        before = [group for group in whole if len(group) > 1]
        known = {frozenset(group) for group in before if _is_held(group, held)}
        if set(map(frozenset, today)) == known and not (is_edited and self._parted):
            return None
        others = [group for group in before if not _is_held(group, held)]
        return {path: entry for group in [*others, *today] for path, entry in _entries(group)}


def _entries(group: Group) -> Iterator[tuple[Path, Entry]]:
    for path, view in group:
        yield path, [group[0].path, None if view is None else view.dump()]


def _is_held(group: Group, held: Mapping[Path, object]) -> bool:
    paths = (place.path for place in group)
    return any(path[:length] in held for path in paths for length in range(1, len(path) + 1))
