"""Memory: what an agent works with, as a view of a state that shares its commits.

Everything is staged like any edit and committed with the rest. Whatever a state can do, the memory
in it can: it is read as it was, forked, rolled back and merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from otolith.agent import tokens
from otolith.agent.memory import choosing
from otolith.agent.memory.calls import ToolLog, ToolRecord
from otolith.agent.memory.noting import Noting
from otolith.agent.memory.plan import StepState
from otolith.agent.memory.planning import Planning
from otolith.agent.memory.record import CALLS
from otolith.core import MEMORY
from otolith.errors import BadValue

_RECENT_CALLS = 20


class Memory(Noting, Planning):
    """What an agent works with: `state.memory`.

    There is always one, if an empty one. `half_life_seconds` is how long it takes until half of a
    note is gone, for notes that do not say. `relevance` is a judge of your own for `recall`.
    Without a clock it is that of the repo, or the time of the commit that is looked at.
    """

    def __repr__(self) -> str:
        task = self.task
        done, left = len(task.steps_done), len(task.steps_left)
        return f"<Memory {task.goal!r} {task.status}: {done} done, {left} left>"

    def relevant(
        self, decision: str, budget: int, *, count: Callable[[str], int] | None = None
    ) -> choosing.Choice:
        """Return what fits into a budget of tokens of what matters for a decision.

        The goal and the step at hand come first, then pinned notes, then notes, calls of tools and
        the rest of the plan by their scores. `count` counts the tokens of a text; without one they
        are estimated.

        Raises:
            BadValue: the budget is no count, or the decision no text.
        """
        if not isinstance(decision, str):
            raise BadValue(f"{decision!r} is no decision", hint="say in words what is decided")
        with self.state.turn():
            task = self.task
            notes = choosing.note_items(self._ranked(decision, with_pinned=True))
            calls = choosing.call_items(decision, self.tool_calls[-_RECENT_CALLS:])
        items = [*choosing.task_items(task), *notes, *calls]
        return choosing.choose(items, budget, count=count or tokens.count)

    # Tools

    @property
    def tool_calls(self) -> ToolLog:
        """The calls of tools, the oldest first."""
        return ToolLog(self.state, (MEMORY, CALLS))

    def record(self, call: ToolRecord) -> ToolRecord:
        """Keep a call of a tool; one without a time gets the time it is."""
        if not isinstance(call, ToolRecord):
            raise BadValue(f"{call!r} is no ToolRecord", hint="use memory.record(ToolRecord(…))")
        return self.tool_calls.append(call, self._now())

    # All of it

    def to_dict(self) -> dict[str, Any]:
        """Return the memory as plain data: goal, plan, what is done, notes and calls."""
        steps = self.steps
        return {
            "current_goal": self.goal,
            "plan_steps": [step.text for step in steps],
            "completed_steps": [step.text for step in steps if step.state is StepState.DONE],
            "notes": {note.key: note.value for note in self.notes.all()},
            "tool_calls": [call.to_data() for call in self.tool_calls],
        }
