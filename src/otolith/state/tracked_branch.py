"""A branch that looks again at what it handed out, and brings it up to date when the state moves.

Values are *held*, one object for each path. A change in place is found by looking at them, and put
on the stage like any edit. A list is held as a whole, because its elements change their paths; and
so is what is shared, from the first place that it is shared at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import RLock

from otolith.agent.tracking.adoption import Adoption
from otolith.agent.tracking.aliases import Aliases
from otolith.agent.tracking.fixed import is_fixed
from otolith.agent.tracking.held import Held
from otolith.agent.tracking.hold import Hold
from otolith.agent.tracking.imprint import Shape
from otolith.codecs import Lost
from otolith.core import ALIASES, Branch, Conflict, Path, differences
from otolith.errors import BadPath, BadValue

_UNREAD = b""


class Looking(Branch):
    """A branch that knows what it handed out. Threads take turns."""

    def _begin(self, *shapes: Shape) -> None:
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

    def _turned(self) -> None:
        root = self._stage.root()
        if self._seen_root is None or not self.cells.same(root, self._seen_root):
            self._renew()
        self._seen_root = root

    def _renew(self) -> None:
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
