"""Tables of models: the fields and other attributes of an instance, read without its class.

A *model* is an instance of a class. It is stored as a tagged value, whose data is one of

    [type name, version, fields]
    [type name, version, fields, [attributes]]
    [type name, version, fields, [given, extra or None, private or None]]

(`codecs/models.py` writes it). Here it is a few maps from names to values, its *tables*, the fields
first; so it is read, compared and edited by name, without its class. `given` are the names that
were set and are not defaults. Anything else under this tag was forged, or is of a newer otolith:
it is one value, without parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Protocol

from otolith.core.trees.encoding import Encoding
from otolith.types import Tag, Tagged

_NONE, _EMPTY_MAP, _EMPTY_LIST = b"\xc0", b"\x80", b"\x90"
_OTHER_KEY = b"\xff"
"""What the key bytes of keys that are not text start with."""

_PRIVATE = b"_"
_MOST_NAMES = 10_000


class ModelCells(Protocol):
    """What a model needs of `Cells`."""

    encoding: Encoding

    def tag(self, cell: bytes) -> Tagged | None:
        """Return the code of a tagged cell and the loose cell of its data."""

    def kind(self, cell: bytes) -> str:
        """Name what a cell holds."""

    def same(self, a: bytes | None, b: bytes | None) -> bool:
        """Tell whether two cells hold the same value."""

    def put(self, value: object) -> bytes:
        """Return a value as a loose cell."""

    def load(self, cell: bytes) -> object:
        """Return the value in a cell."""

    def loosen(self, cell: bytes) -> bytes:
        """Return a settled cell as a loose one."""

    def length(self, cell: bytes) -> int:
        """Return how many entries a map or list has."""

    def elements(self, cell: bytes) -> Iterator[bytes]:
        """Yield the cells of a list."""

    def entries_from(self, cell: bytes, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield key bytes and cells of a map in key order."""

    def entry(self, cell: bytes, key: bytes) -> bytes | None:
        """Return the cell at a key of a map."""

    def edit_map(
        self, cell: bytes, edits: dict[bytes, bytes | None], *, is_table: bool = False
    ) -> bytes:
        """Return a map with these loose cells put in, or removed where None."""

    def splice(self, cell: bytes, start: int, stop: int, parts: list[bytes]) -> bytes:
        """Return a list with elements replaced by these loose cells."""

    def tagged_cell(self, code: int, data: bytes) -> bytes:
        """Return the loose cell of a tagged value, given the loose cell of its data."""


@dataclass(frozen=True, slots=True)
class ModelTables:
    """A model as the loose cells of its parts."""

    head: tuple[bytes, bytes]
    """The cells of the name and the version of its type."""
    tables: tuple[bytes | None, ...]
    """Its fields; then its other attributes, or the extra and private ones, None if it has none."""
    names: tuple[frozenset[bytes], ...]
    """The names in each table, as key bytes."""
    given: frozenset[bytes] | None
    """The names that were set; None for types that do not record it."""

    @property
    def all_names(self) -> list[bytes]:
        """The names of its fields, and then of all other attributes."""
        return [name for names in self.names for name in sorted(names)]

    def is_like(self, other: ModelTables, cells: ModelCells) -> bool:
        """Tell whether another model has the same type, version and fields."""
        if not all(map(cells.same, self.head, other.head)) or self.names[0] != other.names[0]:
            return False
        lacks = [[table is None for table in each.tables] for each in (self, other)]
        both = [mine | yours for mine, yours in zip(self.names, other.names, strict=False)]
        is_one_kind = lacks[0] == lacks[1] and (self.given is None) == (other.given is None)
        return is_one_kind and _are_apart(both)

    def entry(self, name: bytes, cells: ModelCells) -> bytes | None:
        """Return the cell of a field or attribute."""
        for table, names in zip(self.tables, self.names, strict=True):
            if table is not None and name in names:
                return cells.entry(table, name)
        return None

    def with_entry(
        self, name: bytes, cell: bytes | None, cells: ModelCells, *, is_known: bool = False
    ) -> bytes | None:
        """Return the cell of the model with a part set, or removed; None if it cannot be.

        A field cannot be removed. A new name is an extra attribute, where the class allows these;
        one that is known to be an attribute of the class can be any.
        """
        at = next((at for at, names in enumerate(self.names) if name in names), None)
        if at is None and cell is not None and not name.startswith(_OTHER_KEY):
            is_private = self.given is not None and name.startswith(_PRIVATE)
            is_extra = self.given is not None and not is_private
            at = (2 if is_private else 1) if is_extra or is_known else None
        table = None if at is None else self.tables[at]
        if at is None or table is None or (cell is None and at == 0):
            return None
        tables, given = list(self.tables), self.given
        tables[at] = cells.edit_map(table, {name: cell}, is_table=given is None or at != 1)
        if given is not None and at < 2:
            given = given - {name} if cell is None else given | {name}
        return self.replaced(tables, given, cells)

    def replaced(
        self, tables: Sequence[bytes | None], given: frozenset[bytes] | None, cells: ModelCells
    ) -> bytes:
        """Return the cell of the model with other tables."""
        parts = [*self.head, tables[0] or _EMPTY_MAP]
        if given is not None:
            names = cells.put([name.decode() for name in sorted(given)])
            rest = [names, *(_NONE if table is None else table for table in tables[1:])]
            parts.append(_list_of(cells, rest))
        elif tables[1] is not None and tables[1] != _EMPTY_MAP:
            parts.append(_list_of(cells, [tables[1]]))
        return cells.tagged_cell(Tag.MODEL, _list_of(cells, parts))


