"""What one worker may use up: memory, processor time, file sizes, processes, open files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from otolith.errors import Unsupported

# Loaded here and not in each worker; Windows has none.
_RESOURCE = import_module("resource") if find_spec("resource") else None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one worker; `None` means no limit.

    Memory and processes are counted from where the worker stands when they are applied: a forked
    worker has its interpreter and its imports mapped already, and that is not its doing.
    """

    memory_bytes: int | None = None
    cpu_seconds: int | None = None
    file_bytes: int | None = None
    processes: int | None = None
    open_files: int | None = None

    def apply(self) -> None:
        """Bind the calling process, for good: in the worker, after the fork."""
        if _RESOURCE is None:
            raise Unsupported("this system has no resource limits", hint="run workers on Linux")
        _lower(_RESOURCE, "RLIMIT_CORE", 0, 0)  # a core dump is the worker's memory on the disk
        for kind, soft, hard in self._asked():
            _lower(_RESOURCE, kind, soft, hard)

    def ignored(self) -> tuple[str, ...]:
        """Name the limits asked for that this system will not hold.

        Linux counts no processes of the real root; other systems do not say what is in use now.
        """
        asked = [name for name in ("memory_bytes", "processes") if getattr(self, name) is not None]
        if sys.platform != "linux":
            return tuple(asked)
        return tuple(name for name in asked if name == "processes" and _is_real_root())

    def _asked(self) -> Iterator[tuple[str, int, int]]:
        on_linux = sys.platform == "linux"
        if self.memory_bytes is not None and on_linux:
            most = _mapped_bytes() + self.memory_bytes
            yield "RLIMIT_AS", most, most
        if self.cpu_seconds is not None:
            # The soft one is a signal that can be caught, the hard one is the end.
            yield "RLIMIT_CPU", self.cpu_seconds, self.cpu_seconds + 1
        if self.file_bytes is not None:
            yield "RLIMIT_FSIZE", self.file_bytes, self.file_bytes
        if self.processes is not None and on_linux:
            most = _tasks_of_this_user() + self.processes
            yield "RLIMIT_NPROC", most, most
        if self.open_files is not None:
            yield "RLIMIT_NOFILE", self.open_files, self.open_files


def available() -> bool:
    """Whether this system has resource limits at all."""
    return _RESOURCE is not None


def _lower(resource: ModuleType, kind: str, soft: int, hard: int) -> None:
    """Set a limit, but never above what somebody has set already."""
    number = getattr(resource, kind)
    ceiling = resource.getrlimit(number)[1]
    if ceiling != resource.RLIM_INFINITY:
        hard = min(hard, ceiling)
    resource.setrlimit(number, (min(soft, hard), hard))


def _mapped_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * os.sysconf("SC_PAGESIZE")


def _tasks_of_this_user() -> int:
    """Count threads, as the kernel does, of the user's processes that can be seen from here."""
    mine = os.getuid()
    total = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit():
                total += _threads(entry.path, mine)
    return total


def _threads(process: str, owner: int) -> int:
    try:
        folder = os.stat(f"{process}/task")  # noqa: PTH116  a Path a process would cost more
    except OSError:  # it ended while we looked
        return 0
    return folder.st_nlink - 2 if folder.st_uid == owner else 0


def _is_real_root() -> bool:
    """Whether the user here is the root outside as well: a user namespace may rename others."""
    uid = os.getuid()
    try:
        names = Path("/proc/self/uid_map").read_text(encoding="ascii")
    except FileNotFoundError:  # a kernel without such namespaces
        return uid == 0
    for line in names.splitlines():
        inside, outside, count = map(int, line.split())
        if inside <= uid < inside + count:
            return outside + uid - inside == 0
    return False
