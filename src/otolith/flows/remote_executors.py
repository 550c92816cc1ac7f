"""Executors on what other libraries run, Dask and DBOS; and all executors by text.

    DaskExecutor    on the workers of a Dask cluster: other processes, other machines
    DbosExecutor    as workflows of DBOS, in this process, beside a program's own

    inline    threads:4    processes:2    dask://localhost:8786    dbos    dbos:sqlite:///jobs.sqlite

Rules
1. They compute and deliver; what has happened is in the state alone. An end is committed by the
   worker that submitted the job, or by nobody.
2. Dask runs a job again itself when the process that had it dies, with the same key of the work.
   Only when it has given a job up, or is gone, the end is `lost`.
3. DBOS stores which attempt was run, and how it ended: no arguments and no result. When a program
   has died, DBOS calls the workflow again in the next one, which has no job for it: the task is
   taken over as from any dead worker.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from importlib import import_module
from threading import Lock
from typing import Any
from uuid import uuid4

from otolith.errors import Invalid, MissingExtra, Unavailable
from otolith.flows.executors import (
    Executor,
    InlineExecutor,
    JobHandle,
    ProcessExecutor,
    ThreadExecutor,
    Wake,
    called,
    check_slots,
    end_from,
    job_bytes,
)
from otolith.flows.jobs import JobEnd, TaskJob, error_text
from otolith.shapes import NOTHING, check_argument

_CONNECT_SECONDS = 30


class DaskExecutor(Executor):
    """Runs jobs on a Dask cluster, given as its address, a `Client` or a cluster object.

    There are as many slots as the cluster has threads now, unless it is said how many. The modules
    of tasks must be there on its workers. A time-out counts from when a job was submitted; Dask
    cannot stop a function, so a job that was cancelled while it ran runs on, and is not heard.
    """

    def __init__(self, cluster: Any, *, slots: int | None = None) -> None:
        distributed = _imported("distributed", "dask")
        self._is_ours = not isinstance(cluster, distributed.Client)
        self._connect = partial(_connected, distributed.Client, cluster)
        self._client = self._connect() if self._is_ours else cluster
        self._killed = distributed.KilledWorker
        threads = sum(self._client.nthreads().values()) if slots is None else slots
        self.slots = check_slots(max(1, threads) if slots is None else slots)

    def submit(self, job: TaskJob, wake: Wake) -> _DaskHandle:
        """Send a job to the cluster."""
        self.check_open()
        handle = _DaskHandle(job, wake)
        handle.start()
        try:
            sent = job_bytes(job)
        except Exception as error:  # noqa: BLE001 - whatever pickling raises
            text = f"it cannot be sent to another machine: {error_text(error)}"
            handle.finish(JobEnd("failed", text=text))
            return handle
        if self._is_ours and self._client.status == "closed":  # it has given the scheduler up
            self._client = self._connect()
        name = f"{job.run}/{job.name}/{job.attempt}-{uuid4().hex[:12]}"
        try:
            handle.future = self._client.submit(called, sent, key=name, pure=False)
            handle.future.add_done_callback(lambda future: self._finish(handle, future))
        except Exception as error:  # it raises many kinds, of several libraries
            raise Unavailable(
                f"the Dask cluster takes no jobs: {error_text(error)}",
                hint="start the scheduler again, or give the address of another",
            ) from error
        return handle

    def _finish(self, handle: _DaskHandle, future: Any) -> None:
        """Note how a job ended; a thread of the client calls this."""
        try:
            end = end_from(future.result())
        except (CancelledError, OSError, TimeoutError, self._killed) as error:
            end = JobEnd("lost", text=f"Dask has lost it: {error_text(error)}")
        except Exception as error:  # noqa: BLE001 - such as a worker that lacks this package
            end = JobEnd("failed", text=f"Dask cannot call it: {error_text(error)}")
        handle.future = None  # so Dask forgets the result
        handle.finish(end)

    def cancel(self, handle: _DaskHandle) -> None:
        """Take a job back that has not begun; one that runs is not heard."""
        future, handle.future = handle.future, None
        if future is not None:
            with suppress(Exception):  # the cluster may be gone
                future.cancel()

    def close(self) -> None:
        """Leave the cluster, if the executor has connected to it."""
        if self._is_ours and not self.is_closed:
            self._client.close()
        self.is_closed = True


class _DaskHandle(JobHandle):
    """A job, and the future that stands for it in Dask."""

    __slots__ = ("future",)

    def __init__(self, job: TaskJob, wake: Wake) -> None:
        super().__init__(job, wake)
        self.future: Any = None


def _connected(client: Any, cluster: Any) -> Any:
    """Return a client of a cluster, which is not the default of the program.

    Raises:
        Unavailable: nobody answers there.
    """
    try:
        return client(cluster, set_as_default=False, timeout=_CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise Unavailable(
            f"no Dask scheduler answers at {cluster}: {error_text(error)}",
            hint="start one with `dask scheduler`, and give its address: dask://HOST:8786",
        ) from error


class DbosExecutor(Executor):
    """Runs each job as a workflow of DBOS, in a thread of this process.

    It uses the DBOS that the program has launched; with the URL of a `database`, such as
    `sqlite:///jobs.sqlite` or that of a Postgres, it launches one of its own. What cannot be
    stopped runs on, as in other threads, and holds up the end of the program.
    """

    is_local = True

    def __init__(self, database: str | None = None, *, slots: int = 4) -> None:
        self.slots = check_slots(slots)
        library = _imported("dbos", "dbos")
        self._dbos = library.DBOS
        self._is_ours = database is not None
        if self._is_ours == _is_launched(library):
            raise Invalid(
                f"DBOS was {'launched already' if self._is_ours else 'not launched'} here",
                hint="DbosExecutor() uses the one that is launched; where there is none, give it a"
                " database: DbosExecutor('sqlite:///jobs.sqlite')",
            )
        self._workflow = _workflow_of(self._dbos)  # known before DBOS looks for what was begun
        if database is not None:
            _launch(self._dbos, database)

    def submit(self, job: TaskJob, wake: Wake) -> JobHandle:
        """Begin a workflow for a job."""
        self.check_open()
        handle = JobHandle(job, wake)
        ticket = uuid4().hex
        with _lock:
            _submitted[ticket] = handle
        try:
            self._dbos.start_workflow(self._workflow, job.run, job.name, job.attempt, ticket)
        except Exception as error:  # its database raises many kinds
            with _lock:
                _submitted.pop(ticket, None)
            raise Unavailable(
                f"DBOS takes no jobs: {error_text(error)}", hint="see whether its database answers"
            ) from error
        return handle

    def cancel(self, handle: JobHandle) -> None:
        """Let the job know."""
        if handle.job.cancelled is not None:
            handle.job.cancelled.set()

    def close(self) -> None:
        """End DBOS, if the executor has launched it; jobs that run are not waited for."""
        if self._is_ours and not self.is_closed:
            self._dbos.destroy(workflow_completion_timeout_sec=0)
        self.is_closed = True


_lock = Lock()
_submitted: dict[str, JobHandle] = {}  # by ticket: what the workflows of this process are to do
_workflows: dict[object, Any] = {}


def _workflow_of(dbos: Any) -> Any:
    """Return the workflow, which DBOS has to know once."""
    if dbos not in _workflows:
        _workflows[dbos] = dbos.workflow(name="otolith.flows.job")(_run_job)
    return _workflows[dbos]


def _run_job(run: str, task: str, attempt: int, ticket: str) -> str:
    """Run the job of a ticket, and return how it ended. The other arguments are for readers."""
    with _lock:
        handle = _submitted.pop(ticket, None)
    if handle is None:
        return "lost"  # with the process that began it
    handle.start()
    try:
        end = handle.job.call()
    except BaseException as error:
        handle.finish(JobEnd("failed", text=error_text(error)))
        raise
    handle.finish(end)
    return f"{end.how}: {end.text}" if end.text else end.how


def _is_launched(library: Any) -> bool:
    """Tell whether there is a DBOS in this program; it says so only by an error."""
    try:
        library.DBOS.list_workflows(limit=1)
    except library.error.DBOSException:
        return False
    return True


def _launch(dbos: Any, database: str) -> None:
    """Launch a DBOS of our own.

    Raises:
        Unavailable: its database does not answer.
    """
    config = {
        "name": "otolith",
        "system_database_url": database,
        "application_version": "otolith",
        "run_admin_server": False,
        "log_level": "WARNING",
    }
    dbos(config=config)
    try:
        dbos.launch()
    except Exception as error:
        dbos.destroy()
        raise Unavailable(
            f"DBOS cannot use the database {database}: {error_text(error)}",
            hint="give the URL of an SQLite file or of a Postgres database that answers",
        ) from error


def _imported(module: str, extra: str) -> Any:
    """Import a library that is optional.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the executor {extra} needs the package {error.name}",
            hint=f"pip install 'otolith[{extra}]'",
        ) from None


