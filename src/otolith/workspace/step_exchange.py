"""One step of one worker, as the host sees it: questions answered, output read, limits kept.

The worker may be in the hands of whoever wrote its code, so nothing here waits for it alone. Its
line, its output, the line of the fork server, the wishes of the user and the clock are waited for
together; a message is taken in as it arrives, an answer is sent as it is read. So there is always
one deadline, and whatever the worker does or leaves undone, the worst is that its step is lost:

    runs        until `wall_seconds`, then it is interrupted; `grace_seconds` later it is killed
    captured    from its word that the code has run, for `capture_seconds`; then it is killed
    killed      `grace_seconds` later the whole sandbox is ended

It is killed as well when the user says so, when it sends what is no message, and when it has
written more to the disk than it may. A step of which nothing is kept has ended when `run` returns:
nobody in the sandbox changes the work folder any more.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from otolith.errors import Invalid
from otolith.workspace.answers import Answers
from otolith.workspace.disk_watch import DiskWatch
from otolith.workspace.protocol import (
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
from otolith.workspace.result_check import Seen
from otolith.workspace.step import Output, Runner, Stop, Stopped
from otolith.workspace.wire import Gone
from otolith.workspace.worker_pool import WorkerLine, WorkerPool

_SHORT_BYTES = 1 << 20  # a question or a short result fits, however much was handed over before
_HASH_BYTES = 32
_MOST_WAITING = 64
_WAIT_SECONDS = 0.05
_FAREWELL_SECONDS = 1.0


@dataclass
class StepEnd:
    """How a step ended: with what was done, or with why there is nothing."""

    done: Done | None
    stopped: Stopped | None = None
    why: str = ""
    arrived: Sequence[Seen] = ()  # before the end
    is_settled: bool = True  # False: an interrupt may be on its way to the worker yet


class StepExchange:
    """One step of one worker."""

    def __init__(
        self,
        crew: WorkerPool,
        worker: WorkerLine,
        answers: Answers,
        runner: Runner,
        stop: Stop,
        *,
        disk: DiskWatch | None = None,
    ) -> None:
        self._crew = crew
        self._worker = worker
        self._answers = answers
        self._runner = runner
        self._stop = stop
        self._disk = disk
        self._stopped: Stopped | None = None
        self._why = ""
        self._interrupts = 0
        self._has_run = False
        self._is_doomed = False  # whatever it still says, nothing of it is kept
        self._next: Callable[[], None] = self._interrupt
        self._deadline = monotonic() + runner.wall_seconds
        self._done: Done | None = None
        self._arrivals = answers.arrivals(runner.handover_bytes)

    def run(self, order: Run, output: Output, errors: Output) -> StepEnd:
        """Let the worker run a step; return when it is done, or is no more."""
        worker = self._worker
        arrived: list[Seen] = []
        try:
            worker.wire.limit_bytes = self._runner.handover_bytes
            worker.wire.send(order)
            self._listen(output, errors)
            if self._done is not None:
                arrived = self._arrivals.all()
        except Gone:
            self._done = None
        except Invalid as error:
            self._done, self._why = None, error.message
        finally:
            self._arrivals.close()
        output.drain(worker.output)
        errors.drain(worker.errors)
        if self._done is None:
            return StepEnd(None, self._stopped, self._cause(self._end_worker()))
        is_stopped = not self._done.ok
        is_settled = self._interrupts == int(self._done.was_interrupted)
        stopped = self._stopped if is_stopped else None
        return StepEnd(self._done, stopped, arrived=arrived, is_settled=is_settled)

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
            while not self._is_over():
                self._wait(waiting)

    def _is_over(self) -> bool:
        if self._done is None:
            return self._worker.ended is not None
        return not self._arrivals.waiting

    def _wait(self, waiting: selectors.BaseSelector) -> None:
        self._choose_events(waiting)
        for key, _ in waiting.select(max(0.0, self._wake_at() - monotonic())):
            if isinstance(key.data, tuple):
                stream, descriptor = key.data
                if not stream.read(descriptor):
                    waiting.unregister(descriptor)
            else:
                key.data()
        if self._disk is not None and self._disk.is_over():
            self._stop_for_disk()
        if monotonic() >= self._deadline:
            self._next()

    def _wake_at(self) -> float:
        times = [self._deadline]
        if self._disk is not None:
            times.append(self._disk.next_look)
        if not self._may_ask():
            times.append(monotonic() + _WAIT_SECONDS)  # for threads, which ring no bell
        return min(times)

    def _choose_events(self, waiting: selectors.BaseSelector) -> None:
        """Listen to the worker only when it has read its answers and we have looked at its gifts.

        Otherwise one that asks and does not read would make us keep all answers for it.
        """
        line, is_known = self._worker.wire.line, True
        try:
            events = waiting.get_key(line).events
        except KeyError:
            events, is_known = 0, False
        if self._worker.wire.has_unsent:
            wanted, act = selectors.EVENT_WRITE, self._send_rest
        else:
            wanted, act = (selectors.EVENT_READ if self._may_ask() else 0), self._answer
        if wanted == events:
            return
        if is_known:
            waiting.unregister(line)
        if wanted:
            waiting.register(line, wanted, act)

    def _may_ask(self) -> bool:
        is_heard = self._done is None and not self._is_doomed
        return is_heard and self._arrivals.waiting < _MOST_WAITING

    def _send_rest(self) -> None:
        self._worker.wire.flush()

    # Stopping

    def _heed(self) -> None:
        """Do what the user wishes. Code that has run is not interrupted: it is being captured."""
        for wish in self._stop.wishes():
            if wish == "killed":
                self._stopped, self._why = wish, "it was killed"
                self._kill()
            elif not self._has_run and not self._is_doomed:
                self._stopped = wish
                self._send_interrupt()

    def _send_interrupt(self) -> None:
        self._interrupts += 1
        self._crew.signal(self._worker, signal.SIGINT)

    def _interrupt(self) -> None:
        self._stopped = "timed out"
        self._why = f"it took longer than {self._runner.wall_seconds:g} s and did not stop"
        self._send_interrupt()
        self._deadline, self._next = monotonic() + self._runner.grace_seconds, self._kill

    def _stop_for_disk(self) -> None:
        self._disk = None
        self._stopped = "over disk limit"
        self._why = over_disk_limit(self._runner)
        self._kill()

    def _out_of_time(self) -> None:
        """End a step that has run, and whose results do not come."""
        self._stopped = "timed out"
        self._why = f"what it did took longer than {self._runner.capture_seconds:g} s to capture"
        self._kill()

    def _kill(self) -> None:
        self._is_doomed, self._done = True, None
        self._crew.signal(self._worker, signal.SIGKILL)
        self._deadline, self._next = monotonic() + self._runner.grace_seconds, self._give_up

    def _give_up(self) -> None:
        self._crew.close()

    def _end_worker(self) -> int | None:
        """Have the worker and what it started ended; return its exit code, if it is known."""
        worker, crew = self._worker, self._crew
        worker.wire.close()
        if not self._why:  # it has hung up: how it ended is soon to be heard
            crew.wait_for_end(worker, limit_seconds=_FAREWELL_SECONDS)
        if worker.ended is None:
            crew.signal(worker, signal.SIGKILL)
            crew.wait_for_end(worker, limit_seconds=self._runner.grace_seconds)
        if worker.ended is None:
            crew.close()
        return worker.ended

    def _cause(self, code: int | None) -> str:
        if self._why:
            return self._why
        if self._worker.why:
            return self._worker.why
        if code is not None and code < 0:
            return f"its process was ended by {_signal_name(-code)}"
        return f"its process ended with exit code {code}"

    # Answering

    def _answer(self) -> None:
        found = self._worker.wire.poll()
        if found is None:
            return
        question, descriptors = found
        if isinstance(question, Handing) and len(descriptors) == 1:
            self._arrivals.add(descriptors.pop(), question.sizes)
            self._worker.wire.limit_bytes = max(self._arrivals.left_bytes, _SHORT_BYTES)
        elif descriptors or isinstance(question, Handing):
            for descriptor in descriptors:
                os.close(descriptor)
            raise Invalid(
                f"a {type(question).__name__} came with {len(descriptors)} descriptors",
                hint="nothing was committed",
            )
        elif isinstance(question, Done):
            self._done = question
        elif isinstance(question, Ran):
            self._begin_capture()
        else:
            self._reply(question)

    def _begin_capture(self) -> None:
        if self._has_run:
            raise Invalid("a worker says twice that code has run", hint="nothing was committed")
        self._has_run = True
        self._deadline = monotonic() + self._runner.capture_seconds
        self._next = self._out_of_time

    def _reply(self, question: FromWorker) -> None:
        wire, answers = self._worker.wire, self._answers
        if isinstance(question, Read):
            if any(len(hash) != _HASH_BYTES for hash in question.hashes):
                raise Invalid("a worker asks for what is no hash", hint="nothing was committed")
            found = answers.read_some(question.hashes)
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


def over_disk_limit(runner: Runner) -> str:
    """Say why a step was stopped that has written too much."""
    limit = 0 if runner.disk_bytes is None else runner.disk_bytes
    return f"it wrote more than {limit:,} bytes to its work folder (Runner.disk_bytes)"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
