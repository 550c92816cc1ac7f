"""What one worker may use up: memory, processor time, file sizes, processes, open files.

The processes below one: who they are, and how they are ended so that none gets away.

A process that forks twice and leaves its session is found all the same: the nursery takes in
whoever loses its parent (`kernel.adopt_orphans`), so all that a step has started stays below it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
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


_MOST_ROUNDS = 1000


def below(pid: int, *, spared: Collection[int] = ()) -> list[int]:
    """Return the processes that descend from one; not those that are spared, nor any below them."""
    children_of = _look_up()
    found: list[int] = []
    waiting = [pid]
    while waiting:
        new = [each for each in children_of(waiting.pop()) if each not in spared]
        found += new
        waiting += new
    return found


def end_below(pid: int, *, spared: Collection[int] = ()) -> None:
    """End all processes below one. All are stopped first: who is stopped starts no other."""
    seen: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        new = [each for each in below(pid, spared=spared) if each not in seen]
        if not new:
            break
        seen.update(new)
        _signal_all(new, signal.SIGSTOP)
    _signal_all(seen, signal.SIGKILL)


def _signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _look_up() -> Callable[[int], list[int]]:
    """Return what finds children: the kernel's own lists where it has them, else all processes."""
    me = os.getpid()
    if Path(f"/proc/{me}/task/{me}/children").exists():
        return _listed
    born: dict[int, list[int]] = {}
    for entry in _entries("/proc"):
        if entry.isdigit() and (parent := _parent(entry)) is not None:
            born.setdefault(parent, []).append(int(entry))
    return lambda pid: born.get(pid, [])


def _listed(pid: int) -> list[int]:
    """Return the children of a process; each of its threads has a list of its own."""
    found: list[int] = []
    for task in _entries(f"/proc/{pid}/task"):
        with suppress(OSError):  # it ended while we looked
            listed = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
            found += map(int, listed.split())
    return found


def _parent(pid: str) -> int | None:
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(said.rpartition(")")[2].split()[1])  # a name may have anything in it


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  a Path for each would cost more
    except OSError:
        return []
