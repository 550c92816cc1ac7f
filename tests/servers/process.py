"""A server in a process: found, started, killed, frozen and thawed.

A server is found in this order: a URL in an environment variable (`OTOLITH_TEST_POSTGRES` ...), a
program on this machine, a package. Tests that kill or freeze a server need one of their own, and
ignore the variable.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.patience import HANG_SECONDS


def given_url(kind: str) -> str | None:
    """Return the URL of a server that somebody else runs, if there is one."""
    return os.environ.get(f"OTOLITH_TEST_{kind.upper()}")


def program(name: str, *folders: str) -> str:
    """Return the path of a program; without it the test fails (CI=true), or is skipped."""
    found = shutil.which(name)
    for pattern in folders:
        places = sorted(Path("/").glob(f"{pattern.lstrip('/')}/{name}"))
        found = found or next((str(place) for place in reversed(places)), None)
    return found or missing(f"{name} is not here")


def missing(why: str) -> str:
    """Fail the test if this is CI, skip it elsewhere."""
    text = f"{why}: python3 dev.py setup brings it, where it can"
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until(is_ready: Callable[[], bool], what: str) -> None:
    """Wait for something that nothing announces."""
    deadline = monotonic() + HANG_SECONDS
    while not is_ready():
        if monotonic() > deadline:
            raise TimeoutError(f"{what} did not come up")
        sleep(0.02)


def listens(port: int) -> bool:
    """Tell whether somebody accepts connections on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


_REAPER = """
import os, signal, sys
running = set()
for line in sys.stdin:
    (running.add if line[0] == "+" else running.discard)(int(line[1:]))
for pid in running:
    os.kill(pid, signal.SIGKILL)
"""


@cache
def _reaper(parent: int) -> subprocess.Popen[str]:
    """Return a process that ends the servers of another one when that has ended, however."""
    command = [sys.executable, "-c", _REAPER]
    made = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)
    atexit.register(made.communicate)
    return made


def _tell_reaper(line: str) -> None:
    """Say which server runs (+id), or does not any more (-id)."""
    told = _reaper(os.getpid()).stdin
    assert told is not None
    told.write(line + "\n")
    told.flush()


class Server:
    """One process that listens on a port. The output is in `log` of its folder."""

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        *,
        port: int,
        user: int | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.command = [*map(str, command)]
        self.folder = folder
        self.port = port
        self._user = user
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process is not None
        return self._process.pid

    def start(self, is_ready: Callable[[], bool] | None = None) -> None:
        """Start the process, and wait until it listens; or until `is_ready`."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                user=self._user,
                group=self._user,
                start_new_session=True,  # Control-C in a terminal is for the tests
                env=os.environ | self._environment,
            )
        _tell_reaper(f"+{self.pid}")
        wait_until(lambda: self._is_up(is_ready), self.command[0])

    def _is_up(self, is_ready: Callable[[], bool] | None) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.command[0]} ended: {(self.folder / 'log').read_text()}")
        return is_ready() if is_ready is not None else listens(self.port)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the process, if it runs, and wait until it is gone."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
        self._process.wait(timeout=HANG_SECONDS)
        _tell_reaper(f"-{self.pid}")
        self._process = None

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.stop(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop the process in its tracks; it keeps its connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process continue."""
        os.kill(self.pid, signal.SIGCONT)
