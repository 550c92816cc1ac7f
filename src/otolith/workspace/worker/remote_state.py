"""The state of a workspace as a worker sees it: read from the host, changed here, sent back.

    data/NAME        variables that are data: values as in any state
    objects/GROUP    variables that are not: pickles, one for each group that shares objects
    classes/ID       classes that were defined in a step
    code/KEY         the source of steps that functions and classes come from
    vars/NAME        the description of each variable
    last             the last step: its code, value, failure and figures
    ambient          generators of random numbers, the folder, the environment

A worker has no store. It reads objects through its `Host`, and returns the new ones with its
result. Long ones are sent earlier, while the rest is still being captured (`SendingBuffer`): the
host hashes and compresses them beside that, and drops those that turn out not to be needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from otolith.codecs import Codecs
from otolith.core import ALIASES, Backend, Buffer, Cells, Path, digest, is_leaf
from otolith.errors import BadValue, Invalid, ReadOnly
from otolith.state.tracked_branch import TrackedBranch
from otolith.stores import Batch, Capabilities, Move, Object, Usage
from otolith.types import Hash
from otolith.workspace import protocol
from otolith.workspace.wire import Wire, seal
from otolith.workspace.worker.mapped_memory import MappingCells, MemoryMappings
from otolith.workspace.worker.value_layout import usual_layout, with_layout
from otolith.workspace.worker.value_summary import is_summary_of

TABLES = (ALIASES, "ambient", "classes", "code", "data", "last", "objects", "signatures", "vars")
"""The tables of a workspace. A worker reads `signatures` and never writes them."""

_REF = "session/workspace/main"
_LONG_BYTES = 16 << 10
_BATCH_BYTES = 2 << 20
_LAST_BATCH_BYTES = 1 << 20


class RemoteState:
    """The tables of a workspace, of which a worker reads what it needs."""

    def __init__(self, host: protocol.Host, config: bytes, codecs: Codecs) -> None:
        self._store = RemoteStore(host, config)
        backend = _MappingBackend(
            self._store,
            codec=codecs,
            clock=lambda: 0,
            author="",
            entropy=bytes,
            cache_bytes=64 << 20,
        )
        backend.mappings = mappings = MemoryMappings(host)
        self._branch = branch = TrackedBranch(
            backend, _REF, kinds=(mappings.imprint,), load=self._load
        )
        self.cells = branch.cells
        # There are no commits here: what a branch does beneath its verbs is all that is needed.
        self._stage, self._tracker = branch._stage, branch._tracker  # noqa: SLF001
        self._stage.table_levels = 2  # the names of tables, and of what is in them
        self._held = self._tracker.held
        self.imprinter = self._held.imprinter
        self._roots: dict[str, bytes] = {}

    def start(self, roots: dict[str, bytes], objects: Sequence[bytes] = ()) -> None:
        """Begin with a state, given by the root cells of its tables and some of its objects."""
        self._roots = dict(roots)
        self._store.preload(objects)
        for name, cell in roots.items():
            self._stage.put((name,), cell)
        self._stage.root()

    # Tables

    def names(self, table: str) -> list[str]:
        """Return the keys of a table."""
        cell = self._stage.get((table,))
        unkey = self.cells.encoding.unkey
        return [] if cell is None else [str(unkey(key)) for key, _ in self.cells.entries(cell)]

    def cell(self, *path: str) -> bytes | None:
        """Return the settled cell at a path."""
        cell = self._stage.get(path)
        return None if cell is None else self.cells.settle(cell)

    def entry(self, *path: str) -> Any:
        """Return a fresh copy of the value at a path; None if there is none."""
        cell = self._stage.get(path)
        return None if cell is None else self.cells.load(cell)

    def pickle_entry(self, *path: str) -> Any:
        """Return the pickle at a path, with its long parts as separate raw bytes."""
        cells, cell = self.cells, self._stage.get(path)
        if cell is None or not isinstance(cells, MappingCells):
            return self.entry(*path)
        with cells.expecting_raw():
            parts = {str(cells.encoding.unkey(key)): part for key, part in cells.entries(cell)}
            buffers = [cells.load(each) for each in cells.elements(parts.pop("buffers"))]
            return {name: cells.load(part) for name, part in parts.items()} | {"buffers": buffers}

    def put_cell(self, path: Path, cell: bytes) -> None:
        """Put a cell at a path."""
        self._stage.put(path, cell)

    def put(self, *path: str, value: object) -> None:
        """Put a value at a path; it is not held."""
        self._stage.put(path, self.cells.put(value))

    def remove(self, *path: str) -> None:
        """Remove the value at a path, if there is one."""
        if self._stage.get(path) is not None:
            self._stage.remove(path)

    # Variables that are data

    def _load(self, path: Path, cell: bytes) -> object:
        """Return the value of a cell; that of a variable with its layout."""
        value = self.cells.load(cell)
        if path[0] == "data" and len(path) > 1:
            value = with_layout(value, self._layout(str(path[1])), path[2:])
        return value

    def _layout(self, name: str) -> dict[str, Any]:
        """Return the layout of a variable; of a merged one, what holds for any value."""
        entry, data = self.entry("vars", name) or {}, self.cell("data", name)
        is_own = data is None or is_summary_of(entry, data)
        return entry if is_own else usual_layout(entry)

    def load_data(self, name: str) -> dict[str, object]:
        """Read a variable; return it, and those that had to be read with it, by name."""
        before = {path for path, _ in self._held}
        found = {name: self._branch[("data", name)]}
        while new := {path for path, _ in self._held} - before:
            before |= new
            for table, other, *_ in new:  # of some, only the part that is shared was read
                if table == "data":
                    found[str(other)] = self._branch[("data", other)]
        return found

    def assign_data(self, name: str, value: object) -> None:
        """Set a variable that is data, and hold its value."""
        self._branch[("data", name)] = value

    def encode_anew(self, name: str) -> None:
        """Let `stage_changes` encode a variable that is held from scratch."""
        hold = self._held.at(("data", name))
        hold.imprint = hold.previous_imprint = None

    def is_held(self, name: str) -> bool:
        """Tell whether the value of a variable is held."""
        return self._held.find(("data", name)) is not None

    def holds(self, name: str, value: object) -> bool:
        """Tell whether this very object is the one that is held for a variable."""
        return self.is_held(name) and self._held.get(("data", name)) is value

    def held_data(self) -> dict[str, object]:
        """Return the variables that are held, by name."""
        return {str(path[1]): hold.value for path, hold in self._held if path[0] == "data"}

    def remove_data(self, name: str) -> None:
        """Remove a variable that is data."""
        if self._stage.get(("data", name)) is not None:
            del self._branch[("data", name)]

    def stage_changes(self) -> dict[str, BadValue]:
        """Stage changes in place; return why variables cannot be stored as data, by name."""
        return {str(path[1]): error for path, error in self._tracker.flush().items()}

    # The result

    def changed_roots(self) -> dict[str, bytes | None]:
        """Return the root cells that have changed; None for a table that is gone."""
        self._stage.root()
        now = {name: self.cell(name) for name in TABLES}
        return {name: cell for name, cell in now.items() if cell != self._roots.get(name)}

    def new_objects(self, roots: dict[str, bytes | None]) -> list[protocol.NewObject]:
        """Return the objects that the host needs for these cells and does not have yet."""
        objects = self.cells.objects
        needed = objects.needed([cell for cell in roots.values() if cell is not None])
        if isinstance(objects, SendingBuffer):
            needed = objects.unsent(needed)
        return [protocol.NewObject(new.data, new.base) for new in needed]

    def settle(self, roots: dict[str, bytes | None]) -> None:
        """Treat what was sent to the host as stored."""
        self._roots |= {name: cell for name, cell in roots.items() if cell}
        objects = self.cells.objects
        objects.settle(list(objects.fresh.values()))


class RemoteHost:
    """The host at the other end of a socket, which gets one request at a time."""

    def __init__(self, wire: Wire[protocol.ToWorker]) -> None:
        self.wire = wire

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that exist, and others that the host sends with them."""
        found: dict[Hash, bytes] = {}
        rest = list(hashes)
        while rest:  # a reply has a limit
            reply, _ = self._request(protocol.Read(list(rest)))
            if not isinstance(reply, protocol.ObjectsReply) or not reply.found:
                raise _unexpected(reply)
            pairs = zip(rest, reply.found, strict=False)
            found |= {hash: data for hash, data in pairs if data is not None}
            found |= {Hash(digest(data)): data for data in reply.more}
            rest = rest[len(reply.found) :]
        return found

    def map(self, cell: bytes) -> tuple[int, int] | None:
        """Return a descriptor of the raw bytes of a cell and their length; None if refused."""
        reply, fds = self._request(protocol.Map(cell))
        if not isinstance(reply, protocol.MemoryReply):
            raise _unexpected(reply)
        return (fds[0], reply.size_bytes) if fds else None

    def is_signed(self, place: str, cell: bytes, signature: bytes) -> bool:
        """Tell whether the host has signed the pickle at a place."""
        reply, _ = self._request(protocol.CheckSignature(place, cell, signature))
        if not isinstance(reply, protocol.SignatureReply):
            raise _unexpected(reply)
        return reply.is_signed

    def send_early(self, objects: Sequence[bytes]) -> bool:
        """Send objects before the end of the step; tell whether this system can do that."""
        if not hasattr(os, "memfd_create"):
            return False
        descriptor, _ = seal([objects])
        try:
            self.wire.send(protocol.EarlyObjects(list(map(len, objects))), [descriptor])
        finally:
            os.close(descriptor)
        return True

    def _request(self, message: protocol.FromWorker) -> tuple[protocol.ToWorker, list[int]]:
        self.wire.send(message)
        return self.wire.receive()


