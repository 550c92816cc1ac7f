"""A program with two halves that passes open descriptors into a container and ends it in time.

`outside` is started by the host in place of the container. It listens on a Unix socket in the work
folder, starts the client of Docker or Podman, and sends the descriptors to the process that
connects. `inside` is the first process of the container. It connects, gives the descriptors their
numbers, and starts the requested program.

The connection is open as long as `outside` lives, and the host that has started it. Whatever ends
one of them, a kill included, ends the connection; then `inside` ends all others in the container,
and exits. So `outside` lives until no process is left in the container, unless it is killed.

Both halves run as a bare script (`python -I -S`): an image need not hold more than an interpreter,
and the environment of the worker says nothing about where otolith is.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

_KILLED = 137
_SET_DUMPABLE = 4


class Job(TypedDict):
    """The argument of `outside`."""

    work: str
    client: list[str]
    client_environment: dict[str, str]
    fds: list[int]
    argv: list[str]


def outside(job: Job) -> int:
    """Start the container, send the descriptors, and return the container's exit code."""
    host = os.pidfd_open(os.getppid())
    os.chdir(job["work"])  # the address of a socket is short; a path from here always fits
    address = Path(f".otolith-{os.getpid()}")
    job_inside = json.dumps({"address": str(address), "fds": job["fds"], "argv": job["argv"]})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(address))
        try:
            listener.listen(1)
            client = subprocess.Popen(  # noqa: S603  the caller's own command
                [*job["client"], "inside", job_inside], env=job["client_environment"]
            )
            connection = _accept(listener, client)
        finally:
            address.unlink()
    if connection is not None:
        socket.send_fds(connection, [b"."], job["fds"])
        _close(job["fds"])
        _wait_for_end(client, host)
        connection.close()
    code = client.wait()
    return code if code >= 0 else 128 - code


def _wait_for_end(client: subprocess.Popen[bytes], host: int) -> None:
    """Return when the container or the host has ended."""
    ended = os.pidfd_open(client.pid)
    try:
        select.select([ended, host], [], [])
    finally:
        os.close(ended)


def _accept(listener: socket.socket, client: subprocess.Popen[bytes]) -> socket.socket | None:
    """Wait for the connection from inside; None if the container ended before that."""
    ended = os.pidfd_open(client.pid)
    try:
        ready, _, _ = select.select([listener.fileno(), ended], [], [])
        return listener.accept()[0] if listener.fileno() in ready else None
    finally:
        os.close(ended)


def _close(fds: list[int]) -> None:
    """Close descriptors that were sent: a socket ends only when no process holds it any more."""
    for fd in fds:
        os.close(fd)


def inside(address: str, fds: list[int], argv: list[str]) -> int:
    """Start the program with the descriptors in place, and end with it or with the connection."""
    # A worker must not write into this process: it has no filter on its system calls.
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(address)
        received = socket.recv_fds(connection, 1, len(fds))[1]
        woken = _wake_when_child_ends()
        worker = os.fork()
        if worker == 0:
            _exec(argv, _move_above(received, fds), fds)
        _close(received)
        return _wait_for_worker(worker, connection, woken)


def _wake_when_child_ends() -> int:
    """Return a descriptor that can be read when a child has ended."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # an ignored signal would not wake it
    return woken


def _move_above(received: list[int], wanted: list[int]) -> list[int]:
    """Move descriptors out of the range of the wanted numbers, so that none overwrites another."""
    least = max(wanted, default=2) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least) for fd in received]
    _close(received)
    return moved


def _exec(argv: list[str], received: list[int], wanted: list[int]) -> None:
    """Become the requested program, with the descriptors under their numbers."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for fd, number in zip(received, wanted, strict=True):
        os.dup2(fd, number, inheritable=True)
    try:
        os.execvp(argv[0], argv)  # noqa: S606  the caller's own command
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(_KILLED)


def _wait_for_worker(worker: int, connection: socket.socket, woken: int) -> int:
    """Wait for the end of the program or of the connection; return the exit code."""
    while True:
        ready, _, _ = select.select([connection.fileno(), woken], [], [])
        if connection.fileno() in ready:
            _end_others()
            return _KILLED
        os.read(woken, 512)
        code = _reap(worker)
        if code is not None:
            return code


def _end_others() -> None:
    """End all other processes in the container, and return when they have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _reap(worker: int) -> int | None:
    """Wait for every child that has ended: process 1 inherits the orphans of all others.

    Return the exit code of the worker, if it is among them.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == worker:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    role, text = sys.argv[1:]
    job = json.loads(text)
    sys.exit(outside(job) if role == "outside" else inside(**job))
