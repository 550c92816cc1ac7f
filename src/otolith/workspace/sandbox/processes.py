"""Processes: the descendants of one, its identity beyond its number, and how all are ended.

A process that forks twice and leaves its session is found all the same: one that loses its parent
becomes a child of the fork server (`kernel.adopt_orphans`), so all that a step has started stays
below it.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

_END_SECONDS = 5.0
_MOST_ROUNDS = 1000


def descendants(pid: int, *, spared: Collection[int] = ()) -> list[int]:
    """Return the processes that descend from one, without those that are spared and theirs."""
    children_of = _child_finder()
    found: list[int] = []
    waiting = [pid]
    while waiting:
        new = [each for each in children_of(waiting.pop()) if each not in spared]
        found += new
        waiting += new
    return found


def children(pid: int) -> list[int]:
    """Return the processes that one has started and has not waited for."""
    return _child_finder()(pid)


def end_descendants(pid: int, *, spared: Collection[int] = ()) -> None:
    """End all processes below one, and return when they have ended, or after some seconds.

    All are stopped first: a stopped process does not start others. A signal takes effect a little
    later than it is sent, and until then a process may continue to write to files.
    """
    seen: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        new = [each for each in descendants(pid, spared=spared) if each not in seen]
        if not new:
            break
        seen.update(new)
        _signal_all(new, signal.SIGSTOP)
    _signal_all(seen, signal.SIGKILL)
    _wait_until(lambda: all(map(has_ended, seen)), _END_SECONDS)


def has_ended(pid: int) -> bool:
    """Tell whether no thread of a process runs any more; its parent may not have waited for it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    is_dead = text.rpartition(")")[2].split()[0] in ("Z", "X")
    return is_dead and len(_list_folder(f"/proc/{pid}/task")) <= 1


class ProcessId(NamedTuple):
    """One process, told apart from a later one with the same number by its start."""

    pid: int
    born: str

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, as far as can be seen from here."""
        return identify(self.pid) == self and not has_ended(self.pid)


def identify(pid: int) -> ProcessId | None:
    """Return the process that has a number now; None if there is none, or it is unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # Ticks since the machine was started, in which namespace, since which start of it.
        ticks = text.rpartition(")")[2].split()[19]
        return ProcessId(pid, f"{ticks} {Path('/proc/self/ns/pid').readlink()} {_boot_id()}")
    except (OSError, IndexError):
        return _identify_by_ps(pid) if sys.platform != "linux" else None


def end_processes(processes: Iterable[ProcessId], *, patience_seconds: float) -> bool:
    """Wait until processes have ended by themselves, then end them; tell whether all are gone."""
    waited = list(processes)

    def are_gone() -> bool:
        return not any(each.is_alive for each in waited)

    if _wait_until(are_gone, patience_seconds):
        return True
    for each in waited:
        if each.is_alive:
            end_descendants(each.pid)
            _signal_all([each.pid], signal.SIGKILL)
    return _wait_until(are_gone, patience_seconds)


def _wait_until(is_true: Callable[[], bool], limit_seconds: float) -> bool:
    """Poll for what no descriptor reports; tell whether it became true in time."""
    deadline, pause = monotonic() + limit_seconds, 0.0005
    while not is_true():
        if monotonic() > deadline:
            return False
        sleep(pause)
        pause = min(2 * pause, 0.02)
    return True


@functools.cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _identify_by_ps(pid: int) -> ProcessId | None:
    """Identify a process on a system without /proc."""
    try:
        text = subprocess.run(  # noqa: S603  our own command
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False
        ).stdout
    except OSError:
        return None
    return ProcessId(pid, text.decode(errors="replace").strip()) if text.strip() else None


def _signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _child_finder() -> Callable[[int], list[int]]:
    """Return a function that finds children: by the kernel's lists, or else by all processes."""
    me = os.getpid()
    if Path(f"/proc/{me}/task/{me}/children").exists():
        return _kernel_children
    born: dict[int, list[int]] = {}
    for entry in _list_folder("/proc"):
        if entry.isdigit() and (parent := _parent(entry)) is not None:
            born.setdefault(parent, []).append(int(entry))
    return lambda pid: born.get(pid, [])


def _kernel_children(pid: int) -> list[int]:
    """Return the children of a process; each of its threads has its own list."""
    found: list[int] = []
    for task in _list_folder(f"/proc/{pid}/task"):
        with suppress(OSError):  # it has ended by now
            listed = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
            found += map(int, listed.split())
    return found


def _parent(pid: str) -> int | None:
    """Return the parent of a process; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[1])  # a name may have anything in it


def _list_folder(folder: str) -> list[str]:
    """Return the names in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208  a Path for each would cost more
    except OSError:
        return []
