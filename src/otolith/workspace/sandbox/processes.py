"""Processes: who is below one, which one a number means, and how all of them are ended.

A process that forks twice and leaves its session is found all the same: the fork server takes in
whoever loses its parent (`kernel.adopt_orphans`), so all that a step has started stays below it.
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


def children(pid: int) -> list[int]:
    """Return the processes that one has started, and that have not been buried yet."""
    return _look_up()(pid)


def end_below(pid: int, *, spared: Collection[int] = ()) -> None:
    """End all processes below one, and return when they have ended, or after some seconds.

    All are stopped first: who is stopped starts no other. A signal takes effect a little later than
    it is sent, and until then a process may go on writing to files.
    """
    seen: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        new = [each for each in below(pid, spared=spared) if each not in seen]
        if not new:
            break
        seen.update(new)
        _signal_all(new, signal.SIGSTOP)
    _signal_all(seen, signal.SIGKILL)
    _wait_until(lambda: all(map(has_ended, seen)), _END_SECONDS)


def has_ended(pid: int) -> bool:
    """Tell whether no thread of a process runs any more; it may wait to be buried by its parent."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    is_dead = said.rpartition(")")[2].split()[0] in ("Z", "X")
    return is_dead and len(_entries(f"/proc/{pid}/task")) <= 1


class ProcessId(NamedTuple):
    """One process, and no later one that has been given the same number."""

    pid: int
    born: str

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, as far as can be seen from here."""
        return identify(self.pid) == self and not has_ended(self.pid)


def identify(pid: int) -> ProcessId | None:
    """Return which process has a number now; None if none has, or nobody can say."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # Ticks since the machine was started, in which namespace, since which start of it.
        ticks = said.rpartition(")")[2].split()[19]
        return ProcessId(pid, f"{ticks} {Path('/proc/self/ns/pid').readlink()} {_boot()}")
    except (OSError, IndexError):
        return _listed_by_ps(pid) if sys.platform != "linux" else None


def end_processes(processes: Iterable[ProcessId], *, patience_seconds: float) -> bool:
    """Wait until processes have ended by themselves, then end them; tell whether all are gone."""
    waited = list(processes)

    def are_gone() -> bool:
        return not any(each.is_alive for each in waited)

    if _wait_until(are_gone, patience_seconds):
        return True
    for each in waited:
        if each.is_alive:
            end_below(each.pid)
            _signal_all([each.pid], signal.SIGKILL)
    return _wait_until(are_gone, patience_seconds)


def _wait_until(is_true: Callable[[], bool], limit_seconds: float) -> bool:
    """Wait for what no descriptor tells of; tell whether it came true in time."""
    deadline, pause = monotonic() + limit_seconds, 0.0005
    while not is_true():
        if monotonic() > deadline:
            return False
        sleep(pause)
        pause = min(2 * pause, 0.02)
    return True


@functools.cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _listed_by_ps(pid: int) -> ProcessId | None:
    """Return what systems without a /proc know of a process."""
    try:
        said = subprocess.run(  # noqa: S603  our own command
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False
        ).stdout
    except OSError:
        return None
    return ProcessId(pid, said.decode(errors="replace").strip()) if said.strip() else None


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
