"""The variables of a workspace, as far as the host reads them: descriptions, and values of data.

Nothing is unpickled here. A state has these tables of a workspace, below `.workspace`:

    vars        the description of each variable
    data        variables that are data
    objects     pickles of those that are not; `signatures` of them
    classes     which pickle has a class; `code` has the sources
    files       the work folder
    ambient     modules, random numbers, environment
    resources   variables that each process makes again, and their factories
    last        the code, value and output of the last step
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from otolith.core import WORKSPACE, Cells, StateReader
from otolith.errors import Error
from otolith.types import short_repr
from otolith.workspace.result_check import TABLES
from otolith.workspace.worker.value_summary import describe, is_summary_of


class WorkspaceTables:
    """Reads the tables of a workspace in a state."""

    def __init__(self, state: StateReader) -> None:
        self._state = state

    def cell(self, *path: str) -> bytes | None:
        """Return the cell at a path, or None."""
        return self._state.cell_at((WORKSPACE, *path))

    def entry(self, *path: str) -> Any:
        """Return the value at a path, or None."""
        cell = self.cell(*path)
        return None if cell is None else self._state.cells.load(cell)

    def names(self, table: str) -> list[str]:
        """Return the keys of a table."""
        cell = self.cell(table)
        if cell is None:
            return []
        unkey = self._state.cells.encoding.unkey
        return [str(unkey(key)) for key, _ in self._state.cells.entries(cell)]

    def roots(self) -> dict[str, bytes]:
        """Return the root cells of the tables that a worker reads."""
        found = {name: self.cell(name) for name in (*TABLES, "signatures")}
        settle = self._state.cells.settle
        return {name: settle(cell) for name, cell in found.items() if cell is not None}

    def config(self) -> bytes:
        """Return the object with the constants of the repo."""
        store = self._state.cells.objects.stored.store
        hash = store.ref(".config")
        assert hash is not None
        return store.read([hash])[hash]

    @property
    def step_number(self) -> int:
        """The number of the last step."""
        number = self.entry("last", "step")
        return number if isinstance(number, int) else 0

    @property
    def modules(self) -> list[str]:
        """The modules that steps have imported."""
        ambient = self.entry("ambient") or {}
        return [name for name in ambient.get("modules", []) if isinstance(name, str)]

    @property
    def resources(self) -> dict[str, str]:
        """The factories of variables that each process makes again, by name."""
        return dict(self.entry("resources") or {})


@short_repr("name", "type", "preview", "kind")
@dataclass(frozen=True)
class Variable:
    """The description of a variable, which is stored beside it and does not read it.

    `kind` is "data", "object", "module", "resource" or "lost". Of a lost variable, `why` has the
    reason. `hint` says how to get its value, where that is not obvious.
    """

    name: str
    kind: str
    type: str
    step: int  # the last one that changed it
    preview: str = ""
    bytes: int = 0
    shape: tuple[int, ...] | None = None
    length: int | None = None  # if it has one and no shape
    columns: tuple[tuple[str, str], ...] = ()
    why: str = ""
    hint: str = ""


def variables_in(state: StateReader) -> list[Variable]:
    """Return the descriptions of the variables of a state, sorted by name."""
    root = state.cell_at((WORKSPACE,))
    if root is None:
        return []
    found = VariableEntries(state.cells, root)
    return [_variable(name, found.current(name)) for name in found.names]


class VariableEntries:
    """The entries of `vars` in one state, given by the root cell of its workspace."""

    def __init__(self, cells: Cells, root: bytes | None) -> None:
        self._cells = cells
        self.tables = {} if root is None else self._parts(root)
        self._data = self._parts(self.tables["data"]) if "data" in self.tables else {}
        entries = cells.load(self.tables["vars"]) if "vars" in self.tables else {}
        self._entries: dict[str, dict[str, Any]] = entries if isinstance(entries, dict) else {}

    def _parts(self, cell: bytes) -> dict[str, bytes]:
        """Return the cells of a map, by name."""
        unkey = self._cells.encoding.unkey
        return {str(unkey(key)): part for key, part in self._cells.entries(cell)}

    @property
    def names(self) -> list[str]:
        """The names of all variables, sorted."""
        return sorted(self._entries)

    def current(self, name: str) -> dict[str, Any]:
        """Return the entry of a variable, with a summary of the value that it has now.

        A merge can give it another value than the one that its entry describes; then the value is
        read. What cannot be read here has no summary but its type.
        """
        entry, cell = self._entries.get(name, {}), self._data.get(name)
        if cell is None or is_summary_of(entry, self._cells.settle(cell)):
            return entry
        try:
            return {**_without(entry, _SUMMARY), **describe(self._cells.load(cell))}
        except (Error, ImportError):
            known = {"type": entry.get("type"), "bytes": self._cells.full_size(cell)}
            return {**_without(entry, _SUMMARY), **known}

    def content(self, name: str) -> object:
        """Return what is equal for equal variables, wherever they were made; None if there is none.

        That is the cell of the value or pickle, and the entry without its description.
        """
        entry = self._entries.get(name)
        if entry is None:
            return None
        place = {"data": ("data", name), "object": ("objects", str(entry.get("group")))}
        table, key = place.get(str(entry.get("kind")), ("", ""))
        parts = self.tables.get(table)
        cell = parts and self._cells.entry(parts, self._cells.encoding.key(key))
        return cell and self._cells.settle(cell), _without(entry, _DESCRIPTION)


_SUMMARY = frozenset({"type", "shape", "columns", "length", "bytes", "preview", "of"})
_DESCRIPTION = _SUMMARY | {"step", "made", "leaning_on", "leaning_in"}


def _without(entry: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {key: part for key, part in entry.items() if key not in names}


def describe_entry(entry: Mapping[str, Any]) -> str:
    """Return the short description of a variable: type and shape, or type and preview."""
    if not entry:
        return ""
    kind, shape = entry.get("type", "?"), entry.get("shape")
    if entry.get("kind") == "lost":
        return f"{kind}, lost: {entry.get('why')}"
    if entry.get("columns") and isinstance(shape, list):
        return f"{kind} {' x '.join(map(str, shape))}"
    preview = " ".join(str(entry.get("preview", "")).split())[:60]
    return f"{kind} {preview}".strip()


def _variable(name: str, entry: dict[str, Any]) -> Variable:
    """Return the description in an entry of `vars`, which another version may have written."""
    shape, length = entry.get("shape"), entry.get("length")
    return Variable(
        name=name,
        kind=str(entry.get("kind", "")),
        type=str(entry.get("type", "")),
        step=int(entry.get("step", entry.get("made", 0))),
        preview=str(entry.get("preview", "")),
        bytes=int(entry.get("bytes", 0)),
        shape=tuple(shape) if isinstance(shape, list) else None,
        length=length if isinstance(length, int) else None,
        columns=tuple((str(c), str(t)) for c, t in entry.get("columns", ())),
        why=str(entry.get("why", "")),
        hint=_hint(entry),
    )


def _hint(entry: dict[str, Any]) -> str:
    """Return how to get the value of a variable."""
    kind = entry.get("kind")
    if kind == "lost":
        return str(entry.get("hint") or "make it again")
    if kind == "resource":
        return f"{entry.get('factory')} makes it again in each process, when it is first used"
    if kind == "module":
        needed = " ".join(str(entry[key]) for key in ("module", "version") if key in entry)
        return f"it needs {needed} where the steps run"
    if kind == "object":
        return "look at it in a step, or get(name, trusted=True) if you trust what ran"
    return ""
