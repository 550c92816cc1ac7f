"""Aliases: the stored record of which places of a state hold one and the same object.

Each place stores a whole copy of its value. Which places are one object is stored beside them,
under `.aliases`, with an entry for each place:

    path -> [path of the first place of its group, None or an ArrayView into the array there]

Theory of operation:

1. Reading any place of a group reads them all, and puts one object into each (`join`).
2. The record is checked, not trusted: another program may have written to one of the places. Those
   whose content differs from that of most are not joined; they have *diverged*.
3. Their entries stay until something else is committed, so that reading alone changes nothing.
4. Before a commit, `new_record` compares the record with the objects that are shared now.
5. No object can be put into a sealed one (`sealed_objects.py`). Where a sealed object has one in it
   that must be another, it is replaced by a copy that refers to that one (`_join_sealed`).
6. A merge of two records can leave places out that follow from others: if `a` and `b` are one
   object, `a/x` and `b/x` are too. `_add_implied_places` adds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from otolith.codecs import Lost, Order, cyclic_objects, with_part
from otolith.core import ALIASES, Cells, Path, Stage, format_path
from otolith.errors import BadValue, Denied, KeyNotFound, MissingExtra, UnknownType, Untrusted
from otolith.state.tracker.fingerprints import is_fixed
from otolith.state.tracker.held import MISSING, HeldValue, HeldValues
from otolith.state.tracker.imprints import ImprintKind
from otolith.state.tracker.sealed_objects import SealedObjects
from otolith.state.tracker.shared_objects import (
    ArrayView,
    Group,
    ObjectScans,
    SharedPlace,
    groups,
    identity,
    is_array,
    steps_to,
    view_in,
)
from otolith.types import Tag

_MORE = 8
"""How many places may be found for each that is recorded: merged records may lead in circles."""

Entry: TypeAlias = list[Any]

_UNREADABLE = (Denied, Untrusted, UnknownType, MissingExtra)
"""Why a value that shares objects with the one that is read may have to stay out of it."""


class Aliases:
    """Reads, joins and updates the record of one state.

    `reach` returns what is held at or above a path, read if need be, and None if nothing is there;
    `fresh` returns another copy of what is stored at a path; `is_unchanged` tells whether a value
    has the content that is stored, and `renew` notes that it has, with other objects in it.
    """

    def __init__(
        self,
        *,
        reach: Callable[[Path], tuple[Path, HeldValue] | None],
        fresh: Callable[[Path], object],
        is_unchanged: Callable[[HeldValue], bool],
        renew: Callable[[HeldValue], None],
        sealed: SealedObjects,
        fingerprint: Callable[[object], int | None],
        encode: Callable[[object], bytes],
        order: Order,
    ) -> None:
        self._reach = reach
        self._fresh = fresh
        self._is_unchanged = is_unchanged
        self._renew = renew
        self._sealed = sealed
        self._fingerprint = fingerprint
        self._encode = encode
        self._order = order
        self._scans = ObjectScans(sealed)
        self._groups: dict[Path, Group] = {}
        self._shared: set[Path] = set()
        self._diverged: set[Path] = set()
        self._pending: set[Path] | None = None  # groups to join, by their first places
        self._moves = 0
        self._circular: dict[Path, bool] = {}  # which values contain themselves

    def load(self, record: object) -> None:
        """Use another record."""
        entries = record if isinstance(record, dict) else {}
        self._groups, self._shared, self._diverged = {}, set(entries), set()
        for path in sorted(entries, key=lambda path: [self._order(key) for key in path]):
            first, view = entries[path]
            place = SharedPlace(path, None if view is None else ArrayView.load(view))
            self._groups.setdefault(first, []).append(place)
        self._add_implied_places()
        self._shared.update(place.path for group in self._groups.values() for place in group)

    def _add_implied_places(self) -> None:
        """Add places that are one object because they are in one object."""
        home = {place.path: first for first, group in self._groups.items() for place in group}
        views = {place.path: place.view for group in self._groups.values() for place in group}
        waiting, room = list(home), _MORE * len(home)
        while waiting:
            path = waiting.pop()
            for other in self._other_names(path, home):
                if other in home:
                    self._unite(home, other, path)
                elif self._leads_in_a_circle(other, home[path], home):
                    continue  # a shorter path leads there too
                elif room:  # one side of a merge dropped it, the other built upon it
                    room -= 1
                    self._groups[home[path]].append(SharedPlace(other, views[path]))
                    home[other], views[other] = home[path], views[path]
                    waiting.append(other)

    def _leads_in_a_circle(self, path: Path, first: Path, home: Mapping[Path, Path]) -> bool:
        """Tell whether the way to an object of a group passes one object twice."""
        passed: set[Path] = set()
        here: Path = ()
        for key in path[:-1]:
            here = (*here, key)
            met = home.get(here)
            if met is not None:
                if met in passed:
                    return True
                passed.add(met)
                # From the shortest way to it on: it leads through fewer objects.
                here = min((place.path for place in self._groups[met]), key=len)
        return first in passed

    def _unite(self, home: dict[Path, Path], path: Path, other: Path) -> None:
        """Join the groups of two paths."""
        if home[path] != home[other]:
            moved = self._groups.pop(home[path])
            self._groups[home[other]] += moved
            home.update({place.path: home[other] for place in moved})

    def _other_names(self, path: Path, home: Mapping[Path, Path]) -> list[Path]:
        """Return the other paths of a place: through the other places of what it is in."""
        outer = [length for length in range(1, len(path)) if path[:length] in home]
        return [
            place.path + path[length:]
            for length in outer
            for place in self._groups[home[path[:length]]]
        ]

    @property
    def has_diverged(self) -> bool:
        """Whether places differ from what the record says."""
        return bool(self._diverged)

    def shared_above(self, path: Path) -> Path | None:
        """Return the first place on the way to a path, or there, that is shared."""
        if not self._shared:
            return None
        lengths = range(1, len(path) + 1)
        return next((path[:each] for each in lengths if path[:each] in self._shared), None)

    def join(self, path: Path) -> None:
        """Share again what the value at a path, or a part of it, shares with others."""
        self._join_all(
            {
                first
                for first, group in self._groups.items()
                if any(place.path[: len(path)] == path for place in group)
            }
        )

    def join_held(self, held: HeldValues) -> None:
        """Join all held values according to the current record."""
        self._join_all(
            {
                first
                for first, group in self._groups.items()
                if any(held.find(place.path) is not None for place in group)
            }
        )

    def separate(self, held: HeldValues) -> None:
        """Give places that are one object, and are not according to the record, one each.

        The staged state was replaced: it is the state of another commit, in which two equal values
        may be two. The first place keeps the object that the program may refer to.
        """
        for _ in range(len(held) + 1):  # a copy may have in it what is one object elsewhere
            if not self._separate_once(dict(held)):
                break

    def _separate_once(self, held: Mapping[Path, HeldValue]) -> bool:
        home = {place.path: first for first, group in self._groups.items() for place in group}
        moves = self._moves
        self._circular.clear()
        current = self._current_groups(held)
        for group in current:
            objects: dict[Path, list[Path]] = {}
            for path, _ in group:
                objects.setdefault(home.get(path, path), []).append(path)
            whole = self._part(group[0].path)
            for paths in list(objects.values())[1:]:
                self._replace(paths, whole, current)
        return self._moves > moves

    def _current_groups(self, held: Mapping[Path, HeldValue]) -> list[Group]:
        """Return the places of each object that is in several now."""
        self._sealed.forget()
        return groups(held, self._scans.shared(held), self._order, self._sealed)

    def _replace(self, paths: list[Path], whole: object, current: list[Group]) -> None:
        """Put a fresh copy into places of an object, and fresh sealed objects around others."""
        outside = [path for path in paths if not self._is_inside(path)]
        for path in paths:
            if path not in outside and self._part(path) is whole:
                around = self._part(self._outer(path))
                all_paths = [place.path for group in current for place in group]
                same = [each for each in all_paths if self._part(each) is around]
                self._put_fresh(same or [self._outer(path)])
        self._put_fresh(outside)

    def _put_fresh(self, paths: list[Path]) -> None:
        """Put another copy of what is stored into places that are not inside of sealed objects."""
        fresh = self._fresh(paths[0]) if paths else None
        for path in paths:
            self._put(path, fresh)

    def mark_removed(self, path: Path) -> None:
        """Note that this program removed or replaced what was at a path."""
        self._diverged.update(each for each in self._shared if each[: len(path)] == path)

    def _join_all(self, firsts: set[Path]) -> None:
        """Make the members of groups one object each, until nothing moves."""
        if self._pending is not None:  # in the middle of reading what is to be joined
            self._pending |= firsts
            return
        self._pending = firsts
        try:
            names = self._read_all(self._pending)
        finally:
            self._pending = None
        renewed: dict[Path, HeldValue] = {}
        self._circular.clear()
        for _ in range(len(names) + 1 if names else 0):
            before = self._moves
            self._sealed.forget()
            # All are compared before any is joined: objects in a cycle contain each other.
            known = [(group, self._alike(group)) for group in map(self._groups.__getitem__, names)]
            renewed |= self._join_sealed([alike for _, alike in known])
            for group, alike in known:
                self._join(group, alike)
            if self._moves == before:  # a tuple that was joined may be another one since
                break
        for hold in renewed.values():
            self._renew(hold)

    def _join_sealed(self, known: list[list[Path]]) -> dict[Path, HeldValue]:
        """Replace sealed objects by copies that have the objects of other places in them.

        Returns the values that may be pickled in another way now.
        """
        joins, chosen = _SealedJoins(self._sealed), list[tuple[list[Path], object]]()
        for alike in known:
            places = [(self._outer(path), self._part(path), self._around(path)) for path in alike]
            if any(around is not None for _, _, around in places):
                chosen.append((alike, joins.add(places)))
        if not chosen:
            return {}
        paths = [path for alike in known for path in alike]
        units = {unit: hold for path in paths for unit, hold in [self._held_at(path)]}
        unchanged = {unit: hold for unit, hold in units.items() if self._is_unchanged(hold)}
        for alike, part in chosen:  # plain data that copies refer to must be complete
            for path in alike:
                self._put(path, part)
        if not joins.around:
            return unchanged
        copies = self._sealed.copies(
            list(joins.around.values()), instead=joins.instead, kept=joins.kept
        )
        if copies is None:
            return unchanged
        new = dict(zip(joins.around, copies, strict=True))
        for path in [*paths, *joins.paths]:
            copy = None if self._is_inside(path) else new.get(id(self._part(path)))
            if copy is not None:
                self._put(path, copy)
        return unchanged

    def _held_at(self, path: Path) -> tuple[Path, HeldValue]:
        found = self._reachable(path)
        assert found is not None, "what was compared is held"
        return found

    def _around(self, path: Path) -> object | None:
        """Return the sealed object that a path leads into, or None."""
        return self._part(self._outer(path)) if self._is_inside(path) else None

    def _is_inside(self, path: Path) -> bool:
        """Tell whether a path leads into a sealed object."""
        return self._outer(path) != path

    def _outer(self, path: Path) -> Path:
        """Return the path of the sealed object that a path leads into, or the path itself."""
        found = self._reachable(path)
        if found is None:
            return path
        unit, hold = found
        try:
            return unit + self._sealed.split(hold.value, path[len(unit) :])[0]
        except (LookupError, AttributeError, TypeError):
            return path

    def _read_all(self, pending: set[Path]) -> list[Path]:
        """Hold all places of groups, and of the groups found on the way."""
        done: set[Path] = set()
        while pending > done:
            for first in pending - done:
                done.add(first)
                for place in self._groups[first]:
                    self._reachable(place.path)
        return [first for first in self._groups if first in done]

    def _join(self, group: Group, alike: list[Path]) -> None:
        self._diverged.difference_update(place.path for place in group)
        self._diverged.update(self._unjoined(group, alike))

    def _unjoined(self, group: Group, alike: list[Path]) -> list[Path]:
        """Join the places of a group that are alike; return those that have diverged."""
        joined: list[Path] = []
        whole = self._part(alike[0]) if alike else None
        for place in group if alike else ():
            if place.view is None:
                is_joined = place.path in alike and self._put(place.path, whole)
            else:
                is_joined = self._join_view(place.path, place.view, whole)
            joined += [place.path] if is_joined else []
        if len(joined) < 2:
            joined = []
        return [place.path for place in group if place.path not in joined]

    def _alike(self, group: Group) -> list[Path]:
        """Return the places with the most common content; views are not compared."""
        paths = [place.path for place in group if place.view is None]
        found = {path: part for path in paths if (part := self._part(path)) is not None}
        if len(set(map(id, found.values()))) == 1:
            return list(found)
        alike: dict[object, list[Path]] = {}
        for path, part in found.items():
            alike.setdefault(self._fingerprint(part), []).append(path)
        if len(alike) > 1:  # fingerprints see in which order a set was filled; encodings do not
            alike = {}
            for path, part in found.items():
                alike.setdefault(self._encode(part), []).append(path)
        return max(alike.values(), key=len, default=[])

    def _join_view(self, path: Path, view: ArrayView, whole: Any) -> bool:
        """Make the array at a place a view again, if it has the same content."""
        part, shown = self._part(path), view.of(whole)
        if part is None or shown is None or self._fingerprint(part) != self._fingerprint(shown):
            return False
        return _is_view(whole, part, view) or self._put(path, shown)

    def _part(self, path: Path) -> Any:
        """Return the object at a path inside a held value, or None."""
        found = self._reachable(path)
        if found is None:
            return None
        unit, hold = found
        try:
            return self._sealed.part_at(hold.value, path[len(unit) :])
        except (LookupError, AttributeError, TypeError):
            return None  # another program changed the shape of the value

    def _put(self, path: Path, part: object) -> bool:
        """Replace the object at a path inside a held value; tell whether it is there now."""
        found = self._reachable(path)
        if found is None:
            return False
        unit, hold = found
        steps, old = path[len(unit) :], self._part(path)
        if old is part:
            return True
        if old is None or self._sealed.split(hold.value, steps)[1]:
            return False
        self._moves += 1
        for each in self._places_of(old, unit, hold) or [steps]:
            hold.value = with_part(hold.value, each, part)
        return True

    def _places_of(self, part: object, unit: Path, hold: HeldValue) -> list[Path]:
        """Return the steps to an object in a value that contains itself: one place is recorded."""
        if unit not in self._circular:
            self._circular[unit] = bool(cyclic_objects(hold.value))
        return steps_to(part, hold.value) if self._circular[unit] else []

    def _reachable(self, path: Path) -> tuple[Path, HeldValue] | None:
        """Return what is held at or above a path; None if there is nothing that may be read."""
        try:
            return self._reach(path)
        except _UNREADABLE:
            return None

    def is_unreferenced(self, path: Path, hold: HeldValue) -> bool:
        """Tell whether the program has no reference to a value or to anything in it."""
        return self._scans.is_unreferenced(path, hold)

    def new_record(
        self, held: Mapping[Path, HeldValue], *, is_edited: bool
    ) -> dict[Path, Entry] | None:
        """Return the current record, as data, or None if the one before is still right.

        Diverged places alone do not change the record, unless something is edited anyway.
        """
        current = self._current_groups(held)
        if self._diverged and not is_edited and _are_within(current, self._groups.values()):
            return None
        before = [
            [p for p in group if p.path not in self._diverged] for group in self._groups.values()
        ]
        before = [group for group in before if len(group) > 1]
        others = [[p for p in group if not _is_held(p.path, held)] for group in before]
        known = [group for group, unread in zip(before, others, strict=True) if group != unread]
        is_whole = not any(unread for unread in others if unread not in before)
        if is_whole and self._is_confirmed(known, current) and not (is_edited and self._diverged):
            return None
        rest = [unread for unread in others if len(unread) > 1]
        return {path: entry for group in [*rest, *current] for path, entry in _entries(group)}

    def _is_confirmed(self, known: list[Group], current: list[Group]) -> bool:
        """Tell whether these groups are all there is; groups inside of others are not searched."""
        return _are_within(current, known) and all(map(self._is_one_object, known))

    def _is_one_object(self, group: Group) -> bool:
        """Tell whether the places of a group hold one object, or views of it."""
        parts = [(self._part(place.path), place.view) for place in group]
        whole = next((part for part, view in parts if view is None), None)
        return whole is not None and all(
            part is whole if view is None else _is_view(whole, part, view) for part, view in parts
        )


class _SealedJoins:
    """Which sealed objects have to be copied, and which objects take the places of others."""

    def __init__(self, sealed: SealedObjects) -> None:
        self._sealed = sealed
        self._chosen: list[tuple[object, object]] = []  # and what each is stored as a part of
        self._replaced: list[object] = []  # while these exist, no other object has their identity
        self.instead: dict[int, object] = {}
        self.around: dict[int, object] = {}
        self.paths: list[Path] = []

    @property
    def kept(self) -> list[object]:
        """The objects that copies refer to: those that are not in a copy themselves."""
        return [chosen for chosen, whole in self._chosen if id(whole) not in self.around]

    def add(self, places: list[tuple[Path, Any, object | None]]) -> object:
        """Add the places of one object, and return the object that all of them get.

        A place is the path of a sealed object, what is inside, and the sealed object; or the path
        of something else, that, and None.
        """
        chosen, whole = self._choose([(part, around) for _, part, around in places])
        self._chosen.append((chosen, whole))
        for path, part, around in places:
            if part is chosen:
                continue
            self.instead[id(part)] = chosen
            self._replaced.append(part)
            if around is not None:
                self.around[id(around)] = around
                self.paths.append(path)
        return chosen

    def _choose(self, places: list[tuple[Any, object | None]]) -> tuple[object, object]:
        """Return the object for all places: plain data, which the program may refer to, or the
        one in most places; and the sealed object around it, or itself.
        """
        counts = Counter(id(part) for part, _ in places)

        def rank(place: tuple[Any, object | None]) -> tuple[bool, bool, int]:
            part, around = place
            is_plain = around is None and not self._sealed.has_parts(part)
            return is_plain, around is None, counts[id(part)]

        part, around = max(places, key=rank)
        return part, part if around is None else around


def _are_within(groups: Iterable[Group], others: Iterable[Group]) -> bool:
    """Tell whether all places that are one object are places of one of the other groups."""
    sets = [{place.path for place in group} for group in others]
    return all(any({p.path for p in group} <= paths for paths in sets) for group in groups)


def _is_view(whole: Any, part: Any, view: ArrayView) -> bool:
    return is_array(part) and identity(part) == identity(whole) and view_in(whole, part) == view


def _entries(group: Group) -> Iterator[tuple[Path, Entry]]:
    for path, view in group:
        yield path, [group[0].path, None if view is None else view.dump()]


def _is_held(path: Path, held: Mapping[Path, HeldValue]) -> bool:
    return any(path[:length] in held for length in range(1, len(path) + 1))


Load: TypeAlias = Callable[[Path, bytes], object]
"""Returns the value in the cell at a path."""


class ValueReader:
    """Reads and holds the values of a staged state, with the objects that they share."""

    def __init__(
        self,
        cells: Cells,
        stage: Stage,
        *,
        kinds: tuple[ImprintKind, ...] = (),
        load: Load | None = None,
    ) -> None:
        self._cells = cells
        self._stage = stage
        self._load = load or (lambda path, cell: cells.load(cell))
        self.held = HeldValues(cells, kinds)
        self.sealed = SealedObjects(cells.encoding.codec)
        self.aliases = Aliases(
            reach=self.reach,
            fresh=self._fresh,
            is_unchanged=self._is_unchanged,
            renew=self._renew,
            sealed=self.sealed,
            fingerprint=self.held.imprinter.fingerprint,
            encode=self.held.imprinter.put,
            order=cells.encoding.key,
        )
        self._aliases_cell: bytes | None = None

    def read(self, keys: Path) -> object:
        """Return a value that is not held yet, and hold it, or what it is part of.

        A value that never changes is not held, and reserved names never are.

        Raises:
            KeyNotFound: nothing is there.
        """
        self.follow_aliases()  # a shared value is held from its first place
        unit = self.unit(keys)
        if unit == keys and not _is_reserved(keys):
            hold = self.hold(keys)
            if hold is None:
                raise _not_found(keys)
            return hold.value
        cell = self._stage.get(keys)
        if cell is None and self.hold_graph(keys):
            return self.held.get(keys)
        if cell is None:
            raise _not_found(keys)
        value = self._cells.load(cell)
        if is_fixed(type(value)) or _is_reserved(keys):
            return value
        self.hold(unit)
        return self.held.get(keys)

    def hold_graph(self, keys: Path) -> bool:
        """Hold the value that contains itself and that a path leads into, if there is one."""
        unit = self.unit(keys)
        cell = self._stage.get(unit) if unit != keys else None
        tagged = None if cell is None else self._cells.tag(cell)
        return tagged is not None and tagged.code == Tag.GRAPH and self.hold(unit) is not None

    def get(self, keys: Path) -> object:
        """Return the value at a path, the same object every time."""
        value = self.held.get(keys)
        return self.read(keys) if value is MISSING else value

    def reach(self, path: Path) -> tuple[Path, HeldValue] | None:
        """Hold the value at a path, or the one it is part of; None if there is nothing to hold."""
        unit = self.held.find(path)
        if unit is None and self.hold(self.unit(path)) is not None:
            unit = self.held.find(path)
        return None if unit is None else (unit, self.held.at(unit))

    def unit(self, path: Path) -> Path:
        """Return the path of the value to hold for what is at a path."""
        shared = self.aliases.shared_above(path)
        end = len(path) if shared is None else len(shared)
        for length in range(1, end):
            cell = self._stage.get(path[:length])
            if cell is None or self._cells.kind(cell) != "map":
                return path[:length]
        return path[:end]

    def hold(self, path: Path) -> HeldValue | None:
        """Read and hold a value; one that never changes is returned and not held."""
        cell = self._stage.get(path)
        if cell is None:
            return None
        value = self._load(path, cell)
        if is_fixed(type(value)) or type(value) is Lost:
            return HeldValue(value)
        hold = self.held.hold(path, value, cell)
        self.aliases.join(path)
        return hold

    def _fresh(self, path: Path) -> object:
        """Return another copy of what is staged at a path inside a held value."""
        unit = self.held.find(path) or path
        cell = self._stage.get(unit)
        assert cell is not None, "what is held is staged"
        return self.sealed.part_at(self._load(unit, cell), path[len(unit) :])

    def _is_unchanged(self, hold: HeldValue) -> bool:
        try:
            return hold.imprint is not None and self.held.changed_imprint(hold) is None
        except BadValue:
            return False

    def _renew(self, hold: HeldValue) -> None:
        """Take the imprint of a value again whose content is what is stored."""
        if hold.imprint is not None:
            hold.imprint = self.held.imprinter.take(hold.value, hold.imprint.cell)
            hold.fingerprint = None

    def follow_aliases(self, *, again: bool = False) -> None:
        """Read the record of shared objects if the staged one is another, or in any case."""
        cell = self._stage.get((ALIASES,))
        if again or cell != self._aliases_cell:
            self._aliases_cell = cell
            self.aliases.load(self._cells.load(cell) if cell is not None else None)


def _is_reserved(keys: Path) -> bool:
    return isinstance(keys[0], str) and keys[0].startswith(".")


def _not_found(keys: Path) -> KeyNotFound:
    return KeyNotFound(
        f"nothing at {format_path(keys)}", hint="list(state) shows what is at the top"
    )