def open_executor(text: str, *, slots: int | None = None) -> Executor:
    """Return a new executor; `slots` counts where the text does not say how many.

    Raises:
        Invalid: the text names none.
        MissingExtra: the library that it needs is not installed.
        Unavailable: nobody answers at its address.
    """
    check_argument(text, "executor", str, "a text such as 'threads:4'")
    check_argument(slots, "slots", (int, NOTHING), "a whole number")
    kind, colon, rest = text.partition(":")
    if kind == "dask" and rest.startswith("//") and len(rest) > len("//"):
        return DaskExecutor(f"tcp:{rest}", slots=slots)
    if kind == "dbos" and rest and not rest.isdigit():
        return DbosExecutor(rest, slots=4 if slots is None else slots)
    if bool(colon) == rest.isdigit():
        count = int(rest) if rest else slots
        if kind == "inline" and count in (None, 1):
            return InlineExecutor()
        if kind == "threads":
            return ThreadExecutor(4 if count is None else count)
        if kind == "processes":
            return ProcessExecutor(count)
        if kind == "dbos":
            return DbosExecutor(slots=4 if count is None else count)
    raise Invalid(
        f"there is no executor {text!r}",
        hint="inline, threads:4, processes:2, dask://HOST:PORT, dbos, or dbos:sqlite:///FILE",
    )
