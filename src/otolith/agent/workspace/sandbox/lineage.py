"""The processes below one: who they are, and how they are ended so that none gets away.

A process that forks twice and leaves its session is found all the same: the nursery takes in
whoever loses its parent (`kernel.adopt_orphans`), so all that a step has started stays below it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

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
