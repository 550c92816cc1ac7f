"""JobMaker: makes the job of a task that a worker has leased, from what was committed.

The arguments of a job are read from the store, never taken from another task in memory: so a run
that was cut off and goes on elsewhere works with the same values. What a result is made from has a
digest, its memo: the code, the arguments by name, and the results that it comes after. A task whose
result was made from the same before is not run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from threading import Event
from time import monotonic
from typing import NamedTuple

from otolith.core import Branch, digest, split_ref
from otolith.flows.board import Board
from otolith.flows.executors import JobHandle
from otolith.flows.flow_definition import RESULTS, FlowTask, TaskSpec
from otolith.flows.in_worker import InWorker
from otolith.flows.jobs import TaskJob
from otolith.flows.lifecycle import TaskRecord
from otolith.flows.storage import StoredFlow


class TaskLease(NamedTuple):
    """A task that this worker has begun in a transaction."""

    number: int
    attempt: int
    task: FlowTask
    memo: bytes
    code: bytes
    made_from: bytes


@dataclass(slots=True, eq=False)
class LeasedTask:
    """A task that this worker has: from the commit that leased it to the one that ends it."""

    number: int
    attempt: int
    memo: bytes
    code: bytes
    job: TaskJob
    here: InWorker | None
    handle: JobHandle | None = None

    def seconds_left(self) -> float:
        """Return how long it may still run; any time, if nothing is said or it has not begun."""
        limit, handle = self.job.timeout_seconds, self.handle
        if limit is None or handle is None or handle.began is None:
            return inf
        if handle.end is not None:
            return limit - handle.end.seconds
        return handle.began + limit - monotonic()


class JobMaker:
    """Makes the jobs of one worker."""

    def __init__(
        self,
        journal: Branch,
        key: str,
        board: Board,
        *,
        open_state: Callable[[str], Branch],
        is_local: bool,
    ) -> None:
        self.board = board
        self._journal = journal
        self._stored = StoredFlow(journal, key)
        self._key = key
        self._open_state = open_state
        self._is_local = is_local
        self._codes: dict[str, bytes] = {}
        self._family = split_ref(journal.ref)[:2]

    def __repr__(self) -> str:
        return f"<JobMaker {self._key}>"

    def memo(
        self, spec: TaskSpec, task: FlowTask, given: Callable[[str], bytes | None]
    ) -> tuple[bytes, bytes, bytes]:
        """Return digests of all that a result is made from, of the code, and of the rest alone."""
        code = self._codes.get(spec.call)
        if code is None:
            code = self._codes[spec.call] = task.code()
        parts: list[object] = [spec.call, dict(spec.inputs)]
        records, number = self.board.records, self.board.graph.number
        parts += [[name, records[number[name]].product] for name in spec.waits_for]
        names = [each for each in task.parameters if each not in spec.waits_for]
        parts += [[name, digest(given(name) or b"")] for name in names]
        made_from = digest(self._journal.cells.encoding.encode(parts))[:16]
        return digest(made_from + code)[:16], code, made_from

    def prepare(self, lease: TaskLease) -> LeasedTask:
        """Return a leased task with its arguments, read from what was committed."""
        number, attempt, task, memo, code, made_from = lease
        board, stored = self.board, self._stored
        name, spec, record = board.graph.names[number], board.specs[number], board.records[number]
        parameters, sees_task = task.parameters, task.takes_context
        takes_all = sees_task or RESULTS in parameters
        wanted = [each for each in spec.waits_for if takes_all or each in parameters]
        inputs = stored.inputs() if sees_task else stored.inputs(parameters)
        here, work = None, self._work_key(name, record, made_from)
        if self._is_local and sees_task:
            here = InWorker(
                self._open_state,
                self._journal.attempts,
                ref=self._journal.ref,
                run=self._key,
                task=name,
                key=work,
            )
        job = TaskJob(
            run=self._key,
            name=name,
            attempt=attempt,
            key=work,
            task=task,
            inputs=inputs,
            results={each: stored.result(each) for each in wanted},
            given=dict(spec.inputs),
            answers=dict(record.answers),
            feedback=record.feedback,
            timeout_seconds=spec.timeout / 1_000_000 or None,
            cancelled=None if here is None else Event(),
        )
        if here is not None:
            job.here = here
        return LeasedTask(number, attempt, memo, code, job, here)

    def _work_key(self, name: str, record: TaskRecord, made_from: bytes) -> str:
        """Return a name for this piece of work: the same on every branch, and for every attempt.

        What is made from something else, or asked for again though it was done, is another piece.
        """
        assert self.board.head is not None
        parts = [*self._family, self._key, self.board.head.created, name, record.redone, made_from]
        return digest(self._journal.cells.encoding.encode(parts))[:16].hex()
