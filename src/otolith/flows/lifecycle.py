"""The life of a task: the statuses it can have, the events that change them, and its record.

    pending -> ready -> leased -> running -> checking -> done
                 ^        lose, retry, answer |  fail -> failed     ask -> waiting

Rules
1. The table below is the statechart of a task. An event that a status does not accept is an
   `IllegalTransition`, and nothing is written.
2. A task without a record is pending. Whether a pending task is ready follows from the others: all
   that come before it are settled, and its time has come. So it is not stored.
3. A record is replaced as a whole. Two branches that both ended the same task in different ways are
   in conflict about it; two that had different tasks are merged.
4. The number of an attempt is its fence. Whoever takes a task over gives it the next number, in the
   same commit in which the task changes hands; a result lands only with the number that the state
   has. So what a worker returns that was frozen, and lost its task, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from otolith.errors import Corrupt, IllegalTransition
from otolith.shapes import sound
from otolith.types import short_repr

TASK_TABLE: dict[tuple[str, str], str] = {
    ("pending", "unlock"): "ready",
    ("pending", "skip"): "skipped",
    ("pending", "keep"): "done",
    ("ready", "lease"): "leased",
    ("ready", "ask"): "waiting",
    ("leased", "start"): "running",
    ("leased", "lose"): "pending",
    ("running", "lose"): "pending",
    ("running", "return"): "checking",
    ("running", "skip"): "skipped",
    ("running", "fail"): "failed",
    ("running", "retry"): "pending",
    ("running", "ask"): "waiting",
    ("checking", "accept"): "done",
    ("checking", "fail"): "failed",
    ("checking", "retry"): "pending",
    ("checking", "lose"): "pending",
    ("checking", "send back"): "pending",
    ("waiting", "answer"): "pending",
    ("waiting", "accept"): "done",
    **{
        (status, "cancel"): "cancelled"
        for status in ("pending", "ready", "leased", "running", "checking", "waiting")
    },
    **{
        (status, "again"): "pending"
        for status in ("done", "failed", "cancelled", "skipped", "waiting")
    },
}
"""The statechart of a task: `Chart.from_table(TASK_TABLE, initial="pending", final=())`."""

STATUSES = tuple(dict.fromkeys([*(status for status, _ in TASK_TABLE), *TASK_TABLE.values()]))
HELD = frozenset({"leased", "running", "checking"})
"""A worker has it."""
SETTLED = frozenset({"done", "skipped"})
"""What comes after it can begin."""
ENDED = SETTLED | {"failed", "cancelled"}


@short_repr("status", "attempt", "worker", "error", "question")
class TaskRecord(Struct, frozen=True, gc=False):
    """What has happened to a task. Times are in microseconds, points in time since 1970."""

    status: str = "pending"
    attempt: int = 0  # the number of the last attempt: a worker's result is for one of them
    failures: int = 0  # attempts that failed since the task was last settled or asked for again
    lost: int = 0  # attempts whose worker died
    backs: int = 0  # how often it has sent work back
    redone: int = 0  # how often it was asked for again: a new piece of work, with a new key
    worker: str = ""
    began: int = 0
    ended: int = 0
    waited: int = 0  # from when it could begin until it began, of the last attempt
    ran: int = 0  # of the last attempt
    retried: int = 0  # in attempts that failed, were lost or refused, with the pauses after them
    not_before: int = 0
    pause: int = 0  # how long `not_before` was away when it was set
    error: str = ""
    feedback: str = ""  # why the last attempt was not good enough
    question: str = ""
    answers: Mapping[str, Any] = {}
    asked: int = 0  # when it asked last
    answered: int = 0
    answered_by: str = ""
    memo: bytes = b""  # a digest of what the result was made from
    code: bytes = b""  # a digest of the function that made it
    product: bytes = b""  # a digest of the result

    def to_data(self) -> dict[str, Any]:
        """Return the fields that are not what they are at first."""
        pairs = zip(_FIRST, astuple(self), strict=True)
        return {name: value for (name, first), value in pairs if value != first}

    @classmethod
    def from_data(cls, name: str, data: object) -> TaskRecord:
        """Return the record that is stored as this.

        Raises:
            Corrupt: this is not a record of a task.
        """
        found = sound(data, cls, f"the task {name}")
        if found.status not in STATUSES:
            raise Corrupt(f"the task {name} is {found.status[:80]!r}", hint="run otolith fsck")
        return found

    def after(self, name: str, *events: str, **changes: Any) -> TaskRecord:
        """Return the record of a task after some events, with other values in its fields.

        Raises:
            IllegalTransition: its status does not accept one of the events.
        """
        status = self.status
        for event in events:
            status = next_status(name, status, event)
        return replace(self, status=status, **changes)


def next_status(name: str, status: str, event: str) -> str:
    """Return the status of a task after an event.

    Raises:
        IllegalTransition: its status does not accept the event.
    """
    found = TASK_TABLE.get((status, event))
    if found is None:
        allowed = tuple(each for before, each in TASK_TABLE if before == status)
        raise IllegalTransition(
            f"task {name} is {status}, and cannot {_SAID.get(event, event)}",
            state=status, event=event, allowed=allowed, hint=what_helps(name, status),
        )  # fmt: skip
    return found


def what_helps(name: str, status: str) -> str:
    """Return what a user can do with a task of a status."""
    if status in ENDED:
        return f"run.retry({name!r}) does it again"
    if status == "waiting":
        return f"run.answer({name!r}, …) answers what it asks"
    if status in HELD:
        return f"a worker has it: wait for its end, or stop it by run.cancel({name!r})"
    return "run.work() does it when all that it comes after is done"


_SAID = {"again": "be done again", "cancel": "be cancelled"}
_EMPTY = TaskRecord()
_FIRST = [(name, getattr(_EMPTY, name)) for name in TaskRecord.__struct_fields__]
