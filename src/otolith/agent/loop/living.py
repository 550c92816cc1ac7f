"""Who is at it: names a run of this process, and tells whether that of another one still lives.

A call that was begun and has not ended belongs to a process that died, or to one that is in the
middle of it. On one machine the two can be told apart; of another machine nothing is known.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from uuid import uuid4

from otolith.agent.live import Live
from otolith.errors import Busy

_PROC = Path("/proc")
_RUNNING: set[str] = set()
"""The runs of this process."""

_TAKEN: set[int] = set()
_GUARD = Lock()


@contextmanager
def alive() -> Iterator[str]:
    """Give a run its name, and let it be known as alive until it ends, however it does."""
    name = f"{_process(os.getpid())}/{uuid4().hex[:8]}"
    _RUNNING.add(name)
    try:
        yield name
    finally:
        _RUNNING.discard(name)


@contextmanager
def alone_in(state: object) -> Iterator[None]:
    """Let nobody else run in a state meanwhile: what a step stages there must be its own.

    Nothing is staged in a state without history, so that others may.

    Raises:
        Busy: somebody does.
    """
    if isinstance(state, Live):
        yield
        return
    with _GUARD:
        if id(state) in _TAKEN:
            raise Busy(
                "another orchestrator runs in this very state",
                hint="open a state for each; in a step, use delegate()",
            )
        _TAKEN.add(id(state))
    try:
        yield
    finally:
        _TAKEN.discard(id(state))


def is_alive(name: str) -> bool:
    """Tell whether a run is known to be alive; False if nothing is known of it."""
    process, _, token = name.rpartition("/")
    if not process or not token:
        return False
    if process == _process(os.getpid()):
        return name in _RUNNING
    host, pid, _ = process.split("/", 2)
    return host == socket.gethostname() and pid.isdigit() and _process(int(pid)) == process


def _process(pid: int) -> str:
    """Name a process so that no later one of the same number has its name; "" if there is none."""
    began = _began(pid)
    return "" if began is None else f"{socket.gethostname()}/{pid}/{began}"


def _began(pid: int) -> str | None:
    """Return when a process began, in whatever the system counts; None if it is gone."""
    if (_PROC / "self" / "stat").exists():
        try:
            fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return None
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    if pid == os.getpid():
        return "-"
    if os.name == "nt":  # there, signal 0 is a real one
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return "-"
    return "-"
