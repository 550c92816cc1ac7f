"""Is there one order of all calls that explains every answer? (Wing and Gong, with Lowe's memory)

Each call has a moment at which it was made and one at which it was answered. An order is right if
no call stands before one that was answered before it was made, and if calls done one after the
other in that order give the answers that were given. A call without an answer may have happened at
any later moment, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

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


def order(calls: Sequence[Call], start: Hashable, step: Step) -> list[Call] | None:
    """Return calls in an order that explains them, or None if there is no such order."""
    seen: set[tuple[int, Hashable]] = set()
    everything = (1 << len(calls)) - 1
    needed = sum(1 << at for at, call in enumerate(calls) if call.answered != NEVER)
    path: list[
        tuple[int, int, Hashable]
    ] = []  # what was done, what was done before, and in which state
    done, state, at = 0, start, 0
    while done & needed != needed:
        found = False
        horizon = min(call.answered for index, call in enumerate(calls) if not done >> index & 1)
        for index in range(at, len(calls)):
            call = calls[index]
            if done >> index & 1 or call.called > horizon:
                continue
            after = step(state, call.what, call.answer, call.answered != NEVER)
            key = (done | 1 << index, after)
            if after is IMPOSSIBLE or key in seen:
                continue
            seen.add(key)
            path.append((index, done, state))
            done, state, at, found = key[0], after, 0, True
            break
        if not found:
            if not path:
                return None
            index, done, state = path.pop()
            at = index + 1
    assert done <= everything
    return [calls[index] for index, _, _ in path]


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
