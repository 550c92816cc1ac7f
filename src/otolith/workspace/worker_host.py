"""The talk with a worker while it runs a step: its questions answered, its output read, its time.

A worker is interrupted when its time is over, and killed when it does not react; or when the user
wishes so. Whatever it does to the line, the worst is that its step is lost.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from otolith.agent.workspace.arrivals import Arrivals
from otolith.agent.workspace.crew import Crew, WorkerLine
from otolith.agent.workspace.handover import Seen
from otolith.agent.workspace.messages import (
    Done,
    FromWorker,
    Handing,
    Map,
    Mapped,
    Objects,
    Ran,
    Read,
    Run,
    Vouch,
    Vouched,
)
from otolith.agent.workspace.output import Output
from otolith.agent.workspace.runner import Runner
from otolith.agent.workspace.stop import Stop, Stopped
from otolith.agent.workspace.wire import Gone
from otolith.errors import Invalid


class Answers(Protocol):
    """What a worker may ask for."""

    def read(self, hashes: list[bytes]) -> list[bytes | None]: ...
    def below(self, found: list[bytes | None]) -> list[bytes]: ...
    def piece(self, cell: bytes) -> tuple[int, int] | None: ...
    def vouches(self, place: str, cell: bytes, signature: bytes) -> bool: ...
    def arrivals(self, limit_bytes: int) -> Arrivals: ...


@dataclass
class Ending:
    """How a talk ended: with what was done, or with why there is nothing."""

    done: Done | None
    stopped: Stopped | None = None
    why: str = ""
    arrived: Sequence[Seen] = ()  # before the end
    is_settled: bool = True  # False: an interrupt may be on its way to the worker yet


class Conversation:
    """One step of one worker."""

    def __init__(
        self, crew: Crew, worker: WorkerLine, answers: Answers, runner: Runner, stop: Stop
    ) -> None:
        self._crew = crew
        self._worker = worker
        self._answers = answers
        self._runner = runner
        self._stop = stop
        self._stopped: Stopped | None = None
        self._interrupts = 0
        self._has_run = False
        self._next: Callable[[], None] = self._interrupt
        self._deadline = monotonic() + runner.wall_seconds
        self._done: Done | None = None
        self._arrivals = answers.arrivals(runner.handover_bytes)

    def run(self, order: Run, output: Output, errors: Output) -> Ending:
        """Let the worker run a step; return when it is done, or is no more."""
        worker = self._worker
        try:
            worker.wire.send(order)
            self._listen(output, errors)
            arrived = self._arrivals.all()
        except Gone:
            arrived = []
        except Invalid as error:
            self._crew.signal(worker, signal.SIGKILL)
            return Ending(None, self._stopped, error.message)
        finally:
            self._arrivals.close()
        output.drain(worker.output)
        errors.drain(worker.errors)
        if self._done is None:
            return Ending(None, self._stopped, self._cause())
        is_stopped = not self._done.ok
        is_settled = self._interrupts == int(self._done.was_interrupted)
        stopped = self._stopped if is_stopped else None
        return Ending(self._done, stopped, arrived=arrived, is_settled=is_settled)

    def _listen(self, output: Output, errors: Output) -> None:
        worker, crew = self._worker, self._crew
        with selectors.DefaultSelector() as waiting:
            waiting.register(worker.wire.line, selectors.EVENT_READ, self._answer)
            for stream, descriptor in ((output, worker.output), (errors, worker.errors)):
                waiting.register(descriptor, selectors.EVENT_READ, (stream, descriptor))
            control = crew.control
            if control is not None:
                waiting.register(control, selectors.EVENT_READ, crew.hear)
            waiting.register(self._stop.line, selectors.EVENT_READ, self._heed)
            self._heed()  # what was wished for while the worker was made
            while self._done is None and worker.ended is None:
                self._wait(waiting)

    def _wait(self, waiting: selectors.BaseSelector) -> None:
        ready = waiting.select(max(0.0, self._deadline - monotonic()))
        for key, _ in ready:
            if isinstance(key.data, tuple):
                stream, descriptor = key.data
                if not stream.read(descriptor):
                    waiting.unregister(descriptor)
            else:
                key.data()
        if monotonic() >= self._deadline:
            self._next()

    def _heed(self) -> None:
        """Do what the user wishes. Code that has run is not interrupted: it is being captured."""
        for wish in self._stop.wishes():
            if wish == "killed":
                self._stopped = wish
                self._kill()
            elif not self._has_run:
                self._stopped = wish
                self._send_interrupt()

    def _send_interrupt(self) -> None:
        self._interrupts += 1
        self._crew.signal(self._worker, signal.SIGINT)

    def _interrupt(self) -> None:
        self._stopped = "timed out"
        self._send_interrupt()
        self._deadline, self._next = monotonic() + self._runner.grace_seconds, self._kill

    def _kill(self) -> None:
        self._crew.signal(self._worker, signal.SIGKILL)
        self._deadline, self._next = monotonic() + self._runner.grace_seconds, self._give_up

    def _give_up(self) -> None:
        self._crew.close()

    def _answer(self) -> None:
        question, descriptors = self._worker.wire.receive()
        if isinstance(question, Handing) and len(descriptors) == 1:
            self._arrivals.add(descriptors.pop(), question.sizes)
        for descriptor in descriptors:  # it has none to send
            os.close(descriptor)
        if isinstance(question, Done):
            self._done = question
        elif isinstance(question, Ran):
            self._has_run = True
            self._deadline = monotonic() + self._runner.capture_seconds
            self._next = self._kill
        else:
            self._reply(question)

    def _reply(self, question: FromWorker) -> None:
        wire, answers = self._worker.wire, self._answers
        if isinstance(question, Read):
            found = answers.read(question.hashes)
            wire.send(Objects(found, answers.below(found)))
        elif isinstance(question, Map):
            memory = answers.piece(question.cell)
            if memory is None:
                wire.send(Mapped(0, "it is not to be had in one piece"))
            else:
                wire.send(Mapped(memory[1]), [memory[0]])
        elif isinstance(question, Vouch):
            is_signed = answers.vouches(question.place, question.cell, question.signature)
            wire.send(Vouched(is_signed))

    def _cause(self) -> str:
        code = self._worker.ended
        if code is None and self._crew.control is not None:
            self._worker.wire.close()
            code = self._wait_for_end()
        if self._stopped == "killed":
            return "it was killed"
        if self._stopped == "timed out":
            return f"it took longer than {self._runner.wall_seconds:g} s and did not stop"
        if self._worker.why:
            return self._worker.why
        if code is not None and code < 0:
            return f"its process was ended by {_signal_name(-code)}"
        return f"its process ended with exit code {code}"

    def _wait_for_end(self) -> int | None:
        with selectors.DefaultSelector() as waiting:
            control = self._crew.control
            if control is None:
                return self._worker.ended
            waiting.register(control, selectors.EVENT_READ)
            deadline = monotonic() + self._runner.grace_seconds
            while self._worker.ended is None and monotonic() < deadline:
                if waiting.select(max(0.0, deadline - monotonic())):
                    self._crew.hear()
        return self._worker.ended


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
