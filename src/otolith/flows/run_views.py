"""Views of a run: how far it is, its tasks, and how they differ from those of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from otolith.flows.board import Board
from otolith.flows.flow_definition import TaskSpec
from otolith.flows.lifecycle import SETTLED, TaskRecord
from otolith.types import short_repr

_MOST_SHOWN = 20


@short_repr("key", "status", "percent", "counts")
@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is."""

    key: str
    flow: str
    status: str
    """`running`, `waiting` for a person, `done`, `failed`, `cancelled`, `paused`, or `corrupt`."""
    total: int
    counts: Mapping[str, int]
    """How many tasks have each status."""
    percent: float
    """The part of the work that is done: tasks count for as long as they take."""
    running: Mapping[str, str] = field(default_factory=dict)
    """The tasks that workers have, each with its worker."""
    questions: Mapping[str, str] = field(default_factory=dict)
    """What people are asked, by task."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """What went wrong, by task; the first twenty."""
    created: int = 0
    """When it began, in microseconds since 1970."""
    why: str = ""
    """Why it was paused or cancelled."""

    @classmethod
    def of(cls, key: str, board: Board) -> RunProgress:
        """Return how far the run is that a board shows."""
        assert board.head is not None
        names, records = board.graph.names, board.records
        left, spent = board.remaining_seconds, board.done_seconds
        done = sum(board.counts[each] for each in SETTLED)
        share = spent / (spent + left) if spent + left > 0 else done / max(1, len(names))
        failed = islice(board.marked["failed"], _MOST_SHOWN)
        asked = islice(board.marked["waiting"], _MOST_SHOWN)
        return cls(
            key=key,
            flow=board.head.flow,
            status=board.status(),
            total=len(names),
            counts={name: count for name, count in board.counts.items() if count},
            percent=100.0 if names and done == len(names) else min(99.9, round(100 * share, 1)),
            running={names[each]: records[each].worker for each in board.held},
            questions={names[each]: records[each].question for each in asked},
            failures={names[each]: records[each].error for each in failed},
            created=board.head.created,
            why=board.head.why,
        )

    @classmethod
    def unreadable(cls, key: str, why: str) -> RunProgress:
        """Return what is said of a run that cannot be read."""
        return cls(key, "", "corrupt", 0, {}, 0.0, why=why)

    @property
    def done(self) -> int:
        """How many tasks are done or skipped."""
        return sum(self.counts.get(each, 0) for each in SETTLED)

    @property
    def is_over(self) -> bool:
        """Whether nothing can go on by itself."""
        return self.status != "running"


@short_repr("name", "status")
@dataclass(frozen=True, slots=True)
class TaskView:
    """A task of a run: what is to be done, and what has happened to it."""

    name: str
    spec: TaskSpec
    record: TaskRecord

    @property
    def status(self) -> str:
        """Its status, one of `STATUSES`."""
        return self.record.status


@short_repr("name", "before", "after")
@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task that differs between two runs."""

    name: str
    before: TaskRecord | None
    after: TaskRecord | None


def task_changes(before: Sequence[TaskView], after: Sequence[TaskView]) -> list[TaskChange]:
    """Return the tasks that differ between two runs."""
    was, is_now = ({each.name: each.record for each in side} for side in (before, after))
    names = [name for name in {**was, **is_now} if was.get(name) != is_now.get(name)]
    return [TaskChange(name, was.get(name), is_now.get(name)) for name in names]
