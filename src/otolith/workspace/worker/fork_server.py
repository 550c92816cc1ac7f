"""The process that forks workers: started once, inside the sandbox, with everything imported.

    python -m otolith.workspace.worker.fork_server FD SANDBOX WORK NETWORK PROCESSES

It runs no code of the session. It forks on request, passes signals on, reports when a worker has
ended, and imports what steps have imported, so that the next worker finds it there. A process that
loses its parent becomes its child, so whatever a step has started ends at the latest with the fork
server. The kernel does not count the processes of root; then they are counted here, ten times a
second.
"""

from __future__ import annotations

import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from otolith.workspace import protocol
from otolith.workspace.sandbox import (
    ResourceLimits,
    Sandbox,
    SandboxSpec,
    descendants,
    end_descendants,
    kernel,
    sandbox_by_name,
)
from otolith.workspace.wire import PeerGone, Wire
from otolith.workspace.worker.worker import serve_host

_COUNT_SECONDS = 0.1


def main(arguments: list[str]) -> None:
    """Serve a host until it closes its socket."""
    descriptor, sandbox, work, network, most = arguments
    line = socket.socket(fileno=int(descriptor))
    inside = sandbox_by_name(sandbox)
    inside.enter(SandboxSpec(Path(work), network=network == "1"))
    wire: Wire[protocol.ToForkServer] = Wire(line, protocol.ToForkServer)
    limits = ResourceLimits(processes=int(most) if most else None)
    server = ForkServer(
        wire, inside, most=limits.processes if "processes" in limits.ignored() else None
    )
    wire.send(protocol.Ready())
    server.serve()


class ForkServer:
    """Forks workers, and ends what they leave behind.

    `most` limits the processes of a step, where the kernel does not.
    """

    def __init__(
        self, wire: Wire[protocol.ToForkServer], sandbox: Sandbox, *, most: int | None = None
    ) -> None:
        self._wire = wire
        self._sandbox = sandbox
        self._most = most
        self._workers: dict[int, str] = {}  # oldest first; why it is being ended
        self._wakeups, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._wakeups, False)
        # Interrupts are blocked in a new worker: one that comes early waits for its step.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if sys.platform == "linux":
            kernel.adopt_orphans()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)

    def serve(self) -> None:
        """Process messages until the host closes its socket."""
        with suppress(PeerGone), selectors.DefaultSelector() as selector:
            selector.register(self._wire.line, selectors.EVENT_READ, self._process_message)
            selector.register(self._wakeups, selectors.EVENT_READ, self._reap)
            while True:
                is_counting = self._most is not None and self._workers
                for key, _ in selector.select(_COUNT_SECONDS if is_counting else None):
                    key.data()
                self._count()
        end_descendants(os.getpid())

    def _process_message(self) -> None:
        """Do what a message of the host says."""
        order, fds = self._wire.receive()
        if isinstance(order, protocol.Fork):
            self._fork(fds)
        elif isinstance(order, protocol.Signal) and order.pid in self._workers:
            os.kill(order.pid, order.number)
        elif isinstance(order, protocol.EndOrphans):
            self._end_orphans()
        elif isinstance(order, protocol.ImportModules):
            for name in order.modules:
                with suppress(Exception):  # a package may raise anything; workers will see it too
                    importlib.import_module(name)

    def _fork(self, fds: list[int]) -> None:
        """Fork a worker with the descriptors of its socket and output."""
        gc.freeze()  # else garbage collection in a worker would copy all pages
        pid = os.fork()
        if pid == 0:
            self._be_worker(*fds)
        for fd in fds:
            os.close(fd)
        self._workers[pid] = ""
        self._wire.send(protocol.WorkerStart(pid))

    def _be_worker(self, line: int, output: int, errors: int) -> None:
        """Become a worker: this never returns."""
        code = 70
        try:
            if sys.platform == "linux":
                kernel.end_with_parent()
            self._sandbox.enter_worker()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setpgid(0, 0)
            self._wire.close()
            os.dup2(output, 1)
            os.dup2(errors, 2)
            os.close(output)
            os.close(errors)
            serve_host(socket.socket(fileno=line))
            code = 0
        except PeerGone:
            code = 0
        except BaseException:  # noqa: BLE001  # it must not continue as a second fork server
            traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        """Wait for children that have ended, and report workers among them."""
        with suppress(BlockingIOError):
            os.read(self._wakeups, 4096)
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid in self._workers:
                    why = self._workers.pop(pid)
                    self._end_orphans()  # what it started ends with it
                    self._wire.send(
                        protocol.WorkerExit(pid, os.waitstatus_to_exitcode(status), why)
                    )

    def _end_orphans(self) -> None:
        """End processes without parent; what a living worker has started stays."""
        end_descendants(os.getpid(), spared=self._workers.keys())

    def _count(self) -> None:
        """End the step that has started too many processes."""
        if self._most is None or len(descendants(os.getpid())) - len(self._workers) <= self._most:
            return
        parents = (pid for pid in self._workers if descendants(pid))
        worker = next(parents, next(iter(self._workers)))
        self._workers[worker] = f"it started more than {self._most:,} processes"
        end_descendants(os.getpid(), spared=self._workers.keys() - {worker})


if __name__ == "__main__":
    main(sys.argv[1:])
