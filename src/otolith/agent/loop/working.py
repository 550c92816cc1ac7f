"""Working memory as a value: goal, plan, what is done, notes, and every tool call with its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from otolith.agent.lifecycle.values import EMPTY, freeze, thaw
from otolith.agent.loop.signature import told
from otolith.errors import Invalid


def _nothing() -> Mapping[str, Any]:
    return EMPTY


@dataclass(frozen=True, slots=True)
class Observation:
    """One tool call that has ended: what was asked, and what came of it."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=_nothing)
    result: Any = None
    error: str = ""
    duration_ms: float = 0.0
    time: int = 0
    """When it began, in microseconds since 1970."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", freeze(dict(self.arguments)))
        object.__setattr__(self, "result", freeze(self.result))

    @property
    def text(self) -> str:
        """What a model is told of it: the error, the text, or the JSON of anything else."""
        return self.error or told(self.result)

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "id": self.id,
            "name": self.name,
            "arguments": thaw(self.arguments),
            "result": thaw(self.result),
            "error": self.error,
            "duration_ms": self.duration_ms,
            "time": self.time,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Observation:
        """Return what `to_data` gave."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Working:
    """What an agent has in mind while it works; every change is another value."""

    goal: str = ""
    steps: tuple[str, ...] = ()
    """The plan, in its order."""
    completed: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=_nothing)
    tool_calls: tuple[Observation, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "completed", tuple(self.completed))
        object.__setattr__(self, "notes", freeze(dict(self.notes)))
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))

    @property
    def pending(self) -> tuple[str, ...]:
        """The steps that are not done."""
        done = set(self.completed)
        return tuple(step for step in self.steps if step not in done)

    def plan(self, steps: Iterable[str]) -> Working:
        """Return it with another plan; what is completed stays so."""
        return replace(self, steps=tuple(steps))

    def done(self, step: str) -> Working:
        """Return it with a step done.

        Raises:
            Invalid: the plan has no such step.
        """
        if step not in self.steps:
            raise Invalid(f"the plan has no step {step!r}", hint=f"it has {list(self.steps)}")
        return self if step in self.completed else replace(self, completed=(*self.completed, step))

    def note(self, key: str, value: Any) -> Working:
        """Return it with a note."""
        return replace(self, notes={**self.notes, key: value})

    def record(self, call: Observation) -> Working:
        """Return it with one more tool call."""
        return replace(self, tool_calls=(*self.tool_calls, call))

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return self.mind_data() | {"tool_calls": [call.to_data() for call in self.tool_calls]}

    def mind_data(self) -> dict[str, Any]:
        """Return what is small in it: all but the tool calls."""
        return {
            "goal": self.goal,
            "steps": list(self.steps),
            "completed": list(self.completed),
            "notes": thaw(self.notes),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Working:
        """Return what `to_data` gave."""
        calls = tuple(map(Observation.from_data, data["tool_calls"]))
        return cls(data["goal"], data["steps"], data["completed"], data["notes"], calls)
