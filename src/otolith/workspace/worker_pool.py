"""The worker pool of a workspace, as its host sees it: a fork server in a sandbox, and its workers.

The fork server is waited for no longer than it may take to start, and read as its words arrive: it
lives in the sandbox with the workers, which can stop it in some of them.
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
from otolith.workspace.protocol import (
    Ended,
    Fork,
    Forked,
    FromForkServer,
    FromWorker,
    Learn,
    Ready,
    Signal,
    Sweep,
)
from otolith.workspace.sandbox import (
    Place,
    ProcessId,
    Sandbox,
    below,
    choose,
    end_below,
    end_processes,
    identify,
    plain_path,
)
from otolith.workspace.step import Runner, Stop
from otolith.workspace.wire import Gone, Wire

Heard = TypeVar("Heard", Ready, Forked)

_START_SECONDS = 60.0
_END_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_CONTROL_BYTES = 1 << 20
_WORKER_FDS = 2  # objects in memory, and the memory of a long message
_MOST_MODULES, _LONGEST_MODULE = 4096, 200


@dataclass
class WorkerLine:
    """A worker: the line to it, and the ends of its output."""

    pid: int
    wire: Wire[FromWorker]
    output: int
    errors: int
    ended: int | None = None  # its exit code, or minus the signal
    why: str = ""  # why it was ended, where that is known

    def close(self) -> None:
        """Hang up; a worker that is idle ends."""
        self.wire.close()
        os.close(self.output)
        os.close(self.errors)


class WorkerPool:
    """A fork server in a sandbox. It is started when it is first needed, and again if it dies.

    `on_start` is called before any code of a step runs in a new sandbox, with the processes after
    whose end nobody in it is left.
    """

    def __init__(
        self,
        runner: Runner,
        work: Path,
        *,
        on_start: Callable[[list[ProcessId]], None] | None = None,
        stop: Stop | None = None,
    ) -> None:
        self._runner = runner
        self._work = work
        self._on_start = on_start
        self._stop = stop
        self._process: subprocess.Popen[bytes] | None = None
        self._last_processes: list[ProcessId] = []
        self._wire: Wire[FromForkServer] | None = None
        self._known: set[str] = set()
        self._workers: dict[int, WorkerLine] = {}
        self._spare: tuple[socket.socket, int, int] | None = None
        self.sandbox: Sandbox = choose(runner.sandbox, network=runner.network, image=runner.image)

    def fork(self, modules: Sequence[str]) -> WorkerLine:
        """Return a new worker, with modules imported: the one that was made ready, if there is one.

        Raises:
            Unavailable: no process can be started.
            Gone: the step is to be killed before it has begun.
        """
        try:
            return self._forked(modules)
        except Gone:  # the fork server has died since it was last heard of, perhaps by a step
            self.close()
            if self._is_kill_wished():
                raise
            return self._forked(modules)

    def _forked(self, modules: Sequence[str]) -> WorkerLine:
        self._fork_server()
        if self._spare is None:
            self.learn(modules)
            self._ask_for_one()
        forked = self._next(Forked)
        line, output, errors = self._spare  # type: ignore[misc]  # asked for above
        self._spare = None
        wire: Wire[FromWorker] = Wire(
            line, FromWorker, limit_bytes=self._runner.handover_bytes, most_fds=_WORKER_FDS
        )
        worker = self._workers[forked.pid] = WorkerLine(forked.pid, wire, output, errors)
        return worker

    def make_ready(self, modules: Sequence[str]) -> None:
        """Have a worker forked for the next step, while others do something else."""
        if self._wire is not None and self._spare is None and self.is_alive():
            with suppress(Gone):
                self.learn(modules)
                self._ask_for_one()

    def _ask_for_one(self) -> None:
        wire = self._fork_server()
        ours, theirs = socket.socketpair()
        output, out = os.pipe()
        errors, err = os.pipe()
        self._spare = ours, output, errors
        try:
            wire.send(Fork(), [theirs.fileno(), out, err])
        except BaseException:
            self._dismiss_spare()
            raise
        finally:
            theirs.close()
            os.close(out)
            os.close(err)
        ours.settimeout(0)
        for fd in (output, errors):
            os.set_blocking(fd, False)

    def _dismiss_spare(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            line, output, errors = spare
            line.close()
            os.close(output)
            os.close(errors)

    def learn(self, modules: Sequence[str]) -> None:
        """Let the fork server import modules, while others do something else.

        What names them is a worker, so only what can be a name is passed on, and not too much.
        """
        room = _MOST_MODULES - len(self._known)
        new = [name for name in modules if name not in self._known and _is_module(name)][:room]
        if new and self._wire is not None:
            self._known.update(new)
            self._wire.send(Learn(new))

    def signal(self, worker: WorkerLine, number: int) -> None:
        """Send a signal to a worker; if the fork server is no more, end everything."""
        if self._wire is None:
            return
        try:
            self._wire.send(Signal(worker.pid, number))
        except Gone:
            self.close()

    def end(self, worker: WorkerLine) -> None:
        """End a worker that has done its step, and what it started, while others do something else.

        Its own word that it is done does not mean that it stops.
        """
        self.signal(worker, signal.SIGKILL)

    def sweep(self) -> None:
        """Have ended what steps have started and left behind, while others do something else."""
        if self._wire is not None:
            with suppress(Gone):
                self._wire.send(Sweep())

    @property
    def control(self) -> socket.socket | None:
        """The line on which the fork server tells of ends."""
        return None if self._wire is None else self._wire.line

    def processes(self) -> list[int]:
        """Return the processes in the sandbox that can be seen from here."""
        return [] if self._process is None else below(self._process.pid)

    def catch_up(self) -> None:
        """Take in what the fork server has said meanwhile, as that a worker is no more."""
        while self._wire is not None and self._hear():
            pass

    def hear(self) -> None:
        """Take in a message of the fork server, if one has arrived; one that has died is closed."""
        self._hear()

    def _hear(self) -> bool:
        try:
            message = self._polled()
        except (Gone, Invalid):
            self.close()
            return False
        if message is not None:
            self._take(message)
        return message is not None

    def wait_for_end(self, worker: WorkerLine, *, limit_seconds: float) -> None:
        """Wait until a worker and what it started have ended, or for so long."""
        deadline = monotonic() + limit_seconds
        while worker.ended is None and self._wire is not None and monotonic() < deadline:
            if not self._hear():
                self._wait(deadline)

    def is_alive(self) -> bool:
        """Tell whether the fork server is there."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End all processes. When it returns nobody in the sandbox is left."""
        self._dismiss_spare()
        process, self._process = self._process, None
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._known.clear()
        if process is not None:
            _end(process, patience_seconds=self.sandbox.end_seconds)
        last, self._last_processes = self._last_processes, []
        end_processes(last, patience_seconds=_END_SECONDS)
        for worker in self._workers.values():
            worker.ended = -signal.SIGKILL if worker.ended is None else worker.ended
        self._workers.clear()

    def _fork_server(self) -> Wire[FromForkServer]:
        if self._wire is None or not self.is_alive():
            self.close()
            self._start()
        assert self._wire is not None
        return self._wire

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        place = Place(self._work, network=self._runner.network, disk_bytes=self._runner.disk_bytes)
        number = str(theirs.fileno())
        most = "" if self._runner.processes is None else str(self._runner.processes)
        arguments = [number, self.sandbox.name, str(self._work), str(int(place.network)), most]
        module = "otolith.workspace.worker.fork_server"
        environment = _environment(self._runner, self._work)
        command = self.sandbox.command(
            # -P: no module of the work folder is imported in place of another
            [_python(self._runner.python), "-B", "-P", "-m", module, *arguments],
            place,
            environment=environment,
            keep_fds=[theirs.fileno()],
        )
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
        self._wire = Wire(ours, FromForkServer, limit_bytes=_CONTROL_BYTES, most_fds=1)
        self._greet()

    def _greet(self) -> None:
        """Wait until the fork server is ready, and tell which processes will end last."""
        try:
            self._next(Ready)
        except Gone as error:
            if self._is_kill_wished():
                raise
            said = self._last_words()
            self.close()
            raise Unavailable(
                f"the process that runs steps did not start in {self.sandbox.name}: {said}",
                hint="run otolith doctor, or choose another sandbox",
            ) from error
        assert self._process is not None
        named = map(identify, self.sandbox.last_processes(self._process.pid))
        self._last_processes = [each for each in named if each is not None]
        if self._on_start is not None:
            self._on_start(self._last_processes)

    def _last_words(self) -> str:
        process = self._process
        if process is None or process.stderr is None:
            return ""
        end_below(process.pid)
        process.kill()
        process.wait()
        os.set_blocking(process.stderr.fileno(), False)
        said = process.stderr.read(1 << 16) or b""
        return said.decode("utf-8", "replace").strip()[-2000:]

    def _next(self, kind: type[Heard]) -> Heard:
        """Wait for a message of a kind.

        Raises:
            Gone: the fork server is no more, does not answer, or the step is to be killed.
        """
        deadline = monotonic() + _START_SECONDS
        while monotonic() < deadline and not self._is_kill_wished():
            try:
                message = self._polled()
            except Invalid as error:
                raise Gone(error.message, hint="start a new one") from error
            if isinstance(message, kind):
                return message
            if message is None:
                self._wait(deadline)
            else:
                self._take(message)
        raise Gone("the fork server does not answer", hint="start a new one")

    def _is_kill_wished(self) -> bool:
        return self._stop is not None and self._stop.is_kill_wished

    def _wait(self, deadline: float) -> None:
        """Wait until the fork server says something or reads, but not for long."""
        if self._wire is None:
            return
        events = selectors.EVENT_READ
        if self._wire.has_unsent:
            events |= selectors.EVENT_WRITE
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._wire.line, events)
            waiting.select(max(0.0, min(_LOOK_SECONDS, deadline - monotonic())))

    def _polled(self) -> FromForkServer | None:
        """Return what the fork server has said, if it has said something.

        Raises:
            Gone: it is no more.
            Invalid: it says what it cannot say.
        """
        if self._wire is None:
            raise Gone("the fork server is closed", hint="start a new one")
        self._wire.flush()
        found = self._wire.poll()
        if found is None:
            return None
        message, descriptors = found
        for descriptor in descriptors:  # it has none to send
            os.close(descriptor)
        return message

    def _take(self, message: FromForkServer) -> None:
        if isinstance(message, Ended) and message.pid in self._workers:
            worker = self._workers.pop(message.pid)
            worker.ended, worker.why = message.code, message.why


def _python(given: str) -> str:
    """Return the path of an interpreter as it can be used inside; a name is looked for there."""
    return str(plain_path(given)) if os.sep in given else given


def _is_module(name: str) -> bool:
    parts = name.split(".")
    return len(name) <= _LONGEST_MODULE and all(part.isidentifier() for part in parts)


def _environment(runner: Runner, work: Path) -> dict[str, str]:
    """Return all that a worker finds in its environment: nothing of the user's, by default."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(work),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": "/tmp/matplotlib",  # noqa: S108  # in most sandboxes it is their own
        **runner.environment,
    }


def _end(process: subprocess.Popen[bytes], *, patience_seconds: float) -> None:
    """End a fork server and all it has started: whoever lost its parent has become its child."""
    if process.stderr is not None:
        process.stderr.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=patience_seconds)
    if process.returncode is None:
        end_below(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
