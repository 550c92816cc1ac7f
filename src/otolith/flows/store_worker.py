"""StoreWorker: works on the runs of some flows in all sessions of a store, with one executor.

Rules
1. A session is looked at when its branch `main` moves. A run in which nothing can go on costs
   nothing until it changes: its cell is compared, and nothing of it is read.
2. One thread does all the turns, one run after another. A turn is that of a `RunWorker`; so what it
   says of commits, leases and dead workers holds here.
3. Slots are shared out: while several runs want some, none gets more than its part; what the others
   do not want is free for all. A task that runs is never stopped for another run.
4. What is wrong with one run is reported, and stops no other. It is taken up again when it changes.
5. While the store cannot be reached, what runs goes on; how it ended is committed later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from threading import Event, Lock
from time import monotonic
from typing import Any, NamedTuple

from otolith.core import FLOWS, BareRepo, Branch, differences, is_branch_ref, scope_ref, split_ref
from otolith.errors import AlreadyCommitted, Error, Exists, Invalid, Unavailable
from otolith.flows.executors import Executor, JobHandle, Wake
from otolith.flows.flow_definition import Flow, check_edited
from otolith.flows.flow_run import FlowRun
from otolith.flows.forecast import Forecast
from otolith.flows.jobs import JobEnd, TaskJob
from otolith.flows.lifecycle import SETTLED
from otolith.flows.presence import TTL_SECONDS, WorkerPresence
from otolith.flows.run_views import RunProgress, TaskView
from otolith.flows.run_worker import RunWorker
from otolith.flows.storage import TASKS, StoredFlow, run_keys
from otolith.stores import NewsThread
from otolith.types import short_repr

_MAIN = "main"
_LONGEST_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 1.0  # how soon it is seen that another worker has died
_MOST_LOOKS = 20  # in a second, at all runs together
_SLICE_SECONDS = 0.25  # how soon a worker is stopped that waits
_PAUSE_SECONDS = (0.1, 5.0)  # while the store is away


@short_repr("session", "key", "status", "text")
@dataclass(frozen=True, slots=True)
class WorkReport:
    """What a worker of a store did, or saw.

    `run`: a run is worked on, or nothing can go on in it any more; `task`: a task is another than
    before; `left`: a run is left alone, and why; `away` and `back`: the store.
    """

    kind: str
    session: str = ""
    key: str = ""
    flow: str = ""
    status: str = ""
    text: str = ""
    hint: str = ""
    task: TaskView | None = None
    progress: RunProgress | None = None


@short_repr("key", "status", "done", "total")
@dataclass(frozen=True, slots=True)
class WorkProgress:
    """How far all runs are that a worker works on now: what a `ProgressLine` shows."""

    key: str
    total: int
    done: int
    percent: float
    status: str


class _RunId(NamedTuple):
    session: str
    key: str


class _Share(Executor):
    """The part of an executor that one run may use now: `slots` are set before each turn."""

    def __init__(self, worker: StoreWorker, executor: Executor) -> None:
        self.is_local = executor.is_local
        self.slots = executor.slots
        self.running = 0
        self.has_ended = False  # a job, perhaps: the run has to look
        self._worker = worker
        self._executor = executor

    def submit(self, job: TaskJob, wake: Wake) -> JobHandle:
        """Begin a job."""
        handle = self._executor.submit(job, partial(self._wake, wake))
        self._count(1)
        return handle

    def _wake(self, wake: Wake) -> None:
        self.has_ended = True
        wake()
        self._worker.wake()

    def poll(self, handle: Any) -> JobEnd | None:
        """Return how a job ended."""
        end = self._executor.poll(handle)
        if end is not None:
            self._count(-1)
        return end

    def cancel(self, handle: Any) -> None:
        """Stop a job."""
        self._count(-1)
        self._executor.cancel(handle)

    def _count(self, change: int) -> None:
        self.running += change
        self._worker.running += change


@dataclass(slots=True, eq=False)
class _Active:
    """A run that is worked on."""

    id: _RunId
    run: FlowRun
    flow: str
    worker: RunWorker
    share: _Share
    stored: StoredFlow
    seen: bytes | None = None  # the cell of the run after its last turn
    tasks: bytes | None = None  # and that of its tasks
    has_moved: bool = True
    is_starved: bool = False  # it has used all that it was given, and may want more
    served: int = 0
    due: float = 0.0

    def wants_turn(self, now: float, free_slots: int) -> bool:
        """Tell whether there may be something to do."""
        return self.has_moved or (self.is_starved and free_slots > 0) or now >= self.due


@dataclass(slots=True, eq=False)
class _Session:
    """A session that has runs."""

    branch: Branch
    seen: bytes | None = None  # the cell of all its runs
    left: dict[str, bytes | None] = field(default_factory=dict)  # the cells of runs at rest
    presence: WorkerPresence | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    active: int = 0


class StoreWorker:
    """One worker of all sessions of a store. One thread uses it.

    `open_state` opens the state of a session, for tasks that edit it. `edited` is what to do with
    results of functions that were edited since, if their flow does not say. What happens is given
    to `report`; every task that changes only with `reports_tasks`.
    """

    def __init__(
        self,
        repo: BareRepo,
        flows: Iterable[Flow],
        executor: Executor,
        *,
        open_state: Callable[[str], Branch] | None = None,
        edited: str | None = None,
        report: Callable[[WorkReport], object] = lambda _: None,
        reports_tasks: bool = False,
        ttl_seconds: float = TTL_SECONDS,
    ) -> None:
        """Make a worker of some flows.

        Raises:
            Invalid: there are no flows.
            Exists: two have the same name.
        """
        self.running = 0  # jobs, of all runs
        self._flows = _by_name(flows)
        self._repo = repo
        self._executor = executor
        self._open_state = repo.session if open_state is None else open_state
        self._edited = None if edited is None else check_edited(edited)
        self._report = report
        self._reports_tasks = reports_tasks
        self._ttl_seconds = ttl_seconds
        self._sessions: dict[str, _Session] = {}
        self._active: dict[_RunId, _Active] = {}
        self._unknown: set[str] = set()  # flows of which that was reported
        self._wake = Event()
        self._lock = Lock()
        self._moved: set[str] = set()  # refs, by the listener
        self._listener: NewsThread | None = None
        self._has_listed = False
        self._pending: dict[str, None] = {}  # sessions to look at
        self._away_since: float | None = None
        self._pause_seconds = 0.0
        self._quota = executor.slots
        self._turns = 0

    def __repr__(self) -> str:
        return f"<StoreWorker {', '.join(self._flows)}: {len(self._active)} runs>"

    def wake(self) -> None:
        """Let it look again."""
        self._wake.set()

    # The loop

    def work(
        self,
        *,
        once: bool = False,
        is_stopped: Callable[[], bool] = lambda: False,
        on_turn: Callable[[], object] = lambda: None,
        patience_seconds: float | None = None,
    ) -> None:
        """Work until it is stopped, or `once`: until nothing can go on. Then give back what runs.

        Raises:
            Unavailable: the store could not be reached for `patience_seconds`, if they are given.
        """
        try:
            while not is_stopped():
                has_moved = self._round_unless_away(patience_seconds)
                on_turn()
                if once and not self._active and self._away_since is None:
                    break
                if not has_moved:
                    self._wait(is_stopped)
        finally:
            self._give_back()

    def _round_unless_away(self, patience_seconds: float | None) -> bool:
        """Do a round; if the store cannot be reached, note that, and return False (rule 5)."""
        try:
            has_moved = self._round()
        except Unavailable as error:
            if self._away_since is None:
                self._away_since, self._pause_seconds = monotonic(), _PAUSE_SECONDS[0]
                self._report(WorkReport("away", text=error.message, hint=error.hint))
            elif patience_seconds is not None and monotonic() - self._away_since > patience_seconds:
                raise
            self._pause_seconds = min(_PAUSE_SECONDS[1], self._pause_seconds * 2)
            return False
        if self._away_since is not None:
            self._away_since = None
            self._report(WorkReport("back"))
        return has_moved

    def _wait(self, is_stopped: Callable[[], bool]) -> None:
        """Wait until it is woken, stopped, or something is due."""
        until = monotonic() + _LONGEST_WAIT_SECONDS
        if self._away_since is not None:
            until = monotonic() + self._pause_seconds
        elif self._active:
            until = min(until, *(each.due for each in self._active.values()))
        while (left := until - monotonic()) > 0 and not is_stopped():
            if self._wake.wait(min(left, _SLICE_SECONDS)):
                return

    def _round(self) -> bool:
        """Look at what has moved, and give each run a turn that wants one; tell whether one did."""
        self._wake.clear()
        self._listen()
        for id in [*self._pending]:
            self._look(id)
            del self._pending[id]
        for active in self._active.values():
            if active.share.has_ended:  # who has had the fewest turns gets its slots, not itself
                active.share.has_ended, active.has_moved = False, True
                active.worker.collect()
        has_moved = False
        for quota in (self._fair_quota(), self._executor.slots):
            self._quota = quota
            for active in sorted(
                self._active.values(), key=lambda each: (each.share.running, each.served)
            ):
                free = self._free_slots(active.share.running)
                if active.wants_turn(monotonic(), free):
                    active.share.slots = active.share.running + free
                    has_moved |= self._turn(active)
        return has_moved

    # Slots

    def _fair_quota(self) -> int:
        wanting = sum(each.is_starved or bool(each.share.running) or each.has_moved
                      for each in self._active.values())  # fmt: skip
        return ceil(self._executor.slots / max(1, wanting))

    def _free_slots(self, running: int) -> int:
        """Return how many jobs a run may begin that has some running (rule 3)."""
        return max(0, min(self._executor.slots - self.running, self._quota - running))

    # What there is to do

    def _listen(self) -> None:
        """Note which sessions have moved; at first, all of them."""
        if self._listener is None:
            self._listener = NewsThread(self._repo.store, "session/", self._note_moved)
        if not self._has_listed:
            sessions = self._repo.sessions()
            self._pending |= {each.id: None for each in sessions if _MAIN in each.branches}
            self._has_listed = True
        with self._lock:
            names, self._moved = self._moved, set()
        for name in names:
            if is_branch_ref(name) and split_ref(name)[2] == _MAIN:
                self._pending[split_ref(name)[1]] = None

    def _note_moved(self, names: set[str]) -> None:
        with self._lock:
            self._moved |= names
        self._wake.set()

    def _look(self, id: str) -> None:
        """Take up the runs of a session that have changed, if something can go on in them."""
        session = self._sessions.get(id)
        if session is None:
            branch = Branch(self._repo.backend, scope_ref("session", id, _MAIN))
            session = _Session(branch)
        branch = session.branch
        branch.refresh()
        cell = branch.cell_at((FLOWS,))
        if cell is None and not session.active:
            self._sessions.pop(id, None)
            return
        self._sessions[id] = session
        if branch.cells.same(cell, session.seen):
            return
        for key in run_keys(branch):
            self._look_at_run(session, _RunId(id, key))
        session.seen = cell

    def _look_at_run(self, session: _Session, id: _RunId) -> None:
        branch = session.branch
        cell = branch.cell_at((FLOWS, id.key))
        if (active := self._active.get(id)) is not None:
            active.has_moved |= not branch.cells.same(cell, active.seen)
            return
        if id.key in session.left and branch.cells.same(cell, session.left[id.key]):
            return
        try:
            if not self._take_up(session, id):
                session.left[id.key] = cell
        except Unavailable:
            raise
        except Error as error:
            self._leave(id, cell, error)

    def _leave(self, id: _RunId, cell: bytes | None, error: Error) -> None:
        """Report what is wrong with a run, and leave it until it changes (rule 4)."""
        active, session = self._active.get(id), self._sessions[id.session]
        flow = "" if active is None else active.flow
        if active is not None:
            self._drop(active)
        session.left[id.key] = cell
        self._report(WorkReport("left", *id, flow, "left", error.message, error.hint))

    def _take_up(self, session: _Session, id: _RunId) -> bool:
        """Work on a run from now on; False if nothing can go on in it, or it is not for us."""
        head = StoredFlow(session.branch, id.key).head()
        flow = self._flows.get(head.flow)
        if flow is None and head.status == "open" and head.flow not in self._unknown:
            self._unknown.add(head.flow)
            text = f"this worker does not have the flow {head.flow!r}"
            self._report(WorkReport("left", *id, head.flow, "unknown", text))
        if flow is None or head.status != "open":
            return False
        backend, open_state = self._repo.backend, partial(self._open_state, id.session)
        branch = Branch(backend, session.branch.ref)
        run = FlowRun(branch, id.key, flow, backend=backend, open_state=open_state)
        progress = run.progress()
        if progress.is_over:
            return False
        run.settle_edited(self._edited)
        share, journal = _Share(self, self._executor), Branch(backend, session.branch.ref)
        worker = RunWorker(
            journal, id.key, flow, share, self._presence(session),
            open_state=open_state, clock=backend.clock, store=backend.store,
        )  # fmt: skip
        stored = StoredFlow(journal, id.key)
        self._active[id] = _Active(id, run, flow.name, worker, share, stored)
        session.left.pop(id.key, None)
        session.active += 1
        self._report(WorkReport("run", *id, flow.name, "running", progress=progress))
        return True

    def _presence(self, session: _Session) -> WorkerPresence:
        """Return what shows that this worker lives, as long as it works on the session."""
        if session.presence is None:
            presence = WorkerPresence(
                self._repo.backend,
                session.branch.ref,
                slots=self._executor.slots,
                ttl_seconds=self._ttl_seconds,
            )
            session.presence = session.stack.enter_context(presence)
        return session.presence

    # Turns

    def _turn(self, active: _Active) -> bool:
        """Let a run commit what has ended, and begin what it can."""
        active.has_moved = False
        try:
            return self._turn_of(active)
        except Unavailable:
            active.has_moved = True
            raise
        except Error as error:
            self._leave(active.id, active.stored.cell(), error)
            return True

    def _turn_of(self, active: _Active) -> bool:
        self._turns += 1
        began = active.share.running
        try:
            active.has_moved = active.worker.turn()
        except AlreadyCommitted:  # the last one has landed after all
            active.has_moved = True
        active.is_starved = active.share.slots <= active.share.running
        if active.share.running > began:
            active.served = self._turns
        active.seen = active.stored.cell()
        look = max(_LOOK_SECONDS, len(self._active) / _MOST_LOOKS)
        active.due = monotonic() + min(look, active.worker.wait_seconds)
        if self._reports_tasks:
            self._report_tasks(active)
        if not active.has_moved and active.worker.is_over:
            self._finish(active)
        return active.has_moved

    def _report_tasks(self, active: _Active) -> None:
        cells, tasks = active.stored.state.cells, active.stored.cell(TASKS)
        if cells.same(tasks, active.tasks):
            return
        before, after = (cells.put({}) if each is None else each for each in (active.tasks, tasks))
        names = dict.fromkeys(str(each.keys[0]) for each in differences(cells, before, after))
        active.tasks = tasks
        board = active.worker.board
        for name in names:
            if name in board.graph:
                number = board.graph.number[name]
                task = TaskView(name, board.specs[number], board.records[number])
                self._report(WorkReport("task", *active.id, active.flow, task.status, task=task))

    def _finish(self, active: _Active) -> None:
        """Rest until a run changes in which nothing can go on."""
        progress, cell = active.run.progress(), active.seen
        if active.worker.missing is not None:
            self._leave(active.id, cell, active.worker.missing)
            return
        self._drop(active)
        self._sessions[active.id.session].left[active.id.key] = cell
        self._report(WorkReport("run", *active.id, active.flow, progress.status, progress=progress))

    def _drop(self, active: _Active) -> None:
        """Work on a run no more, and give back what runs of it."""
        active.worker.give_back()
        del self._active[active.id]
        session = self._sessions[active.id.session]
        session.active -= 1
        if not session.active:
            session.presence = None
            session.stack.close()

    def _give_back(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for active in list(self._active.values()):
            self._drop(active)
        self._sessions = {}

    # Figures

    @property
    def runs(self) -> Mapping[tuple[str, str], FlowRun]:
        """The runs that are worked on, by session and key."""
        return {each.id: each.run for each in self._active.values()}

    def forecast(self) -> Forecast | None:
        """Return what is expected of the run that has most left to do; None if there are none."""
        if not self._active:
            return None
        active = max(self._active.values(), key=lambda each: each.worker.board.remaining_seconds)
        board = active.worker.board
        elsewhere = max(0, len(board.held) - active.share.running)
        slots = self._executor.slots + elsewhere
        return Forecast(board, now=self._repo.clock(), slots=slots)

    def progress(self) -> WorkProgress | None:
        """Return how far the runs are that are worked on; None if there are none."""
        boards = [each.worker.board for each in self._active.values()]
        if not boards:
            return None
        names = [each.key for each in self._active]
        spent = sum(each.done_seconds for each in boards)
        left = sum(each.remaining_seconds for each in boards)
        total = sum(len(each.specs) for each in boards)
        done = sum(each.counts[status] for each in boards for status in SETTLED)
        share = spent / (spent + left) if spent + left > 0 else done / max(1, total)
        key = names[0] if len(names) == 1 else f"{len(names)} runs"
        return WorkProgress(
            key, total, done, min(99.9, 100 * share), f"done, {self.running} running"
        )


def _by_name(flows: Iterable[Flow]) -> dict[str, Flow]:
    found: dict[str, Flow] = {}
    for each in flows:
        if found.setdefault(each.name, each) is not each:
            raise Exists(
                f"two flows have the name {each.name!r}", hint="give each a name of its own"
            )
    if not found:
        raise Invalid("a worker needs at least one flow", hint="StoreWorker(repo, [flow], …)")
    return found
