"""What is shared between values of a state: joined again when they are read, kept up when not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otolith.agent.tracking.held import Hold
from otolith.agent.tracking.sharing import Group, Place, groups, part_at, replaced, view_of
from otolith.core import Path


class Aliases:
    """The record of a state, and the rules to follow it by.

    `hold` reads and holds the value at a path, and returns None if nothing is there.
    """

    def __init__(
        self, *, hold: Callable[[Path], Hold | None], print: Callable[[object], int | None]
    ) -> None:
        self._hold = hold
        self._print = print
        self._groups: dict[str, Group] = {}
        self._by_unit: dict[Path, list[Group]] = {}
        self._joining: set[int] = set()

    def read(self, record: object) -> None:
        """Follow another record."""
        self._groups, self._by_unit = {}, {}
        if not isinstance(record, dict):
            return
        for name, places in record.items():
            group = [Place.load(place) for place in places]
            self._groups[name] = group
            for unit in {place.unit for place in group}:
                self._by_unit.setdefault(unit, []).append(group)

    def unit_above(self, path: Path) -> Path | None:
        """Return the path of the value to hold, if part of it is shared and this is inside it."""
        if not self._by_unit:
            return None
        above = (path[:length] for length in range(1, len(path)))
        return next((unit for unit in above if unit in self._by_unit), None)

    def join(self, path: Path) -> None:
        """Make one again what was shared with the value at a path, or with parts of it."""
        if not self._by_unit:
            return
        for unit, shared in list(self._by_unit.items()):
            if unit[: len(path)] == path:
                for group in shared:
                    self._join(group)

    def _join(self, group: Group) -> None:
        if id(group) in self._joining:
            return
        self._joining.add(id(group))
        try:
            self._join_places(group)
        finally:
            self._joining.discard(id(group))

    def _join_places(self, group: Group) -> None:
        first, *others = group
        base = self._part(first)
        for place in others:
            found = self._part(place)
            if base is None or found is None:
                continue
            whole = base[1] if place.view is None else view_of(base[1], place.view)
            if whole is not found[1] and self._print(whole) == self._print(found[1]):
                found[0].value = replaced(found[0].value, place.steps, whole)

    def _part(self, place: Place) -> tuple[Hold, Any] | None:
        hold = self._hold(place.unit)
        if hold is None:
            return None
        try:
            return hold, part_at(hold.value, place.steps)
        except (LookupError, AttributeError, TypeError):
            return None  # the value has changed its shape since, by other hands

    def record(self, held: dict[Path, object]) -> dict[str, list[list[Any]]]:
        """Return the record of today, as data."""
        found = groups(held)
        for name, group in self._groups.items():
            if not any(place.unit in held for place in group):
                found.setdefault(name, group)
        return {name: [place.dump() for place in group] for name, group in sorted(found.items())}
