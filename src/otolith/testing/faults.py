"""Stores and disks that fail on command.

`FaultyStore` refuses calls, loses replies, flips bits or delays:

    store = FaultyStore(MemoryStore(), [Fault("write", at=3, kind="lose")])

`PowerLossVFS` is a disk for SQLite that can lose power, run full, or fail, at any moment:

    with PowerLossVFS(seed=1) as disk:
        store = SqliteStore(folder / "a.db", vfs=disk.name)
        ...
        disk.crash(into=elsewhere)             # the files that a power cut would leave

Both fail at a call, not at a time, so that a failure can be repeated: the same plan or seed, and
the same calls, fail in the same way.

The real files contain all writes. Beside them the disk remembers which were *synced*. A
crash image is the synced bytes plus a random part of the other writes, in random order, some of
them torn at 512-byte sectors: all that a disk without power protection may do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from threading import Lock
from time import sleep
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeVar

import apsw

from otolith.errors import Error, Unavailable
from otolith.stores import Batch, Layer, Move, Store, Usage
from otolith.types import Hash

Kind = Literal["refuse", "lose", "flip", "delay"]
_T = TypeVar("_T")


def _broken() -> Error:
    """Return the error of a connection that breaks: whether the call happened is unknown."""
    return Unavailable("the connection broke", hint="read back, then try again")


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned failure: which call, and how.

    refuse  the call fails and has no effect
    lose    the call takes effect, but the caller gets an error instead of the reply
    flip    one bit of what is read is wrong
    delay   the call waits first
    """

    call: str  # "*" is any call; then `at` counts all of them together
    at: int = 0  # which call of this name, from 1; 0 is every one
    kind: Kind = "refuse"
    error: Callable[[], Error] = field(default=_broken)
    delay_seconds: float = 0.0

    def strikes(self, call: str, calls: Counter[str]) -> bool:
        """Return whether the last of these calls fails."""
        if self.call == "*":
            return self.at in {0, calls.total()}
        return self.call == call and self.at in {0, calls[call]}


