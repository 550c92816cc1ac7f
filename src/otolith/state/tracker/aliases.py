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
5. No object can be put into a sealed one (`SealedObjects`). Where a sealed object has one in it
   that must be another, it is replaced by a copy that refers to that one (`_replace`).
6. The record need not name all places of an object: if `a` and `b` are one object, `a/x` and `b/x`
   are too (`_SameObjects`, `_Names`). In values that contain each other, paths have no end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from otolith.codecs import Lost, Order, are_alike, parts_of, with_part
from otolith.core import ALIASES, Cells, Path, Stage, format_path
from otolith.errors import Denied, KeyNotFound, MissingExtra, UnknownType, Untrusted
from otolith.state.tracker.fingerprints import is_fixed
from otolith.state.tracker.held import MISSING, HeldValue, HeldValues
from otolith.state.tracker.imprints import ImprintKind
from otolith.state.tracker.shared_objects import (
    ArrayView,
    Group,
    ObjectScans,
    SealedObjects,
    SharedPlace,
    groups,
    identity,
    is_array,
    view_in,
)
from otolith.types import Tag

Entry: TypeAlias = list[Any]

_UNREADABLE = (Denied, Untrusted, UnknownType, MissingExtra)
"""Why a value that shares objects with the one that is read may have to stay out of it."""