def _unexpected(reply: object) -> Invalid:
    return Invalid(f"the host replied {type(reply).__name__}", hint="this is a bug of otolith")


class RemoteStore:
    """The store of a worker: the objects of its host, and one ref, the constants of the repo."""

    def __init__(self, host: protocol.Host, config: bytes) -> None:
        self._host = host
        self._config = Hash(digest(config))
        self._preloaded = {self._config: config}  # what came unrequested, and will be needed

    def preload(self, objects: Sequence[bytes]) -> None:
        """Take objects that came unrequested."""
        self._preloaded |= {Hash(digest(data)): data for data in objects}

    @property
    def capabilities(self) -> Capabilities:
        """None: objects can be read, and nothing else."""
        return Capabilities()

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that exist."""
        known = {hash: self._preloaded[hash] for hash in hashes if hash in self._preloaded}
        missing = [hash for hash in hashes if hash not in known]
        if missing:
            found = self._host.read(missing)
            known |= {hash: found.pop(hash) for hash in missing if hash in found}
            self._preloaded |= found
        return known

    def ref(self, name: str) -> Hash | None:
        """Return the constants of the repo for `.config`, else None."""
        return self._config if name == ".config" else None

    def write(self, batch: Batch) -> None:
        """Refuse to write.

        Raises:
            ReadOnly: always.
        """
        raise ReadOnly("a worker cannot write to a store", hint="this is a bug of otolith")

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return no refs."""
        return {}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return no moves."""
        return []

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return no objects."""
        return []

    def usage(self) -> Usage:
        """Return zeros."""
        return Usage(0, 0)

    def close(self) -> None:
        """Do nothing: the socket belongs to the worker."""


