"""Stage: uncommitted edits over a state, recorded as they come, applied to the tree together.

Edits wait in nested dicts that mirror the tree, so a thousand assignments cost one walk down the
tree and not a thousand. Reading a path that has an edit finds it there; reading a container
above an edit first applies the edits that wait.

A waiting edit is a cell, None for a removal, a dict for edits further down, or a `_Tail` of
elements to append. Lists are edited at once, except at their end; so are models.

Edits of a map wait in the order in which they came, so that new keys come last in it. A key that
was removed and is put again is a new key: the removal is applied first. The names of a state, and
the maps below its reserved names, are tables: they are in key order.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, Union
from weakref import ref

from otolith.core.merge.three_way import refusal
from otolith.core.paths import CONFLICTS, Path, format_path
from otolith.core.trees.cells import EMPTY_LIST, EMPTY_MAP, Cells, Names, index_in, walk
from otolith.core.trees.model_tables import model_in
from otolith.errors import BadPath, Invalid, KeyNotFound


class _Tail:
    """Elements that wait to be appended to a list."""

    __slots__ = ("base", "cells", "start")

    def __init__(self, base: bytes, start: int) -> None:
        self.base = base
        self.start = start  # how long the list is without them
        self.cells: list[bytes] = []


class _ListOrModel(Exception):
    """Raised on the way down at a list or a model, which is edited at once."""

    def __init__(self, depth: int, cell: bytes) -> None:
        super().__init__(depth)
        self.depth = depth
        self.cell = cell


_Waiting: TypeAlias = Union[bytes, _Tail, "dict[bytes, _Waiting]", None]


class StageOwner(Protocol):
    """What knows the state that edits are made on: the committer of the branch."""

    @property
    def head_cell(self) -> bytes:
        """The cell of the head."""


class Stage:
    """The state that would be committed now."""

    def __init__(self, cells: Cells, root: bytes) -> None:
        self._cells = cells
        self.table_levels = 1
        """How many levels of maps are tables, whatever their names."""
        self._owner: ref[StageOwner] | None = None  # which refers to this stage
        # One attribute, so that an interruption leaves either both old or both new.
        self._now: tuple[bytes, dict[bytes, _Waiting]] = (root, {})
        self._prefetched: bytes | None = None

    def follow(self, owner: StageOwner) -> None:
        """Take the head of an owner for the state that the edits are made on."""
        self._owner = ref(owner)

    @property
    def _root(self) -> bytes:
        return self._now[0]

    @property
    def _waiting(self) -> dict[bytes, _Waiting]:
        return self._now[1]

    def root(self) -> bytes:
        """Apply the waiting edits; return the loose cell of the whole state."""
        root, waiting = self._now
        if waiting:
            root = self._cells.edit_state(root, self._edits(root, waiting, ()))
            # Only now: a node that could not be read must not cost the edits.
            self._now = (root, {})
        return root

    def reset(self, root: bytes) -> None:
        """Forget all edits and start from another state."""
        self._now = (self._cells.state(root), {})

    def waiting_names(self) -> list[str]:
        """Return the names at the top below which edits wait, without applying them."""
        return [str(self._cells.encoding.unkey(key)) for key in list(self._waiting)]

    def names(self, path: Path) -> Names:
        """Return the key bytes of a path."""
        return tuple(map(self._cells.encoding.key, path))

    def prefetch(self, *paths: Path) -> None:
        """Read the nodes on the way to the first names of paths together, once for each root.

        A state that is far away is then read in as many round trips as its tree has levels.
        """
        root = self._root
        if root is self._prefetched:
            return
        self._prefetched = root
        link = self._cells.tree(root)
        if link is not None:
            self._cells.maps.prefetch(
                link, [name for path in paths for name in self.names(path[:1])]
            )

    def get(self, path: Path) -> bytes | None:
        """Return the cell at a path."""
        names = self.names(path)
        at: _Waiting = self._waiting
        for depth, name in enumerate(names):
            if isinstance(at, dict):
                if name not in at:
                    return walk(self._cells, self._root, names)
                at = at[name]
            elif isinstance(at, bytes):
                return walk(self._cells, at, names[depth:])
            elif at is None:
                return None
            else:
                return walk(self._cells, self.root(), names)
        if isinstance(at, dict | _Tail):
            return walk(self._cells, self.root(), names)
        return at

    def put(self, path: Path, cell: bytes) -> None:
        """Set the cell at a path; missing maps on the way are created.

        Raises:
            BadPath: something on the way is neither a map nor a list.
        """
        self._write(path, cell)

    def remove(self, path: Path) -> None:
        """Remove the cell at a path.

        Raises:
            KeyNotFound: nothing is there.
        """
        if self.get(path) is None:
            raise KeyNotFound(
                f"nothing at {format_path(path)}", hint="list(state) lists the names at the top"
            )
        self._write(path, None)

    def extend(self, path: Path, cells: list[bytes]) -> bool:
        """Append to the list at a path; return whether the list is new."""
        tail = self._waiting_at(path)
        if isinstance(tail, _Tail):
            tail.cells += cells
            return False
        base = self.get(path)
        if base is not None and self._cells.kind(base) != "list":
            raise BadPath(
                f"{format_path(path)} is not a list", hint="list(state) lists the names at the top"
            )
        tail = _Tail(base, self._cells.length(base)) if base is not None else _Tail(EMPTY_LIST, 0)
        tail.cells += cells
        self._write(path, tail)
        return base is None

    def length(self, path: Path) -> int:
        """Return how long the list at a path is, without applying what waits."""
        tail = self._waiting_at(path)
        if isinstance(tail, _Tail):
            return tail.start + len(tail.cells)
        cell = self.get(path)
        return 0 if cell is None else self._cells.length(cell)

    def _waiting_at(self, path: Path) -> _Waiting:
        """Return what is staged at a path: a cell, a dict of edits, or None."""
        at: _Waiting = self._waiting
        for name in self.names(path):
            at = at.get(name) if isinstance(at, dict) else None
        return at

    def _write(self, path: Path, cell: bytes | _Tail | None) -> None:
        """Stage a cell at a path; below a list or a model, that itself is edited."""
        names = self.names(path)
        try:
            at, depth = self._place(path, names)
        except _ListOrModel as inside:
            parts, elements = path[: inside.depth], path[inside.depth :]
            new = None if cell is None else self._apply(None, cell, names)
            self._write(parts, self._with_edit(inside.cell, elements, new, parts))
            return
        was_removed = cell is not None and at.get(names[depth], _NOTHING) is None
        if was_removed and not self._is_table(names[:depth]):
            self.root()  # now the key is gone, and comes again as the last one
            self._write(path, cell)
            return
        edit: _Waiting = cell
        for name in reversed(names[depth + 1 :]):
            edit = {name: edit}
        at[names[depth]] = edit  # in one step, so that an interruption leaves no empty maps

    def _with_edit(self, cell: bytes, path: Path, new: bytes | None, above: Path) -> bytes:
        """Return a cell in which a path below it is set, or removed."""
        here = (*above, path[0])
        kind = self._cells.kind(cell)
        if kind == "tagged":
            return self._with_named(cell, path, new, above)
        if kind not in ("list", "map"):
            raise _no_parts(above, kind)
        old = walk(self._cells, cell, self.names(path[:1]))
        if old is None and (kind == "list" or new is None):
            raise KeyNotFound(
                f"nothing at {format_path(here)}", hint="append to a list with state.list(path)"
            )
        if len(path) > 1:
            new = self._with_edit(EMPTY_MAP if old is None else old, path[1:], new, here)
        if kind == "map":
            return self._cells.edit_map(cell, {self.names(path)[0]: new})
        at = index_in(path[0], self._cells.length(cell)) or 0
        return self._cells.splice(cell, at, at + 1, [] if new is None else [new])

    def _with_named(self, cell: bytes, path: Path, new: bytes | None, above: Path) -> bytes:
        """Return the cell of a model in which a path below it is set, or removed."""
        here, name = (*above, path[0]), self.names(path[:1])[0]
        model = model_in(self._cells, cell)
        if model is None:
            raise _no_parts(above, "tagged")
        old = model.entry(name, self._cells)
        if old is None and (new is None or len(path) > 1):
            raise _no_name(here, model.all_names)
        if old is not None and len(path) > 1:
            new = self._with_edit(old, path[1:], new, here)
        is_known = self.get((CONFLICTS, format_path((*above, *path)))) is not None
        edited = model.with_entry(name, new, self._cells, is_known=is_known)
        if edited is None and old is None:
            raise _no_name(here, model.all_names)
        if edited is None:
            raise field_stays(here)
        why = self._refusal(above, (*above, *path), cell, edited)
        if why:
            raise Invalid(
                f"{format_path(here)}: the class of {format_path(above)} refuses it: {why}",
                hint="give it another value, or replace the whole",
            )
        return edited

    def _refusal(self, path: Path, written: Path, old: bytes, new: bytes) -> str:
        """Return why the class of a model refuses what a write makes of it, or nothing.

        While other conflicts in the model are left to decide, its class is not asked.
        """
        top, done = format_path(path) + "/", format_path(written) + "/"
        cell = self.get((CONFLICTS,))
        names = self._cells.names(cell) if cell and self._cells.kind(cell) == "map" else []
        left = [f"{self._cells.encoding.unkey(name)}/" for name in names]
        if any(each.startswith(top) and not each.startswith(done) for each in left):
            return ""
        owner = None if self._owner is None else self._owner()
        head = EMPTY_MAP if owner is None else owner.head_cell
        committed = walk(self._cells, head, self.names(path))
        return refusal(self._cells, new, committed or old, old)

    def _place(self, path: Path, names: Names) -> tuple[dict[bytes, _Waiting], int]:
        """Return the lowest map on the way that has waiting edits, and how deep it is."""
        at = self._waiting
        for depth, name in enumerate(names[:-1]):
            below = at.get(name, _NOTHING)
            if below is _NOTHING:
                for length in range(depth + 1, len(names)):
                    self._check_map(path[:length], names[:length])
                return at, depth
            if not isinstance(below, dict):
                self.root()  # now the edit is part of the tree, and can be entered
                return self._place(path, names)
            at = below
        return at, len(names) - 1

    def _check_map(self, path: Path, names: Names) -> None:
        """Refuse to go down through anything but a map, or nothing."""
        cell = walk(self._cells, self._root, names)
        kind = "map" if cell is None else self._cells.kind(cell)
        if cell is not None and kind in ("list", "tagged"):
            raise _ListOrModel(len(path), cell)
        if kind != "map":
            raise _no_parts(path, kind)

    def _is_table(self, names: Names) -> bool:
        """Tell whether a map is in key order: near the root, or below a reserved name."""
        return len(names) < self.table_levels or names[0].startswith(RESERVED)

    def _apply(self, cell: bytes | None, waiting: _Waiting, names: Names) -> bytes:
        """Return a cell, which has this path, with a waiting edit applied."""
        if isinstance(waiting, _Tail):
            end = waiting.start
            return self._cells.splice(waiting.base, end, end, waiting.cells)
        if isinstance(waiting, bytes):
            return waiting
        base = EMPTY_MAP if cell is None else cell
        edits = self._edits(base, waiting or {}, names)
        return self._cells.edit_map(base, edits, is_table=self._is_table(names))

    def _edits(
        self, base: bytes, waiting: dict[bytes, _Waiting], names: Names
    ) -> dict[bytes, bytes | None]:
        """Return the cells that staged edits make of the entries of a map at this path."""
        edits: dict[bytes, bytes | None] = {}
        for name, edit in waiting.items():
            inner = self._cells.entry(base, name) if isinstance(edit, dict) else None
            edits[name] = None if edit is None else self._apply(inner, edit, (*names, name))
        return edits


RESERVED = b"."
"""The first byte of the names at the top that belong to otolith."""

_NOTHING = object()


def field_stays(path: Path) -> BadPath:
    """Return the error for the removal of a field."""
    return BadPath(
        f"{format_path(path)} is a field, it cannot be removed",
        hint="set it to another value, or replace the whole",
    )


def _no_name(path: Path, names: list[bytes]) -> KeyNotFound:
    """Return the error for a name that a model does not have."""
    known = ", ".join(name.decode(errors="replace") for name in names[:10])
    return KeyNotFound(f"nothing at {format_path(path)}", hint=f"there is: {known}")


def _no_parts(path: Path, kind: str) -> BadPath:
    """Return the error for a path below a value that is not a container."""
    return BadPath(
        f"{format_path(path)} is a {kind}, it has no parts to set",
        hint=f"remove {format_path(path)} first, or choose another path",
    )
