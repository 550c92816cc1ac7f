"""The task and its plan: what is to be reached, by which steps, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from otolith.agent.memory.plan import Planned, Step, StepState, found, replanned
from otolith.agent.memory.record import DATA, GOAL, ID, PLAN, STATUS, TASK
from otolith.agent.memory.task import STATUSES, TaskState, current_of, status_of
from otolith.agent.memory.view import View
from otolith.errors import BadValue


class Planning(View):
    """The part of a memory that is about the task."""

    # The task

    @property
    def goal(self) -> str:
        """What is to be reached; empty if nobody said."""
        with self.state.turn():
            return self._record.value(GOAL) or ""

    @goal.setter
    def goal(self, text: str) -> None:
        if not isinstance(text, str):
            raise BadValue(f"{text!r} is no goal", hint="say it in words")
        with self.state.turn():
            if text != self.goal:
                self._record.remove(TASK, STATUS)  # how the other task ended
            self._record.put(text, GOAL)

    def start(self, goal: str, *, id: str = "") -> None:
        """Begin another task: a goal, no plan, no data. Notes and calls stay."""
        with self.state.turn():
            self.goal = goal
            for part in (DATA, TASK):
                self._record.remove(part)
            if self._record.steps():
                self._record.keep_steps(())  # no plan at all could not be merged with another
            if id:
                self._record.put(id, TASK, ID)

    def finish(self, status: str) -> None:
        """Say how the task ended, whatever the plan says: done, failed, cancelled …

        Raises:
            BadValue: there is no such status.
        """
        if status not in STATUSES:
            raise BadValue(f"{status!r} is no status", hint=f"use one of {', '.join(STATUSES)}")
        with self.state.turn():
            self._record.put(status, TASK, STATUS)

    @property
    def task(self) -> TaskState:
        """The task as it is now."""
        with self.state.turn():
            goal, steps = self.goal, self._record.steps()
            kept = self._record.value(TASK) or {}
            data = self._record.value(DATA) or {}
        return TaskState(
            goal=goal,
            status=kept.get(STATUS) or status_of(goal, steps),
            steps_done=tuple(step for step in steps if step.state is StepState.DONE),
            steps_left=tuple(step for step in steps if not step.state.is_settled),
            current_step=current_of(steps),
            data=data,
            id=str(kept.get(ID) or getattr(self.state, "session", "")),
        )

    def gather(self, **data: Any) -> None:
        """Keep what the task has found out, by name; None takes a name out."""
        with self.state.turn():
            for name, value in data.items():
                if value is None:
                    self._record.remove(DATA, name)
                else:
                    self._record.put(value, DATA, name)

    # The plan

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the plan, in order."""
        with self.state.turn():
            return self._record.steps()

    def plan(self, steps: Iterable[Planned]) -> tuple[Step, ...]:
        """Plan steps in place of those that are left; what is settled stays in the plan.

        A step is a text, or a dict with `text` and `id`. One that was planned before keeps its
        state. The ids of the others are made of their texts.

        Raises:
            BadValue: this is no step, or two have one id.
        """
        if isinstance(steps, str):
            raise BadValue("a plan is a list of steps, not one text", hint=f"use [{steps!r}]")
        with self.state.turn():
            planned = replanned(self._record.steps(), steps, self._now())
            self._record.keep_steps(planned)
            self._record.remove(TASK, STATUS)
        return planned

    def begin(self, step: str | Step) -> Step:
        """Say that a step is being worked on."""
        return self._move(step, StepState.ACTIVE, "")

    def done(self, step: str | Step, result: str = "") -> Step:
        """Say that a step is done, and perhaps what came of it.

        Raises:
            KeyNotFound: the plan has no such step.
        """
        return self._move(step, StepState.DONE, result)

    def fail(self, step: str | Step, why: str = "") -> Step:
        """Say that a step has failed."""
        return self._move(step, StepState.FAILED, why)

    def skip(self, step: str | Step, why: str = "") -> Step:
        """Say that a step is not needed."""
        return self._move(step, StepState.SKIPPED, why)

    def reopen(self, step: str | Step) -> Step:
        """Say that a step has to be done after all."""
        return self._move(step, StepState.PENDING, "")

    def pending(self) -> list[Step]:
        """Return the steps that are left, the one being worked on as well."""
        return [step for step in self.steps if not step.state.is_settled]

    def _move(self, name: str | Step, state: StepState, why: str) -> Step:
        with self.state.turn():
            step = found(self._record.steps(), name)
            moved = replace(step, state=state, why=why, time=max(self._now(), step.time))
            self._record.put(moved.to_data(), PLAN, step.id)
            if not state.is_settled:
                self._record.remove(TASK, STATUS)
        return moved
