"""Executors: where the jobs of tasks run; the journal stays in the state, whoever runs them.

    InlineExecutor    in the thread of the worker, one at a time
    ThreadExecutor    in threads of this process; what cannot be stopped runs on, and is not heard
    ProcessExecutor   in processes of this machine; a time-out kills

Those of `dask` and `dbos` are in `remote_executors.py`. `otolith.testing.ExecutorContract` is the
test of one of your own: a subclass of `Executor` with `submit` and `cancel`.

Rules
1. `submit` begins a job and returns its handle at once. Whatever becomes of the job, its end goes
   to `handle.finish`, from any thread; `poll` asks for it. Nothing that a task does raises here.
2. Who loses a job says so: its process was killed, its machine is gone. Its end is `lost` then, and
   the task is tried again. Who cannot take jobs for a while raises `Unavailable` from `submit`.
3. `handle.start` says since when a job runs, for its time-out: a process that has to be started
   first is not counted. A job that is cancelled ends if it can be stopped; nobody asks for its end.
4. `close` ends what still runs, and may be called again.
"""

from __future__ import annotations

import contextvars
import multiprocessing
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker, util
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

from otolith.errors import Closed, Invalid
from otolith.flows.jobs import JobEnd, TaskJob, error_text

Wake = Callable[[], None]

_READY = b"ready"
_END_SECONDS = 10.0
_UNGUARDED = "a program that uses processes needs a guard, if __name__ == '__main__':"


class JobHandle:
    """A job that an executor has: since when it runs, and how it ended."""

    __slots__ = ("__weakref__", "_wake", "began", "end", "job")

    def __init__(self, job: TaskJob, wake: Wake) -> None:
        self.job = job
        self.began: float | None = None
        """When it began, by the clock of the process; None while it waits."""
        self.end: JobEnd | None = None
        """How it ended; None until then."""
        self._wake = wake

    def __repr__(self) -> str:
        how = "waits" if self.began is None else "runs"
        return f"<JobHandle {self.job.name}, {how if self.end is None else self.end.how}>"

    def start(self) -> None:
        """Note that it runs from now on."""
        self.began = monotonic()

    def finish(self, end: JobEnd) -> None:
        """Note how it ended, and wake the worker."""
        self.end = end
        self._wake()


class Executor(ABC):
    """Runs jobs; see the rules of this module."""

    slots: int = 1
    """How many jobs at once."""
    is_local: bool = False
    """Whether jobs run in this process, and may use the state."""
    is_closed = False

    @abstractmethod
    def submit(self, job: TaskJob, wake: Wake) -> JobHandle:
        """Begin a job. `wake` is called, from any thread, when it has ended.

        Raises:
            Closed: the executor was closed.
            Unavailable: it cannot take jobs now.
        """
        ...

    def poll(self, handle: Any) -> JobEnd | None:
        """Return how a job ended; None while it runs."""
        end: JobEnd | None = handle.end
        return end

    @abstractmethod
    def cancel(self, handle: Any) -> None:
        """Stop a job if that is possible; nobody asks for its end any more."""

    def close(self) -> None:
        """End what still runs, and give back what it has."""
        self.is_closed = True

    def check_open(self) -> None:
        """Refuse to go on after `close`.

        Raises:
            Closed: it was closed.
        """
        if self.is_closed:
            raise Closed(f"this {type(self).__name__} was closed", hint="make another one")

    def __repr__(self) -> str:
        closed = ", closed" if self.is_closed else ""
        return f"<{type(self).__name__} of {self.slots} slots{closed}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class InlineExecutor(Executor):
    """Runs each job at once, in the thread of the worker. A time-out is noticed at its end."""

    is_local = True

    def submit(self, job: TaskJob, wake: Wake) -> JobHandle:
        """Run a job to its end."""
        self.check_open()
        handle = JobHandle(job, wake)
        handle.start()
        handle.finish(job.call())
        return handle

    def cancel(self, handle: JobHandle) -> None:
        """Do nothing: it has ended."""


