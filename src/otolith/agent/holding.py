"""A branch whose values are Python's own: handed out as objects, and looked at again on commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Any

from otolith.agent.tracking.aliases import Aliases
from otolith.agent.tracking.fixed import is_fixed
from otolith.agent.tracking.held import MISSING, Held, Hold, adopted, put_part, remove_part
from otolith.agent.tracking.sharing import ALIASES
from otolith.agent.turns import locked
from otolith.codecs import Lost
from otolith.core import Branch, Path, format_path, parse_own_path, parse_path
from otolith.errors import BadPath, BadValue, KeyNotFound, NotKept


class Holding(Branch):
    """A branch that holds the values it hands out.

    The same path gives the same object. A change in place is found when the whole state is looked
    at, and put on the stage like any edit. Threads take turns.
    """

    def _begin(self) -> None:
        """Start with nothing handed out."""
        self._turns = RLock()
        self._held = Held(self.cells)
        self._aliases = Aliases(hold=self._hold_again, print=self._held.imprints.print)
        self._aliases_cell: bytes | None = None
        self._is_still = False  # nothing needs to be looked at: it was a moment ago
        self._seen_root: bytes | None = None

    def turn(self) -> AbstractContextManager[object]:
        """Return what keeps other threads out."""
        return self._turns

    # Reading

    @locked
    def __getitem__(self, path: str | Path) -> Any:
        keys = parse_path(path)
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
        unit = self._aliases.unit_above(keys)
        if unit is not None and self._hold_again(unit) is not None:
            return self._held.get(keys)
        hold = self._hold_again(keys)
        if hold is None:
            raise KeyNotFound(
                f"nothing at {format_path(keys)}", hint="list(state) shows what is at the top"
            )
        return hold.value

    def _hold_again(self, keys: Path) -> Hold | None:
        """Return what is held at a path, read if need be; a fixed value is not held."""
        if self._held.find(keys) is not None:
            return (
                Hold(self._held.get(keys)) if self._held.find(keys) != keys else self._held.at(keys)
            )
        cell = self._stage.get(keys)
        if cell is None:
            return None
        value = self.cells.load(cell)
        if is_fixed(type(value)) or type(value) is Lost:
            return Hold(value)
        hold = self._held.hold(keys, value, cell)
        self._aliases.join(keys)
        return hold

    def _follow_aliases(self) -> None:
        cell = self._stage.get((ALIASES,))
        if cell != self._aliases_cell:
            self._aliases_cell = cell
            self._aliases.read(self.cells.load(cell) if cell is not None else None)

    @locked
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

    @locked
    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str | tuple):
            return False
        keys = parse_path(path)
        try:
            return self._held.get(keys) is not MISSING or self._stage.get(keys) is not None
        except KeyNotFound:
            return False

    def __iter__(self) -> Iterator[str]:
        with self.turn(), self._still():
            return iter(list(super().__iter__()))

    def __len__(self) -> int:
        with self.turn(), self._still():
            return super().__len__()

    # Writing

    @locked
    def __setitem__(self, path: str | Path, value: object) -> None:
        keys = parse_own_path(path)
        unit = self._held.find(keys[:-1])
        if unit is not None:
            put_part(self._held.at(unit).value, unit, keys[len(unit) :], value)
            self._joining.settled(keys)
        elif is_fixed(type(value)):
            super().__setitem__(keys, value)
            self._held.drop(keys)
        else:
            # Something must stand there until it is encoded, and the path must be one.
            super().__setitem__(keys, None)
            self._held.assign(keys, value)

    @locked
    def __delitem__(self, path: str | Path) -> None:
        keys = parse_own_path(path)
        unit = self._held.find(keys[:-1])
        if unit is not None:
            remove_part(self._held.at(unit).value, unit, keys[len(unit) :])
            self._joining.settled(keys)
        else:
            super().__delitem__(keys)
            self._held.drop(keys)

    # What handles do

    @locked
    def cell_at(self, path: Path) -> bytes | None:
        self._look_at(self._held.near(path))
        return super().cell_at(path)

    @locked
    def write_cell(self, path: Path, cell: bytes | None) -> None:
        near = self._held.near(path)
        self._look_at(near)
        super().write_cell(path, cell)
        self._renew(near)

    @locked
    def extend_cell(self, path: Path, cells: list[bytes]) -> None:
        near = self._held.near(path)
        self._look_at(near)
        super().extend_cell(path, cells)
        self._renew(near)

    # Looking at what was handed out

    def _root(self) -> bytes:
        if not self._is_still:
            self._look()
        return super()._root()

    @contextmanager
    def _still(self) -> Iterator[None]:
        """Do not look: what matters is known."""
        before, self._is_still = self._is_still, True
        try:
            yield
        finally:
            self._is_still = before

    def _look(self) -> dict[Path, BadValue]:
        """Stage what changed in place; return what cannot be kept, for which a `Lost` is staged."""
        failures = self._look_at([path for path, _ in self._held])
        self._stage_aliases()
        self._seen_root = self._stage.root()
        return failures

    def _look_at(self, paths: list[Path]) -> dict[Path, BadValue]:
        failures: dict[Path, BadValue] = {}
        for path in paths:
            hold = self._held.at(path)
            try:
                new = self._held.look(path)
            except BadValue as error:
                failures[path] = error
                self._lose(path, hold, error)
                continue
            if new is None and hold.lost is not None:
                new = hold.imprint
            if new is not None:
                hold.imprint, hold.lost = new, None
                self._stage.put(path, new.cell)
                self._joining.settled(path)
        return failures

    def _lose(self, path: Path, hold: Hold, error: BadValue) -> None:
        """Let something stand for a value that cannot be kept. An old value never comes back."""
        hold.lost = self.cells.put(Lost.of(hold.value, error))
        self._stage.put(path, hold.lost)

    def _stage_aliases(self) -> None:
        if not len(self._held):
            return
        self._follow_aliases()
        kept = {path: hold.value for path, hold in self._held if hold.lost is None}
        record = self._aliases.record(kept)
        cell = self.cells.put(record) if record else None
        if self.cells.same(cell, self._aliases_cell):
            return
        if cell is None:
            self._stage.remove((ALIASES,))
        else:
            self._stage.put((ALIASES,), cell)
        self._follow_aliases()

    # The state moves under what was handed out

    def discard(self) -> None:
        """Drop all staged edits, changes in place, and the merge in progress."""
        with self.turn():
            self._seen_root = None
            for path, hold in self._held:
                if hold.imprint is None or self._is_changed(path):
                    hold.imprint = None
            super().discard()

    def _is_changed(self, path: Path) -> bool:
        try:
            return self._held.look(path) is not None
        except BadValue:
            return True

    def _turned(self) -> None:
        root = self._stage.root()
        if self._seen_root is None or not self.cells.same(root, self._seen_root):
            self._renew([path for path, _ in self._held])
        self._seen_root = root

    def _renew(self, paths: list[Path]) -> None:
        """Bring what was handed out up to date with the stage, in place where that can be done."""
        for path in paths:
            hold, cell = self._held.at(path), self._cell_or_none(path)
            if cell is None:
                self._held.drop(path)
            elif hold.lost is not None and self.cells.same(cell, hold.lost):
                continue
            elif hold.imprint is None or not self.cells.same(cell, hold.imprint.cell):
                fresh = self.cells.load(cell)
                if type(fresh) is Lost or is_fixed(type(fresh)):
                    self._held.drop(path)
                    continue
                hold.value = adopted(hold.value, fresh)
                hold.imprint, hold.lost = self._held.imprints.of(hold.value, cell), None

    def _cell_or_none(self, path: Path) -> bytes | None:
        try:
            return self._stage.get(path)
        except BadPath:
            return None
