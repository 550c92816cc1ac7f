"""What can be read of a workspace on the host: what is known of variables, and those that are data.

Nothing is unpickled here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from otolith.core import WORKSPACE, Branch
from otolith.errors import Denied, KeyNotFound, NotKept


@dataclass(frozen=True)
class Variable:
    """What is known of a variable without reading it."""

    name: str
    kind: str  # data, object, module, resource, lost
    type: str
    step: int
    preview: str = ""
    bytes: int = 0
    shape: tuple[int, ...] | None = None
    columns: tuple[tuple[str, str], ...] = ()
    why: str = ""


class Readable:
    """The variables of a state, as far as they are data."""

    state: Branch

    def vars(self) -> list[Variable]:
        """Return what is known of all variables. Nothing is unpickled."""
        index = self._entry("vars") or {}
        return [_variable(name, entry) for name, entry in sorted(index.items())]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.state.cell_at((WORKSPACE, "vars", name)) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names("vars"))

    def __getitem__(self, name: str) -> Any:
        """Return a variable that is data.

        Raises:
            KeyNotFound: there is none.
            NotKept: it could not be kept.
            Denied: it is a pickle; `get(name, trusted=True)` loads it all the same.
        """
        entry = self._entry("vars", name)
        if entry is None:
            raise KeyNotFound(f"there is no variable {name}", hint="see vars()")
        if entry["kind"] == "data":
            return self._entry("data", name)
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

    def _value(self) -> Any:
        cell = self.state.cell_at((WORKSPACE, "last", "value"))
        return None if cell is None else self.state.cells.load(cell)

    def _entry(self, *path: str) -> Any:
        cell = self.state.cell_at((WORKSPACE, *path))
        return None if cell is None else self.state.cells.load(cell)

    def _names(self, table: str) -> list[str]:
        cell = self.state.cell_at((WORKSPACE, table))
        if cell is None:
            return []
        unkey = self.state.cells.encoding.unkey
        return [str(unkey(key)) for key, _ in self.state.cells.entries(cell)]


def _variable(name: str, entry: dict[str, Any]) -> Variable:
    shape = entry.get("shape")
    return Variable(
        name=name,
        kind=str(entry.get("kind", "")),
        type=str(entry.get("type", "")),
        step=int(entry.get("step", entry.get("made", 0))),
        preview=str(entry.get("preview", "")),
        bytes=int(entry.get("bytes", 0)),
        shape=tuple(shape) if isinstance(shape, list) else None,
        columns=tuple((str(c), str(t)) for c, t in entry.get("columns", ())),
        why=str(entry.get("why", "")),
    )


def _article(kind: str) -> str:
    return "an object" if kind == "object" else f"a {kind}"
