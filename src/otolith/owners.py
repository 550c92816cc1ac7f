"""Owners: who is in the middle of something that must not be done twice, and whether it is alive.

An owner is host, process, start of the process, and a random part for the task. On one machine
`is_owner_alive` tells an owner that died from one that is in the middle of its task; about a
process of another machine nothing is known.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PROC = Path("/proc")
_OWNERS: set[str] = set()
"""The owners in this process whose tasks have not ended."""


@contextmanager
def register_owner() -> Iterator[str]:
    """Return a context with a new owner id, which counts as alive until the context ends."""
    owner = f"{_process_id(os.getpid())}/{os.urandom(4).hex()}"
    _OWNERS.add(owner)
    try:
        yield owner
    finally:
        _OWNERS.discard(owner)


def is_owner_here(owner: str) -> bool:
    """Tell whether an owner is, or was, a task of this process."""
    return owner.rpartition("/")[0] == _process_id(os.getpid())


def is_owner_alive(owner: str) -> bool:
    """Tell whether an owner is known to be alive; False also if nothing is known about it."""
    process, _, token = owner.rpartition("/")
    if process.count("/") != 2 or not token:
        return False
    if is_owner_here(owner):
        return owner in _OWNERS
    host, pid, _ = process.split("/")
    return host == socket.gethostname() and pid.isdigit() and _process_id(int(pid)) == process


def is_owner_dead(owner: str) -> bool:
    """Tell whether an owner is known to have ended; False also if nothing is known about it."""
    process, _, token = owner.rpartition("/")
    host = process.partition("/")[0]
    is_of_this_machine = process.count("/") == 2 and bool(token) and host == socket.gethostname()
    return is_of_this_machine and not is_owner_alive(owner)


def _process_id(pid: int) -> str:
    """Return an id that no later process of the same number has; "" if there is no such process."""
    start = _process_start(pid)
    return "" if start is None else f"{socket.gethostname()}/{pid}/{start}"


def _process_start(pid: int) -> str | None:
    """Return when a process started, in the unit of the system; "-" if unknown, None if gone."""
    if (_PROC / "self" / "stat").exists():
        try:
            fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return None
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    if pid == os.getpid():
        return "-"
    if os.name == "nt":  # where signal 0 is a real signal
        return None
    with suppress(PermissionError):  # it is there, and belongs to another user
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
    return "-"
