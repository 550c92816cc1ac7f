"""One step on one worker: choose the worker, answer its requests, read its output, enforce limits.

`StepRunner` has the processes of a workspace: a `WorkerPool`, and in warm mode a worker that stays.
`StepExchange` is the conversation with one worker during one step.

The worker may be controlled by the author of its code, so the host never waits for it alone. Its
socket, its output, the socket of the fork server, the requests of the user and the clock are waited
for together; a message is read as it arrives, a reply is sent as it is read. So there is always one
deadline, and whatever the worker does or fails to do, the worst is that its step is lost:

    runs        until `wall_seconds`, then it is interrupted; `grace_seconds` later it is killed
    captured    from its message that the code has run, for `capture_seconds`; then it is killed
    killed      `grace_seconds` later the whole sandbox is ended

It is also killed when the user says so, when it sends something that is not a message, and when it
has written more to the disk than it may. When a step of which nothing is stored has ended, no
process in the sandbox changes the work folder any more.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from otolith.core import Branch
from otolith.errors import Invalid
from otolith.workspace import protocol
from otolith.workspace.disk_watch import DiskWatch
from otolith.workspace.result_check import CheckedObject, ReceivedObjects
from otolith.workspace.sandbox import ProcessId
from otolith.workspace.step import Runner, StepOutput, StopReason, StopRequest, StopRequests
from otolith.workspace.variables import WorkspaceTables
from otolith.workspace.wire import PeerGone
from otolith.workspace.worker_pool import WorkerConnection, WorkerPool
from otolith.workspace.worker_requests import RequestHandler

_SHORT_BYTES = 1 << 20  # a request or a short result fits, however much was sent before
_HASH_BYTES = 32
_MOST_UNCHECKED = 64  # batches of objects that wait to be checked
_POLL_SECONDS = 0.05
_EXIT_SECONDS = 1.0


@dataclass
class StepEnd:
    """The end of a step: its result, or the reason why there is none."""

    result: protocol.WorkerResult | None
    stopped: StopReason | None = None
    why: str = ""
    early: Sequence[CheckedObject] = ()  # objects that came before the result
    is_settled: bool = True  # False: an interrupt may still reach the worker


class StepRunner:
    """The processes of a workspace; none are started before the first step."""

    def __init__(
        self,
        state: Branch,
        path: Path,
        runner: Runner,
        requests: RequestHandler,
        *,
        on_start: Callable[[list[ProcessId]], None],
    ) -> None:
        self._state = state
        self._tables = WorkspaceTables(state)
        self._path = path
        self._runner = runner
        self._requests = requests
        self._on_start = on_start  # called before code runs in a new sandbox; see `WorkerPool`
        self._stop = StopRequests()
        self.pool: WorkerPool | None = None
        self._folder_inode = 0
        self._worker: WorkerConnection | None = None
        self._worker_head: str | None = None  # the commit that a warm worker is at

    def run(self, order: protocol.Run, output: StepOutput, *, folder_bytes: int = 0) -> StepEnd:
        """Run a step on a worker, in a work folder that takes `folder_bytes` at the start.

        If this is left by an exception, nothing of the step remains.
        """
        self._stop.begin_step()
        try:
            end = self._exchange(order, output, folder_bytes)
        except BaseException:  # the worker may be in the middle of a message
            self._end_all()
            raise
        finally:
            self._stop.end_step()
        if end.result is None or self._runner.mode == "cold" or not end.is_settled:
            self.dismiss_worker()
        elif self.pool is not None:
            self.pool.end_orphans()
        return end

    def request_stop(self, request: StopRequest) -> bool:
        """Stop the running step; tell whether there is one."""
        return self._stop.add(request)

    def step_committed(self, commit: str, modules: list[str]) -> None:
        """Note the commit of the last step, and have a worker prepared for the next one."""
        if self._worker is not None:
            self._worker_head = commit
        elif self.pool is not None:
            self.pool.prepare_worker(modules)

    def dismiss_worker(self) -> None:
        """End the worker, if there is one."""
        worker, self._worker, self._worker_head = self._worker, None, None
        if worker is not None:
            worker.close()
            if self.pool is not None and worker.ended is None:
                # That it is done is only its word.
                self.pool.signal(worker, signal.SIGKILL)

    def close(self) -> None:
        """End all processes."""
        self._end_all()
        self._stop.close()

    def _end_all(self) -> None:
        self.dismiss_worker()
        if self.pool is not None:
            self.pool.close()

    @property
    def sandbox(self) -> str:
        """The sandbox in which steps run; the requested one if none has run yet."""
        return self.pool.sandbox.name if self.pool is not None else self._runner.sandbox

    def _exchange(self, order: protocol.Run, output: StepOutput, folder_bytes: int) -> StepEnd:
        """Find a worker, bring the order up to date, and exchange messages until the end."""
        pool = self._pool_for_folder()
        try:
            worker = self._worker_at_head(pool)
        except PeerGone:
            if not self._stop.has_kill:
                raise
            return StepEnd(None, "killed", "it was killed")
        head = self._state.head
        if head is not None and self._worker_head == head.id:
            order = replace(order, roots=None)
        else:
            order = replace(order, preloaded=self._requests.read_roots(order.roots or {}))
        disk = None
        if self._runner.disk_bytes is not None:
            disk = DiskWatch(
                self._path,
                before_bytes=folder_bytes,
                limit_bytes=self._runner.disk_bytes,
                processes=pool.processes,
            )
        received = ReceivedObjects(self._state.cells, limit_bytes=self._runner.handover_bytes)
        exchange = StepExchange(
            pool, worker, self._requests, self._runner, self._stop, received=received, disk=disk
        )
        return exchange.run(order, output)

    def _pool_for_folder(self) -> WorkerPool:
        """Return the pool; a new one if the folder was replaced, which the old one cannot see."""
        self._path.mkdir(parents=True, exist_ok=True)
        inode = self._path.stat().st_ino
        if self.pool is not None and inode != self._folder_inode:
            self._end_all()
            self.pool = None
        self._folder_inode = inode
        self.pool = self.pool or WorkerPool(
            self._runner, self._path, on_start=self._on_start, stop=self._stop
        )
        return self.pool

    def _worker_at_head(self, pool: WorkerPool) -> WorkerConnection:
        """Return the warm worker, or a new one that knows the settings of the session."""
        if self._worker is not None:
            pool.read_messages()
        if self._worker is None or self._worker.ended is not None:
            self.dismiss_worker()
            self._worker = pool.fork(self._tables.modules)
            self._worker.wire.send(
                protocol.StartSession(
                    config=self._tables.config(),
                    work=str(self._path),
                    limits=list(astuple(self._runner.limits)),
                    resources=self._tables.resources,
                    shown_chars=self._runner.shown_chars,
                )
            )
        return self._worker


class StepExchange:
    """The exchange of messages with one worker during one step."""

    def __init__(
        self,
        pool: WorkerPool,
        worker: WorkerConnection,
        requests: RequestHandler,
        runner: Runner,
        stop: StopRequests,
        *,
        received: ReceivedObjects,
        disk: DiskWatch | None = None,
    ) -> None:
        self._pool = pool
        self._worker = worker
        self._requests = requests
        self._received = received
        self._runner = runner
        self._stop = stop
        self._disk = disk
        self._stopped: StopReason | None = None
        self._why = ""
        self._interrupts = 0
        self._has_run = False
        self._is_killed = False  # whatever it still sends, nothing of it is stored
        self._deadline = monotonic() + runner.wall_seconds
        self._on_deadline: Callable[[], None] = self._interrupt_late_step
        self._result: protocol.WorkerResult | None = None

    def run(self, order: protocol.Run, output: StepOutput) -> StepEnd:
        """Let the worker run a step; return when it is done or has died."""
        worker = self._worker
        early: list[CheckedObject] = []
        try:
            worker.wire.limit_bytes = self._runner.handover_bytes
            worker.wire.send(order)
            self._wait_for_result(output)
            if self._result is not None:
                early = self._received.all()
        except PeerGone:
            self._result = None
        except Invalid as error:
            self._result, self._why = None, error.message
        finally:
            self._received.close()
        output.stdout.drain(worker.output)
        output.stderr.drain(worker.errors)
        result = self._result
        if result is None:
            return StepEnd(None, self._stopped, self._cause(self._end_worker()))
        is_settled = self._interrupts == int(result.was_interrupted)
        stopped = None if result.ok else self._stopped
        return StepEnd(result, stopped, early=early, is_settled=is_settled)

    def _wait_for_result(self, output: StepOutput) -> None:
        """Wait for all sockets and the clock together until the step is over."""
        worker, pool = self._worker, self._pool
        with selectors.DefaultSelector() as selector:
            selector.register(worker.wire.line, selectors.EVENT_READ, self._read_message)
            for stream, descriptor in zip(output, (worker.output, worker.errors), strict=True):
                selector.register(descriptor, selectors.EVENT_READ, (stream, descriptor))
            if pool.control is not None:
                selector.register(pool.control, selectors.EVENT_READ, pool.read_message)
            selector.register(self._stop.line, selectors.EVENT_READ, self._obey_stop_requests)
            self._obey_stop_requests()  # those that came while the worker was started
            while not self._is_over():
                self._wait_once(selector)

    def _is_over(self) -> bool:
        if self._result is None:
            return self._worker.ended is not None
        return not self._received.waiting

    def _wait_once(self, selector: selectors.BaseSelector) -> None:
        """Wait for the next event, process it, then enforce disk limit and deadline."""
        self._choose_events(selector)
        times = [self._deadline]
        if self._disk is not None:
            times.append(self._disk.next_look)
        if not self._may_send():
            times.append(monotonic() + _POLL_SECONDS)  # for the threads that check objects
        for key, _ in selector.select(max(0.0, min(times) - monotonic())):
            if isinstance(key.data, tuple):
                stream, descriptor = key.data
                if not stream.read(descriptor):
                    selector.unregister(descriptor)
            else:
                key.data()
        if self._disk is not None and self._disk.is_over():
            self._disk = None
            self._kill("over disk limit", over_disk_limit(self._runner))
        if monotonic() >= self._deadline:
            self._on_deadline()

    def _choose_events(self, selector: selectors.BaseSelector) -> None:
        """Read from the worker only if it has read its replies and its objects are checked.

        Otherwise a worker that requests and does not read would fill our memory with replies.
        """
        wire = self._worker.wire
        key = selector.get_map().get(wire.line)
        act: Callable[[], object] = wire.flush if wire.has_unsent else self._read_message
        wanted = selectors.EVENT_WRITE if wire.has_unsent else 0
        if not wire.has_unsent and self._may_send():
            wanted = selectors.EVENT_READ
        if wanted == (key.events if key is not None else 0):
            return
        if key is not None:
            selector.unregister(wire.line)
        if wanted:
            selector.register(wire.line, wanted, act)

    def _may_send(self) -> bool:
        is_expected = self._result is None and not self._is_killed
        return is_expected and self._received.waiting < _MOST_UNCHECKED

    # Stopping

    def _obey_stop_requests(self) -> None:
        """Stop the step as requested. Code that has run is not interrupted: it is captured."""
        for request in self._stop.take():
            if request == "killed":
                self._kill("killed", "it was killed")
            elif not self._has_run and not self._is_killed:
                self._interrupt(request)

    def _interrupt(self, reason: StopReason) -> None:
        self._stopped = reason
        self._interrupts += 1
        self._pool.signal(self._worker, signal.SIGINT)

    def _interrupt_late_step(self) -> None:
        self._why = f"it took longer than {self._runner.wall_seconds:g} s and did not stop"
        self._interrupt("timed out")
        self._set_deadline(self._runner.grace_seconds, lambda: self._kill("timed out", self._why))

    def _end_late_capture(self) -> None:
        seconds = self._runner.capture_seconds
        self._kill("timed out", f"its changes took longer than {seconds:g} s to capture")

    def _kill(self, reason: StopReason, why: str) -> None:
        """Kill the worker; if it does not end in time, the whole sandbox is ended."""
        self._stopped, self._why = reason, why
        self._is_killed, self._result = True, None
        self._pool.signal(self._worker, signal.SIGKILL)
        self._set_deadline(self._runner.grace_seconds, self._pool.close)

    def _set_deadline(self, seconds: float, act: Callable[[], None]) -> None:
        self._deadline, self._on_deadline = monotonic() + seconds, act

    def _end_worker(self) -> int | None:
        """End the worker and the processes it started; return its exit code, if it is known."""
        worker, pool = self._worker, self._pool
        worker.wire.close()
        if not self._why:  # it has hung up: its exit code will arrive soon
            pool.wait_for_end(worker, limit_seconds=_EXIT_SECONDS)
        if worker.ended is None:
            pool.signal(worker, signal.SIGKILL)
            pool.wait_for_end(worker, limit_seconds=self._runner.grace_seconds)
        if worker.ended is None:
            pool.close()
        return worker.ended

    def _cause(self, code: int | None) -> str:
        """Return why a step has no result."""
        if self._why or self._worker.why:
            return self._why or self._worker.why
        if code is None or code >= 0:
            return f"its process ended with exit code {code}"
        names = {each.value: each.name for each in signal.Signals}
        return f"its process was ended by {names.get(-code, f'signal {-code}')}"

    # Requests of the worker

    def _read_message(self) -> None:
        """Process a message of the worker, if one is complete. Anything unexpected is refused."""
        found = self._worker.wire.poll()
        if found is None:
            return
        message, descriptors = found
        if isinstance(message, protocol.EarlyObjects) and len(descriptors) == 1:
            self._received.add(descriptors.pop(), message.sizes)
            self._worker.wire.limit_bytes = max(self._received.left_bytes, _SHORT_BYTES)
        elif descriptors or isinstance(message, protocol.EarlyObjects):
            for descriptor in descriptors:
                os.close(descriptor)
            raise _refused(f"{type(message).__name__} came with {len(descriptors)} descriptors")
        elif isinstance(message, protocol.WorkerResult):
            self._result = message
        elif isinstance(message, protocol.CodeEnd):
            if self._has_run:
                raise _refused("it reported twice that its code has run")
            self._has_run = True
            self._set_deadline(self._runner.capture_seconds, self._end_late_capture)
        else:
            self._reply(message)

    def _reply(self, message: protocol.FromWorker) -> None:
        """Answer a request of the worker."""
        wire, requests = self._worker.wire, self._requests
        if isinstance(message, protocol.Read):
            if any(len(hash) != _HASH_BYTES for hash in message.hashes):
                raise _refused(f"it requested an object by a hash that has not {_HASH_BYTES} bytes")
            found = requests.read_within(message.hashes)
            wire.send(protocol.ObjectsReply(found, requests.read_below(found)))
        elif isinstance(message, protocol.Map):
            memory = requests.raw_memory(message.cell)
            if memory is None:
                wire.send(protocol.MemoryReply(0, "the cell does not hold raw bytes"))
            else:
                wire.send(protocol.MemoryReply(memory[1]), [memory[0]])
        elif isinstance(message, protocol.CheckSignature):
            is_signed = requests.is_signed(message.place, message.cell, message.signature)
            wire.send(protocol.SignatureReply(is_signed))


def over_disk_limit(runner: Runner) -> str:
    """Return why a step was stopped that has written too much."""
    limit = runner.disk_bytes or 0
    return f"it wrote more than {limit:,} bytes to its work folder (Runner.disk_bytes)"


def _refused(why: str) -> Invalid:
    return Invalid(f"the worker broke the protocol: {why}", hint="nothing was committed")
