"""Resource limits of a worker, and the sandbox that has nothing else.

The kernel counts memory, processor time, file sizes, processes and open files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from otolith.errors import Unsupported
from otolith.workspace.sandbox import kernel
from otolith.workspace.sandbox.base import PRIVILEGES, PROMISES, Sandbox, SandboxSpec

# Loaded here and not in each worker; Windows has none.
_RESOURCE = import_module("resource") if find_spec("resource") else None


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """The limits of one worker; `None` means without limit.

    Memory and processes are counted from the moment when the limits are applied: a forked worker
    has its interpreter and its imports mapped already.
    """

    memory_bytes: int | None = None
    cpu_seconds: int | None = None
    file_bytes: int | None = None
    processes: int | None = None
    open_files: int | None = None

    def apply(self) -> None:
        """Limit the calling process for the rest of its life: in the worker, after the fork.

        Raises:
            Unsupported: this system has no resource limits.
        """
        if _RESOURCE is None:
            raise Unsupported("this system has no resource limits", hint="run workers on Linux")
        _lower(_RESOURCE, "RLIMIT_CORE", 0, 0)  # a core dump is the worker's memory on the disk
        for kind, soft, hard in self._wanted():
            _lower(_RESOURCE, kind, soft, hard)

    def ignored(self) -> tuple[str, ...]:
        """Return the names of limits that this system will not enforce.

        Linux does not count processes of the real root; other systems do not report current use.
        """
        asked = [name for name in ("memory_bytes", "processes") if getattr(self, name) is not None]
        if sys.platform != "linux":
            return tuple(asked)
        return tuple(name for name in asked if name == "processes" and _is_real_root())

    def _wanted(self) -> Iterator[tuple[str, int, int]]:
        """Yield the limits as kind, soft and hard value."""
        on_linux = sys.platform == "linux"
        if self.memory_bytes is not None and on_linux:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            most = pages * os.sysconf("SC_PAGESIZE") + self.memory_bytes
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
    """Tell whether this system has resource limits at all."""
    return _RESOURCE is not None


def _lower(resource: ModuleType, kind: str, soft: int, hard: int) -> None:
    """Set a limit, but never above one that is set already."""
    number = getattr(resource, kind)
    ceiling = resource.getrlimit(number)[1]
    if ceiling != resource.RLIM_INFINITY:
        hard = min(hard, ceiling)
    resource.setrlimit(number, (min(soft, hard), hard))


def _tasks_of_this_user() -> int:
    """Count threads, as the kernel does, of the user's processes that can be seen from here."""
    mine, total = os.getuid(), 0
    for name in os.listdir("/proc"):  # noqa: PTH208  a Path for each would cost more
        if name.isdigit():
            with suppress(OSError):  # it has ended by now
                threads = os.stat(f"/proc/{name}/task")  # noqa: PTH116  as above
                total += threads.st_nlink - 2 if threads.st_uid == mine else 0
    return total


def _is_real_root() -> bool:
    """Tell whether this user is root outside as well: a user namespace may rename others."""
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


class LimitsOnly(Sandbox):
    """No isolation: code can do whatever the user can. For trusted code that may run away."""

    def _broken_promises(self) -> Collection[str]:
        return set(PROMISES) - ({PRIVILEGES} if sys.platform == "linux" else set())

    def enter(self, spec: SandboxSpec) -> None:
        """Refuse new privileges, which is all that this sandbox promises."""
        if sys.platform == "linux":
            kernel.refuse_new_privileges()
