"""A branch that looks again at what it handed out, and brings it up to date when the state moves.

Values are *held*, one object for each path. A change in place is found by looking at them, and put
on the stage like any edit. A list is held as a whole, because its elements change their paths; and
so is what is shared, from the first place that it is shared at.

A branch as a dict whose values are Python's own: what it hands out is what it keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Any

from otolith.codecs import Lost
from otolith.core import (
    ALIASES,
    Branch,
    Conflict,
    Path,
    differences,
    format_path,
    parse_own_path,
    parse_path,
)
from otolith.errors import BadPath, BadValue, KeyNotFound, NotKept
from otolith.state.base import synchronized
from otolith.state.tracking.aliases import Aliases
from otolith.state.tracking.fingerprints import is_fixed
from otolith.state.tracking.held import MISSING, Held, Hold, put_part, remove_part
from otolith.state.tracking.imprints import Shape
from otolith.state.tracking.shared_objects import Adoption

_UNREAD = b""


class ChangeTracker(Branch):
    """A branch that knows what it handed out. Threads take turns."""

    def _init_tracking(self, *shapes: Shape) -> None:
        """Start with nothing handed out. `shapes` take imprints in ways of their own."""
        self._turns = RLock()
        self._held = Held(self.cells, shapes)
        self._aliases = Aliases(
            reach=self._reach, print=self._held.imprints.print, order=self.cells.encoding.key
        )
        self._aliases_cell: bytes | None = None
        self._is_still = False  # nothing needs to be looked at: it was a moment ago
        self._seen_root: bytes | None = None

    def turn(self) -> AbstractContextManager[object]:
        """Return what keeps other threads out."""
        return self._turns

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to commit."""
        with self.turn():
            return super().is_clean

    @property
    def conflicts(self) -> list[Conflict]:
        """What the merge in progress leaves to decide."""
        with self.turn():
            return super().conflicts

    def policies(self) -> dict[str, str]:
        """Return the merge policies by pattern."""
        with self.turn():
            return super().policies()

    # Holding

    def _reach(self, path: Path) -> tuple[Path, Hold] | None:
        """Hold what is at a path, or what that is part of; None if there is nothing to hold."""
        unit = self._held.find(path)
        if unit is None and self._hold(self._unit(path)) is not None:
            unit = self._held.find(path)
        return None if unit is None else (unit, self._held.at(unit))

    def _unit(self, path: Path) -> Path:
        """Return the path of the value to hold for what is at a path."""
        shared = self._aliases.above(path)
        end = len(path) if shared is None else len(shared)
        for length in range(1, end):
            cell = self._stage.get(path[:length])
            if cell is None or self.cells.kind(cell) != "map":
                return path[:length]
        return path[:end]

    def _hold(self, path: Path) -> Hold | None:
        """Read and hold a value; one that never changes is returned and not held."""
        cell = self._stage.get(path)
        if cell is None:
            return None
        value = self._load(path, cell)
        if is_fixed(type(value)) or type(value) is Lost:
            return Hold(value)
        hold = self._held.hold(path, value, cell)
        self._aliases.join(path)
        return hold

    def _load(self, path: Path, cell: bytes) -> object:
        """Return the value in the cell at a path."""
        return self.cells.load(cell)

    def _follow_aliases(self) -> None:
        cell = self._stage.get((ALIASES,))
        if cell != self._aliases_cell:
            self._aliases_cell = cell
            self._aliases.read(self.cells.load(cell) if cell is not None else None)

    # Looking

    def _root(self) -> bytes:
        with self.turn():
            if not self._is_still:
                self._stage_changes()
            return super()._root()

    @contextmanager
    def _scan_suspended(self) -> Iterator[None]:
        """Do not look: what matters is known."""
        before, self._is_still = self._is_still, True
        try:
            yield
        finally:
            self._is_still = before

    def _stage_changes(self) -> dict[Path, BadValue]:
        """Stage what changed in place; return what cannot be kept, for which a `Lost` is staged."""
        awake = {path: hold for path, hold in self._held if not hold.rests}
        # First who else has it, then what it looks like: after that, nobody can change it.
        alone = {
            path: hold.imprint
            for path, hold in awake.items()
            if not hold.was_asked and self._aliases.is_alone(path, hold)
        }
        failures = self._look_at(awake)
        for path, hold in awake.items():
            hold.was_asked = False
            hold.rests = path in alone and hold.imprint is alone[path]
        self._stage_aliases()
        self._seen_root = self._stage.root()
        return failures

    def _look_at(self, holds: Mapping[Path, Hold]) -> dict[Path, BadValue]:
        failures: dict[Path, BadValue] = {}
        for path, hold in holds.items():
            try:
                new = self._held.look(hold)
            except BadValue as error:
                failures[path] = error
                self._lose(path, hold, error)
                continue
            if new is not None:
                hold.imprint, hold.lost = new, None
                self._stage_cell(path, new.cell)
        return failures

    def _stage_cell(self, path: Path, cell: bytes) -> None:
        """Stage a value; the conflicts at what changed in it are settled."""
        before = self._stage.get(path) if self.conflicts else None
        self._stage.put(path, cell)
        if before is not None:
            for change in differences(self.cells, before, cell, path):
                self._joining.settled(change.keys)

    def _lose(self, path: Path, hold: Hold, error: BadValue) -> None:
        """Let something stand for a value that cannot be kept. An old value never comes back."""
        hold.imprint = hold.likeness = None
        hold.lost = self.cells.put(Lost.of(hold.value, error))
        self._stage.put(path, hold.lost)

    def _stage_aliases(self) -> None:
        if not len(self._held) and not self._aliases.has_parted:
            return
        self._follow_aliases()
        holds = {path: hold for path, hold in self._held if hold.lost is None}
        is_edited = not self.cells.same(self._stage.root(), self._head_cell())
        record = self._aliases.record(holds, is_edited=is_edited)
        if record:
            self._stage.put((ALIASES,), self.cells.put(record))
        elif record is not None and self._aliases_cell is not None:
            self._stage.remove((ALIASES,))
        self._follow_aliases()

    # The state moves under what was handed out

    def discard(self) -> None:
        """Drop all staged edits, changes in place, and the merge in progress."""
        with self.turn():
            self._seen_root = None
            for _, hold in self._held:
                if hold.imprint is None or self._is_changed(hold):
                    hold.imprint = None
            super().discard()

    def _is_changed(self, hold: Hold) -> bool:
        try:
            return not hold.rests and self._held.look(hold) is not None
        except BadValue:
            return True

    def _on_state_replaced(self) -> None:
        root = self._stage.root()
        if self._seen_root is None or not self.cells.same(root, self._seen_root):
            self._refresh_values()
        self._seen_root = root

    def _refresh_values(self) -> None:
        """Bring what was handed out up to date with the stage, in place where that can be done."""
        self._aliases_cell = _UNREAD
        self._follow_aliases()
        moved = self._moved([path for path, _ in self._held])
        live = {path: self._held.at(path).value for path in moved}
        others = [hold.value for path, hold in self._held if path not in moved]
        adopt = Adoption(live.values(), fixed=others, print=self._held.imprints.print)
        for path in sorted(moved, key=self._stage.names):
            self._adopt(path, moved[path], adopt)
        self._aliases.rejoin(self._held)

    def _moved(self, paths: list[Path]) -> dict[Path, bytes]:
        """Return the cells of held values that are not what they were; drop what is gone."""
        moved: dict[Path, bytes] = {}
        for path in paths:
            hold, cell = self._held.at(path), self._cell_or_none(path)
            if cell is None:
                self._held.drop(path)
            elif hold.lost is not None:
                moved |= {} if self.cells.same(cell, hold.lost) else {path: cell}
            elif hold.imprint is None or not self.cells.same(cell, hold.imprint.cell):
                moved[path] = cell
        return moved

    def _adopt(self, path: Path, cell: bytes, adopt: Adoption) -> None:
        hold, fresh = self._held.at(path), self.cells.load(cell)
        if type(fresh) is Lost or is_fixed(type(fresh)):
            self._held.drop(path)
            return
        hold.value = adopt(hold.value, fresh)
        hold.imprint, hold.likeness = self._held.imprints.of(hold.value, cell), None
        hold.lost = None

    def _cell_or_none(self, path: Path) -> bytes | None:
        try:
            return self._stage.get(path)
        except BadPath:
            return None


