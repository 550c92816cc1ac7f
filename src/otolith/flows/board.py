"""Board: one run in memory: what there is to do, what has happened, and what can begin.

A worker brings it up to date with the state before each look. Only what differs from the last look
is read, so that one more result costs the same in a run of ten tasks and of a hundred thousand.

Rules
1. The state is the truth. `update` follows it wherever it went: forward, back by an undo, or to
   what a merge has made.
2. What a transaction would do is tried on the board first (`begin`), and taken back (`undo`) if it
   does not land.
3. What is ready waits in a queue for each set of resources that tasks need, so that those whose
   resources are taken hold up nobody, however many they are.
"""

from __future__ import annotations

import gc
import heapq
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from otolith.core import Cells, differences
from otolith.errors import Corrupt, Invalid, KeyNotFound
from otolith.flows.flow_definition import TaskSpec
from otolith.flows.graph import TaskGraph
from otolith.flows.lifecycle import ENDED, HELD, SETTLED, TaskRecord
from otolith.flows.schedules import Work, best_priorities
from otolith.flows.storage import HEAD, PLAN, TASKS, RunHead, StoredFlow

_Entry: TypeAlias = tuple[int, float, int]
"""What is ready: the less, the more urgent. Priority, rank, and the number of the task."""
_Needs: TypeAlias = tuple[tuple[str, int], ...]

_FIRST = TaskRecord()
_MARKED = HELD | {"failed", "waiting"}
_UNKNOWN_SECONDS = 1.0
_WORTH_PLANNING = 0.01  # seconds of each task: to plan takes a hundredth of that


