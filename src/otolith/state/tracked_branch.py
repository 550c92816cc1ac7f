"""A branch as a dict of live Python values: the same path returns the same object.

Rules:

1. A value that was read or assigned is *held*: one object for each path, until the state drops it.
2. No held value is part of another. A list is held as a whole, because its elements change their
   paths; an object that is shared is held from the first place it is shared at (`_unit`).
3. Nothing tells a branch that a held value was changed in place. Every verb that needs the staged
   state calls `ChangeTracker.flush`, which compares each held value with its imprint and stages
   what differs, like any edit.
4. When the staged state is replaced (commit, merge, rollback, checkout of another head),
   `ChangeTracker.reload` changes held values in place, so that variables of the caller stay valid.

`Branch` calls the two through `core.WorkingValues`. Everything else about held values is here and
in `tracker/`: `held.py` (which objects), `imprints.py` (what each looked like), `aliases.py`
(which places share one object).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from operator import is_
from threading import RLock
from typing import Any

from otolith.codecs import Lost, cyclic_objects, updated_in_place
from otolith.core import (
    ALIASES,
    Backend,
    Branch,
    Cells,
    Committer,
    Path,
    Stage,
    differences,
    format_path,
    parse_own_path,
    parse_path,
    synchronized,
)
from otolith.errors import BadPath, BadValue, KeyNotFound, NotKept, Unavailable, UnknownType
from otolith.state.open_documents import OpenDocuments
from otolith.state.tracker.aliases import Load, ValueReader
from otolith.state.tracker.fingerprints import is_fixed
from otolith.state.tracker.held import MISSING, HeldValue, HeldValues, put_part, remove_part
from otolith.state.tracker.imprints import ImprintKind
from otolith.state.tracker.shared_objects import SealedObjects, identity, object_identities


class ChangeTracker:
    """Detects changes in place to the values that a branch returned, and refreshes the values."""

    def __init__(
        self,
        cells: Cells,
        stage: Stage,
        committer: Committer,
        *,
        kinds: tuple[ImprintKind, ...] = (),
        load: Load | None = None,
    ) -> None:
        self._cells = cells
        self._stage = stage
        self._committer = committer
        self.documents: OpenDocuments | None = None  # until one is opened
        self.reader = ValueReader(cells, stage, kinds=kinds, load=load)
        self.held, self.aliases = self.reader.held, self.reader.aliases
        self._fingerprint = self.held.imprinter.fingerprint
        self._flushed_root: bytes | None = None
        self.is_outdated = False  # the staged state was replaced, and held values do not show it

    # Staging what changed in place

    def flush(self) -> dict[Path, BadValue]:
        """Stage what changed in place; return the values that cannot be stored, by path.

        A `Lost` is staged for each of those: an older value must never take its place.
        """
        self.catch_up()
        if self.documents is not None:
            self.documents.flush()
        awake = {path: hold for path, hold in self.held if not hold.is_unreferenced}
        # First the references, then the content: once unreferenced, a value cannot change again.
        alone = {
            path: hold.imprint
            for path, hold in awake.items()
            if not hold.was_returned and self.aliases.is_unreferenced(path, hold)
        }
        failures = self.stage_changed(awake)
        for path, hold in awake.items():
            hold.was_returned = False
            hold.is_unreferenced = path in alone and hold.imprint is alone[path]
        self._stage_aliases()
        self._flushed_root = self._stage.root()
        return failures

    def stage_changed(self, holds: Mapping[Path, HeldValue]) -> dict[Path, BadValue]:
        """Stage those of some held values that changed; return what cannot be stored."""
        failures: dict[Path, BadValue] = {}
        for path, hold in holds.items():
            try:
                new = self.held.changed_imprint(hold)
            except BadValue as error:
                failures[path] = error
                hold.imprint = hold.previous_imprint = None
                hold.lost_cell = self._cells.put(Lost.of(hold.value, error))
                self._stage.put(path, hold.lost_cell)
                continue
            if new is not None:
                hold.imprint, hold.lost_cell = new, None
                self._stage_cell(path, new.cell)
        return failures

    def _stage_cell(self, path: Path, cell: bytes) -> None:
        """Stage a value, and settle the conflicts at what changed in it."""
        before = self._stage.get(path) if self._committer.conflicts() else None
        self._stage.put(path, cell)
        if before is not None:
            for change in differences(self._cells, before, cell, path):
                self._committer.settled(change.keys)

    def _stage_aliases(self) -> None:
        """Stage the record of objects that are shared between values."""
        if not len(self.held) and not self.aliases.has_diverged:
            return
        self.reader.follow_aliases()
        holds = {path: hold for path, hold in self.held if hold.lost_cell is None}
        is_edited = not self._cells.same(self._stage.root(), self._committer.head_cell)
        record = self.aliases.new_record(holds, is_edited=is_edited)
        if record:
            in_key_order = self._cells.encoding.in_key_order(record)  # whatever was seen first
            self._stage.put((ALIASES,), self._cells.put(in_key_order))
        elif record is not None and self._stage.get((ALIASES,)) is not None:
            self._stage.remove((ALIASES,))
        self.reader.follow_aliases()

    # Refreshing values when the staged state was replaced

    def reload(self) -> None:
        """Bring held values up to date with the stage, in place where that can be done.

        What replaced the staged state has happened, so this does not fail if the store is away: the
        next use of a value reads it (`catch_up`).
        """
        if self.documents is not None:
            self.documents.expire()
        was_outdated, self.is_outdated = self.is_outdated, True
        with suppress(Unavailable):
            root = self._stage.root()
            is_same = self._flushed_root is not None and self._cells.same(root, self._flushed_root)
            if was_outdated or not is_same:
                self._refresh_values()
            self._flushed_root, self.is_outdated = root, False

    def catch_up(self) -> None:
        """Bring held values up to date that `reload` could not read.

        Raises:
            BadValue: one of them was changed since: the change was made to an older value.
        """
        if not self.is_outdated:
            return
        for path, hold in self.held:
            old = None if hold.imprint is None else hold.imprint.cell
            is_old = old is not None and not self._cells.same(old, self._stage.get(path))
            if is_old and self._is_changed(hold):
                raise BadValue(
                    f"{format_path(path)} was changed before it could be read again: its store was"
                    " away when another commit changed it",
                    hint="discard(), read the value again, and repeat the change",
                )
        self._refresh_values()
        self._flushed_root, self.is_outdated = self._stage.root(), False

    def forget_changes(self) -> None:
        """Let the next `reload` overwrite changes in place that were not flushed."""
        self._flushed_root = None
        if self.documents is not None:
            self.documents.forget_edits()
        for _, hold in self.held:
            if hold.imprint is not None and self._is_changed(hold):
                hold.imprint = None

    def _is_changed(self, hold: HeldValue) -> bool:
        """Return whether a held value differs from what is stored; unstorable counts as changed."""
        try:
            return not hold.is_unreferenced and self.held.changed_imprint(hold) is not None
        except BadValue:
            return True

    def _refresh_values(self) -> None:
        """Update held values in place after the staged state was replaced."""
        self.reader.follow_aliases(again=True)
        self._update_all(self._moved([path for path, _ in self.held]))
        holds = {path: hold for path, hold in self.held if hold.lost_cell is None}
        apart = {path: self._stage.get(path) for path in self.aliases.entangled(holds)}
        self._update_all({path: cell for path, cell in apart.items() if cell}, apart=True)
        self.aliases.join_held(self.held)

    def _update_all(self, moved: Mapping[Path, bytes], *, apart: bool = False) -> None:
        """Give held values the content of cells."""
        self.reader.sealed.forget()
        update = InPlaceUpdate(
            [self.held.at(path).value for path in moved],
            fixed=[hold.value for path, hold in self.held if path not in moved],
            fingerprint=self._fingerprint,
            sealed=self.reader.sealed,
            apart=apart,
        )
        for path in sorted(moved, key=self._stage.names):
            self._update(path, moved[path], update)

    def refresh_inside(self, path: Path) -> None:
        """Bring what is held below a path up to date with what a handle wrote there."""
        for below, cell in self._moved(self.held.below(path)).items():
            self._update(below, cell, self.update_of(self.held.at(below).value))

    def update_of(self, value: object) -> InPlaceUpdate:
        """Return an update of one value in which shared objects stay where they are equal."""
        self.reader.sealed.forget()
        return InPlaceUpdate(
            [value], fingerprint=self._fingerprint, sealed=self.reader.sealed, keep_shared=True
        )

    def _moved(self, paths: list[Path]) -> dict[Path, bytes]:
        """Return the staged cells of held values that differ from them; drop what is gone."""
        moved: dict[Path, bytes] = {}
        for path in paths:
            hold = self.held.at(path)
            try:
                cell = self._stage.get(path)
            except BadPath:
                cell = None
            if cell is None:
                self.held.drop(path)
            elif hold.lost_cell is not None:
                moved |= {} if self._cells.same(cell, hold.lost_cell) else {path: cell}
            elif hold.imprint is None or not self._cells.same(cell, hold.imprint.cell):
                moved[path] = cell
        return moved

    def _update(self, path: Path, cell: bytes, update: InPlaceUpdate) -> None:
        """Update one held value in place, or drop it if it is immutable now, or cannot be read."""
        hold = self.held.at(path)
        try:
            fresh = self._cells.load(cell)
        except UnknownType:
            self.held.drop(path)
            return
        if type(fresh) is Lost or is_fixed(type(fresh)):
            self.held.drop(path)
            return
        hold.value = fresh if _contains_itself(fresh) else update(hold.value, fresh)
        hold.imprint, hold.previous_imprint = self.held.imprinter.take(hold.value, cell), None
        hold.lost_cell = None


def _contains_itself(value: object) -> bool:
    """Tell whether an object that was just read is in itself: a graph is replaced as a whole."""
    _, twice = object_identities([value])
    return bool(twice) and bool(cyclic_objects(value))


class InPlaceUpdate:
    """Gives held objects the content of a replaced state.

    Dicts, lists, sets, bytearrays and models are changed in place. Anything else, also a frozen
    model, stays if it is equal to the new value, and is replaced otherwise. An object that is in
    several places takes the content of the first of them only, because the places may differ now.

    `live` are the values that may be changed, `fixed` those of other places, which stay. With
    `keep_shared`, an object in several places stays in those that are still equal to it. With
    `apart`, an object that cannot be changed in place stays only if nothing in it is shared.
    """

    def __init__(
        self,
        live: Iterable[object],
        *,
        fixed: Iterable[object] = (),
        fingerprint: Callable[[object], int | None],
        sealed: SealedObjects,
        keep_shared: bool = False,
        apart: bool = False,
    ) -> None:
        stay = list(fixed)
        _, self._shared = object_identities([*live, *stay], sealed)
        taken = object_identities(stay, sealed)[0] if self._shared and stay else set()
        self._taken = self._shared & taken
        self._fingerprint = fingerprint
        self._keep_shared = keep_shared
        self._sealed = sealed
        self._apart = apart

    def __call__(self, live: Any, fresh: Any) -> Any:
        """Return what a place holds now: the object that was there, if it can be."""
        if type(live) is not type(fresh) or live is fresh or is_fixed(type(live)):
            return fresh
        own = identity(live)
        if own in self._taken:
            return live if self._keep_shared and self._is_equal(live, fresh) else fresh
        if own in self._shared:
            self._taken.add(own)
        return self._change(live, fresh)

    def _change(self, live: Any, fresh: Any) -> Any:
        """Make a live container equal to a fresh one, keeping its identity."""
        if type(live) is dict:
            entries = {key: self(live.get(key), part) for key, part in fresh.items()}
            live.clear()
            live.update(entries)
        elif type(live) is list:
            parts = [self(mine, part) for mine, part in zip(live, fresh, strict=False)]
            live[:] = [*parts, *fresh[len(parts) :]]
        elif type(live) is tuple and len(live) == len(fresh):
            new = tuple(self(mine, part) for mine, part in zip(live, fresh, strict=True))
            return live if all(map(is_, live, new)) else new
        elif type(live) is set:
            live.clear()
            live.update(fresh)
        elif type(live) is bytearray:
            live[:] = fresh
        elif updated_in_place(live, fresh, self):
            pass
        elif not self._is_equal(live, fresh) or (self._apart and self._has_shared(live)):
            return fresh
        return live

    def _has_shared(self, live: object) -> bool:
        """Tell whether an object that stays or goes as a whole has one in it that is shared."""
        inside = object_identities([live], self._sealed)[0] - {identity(live)}
        return not inside.isdisjoint(self._shared)

    def _is_equal(self, live: object, fresh: object) -> bool:
        """Return whether two values have the same stored form."""
        try:
            now = self._fingerprint(live)
        except BadValue:  # it was changed into something that cannot be stored
            return False
        return now is not None and now == self._fingerprint(fresh)


class TrackedBranch(Branch):
    """A branch that holds the values it returns.

    The same path returns the same object. Handles write to the objects that are held.
    """

    def __init__(
        self,
        backend: Backend,
        ref: str,
        *,
        kinds: tuple[ImprintKind, ...] = (),
        load: Load | None = None,
    ) -> None:
        """Open a branch; `kinds` and `load` replace how values are compared and read."""
        self._mutex = RLock()
        super().__init__(backend, ref, lock=self._mutex)
        self._values = self._live = ChangeTracker(
            self.cells,
            self._stage,
            self._committer,
            kinds=kinds,
            load=load,
        )

    @property
    def _tracker(self) -> ChangeTracker:
        """The tracker of held values, which are up to date."""
        if self._live.is_outdated:
            self._live.catch_up()
        return self._live

    @property
    def _held(self) -> HeldValues:
        return self._tracker.held

    # Reading

    def __getitem__(self, path: str | Path) -> Any:
        """Return the value at a path: the same object every time, until the state drops it.

        Raises:
            KeyNotFound: nothing is there.
            NotKept: there was a value that could not be stored.
        """
        keys = self._hashable(parse_path(path))
        with self.lock:
            self._stage_documents(keys)
            value = self._held.get(keys)
            if value is MISSING:
                self._stage.prefetch((ALIASES,), keys)
                value = self._tracker.reader.read(keys)
        if type(value) is Lost:
            raise NotKept(
                f"{format_path(keys)} could not be stored: it was a {value.type_name},"
                f" and {value.why}",
                hint=value.hint or "make it again",
            )
        return value

    def _hashable(self, keys: Path) -> Path:
        """Return the keys of a path, which must be hashable.

        Raises:
            BadValue: one of them is not.
        """
        if any(type(key) is not str for key in keys):
            self._stage.names(keys)
        return keys

    @synchronized
    def get(self, path: str | Path, default: Any = None) -> Any:
        """Return the value at a path, or the default if nothing is there.

        Raises:
            NotKept: there was a value that could not be stored.
        """
        try:
            return self[path]
        except NotKept:
            raise
        except KeyNotFound:
            return default

    @synchronized
    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str | tuple):
            return False
        keys = self._hashable(parse_path(path))
        try:
            return self._held.get(keys) is not MISSING or self._stage.get(keys) is not None
        except KeyNotFound:
            return False

    def __iter__(self) -> Iterator[str]:
        with self.lock:
            return iter(list(super().__iter__()))

    @synchronized
    def __len__(self) -> int:
        return super().__len__()

    # Writing

    @synchronized
    def __setitem__(self, path: str | Path, value: object) -> None:
        """Set the value at a path; maps on the way are made.

        Into a held value the part itself is put. A value that never changes is staged at once. Any
        other value is held, and encoded by the next flush.
        """
        keys = self._hashable(parse_own_path(path))
        try:
            self._set(keys, value)
        except (BadPath, KeyNotFound):
            is_held = self._held_above(keys[:-1]) is not None
            if is_held or not self._tracker.reader.hold_object(keys):
                raise
            self._set(keys, value)
        self._close_documents(keys)

    def _set(self, keys: Path, value: object) -> None:
        unit = self._held_above(keys[:-1])
        cell = None if unit is not None else self._immutable_cell(value)
        if unit is None and cell is None:
            unit = self._undivided_above(keys)
        if unit is not None:
            self._put_part(unit, keys, value)
            self._committer.settled(keys)
        elif cell is not None:
            super().write_cell(keys, cell)
            self._release(keys)
        else:
            # A placeholder until the next flush; it also checks that the path can be written.
            super().write_cell(keys, self.cells.put(None))
            self._held.assign(keys, value)

    def _immutable_cell(self, value: object) -> bytes | None:
        """Return the cell of a value that never changes; others are encoded by a flush."""
        try:
            return self.cells.put(value) if is_fixed(type(value)) else None
        except BadValue:
            return None  # the next commit reports it

    @synchronized
    def __delitem__(self, path: str | Path) -> None:
        """Remove the value at a path, from the held value that it is part of."""
        keys = self._hashable(parse_own_path(path))
        if self._is_removed_twice(keys):
            super().__delitem__(keys)
            return
        unit = self._held_above(keys[:-1])
        if (
            unit is None
            and self._stage.get(keys) is None
            and self._tracker.reader.hold_object(keys)
        ):
            unit = self._held_above(keys[:-1])
        if unit is not None:
            remove_part(self._held.at(unit).value, unit, keys[len(unit) :])
            self._committer.settled(keys)
        else:
            super().__delitem__(keys)
            self._release(keys)
        self._close_documents(keys)

    def _held_above(self, path: Path) -> Path | None:
        """Return the path of the held value that a path leads into; hold a shared one first."""
        unit = self._held.find(path)
        if unit is None:
            self._tracker.reader.follow_aliases()
            shared = self._tracker.aliases.shared_above(path)
            found = self._tracker.reader.reach(shared) if shared is not None else None
            unit = None if found is None else found[0]
        return unit

    def _put_part(self, unit: Path, keys: Path, value: object) -> None:
        """Put a part into the value that is held at the path `unit`."""
        hold, name = self._held.at(unit), format_path(keys)
        is_known = any(conflict.path == name for conflict in self._committer.conflicts())
        hold.value = put_part(hold.value, unit, keys[len(unit) :], value, is_known=is_known)

    def _undivided_above(self, keys: Path) -> Path | None:
        """Hold the list or model that a path leads into, and return its path, if there is one."""
        unit = self._tracker.reader.unit(keys)
        cell = self._stage.get(unit) if unit != keys else None
        if cell is None or self.cells.kind(cell) not in ("list", "tagged"):
            return None
        return unit if self._tracker.reader.hold_known(unit) else None

    @property
    def _documents(self) -> OpenDocuments:
        """The documents that are open here."""
        if self._live.documents is None:
            self._live.documents = OpenDocuments(
                self.cells,
                read=self._tracked_cell,
                write=self._put_cell,
                entropy=self._backend.entropy,
            )
        return self._live.documents

    def _stage_documents(self, path: Path) -> None:
        """Stage what was edited in documents at a path, and below."""
        if self._live.documents is not None:
            self._live.documents.flush(path)

    def _close_documents(self, path: Path) -> None:
        """Edit the documents at a path, and below, no longer: something else is there."""
        if self._live.documents is not None:
            self._live.documents.drop(path)

    def _release(self, path: Path) -> None:
        """Hold what was at a path no longer."""
        self._held.drop(path)
        self._tracker.aliases.mark_removed(path)

    # What handles read and write: what is held is flushed before, and refreshed afterwards

    def cell_at(self, path: Path) -> bytes | None:
        """Return the cell at a path, with changes in place at, above and below it."""
        with self.lock:
            if path:
                self._stage_documents(path)
                return self._tracked_cell(path)
            self._tracker.flush()
            return super().cell_at(path)

    def _tracked_cell(self, path: Path) -> bytes | None:
        """Return the cell at a path, without edits of documents that are not staged."""
        self._tracker.stage_changed(self._held.around(path))
        return super().cell_at(path)

    @synchronized
    def write_cell(self, path: Path, cell: bytes | None) -> None:
        """Set or remove the cell at a path, and the part of the held value that it is in."""
        self._put_cell(path, cell)
        self._close_documents(path)

    def _put_cell(self, path: Path, cell: bytes | None) -> None:
        unit = self._held_above(path)
        if unit is None:
            inside = {below: self._held.at(below) for below in self._held.below(path)}
            self._tracker.stage_changed(inside)
            super().write_cell(path, cell)
            self._tracker.refresh_inside(path)
            return
        old, fresh = self._part(path), None if cell is None else self.cells.load(cell)
        hold, new = self._held.at(unit), self._tracker.update_of(old)(old, fresh)
        if unit == path and (cell is None or is_fixed(type(new))):
            super().write_cell(path, cell)
            self._release(path)
        elif unit == path:
            hold.value = new
        elif cell is None:
            remove_part(hold.value, unit, path[len(unit) :])
        else:
            self._put_part(unit, path, new)
        self._committer.settled(path)

    @synchronized
    def extend_cell(self, path: Path, cells: list[bytes]) -> None:
        """Append to the list at a path, or to the held object that it is."""
        unit = self._held_above(path)
        if unit is None:
            super().extend_cell(path, cells)
            return
        old, more = self._part(path), [self.cells.load(cell) for cell in cells]
        if old is MISSING:
            self._put_part(unit, path, more)
            self.adopt_policy(path, "append")
        elif type(old) is list:
            old.extend(more)
        else:
            raise BadPath(
                f"{format_path(path)} is not a list", hint="list(state) lists the names at the top"
            )
        self._committer.settled(path)

    def _part(self, path: Path) -> Any:
        """Return the value at a path, or MISSING."""
        try:
            return self._held.get(path)
        except KeyNotFound:
            return MISSING

    @synchronized
    def discard(self) -> None:
        """Drop all staged edits, changes in place, and the merge in progress."""
        self._live.forget_changes()
        super().discard()
