"""Outcome: how a run came to rest, and with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from otolith.agent.loop.state import AgentState

Ended: TypeAlias = Literal["done", "error", "paused", "steps", "seconds", "stopped"]


_SHOWN = 80


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """How a run came to rest. All but `done` and `error` can be gone on with."""

    state: AgentState
    ended: Ended
    """`paused` for a person, out of `steps` or `seconds`, or `stopped` by somebody."""
    steps: int = 0
    """How many steps this call has made."""
    why: str = ""
    """What it was waiting for when its time was up, if that is known."""

    @property
    def answer(self) -> Any:
        """The final answer; None if there is none."""
        return self.state.final_answer

    @property
    def question(self) -> str:
        """What a person is asked, if it is paused."""
        return self.state.question

    @property
    def error(self) -> str:
        """What went wrong, if it ended so."""
        return self.state.error

    def __repr__(self) -> str:
        told = f"{self}"
        shown = told if len(told) <= _SHOWN else f"{told[: _SHOWN - 1]}…"
        return f"<Outcome {self.ended} after {self.steps} steps: {shown}>"

    def __str__(self) -> str:
        return str(self.answer if self.ended == "done" else self.question or self.error)