class FaultyStore(Layer):
    """A store that forwards to another and fails as planned. `calls` counts the calls by name."""

    def __init__(self, inner: Store, plan: Sequence[Fault] = ()) -> None:
        super().__init__(inner)
        self.plan = list(plan)
        self.calls: Counter[str] = Counter()
        self._lock = Lock()

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Read; a planned `flip` damages every object that is found."""
        faults = self._meet("read")
        found = self._after(faults, lambda: self.inner.read(hashes))
        if any(fault.kind == "flip" for fault in faults):
            return {name: _flipped(data) for name, data in found.items()}
        return found

    def write(self, batch: Batch) -> None:
        """Write a batch; a planned `lose` writes it and raises."""
        self._after(self._meet("write"), lambda: self.inner.write(batch))

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names."""
        return self._after(self._meet("ref"), lambda: self.inner.ref(name))

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return the refs below a prefix."""
        return self._after(self._meet("refs"), lambda: self.inner.refs(prefix))

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref."""
        return self._after(self._meet("moves"), lambda: self.inner.moves(name, limit=limit))

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return the hashes that start with a prefix."""
        return self._after(self._meet("find"), lambda: self.inner.find(prefix, limit=limit))

    def usage(self) -> Usage:
        """Return the size of the inner store."""
        return self._after(self._meet("usage"), self.inner.usage)

    def _meet(self, call: str) -> list[Fault]:
        """Count a call; fail or wait before it happens, if that is the plan."""
        with self._lock:
            self.calls[call] += 1
            faults = [fault for fault in self.plan if fault.strikes(call, self.calls)]
        for fault in faults:
            if fault.kind == "delay":
                sleep(fault.delay_seconds)
            elif fault.kind == "refuse":
                raise fault.error()
        return faults

    def _after(self, faults: list[Fault], call: Callable[[], _T]) -> _T:
        """Make a call, then lose its reply if that is the plan."""
        reply = call()
        for fault in faults:
            if fault.kind == "lose":
                raise fault.error()
        return reply


def _flipped(data: bytes) -> bytes:
    """Return data with one bit changed; no data becomes one byte."""
    if not data:
        return b"\x01"
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


_SECTOR = 512
_numbers = count()


class UnsyncedWrite(NamedTuple):
    """A write that is not synced yet; `data` is None for a truncation."""

    offset: int
    data: bytes | None


class SimulatedFile:
    """The bytes of one file that are synced, and the writes that are not."""

    def __init__(self, path: Path) -> None:
        self.synced = bytearray(path.read_bytes() if path.exists() else b"")
        self.unsynced: list[UnsyncedWrite] = []

    def sync(self) -> None:
        """Make all writes so far durable."""
        for write in self.unsynced:
            _apply(self.synced, write)
        self.unsynced = []

    def image(self, random: Random) -> bytes:
        """Return one possible content of the file after a power cut."""
        survivors = [write for write in self.unsynced if random.random() < 0.6]
        random.shuffle(survivors)
        image = bytearray(self.synced)
        for write in survivors:
            for part in _torn(write, random):
                _apply(image, part)
        return bytes(image)


class PowerLossVFS(apsw.VFS):
    """A disk for SQLite. Its faults are attributes that can be set at any time.

    `budget_bytes`: how many bytes can still be written before the disk is full.
    `syncs_fail`, `reads_fail`: whether these calls report an error.
    """

    def __init__(self, seed: int = 0) -> None:
        self.name = f"powerloss-{next(_numbers)}"
        self.budget_bytes: int | None = None
        self.syncs_fail = False
        self.reads_fail = False
        self.syncs = 0
        self._random = Random(seed)
        self._files: dict[str, SimulatedFile] = {}
        super().__init__(self.name, "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.unregister()

    def crash(self, *, into: Path) -> None:
        """Write every file as a power cut at this moment might leave it into a directory."""
        for path, file in self._files.items():
            (into / Path(path).name).write_bytes(file.image(self._random))

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        """Open a file of the database; SQLite calls this."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            return apsw.VFSFile("", name, flags)
        return _File(self, self.file(path), name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - SQLite's
        """Delete a file; SQLite calls this."""
        self._files.pop(filename, None)
        super().xDelete(filename, syncdir)

    def file(self, path: str) -> SimulatedFile:
        """Return the simulated file at a path, made at its first use."""
        if path not in self._files:
            self._files[path] = SimulatedFile(Path(path))
        return self._files[path]

    def spend(self, size: int) -> None:
        """Use space of the disk for a write.

        Raises:
            apsw.FullError: there is not enough.
        """
        if self.budget_bytes is None:
            return
        if size > self.budget_bytes:
            raise apsw.FullError("the disk is full")
        self.budget_bytes -= size


class _File(apsw.VFSFile):
    """A real file whose writes are also recorded in a simulated one."""

    def __init__(
        self, disk: PowerLossVFS, file: SimulatedFile, name: Any, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._file = file

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        """Write to the real file, and remember it as not synced."""
        self._disk.spend(len(data))
        self._file.unsynced.append(UnsyncedWrite(offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        """Truncate the real file, and remember it as not synced."""
        self._file.unsynced.append(UnsyncedWrite(newsize, None))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Make the writes so far durable, unless syncs fail."""
        if self._disk.syncs_fail:
            raise apsw.IOError("the disk could not sync")
        self._disk.syncs += 1
        self._file.sync()
        super().xSync(flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        """Read from the real file, unless reads fail."""
        if self._disk.reads_fail:
            raise apsw.IOError("the disk could not read")
        return super().xRead(amount, offset)


def _apply(image: bytearray, write: UnsyncedWrite) -> None:
    """Apply a write or a truncation to the bytes of a file; a gap is filled with zeros."""
    offset, data = write
    if data is None:
        del image[offset:]
        return
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def _torn(write: UnsyncedWrite, random: Random) -> Iterator[UnsyncedWrite]:
    """Yield a write, or the sectors of it that reached the disk."""
    if write.data is None or random.random() < 0.5:
        yield write
        return
    for start in range(0, len(write.data), _SECTOR):
        if random.random() < 0.5:
            yield UnsyncedWrite(write.offset + start, write.data[start : start + _SECTOR])
