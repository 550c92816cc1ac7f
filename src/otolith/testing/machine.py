"""Rules that make history: commits, forks, merges that cross, rollbacks, undo, tags."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from otolith.core import format_path
from otolith.testing.machine.inplace import InPlaceRules
from otolith.testing.machine.pairs import (
    MOST_CONFLICTS,
    SESSION,
    Hand,
    Known,
    places,
    sides,
    someone,
    values,
    which,
)


class HistoryRules(InPlaceRules):
    """What is committed."""

    @rule(which=which)
    def commits(self, which: int) -> None:
        hand = self.hand(which)
        done = self.both(hand.real.commit, hand.model.commit)
        if done is not None:
            self.note(hand, *done)

    @rule(which=which, path=places, value=values)
    def commits_a_value(self, which: int, path: str, value: Any) -> None:
        self.sets_a_value(which, path, value)
        self.commits(which)

    @rule(which=which, count=st.integers(1, 2), element=st.integers(0, 9))
    def commits_some_work(self, which: int, count: int, element: int) -> None:
        self.appends_to_the_log(which, count)
        self.counts(which, count)
        self.changes_a_set(which, element, is_there=True)
        self.commits(which)

    @rule(which=which)
    def discards(self, which: int) -> None:
        hand = self.hand(which)
        hand.real.discard()
        hand.model.discard()

    @rule(which=which, name=st.sampled_from(["one", "two", "three"]))
    def forks(self, which: int, name: str) -> None:
        hand = self.hand(which)
        done = self.both(lambda: hand.real.fork(name), lambda: hand.model.fork(name))
        if done is not None:
            self.take(Hand(*done))

    @rule(branch=st.sampled_from(["main", "one", "two", "three"]))
    def opens_another_handle(self, branch: str) -> None:
        real = self.repo.session(SESSION, branch=branch)
        self.take(Hand(real, self.model.session(SESSION, branch=branch)))

    @rule(which=which, other=someone)
    def merges_a_commit(self, which: int, other: int) -> None:
        self._merge(self.hand(which), self.some(other))

    @rule(which=which, apart=st.integers(1, 2), path=places, some=values, side=sides)
    def branches_merge_each_other(
        self, which: int, apart: int, path: str, some: Any, side: str
    ) -> None:
        """Work on two branches, and merge each into the other at once, as two machines do."""
        other = which + apart
        hands = [self.hand(which), self.hand(other)]
        for number, value in ((which, some), (other, other)):
            self._finish(number, side)
            self.sets_a_value(number, path, value)
            self.commits_some_work(number, 1, number)
            self._finish(number, side)
        heads = [(hand.real.head, hand.model.head) for hand in hands]
        for hand, (real, model) in zip(hands, reversed(heads), strict=True):
            if real is not None and model is not None:
                self._merge(hand, Known(real, model))
        for number in (which, other):
            self._finish(number, side)

    def _finish(self, which: int, side: str) -> None:
        """Commit what is staged, settling what is in the way."""
        hand = self.hand(which)
        self.settles_conflicts(which, side, MOST_CONFLICTS)
        self.commits(which)
        if hand.model.conflicts:
            self._finish(which, side)

    @rule(which=which, other=which, side=sides)
    def merges_a_branch(self, which: int, other: int, side: str) -> None:
        self._finish(which, side)
        theirs = self.hand(other)
        if theirs.real.head is not None and theirs.model.head is not None:
            self._merge(self.hand(which), Known(theirs.real.head, theirs.model.head))

    def _merge(self, hand: Hand, other: Known) -> None:
        done = self.both(lambda: hand.real.merge(other.real), lambda: hand.model.merge(other.model))
        if done is None:
            return
        assert done[0].kind == done[1]
        if done[0].kind != "conflicted" and hand.model.head is not None:
            self.note(hand, done[0].commit, hand.model.head)

    @rule(which=which, side=sides, most=st.integers(1, MOST_CONFLICTS))
    def settles_conflicts(self, which: int, side: str, most: int) -> None:
        hand = self.hand(which)
        for path in sorted(hand.model.conflicts)[:most]:
            take = partial(hand.real.resolve_conflict, format_path(path), take=side)
            self.both(take, partial(hand.model.take, path, side))

    @rule(which=which, goal=someone)
    def rolls_back(self, which: int, goal: int) -> None:
        hand, past = self.hand(which), self.some(goal)
        self.note(hand, hand.real.rollback(past.real), hand.model.rollback(past.model))

    @rule(which=which, verb=st.sampled_from(["undo", "redo"]), side=sides)
    def undoes_or_redoes(self, which: int, verb: str, side: str) -> None:
        if verb == "undo":
            self._finish(which, side)
        hand = self.hand(which)
        self.both(getattr(hand.real, verb), getattr(hand.model, verb))

    @rule(goal=someone, name=st.sampled_from(["v1", "v2"]))
    def tags(self, goal: int, name: str) -> None:
        known = self.some(goal)
        self.both(
            lambda: self.repo.tag(name, known.real), lambda: self.model.tag(name, known.model)
        )
