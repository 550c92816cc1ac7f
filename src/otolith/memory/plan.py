"""The plan: steps with ids, in order, each in one of five states; and the task it belongs to.

    plan = Plan().replan(["search", "book"], now=0)
    plan.find("search").state          # StepState.PENDING

A `Plan` is a value: its methods return another plan. `Memory` stores it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from otolith.errors import BadValue, Corrupt, KeyNotFound
from otolith.shapes import items
from otolith.types import short_repr

_NO_WORD = re.compile(r"[^\w]+")
_ID_LETTERS = 40


class StepState(StrEnum):
    """The progress of a step."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing left to do."""
        return self not in (StepState.PENDING, StepState.ACTIVE)


@short_repr("text", "state")
@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan."""

    id: str
    text: str
    state: StepState = StepState.PENDING
    place: int = 0
    """Its position in the plan."""
    time: int = 0
    """When its state changed last, in microseconds since 1970."""
    why: str = ""
    """The result of the step, or why it failed or was skipped."""

    def __str__(self) -> str:
        return self.text

    def to_data(self) -> list[Any]:
        """Return the stored form; the id is the key under which it is stored."""
        return [self.text, str(self.state), self.place, self.time, self.why]

    @classmethod
    def from_data(cls, id: str, data: Any) -> PlanStep:
        """Return the step that `to_data` made into data.

        Raises:
            Corrupt: the data is not a step.
        """
        where = f".memory/plan/{id}"
        text, state, place, time, why = items(data, where, str, str, int, int, str)
        if state not in tuple(StepState):
            raise Corrupt(f"{where} has the unknown state {state[:40]!r}", hint="run otolith fsck")
        return cls(id, text, StepState(state), place, time, why)


StepLike: TypeAlias = str | PlanStep | Mapping[str, Any]
"""A step as a user writes it: its text, a step, or a dict with `text` and perhaps `id`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a task, in order."""

    steps: tuple[PlanStep, ...] = ()

    @classmethod
    def of(cls, steps: Iterable[PlanStep]) -> Plan:
        """Return a plan of steps by their place; steps with equal places are ordered by id."""
        return cls(tuple(sorted(steps, key=lambda step: (step.place, step.id))))

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_data` made into data.

        Raises:
            Corrupt: one of its steps is not a step.
        """
        return cls.of(PlanStep.from_data(id, step) for id, step in data.items())

    def to_data(self) -> dict[str, Any]:
        """Return the stored form: steps by their ids."""
        return {step.id: step.to_data() for step in sorted(self.steps, key=lambda step: step.id)}

    def numbered(self) -> Plan:
        """Return the plan with places that count from 0."""
        return Plan(tuple(replace(step, place=at) for at, step in enumerate(self.steps)))

    @property
    def left(self) -> tuple[PlanStep, ...]:
        """The steps that are pending or active."""
        return tuple(step for step in self.steps if not step.state.is_settled)

    @property
    def done(self) -> tuple[PlanStep, ...]:
        """The steps that are done; failed and skipped steps are not among them."""
        return tuple(step for step in self.steps if step.state is StepState.DONE)

    @property
    def current(self) -> PlanStep | None:
        """The step to work on: the active one, else the first one left."""
        active = (step for step in self.left if step.state is StepState.ACTIVE)
        return next(active, next(iter(self.left), None))

    def status(self, goal: str) -> str:
        """Return the status of the task, one of `STATUSES`, as its steps have it."""
        if not self.steps:
            return "pending" if goal else "idle"
        states = {step.state for step in self.steps}
        if states == {StepState.PENDING}:
            return "pending"
        if self.left:
            return "in_progress"
        return "failed" if StepState.FAILED in states else "done"

    def find(self, name: str | PlanStep) -> PlanStep:
        """Return the step with an id or a text; of equal texts, the first that is left.

        Raises:
            KeyNotFound: the plan has no such step.
        """
        wanted = name.id if isinstance(name, PlanStep) else name
        by_id = next((step for step in self.steps if step.id == wanted), None)
        same_text = [step for step in self.steps if step.text == wanted]
        if not isinstance(name, PlanStep) and (by_id is None or by_id in same_text):
            # The name is a text: ids are made from texts, so a settled step may have it as its id.
            by_id = next((step for step in same_text if not step.state.is_settled), by_id)
        step = by_id or next(iter(same_text), None)
        if step is None:
            ids = ", ".join(step.id for step in self.steps) or "no steps"
            raise KeyNotFound(f"the plan has no step {wanted!r}", hint=f"it has {ids}")
        return step

    def replan(self, steps: Iterable[StepLike], now: int) -> Plan:
        """Return a plan with other steps left to do; settled steps stay at its beginning.

        A step that is in both plans keeps its state.

        Raises:
            BadValue: something is not a step, or two steps have one id.
        """
        known = {step.id: step for step in self.steps}
        wanted = _by_id(map(_step, steps), known)
        settled = [step for step in self.steps if step.state.is_settled and step.id not in wanted]
        planned = [
            replace(known[id], text=step.text) if id in known else replace(step, id=id, time=now)
            for id, step in wanted.items()
        ]
        return Plan((*settled, *planned)).numbered()


def _step(given: StepLike) -> PlanStep:
    if isinstance(given, PlanStep):
        return given
    fields: Any = {"text": given} if isinstance(given, str) else given
    text = fields.get("text") if isinstance(fields, Mapping) else None
    if not isinstance(text, str):
        raise BadValue(f"{given!r} is not a step", hint='use a text, or {"id": …, "text": …}')
    return PlanStep(str(fields.get("id") or ""), text)


def _by_id(steps: Iterable[PlanStep], known: Mapping[str, PlanStep]) -> dict[str, PlanStep]:
    """Return steps by their ids; a step without one gets an id made from its text."""
    found: dict[str, PlanStep] = {}
    for step in steps:
        if not step.text.strip():
            raise BadValue("a step needs a text", hint="say what is to be done")
        if step.id and step.id in found:
            raise BadValue(f"two steps have the id {step.id!r}", hint="give each its own")
        found[step.id or next(_free_ids(step.text, found, known))] = step
    return found


def _free_ids(
    text: str, taken: Mapping[str, PlanStep], known: Mapping[str, PlanStep]
) -> Iterator[str]:
    """Yield ids for a text that no other step has; a known step with this text shares its id."""
    slug = _NO_WORD.sub("-", text.lower()).strip("-")[:_ID_LETTERS] or "step"
    for count in range(1, len(taken) + len(known) + 2):
        id = slug if count == 1 else f"{slug}-{count}"
        if id not in taken and (id not in known or known[id].text == text):
            yield id


STATUSES = ("idle", "pending", "in_progress", "done", "failed", "cancelled")


@short_repr("status", "goal", "steps_done", "steps_left")
@dataclass(frozen=True, slots=True)
class TaskState:
    """A task at one moment, as a few fields to show or to send."""

    goal: str = ""
    status: str = "idle"
    """One of `STATUSES`: as reported by `finish`, else worked out from the steps."""
    steps_done: tuple[PlanStep, ...] = ()
    steps_left: tuple[PlanStep, ...] = ()
    current_step: PlanStep | None = None
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
