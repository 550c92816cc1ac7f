"""The processes of a workspace, as its host sees them: a nursery, and the workers it forks."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from otolith.errors import Unavailable
from otolith.workspace.protocol import (
    Ended,
    Fork,
    Forked,
    FromNursery,
    FromWorker,
    Gone,
    Learn,
    Ready,
    Signal,
    Sweep,
    Wire,
)
from otolith.workspace.sandbox import Place, Sandbox, choose, end_below
from otolith.workspace.step import Runner

Heard = TypeVar("Heard", Ready, Forked)

_START_SECONDS = 60.0
_STALL_SECONDS = 30.0


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
    """A nursery in a sandbox. It is started when it is first needed, and again if it dies."""

    def __init__(self, runner: Runner, work: Path) -> None:
        self._runner = runner
        self._work = work
        self._process: subprocess.Popen[bytes] | None = None
        self._wire: Wire[FromNursery] | None = None
        self._known: set[str] = set()
        self._workers: dict[int, WorkerLine] = {}
        self._spare: tuple[socket.socket, int, int] | None = None
        self.sandbox: Sandbox = choose(runner.sandbox, network=runner.network, image=runner.image)

    def fork(self, modules: Sequence[str]) -> WorkerLine:
        """Return a new worker, with modules imported: the one that was made ready, if there is one.

        Raises:
            Unavailable: no process can be started.
        """
        try:
            return self._forked(modules)
        except Gone:  # the nursery has died since it was last heard of, perhaps by what a step did
            self.close()
            return self._forked(modules)

    def _forked(self, modules: Sequence[str]) -> WorkerLine:
        self._nursery()
        if self._spare is None:
            self.learn(modules)
            self._ask_for_one()
        forked = self._next(Forked)
        line, output, errors = self._spare  # type: ignore[misc]  # asked for above
        self._spare = None
        wire: Wire[FromWorker] = Wire(line, FromWorker, limit_bytes=self._runner.handover_bytes)
        worker = self._workers[forked.pid] = WorkerLine(forked.pid, wire, output, errors)
        return worker

    def make_ready(self, modules: Sequence[str]) -> None:
        """Have a worker forked for the next step, while others do something else."""
        if self._wire is not None and self._spare is None and self.is_alive():
            with suppress(Gone):
                self.learn(modules)
                self._ask_for_one()

    def _ask_for_one(self) -> None:
        wire = self._nursery()
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
        ours.settimeout(_STALL_SECONDS)
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
        """Let the nursery import modules, while others do something else."""
        new = [name for name in modules if name not in self._known]
        if new and self._wire is not None:
            self._known.update(new)
            self._wire.send(Learn(new))

    def signal(self, worker: WorkerLine, number: int) -> None:
        """Send a signal to a worker; if the nursery does not answer, end everything."""
        if self._wire is None:
            return
        try:
            self._wire.send(Signal(worker.pid, number))
        except Gone:
            self.close()

    def sweep(self) -> None:
        """Have ended what steps have started and left behind, while others do something else."""
        if self._wire is not None:
            with suppress(Gone):
                self._wire.send(Sweep())

    @property
    def control(self) -> socket.socket | None:
        """The line that the nursery tells of ends on."""
        return None if self._wire is None else self._wire.line

    def catch_up(self) -> None:
        """Take in what the nursery has said meanwhile, as that a worker is no more."""
        with selectors.DefaultSelector() as waiting:
            line = self.control
            if line is not None:
                waiting.register(line, selectors.EVENT_READ)
            while self.control is not None and waiting.select(0):
                self.hear()

    def hear(self) -> None:
        """Take in one message of the nursery; one that has died is closed."""
        try:
            self._take(self._heard())
        except Gone:
            self.close()

    def is_alive(self) -> bool:
        """Tell whether the nursery is there."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """End all processes."""
        self._dismiss_spare()
        process, self._process = self._process, None
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._known.clear()
        for worker in self._workers.values():
            worker.ended = -signal.SIGKILL if worker.ended is None else worker.ended
        self._workers.clear()
        if process is not None:
            _end(process)

    def _nursery(self) -> Wire[FromNursery]:
        if self._wire is None or not self.is_alive():
            self.close()
            self._start()
        assert self._wire is not None
        return self._wire

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        place = Place(self._work, network=self._runner.network)
        number = str(theirs.fileno())
        most = "" if self._runner.processes is None else str(self._runner.processes)
        arguments = [number, self.sandbox.name, str(self._work), str(int(place.network)), most]
        module = "otolith.workspace.worker.fork_server"
        environment = _environment(self._runner, self._work)
        command = self.sandbox.command(
            [self._runner.python, "-B", "-m", module, *arguments],
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
            raise Unavailable(f"no worker can be started: {error}", hint="see doctor") from error
        finally:
            theirs.close()
        ours.settimeout(_START_SECONDS)
        self._wire = Wire(ours, FromNursery)
        try:
            self._next(Ready)
        except Gone as error:
            said = self._last_words()
            self.close()
            raise Unavailable(
                f"the process that runs steps did not start in {self.sandbox.name}: {said}",
                hint="run otolith doctor, or choose another sandbox",
            ) from error

    def _last_words(self) -> str:
        process = self._process
        if process is None or process.stderr is None:
            return ""
        process.kill()
        return process.stderr.read().decode("utf-8", "replace").strip()[-2000:]

    def _next(self, kind: type[Heard]) -> Heard:
        while True:
            message = self._heard()
            if isinstance(message, kind):
                return message
            self._take(message)

    def _heard(self) -> FromNursery:
        if self._wire is None:
            raise Gone("the nursery is closed", hint="start a new one")
        message, _ = self._wire.receive()
        return message

    def _take(self, message: FromNursery) -> None:
        if isinstance(message, Ended) and message.pid in self._workers:
            worker = self._workers.pop(message.pid)
            worker.ended, worker.why = message.code, message.why


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


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a nursery and all it has started: whoever lost its parent has become its child."""
    if process.stderr is not None:
        process.stderr.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    if process.returncode is None:
        end_below(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