class SendingBuffer(Buffer):
    """New objects, of which the long ones are sent as soon as there are enough for a batch."""

    host: protocol.Host | None = None

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._batch: list[Object] = []
        self._batch_bytes = 0
        self._sent: set[Hash] = set()

    def put(self, data: bytes, *, base: Hash | None = None) -> Hash:
        """Add an object, and send a batch if it is full."""
        count = len(self.fresh)
        hash = super().put(data, base=base)
        if len(data) >= _LONG_BYTES and len(self.fresh) > count and is_leaf(data):
            self._batch.append(self.fresh[hash])
            self._batch_bytes += len(data)
            if self._batch_bytes >= _BATCH_BYTES:
                self._send()
        return hash

    def unsent(self, needed: list[Object]) -> list[Object]:
        """Send a last batch if it is worth it; return the objects that were not sent."""
        if self._batch_bytes >= _LAST_BATCH_BYTES:
            self._send()
        return [new for new in needed if new.hash not in self._sent]

    def clear(self) -> None:
        """Forget all new objects."""
        super().clear()
        self._batch, self._batch_bytes, self._sent = [], 0, set()

    def _send(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if self.host is not None and self.host.send_early([new.data for new in batch]):
            self._sent.update(new.hash for new in batch)


class _MappingBackend(Backend):
    """A backend whose cells map long values, and whose new objects are sent early."""

    mappings: MemoryMappings

    def cells(self) -> Cells:
        """Return cells that map long values and send new objects early."""
        plain = super().cells()
        buffer = SendingBuffer(self.objects)
        buffer.host = self.mappings.host
        cells = MappingCells(buffer, plain.encoding, plain.salt)
        cells.mappings = self.mappings
        return cells
