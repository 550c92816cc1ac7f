"""A store that fails when told to: refused calls, lost replies, flipped bits, delays.

store = FaultyStore(MemoryStore(), [Fault("write", at=3, kind="lose")])

A disk for SQLite that can lose power, run full, or fail, at any moment.

    with PowerLossVFS(seed=1) as disk:
        store = SqliteStore(folder / "a.db", vfs=disk.name)
        ...
        disk.crash(into=elsewhere)             # what a power cut now would leave behind

The real files always hold what was written. Beside them the disk remembers what was *synced*. A
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
from otolith.stores import Batch, Capabilities, Move, Store, Usage
from otolith.types import Hash

Kind = Literal["refuse", "lose", "flip", "delay"]
_T = TypeVar("_T")


def _broken() -> Error:
    return Unavailable("the connection broke", hint="read back, then try again")


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and when.

    refuse  the call fails and nothing happens
    lose    the call happens, but the caller gets an error instead of the reply
    flip    one bit of what is read is wrong
    delay   the call waits first
    """

    call: str  # "*" is any call; then `at` counts all of them together
    at: int = 0  # which call of this name, from 1; 0 is every one
    kind: Kind = "refuse"
    error: Callable[[], Error] = field(default=_broken)
    delay_seconds: float = 0.0

    def strikes(self, call: str, calls: Counter[str]) -> bool:
        """Tell whether the last of these calls goes wrong."""
        if self.call == "*":
            return self.at in {0, calls.total()}
        return self.call == call and self.at in {0, calls[call]}


class FaultyStore:
    """A layer that follows a plan of faults. `calls` counts what was asked for."""

    def __init__(self, inner: Store, plan: Sequence[Fault] = ()) -> None:
        self.inner = inner
        self.plan = list(plan)
        self.calls: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        faults = self._meet("read")
        found = self._after(faults, lambda: self.inner.read(hashes))
        if any(fault.kind == "flip" for fault in faults):
            return {name: _flipped(data) for name, data in found.items()}
        return found

    def write(self, batch: Batch) -> None:
        self._after(self._meet("write"), lambda: self.inner.write(batch))

    def ref(self, name: str) -> Hash | None:
        return self._after(self._meet("ref"), lambda: self.inner.ref(name))

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        return self._after(self._meet("refs"), lambda: self.inner.refs(prefix))

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        return self._after(self._meet("moves"), lambda: self.inner.moves(name, limit=limit))

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        return self._after(self._meet("find"), lambda: self.inner.find(prefix, limit=limit))

    def usage(self) -> Usage:
        return self._after(self._meet("usage"), self.inner.usage)

    def close(self) -> None:
        self.inner.close()

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
        reply = call()
        for fault in faults:
            if fault.kind == "lose":
                raise fault.error()
        return reply


def _flipped(data: bytes) -> bytes:
    if not data:
        return b"\x01"
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


_SECTOR = 512
_numbers = count()


class Unsynced(NamedTuple):
    """A write that was not synced yet; `data` is None for a truncation."""

    offset: int
    data: bytes | None


class Platter:
    """What one file holds for sure, and what it may hold."""

    def __init__(self, path: Path) -> None:
        self.synced = bytearray(path.read_bytes() if path.exists() else b"")
        self.unsynced: list[Unsynced] = []

    def sync(self) -> None:
        for write in self.unsynced:
            _apply(self.synced, write)
        self.unsynced = []

    def image(self, random: Random) -> bytes:
        """Return what may be left of the file."""
        survivors = [write for write in self.unsynced if random.random() < 0.6]
        random.shuffle(survivors)
        image = bytearray(self.synced)
        for write in survivors:
            for part in _torn(write, random):
                _apply(image, part)
        return bytes(image)


class PowerLossVFS(apsw.VFS):
    """The disk. Its faults are attributes that can be set at any time.

    `budget_bytes`: how much may still be written before the disk is full.
    `syncs_fail`, `reads_fail`: whether these calls report an error.
    """

    def __init__(self, seed: int = 0) -> None:
        self.name = f"powerloss-{next(_numbers)}"
        self.budget_bytes: int | None = None
        self.syncs_fail = False
        self.reads_fail = False
        self.syncs = 0
        self._random = Random(seed)
        self._platters: dict[str, Platter] = {}
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
        """Write what a power cut at this moment would leave of every file into a directory."""
        for path, platter in self._platters.items():
            (into / Path(path).name).write_bytes(platter.image(self._random))

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            return apsw.VFSFile("", name, flags)
        return _File(self, self.platter(path), name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - SQLite's
        self._platters.pop(filename, None)
        super().xDelete(filename, syncdir)

    def platter(self, path: str) -> Platter:
        if path not in self._platters:
            self._platters[path] = Platter(Path(path))
        return self._platters[path]

    def spend(self, size: int) -> None:
        """Take room on the disk for a write.

        Raises:
            apsw.FullError: there is none.
        """
        if self.budget_bytes is None:
            return
        if size > self.budget_bytes:
            raise apsw.FullError("the disk is full")
        self.budget_bytes -= size


class _File(apsw.VFSFile):
    def __init__(self, disk: PowerLossVFS, platter: Platter, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._platter = platter

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.spend(len(data))
        self._platter.unsynced.append(Unsynced(offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._platter.unsynced.append(Unsynced(newsize, None))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.syncs_fail:
            raise apsw.IOError("the disk could not sync")
        self._disk.syncs += 1
        self._platter.sync()
        super().xSync(flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if self._disk.reads_fail:
            raise apsw.IOError("the disk could not read")
        return super().xRead(amount, offset)


def _apply(image: bytearray, write: Unsynced) -> None:
    offset, data = write
    if data is None:
        del image[offset:]
        return
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def _torn(write: Unsynced, random: Random) -> Iterator[Unsynced]:
    """Yield a write, or the sectors of it that reached the disk."""
    if write.data is None or random.random() < 0.5:
        yield write
        return
    for start in range(0, len(write.data), _SECTOR):
        if random.random() < 0.5:
            yield Unsynced(write.offset + start, write.data[start : start + _SECTOR])
