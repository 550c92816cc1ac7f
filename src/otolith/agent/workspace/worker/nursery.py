"""The process that forks workers: started once, inside the sandbox, with everything imported.

    python -m otolith.agent.workspace.worker.nursery FD SANDBOX WORK NETWORK

It runs no code of the session. It forks when told to, passes signals on, tells when a worker is no
more, and imports what steps have imported, so that the next worker finds it there.
"""

from __future__ import annotations

import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from otolith.agent.workspace.messages import (
    Ended,
    Fork,
    Forked,
    FromNursery,
    Learn,
    Ready,
    Signal,
    ToNursery,
)
from otolith.agent.workspace.sandbox import Place, by_name
from otolith.agent.workspace.wire import Gone, Wire
from otolith.agent.workspace.worker.session import live


def main(arguments: list[str]) -> None:
    """Serve a host until it hangs up."""
    descriptor, sandbox, work, network = arguments
    line = socket.socket(fileno=int(descriptor))
    by_name(sandbox).enter(Place(Path(work), network=network == "1"))
    wire: Wire[ToNursery] = Wire(line, ToNursery)
    nursery = Nursery(wire)
    wire.send(Ready(sys.version.split()[0], sandbox))
    nursery.serve()


class Nursery:
    """Forks workers and looks after them."""

    def __init__(self, wire: Wire[ToNursery]) -> None:
        self._wire = wire
        self._workers: set[int] = set()
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)

    def serve(self) -> None:
        """Do what the host says."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._wire.line, selectors.EVENT_READ, self._obey)
            waiting.register(self._woken, selectors.EVENT_READ, self._reap)
            with suppress(Gone):
                while True:
                    _call_all(waiting.select())
        self._end_all()

    def _obey(self) -> None:
        order, fds = self._wire.receive()
        if isinstance(order, Fork):
            self._fork(fds)
        elif isinstance(order, Signal) and order.pid in self._workers:
            os.kill(order.pid, order.number)
        elif isinstance(order, Learn):
            for name in order.modules:
                _import(name)

    def _fork(self, fds: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            self._be_worker(*fds)
        for fd in fds:
            os.close(fd)
        self._workers.add(pid)
        self._tell(Forked(pid))

    def _be_worker(self, line: int, output: int, errors: int) -> None:
        """Become a worker: this never returns."""
        code = 70
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setpgid(0, 0)
            self._wire.close()
            os.dup2(output, 1)
            os.dup2(errors, 2)
            os.close(output)
            os.close(errors)
            live(socket.socket(fileno=line))
            code = 0
        except Gone:
            code = 0
        except BaseException:  # noqa: BLE001  # it must not come back as a second nursery
            traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        for pid in list(self._workers):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self._workers.discard(pid)
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # what it started ends with it
                self._tell(Ended(pid, os.waitstatus_to_exitcode(status)))

    def _tell(self, message: FromNursery) -> None:
        self._wire.send(message)

    def _end_all(self) -> None:
        for pid in self._workers:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def _call_all(ready: list[tuple[selectors.SelectorKey, int]]) -> None:
    for key, _ in ready:
        key.data()


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # noqa: BLE001  # a package may raise anything; workers will see it too
        return


if __name__ == "__main__":
    main(sys.argv[1:])
