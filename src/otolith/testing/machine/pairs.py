"""A repo and its model side by side: what is done to one is done to the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from otolith.codecs import identical
from otolith.core import Branch, Commit, Repo
from otolith.errors import Error
from otolith.testing.model import ModelBranch, ModelCommit, ModelRepo

SESSION = "machine"
MOST_HANDLES = 6
MOST_CONFLICTS = 20

WIDE = {f"key {number}": "wide " * 20 for number in range(60)}
LARGE = {"<wide>": WIDE, "<long>": ["long " * 60] * 20, "<text>": "much text " * 600}
"""By name, because failing steps are printed."""

values = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["", "text", None, True, 1.5, b"bytes", *LARGE]),
    st.lists(st.integers(0, 3), max_size=4),
    st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(0, 3), max_size=3),
    st.sets(st.integers(0, 5), max_size=4),
    st.dictionaries(st.sampled_from(["x", "y"]), st.lists(st.integers(0, 3), max_size=3)),
)
places = st.sampled_from(
    ["a", "b", "deep/x", "deep/y", "deep/er/z", "log/0", "log/-1", "wide/key 7", "a/x"]
)
policies = st.sampled_from(["error", "ours", "theirs", "last-writer", "max", "counter", "append"])
sides = st.sampled_from(["ours", "theirs", "base"])
which = st.integers(0, MOST_HANDLES - 1)
someone = st.integers(0, 1 << 16)

Act = Callable[[], Any]


@dataclass(eq=False)
class Hand:
    """A handle on a branch, its model, and the paths of what was read of it."""

    real: Branch
    model: ModelBranch
    read: set[str] = field(default_factory=set)


class Known(NamedTuple):
    """A commit, and its model."""

    real: Commit
    model: ModelCommit


class Pairs(RuleBasedStateMachine):
    """What every group of rules needs: handles, commits, and both sides of each."""

    def make(self) -> Repo:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.repo = self.make()
        self.model = ModelRepo()
        self.known: list[Known] = []
        self.roots: dict[str, ModelCommit] = {}
        self.numbers = 0
        self.hands = [Hand(self.repo.session(SESSION), self.model.session(SESSION))]

    def both(self, real: Act, model: Act) -> tuple[Any, Any] | None:
        """Do the same to both: both return, or both refuse for the same reason."""
        (done, refused), (wanted, expected) = _outcome(real), _outcome(model)
        assert isinstance(refused, type(expected)), f"repo: {refused!r}, model: {expected!r}"
        return (done, wanted) if refused is None else None

    def fresh(self, count: int) -> list[int]:
        """Return numbers that were never used before."""
        self.numbers += count
        return list(range(self.numbers - count, self.numbers))

    def hand(self, which: int) -> Hand:
        return self.hands[which % len(self.hands)]

    def take(self, hand: Hand) -> None:
        self.hands = [hand, *self.hands][:MOST_HANDLES]

    def some(self, number: int) -> Known:
        return self.known[number % len(self.known)]

    def note(self, hand: Hand, real: Commit, model: ModelCommit) -> None:
        """Remember a commit; equal states have equal roots, and others do not."""
        if all(known.model is not model for known in self.known):
            self.known.append(Known(real, model))
        twin = self.roots.setdefault(real.root, model)
        assert identical(twin.state, model.state)
        for known in self.known:
            same = identical(known.model.state, model.state)
            assert (known.real.root == real.root) == same
        assert hand.real.head is not None
        assert hand.real.head.id == real.id


def _outcome(act: Act) -> tuple[Any, Error | None]:
    try:
        return act(), None
    except Error as error:
        return None, error
