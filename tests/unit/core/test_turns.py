"""What a branch does in its turn: after a race that was lost it waits before it reads again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from otolith.errors import Contention, StaleRef
from otolith.session import Repo
from otolith.stores import Batch, Layer, MemoryStore, RefTurn
from otolith.types import Hash


class Races(Layer):
    """A store at which others are faster as often as they are told to, and what was asked of it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.rivals = 0
        self.asked: list[str] = []

    def ref(self, name: str) -> Hash | None:
        self.asked.append("read")
        return super().ref(name)

    def write(self, batch: Batch) -> None:
        if self.rivals:
            self.rivals -= 1
            rival = Repo(self.inner).session("s", branch=batch.swaps[0].name.rpartition("/")[2])
            rival.counter("rivals").add(1)
            rival.commit()
        try:
            super().write(batch)
        except StaleRef:
            self.asked.append("lost")
            raise
        self.asked.append("landed")

    @contextmanager
    def turn(self, name: str) -> Iterator[RefTurn]:
        self.asked.append(f"begin {name}")
        yield self
        self.asked.append("end")

    def wait(self) -> None:
        self.asked.append("wait")


@pytest.fixture
def store():
    return Races()


@pytest.fixture
def state(store):
    state = Repo(store).session("s")
    state.counter("rivals").add(0)
    state["count"] = 0
    state.commit()
    store.asked.clear()
    return state


def add(state) -> None:
    state["count"] += 1


BEGIN = "begin session/s/main"


def test_a_transaction_that_meets_nobody_does_not_wait(store, state):
    state.transact(add)

    assert "wait" not in store.asked
    assert store.asked[0] == BEGIN
    assert store.asked[-1] == "end"


def test_a_transaction_waits_before_it_reads_again(store, state):
    store.rivals = 2
    state.transact(add)

    told = [what for what in store.asked if not what.startswith("begin")]
    first, second, third = _split(told, "wait")
    assert first.index("read") < first.index("lost")
    assert second.index("read") < second.index("lost")
    assert third.index("read") < third.index("landed")
    assert (state["count"], state["rivals"]) == (1, 2)


def test_a_transaction_does_not_wait_after_its_last_attempt(store, state):
    store.rivals = 2
    with pytest.raises(Contention):
        state.transact(add, attempts=2)

    assert store.asked.count("wait") == 1
    assert store.asked[-1] == "end"


def test_a_commit_waits_before_it_merges_again(store, state):
    state["count"] = 1
    store.rivals = 2
    state.commit()

    assert store.asked[0] == BEGIN
    _, second, third = _split(store.asked, "wait")
    assert second.index("read") < second.index("lost")
    assert third.index("read") < third.index("landed")
    assert (state["count"], state["rivals"]) == (1, 2)


def test_a_commit_that_refuses_to_merge_does_not_wait(store, state):
    head = state.head
    state["count"] = 1
    store.rivals = 1
    with pytest.raises(StaleRef):
        state.commit(expect=head)

    assert "wait" not in store.asked


def test_a_merge_waits_before_it_merges_again(store, state):
    fork = state.fork("other")
    fork["more"] = 1
    fork.commit()
    state["count"] = 1
    state.commit()
    store.asked.clear()
    store.rivals = 1
    assert state.merge(fork).ok

    first, second = _split(store.asked, "wait")
    assert "lost" in first
    assert second.index("read") < second.index("landed")


def _split(asked: list[str], word: str) -> list[list[str]]:
    """Return what was asked between two occurrences of a word."""
    parts: list[list[str]] = [[]]
    for what in asked:
        if what == word:
            parts.append([])
        else:
            parts[-1].append(what)
    return parts
