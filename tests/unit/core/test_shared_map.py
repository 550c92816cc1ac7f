"""Shared maps: processes agree on small things, whatever becomes of a branch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import otolith
from otolith import Disk, Versioned
from otolith.core import SharedMap, orphans, shared_ref
from otolith.errors import Fenced, StaleRef, Unavailable
from otolith.stores import Batch, Layer, MemoryStore


@pytest.fixture
def state():
    return Versioned()


def shared(state: Versioned, topic: str = "leases") -> SharedMap:
    return SharedMap(state.repo.backend, shared_ref(state.ref, topic), kind="leases")


def add(draft, key="n", amount=1):
    draft.put(key, (draft.get(key) or 0) + amount)


def test_changes_of_many_threads_all_count(tmp_path):
    with Versioned(Disk(tmp_path / "a.db")) as state, ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(shared(state).change, add) for _ in range(80)]:
            each.result()
        assert shared(state).read().get("n") == 80


def test_a_change_that_changes_nothing_is_not_written(state):
    shared(state).change(add)
    before = state.repo.store.moves()
    shared(state).change(lambda draft: draft.put("n", draft.get("n")))
    assert state.repo.store.moves() == before


def test_none_removes_a_key_and_may_be_said_twice(state):
    shared(state).change(add)
    shared(state).change(lambda draft: draft.put("n", None))
    shared(state).change(lambda draft: draft.put("n", None))
    assert shared(state).read().items() == {}


def test_a_map_is_the_same_for_every_branch_and_stays_after_an_undo(state):
    state["x"] = 1
    state.commit("one")
    shared(state).change(add)
    fork = state.fork("other")
    state.undo()
    assert shared(fork).read().get("n") == shared(state).read().get("n") == 1


def test_a_change_with_a_lower_fence_than_another_is_refused(state):
    shared(state).change(add, fences={"queue": 5})
    with pytest.raises(Fenced):
        shared(state).change(add, fences=lambda: {"queue": 4})
    assert shared(state).read().get("n") == 1


class Lossy(Layer):
    """A store whose next writes lose their replies; `lands` says whether they have an effect."""

    losses = 0
    lands = True

    def write(self, batch: Batch) -> None:
        if self.losses:
            self.losses -= 1
            if self.lands:
                super().write(batch)
            raise Unavailable("no reply")
        super().write(batch)


def test_a_change_whose_reply_was_lost_counts_once():
    store = Lossy(MemoryStore())
    with otolith.Repo(store) as repo:
        counts = shared(repo.session("a"))
        store.losses = 1
        counts.change(add)
        assert counts.read().get("n") == 1


def test_a_change_that_did_not_land_says_so():
    store = Lossy(MemoryStore())
    with otolith.Repo(store) as repo:
        counts = shared(repo.session("a"))
        store.losses, store.lands = 1, False
        with pytest.raises(Unavailable):
            counts.change(add)
        assert counts.read().get("n") is None


def test_the_map_of_a_session_that_is_gone_is_an_orphan(state):
    state["x"] = 1
    state.commit("one")
    shared(state).change(add)
    store = state.repo.store
    assert orphans(store, before=1 << 62) == []
    state.repo.delete_branch("main", "main")
    assert orphans(store, before=0) == []  # a remembered move can bring it back
    assert [swap.name for swap in orphans(store, before=1 << 62)] == [
        shared_ref(state.ref, "leases")
    ]


def test_an_edit_that_fails_writes_nothing(state):
    def fail(draft):
        add(draft)
        raise StaleRef("mine", expected=None, actual=None)

    with pytest.raises(StaleRef, match="mine"):
        shared(state).change(fail)
    assert shared(state).read().items() == {}


def test_a_change_that_lost_a_race_is_not_refused_for_the_fence_of_the_winner(state):
    mine, other = shared(state), shared(state)
    raced: list[int] = []

    def count(draft):
        if not raced:
            raced.append(other.change(count_up, fences=lambda: {"slot": 1}))
        return count_up(draft)

    def count_up(draft):
        add(draft)
        return draft.get("n")

    tokens = []
    mine.change(
        lambda draft: tokens.append(count(draft)), fences=lambda: {"slot": tokens[-1] - 1 or 0}
    )
    assert tokens == [1, 2]
    assert shared(state).read().get("n") == 2