class ThreadExecutor(Executor):
    """Runs jobs in daemon threads of this process, which are used again.

    Python cannot stop a thread: a job that was cancelled runs on, unless it looks at
    `task.is_cancelled`, and another thread takes its place. The program may end all the same.
    """

    is_local = True

    def __init__(self, slots: int = 4) -> None:
        self.slots = check_slots(slots)
        self._jobs: SimpleQueue[tuple[JobHandle, contextvars.Context] | None] = SimpleQueue()
        self._lock = Lock()
        self._threads = self._idle = 0

    def submit(self, job: TaskJob, wake: Wake) -> JobHandle:
        """Begin a job in a thread that is idle, or in a new one."""
        handle = JobHandle(job, wake)
        with self._lock:
            self.check_open()
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                Thread(target=self._serve, name="otolith-task", daemon=True).start()
        handle.start()
        self._jobs.put((handle, contextvars.copy_context()))
        return handle

    def _serve(self) -> None:
        while (found := self._jobs.get()) is not None:
            handle, context = found
            try:
                end = context.run(handle.job.call)
            except BaseException as error:  # noqa: BLE001 - the worker decides what comes of it
                end = JobEnd("failed", text=error_text(error))
            with self._lock:
                self._idle += 1
            handle.finish(end)
            del found, handle, context, end  # the result may be large

    def cancel(self, handle: JobHandle) -> None:
        """Let the job know."""
        if handle.job.cancelled is not None:
            handle.job.cancelled.set()

    def close(self) -> None:
        """Let the threads end when they are idle."""
        with self._lock:
            self.is_closed = True
            threads, self._threads = self._threads, 0
        for _ in range(threads):
            self._jobs.put(None)


class ProcessExecutor(Executor):
    """Runs jobs in processes of this machine, one each, which are used again.

    Tasks, arguments and results go there and back by pickle, so a task must be at the top of a
    module, or of a program that is guarded by `if __name__ == "__main__"`. A job that is cancelled,
    or too late, is killed, with the processes that it has started. So is one whose worker dies.
    """

    def __init__(self, slots: int | None = None) -> None:
        self.slots = check_slots(os.cpu_count() or 1 if slots is None else slots)
        self._lock = Lock()
        self._idle: list[_JobProcess] = []
        self._all: set[_JobProcess] = set()
        # As a pool of the standard library does: at exit, before it waits for all processes.
        util.Finalize(self, _end_all, args=(self._all,), exitpriority=10)

    def submit(self, job: TaskJob, wake: Wake) -> _ProcessHandle:
        """Send a job to an idle process, or to a new one."""
        with self._lock:
            self.check_open()
            process = self._idle.pop() if self._idle else _JobProcess(self._let_go)
            self._all.add(process)
        handle = _ProcessHandle(job, wake, process)
        process.begin(handle)
        return handle

    def _let_go(self, process: _JobProcess, *, is_alive: bool) -> None:
        """Use a process again that has done its job, or forget it."""
        with self._lock:
            if is_alive and not self.is_closed:
                self._idle.append(process)
            else:
                self._all.discard(process)
                process.begin(None)

    def cancel(self, handle: _ProcessHandle) -> None:
        """Kill the process, if it still has this job."""
        handle.process.kill(handle)

    def close(self) -> None:
        """Kill all processes, and wait until they are gone."""
        with self._lock:
            self.is_closed = True
            processes, self._idle = [*self._all], []
        _end_all(processes)


class _ProcessHandle(JobHandle):
    """A job, and the process that it was sent to."""

    __slots__ = ("process",)

    def __init__(self, job: TaskJob, wake: Wake, process: _JobProcess) -> None:
        super().__init__(job, wake)
        self.process = process


