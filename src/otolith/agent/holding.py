"""A branch as a dict whose values are Python's own: what it hands out is what it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.agent.looking import Looking
from otolith.agent.tracking.adoption import Adoption
from otolith.agent.tracking.fixed import is_fixed
from otolith.agent.tracking.held import MISSING, put_part, remove_part
from otolith.agent.turns import locked
from otolith.codecs import Lost
from otolith.core import Path, format_path, parse_own_path, parse_path
from otolith.errors import BadPath, BadValue, KeyNotFound, NotKept


class Holding(Looking):
    """A branch that holds the values it hands out.

    The same path gives the same object. Handles write to the objects that are held.
    """

    # Reading

    @locked
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
        keys = self._checked_keys(parse_path(path))
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

    @locked
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

    @locked
    def cell_at(self, path: Path) -> bytes | None:
        self._look_at(self._held.near(path))
        return super().cell_at(path)

    @locked
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

    @locked
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