class TrackedBranch(ChangeTracker):
    """A branch that holds the values it hands out.

    The same path gives the same object. Handles write to the objects that are held.
    """

    # Reading

    @synchronized
    def __getitem__(self, path: str | Path) -> Any:
        keys = self._checked_keys(parse_path(path))
        value = self._held.get(keys)
        if value is MISSING:
            value = self._read(keys)
        if type(value) is Lost:
            raise NotKept(
                f"{format_path(keys)} could not be kept: it was a {value.type_name},"
                f" and {value.why}",
                hint=value.hint or "make it again",
            )
        return value

    def _read(self, keys: Path) -> object:
        self._follow_aliases()
        unit = self._unit(keys)
        if unit == keys and not _is_reserved(keys):
            hold = self._hold(keys)
            if hold is None:
                raise _nothing(keys)
            return hold.value
        cell = self._stage.get(keys)
        if cell is None:
            raise _nothing(keys)
        value = self.cells.load(cell)
        if is_fixed(type(value)) or _is_reserved(keys):
            return value
        self._hold(unit)
        return self._held.get(keys)

    def _checked_keys(self, keys: Path) -> Path:
        """Return keys that a dict can have.

        Raises:
            BadValue: one of them is not hashable.
        """
        if any(type(key) is not str for key in keys):
            self._stage.names(keys)
        return keys

    @synchronized
    def get(self, path: str | Path, default: Any = None) -> Any:
        """Return the value at a path, or the default if nothing is there.

        Raises:
            NotKept: there was something, and it could not be kept.
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
        keys = self._checked_keys(parse_path(path))
        try:
            return self._held.get(keys) is not MISSING or self._stage.get(keys) is not None
        except KeyNotFound:
            return False

    def __iter__(self) -> Iterator[str]:
        with self.turn(), self._scan_suspended():
            return iter(list(super().__iter__()))

    def __len__(self) -> int:
        with self.turn(), self._scan_suspended():
            return super().__len__()

    # Writing

    @synchronized
    def __setitem__(self, path: str | Path, value: object) -> None:
        keys = self._checked_keys(parse_own_path(path))
        unit = self._entered(keys[:-1])
        cell = None if unit is not None else self._cell_of_fixed(value)
        if unit is None and cell is None:
            unit = self._list_above(keys)
        if unit is not None:
            put_part(self._held.at(unit).value, unit, keys[len(unit) :], value)
            self._joining.settled(keys)
        elif cell is not None:
            super().write_cell(keys, cell)
            self._let_go(keys)
        else:
            # Something must stand there until it is encoded, and the path must be one.
            super().write_cell(keys, self.cells.put(None))
            self._held.assign(keys, value)

    def _cell_of_fixed(self, value: object) -> bytes | None:
        """Return the cell of a value that never changes; others are encoded when looked at."""
        try:
            return self.cells.put(value) if is_fixed(type(value)) else None
        except BadValue:
            return None  # a commit will say so

    @synchronized
    def __delitem__(self, path: str | Path) -> None:
        keys = self._checked_keys(parse_own_path(path))
        unit = self._entered(keys[:-1])
        if unit is not None:
            remove_part(self._held.at(unit).value, unit, keys[len(unit) :])
            self._joining.settled(keys)
        else:
            super().__delitem__(keys)
            self._let_go(keys)

    def _entered(self, path: Path) -> Path | None:
        """Return the path of the held value that a path leads into; what is shared is held then."""
        unit = self._held.find(path)
        if unit is None:
            self._follow_aliases()
            shared = self._aliases.above(path)
            found = self._reach(shared) if shared is not None else None
            unit = None if found is None else found[0]
        return unit

    def _list_above(self, keys: Path) -> Path | None:
        """Hold the list that a path leads into, if it does."""
        unit = self._unit(keys)
        cell = self._stage.get(unit) if unit != keys else None
        if cell is None or self.cells.kind(cell) != "list":
            return None
        self._hold(unit)
        return unit

    def _let_go(self, path: Path) -> None:
        self._held.drop(path)
        self._aliases.forget(path)

    # What handles do

    @synchronized
    def cell_at(self, path: Path) -> bytes | None:
        self._look_at(self._held.near(path))
        return super().cell_at(path)

    @synchronized
    def write_cell(self, path: Path, cell: bytes | None) -> None:
        unit = self._entered(path)
        if unit is None:
            self._look_at({below: self._held.at(below) for below in self._held.inside(path)})
            super().write_cell(path, cell)
            self._renew_inside(path)
            return
        old, fresh = self._part(path), None if cell is None else self.cells.load(cell)
        hold, new = self._held.at(unit), self._merged(old, fresh)
        if unit == path and (cell is None or is_fixed(type(new))):
            super().write_cell(path, cell)
            self._let_go(path)
        elif unit == path:
            hold.value = new
        elif cell is None:
            remove_part(hold.value, unit, path[len(unit) :])
        else:
            put_part(hold.value, unit, path[len(unit) :], new)
        self._joining.settled(path)

    @synchronized
    def extend_cell(self, path: Path, cells: list[bytes]) -> None:
        unit = self._entered(path)
        if unit is None:
            super().extend_cell(path, cells)
            return
        old, more = self._part(path), [self.cells.load(cell) for cell in cells]
        if old is MISSING:
            put_part(self._held.at(unit).value, unit, path[len(unit) :], more)
            self.adopt_policy(path, "append")
        elif type(old) is list:
            old.extend(more)
        else:
            raise BadPath(f"{format_path(path)} is not a list", hint="see `otolith ls`")
        self._joining.settled(path)

    def _part(self, path: Path) -> Any:
        try:
            return self._held.get(path)
        except KeyNotFound:
            return MISSING

    def _merged(self, old: object, fresh: object) -> object:
        """Return the object to keep for what a handle wrote: the one that was there, if it can."""
        return Adoption([old], print=self._held.imprints.print, keeps=True)(old, fresh)

    def _renew_inside(self, path: Path) -> None:
        """Bring what is held below a path up to date with what a handle wrote there."""
        for below, cell in self._moved(self._held.inside(path)).items():
            live = [self._held.at(below).value]
            self._adopt(below, cell, Adoption(live, print=self._held.imprints.print, keeps=True))


def _is_reserved(keys: Path) -> bool:
    return isinstance(keys[0], str) and keys[0].startswith(".")


def _nothing(keys: Path) -> KeyNotFound:
    return KeyNotFound(
        f"nothing at {format_path(keys)}", hint="list(state) shows what is at the top"
    )
