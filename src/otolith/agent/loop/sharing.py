"""What an agent has in mind is put where `state.memory` shows it, for people and other agents."""

from __future__ import annotations

from otolith.agent.lifecycle.phases import Phase
from otolith.agent.loop.state import AgentState
from otolith.agent.loop.working import Observation, Working
from otolith.agent.memory import Memory, ToolRecord

_BEFORE_A_TASK = frozenset({Phase.IDLE, Phase.DONE, Phase.ERROR})
_STATUSES = {Phase.DONE: "done", Phase.ERROR: "failed"}
_MISSING = object()


def share(
    memory: Memory,
    after: AgentState,
    before: AgentState | None,
    fresh: tuple[Observation, ...],
) -> None:
    """Stage what a step changed; `fresh` are the calls that have ended in it."""
    now, past = after.memory, Working() if before is None else before.memory
    if before is None or (before.phase in _BEFORE_A_TASK and after.phase is not before.phase):
        _begin(memory, now.goal, is_next=before is not None and before.is_over)
        past = Working()
    if now is not past:
        _change(memory, now, past)
    for call in fresh:
        data = call.to_data()
        memory.record(ToolRecord(**data | {"error": data["error"] or None}))
    if after.phase in _STATUSES and (before is None or before.phase is not after.phase):
        memory.finish(_STATUSES[after.phase])


def _begin(memory: Memory, goal: str, *, is_next: bool) -> None:
    """Begin a task; a plan that somebody made for it ahead of time is kept."""
    if is_next or memory.goal not in ("", goal):
        memory.start(goal)
    else:
        memory.goal = goal


def _change(memory: Memory, now: Working, past: Working) -> None:
    if past.goal and now.goal != past.goal:
        memory.goal = now.goal
    if now.steps != past.steps and (now.steps or past.steps):
        memory.plan(now.steps)
    there = {step.text for step in memory.steps}  # others may have planned something else since
    for step in now.completed:
        if step in there and step not in past.completed:
            memory.done(step)
    for key, value in now.notes.items():
        if past.notes.get(key, _MISSING) != value:
            memory.note(key, value)
