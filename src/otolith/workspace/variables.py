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

from dataclasses import dataclass
from typing import Any

from otolith.core import WORKSPACE, StateReader
from otolith.workspace.result_check import TABLES


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
    index = WorkspaceTables(state).entry("vars")
    entries = index.items() if isinstance(index, dict) else ()
    return [_variable(str(name), entry) for name, entry in sorted(entries)]


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
