"""The state of the task: what an agent is at, as a few fields to show or to send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from otolith.agent.memory.plan import Step, StepState

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