class Aliases:
    """Reads, joins and updates the record of one state.

    `reach` returns what is held at or above a path, read if need be, and None if nothing is there;
    `is_unchanged` tells whether a value has the content that is stored, and `renew` notes that it
    has, with other objects in it.
    """

    def __init__(
        self,
        *,
        reach: Callable[[Path], tuple[Path, HeldValue] | None],
        is_unchanged: Callable[[HeldValue], bool],
        renew: Callable[[HeldValue], None],
        sealed: SealedObjects,
        fingerprint: Callable[[object], int | None],
        encode: Callable[[object], bytes],
        order: Order,
    ) -> None:
        self._reach = reach
        self._is_unchanged = is_unchanged
        self._renew = renew
        self._sealed = sealed
        self._fingerprint = fingerprint
        self._encode = encode
        self._order = order
        self._scans = ObjectScans(sealed)
        self._groups: dict[Path, Group] = {}
        self._names = _Names([])
        self._shared: set[Path] = set()
        self._diverged: set[Path] = set()
        self._is_edited = False  # this program itself has removed places
        self._pending: set[Path] | None = None  # groups to join, by their first places

    def load(self, record: object) -> None:
        """Use another record."""
        entries = dict(_places_in(record))
        self._groups, self._shared, self._diverged = {}, set(entries), set()
        self._is_edited = False
        for path in sorted(entries, key=lambda path: [self._order(key) for key in path]):
            first, place = entries[path]
            self._groups.setdefault(first, []).append(place)
        self._names = _Names(self._groups.values())

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

    def entangled(self, held: Mapping[Path, HeldValue]) -> list[Path]:
        """Return those of some held values with one object where the record says several are.

        The staged state was replaced: it is the state of another commit, in which two equal values
        may be two.
        """
        groups = self._current_groups(held)
        places = [path for group in groups if not self._names.are_one(group) for path, _ in group]
        return [unit for unit in held if any(path[: len(unit)] == unit for path in places)]

    def _current_groups(self, held: Mapping[Path, HeldValue]) -> list[Group]:
        """Return the places of each object that is in several now."""
        self._sealed.forget()
        return groups(held, self._scans.shared(held), self._order, self._sealed)

    def mark_removed(self, path: Path) -> None:
        """Note that this program removed or replaced what was at a path."""
        removed = {each for each in self._shared if each[: len(path)] == path}
        self._diverged |= removed
        self._is_edited |= bool(removed)

    def _join_all(self, firsts: set[Path]) -> None:
        """Make the places of groups one object each."""
        if self._pending is not None:  # in the middle of reading what is to be joined
            self._pending |= firsts
            return
        self._pending = firsts
        try:
            names = self._read_all(self._pending)
        finally:
            self._pending = None
        if not names:
            return
        self._sealed.forget()
        # All are found before any is replaced: steps into sealed objects count what is in them.
        known = [(group, self._alike(group)) for group in map(self._groups.__getitem__, names)]
        objects = _ObjectsIn(self._holds([place for group, _ in known for place in group]))
        same = _SameObjects(self._sealed)
        for _, alike in known:
            same.unite(list(alike.values()))
        is_joined = self._replace(objects, same.instead(objects))
        views: dict[int, object] = {}
        for group, alike in known:
            joined = [path for path, part in alike.items() if is_joined or part in objects]
            whole = self._part(joined[0]) if joined else None
            joined += self._views(group, whole, views)
            self._diverged.update(place.path for place in group)
            self._diverged.difference_update(joined if len(joined) > 1 else [])
        if views:
            self._replace(_ObjectsIn(objects.holds), views)

    def _holds(self, places: Group) -> list[HeldValue]:
        """Return the held values with these places."""
        found = [reached for place in places if (reached := self._reachable(place.path))]
        return list(dict(found).values())

    def _replace(self, objects: _ObjectsIn, instead: Mapping[int, object]) -> bool:
        """Put objects into the places of others; return False if that is impossible in some.

        A copy takes the place of a sealed object in which another object must be.
        """
        if not instead:
            return True
        sealed = [each for each in self._sealed.among(objects) if id(each) not in instead]
        unchanged = [hold for hold in objects.holds if sealed and self._is_unchanged(hold)]
        inside = {id(each): self._sealed.parts(each) for each in sealed}
        copied = [each for each in sealed if any(id(part) in instead for part in inside[id(each)])]
        gone = {*map(id, copied), *instead}
        stay = [part for each in sealed if id(each) not in gone for part in inside[id(each)]]
        stay += [each for each in objects if id(each) not in gone and not isinstance(each, tuple)]
        stay += [each for each in instead.values() if is_array(each)]
        copies = self._sealed.copies(copied, instead=instead, kept=stay) if copied else []
        new = dict(zip(map(id, copied), copies or [], strict=copies is not None))
        objects.replace({old: new.get(id(part), part) for old, part in instead.items()} | new)
        self._sealed.forget()
        for hold in unchanged:  # it may be pickled in another way now
            self._renew(hold)
        return copies is not None

    def _read_all(self, pending: set[Path]) -> list[Path]:
        """Hold all places of groups, and of the groups found on the way."""
        done: set[Path] = set()
        while pending > done:
            for first in pending - done:
                done.add(first)
                for place in self._groups[first]:
                    self._reachable(place.path)
        return [first for first in self._groups if first in done]

    def _alike(self, group: Group) -> dict[Path, Any]:
        """Return the places with the most common content, and what is there, without views."""
        paths = [place.path for place in group if place.view is None]
        found = {path: part for path in paths if (part := self._part(path)) is not None}
        if len(set(map(id, found.values()))) == 1:
            return found
        alike: dict[object, dict[Path, Any]] = {}
        for path, part in found.items():
            alike.setdefault(self._fingerprint(part), {})[path] = part
        if len(alike) > 1:  # fingerprints see in which order a set was filled; encodings do not
            alike = {}
            for path, part in found.items():
                alike.setdefault(self._encode(part), {})[path] = part
        classes: list[dict[Path, Any]] = []
        for same in alike.values():  # encodings see which objects in a sealed one are one
            part = next(iter(same.values()))
            like = (each for each in classes if are_alike(next(iter(each.values())), part))
            joined = next(like, {})
            classes += [] if joined else [joined]
            joined.update(same)
        return max(classes, key=len, default={})

    def _views(self, group: Group, whole: Any, instead: dict[int, object]) -> list[Path]:
        """Return the places of views of an array; add the views to make to those that exist."""
        found: list[Path] = []
        for path, view in group:
            part = None if view is None else self._part(path)
            shown = None if part is None or view is None else view.of(whole)
            if shown is None or self._fingerprint(part) != self._fingerprint(shown):
                continue
            found.append(path)
            if view is not None and not _is_view(whole, part, view):
                instead[id(part)] = shown
        return found

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
        is_edited |= self._is_edited
        current = self._current_groups(held)
        if self._diverged and not is_edited and all(map(self._names.are_one, current)):
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
        names = _Names(known) if self._diverged else self._names
        return all(map(names.are_one, current)) and all(map(self._is_one_object, known))

    def _is_one_object(self, group: Group) -> bool:
        """Tell whether the places of a group hold one object, or views of it."""
        parts = [(self._part(place.path), place.view) for place in group]
        whole = next((part for part, view in parts if view is None), None)
        return whole is not None and all(
            part is whole if view is None else _is_view(whole, part, view) for part, view in parts
        )


class _ObjectsIn:
    """The objects in held values; those inside of sealed objects are not counted."""

    def __init__(self, holds: list[HeldValue]) -> None:
        self.holds = holds
        self._found: dict[int, Any] = {}
        waiting: list[Any] = [hold.value for hold in holds]
        while waiting:
            each = waiting.pop()
            if id(each) not in self._found and not is_fixed(type(each)):
                self._found[id(each)] = each
                waiting += [part for _, part in parts_of(each)]

    def __contains__(self, part: object) -> bool:
        return id(part) in self._found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found.values())

    def replace(self, instead: Mapping[int, object]) -> None:
        """Put objects into the places of others, which are given by their identities."""
        tuples: dict[int, Any] = {}

        def current(part: Any) -> Any:
            found = instead.get(id(part), part)
            if not isinstance(found, tuple):
                return found
            if id(found) not in tuples:
                new = found
                for step, inner in parts_of(found):
                    new = with_part(new, (step,), current(inner))
                tuples[id(found)] = tuples[id(new)] = new
            return tuples[id(found)]

        for hold in self.holds:
            hold.value = current(hold.value)
        for each in self:
            if id(each) not in instead and not isinstance(each, tuple):
                for step, part in parts_of(each):
                    with_part(each, (step,), current(part))