class _JobProcess:
    """A process that calls jobs, one after another, and a thread here that waits for it."""

    def __init__(self, let_go: Callable[..., None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve_jobs, args=(there,), name="otolith-task")
        with _held_interrupts():
            self._process.start()
        there.close()
        self._let_go = let_go
        self._lock = Lock()
        self._jobs: SimpleQueue[JobHandle | None] = SimpleQueue()
        self._current: JobHandle | None = None
        self._is_ready = self._is_gone = False
        self.thread = Thread(target=self._serve, name="otolith-task-process", daemon=True)
        self.thread.start()

    def begin(self, handle: JobHandle | None) -> None:
        """Send a job; without one, end when the last is done."""
        with self._lock:
            self._current = handle
        self._jobs.put(handle)

    def _serve(self) -> None:
        while (handle := self._jobs.get()) is not None:
            end = self._call(handle)
            with self._lock:
                self._current = None
            self._let_go(self, is_alive=not self._is_gone)
            handle.finish(end)
            del handle, end  # the result may be large
        self._end()

    def _call(self, handle: JobHandle) -> JobEnd:
        """Let the process call a job; return how it ended."""
        try:
            sent = job_bytes(handle.job)
        except Exception as error:  # noqa: BLE001 - whatever pickling raises
            return JobEnd("failed", text=f"it cannot be sent to a process: {error_text(error)}")
        try:
            self._is_ready = self._is_ready or self._here.recv_bytes() == _READY
            handle.start()
            self._here.send_bytes(sent)
            found = self._here.recv_bytes()
        except (EOFError, OSError):
            return self._end()
        return end_from(found)

    def _end(self) -> JobEnd:
        """Make sure that the process has ended, and return what that means for its job."""
        self.kill()
        with self._lock:
            self._is_gone = True
        self._process.join()
        self._here.close()
        code = self._process.exitcode
        if self._is_ready or code is None or code < 0:
            return JobEnd("lost", text=f"its process has ended, exit code {code}")
        text = f"no process can be started, exit code {code}: {_UNGUARDED}"
        return JobEnd("failed", text=text)

    def kill(self, handle: JobHandle | None = None) -> None:
        """Kill the process and those that it has started; with a job, only if it has that."""
        with self._lock:
            if self._is_gone or handle not in (None, self._current):
                return
            if hasattr(os, "killpg"):  # Windows has no groups
                with suppress(OSError):
                    os.killpg(self._process.pid or 0, signal.SIGKILL)
            self._process.kill()


def _end_all(processes: Iterable[_JobProcess]) -> None:
    """Kill processes, and wait until they are gone."""
    found = [*processes]
    for each in found:
        each.kill()
        each.begin(None)
    for each in found:
        each.thread.join(_END_SECONDS)


@contextmanager
def _held_interrupts() -> Iterator[None]:
    """Let a process that is started see no Ctrl-C until it is in a group of its own."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # else it is started now, and lets interrupts through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve_jobs(there: Connection) -> None:
    """Call the jobs that come, until the other side is gone."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C that was for the parent
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    Thread(target=_end_with_parent, name="otolith-task-parent", daemon=True).start()
    with suppress(EOFError, OSError):
        there.send_bytes(_READY)
        while True:
            there.send_bytes(called(there.recv_bytes()))


def _end_with_parent() -> None:
    """End this process, and those that it has started, when its parent has died."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


# Jobs and ends as bytes, for other processes and machines


def job_bytes(job: TaskJob) -> bytes:
    """Return a job as bytes; raises whatever pickling its arguments raises."""
    return bytes(ForkingPickler.dumps(job))


def called(data: bytes) -> bytes:
    """Call a job that came as bytes, and return its end as bytes."""
    try:
        end: JobEnd = ForkingPickler.loads(data).call()
    except Exception as error:  # noqa: BLE001 - a module that cannot be imported here
        end = JobEnd("failed", text=f"it cannot be called in its process: {error_text(error)}")
    try:
        return bytes(ForkingPickler.dumps(end))
    except Exception as error:  # noqa: BLE001 - whatever pickling raises
        text = f"its result cannot be sent back: {error_text(error)}"
        return bytes(ForkingPickler.dumps(JobEnd("failed", text=text, seconds=end.seconds)))


def end_from(data: bytes) -> JobEnd:
    """Return how a job ended, from bytes that `called` has made."""
    try:
        end: JobEnd = ForkingPickler.loads(data)
    except Exception as error:  # noqa: BLE001 - whatever the class of the result raises
        return JobEnd("failed", text=f"its result cannot be read here: {error_text(error)}")
    return end


def check_slots(slots: object) -> int:
    """Return a number of slots.

    Raises:
        Invalid: it is not one.
    """
    if type(slots) is not int or slots < 1:
        raise Invalid(
            f"the number of workers must be at least 1, got {slots!r}",
            hint="each does one task at a time",
        )
    return slots
