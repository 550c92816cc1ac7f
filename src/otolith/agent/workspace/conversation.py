"""The talk with a worker while it runs a step: its questions answered, its output read, its time.

A worker is interrupted when its time is over, and killed when it does not react. Whatever it does
to the line, the worst is that its step is lost.
"""

from __future__ import annotations

import selectors
import signal
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from otolith.agent.workspace.crew import Crew, WorkerLine
from otolith.agent.workspace.messages import (
    Done,
    FromWorker,
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
from otolith.agent.workspace.wire import Gone
from otolith.errors import Invalid


class Answers(Protocol):
    """What a worker may ask for."""

    def read(self, hashes: list[bytes]) -> list[bytes | None]: ...
    def below(self, found: list[bytes | None]) -> list[bytes]: ...
    def piece(self, cell: bytes) -> tuple[int, int] | None: ...
    def vouches(self, place: str, cell: bytes, signature: bytes) -> bool: ...


@dataclass
class Ending:
    """How a talk ended: with what was done, or with why there is nothing."""

    done: Done | None
    was_stopped: bool = False
    why: str = ""


class Conversation:
    """One step of one worker."""

    def __init__(self, crew: Crew, worker: WorkerLine, answers: Answers, runner: Runner) -> None:
        self._crew = crew
        self._worker = worker
        self._answers = answers
        self._runner = runner
        self._was_stopped = False
        self._next: Callable[[], None] = self._interrupt
        self._deadline = monotonic() + runner.wall_seconds
        self._done: Done | None = None

    def run(self, order: Run, output: Output, errors: Output) -> Ending:
        """Let the worker run a step; return when it is done, or is no more."""
        worker = self._worker
        try:
            worker.wire.send(order)
            self._listen(output, errors)
        except Gone:
            pass
        except Invalid as error:
            self._crew.signal(worker, signal.SIGKILL)
            return Ending(None, self._was_stopped, error.message)
        output.drain(worker.output)
        errors.drain(worker.errors)
        if self._done is not None:
            return Ending(self._done, self._was_stopped)
        return Ending(None, self._was_stopped, self._cause())

    def _listen(self, output: Output, errors: Output) -> None:
        worker, crew = self._worker, self._crew
        with selectors.DefaultSelector() as waiting:
            waiting.register(worker.wire.line, selectors.EVENT_READ, self._answer)
            for stream, descriptor in ((output, worker.output), (errors, worker.errors)):
                waiting.register(descriptor, selectors.EVENT_READ, (stream, descriptor))
            control = crew.control
            if control is not None:
                waiting.register(control, selectors.EVENT_READ, crew.hear)
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

    def _interrupt(self) -> None:
        self._was_stopped = True
        self._crew.signal(self._worker, signal.SIGINT)
        self._deadline, self._next = monotonic() + self._runner.grace_seconds, self._kill

    def _kill(self) -> None:
        self._crew.signal(self._worker, signal.SIGKILL)
        self._deadline, self._next = monotonic() + self._runner.grace_seconds, self._give_up

    def _give_up(self) -> None:
        self._crew.close()

    def _answer(self) -> None:
        question, _ = self._worker.wire.receive()
        if isinstance(question, Done):
            self._done = question
        elif isinstance(question, Ran):
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
        if self._was_stopped:
            return f"it took longer than {self._runner.wall_seconds:g} s and did not stop"
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