class _SameObjects:
    """Objects that are to be one. What is at the same steps in two of them is to be one, too."""

    def __init__(self, sealed: SealedObjects) -> None:
        self._sealed = sealed
        self._same: dict[int, list[Any]] = {}

    def unite(self, objects: list[Any]) -> None:
        """Note that objects are to be one."""
        pairs = [(objects[0], other) for other in objects[1:]]
        while pairs:
            one, other = pairs.pop()
            if type(one) is not type(other) or is_fixed(type(one)):
                continue
            same = self._same.setdefault(id(one), [one])
            others = self._same.setdefault(id(other), [other])
            if same is not others:
                same += others
                self._same.update(dict.fromkeys(map(id, others), same))
                pairs += self._inner(one, other)

    def _inner(self, one: Any, other: Any) -> list[tuple[Any, Any]]:
        """Return what is in both of two objects, in pairs."""
        if self._sealed.has_parts(one):
            return list(zip(self._sealed.parts(one), self._sealed.parts(other), strict=False))
        parts = dict(parts_of(other))
        return [(part, parts[step]) for step, part in parts_of(one) if step in parts]

    def instead(self, objects: _ObjectsIn) -> dict[int, object]:
        """Return for each object that gives way, by identity, the one that takes its place.

        That is one that is not inside of a sealed object, if there is one.
        """
        chosen: dict[int, object] = {}
        for same in {id(same): same for same in self._same.values()}.values():
            stays = next((each for each in same if each in objects), same[0])
            chosen |= {id(each): stays for each in same if each is not stays}
        return chosen


class _Names:
    """Which paths lead to one object: if `a` and `b` are one, `a/x` and `b/x` are one, too.

    This is a tree of keys. Nodes of one object are united, and so are those below by their keys.
    """

    def __init__(self, groups: Iterable[Group]) -> None:
        self._below: list[dict[object, int]] = [{}]
        self._instead = [0]  # the node that each node was united with, or itself
        for group in groups:
            nodes = [self._node(place.path) for place in group]
            for node in nodes[1:]:
                self._unite(nodes[0], node)

    def are_one(self, group: Group) -> bool:
        """Tell whether places are one object."""
        return len({self._follow(place.path) for place in group}) == 1

    def _node(self, path: Path) -> int:
        """Return the node of a path, a new one if need be."""
        node, rest = self._follow(path)
        for key in rest:
            self._below[node][key] = node = len(self._below)
            self._below.append({})
            self._instead.append(node)
        return node

    def _follow(self, path: Path) -> tuple[int, Path]:
        """Return the last node on the way, and the rest of the path."""
        node = 0
        for depth, key in enumerate(path):
            below = self._below[node]
            if key not in below:
                return node, path[depth:]
            node = self._united(below[key])
        return node, ()

    def _united(self, node: int) -> int:
        while self._instead[node] != node:
            self._instead[node] = node = self._instead[self._instead[node]]
        return node

    def _unite(self, one: int, other: int) -> None:
        pairs = [(one, other)]
        while pairs:
            one, other = map(self._united, pairs.pop())
            if one != other:
                self._instead[other] = one
                below = self._below[one]
                for key, node in self._below[other].items():
                    pairs += [(below[key], node)] if key in below else []
                    below.setdefault(key, node)


def _places_in(record: object) -> Iterator[tuple[Path, tuple[Path, SharedPlace]]]:
    """Yield the places in a record with the first ones of their groups; forged entries are not."""
    for path, entry in record.items() if isinstance(record, dict) else ():
        try:
            first, view = entry
            place = SharedPlace(path, None if view is None else ArrayView.load(view))
            is_path = isinstance(path, tuple) and isinstance(first, tuple)
            hash((path, first))
        except (TypeError, ValueError):
            continue
        if is_path and path and first:
            yield path, (first, place)


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
            is_unchanged=self.held.is_unchanged,
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
        if cell is None and self.hold_object(keys):
            return self.held.get(keys)
        if cell is None:
            raise _not_found(keys)
        value = self._cells.load(cell)
        if is_fixed(type(value)) or _is_reserved(keys):
            return value
        self.hold(unit)
        return self.held.get(keys)

    def hold_object(self, keys: Path) -> bool:
        """Hold the object that a path leads into, if there is one that can have parts here.

        A value that contains itself is not divided where it is stored, and an object of an older
        version may have other fields there.
        """
        unit = self.unit(keys)
        cell = self._stage.get(unit) if unit != keys else None
        tagged = None if cell is None else self._cells.tag(cell)
        is_object = tagged is not None and tagged.code in (Tag.GRAPH, Tag.MODEL)
        return is_object and self.hold_known(unit)

    def hold_known(self, path: Path) -> bool:
        """Hold the value at a path, unless its class is not known here; return whether it is."""
        try:
            return self.hold(path) is not None
        except UnknownType:
            return False

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
