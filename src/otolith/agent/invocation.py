"""Beginning: what a call of a run starts with: where it was, an answer, or another task.

Outcome: how a run came to rest, and with what.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from otolith.agent.live_run import LiveRun
from otolith.agent.run_store import StoredRun
from otolith.agent.state import AgentState
from otolith.errors import Conflict, Invalid, KeyNotFound

ANSWERED, ANSWERED_AT_ONCE = "answered", "answered at once"
"""What commits say with which somebody has answered a question: by `answer=`, or by `human=`."""


class RunRequest(NamedTuple):
    """What a caller wants of a run; see `Orchestrator.run`."""

    input: str | None
    answer: str | None
    again: bool


class RunStart(NamedTuple):
    """The state to start with, and, if it is another one than the run is at, what to commit."""

    state: AgentState
    before: AgentState
    message: str = ""


def start_of(run: StoredRun | LiveRun, at: AgentState | None, wish: RunRequest) -> RunStart:
    """Return what a call starts with; `at` is where the run is, None if it has not begun.

    Raises:
        KeyNotFound: nothing has begun, and nothing is to be done.
        Conflict: the session is in the middle of another task.
        Invalid: there is an answer, and nobody has asked.
    """
    if at is None:
        if wish.input is None:
            raise KeyNotFound(f"nothing has begun in session {run.session}", hint="run(input)")
        _refuse_answer(wish, "nothing has begun")
        return _task(run, wish.input, AgentState(run.session, messages=run.said()))
    if at.is_paused and wish.answer is not None:
        if wish.input not in (None, at.task):
            raise Conflict(f"it was asked about {at.task!r}", hint="leave out the input")
        return RunStart(at.answered(wish.answer), at, ANSWERED)
    _refuse_answer(wish, f"the run is {at.phase}")
    is_same = wish.input == at.task and not (wish.again and at.is_over)
    if wish.input is None or is_same:
        return RunStart(at, at)
    if not at.is_over:
        raise Conflict(
            f"session {run.session} is in the middle of {at.task!r}",
            hint="run() goes on with it, abandon() ends it; or use another session",
        )
    return _task(run, wish.input, at)


def _task(run: StoredRun | LiveRun, input: str, at: AgentState) -> RunStart:
    fresh = AgentState.from_user_input(input, session=at.session, messages=at.messages)
    return RunStart(replace(fresh, iteration=at.iteration), at, f"begin {run.name}")


def _refuse_answer(wish: RunRequest, why: str) -> None:
    if wish.answer is not None:
        raise Invalid(
            f"nobody was asked anything: {why}",
            hint="leave out the answer; perhaps it was given before",
        )


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
