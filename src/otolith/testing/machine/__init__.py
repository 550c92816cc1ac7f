"""A machine that does random things to a repo and to its model, and compares the two.

class MyMachine(RepoMachine):
    def make(self):
        return otolith.open("memory:")

TestMine = MyMachine.TestCase
"""

from __future__ import annotations

from copy import deepcopy

from hypothesis.stateful import precondition, rule

from otolith.care import prune, verify
from otolith.core import Repo
from otolith.testing.machine.history import HistoryRules
from otolith.testing.machine.looking import LookingRules
from otolith.testing.machine.pairs import WIDE

__all__ = ["RepoMachine"]


class RepoMachine(HistoryRules, LookingRules):
    """Subclass it, and say how to make a repo. `reopen` returns it anew, if it can last."""

    def reopen(self, repo: Repo) -> Repo | None:
        return None

    def __init__(self) -> None:
        super().__init__()
        self._start()

    def _start(self) -> None:
        """Begin with something that every branch has."""
        hand = self.hands[0]
        for path, value in {"a": 0, "deep": {"x": 1}, "wide": WIDE}.items():
            hand.real[path] = deepcopy(value)
            hand.model.set((path,), value)
        self.note(hand, hand.real.commit("start"), hand.model.commit())
        for name in ("one", "two"):
            self.forks(0, name)
            self.hands.sort(key=lambda hand: hand.real.name)

    def teardown(self) -> None:
        self.repo.close()

    @rule()
    def reopens(self) -> None:
        again = self.reopen(self.repo)
        if again is not None:
            self.repo = again
            self.hands = []
            self.opens_another_handle("main")

    @precondition(lambda self: len(self.known) > 4)
    @rule()
    def collects_garbage(self) -> None:
        prune(self.repo, expire_seconds=0)
        alive = set(self.model.prune())
        self.known = [known for known in self.known if known.model in alive]
        self.hands = [hand for hand in self.hands if hand.model.head in alive]
        if not self.hands:
            self.opens_another_handle("main")

    @rule()
    def verifies(self) -> None:
        assert verify(self.repo, level="deep").problems == []
