"""The stored form of runs: one reserved subtree of the state.

    .flows / <key> / head              the flow, its status, when it began, its resources
                     inputs / <name>   what the run was given
                     plan / <task>     what is to be done: see `TaskSpec`
                     tasks / <task>    what has happened to it: see `TaskRecord`
                     results / <task>  what it returned
                     rates / <name>    when tasks began that need it: see `rate_limits.py`
                     branches / <name> branches on which tasks work: see `TaskBranch`

A task without a record is pending. When two branches merge, tasks that only one of them had are as
they are there; of a task that both had, `merge_tasks` decides. Plans to which both have added are
merged task by task; if `plan_fault` has something against the whole, it is a conflict about `plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from otolith import shapes
from otolith.core import FLOWS, Branch, Path, StateReader, digest
from otolith.errors import BadValue, Corrupt, Error, Invalid, KeyNotFound
from otolith.flows.flow_definition import TaskSpec
from otolith.flows.graph import TaskGraph
from otolith.flows.lifecycle import HELD, TaskRecord
from otolith.shapes import Shape
from otolith.types import short_repr

HEAD, INPUTS, PLAN, TASKS, RESULTS, RATES = "head", "inputs", "plan", "tasks", "results", "rates"
BRANCHES = "branches"
_HEAD: Shape = {"flow": str, "created": int}
_BRANCH: Shape = {"task": str, "key": str, "of": str, "at": str, "number": int, "is_closed": bool}
_HEAD_MORE: Shape = {
    "status": str, "why": str, "resources": dict, "rates": dict, "edited": str, "since": int,
    "pauses": list,
}  # fmt: skip
_MOST_PAUSES = 50
_PRODUCT_BYTES = 8
_BATCH = 1000
RUN_STATUSES = ("open", "paused", "cancelled")


@short_repr("flow", "status", "why")
@dataclass(frozen=True, slots=True)
class RunHead:
    """What a run is of, and whether it may go on."""

    flow: str
    created: int
    status: str = "open"
    why: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, Any] = field(default_factory=dict)
    since: int = 0
    """When it was paused or cancelled; 0 while it is open."""
    pauses: tuple[tuple[int, int], ...] = ()
    """When nothing began, from and until: the last ones."""

    def to_data(self) -> dict[str, Any]:
        """Return the head as plain data."""
        found: dict[str, Any] = {"flow": self.flow, "created": self.created, "status": self.status}
        more: dict[str, Any] = {"why": self.why, "resources": self.resources, "rates": self.rates}
        more |= {"since": self.since, "pauses": [[*each] for each in self.pauses]}
        return found | {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in more.items()
            if value
        }

    @classmethod
    def from_data(cls, key: str, data: object) -> RunHead:
        """Return the head that is stored as this.

        Raises:
            Corrupt: this is not a head.
        """
        what = f"the run {key}"
        found = shapes.fields(data, what, _HEAD, _HEAD_MORE, is_open=True)
        found.pop("edited", None)
        resources = shapes.mapping(found.get("resources", {}), f"the resources of {what}", int)
        rates = shapes.mapping(found.get("rates", {}), f"the rates of {what}", list)
        pairs = {
            name: tuple(shapes.items(each, f"a rate of {what}", int, int))
            for name, each in rates.items()
        }
        pauses = [
            tuple(shapes.items(each, f"a pause of {what}", int, int))
            for each in shapes.several(found.get("pauses", []), f"the pauses of {what}", list)
        ]
        if found.get("status", "open") not in RUN_STATUSES:
            raise Corrupt(f"{what} is {found['status'][:80]!r}", hint="run otolith fsck")
        return cls(**{**found, "resources": resources, "rates": pairs, "pauses": tuple(pauses)})

    def as_status(self, status: str, why: str, now: int) -> RunHead:
        """Return the head with another status, from now on."""
        pauses, since = self.pauses, self.since or now
        if status == "open" and self.since:
            pauses, since = (*pauses, (self.since, now))[-_MOST_PAUSES:], 0
        return replace(
            self, status=status, why=why, pauses=pauses, since=0 if status == "open" else since
        )


@dataclass(frozen=True, slots=True)
class TaskBranch:
    """A branch on which a task works, until it is merged with its result."""

    task: str
    key: str
    """That of the piece of work: see `TaskContext.key`."""
    of: str
    """The branch of the run."""
    at: str
    """The commit that it began at."""
    number: int = 0
    """How many branches there were before, for the same piece of work."""
    is_closed: bool = False
    """Whether its attempt has ended."""

    def closed(self) -> TaskBranch:
        """Return the record of a branch whose attempt has ended."""
        return replace(self, is_closed=True)

    def to_data(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {name: getattr(self, name) for name in _BRANCH}

    @classmethod
    def from_data(cls, name: str, data: object) -> TaskBranch:
        """Return the record that is stored as this.

        Raises:
            Corrupt: this is not a record of a branch.
        """
        return cls(**shapes.fields(data, f"the branch {name} of a run", _BRANCH, is_open=True))


class StoredFlow:
    """Reads and stages one run of a state. Callers hold the lock of the state."""

    def __init__(self, state: StateReader, key: str) -> None:
        self.state = state
        self.key = key
        self._path: Path = (FLOWS, key)

    @property
    def exists(self) -> bool:
        """Whether there is such a run."""
        return self.cell(HEAD) is not None

    def cell(self, *parts: str) -> bytes | None:
        """Return the cell of a part of the run; None if it is not there."""
        return self.state.cell_at((*self._path, *parts))

    def look(self, *parts: str) -> Callable[[str], bytes | None]:
        """Return a function that returns the cells of the run, or of a part, by name.

        It is for looking up several, and does not see what is staged afterwards.
        """
        cells, cell = self.state.cells, self.cell(*parts)
        if cell is None:
            return lambda name: None
        find, key = cells.entries_of(cell), cells.encoding.key
        return lambda name: find(key(name))

    def head(self) -> RunHead:
        """Return the head.

        Raises:
            KeyNotFound: there is no such run.
        """
        cell = self.cell(HEAD)
        if cell is None:
            known = ", ".join(run_keys(self.state)[:10]) or "none"
            raise KeyNotFound(f"there is no run {self.key!r}", hint=f"the runs are: {known}")
        return RunHead.from_data(self.key, self.state.cells.load(cell))

    def inputs(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Return what the run was given; some of it by name, or all."""
        if names is None:
            return dict(self._entries(INPUTS))
        look, load = self.look(INPUTS), self.state.cells.load
        cells = {name: look(name) for name in names}
        return {name: load(cell) for name, cell in cells.items() if cell is not None}

    def specs(self) -> Iterator[tuple[str, TaskSpec]]:
        """Yield the tasks of the plan, in the order in which they were added."""
        found = [(name, TaskSpec.from_data(name, data)) for name, data in self._entries(PLAN)]
        yield from sorted(found, key=lambda pair: pair[1].number)

    def spec(self, name: str) -> TaskSpec | None:
        """Return a task of the plan; None if it is not there."""
        cell = self.cell(PLAN, name)
        return None if cell is None else TaskSpec.from_data(name, self.state.cells.load(cell))

    def records(self) -> Iterator[tuple[str, TaskRecord]]:
        """Yield what has happened to tasks."""
        for name, data in self._entries(TASKS):
            yield name, TaskRecord.from_data(name, data)

    def record(self, name: str) -> TaskRecord:
        """Return what has happened to a task."""
        cell = self.cell(TASKS, name)
        if cell is None:
            return TaskRecord()
        return TaskRecord.from_data(name, self.state.cells.load(cell))

    def result(self, name: str) -> Any:
        """Return what a task returned; None if it has not, or was skipped."""
        cell = self.cell(RESULTS, name)
        return None if cell is None else self.state.cells.load(cell)

    def starts(self, resource: str) -> list[list[int]]:
        """Return when tasks began last that need a resource with a rate, each with how many.

        What an earlier version has stored is not read.
        """
        cell = self.cell(RATES, resource)
        found: Any = None if cell is None else self.state.cells.load(cell)
        is_starts = isinstance(found, list) and all(
            isinstance(each, list) and [type(part) for part in each] == [int, int] for each in found
        )
        return [[*each] for each in sorted(found)] if is_starts else []

    def branches(self) -> Iterator[tuple[str, TaskBranch]]:
        """Yield the branches on which tasks have worked."""
        for name, data in self._entries(BRANCHES):
            yield name, TaskBranch.from_data(name, data)

    def branch(self, name: str) -> TaskBranch | None:
        """Return the record of a branch; None if there is none."""
        cell = self.cell(BRANCHES, name)
        return None if cell is None else TaskBranch.from_data(name, self.state.cells.load(cell))

    def _entries(self, part: str) -> Iterator[tuple[str, Any]]:
        cells, cell = self.state.cells, self.cell(part)
        for key, each in () if cell is None else cells.entries(cell):
            yield str(cells.encoding.unkey(key)), cells.load(each)

    # Writing

    @property
    def _branch(self) -> Branch:
        assert isinstance(self.state, Branch)
        return self.state

    def put(self, value: object, *parts: str) -> bytes:
        """Stage a value at a part of the run, and return its cell.

        Raises:
            BadValue: it cannot be stored.
        """
        try:
            cell = self.state.cells.put(value)
        except BadValue as error:
            raise BadValue(f"{'/'.join(parts)}: {error.message}", hint=error.hint) from None
        self._branch.write_reserved((*self._path, *parts), cell)
        return cell

    def put_result(self, name: str, result: object) -> bytes:
        """Stage what a task returned, and return a digest of it: its product.

        Raises:
            BadValue: it cannot be stored.
        """
        return digest(self.put(result, RESULTS, name))[:_PRODUCT_BYTES]

    def put_plan(self, specs: Iterable[tuple[str, TaskSpec]]) -> None:
        """Stage tasks of the plan: a new plan as a whole, others one by one."""
        pairs = sorted(specs, key=lambda pair: pair[0])
        if not pairs:
            return
        if self.cell(PLAN) is not None:
            for name, spec in pairs:
                self.put(spec.to_data(), PLAN, name)
            return
        cells, plan = self.state.cells, dict[bytes, bytes | None]()
        for start in range(0, len(pairs), _BATCH):  # so that few dicts are there at a time
            batch = pairs[start : start + _BATCH]
            try:
                made = cells.put_all([spec.to_data() for _, spec in batch])
            except BadValue:
                for name, spec in batch:
                    self.put(spec.to_data(), PLAN, name)  # says which one
                raise
            plan |= zip((cells.encoding.key(name) for name, _ in batch), made, strict=True)
        made_plan = cells.edit_map(cells.put({}), plan, is_table=True)
        self._branch.write_reserved((*self._path, PLAN), made_plan)

    def put_branch(self, name: str, branch: TaskBranch) -> None:
        """Stage the record of a branch."""
        self.put(branch.to_data(), BRANCHES, name)

    def put_record(self, name: str, record: TaskRecord) -> None:
        """Stage what has happened to a task."""
        self.put(record.to_data(), TASKS, name)


