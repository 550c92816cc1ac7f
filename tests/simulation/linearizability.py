"""Is there one order of all calls that explains every answer? `check_linearizable` decides.

Each call has a moment at which it was made and one at which it was answered. A call without an
answer may have happened at any later moment, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from otolith.testing import UNKNOWN, Operation, check_linearizable

NEVER = 1 << 62


@dataclass
class Call:
    """Something that was asked of an object that others use too."""

    who: str
    what: Any
    called: int
    answered: int = NEVER
    answer: Any = None


Step = Callable[[Hashable, Any, Any, bool], Hashable]
"""Given a state, what was asked, the answer and whether there was one: the next state.

`IMPOSSIBLE` if that state has another answer.
"""

IMPOSSIBLE = object()


@dataclass(frozen=True)
class StepModel:
    """A model whose steps are a function."""

    init: Hashable
    function: Step

    def key(self, given: Hashable) -> Hashable:
        return None

    def step(self, state: Hashable, given: Hashable, output: Hashable) -> tuple[bool, Hashable]:
        after = self.function(state, given, output, output is not UNKNOWN)
        return after is not IMPOSSIBLE, after


def is_linearizable(calls: Sequence[Call], start: Hashable, step: Step) -> bool:
    """Tell whether there is an order that explains all calls."""
    history = [
        Operation(
            call.who,
            call.what,
            call.answer,
            call.called,
            None if call.answered == NEVER else call.answered,
        )
        for call in calls
    ]
    return check_linearizable(history, StepModel(start, step)).outcome == "linearizable"


@dataclass(frozen=True)
class SwapCall:
    """Move a ref from one hash to another, if it is there."""

    old: bytes | None
    new: bytes | None
    note: str = ""


@dataclass(frozen=True)
class LookCall:
    """Say where a ref is."""


def step_of_ref(state: Hashable, what: Any, answer: Any, has_answer: bool) -> Any:
    """One step of a ref: what it names is its state; a swap is answered by whether it was done."""
    if isinstance(what, LookCall):
        return state if answer == state or not has_answer else IMPOSSIBLE
    can = state == what.old
    if not has_answer:
        return what.new if can else IMPOSSIBLE  # done, or left out of the order
    if can is not answer:
        return IMPOSSIBLE
    return what.new if answer else state
