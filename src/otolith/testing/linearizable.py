"""A checker of recorded histories, which looks for an order that explains every answer.

    from otolith.testing import Operation, RegisterModel, check_linearizable
    from otolith.testing import RegisterRead, RegisterWrite

    history = [
        Operation("a", RegisterWrite(1), called=0, returned=3),
        Operation("b", RegisterRead(), 1, called=1, returned=2),
        Operation("b", RegisterRead(), None, called=4, returned=5),      # it was 1 before
    ]
    verdict = check_linearizable(history, RegisterModel())
    assert verdict.outcome == "not linearizable"
    print(verdict.reason)

An operation takes effect at one moment between its call and its return. A history is *linearizable*
if there are such moments for which a model, which does one operation after the other, gives the
answers that were recorded. An operation without a return (the reply was lost, the process was
killed) may take effect at any moment after its call, or never.

Theory of operation. The search is Wing and Gong's, with the memory and the just-in-time order of
Lowe ("Testing for linearizability", 2017). It goes through the returns in their order. A
*configuration* is the number of returns passed, the state of the model, and which of the pending
operations have taken effect already. The operation that returns next must have: if it has not, the
search lets pending operations take effect, this one first, until it has. Each configuration is
visited once. Three things bound the number of configurations:

1. Operations without a return that have the same input are interchangeable, so only how many of
   them were used is counted.
2. Using fewer of them can do whatever using more can do: a configuration is left out if one with
   the same state that has used no more of any kind was visited.
3. Operations on different keys do not depend on each other, so each key is a history of its own.

Deciding this is NP-complete: `timeout_seconds` bounds the time, the outcome is then "undecided".
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from otolith.errors import Invalid

Outcome: TypeAlias = Literal["linearizable", "not linearizable", "undecided"]


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"""The output of an operation that did not return."""


class Operation(NamedTuple):
    """Something that a process did. Times are numbers of any clock that all processes share.

    Without `returned` it may have taken effect at any moment after the call, or never; its output
    does not matter then, and the model gets `UNKNOWN`.
    """

    process: Hashable
    input: Hashable
    output: Hashable = None
    called: float = 0
    returned: float | None = None

    def __str__(self) -> str:
        """Show who did what, and what came of it."""
        answer = "no answer" if self.returned is None else repr(self.output)
        return f"{self.process}: {self.input} -> {answer}"


class HistoryModel(Protocol):
    """What the operations would do one after the other. States are hashable and never change."""

    @property
    def init(self) -> Hashable:
        """The state of every key before the first operation."""
        ...

    def key(self, given: Hashable) -> Hashable:
        """Return the part that an input is about; operations on different keys are independent."""
        ...

    def step(self, state: Hashable, given: Hashable, output: Hashable) -> tuple[bool, Hashable]:
        """Return whether this output is possible in a state, and the state after the operation."""
        ...


@dataclass(frozen=True, slots=True)
class HistoryVerdict:
    """What the checker found.

    `order` explains the operations in it: all of them that returned if the history is
    linearizable (key by key), else the longest explanation that was found for the key at fault.
    `blocked` is the first operation, by the time of its return, for which no order has a place.
    `reason` says this in words.
    """

    outcome: Outcome
    order: tuple[Operation, ...] = ()
    blocked: Operation | None = None
    reason: str = ""


def check_linearizable(
    history: Sequence[Operation], model: HistoryModel, *, timeout_seconds: float | None = None
) -> HistoryVerdict:
    """Decide whether a history is linearizable.

    It is "undecided" if the time is over before the search is.

    Raises:
        Invalid: an operation returned before it was called.
    """
    deadline = None if timeout_seconds is None else monotonic() + timeout_seconds
    parts: dict[Hashable, list[Operation]] = {}
    for operation in history:
        if operation.returned is not None and operation.returned < operation.called:
            raise Invalid(f"[{operation}] returned before it was called", hint="use one clock")
        parts.setdefault(model.key(operation.input), []).append(operation)
    order: list[Operation] = []
    undecided: HistoryVerdict | None = None
    for part in parts.values():
        verdict = _Search(part, model).run(deadline)
        if verdict.outcome == "not linearizable":
            return verdict
        if verdict.outcome == "undecided":
            undecided = verdict
        order += verdict.order
    return undecided or HistoryVerdict("linearizable", tuple(order))


# -------------------- a register, or many: refs, keys of a database


class RegisterRead(NamedTuple):
    """Read a register; the output is its value."""

    key: Hashable = ""


class RegisterWrite(NamedTuple):
    """Set a register; the output does not matter."""

    value: Hashable
    key: Hashable = ""


class RegisterSwap(NamedTuple):
    """Set a register if it has a value; the output is whether it had."""

    old: Hashable
    new: Hashable
    key: Hashable = ""


@dataclass(frozen=True, slots=True)
class RegisterModel:
    """Registers that are read, written, and compared and set. A ref is one: absent is None."""

    init: Hashable = None

    def key(self, given: Hashable) -> Hashable:
        """Return the name of the register."""
        return _about_register(given).key

    def step(self, state: Hashable, given: Hashable, output: Hashable) -> tuple[bool, Hashable]:
        """Do one operation."""
        given = _about_register(given)
        if isinstance(given, RegisterRead):
            return output is UNKNOWN or output == state, state
        if isinstance(given, RegisterWrite):
            return True, given.value
        matches = state == given.old
        is_possible = output is UNKNOWN or output == matches
        return is_possible, given.new if matches else state


def _about_register(given: Hashable) -> RegisterRead | RegisterWrite | RegisterSwap:
    if not isinstance(given, RegisterRead | RegisterWrite | RegisterSwap):
        raise Invalid(
            f"{given!r} is not an operation on a register",
            hint="use RegisterRead, RegisterWrite or RegisterSwap",
        )
    return given


# -------------------- the search


class _Configuration(NamedTuple):
    passed: int  # returns that lie behind
    state: Hashable
    done: int  # bit n: the operation of return passed + n has taken effect
    used: tuple[int, ...]  # how many operations without a return took effect, by kind


_Steps: TypeAlias = Iterator[tuple[Operation, _Configuration]]


class _Search:
    """The search through the history of one key."""

    def __init__(self, part: Sequence[Operation], model: HistoryModel) -> None:
        self.model = model
        self.returns = sorted((each for each in part if each.returned is not None), key=_end)
        kinds: dict[Hashable, list[Operation]] = {}
        for each in sorted((each for each in part if each.returned is None), key=_start):
            kinds.setdefault((type(each.input), each.input), []).append(each)
        self.lost = list(kinds.values())  # the operations without a return, by input
        self.pending = _pending(self.returns)
        self.visited: dict[tuple[int, Hashable, int], list[tuple[int, ...]]] = {}

    def run(self, deadline: float | None) -> HistoryVerdict:
        """Search depth first, without recursion: histories are long."""
        first = _Configuration(0, self.model.init, 0, (0,) * len(self.lost))
        path: list[Operation] = []
        stack: list[_Steps] = [self._steps(first)]
        furthest, longest, states = 0, list[Operation](), {self.model.init}
        if not self.returns:
            return HistoryVerdict("linearizable")
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
                if path:
                    path.pop()
                continue
            if deadline is not None and monotonic() > deadline:
                return self._undecided(longest, furthest)
            operation, after = step
            path.append(operation)
            if after.passed > furthest:
                furthest, longest, states = after.passed, path.copy(), set()
            if after.passed == furthest:
                states.add(after.state)
            if furthest == len(self.returns):
                return HistoryVerdict("linearizable", tuple(path))
            stack.append(self._steps(after))
        return self._refused(longest, furthest, states)

    def _steps(self, now: _Configuration) -> _Steps:
        """Yield the operations that can take effect next, and what is then."""
        passed, state, done, used = now
        for at in self.pending[passed]:  # the one that returns next is the first
            bit = 1 << at - passed
            if done & bit:
                continue
            operation = self.returns[at]
            is_possible, after = self.model.step(state, operation.input, operation.output)
            if is_possible:
                configuration = self._pass(_Configuration(passed, after, done | bit, used))
                if self._is_new(configuration):
                    yield operation, configuration
        moment = _end(self.returns[passed])
        for kind, count in enumerate(used):
            if count == len(self.lost[kind]) or self.lost[kind][count].called > moment:
                continue
            operation = self.lost[kind][count]
            is_possible, after = self.model.step(state, operation.input, UNKNOWN)
            if is_possible and after != state:
                more = (*used[:kind], count + 1, *used[kind + 1 :])
                configuration = _Configuration(passed, after, done, more)
                if self._is_new(configuration):
                    yield operation, configuration

    def _pass(self, now: _Configuration) -> _Configuration:
        """Pass all returns of operations that have taken effect."""
        passed, state, done, used = now
        while done & 1:
            passed, done = passed + 1, done >> 1
        return _Configuration(passed, state, done, used)

    def _is_new(self, now: _Configuration) -> bool:
        """Remember a configuration; return whether none was visited that can do as much."""
        passed, state, done, used = now
        seen = self.visited.setdefault((passed, state, done), [])
        if any(all(map(int.__le__, other, used)) for other in seen):
            return False
        seen[:] = [other for other in seen if not all(map(int.__le__, used, other))]
        seen.append(used)
        return True

    def _refused(
        self, longest: list[Operation], furthest: int, states: set[Hashable]
    ) -> HistoryVerdict:
        blocked = self.returns[furthest]
        possible = ", ".join(sorted(map(repr, states)))
        reason = (
            f"[{blocked}] cannot be placed: once the {furthest} operations that returned before "
            f"it have taken effect, in any order that explains them, the state is one of {possible}"
        )
        return HistoryVerdict("not linearizable", tuple(longest), blocked, reason)

    def _undecided(self, longest: list[Operation], furthest: int) -> HistoryVerdict:
        reason = f"the time was over at return {furthest + 1} of {len(self.returns)}"
        return HistoryVerdict("undecided", tuple(longest), None, reason)


def _pending(returns: Sequence[Operation]) -> list[list[int]]:
    """Return, by return, the places of this and later returns that were called before it."""
    calls = sorted(range(len(returns)), key=lambda at: returns[at].called)
    times = [returns[at].called for at in calls]
    begun, active, found = 0, list[int](), list[list[int]]()
    for each in returns:
        until = bisect_right(times, _end(each), lo=begun)
        for at in calls[begun:until]:
            insort(active, at)
        begun = until
        found.append(active.copy())
        del active[0]  # all before it have returned
    return found


def _start(operation: Operation) -> float:
    return operation.called


def _end(operation: Operation) -> float:
    assert operation.returned is not None
    return operation.returned
