"""The workers of a workspace, as their host sees them: a fork server in a sandbox, and its workers.

The fork server runs in the sandbox with the workers, and in some sandboxes they can stop it. So it
gets limited time to start, and its messages are read only as they arrive.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

from otolith.errors import Invalid, Unavailable
from otolith.workspace import protocol, sandbox
from otolith.workspace.folder_files import CACHE_FOLDER
from otolith.workspace.step import Runner, StopRequests
from otolith.workspace.wire import PeerGone, Wire

Awaited = TypeVar("Awaited", protocol.Ready, protocol.WorkerStart)

_START_SECONDS = 60.0
_END_SECONDS = 10.0
_WAIT_SECONDS = 0.1
_CONTROL_BYTES = 1 << 20
_WORKER_FDS = 2  # objects in memory, and the memory of a long message
_MOST_MODULES, _LONGEST_MODULE = 4096, 200


@dataclass
class WorkerConnection:
    """A worker: its process id, the socket to it, and the read ends of its output."""

    pid: int
    wire: Wire[protocol.FromWorker]
    output: int
    errors: int
    ended: int | None = None  # its exit code, or minus the signal
    why: str = ""  # why the fork server ended it, if it did

    def close(self) -> None:
        """Close the socket and the output; a worker that is idle ends."""
        self.wire.close()
        os.close(self.output)
        os.close(self.errors)


class WorkerPool:
    """A fork server in a sandbox. It is started when it is first needed, and again if it dies.

    `on_start` is called before any code of a step runs in a new sandbox, with the processes that
    end last: when they have ended, no process is left in the sandbox.
    """

    def __init__(
        self,
        runner: Runner,
        work: Path,
        *,
        on_start: Callable[[list[sandbox.ProcessId]], None] | None = None,
        stop: StopRequests | None = None,
    ) -> None:
        self._runner = runner
        self._work = work
        self._on_start = on_start
        self._stop = stop
        self._process: subprocess.Popen[bytes] | None = None
        self._last_processes: list[sandbox.ProcessId] = []
        self._wire: Wire[protocol.FromForkServer] | None = None
        self._imported: set[str] = set()
        self._workers: dict[int, WorkerConnection] = {}
        self._prepared: tuple[socket.socket, int, int] | None = None  # ends of a requested worker
        self.sandbox: sandbox.Sandbox = sandbox.choose_sandbox(
            runner.sandbox, network=runner.network, image=runner.image
        )

    # Workers

    def fork(self, modules: Sequence[str]) -> WorkerConnection:
        """Return a new worker with modules imported: the prepared one, if there is one.

        Raises:
            Unavailable: no process can be started.
            PeerGone: the user has killed the step before it began.
        """
        try:
            return self._fork(modules)
        except PeerGone:  # the fork server has died since its last message, perhaps by a step
            self.close()
            if self._is_kill_requested():
                raise
            return self._fork(modules)

    def _fork(self, modules: Sequence[str]) -> WorkerConnection:
        """Return the prepared worker, or one that is requested now."""
        self._running_wire()
        if self._prepared is None:
            self._import_modules(modules)
            self._request_worker()
        started = self._next(protocol.WorkerStart)
        assert self._prepared is not None  # requested above
        line, output, errors = self._prepared
        self._prepared = None
        wire: Wire[protocol.FromWorker] = Wire(
            line, protocol.FromWorker, limit_bytes=self._runner.handover_bytes, most_fds=_WORKER_FDS
        )
        worker = self._workers[started.pid] = WorkerConnection(started.pid, wire, output, errors)
        return worker

    def prepare_worker(self, modules: Sequence[str]) -> None:
        """Have a worker forked for the next step, without waiting for it."""
        if self._wire is not None and self._prepared is None and self.is_alive():
            with suppress(PeerGone):
                self._import_modules(modules)
                self._request_worker()

    def _request_worker(self) -> None:
        """Ask the fork server for a worker, and keep our ends of its socket and output."""
        wire = self._running_wire()
        ours, theirs = socket.socketpair()
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        self._prepared = ours, output, errors
        try:
            wire.send(protocol.Fork(), [theirs.fileno(), output_end, errors_end])
        except BaseException:
            self._drop_prepared()
            raise
        finally:
            theirs.close()
            os.close(output_end)
            os.close(errors_end)
        ours.settimeout(0)
        os.set_blocking(output, False)
        os.set_blocking(errors, False)

    def _drop_prepared(self) -> None:
        """Close our ends of a prepared worker, which ends it."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            line, output, errors = prepared
            line.close()
            os.close(output)
            os.close(errors)

    def _import_modules(self, modules: Sequence[str]) -> None:
        """Let the fork server import modules, without waiting for it.

        The names come from a worker, so only valid names are passed on, and not too many.
        """
        room = _MOST_MODULES - len(self._imported)
        new = [name for name in modules if name not in self._imported and _is_module(name)][:room]
        if new and self._wire is not None:
            self._imported.update(new)
            self._wire.send(protocol.ImportModules(new))

    def signal(self, worker: WorkerConnection, number: int) -> None:
        """Send a signal to a worker; if the fork server has died, end everything."""
        if self._wire is None:
            return
        try:
            self._wire.send(protocol.Signal(worker.pid, number))
        except PeerGone:
            self.close()

    def end_orphans(self) -> None:
        """End processes that steps have started and left running, without waiting for it."""
        if self._wire is not None:
            with suppress(PeerGone):
                self._wire.send(protocol.EndOrphans())

    def processes(self) -> list[int]:
        """Return the processes in the sandbox that can be seen from here."""
        return [] if self._process is None else sandbox.descendants(self._process.pid)

    def wait_for_end(self, worker: WorkerConnection, *, limit_seconds: float) -> None:
        """Wait until a worker and what it started have ended, at most so long."""
        deadline = monotonic() + limit_seconds
        while worker.ended is None and self._wire is not None and monotonic() < deadline:
            if not self.read_message():
                self._wait(deadline)

    # Messages of the fork server

    @property
    def control(self) -> socket.socket | None:
        """The socket on which the fork server reports that workers have ended."""
        return None if self._wire is None else self._wire.line

    def read_messages(self) -> None:
        """Process all messages of the fork server that have arrived."""
        while self._wire is not None and self.read_message():
            pass

    def read_message(self) -> bool:
        """Process a message of the fork server; tell whether one has arrived.

        If the fork server has died, everything is ended.
        """
        try:
            message = self._poll()
        except (PeerGone, Invalid):
            self.close()
            return False
        if message is not None:
            self._process_message(message)
        return message is not None

    def _next(self, kind: type[Awaited]) -> Awaited:
        """Wait for a message of a kind.

        Raises:
            PeerGone: the fork server has died, does not answer, or the step is to be killed.
        """
        deadline = monotonic() + _START_SECONDS
        while monotonic() < deadline and not self._is_kill_requested():
            try:
                message = self._poll()
            except Invalid as error:
                raise PeerGone(error.message) from error
            if isinstance(message, kind):
                return message
            if message is None:
                self._wait(deadline)
            else:
                self._process_message(message)
        raise PeerGone("the fork server does not answer")

    def _poll(self) -> protocol.FromForkServer | None:
        """Return a message of the fork server, if one has arrived.

        Raises:
            PeerGone: the fork server has died.
            Invalid: what arrived is not a message.
        """
        if self._wire is None:
            raise PeerGone("the fork server is closed")
        self._wire.flush()
        found = self._wire.poll()
        if found is None:
            return None
        message, descriptors = found
        for descriptor in descriptors:  # it has no reason to send any
            os.close(descriptor)
        return message

    def _process_message(self, message: protocol.FromForkServer) -> None:
        if isinstance(message, protocol.WorkerExit) and message.pid in self._workers:
            worker = self._workers.pop(message.pid)
            worker.ended, worker.why = message.code, message.why

    def _is_kill_requested(self) -> bool:
        return self._stop is not None and self._stop.has_kill

    def _wait(self, deadline: float) -> None:
        """Wait until the fork server writes or reads, but not for long."""
        if self._wire is None:
            return
        events = selectors.EVENT_READ
        if self._wire.has_unsent:
            events |= selectors.EVENT_WRITE
        with selectors.DefaultSelector() as selector:
            selector.register(self._wire.line, events)
            selector.select(max(0.0, min(_WAIT_SECONDS, deadline - monotonic())))

    # The process of the fork server

    def is_alive(self) -> bool:
        """Tell whether the fork server runs."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End all processes. When this returns no process is left in the sandbox."""
        self._drop_prepared()
        process, self._process = self._process, None
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._imported.clear()
        if process is not None:
            _end(process, patience_seconds=self.sandbox.end_seconds)
        last, self._last_processes = self._last_processes, []
        sandbox.end_processes(last, patience_seconds=_END_SECONDS)
        for worker in self._workers.values():
            worker.ended = -signal.SIGKILL if worker.ended is None else worker.ended
        self._workers.clear()

    def _running_wire(self) -> Wire[protocol.FromForkServer]:
        """Return the connection to the fork server, which is started if it does not run."""
        if self._wire is None or not self.is_alive():
            self.close()
            self._start()
        assert self._wire is not None
        return self._wire

    def _start(self) -> None:
        """Start a fork server in the sandbox, and wait until it is ready."""
        runner = self._runner
        ours, theirs = socket.socketpair()
        spec = sandbox.SandboxSpec(self._work, network=runner.network, disk_bytes=runner.disk_bytes)
        most = "" if runner.processes is None else str(runner.processes)
        # A bare name of an interpreter is looked up inside the sandbox.
        python = (
            str(sandbox.path_inside(runner.python)) if os.sep in runner.python else runner.python
        )
        environment = _environment(runner, self._work)
        command = self.sandbox.command(
            # -P: no module of the work folder is imported in place of another
            [python, "-B", "-P", "-m", "otolith.workspace.worker.fork_server",
             str(theirs.fileno()), self.sandbox.name, str(self._work), str(int(spec.network)),
             most],
            spec, environment=environment, keep_fds=[theirs.fileno()],
        )  # fmt: skip
        try:
            self._process = subprocess.Popen(  # noqa: S603  # the command is our own
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=self._work,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise Unavailable(f"no worker can be started: {error}", hint="see doctor") from error
        finally:
            theirs.close()
        ours.settimeout(0)
        self._wire = Wire(ours, protocol.FromForkServer, limit_bytes=_CONTROL_BYTES, most_fds=1)
        self._wait_until_ready(self._process)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the fork server; report the processes that end last."""
        try:
            self._next(protocol.Ready)
        except PeerGone as error:
            if self._is_kill_requested():
                raise
            printed = _end_and_read_errors(process)
            self.close()
            raise Unavailable(
                f"the process that runs steps did not start in {self.sandbox.name}: {printed}",
                hint="run otolith doctor, or choose another sandbox",
            ) from error
        last = map(sandbox.identify, self.sandbox.last_processes(process.pid))
        self._last_processes = [each for each in last if each is not None]
        if self._on_start is not None:
            self._on_start(self._last_processes)


def _is_module(name: str) -> bool:
    parts = name.split(".")
    return len(name) <= _LONGEST_MODULE and all(part.isidentifier() for part in parts)


def _environment(runner: Runner, work: Path) -> dict[str, str]:
    """Return the whole environment of a worker: by default, nothing of the user's."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(work),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": str(work / CACHE_FOLDER / "matplotlib"),
        "XDG_CACHE_HOME": str(work / CACHE_FOLDER),
        **runner.environment,
    }


def _end(process: subprocess.Popen[bytes], *, patience_seconds: float) -> None:
    """End a fork server and all it has started: a process without parent becomes its child."""
    if process.stderr is not None:
        process.stderr.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=patience_seconds)
    if process.returncode is None:
        sandbox.end_descendants(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_and_read_errors(process: subprocess.Popen[bytes]) -> str:
    """End a fork server that did not start; return what it printed."""
    sandbox.end_descendants(process.pid)
    process.kill()
    process.wait()
    if process.stderr is None:
        return ""
    os.set_blocking(process.stderr.fileno(), False)
    printed = process.stderr.read(1 << 16) or b""
    return printed.decode("utf-8", "replace").strip()[-2000:]