def model_in(cells: ModelCells, cell: bytes) -> ModelTables | None:
    """Return the model in a cell, or None if it is anything else."""
    tag = cells.tag(cell)
    if tag is None or tag.code != Tag.MODEL or not isinstance(tag.data, bytes):
        return None
    parts = _parts_of(cells, tag.data, 3, 4)
    if not parts or not _is_head(cells, *parts[:2]):
        return None
    rest = _parts_of(cells, parts[3], 1, 3) if len(parts) == 4 else [_EMPTY_MAP]
    given = _given(cells, rest.pop(0)) if len(rest) == 3 else None
    is_sound = bool(rest) and (given is not None) == (len(rest) == 2)
    tables = [parts[2], *(None if given is not None and part == _NONE else part for part in rest)]
    names = [_names(cells, table) for table in tables]
    known = tuple(each for each in names if each is not None)
    if not is_sound or len(known) < len(names) or not _are_apart(known):
        return None
    return ModelTables((parts[0], parts[1]), tuple(tables), known, given)


def _parts_of(cells: ModelCells, cell: bytes, *lengths: int) -> list[bytes]:
    """Return the loose elements of a list of one of these lengths; of anything else, none."""
    if cells.kind(cell) != "list" or cells.length(cell) not in lengths:
        return []
    found = [cells.loosen(part) for part in islice(cells.elements(cell), max(lengths) + 1)]
    return found if len(found) in lengths else []


def _is_head(cells: ModelCells, name: bytes, version: bytes) -> bool:
    """Tell whether two cells can be the name and the version of a type."""
    if cells.kind(name) != "str" or cells.kind(version) != "scalar":
        return False
    number = cells.load(version)
    return type(number) is int and number >= 1


def _given(cells: ModelCells, cell: bytes) -> frozenset[bytes] | None:
    """Return the names in a sorted list of names, as key bytes."""
    names = cells.load(cell) if cells.kind(cell) == "list" else None
    if not isinstance(names, list) or any(type(name) is not str for name in names):
        return None
    keys = frozenset(map(cells.encoding.key, names))
    is_text = not any(key.startswith(_OTHER_KEY) for key in keys)
    return keys if is_text and names == sorted(set(names)) else None


def _names(cells: ModelCells, table: bytes | None) -> frozenset[bytes] | None:
    """Return the names in a table, or None if it is not one."""
    if table is None:
        return frozenset()
    if cells.kind(table) != "map":
        return None
    names = [key for key, _ in islice(cells.entries_from(table, b""), _MOST_NAMES + 1)]
    is_table = len(names) <= _MOST_NAMES and not any(n.startswith(_OTHER_KEY) for n in names)
    return frozenset(names) if is_table else None


def _are_apart(names: Sequence[frozenset[bytes]]) -> bool:
    """Tell whether no name is in two tables."""
    return all(mine.isdisjoint(yours) for mine, yours in combinations(names, 2))


def _list_of(cells: ModelCells, parts: list[bytes]) -> bytes:
    """Return the loose cell of a list with these loose cells."""
    return cells.splice(_EMPTY_LIST, 0, 0, parts)