def run_keys(state: StateReader) -> list[str]:
    """Return the keys of the runs in a state."""
    cell = state.cell_at((FLOWS,))
    keys = () if cell is None else state.cells.entries(cell)
    return [str(state.cells.encoding.unkey(key)) for key, _ in keys]


def branches_of_tasks(state: StateReader) -> list[tuple[str, str]]:
    """Return the name of the task and the branch, of all tasks of a state that had a branch."""
    runs = [StoredFlow(state, key) for key in run_keys(state)]
    return [(each.task, name) for run in runs for name, each in run.branches()]


def merge_tasks(base: Any, ours: Any, theirs: Any) -> Any:
    """Merge two records of one task; NotImplemented for a conflict.

    A side that only began it, or let go of it, gives way to one that ended it: what the other's
    worker does is refused then. Both ended it with the same result: that of the earlier. Both
    ended it otherwise: a conflict, for what comes after each side was made from its own result.
    """
    try:
        mine, yours = (TaskRecord.from_data("", each or {}) for each in (ours, theirs))
    except Error:
        return NotImplemented
    ended = [each for each in (mine, yours) if each.status not in HELD | {"pending", "ready"}]
    if len(ended) == 1:
        return ended[0].to_data()
    if not ended:
        return max(mine, yours, key=_progress).to_data()
    if mine.status == yours.status == "done" and mine.product == yours.product:
        return min(mine, yours, key=lambda each: (each.ended, each.worker)).to_data()
    return NotImplemented


def plan_fault(plan: object) -> str:
    """Return why the plan of a run makes no sense as a whole; "" if it does.

    Two branches that have both added tasks can have made, together, tasks that wait for each other.
    """
    pairs = plan.items() if isinstance(plan, dict) else ()
    try:
        specs = {str(name): TaskSpec.from_data(str(name), data) for name, data in pairs}
        TaskGraph({name: spec.waits_for for name, spec in specs.items()})
    except (Corrupt, Invalid, KeyNotFound) as error:
        return f"the plan of both sides together cannot be done: {error.message}"
    return ""


def _progress(record: TaskRecord) -> tuple[object, ...]:
    return (
        record.attempt,
        record.began,
        record.worker,
        str(sorted(record.to_data().items(), key=str)),
    )
