"""The plan: steps with ids, in order, each in one of five states.

The state of the task: what an agent is at, as a few fields to show or to send.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from otolith.errors import BadValue, Corrupt, KeyNotFound
from otolith.shapes import items

_SLUG = re.compile(r"[^\w]+")
_MOST_LETTERS = 40


class StepState(StrEnum):
    """How far a step is."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing left to do."""
        return self not in (StepState.PENDING, StepState.ACTIVE)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan."""

    id: str
    text: str
    state: StepState = StepState.PENDING
    place: int = 0
    """Where it stands in the plan."""
    time: int = 0
    """When its state changed last, in microseconds since 1970."""
    why: str = ""
    """What came of it, or why it failed or was skipped."""

    def __str__(self) -> str:
        return self.text

    def to_data(self) -> list[Any]:
        """Return what is kept of it; the id is where it is kept."""
        return [self.text, str(self.state), self.place, self.time, self.why]

    @classmethod
    def from_data(cls, id: str, data: Any) -> Step:
        """Return what `to_data` gave.

        Raises:
            Corrupt: it is no step.
        """
        where = f".memory/plan/{id}"
        text, state, place, time, why = items(data, where, str, str, int, int, str)
        if state not in tuple(StepState):
            raise Corrupt(f"{where} is {state[:40]!r}, which no step is", hint="run otolith fsck")
        return cls(id, text, StepState(state), place, time, why)


Planned: TypeAlias = str | Step | Mapping[str, Any]
"""A step as a user gives it: its text, a step, or a dict with `text` and perhaps `id`."""


def replanned(old: Iterable[Step], steps: Iterable[Planned], now: int) -> tuple[Step, ...]:
    """Return a plan in which what was left to do is replaced, and what is settled stays.

    A step that is in both plans keeps its state.
    """
    known = {step.id: step for step in old}
    named = [_step(given) for given in steps]
    wanted = _with_ids(named, known)
    kept = [step for step in known.values() if step.state.is_settled and step.id not in wanted]
    fresh = [
        replace(known[id], text=step.text) if id in known else replace(step, id=id, time=now)
        for id, step in wanted.items()
    ]
    return tuple(replace(step, place=place) for place, step in enumerate([*kept, *fresh]))


def found(steps: Iterable[Step], name: str | Step) -> Step:
    """Return the step of an id, or of a text: of several with one text, the first that is left.

    Raises:
        KeyNotFound: there is none.
    """
    listed = list(steps)
    wanted = name.id if isinstance(name, Step) else name
    by_id = next((step for step in listed if step.id == wanted), None)
    alike = [step for step in listed if step.text == wanted]
    if not isinstance(name, Step) and (by_id is None or by_id in alike):  # it is meant by its text
        by_id = next((step for step in alike if not step.state.is_settled), by_id)
    step = by_id or next(iter(alike), None)
    if step is None:
        ids = ", ".join(step.id for step in listed) or "no steps"
        raise KeyNotFound(f"the plan has no step {wanted!r}", hint=f"it has {ids}")
    return step


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return steps as the plan has them; two that stand in one place are in the order of ids."""
    return tuple(sorted(steps, key=lambda step: (step.place, step.id)))


def _step(given: Planned) -> Step:
    if isinstance(given, Step):
        return given
    if isinstance(given, str):
        return Step("", given)
    fields: Any = given
    text = fields.get("text") if isinstance(fields, Mapping) else None
    if isinstance(text, str):
        return Step(str(fields.get("id") or ""), text)
    raise BadValue(f"{given!r} is no step", hint='use a text, or {"id": …, "text": …}')


def _with_ids(steps: list[Step], known: Mapping[str, Step]) -> dict[str, Step]:
    """Return steps by their ids, which are made of their texts where they have none."""
    ids: dict[str, Step] = {}
    for step in steps:
        if not step.text.strip():
            raise BadValue("a step without a text", hint="say what is to be done")
        if step.id and step.id in ids:
            raise BadValue(f"two steps have the id {step.id!r}", hint="give each its own")
        ids[step.id or _free(step.text, ids, known)] = step
    return ids


def _free(text: str, taken: Mapping[str, Step], known: Mapping[str, Step]) -> str:
    """Return an id for a text: that of the step which has it already, or a new one."""
    slug = _SLUG.sub("-", text.lower()).strip("-")[:_MOST_LETTERS] or "step"
    for count in range(1, len(taken) + len(known) + 2):
        id = slug if count == 1 else f"{slug}-{count}"
        if id not in taken and (id not in known or known[id].text == text):
            return id
    raise AssertionError("there are more ids than steps")


STATUSES = ("idle", "pending", "in_progress", "done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task at one moment."""

    goal: str = ""
    status: str = "idle"
    steps_done: tuple[Step, ...] = ()
    steps_left: tuple[Step, ...] = ()
    current_step: Step | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the task as plain data, with counts of steps."""
        return {
            "task_id": self.id,
            "goal": self.goal,
            "status": self.status,
            "steps_completed": len(self.steps_done),
            "steps_remaining": len(self.steps_left),
            "current_step": None if self.current_step is None else self.current_step.text,
            "data": dict(self.data),
        }


def status_of(goal: str, steps: tuple[Step, ...]) -> str:
    """Return how far a task is, by its plan."""
    if not steps:
        return "pending" if goal else "idle"
    states = {step.state for step in steps}
    if states == {StepState.PENDING}:
        return "pending"
    if any(not state.is_settled for state in states):
        return "in_progress"
    return "failed" if StepState.FAILED in states else "done"


def current_of(steps: tuple[Step, ...]) -> Step | None:
    """Return the step that is being worked on: the active one, else the first that is left."""
    left = [step for step in steps if not step.state.is_settled]
    active = (step for step in left if step.state is StepState.ACTIVE)
    return next(active, left[0] if left else None)
