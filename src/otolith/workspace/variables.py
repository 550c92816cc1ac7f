"""What can be read of a workspace on the host: what is known of variables, and those that are data.

Nothing is unpickled here.

What a state keeps of a workspace, table by table.

vars        what is known of each variable
data        variables that are data
objects     pickles of those that are not; `signatures` of them
classes     which pickle has a class; `code` has the sources
files       the work folder
ambient     modules, random numbers, environment
resources   variables that are made anew, and by what
last        the code, value and output of the last step
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from otolith.core import WORKSPACE, Branch, StateReader
from otolith.errors import Denied, KeyNotFound, NotKept
from otolith.workspace.result_check import TABLES


class Tables:
    """The workspace in a state, as it is now."""

    def __init__(self, state: StateReader) -> None:
        self._state = state

    def cell(self, *path: str) -> bytes | None:
        """Return the cell at a place, or None."""
        return self._state.cell_at((WORKSPACE, *path))

    def entry(self, *path: str) -> Any:
        """Return what is at a place, or None."""
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
        """Return the tables that a worker reads, by the cells at their tops."""
        found = {name: self.cell(name) for name in (*TABLES, "signatures")}
        settle = self._state.cells.settle
        return {name: settle(cell) for name, cell in found.items() if cell is not None}

    def config(self) -> bytes:
        """Return the constants of the repo."""
        store = self._state.cells.objects.stored.store
        hash = store.ref(".config")
        assert hash is not None
        return store.read([hash])[hash]

    @property
    def number(self) -> int:
        """How many steps there were."""
        number = self.entry("last", "step")
        return number if isinstance(number, int) else 0

    @property
    def modules(self) -> list[str]:
        """What steps have imported."""
        ambient = self.entry("ambient") or {}
        return [name for name in ambient.get("modules", []) if isinstance(name, str)]

    @property
    def resources(self) -> dict[str, str]:
        """Variables that are made anew in each process, and the factories that make them."""
        return dict(self.entry("resources") or {})


@dataclass(frozen=True)
class Variable:
    """What is known of a variable without reading it."""

    name: str
    kind: str  # data, object, module, resource, lost
    type: str
    step: int  # that changed it last
    preview: str = ""
    bytes: int = 0
    shape: tuple[int, ...] | None = None
    length: int | None = None  # of what has one and no shape
    columns: tuple[tuple[str, str], ...] = ()
    why: str = ""  # it is lost
    hint: str = ""  # what to do to have it, where it is not just there


class Readable:
    """The variables of a state, as far as they are data."""

    def __init__(self, state: Branch) -> None:
        self.state = state
        self._tables = Tables(state)

    def vars(self) -> list[Variable]:
        """Return what is known of all variables. Nothing is unpickled."""
        return variables_in(self.state)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._tables.cell("vars", name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables.names("vars"))

    def __getitem__(self, name: str) -> Any:
        """Return a variable that is data.

        Raises:
            KeyNotFound: there is none.
            NotKept: it could not be kept.
            Denied: it is a pickle; `get(name, trusted=True)` loads it all the same.
        """
        entry = self._tables.entry("vars", name)
        if entry is None:
            raise KeyNotFound(f"there is no variable {name}", hint="see vars()")
        if entry["kind"] == "data":
            return self._tables.entry("data", name)
        if entry["kind"] == "lost":
            raise NotKept(
                f"{name} could not be kept: it was a {entry['type']}, and {entry['why']}",
                hint=entry.get("hint", ""),
            )
        raise Denied(
            f"{name} is a {entry['type']}, kept as {_article(entry['kind'])}:"
            " it is not loaded into this process",
            hint="look at it in a step, or get(name, trusted=True) if you trust what ran",
        )


def variables_in(state: StateReader) -> list[Variable]:
    """Return what a state knows of its variables, by name."""
    index = Tables(state).entry("vars")
    entries = index.items() if isinstance(index, dict) else ()
    return [_variable(str(name), entry) for name, entry in sorted(entries)]


def _variable(name: str, entry: dict[str, Any]) -> Variable:
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
    """Return what somebody has to do who wants this variable."""
    kind = entry.get("kind")
    if kind == "lost":
        return str(entry.get("hint") or "make it again")
    if kind == "resource":
        return f"{entry.get('factory')} makes it anew in each process, when it is first used"
    if kind == "module":
        needed = " ".join(str(entry[word]) for word in ("module", "version") if word in entry)
        return f"it needs {needed} where the steps run"
    if kind == "object":
        return "look at it in a step, or get(name, trusted=True) if you trust what ran"
    return ""


def _article(kind: str) -> str:
    return "an object" if kind == "object" else f"a {kind}"
