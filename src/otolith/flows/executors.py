"""Executors: where the jobs of tasks run. The journal stays in the state, whoever runs them.

An executor has three methods. `submit(job, wake)` begins a job and returns a handle; `wake` may be
called from any thread when there is something to poll. `poll(handle)` returns how the job ended, or
None. `cancel(handle)` stops it if that is possible: its end is not asked for any more. An executor
that lost a job (its process was killed, its machine is gone) says so by the end `lost`, and the
task is tried again; one that died with its worker needs not say anything.

    InlineExecutor    in the thread of the worker, one at a time
    ThreadExecutor    in threads of this process; what cannot be stopped runs on, and is not heard
    ProcessExecutor   in processes of this machine; a time-out kills

`dask://…` and `dbos` are in `remote_executors.py`.
"""

from __future__ import annotations

import contextvars
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Protocol, Self

from otolith.errors import Invalid
from otolith.flows.jobs import Job, JobEnd, error_text

Wake = Callable[[], None]


class Executor(Protocol):
    """Runs jobs. `slots` is how many at once; `is_local` whether they may use the state."""

    slots: int
    is_local: bool

    def submit(self, job: Job, wake: Wake) -> Any:
        """Begin a job, and return a handle on it."""
        ...

    def poll(self, handle: Any) -> JobEnd | None:
        """Return how a job ended; None while it runs."""
        ...

    def cancel(self, handle: Any) -> None:
        """Stop a job if that is possible; nobody asks for its end any more."""

    def close(self) -> None:
        """End what still runs, and give back what it has."""


class _Closing:
    """An executor is closed at the end of a `with`."""

    def close(self) -> None:
        """End what still runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class InlineExecutor(_Closing):
    """Runs each job at once, in the thread of the worker. A time-out is noticed at its end."""

    slots = 1
    is_local = True

    def submit(self, job: Job, wake: Wake) -> JobEnd:
        """Run a job to its end."""
        return job.call()

    def poll(self, handle: JobEnd) -> JobEnd | None:
        """Return how it ended."""
        return handle

    def cancel(self, handle: JobEnd) -> None:
        """Do nothing: it has ended."""


class _Slot:
    """The end of a job in a thread; None until then."""

    __slots__ = ("end", "job")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.end: JobEnd | None = None


class ThreadExecutor(_Closing):
    """Runs jobs in daemon threads of this process, which are used again.

    Python cannot stop a thread: a job that was cancelled runs on, unless it looks at
    `task.is_cancelled`, and another thread takes its place.
    """

    is_local = True

    def __init__(self, slots: int = 4) -> None:
        self.slots = check_slots(slots)
        self._jobs: SimpleQueue[tuple[_Slot, Wake, contextvars.Context] | None] = SimpleQueue()
        self._lock = Lock()
        self._threads = self._idle = 0

    def submit(self, job: Job, wake: Wake) -> _Slot:
        """Begin a job in a thread that is idle, or in a new one."""
        slot = _Slot(job)
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                Thread(target=self._serve, name="otolith-task", daemon=True).start()
        self._jobs.put((slot, wake, contextvars.copy_context()))
        return slot

    def _serve(self) -> None:
        while (found := self._jobs.get()) is not None:
            slot, wake, context = found
            try:
                end = context.run(slot.job.call)
            except BaseException as error:  # noqa: BLE001 - the worker decides what comes of it
                end = JobEnd("failed", text=error_text(error))
            with self._lock:
                self._idle += 1
            slot.end = end
            wake()
            del found, slot, wake, context, end  # the result may be large

    def poll(self, handle: _Slot) -> JobEnd | None:
        """Return how a job ended; None while it runs."""
        return handle.end

    def cancel(self, handle: _Slot) -> None:
        """Let the job know."""
        if handle.job.cancelled is not None:
            handle.job.cancelled.set()

    def close(self) -> None:
        """Let the threads end when they are idle."""
        with self._lock:
            threads, self._threads, self._idle = self._threads, 0, 0
        for _ in range(threads):
            self._jobs.put(None)


class ProcessExecutor(_Closing):
    """Runs jobs in processes of this machine, one each, which are used again.

    Tasks, arguments and results go there and back by pickle, so a task must be at the top of a
    module. A job that is cancelled, or too late, ends with its process.
    """

    is_local = False

    def __init__(self, slots: int | None = None) -> None:
        self.slots = check_slots(os.cpu_count() or 1 if slots is None else slots)
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._lock = Lock()

    def submit(self, job: Job, wake: Wake) -> _Process:
        """Send a job to an idle process, or to a new one."""
        with self._lock:
            process = self._idle.pop() if self._idle else _Process(self._context)
            self._busy.add(process)
        process.begin(job, wake)
        return process

    def poll(self, handle: _Process) -> JobEnd | None:
        """Return how a job ended; None while it runs."""
        end = handle.end
        if end is not None:
            with self._lock:
                self._busy.discard(handle)
                if handle.is_alive:
                    self._idle.append(handle)
        return end

    def cancel(self, handle: _Process) -> None:
        """End the process."""
        with self._lock:
            self._busy.discard(handle)
        handle.kill()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            all_of_them = [*self._idle, *self._busy]
            self._idle, self._busy = [], set()
        for each in all_of_them:
            each.kill()


class _Process:
    """A process that calls jobs, and a thread here that waits for it."""

    def __init__(self, context: Any) -> None:
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve_jobs, args=(there,), daemon=True)
        self._process.start()
        there.close()
        self.end: JobEnd | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it can take another job."""
        return bool(self._process.is_alive()) and not self._here.closed

    def begin(self, job: Job, wake: Wake) -> None:
        """Send a job, and let a thread wait for its end."""
        self.end = None
        try:
            self._here.send(job)
        except Exception as error:  # noqa: BLE001 - whatever pickling raises
            self.end = JobEnd("failed", text=f"it cannot be sent to a process: {error_text(error)}")
            wake()
            return
        Thread(target=self._wait, args=(wake,), name="otolith-task-process", daemon=True).start()

    def _wait(self, wake: Wake) -> None:
        try:
            self.end = self._here.recv()
        except Exception as error:  # noqa: BLE001 - it has died, or what it sent cannot be read
            how = "lost" if isinstance(error, EOFError | OSError) else "failed"
            self.end = JobEnd(how, text=f"its process has ended: {error_text(error)}")
            self.kill()
        wake()

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._here.close()


def _serve_jobs(there: Connection) -> None:
    """Call the jobs that come, until the other side is gone."""
    while True:
        try:
            job = there.recv()
        except (EOFError, OSError):
            return
        except Exception as error:  # noqa: BLE001 - a module that cannot be imported here
            there.send(JobEnd("failed", text=error_text(error)))
            continue
        end = job.call()
        try:
            there.send(end)
        except Exception as error:  # noqa: BLE001 - whatever pickling raises
            there.send(JobEnd("failed", text=f"its result cannot be sent: {error_text(error)}"))


def check_slots(slots: object) -> int:
    """Return a number of slots.

    Raises:
        Invalid: it is not one.
    """
    if type(slots) is not int or slots < 1:
        raise Invalid(f"the number of workers must be at least 1, got {slots!r}")
    return slots
