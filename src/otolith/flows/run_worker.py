"""RunWorker: takes tasks of a run, lets an executor run them, and commits how they ended.

Rules
1. One commit has it all: the results of tasks that have ended, what may begin after them, and that
   this worker has begun it. So a step of a run costs one commit, and many that end at once cost one
   together. No transaction is open while code of the user runs.
2. A task changes hands only by a commit. Whoever has it is named in its record, with the number of
   the attempt. A result that comes for another number, or from another worker, is dropped.
3. A worker shows that it lives (`WorkerPresence`). The tasks of one that died, that did not show
   itself for its time, or that works on another branch, are taken over. Its number is the fence:
   what it commits later is refused by rule 2, on the head that the commit replaces.
4. A task that edits the state does so on a handle of its own. Its edits, its result and its record
   are one commit, merged with what others have committed; a conflict is a failed attempt.
5. Times are those of the repo's clock, but never earlier than the head. A pause is over when either
   that clock or the clock of the process says so, and so are the waits of `rate_limits.py`: a clock
   that was set back holds nothing up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from random import random
from threading import Event
from time import monotonic
from typing import TypeVar

from otolith.core import Branch, Commit
from otolith.errors import (
    AlreadyCommitted,
    BadValue,
    Error,
    Exists,
    Invalid,
    KeyNotFound,
    MergeConflict,
    Unavailable,
)
from otolith.flows.board import Board
from otolith.flows.executors import Executor
from otolith.flows.expansion import expanded
from otolith.flows.flow_definition import Flow, TaskSpec
from otolith.flows.job_maker import JobMaker, LeasedTask, TaskLease
from otolith.flows.jobs import ERROR_LETTERS, JobEnd
from otolith.flows.lifecycle import HELD, TaskRecord
from otolith.flows.presence import WorkerPresence
from otolith.flows.rate_limits import RateLimits
from otolith.flows.redo import sent_back
from otolith.flows.storage import INPUTS, StoredFlow
from otolith.stores import NewsThread, Store

R = TypeVar("R")

_MOST_LOST = 10  # and its retries: a task that has killed so many workers is given up
_LONGEST_PAUSE = 60_000_000
_LOOK_SECONDS = 1.0
_MOST_AHEAD = 64
_PATIENCE_SECONDS = 60.0
_QUEUED_SECONDS = 0.5
_KNOWN_AFTER = 8
_NEVER = float("inf")


class RunWorker:
    """One worker of one run. One thread uses it."""

    def __init__(
        self,
        journal: Branch,
        key: str,
        flow: Flow,
        executor: Executor,
        presence: WorkerPresence,
        *,
        open_state: Callable[[str], Branch],
        clock: Callable[[], int],
        store: Store,
    ) -> None:
        self.board = Board()
        self.board.slots = executor.slots
        self.refused = 0  # results that came too late
        self._journal = journal
        self._stored = StoredFlow(journal, key)
        self._key = key
        self._flow = flow
        self._executor = executor
        self._presence = presence
        self._worker = presence.worker
        self._clock = clock
        self._running: dict[int, LeasedTask] = {}
        self._queued: deque[LeasedTask] = deque()
        self._ends: list[tuple[LeasedTask, JobEnd]] = []
        self._wake = Event()
        self._jobs = JobMaker(
            journal, key, self.board, open_state=open_state, is_local=executor.is_local
        )
        self._missing: set[str] = set()
        self._waits: dict[int, tuple[int, float]] = {}  # when pauses are over by our own clock
        self._rates = RateLimits()
        self._store = store
        self._listener: NewsThread | None = None
        self._commit_seconds = 0.001
        self._last_start = 0.0

    def __repr__(self) -> str:
        return f"<RunWorker {self._key}, {len(self._running)} running>"

    # The loop

    def work(
        self,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
        on_turn: Callable[[Board], None] | None = None,
    ) -> None:
        """Work until nothing can go on, or until it is stopped; then what runs is given back.

        Raises:
            Unavailable: the store could not be reached for a minute.
            Invalid: tasks are left whose functions the flow does not have.
        """
        try:
            while not is_stopped():
                has_moved = self._turn_in_time()
                if on_turn is not None:
                    on_turn(self.board)
                if not has_moved and self.is_over:
                    break
                if not has_moved:
                    self._wait()
        finally:
            self.give_back()
        if (missing := self.missing) is not None and not is_stopped():
            raise missing

    def _turn_in_time(self) -> bool:
        """Do a turn; again for a minute, while the store cannot be reached."""
        began = monotonic()
        while True:
            try:
                return self.turn()
            except AlreadyCommitted:
                return True  # the last turn has landed after all
            except Unavailable:
                if monotonic() - began > _PATIENCE_SECONDS:
                    raise
                self._wake.wait(0.2 + random() * 0.3)

    @property
    def is_over(self) -> bool:
        """Whether nothing runs here or elsewhere, and nothing can begin."""
        if self._running or self._queued or self._ends:
            return False
        if self.board.held:
            return False
        return self.board.status() != "running" or self._only_missing()

    def _only_missing(self) -> bool:
        due = self.board.next_due
        return bool(self._missing) and (due is None or due >= _NEVER)

    def turn(self) -> bool:
        """Commit what has ended and begin what can; return whether anything moved."""
        self.collect()
        ends, dead = self._ends, self._presence.dead(self._holders())
        began = monotonic()
        for running, end in [each for each in ends if _has_edits(each[0])]:
            self._land_with_edits(running, end)
        ends = self._ends
        leased = self._transact(lambda: self._step(ends, dead), self._message(ends))
        self._ends = [each for each in self._ends if each not in ends]
        if ends or leased:
            self._commit_seconds += 0.2 * (monotonic() - began - self._commit_seconds)
        self._queued.extend(map(self._jobs.prepare, leased))
        self._drop_lost()
        self._submit()
        return bool(ends or leased or self._ends)

    def _transact(self, step: Callable[[], R], message: str) -> R:
        try:
            result = self._journal.transact(lambda state: step(), message)
        except BaseException:
            self.board.undo()
            raise
        self.board.landed(self._stored)
        return result

    def _message(self, ends: list[tuple[LeasedTask, JobEnd]]) -> str:
        said = [f"{self.board.graph.names[each.number]} {end.how}" for each, end in ends[:3]]
        more = f" and {len(ends) - 3} more" if len(ends) > 3 else ""
        return f"{self._key}: {', '.join(said) or 'begins'}{more}"

    def _holders(self) -> set[str]:
        """Return the other workers that have tasks."""
        found = {self.board.records[each].worker for each in self.board.held}
        return found - {self._worker}

    # Jobs

    def _submit(self) -> None:
        """Give the executor as much as it has slots."""
        while self._queued and len(self._running) < self._executor.slots:
            running = self._queued[0]
            self._rates.began(self.board.specs[running.number].needs)
            running.handle = self._executor.submit(running.job, self._wake.set)
            self._running[running.number] = self._queued.popleft()
            self._last_start = monotonic()
            self._poll(running)

    def collect(self) -> None:
        """Note which jobs have ended, or are too late.

        As long as a commit takes, slots are given what was leased ahead, so that it shares one.
        """
        until = monotonic() + self._commit_seconds
        while True:
            self._wake.clear()
            for running in list(self._running.values()):
                self._poll(running)
            self._submit()
            left = until - monotonic()
            if not self._queued or left <= 0:
                return
            self._wake.wait(left)

    def _drop_lost(self) -> None:
        """Stop what was cancelled, or has another worker: nobody waits for it."""
        for running in [each for each in self._running.values() if not self._is_ours(each)]:
            del self._running[running.number]
            self._executor.cancel(running.handle)
            self.refused += 1

    def _poll(self, running: LeasedTask) -> None:
        end = self._executor.poll(running.handle)
        if running.seconds_left() < 0:
            if end is None:
                self._executor.cancel(running.handle)
            limit = running.job.timeout_seconds or 0
            took = limit if end is None else end.seconds
            end = JobEnd("failed", text=f"it took longer than {limit:g} s", seconds=took)
        if end is not None and self._running.pop(running.number, None) is not None:
            self._ends.append((running, end))

    def _wait(self) -> None:
        """Wait until a job has ended, a time has come, or the state may have changed."""
        is_free = len(self._running) < self._executor.slots
        if self._listener is None and is_free:
            self._listener = NewsThread(self._store, self._journal.ref, lambda _: self._wake.set())
            return  # what came before it listened is looked for once more
        self._wake.wait(min(self.wait_seconds, _LOOK_SECONDS * (1 if is_free else 5)))

    @property
    def wait_seconds(self) -> float:
        """How long nothing is due, unless a job ends, the state changes, or a worker dies."""
        times = [each.seconds_left() for each in self._running.values()]
        if self.board.next_due is not None:
            times.append(self.board.next_due - monotonic())
        return max(0.001, min(times, default=inf))

    def _now(self) -> int:
        head = self._journal.head
        return max(self._clock(), 0 if head is None else head.time)

    # One transaction

    def _step(self, ends: list[tuple[LeasedTask, JobEnd]], dead: set[str]) -> list[TaskLease]:
        """Stage how jobs ended, what is taken over and what begins; return what this worker got."""
        board, stored = self.board, self._stored
        board.undo()
        board.update(stored)
        board.begin()
        now = self._now()
        touched: dict[int, None] = {}
        for running, end in ends:
            self._land(stored, running, end, now, touched)
        for number in board.held:
            if board.records[number].worker in dead:
                self._lose(number, now, touched)
            elif self._is_forgotten(number):
                name, record = board.graph.names[number], board.records[number]
                self._put(number, record.after(name, "lose", worker=""), touched)
        self._note_starts(now, touched)
        assert board.head is not None
        is_open = board.head.status == "open" and not any(end.parts for _, end in ends)
        leased = self._lease(now, touched) if is_open else []  # a new plan is read first
        for number in touched:
            stored.put_record(board.graph.names[number], board.records[number])
        return leased

    def _is_forgotten(self, number: int) -> bool:
        """Tell whether this worker began a task in a commit that got no reply, and landed."""
        record = self.board.records[number]
        if record.worker != self._worker:
            return False
        mine = [*self._running.values(), *self._queued, *(each for each, _ in self._ends)]
        return not any((each.number, each.attempt) == (number, record.attempt) for each in mine)

    def _is_ours(self, running: LeasedTask) -> bool:
        record = self.board.records[running.number]
        same = (record.worker, record.attempt) == (self._worker, running.attempt)
        return same and record.status in HELD

    def _land(
        self,
        stored: StoredFlow,
        running: LeasedTask,
        end: JobEnd,
        now: int,
        touched: dict[int, None],
    ) -> bool:
        """Stage how a job ended; return False if its task has changed hands (rule 2)."""
        if running.number >= len(self.board.records) or not self._is_ours(running):
            self.refused += 1
            return False
        number = running.number
        name, record = self.board.graph.names[number], self.board.records[number]
        if record.status == "leased":
            record = record.after(name, "start", began=now)
        took = round(end.seconds * 1_000_000)
        record = record.after(name, ran=took, ended=now)
        if running.here is not None and end.how not in ("asked", "lost"):
            running.here.close_branch(stored)
        if end.how == "returned":
            try:
                product = stored.put_result(name, end.result)
                more = self._parts(name, end)
            except (BadValue, RecursionError) as error:
                text = f"its result cannot be stored: {getattr(error, 'message', error)}"
                self._put(number, record.after(name, "fail", error=text), touched)
                return True
            except (Exists, KeyNotFound, Invalid) as error:
                text = f"its parts cannot be added: {error.message}"
                self._put(number, record.after(name, "fail", error=text), touched)
                return True
            stored.put_plan(more.items())
            made = {"memo": running.memo, "code": running.code, "product": product}
            new = record.after(name, "return", "accept", error="", feedback="", failures=0, **made)
            self._put(number, new, touched)
        elif end.how == "skipped":
            self._put(number, record.after(name, "skip", error=""), touched)
        elif end.how == "asked":
            self._put(number, record.after(name, "ask", question=end.text, asked=now), touched)
        elif end.how == "lost":
            self._lose(number, now, touched, end.text)
        else:
            self._fail(number, record, end, now, touched)
        return True

    def _parts(self, name: str, end: JobEnd) -> dict[str, TaskSpec]:
        """Return the specs of what a task adds to itself, and of what waits for that."""
        if not end.parts:
            return {}
        return expanded(self.board, self._key, name, end.parts, self._flow.functions)

    def _fail(
        self, number: int, record: TaskRecord, end: JobEnd, now: int, touched: dict[int, None]
    ) -> None:
        """Stage a failed or refused attempt: try again, send the work back, or give it up."""
        name, spec = self.board.graph.names[number], self.board.specs[number]
        text = end.text[:ERROR_LETTERS]
        if end.how == "refused":
            record = record.after(name, "return")
            is_own = spec.back_to in ("", name)
            if not is_own and record.backs < spec.backs and spec.back_to in self.board.graph:
                for each, new in sent_back(self.board, number, record, text).items():
                    self._put(each, new, touched)
                return
        if record.failures < spec.retries:
            pause = min(_LONGEST_PAUSE, spec.pause << min(record.failures, 40))
            pause = round(pause * (0.75 + random() / 2))
            new = record.after(
                name, "retry", failures=record.failures + 1, error=text, feedback=text,
                pause=pause, not_before=now + pause, retried=record.retried + record.ran + pause,
            )  # fmt: skip
        else:
            new = record.after(name, "fail", failures=record.failures + 1, error=text)
        self._put(number, new, touched)

    def _lose(self, number: int, now: int, touched: dict[int, None], why: str = "") -> None:
        """Stage that a task is free again, because its worker is gone, or lost its job."""
        name, record = self.board.graph.names[number], self.board.records[number]
        lost = record.lost + 1
        spent = max(0, now - record.began) if record.began else 0
        if lost > _MOST_LOST + self.board.specs[number].retries and record.status == "running":
            text = f"its worker died {lost} times{': ' if why else ''}{why}"
            new = record.after(name, "fail", lost=lost, error=text, ended=now)
        else:
            new = record.after(
                name, "lose", lost=lost, worker="", retried=record.retried + spent,
                error=why or f"its worker was lost: {record.worker.partition('@')[0]}",
            )  # fmt: skip
        self._put(number, new, touched)

    def _note_starts(self, now: int, touched: dict[int, None]) -> None:
        """Stage that tasks run that waited for a slot here."""
        for running in self._running.values():
            record = self.board.records[running.number]
            if record.status == "leased" and self._is_ours(running):
                name = self.board.graph.names[running.number]
                self._put(running.number, record.after(name, "start", began=now), touched)
        if self._queued and monotonic() - self._last_start > _QUEUED_SECONDS:
            for running in self._queued:  # what runs takes longer than it was expected to
                if self._is_ours(running):
                    name = self.board.graph.names[running.number]
                    record = self.board.records[running.number].after(name, "lose", worker="")
                    self._put(running.number, record, touched)

    def _put(self, number: int, record: TaskRecord, touched: dict[int, None]) -> None:
        self.board.put(number, record)
        touched[number] = None

    # Beginning

    def _lease(self, now: int, touched: dict[int, None]) -> list[TaskLease]:
        """Stage that this worker begins as many tasks as it has slots, and return them."""
        board, leased = self.board, list[TaskLease]()
        queued = sum(map(self._is_ours, self._queued))
        free = self._executor.slots - len(self._running) - queued
        most = free + self._ahead()
        if most <= 0:
            return leased
        given = self._stored.look(INPUTS)
        assert board.head is not None
        self._rates.look(self._stored, board.head.rates, now)
        for number in board.take(monotonic()):
            name, spec, record = (
                board.graph.names[number],
                board.specs[number],
                board.records[number],
            )
            task = self._flow.functions.get(spec.call)
            seconds = self._seconds_to_wait(number, record, now)
            seconds = max(seconds, self._rates.seconds_to_wait(spec.needs))
            has_slot = len(leased) < free
            if not spec.call:
                asked = record.after(name, "unlock", "ask", question=spec.goal, asked=now)
                self._put(number, asked, touched)
            elif task is None:
                self._missing.add(spec.call)
                board.postpone(number, _NEVER)
            elif seconds > 0:
                board.postpone(number, monotonic() + seconds)
            elif not has_slot and self._rates.limited(spec.needs):
                board.put_back(number)  # it begins when it is leased, or the rate would not hold
                break
            else:
                memo, code, made_from = self._jobs.memo(spec, task, given)
                if record.product and record.memo == memo:  # it was made from the same before
                    self._put(number, record.after(name, "keep", ended=now), touched)
                    continue
                new = self._begun(number, now, has_slot=has_slot)
                self._put(number, new, touched)
                self._rates.use(spec.needs)
                leased.append(TaskLease(number, new.attempt, task, memo, code, made_from))
                if len(leased) >= most:
                    break
        self._rates.put(self._stored)
        return leased

    def _begun(self, number: int, now: int, *, has_slot: bool) -> TaskRecord:
        """Return the record of a task that this worker begins, or has leased to begin it soon."""
        name, record = self.board.graph.names[number], self.board.records[number]
        return record.after(
            name,
            *(("unlock", "lease", "start") if has_slot else ("unlock", "lease")),
            worker=self._worker,
            attempt=record.attempt + 1,
            began=now if has_slot else 0,
            waited=max(0, now - self._ready_since(number)),
            not_before=0,
        )

    def _ahead(self) -> int:
        """Return how many tasks to lease beyond the slots: some, if they are shorter than a commit.

        So many short tasks share a commit.
        """
        times = self.board.all_times
        if times.number < _KNOWN_AFTER or times.mean >= self._commit_seconds:
            return 0
        each = min(_MOST_AHEAD, round(self._commit_seconds / max(times.mean, 1e-6)))
        return max(0, min(_MOST_AHEAD, self._executor.slots * each) - len(self._queued))

    def _ready_since(self, number: int) -> int:
        """Return when all that a task waits for was settled."""
        board = self.board
        record = board.records[number]
        assert board.head is not None
        times = [board.records[each].ended for each in board.graph.before[number]]
        return max([board.head.created, record.ended, record.not_before, *times])

    def _seconds_to_wait(self, number: int, record: TaskRecord, now: int) -> float:
        """Return how long the pause of a task still lasts; 0 or less if it is over."""
        left = (record.not_before - now) / 1_000_000
        if left > 0:
            here = monotonic()
            attempt, until = self._waits.get(number, (-1, 0.0))
            if attempt != record.attempt:
                until = here + record.pause / 1_000_000
                self._waits[number] = record.attempt, until
            left = min(left, until - here)
        if left <= 0:
            self._waits.pop(number, None)
        return left

    # Tasks that edit the state

    def _land_with_edits(self, running: LeasedTask, end: JobEnd) -> None:
        """Commit what a task did to the state together with its end (rule 4)."""
        here = running.here
        assert here is not None
        if end.how != "returned":
            if here.opened is not None:
                here.opened.discard()
            return
        ends = [each for each in self._ends if each[0] is not running]
        state = here.state()
        commit: Commit | None = None
        state.hold_commits("")
        stored, board = StoredFlow(state, self._key), self.board

        def land() -> bool:
            board.undo()
            board.update(stored)
            board.begin()
            touched: dict[int, None] = {}
            has_landed = self._land(stored, running, end, self._now(), touched)
            if has_landed and commit is not None:
                here.merge(state, commit)
            for number in touched:
                stored.put_record(board.graph.names[number], board.records[number])
            return has_landed

        name = board.graph.names[running.number]
        try:
            commit = here.commit_branch()
            if not state.commit_change(land, f"{self._key}: {name} returned"):
                board.undo()
            board.landed(stored)
        except (MergeConflict, BadValue) as error:
            board.undo()
            state.discard()
            text = f"what it did to the state cannot be committed: {error.message}"
            ends.append((running, JobEnd("failed", text=text, seconds=end.seconds)))
        except BaseException:
            board.undo()
            raise
        here.opened = None
        self._ends = ends

    # The end

    def give_back(self) -> None:
        """Let others have what this worker did not come to."""
        if self._listener is not None:
            self._listener.close()
        for running in self._running.values():
            with suppress(Exception):
                self._executor.cancel(running.handle)
        mine = [*self._running.values(), *self._queued, *(each for each, _ in self._ends)]
        self._running, self._queued, self._ends = {}, deque(), []

        def release() -> None:
            board, stored = self.board, self._stored
            board.undo()
            board.update(stored)
            board.begin()
            for running in mine:
                if running.number < len(board.records) and self._is_ours(running):
                    name = board.graph.names[running.number]
                    record = board.records[running.number].after(name, "lose", worker="")
                    board.put(running.number, record)
                    stored.put_record(name, record)

        if mine:
            with suppress(Error):  # then others find out that this worker has gone
                self._transact(release, f"{self._key}: gives back {len(mine)} tasks")

    @property
    def missing(self) -> Invalid | None:
        """The error about functions that tasks call, and the flow does not have; None if it has."""
        if not self._missing:
            return None
        names = ", ".join(sorted(self._missing))
        return Invalid(
            f"flow {self._flow.name} has no function {names}, which tasks of run {self._key} call",
            hint="define it, or cancel those tasks: run.cancel(name)",
        )


def _has_edits(running: LeasedTask) -> bool:
    return running.here is not None and running.here.has_edits
