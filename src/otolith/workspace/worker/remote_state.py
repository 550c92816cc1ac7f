"""The state of a workspace as a worker sees it: read from the host, changed here, handed over.

data/NAME        variables that are data: values as any state keeps them
objects/GROUP    variables that are not: pickles, a group to those that share objects
classes/ID       classes that were defined in a step
code/KEY         the source of steps that functions and classes come from
vars/NAME        what is known of each variable without reading it
last             what the last step was, returned, raised and drew
ambient          generators of random numbers, the folder, the environment
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otolith.codecs import Codecs
from otolith.core import ALIASES, Backend, Cells, Path
from otolith.errors import BadValue
from otolith.state.tracked_branch import TrackedBranch
from otolith.workspace.protocol import Host, NewObject
from otolith.workspace.worker.mapped_memory import MappingCells, Mappings
from otolith.workspace.worker.remote_store import HandingBuffer, RemoteStore
from otolith.workspace.worker.value_traits import with_traits

TABLES = (ALIASES, "ambient", "classes", "code", "data", "last", "objects", "signatures", "vars")
"""What a workspace is made of. Signatures are the host's: a worker reads them and writes none."""

_REF = "session/workspace/main"


class _Archive(Backend):
    """An archive whose cells map what is long."""

    mappings: Mappings

    def cells(self) -> Cells:
        plain = super().cells()
        buffer = HandingBuffer(self.objects)
        buffer.host = self.mappings.host
        cells = MappingCells(buffer, plain.encoding, plain.salt)
        cells.mappings = self.mappings
        return cells


class Shadow(TrackedBranch):
    """The tables of a workspace, of which a worker reads what it needs."""

    def __init__(self, host: Host, config: bytes, codecs: Codecs) -> None:
        self._store = RemoteStore(host, config)
        archive = _Archive(
            self._store,
            codec=codecs,
            clock=lambda: 0,
            author="",
            entropy=bytes,
            cache_bytes=64 << 20,
        )
        archive.mappings = Mappings(host)
        super().__init__(archive, _REF, kinds=(archive.mappings.imprint,), load=self._load_variable)
        self._tops: dict[str, bytes] = {}

    @property
    def imprinter(self) -> Any:
        return self._held.imprinter

    def start(self, tops: dict[str, bytes], along: Sequence[bytes] = ()) -> None:
        """Begin with a state, given by the cells at its top, and some objects of it."""
        self._tops = dict(tops)
        self._store.know(along)
        for name, cell in tops.items():
            self._stage.put((name,), cell)
        self._stage.root()

    # Tables

    def table(self, table: str) -> list[str]:
        """Return what is in a table."""
        cell = self._stage.get((table,))
        unkey = self.cells.encoding.unkey
        return [] if cell is None else [str(unkey(key)) for key, _ in self.cells.entries(cell)]

    def cell(self, *path: str) -> bytes | None:
        """Return the settled cell at a path."""
        cell = self._stage.get(path)
        return None if cell is None else self.cells.settle(cell)

    def entry(self, *path: str) -> Any:
        """Return what is at a path, read anew and not held; None if nothing is."""
        cell = self._stage.get(path)
        return None if cell is None else self.cells.load(cell)

    def entry_with_raw(self, *path: str) -> Any:
        """Return the pickle at a path; what is long in it are raw bytes, each by itself."""
        cells, cell = self.cells, self._stage.get(path)
        if cell is None or not isinstance(cells, MappingCells):
            return self.entry(*path)
        with cells.expecting_raw():
            parts = {str(cells.encoding.unkey(key)): part for key, part in cells.entries(cell)}
            held = [cells.load(each) for each in cells.elements(parts.pop("buffers"))]
            return {name: cells.load(part) for name, part in parts.items()} | {"buffers": held}

    def write(self, path: Path, cell: bytes) -> None:
        """Put a cell at a path."""
        self._stage.put(path, cell)

    def keep(self, *path: str, value: object) -> None:
        """Put a value at a path, which nobody has a reference to."""
        self._stage.put(path, self.cells.put(value))

    def drop(self, *path: str) -> None:
        """Remove what is at a path, if there is something."""
        if self._stage.get(path) is not None:
            self._stage.remove(path)

    # Variables that are data

    def _load_variable(self, path: Path, cell: bytes) -> object:
        value = self.cells.load(cell)
        if path[0] == "data" and len(path) > 1:
            entry = self.entry("vars", str(path[1])) or {}
            value = with_traits(value, entry, path[2:])
        return value

    def load_data(self, name: str) -> dict[str, object]:
        """Read a variable; return it, and those that had to be read with it, by name."""
        before = {path for path, _ in self._held}
        found = {name: self[("data", name)]}
        while new := {path for path, _ in self._held} - before:
            before |= new
            for table, other, *_ in new:  # of some, only the part that is shared was read
                if table == "data":
                    found[str(other)] = self[("data", other)]
        return found

    def holds(self, name: str, value: object) -> bool:
        """Tell whether this very object is the one that is held for a variable."""
        return self._held.find(("data", name)) is not None and (
            self._held.get(("data", name)) is value
        )

    def is_held(self, name: str) -> bool:
        """Tell whether a variable is held."""
        return self._held.find(("data", name)) is not None

    def held_data(self) -> dict[str, object]:
        """Return the variables that are held, by name."""
        return {str(path[1]): hold.value for path, hold in self._held if path[0] == "data"}

    def forget(self, name: str) -> None:
        """Remove a variable that is data."""
        if self._stage.get(("data", name)) is not None:
            del self[("data", name)]

    def look(self) -> dict[str, BadValue]:
        """Stage what changed in place; return why variables cannot be kept as data, by name."""
        return {str(path[1]): error for path, error in self._tracker.flush().items()}

    # Handing over

    def tops(self) -> dict[str, bytes | None]:
        """Return the cells at the top that are not what they were; None where one is gone."""
        self._stage.root()
        now = {name: self.cell(name) for name in TABLES}
        return {name: cell for name, cell in now.items() if cell != self._tops.get(name)}

    def made(self, tops: dict[str, bytes | None]) -> list[NewObject]:
        """Return the new objects that the host needs for these cells and does not have yet."""
        objects = self.cells.objects
        needed = objects.needed([cell for cell in tops.values() if cell is not None])
        if isinstance(objects, HandingBuffer):
            needed = objects.rest(needed)
        return [NewObject(new.data, new.base) for new in needed]

    def settle(self, tops: dict[str, bytes | None]) -> None:
        """Take what was handed over for stored."""
        self._tops = {**self._tops, **{name: cell for name, cell in tops.items() if cell}}
        objects = self.cells.objects
        objects.settle(list(objects.fresh.values()))
