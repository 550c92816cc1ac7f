"""The oracle: answers the guards of a chart in every way, one run for each way.

A guard is a function of the data, the event and the active states. Asked again while none of these
has changed, the oracle says the same again: a loop that a guard keeps open stays open. If the data
may have changed and all else is as it was before in this step, the way is given up: from here on
everything that can happen can happen from there, and is found there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from otolith.agent.lifecycle.running import Failure, Run
from otolith.agent.lifecycle.sending import everyone
from otolith.agent.lifecycle.snapshot import Event
from otolith.agent.lifecycle.stepping import Step
from otolith.errors import StepFailed

MOST_QUESTIONS = 40
MOST_WAYS = 1_500
FEWER_WAYS = 50
MOST_ENDLESS = 25
FEWER_ENDLESS = 2
"""How many questions one step may ask, how many runs of one step are made, and how many of these
may be endless. Once that was not enough, fewer do: the answer is not complete anyway."""
UNKNOWN = "?"
"""The data of an event whose data is only known when the chart runs."""


class Way(NamedTuple):
    """One way a step can go; `is_sure` if no guard had a say in it."""

    step: Step | None
    error: StepFailed | None
    is_sure: bool


class _RoundAgain(Exception):
    """The step is where it was before, or asks too much: this way is given up."""


class Oracle:
    """Answers questions by a list, and then with the first answer there is: no."""

    def __init__(self) -> None:
        self.is_exhausted = False
        self._begin(())

    def _begin(self, given: tuple[int, ...]) -> None:
        self._given = given
        self._answers: list[int] = []
        self._ways: list[int] = []
        self._known: dict[Hashable, int] = {}
        self._met: dict[Hashable, int] = {}
        self._held: list[Any] = []
        self._asking: Hashable = None

    def ways(self, work: Callable[[], Step]) -> Iterator[Way]:
        """Yield what a piece of work gives for every list of answers."""
        waiting: list[tuple[int, ...]] = [()]
        count = endless = 0
        most, most_endless = MOST_WAYS, MOST_ENDLESS
        if self.is_exhausted:
            most, most_endless = FEWER_WAYS, FEWER_ENDLESS
        while waiting:
            count += 1
            if count > most or endless > most_endless:
                self.is_exhausted = True
                return
            given = waiting.pop()
            way = self._one(given, work)
            if way is not None:
                endless += way.error is not None
                yield way
            for at in range(len(given), len(self._answers)):
                before = tuple(self._answers[:at])
                waiting.extend((*before, answer) for answer in range(1, self._ways[at]))

    def _one(self, given: tuple[int, ...], work: Callable[[], Step]) -> Way | None:
        self._given = given
        if self._answers:
            self._begin(given)
        try:
            step = work()
        except _RoundAgain:
            return None
        except StepFailed as error:
            return Way(None, error, not self._answers)
        return Way(step, None, not self._answers)

    def ask(self, ways: int = 2) -> int:
        """Return the next answer: 0 is no, 1 is yes, 2 is a failure."""
        at = len(self._answers)
        if at >= MOST_QUESTIONS:
            self.is_exhausted = True
            return 0
        answer = self._given[at] if at < len(self._given) else 0
        self._answers.append(answer)
        self._ways.append(ways)
        return answer

    def test(self, guard: str, *, can_fail: bool) -> Callable[[Run], bool]:
        """Return a test for a transition that asks the oracle."""
        ways = 3 if can_fail else 2

        def test(run: Run) -> bool:
            key = (guard, run.mask, id(run.data), _told(run.event), run.session)
            answer = self._known.get(key)
            if answer is None:
                self._look_round(run, guard)
                if len(self._answers) >= MOST_QUESTIONS:
                    self.is_exhausted = True
                    raise _RoundAgain
                answer = self._known[key] = self.ask(ways)
                self._held += (run.data, run.event)  # so that an id stays theirs
            if answer == 2:
                run.fail(Failure(f"the guard {guard} may fail"))
            return answer == 1

        return test

    def _look_round(self, run: Run, guard: str) -> None:
        """Give up if the first question of a choice is asked where it was asked before."""
        asking = (run.session, len(run.world.trace), id(run.event))
        if asking == self._asking:
            return  # answers that were given since belong to where we are
        self._asking = asking
        place = (guard, run.session, *map(_standing, everyone(run.world.root)))
        met = self._met.setdefault(place, id(run.data))
        if met != id(run.data):
            raise _RoundAgain

    def says_yes(self, data: Any, event: Any) -> bool:
        """Answer a guard inside of actions; it has the shape of a registered guard."""
        return self.ask() == 1


def _told(event: Event | None) -> Hashable:
    """Return what guards can see of an event; one with unknown data is like no other."""
    if event is None or event.data is None:
        return event
    return id(event) if event.data == UNKNOWN else repr(event)


def _standing(run: Run) -> Hashable:
    """Return all that the further course of a run depends on, but for data and answers."""
    return (
        run.session,
        run.mask,
        run.to_invoke,
        run.status,
        "" if run.event is None else run.event.name,
        tuple(event.name for event in run.internal),
        tuple(event.name for event in run.queue),
        tuple(sorted((timer.event.name, timer.target or "") for timer in run.timers)),
        tuple(sorted(run.history.items())),
    )
