"""Make the n-th call fail: of the disk, of a store, or of any line that runs in otolith.

SQLite's own method. An operation runs with a counter; call number n fails; n goes up until the
operation ends without having met the fault. What then must be true is in `scenarios`.

    disk = FailingDisk()                     calls of SQLite to its disk
    PointsOfCode(folders)                    every line and every return of our own code
"""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal, Self

import apsw

import otolith

ROOMS = tuple(str(Path(otolith.__file__).parent / room) for room in ("core", "stores"))

DiskFault = Literal["error", "full", "short write", "lost"]
"""What a call of the disk does instead of what it should.

error        it does nothing and says so
full         it does nothing and says that there is no room
short write  half of the bytes are written
lost         a sync that fails takes with it what was written since the last one
"""


@dataclass
class Countdown:
    """Counts calls, and tells which of them is to fail: the n-th, or all from there on."""

    at: int = 0  # 0: none
    persistent: bool = False
    count: int = 0
    fired: bool = False
    log: list[str] = field(default_factory=list)

    def strikes(self, call: str) -> bool:
        self.count += 1
        self.log.append(call)
        hit = self.at > 0 and (self.count >= self.at if self.persistent else self.count == self.at)
        self.fired = self.fired or hit
        return hit

    def turns(self) -> list[int]:
        """Return the first and the last call of each kind: loops are long, and all turns alike."""
        first = {call: number for number, call in reversed([*enumerate(self.log, 1)])}
        last = {call: number for number, call in enumerate(self.log, 1)}
        return sorted({*first.values(), *last.values()})


_numbers = count()


class FailingDisk(apsw.VFS):
    """A disk for SQLite whose calls fail when a countdown says so, while it is armed."""

    def __init__(self) -> None:
        self.name = f"failing-{next(_numbers)}"
        self.countdown: Countdown | None = None
        self.fault: DiskFault = "error"
        super().__init__(self.name, "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()

    @contextmanager
    def armed(self, countdown: Countdown, fault: DiskFault = "error") -> Iterator[None]:
        self.countdown, self.fault = countdown, fault
        try:
            yield
        finally:
            self.countdown = None

    def meet(self, call: str, name: str) -> bool:
        """Count a call; tell whether it is to fail in a way of its own, or fail it."""
        if self.countdown is None or not self.countdown.strikes(f"{call} {name[-4:]}"):
            return False
        if call == "xWrite" and self.fault == "short write":
            return True
        if call == "xSync" and self.fault == "lost":
            return True
        if call == "xOpen":
            raise apsw.CantOpenError("the disk could not open it")
        if self.fault in {"full", "short write"} and call in {"xWrite", "xTruncate"}:
            raise apsw.FullError("the disk is full")
        raise apsw.IOError(f"the disk failed at {call}")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.meet("xOpen", path or "temp")
        return _FailingFile(self, path or "temp", name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's
        self.meet("xDelete", filename)
        super().xDelete(filename, syncdir)

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        self.meet("xAccess", pathname)
        return super().xAccess(pathname, flags)


class _FailingFile(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, path: str, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._path = path
        self._unsynced: list[tuple[int, bytes]] = []  # what was there before each write

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.meet("xRead", self._path)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        short = self._disk.meet("xWrite", self._path)
        if self._disk.fault == "lost":
            self._unsynced.append((offset, self._before(len(data), offset)))
        super().xWrite(data[: len(data) // 2] if short else data, offset)
        if short:
            raise apsw.IOError("the disk wrote half of it")

    def _before(self, amount: int, offset: int) -> bytes:
        size = super().xFileSize()
        there = max(0, min(amount, size - offset))
        return super().xRead(there, offset) if there else b""

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.meet("xTruncate", self._path)
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.meet("xSync", self._path):
            for offset, data in reversed(self._unsynced):
                if data:
                    super().xWrite(data, offset)
                else:
                    super().xTruncate(offset)
            self._unsynced.clear()
            raise apsw.IOError("the disk could not sync, and forgot what it was to sync")
        self._unsynced.clear()  # and no more: no power is lost here, and syncing takes its time

    def xFileSize(self) -> int:  # noqa: N802
        self._disk.meet("xFileSize", self._path)
        return super().xFileSize()

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        return super().xFileControl(op, ptr)

    def xLock(self, level: int) -> None:  # noqa: N802
        self._disk.meet("xLock", self._path)
        super().xLock(level)

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        self._disk.meet("xCheckReservedLock", self._path)
        return super().xCheckReservedLock()


class PointsOfCode:
    """Raises at the n-th point of our own code that runs: before a line, or as a function returns.

    What Python itself may do anywhere: no memory, or Control-C. Left out is where nothing can be
    raised but by a tracer: at a `try`, between the end of a `with` block and the call of
    `__exit__`, and between the return of `__enter__` and the block.
    """

    def __init__(self, error: type[BaseException], folders: Sequence[str] = ROOMS) -> None:
        self._error = error
        self._folders = tuple(folders)
        self._known: dict[str, bool] = {}
        self.countdown = Countdown()

    @contextmanager
    def armed(self, countdown: Countdown) -> Iterator[None]:
        self.countdown = countdown
        before, hook = sys.gettrace(), sys.unraisablehook
        sys.unraisablehook = _ignored  # a generator that is dropped cannot raise
        gc.disable()  # what others left behind is not finalized, and counted, here
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)
            gc.enable()
            sys.unraisablehook = hook

    def _call(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        ours = self._known.get(name)
        if ours is None:
            ours = self._known[name] = name.startswith(self._folders)
        return self._point if ours else None

    def _point(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        code = frame.f_code
        if (event == "line" and frame.f_lasti not in _silent(code)) or (
            event == "return" and code.co_name != "__enter__"
        ):
            place = f"{code.co_filename}:{frame.f_lineno}:{code.co_name}:{event}"
            if self.countdown.strikes(place):
                sys.settrace(None)
                raise self._error("injected")
        return self._point


@cache
def _silent(code: CodeType) -> frozenset[int]:
    """Return where nothing can be raised, and nothing that is would be handled.

    That is where a `with` block ends, from where `__exit__` is called with None three times; and
    what does nothing, as a `try`.
    """
    steps = list(dis.get_instructions(code))
    found = {step.offset for step in steps if step.opname == "NOP"}
    for at, step in enumerate(steps[:-2]):
        if all(each.opname == "LOAD_CONST" and each.argval is None for each in steps[at : at + 3]):
            found.add(step.offset)
            if at and steps[at - 1].opname == "SWAP":  # a value to return lies on the stack
                found.add(steps[at - 1].offset)
    return frozenset(found)


def _ignored(error: object) -> None:
    """Say nothing."""