class CallTimes(NamedTuple):
    """How long a function has taken, over all its tasks that are done. In seconds."""

    number: int = 0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, seconds: float, sign: int = 1) -> CallTimes:
        """Return the times with one more, or one less."""
        square = sign * seconds * seconds
        return CallTimes(self.number + sign, self.total + sign * seconds, self.squares + square)

    @property
    def mean(self) -> float:
        """The mean; 0 if there is none."""
        return self.total / self.number if self.number else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        if self.number < 2:
            return 0.0
        return float(max(0.0, self.squares / self.number - self.mean**2) ** 0.5)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause the collector of garbage, while much is made that stays.

    To look through all of it again and again takes as long as making it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Board:
    """What is known of one run here. One thread uses it."""

    def __init__(self) -> None:
        self.slots = 1  # of the workers, as far as is known here
        self.head: RunHead | None = None
        self.graph = TaskGraph()
        self.specs: list[TaskSpec] = []
        self.records: list[TaskRecord] = []
        self.counts: Counter[str] = Counter()
        self.in_use: Counter[str] = Counter()  # units of resources, of tasks that workers have
        self.marked: dict[str, dict[int, None]] = {}  # tasks by the statuses that few have
        self.times: dict[str, CallTimes] = {}
        self.all_times = CallTimes()
        self.ranks: list[float] = []
        self.done_seconds = 0.0
        self._unsettled: Counter[str] = Counter()  # tasks that are left to do, by what they call
        self._known_left: set[str] = set()
        self._seen: tuple[bytes | None, bytes | None, bytes | None] = (None, None, None)
        self._left: list[int] = []  # how many tasks each one waits for
        self._queues: dict[_Needs, list[_Entry]] = {}  # heaps; some are not ready any more
        self._queued: set[int] = set()  # what is in a queue
        self._delayed: list[tuple[float, int]] = []  # a heap of when, and which
        self._undo: list[tuple[int, TaskRecord]] | None = None
        self._ranked_at = 0

    def __repr__(self) -> str:
        return f"<Board {len(self.specs)} tasks, {dict(self.counts)}>"

    # Following the state

    def update(self, stored: StoredFlow) -> None:
        """Bring the board up to date with a state.

        Raises:
            KeyNotFound: there is no such run in it.
            Corrupt: what is stored cannot be read.
        """
        cells = stored.state.cells
        head, plan, tasks = map(stored.look(), (HEAD, PLAN, TASKS))
        last_head, last_plan, last_tasks = self._seen
        if self.head is None or not cells.same(head, last_head):
            self.head = stored.head()
        has_plan = last_plan is not None and cells.same(plan, last_plan)
        if not has_plan and not (last_plan and self._grow(stored, last_plan, plan)):
            with _without_collection():
                self._load(stored)
        elif not cells.same(tasks, last_tasks):
            for name in self._changed(cells, last_tasks, tasks):
                if name in self.graph:
                    self.put(self.graph.number[name], stored.record(name))
        self._seen = head, plan, tasks

    def _changed(self, cells: Cells, old: bytes | None, new: bytes | None) -> list[str]:
        """Return the names of the tasks whose records differ."""
        before, after = (cells.put({}) if each is None else each for each in (old, new))
        return [*dict.fromkeys(str(each.keys[0]) for each in differences(cells, before, after))]

    def _grow(self, stored: StoredFlow, old: bytes, new: bytes | None) -> bool:
        """Add what a plan has more than before; return False if anything else differs."""
        fresh, waiting = dict[str, TaskSpec](), dict[str, TaskSpec]()
        for name in self._changed(stored.state.cells, old, new):
            spec = stored.spec(name)
            before = self.specs[self.graph.number[name]] if name in self.graph else None
            if spec is None or (before is not None and not before.only_waits_for_more(spec)):
                return False
            (fresh if before is None else waiting)[name] = spec
        first = len(self.specs)
        added = sorted(fresh.items(), key=lambda pair: pair[1].number)
        if [spec.number for _, spec in added] != [*range(first, first + len(added))]:
            return False  # two branches have added some
        links = [(one, two) for two, spec in waiting.items() for one in spec.also]
        try:
            graph = self.graph.grown({name: spec.waits_for for name, spec in added}, links)
        except (KeyNotFound, Invalid):
            return False  # the whole is read, and refused
        for name, spec in waiting.items():
            self._wait_for_more(graph.number[name], spec, graph)
        self.graph = graph
        for name, spec in added:
            self._append(graph.number[name], spec)
        return True

    def _wait_for_more(self, number: int, spec: TaskSpec, graph: TaskGraph) -> None:
        """Let a task wait for tasks that are new, or that it did not wait for."""
        known = len(self.graph.before[number])
        self.specs[number] = spec
        for each in graph.before[number][known:]:
            is_settled = each < len(self.records) and self.records[each].status in SETTLED
            self._left[number] += not is_settled

    def _append(self, number: int, spec: TaskSpec) -> None:
        """Add a task that nothing has happened to. Its rank is good enough until all have new ones.

        Those before it keep theirs as well.
        """
        self.specs.append(spec)
        self.records.append(_FIRST)
        self.counts["pending"] += 1
        self._unsettled[spec.call] += 1
        self._note_left(spec.call)
        settled = (
            each < number and self.records[each].status in SETTLED
            for each in self.graph.before[number]
        )
        self._left.append(len(self.graph.before[number]) - sum(settled))
        if self.ranks:
            later = [self.ranks[each] for each in self.graph.after[number] if each < number]
            self.ranks.append(self.expected_seconds(number) + max(later, default=0.0))
        if self.is_ready(number):
            self._queue(number)

    def _load(self, stored: StoredFlow) -> None:
        """Read the whole run."""
        pairs = list(stored.specs())
        try:
            graph = TaskGraph({name: spec.waits_for for name, spec in pairs})
        except (KeyError, ValueError) as error:
            raise Corrupt(
                f"the plan of the run {stored.key} is not sound: {error}", hint="run otolith fsck"
            ) from error
        self.graph, self.specs = graph, [spec for _, spec in pairs]
        self.records = [_FIRST] * len(pairs)
        self.counts, self.in_use = Counter({"pending": len(pairs)}), Counter()
        self.marked = {each: {} for each in _MARKED}
        self.times, self.all_times = {}, CallTimes()
        self._unsettled = Counter(spec.call for spec in self.specs)
        self._known_left = set()
        self.done_seconds = 0.0
        self._left = [len(each) for each in graph.before]
        self._queues, self._queued, self._delayed = {}, set(), []
        self.ranks, self._undo = [], None
        for name, record in stored.records():
            if name in graph:
                self.put(graph.number[name], record)
        self._queue_all()

    def rank(self) -> None:
        """Order what is ready so that all is done soon, as far as is known how long it takes."""
        expected = [self.expected_seconds(each) for each in range(len(self.specs))]
        self.ranks = self.graph.schedule(expected).ranks
        if self.slots > 1 and self.remaining_seconds > len(expected) * _WORTH_PLANNING:
            settled = {each for each, one in enumerate(self.records) if one.status in SETTLED}
            self.ranks = best_priorities(Work(self.graph, expected, self.slots, settled=settled))
        self._ranked_at = self.all_times.number
        self._queue_all()

    def _queue_all(self) -> None:
        """Queue all that is ready, in an order that changed."""
        self._queues, self._queued = {}, set()
        for number in range(len(self.specs)):
            if self.is_ready(number):
                self._queue(number)

    def _queue(self, number: int) -> None:
        spec, rank = self.specs[number], self.ranks[number] if self.ranks else 0.0
        queue = self._queues.setdefault(tuple(sorted(spec.needs.items())), [])
        if number in self._queued:
            return
        self._queued.add(number)
        heapq.heappush(queue, (-spec.priority, -rank, number))

    # What has happened

    def put(self, number: int, record: TaskRecord) -> None:
        """Replace the record of a task, and all that follows from it."""
        before = self.records[number]
        if self._undo is not None:
            self._undo.append((number, before))
        self.records[number] = record
        self.counts[before.status] -= 1
        self.counts[record.status] += 1
        if before.status in _MARKED or record.status in _MARKED:
            self._mark(number, before.status, record.status)
        if before.status == "done":
            self._count_time(number, before, -1)
        if record.status == "done":
            self._count_time(number, record, 1)
        change = (before.status in SETTLED) - (record.status in SETTLED)
        if change:
            self._settle(number, change)
        if self.is_ready(number):
            self._queue(number)

    def _mark(self, number: int, before: str, after: str) -> None:
        """Note a task by a status that few have, and the resources that it occupies."""
        self.marked.get(before, {}).pop(number, None)
        if after in _MARKED:
            self.marked[after][number] = None
        change = (after in HELD) - (before in HELD)
        for name, units in self.specs[number].needs.items() if change else ():
            self.in_use[name] += change * units

    def _settle(self, number: int, change: int) -> None:
        """Let what comes after a task wait for one less, or for one more."""
        call = self.specs[number].call
        self._unsettled[call] += change
        self._note_left(call)
        for each in self.graph.after[number]:
            self._left[each] += change
            if self.is_ready(each):
                self._queue(each)

    def _count_time(self, number: int, record: TaskRecord, sign: int) -> None:
        if not record.began:  # a person did it, or its result was found
            return
        call, seconds = self.specs[number].call, record.ran / 1_000_000
        self.times[call] = self.times.get(call, CallTimes()).plus(seconds, sign)
        self.all_times = self.all_times.plus(seconds, sign)
        self.done_seconds += sign * seconds
        self._note_left(call)

    def _note_left(self, call: str) -> None:
        """Note whether it is known how long tasks take that are left to do."""
        known = self.times.get(call)
        if known is not None and known.number and self._unsettled[call]:
            self._known_left.add(call)
        else:
            self._known_left.discard(call)

    def begin(self) -> None:
        """Remember how it is now, for `undo`."""
        self._undo = []

    def undo(self) -> None:
        """Make all as it was at `begin`, if that did not land."""
        undo, self._undo = self._undo, None
        for number, record in reversed(undo or ()):
            self.put(number, record)

    def landed(self, stored: StoredFlow) -> None:
        """Note that the records on the board have landed; a new head or plan is still read."""
        self._undo = None
        self._seen = *self._seen[:2], stored.cell(TASKS)

    # What can begin

    def is_ready(self, number: int) -> bool:
        """Tell whether all that a task waits for is settled, and nobody has it."""
        return self.records[number].status == "pending" and not self._left[number]

    def take(self, now: float) -> Iterator[int]:
        """Yield what is ready and has its resources, the most urgent first.

        The caller changes the record of each, or postpones it by the same clock as `now`.
        """
        if not self.ranks or self.all_times.number >= 2 * max(self._ranked_at, 4):
            self.rank()  # who only looks needs no order; what tasks take is known better by now
        while self._delayed and self._delayed[0][0] <= now:
            number = heapq.heappop(self._delayed)[1]
            if self.is_ready(number):
                self._queue(number)
        while (found := self._next()) is not None:
            yield found

    def _next(self) -> int | None:
        best: list[_Entry] | None = None
        for needs, queue in self._queues.items():
            self._clean(queue)
            if queue and self._fits(needs) and (best is None or queue[0] < best[0]):
                best = queue
        if best is None:
            return None
        number = heapq.heappop(best)[2]
        self._queued.discard(number)
        return number

    def _clean(self, queue: list[_Entry]) -> None:
        """Drop what is not ready any more from the top of a queue."""
        while queue and not self.is_ready(queue[0][2]):
            self._queued.discard(heapq.heappop(queue)[2])

    def _fits(self, needs: _Needs) -> bool:
        """Tell whether some resources are free."""
        capacity = {} if self.head is None else self.head.resources
        return all(self.in_use[name] + units <= capacity.get(name, 1) for name, units in needs)

    def postpone(self, number: int, until: float) -> None:
        """Yield a task again only when its time has come."""
        heapq.heappush(self._delayed, (until, number))

    def put_back(self, number: int) -> None:
        """Yield a task again by the next `take`: nothing has become of it."""
        self._queue(number)

    @property
    def next_due(self) -> float | None:
        """When the first task that was postponed is due."""
        while self._delayed and not self.is_ready(self._delayed[0][1]):
            heapq.heappop(self._delayed)
        return self._delayed[0][0] if self._delayed else None

    # Figures

    def expected_seconds(self, number: int) -> float:
        """Return how long a task takes: as it did, or as tasks with its function do on average."""
        record = self.records[number]
        if record.status == "done" and record.began:
            return record.ran / 1_000_000
        if record.status in SETTLED:
            return 0.0
        known = self.times.get(self.specs[number].call)
        if known is not None and known.number:
            return known.mean
        return self.all_times.mean if self.all_times.number else _UNKNOWN_SECONDS

    @property
    def held(self) -> list[int]:
        """The tasks that workers have."""
        return [each for status in HELD for each in self.marked.get(status, ())]

    @property
    def remaining_seconds(self) -> float:
        """How long the tasks take that are left, one after another, as far as is known."""
        left = {call: self._unsettled[call] for call in self._known_left}
        known = sum(count * self.times[call].mean for call, count in left.items())
        unknown = self._unsettled.total() - sum(left.values())
        return known + unknown * (
            self.all_times.mean if self.all_times.number else _UNKNOWN_SECONDS
        )

    def status(self) -> str:
        """Return how the run is: what it waits for, or how it ended."""
        assert self.head is not None
        counts, held = self.counts, bool(self.held)
        if self.head.status != "open":
            return self.head.status
        if sum(counts[each] for each in SETTLED) == len(self.specs):
            return "done"
        if held or self._has_ready():
            return "running"
        if counts["waiting"]:
            return "waiting"
        return "failed" if counts["failed"] else "cancelled"

    def _has_ready(self) -> bool:
        """Tell whether anything is ready, whether or not its resources or its time are there."""
        for queue in self._queues.values():
            self._clean(queue)
        return any(self._queues.values()) or self.next_due is not None

    @property
    def ended(self) -> int:
        """How many tasks have ended."""
        return sum(self.counts[each] for each in ENDED)
