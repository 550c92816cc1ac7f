"""A call that fails loses nothing: edits stay staged, heads stay true, a retry counts once."""

from __future__ import annotations

from typing import Any

import pytest

import otolith
from otolith.errors import Unavailable
from otolith.session import Repo
from otolith.stores import MemoryStore
from otolith.testing import Fault, FaultyStore


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


def fails_next(store: FaultyStore, *calls: str, skip: int = 0) -> None:
    store.plan = [Fault(call, at=store.calls[call] + 1 + skip) for call in calls]


@pytest.mark.parametrize("act", ["commit", "read"])
def test_edits_that_could_not_be_applied_are_still_staged(store, act):
    writer = Repo(store.inner).session("s")
    writer["m"] = {f"k{number:04}": "x" * 50 for number in range(2000)}
    writer.commit()
    state = Repo(store).session("s")
    state["m/k0001"] = state["m/k1999"] = "edited"
    fails_next(store, "read", skip=1)

    with pytest.raises(Unavailable):
        state.commit("important") if act == "commit" else state["m"]

    assert not state.is_clean
    before = state.head
    assert state.commit("important") != before
    assert Repo(store.inner).session("s")["m/k1999"] == "edited"


def racing_merge(repo, then):
    """Merge two branches while another commits; the second attempt meets what `then` does."""
    calls = []

    def slow(base, ours, theirs):
        calls.append(1)
        if len(calls) > 1:
            return then()
        other = repo.session("s")
        other["theirs"] = "precious"
        other.commit()
        return 3

    repo.resolver("slow", slow)
    main = repo.session("s")
    main["x"] = 0
    main.commit()
    fork = main.fork("f")
    for number, branch in enumerate((main, fork), 1):
        branch.policy("x", "call:slow")
        branch["x"] = number
        branch.commit()
    return main


def test_a_merge_that_lost_a_race_and_then_failed_undoes_nothing():
    repo = otolith.open("memory:")

    def fail():
        raise ValueError("no")

    main = racing_merge(repo, fail)
    with pytest.raises(ValueError, match="no"):
        main.merge("f")

    assert main.is_clean
    main["mine"] = 1
    main.commit("an unrelated edit")
    assert repo.session("s").to_dict() == {"x": 1, "theirs": "precious", "mine": 1}


def test_a_merge_that_lost_a_race_and_was_read_meanwhile_shows_what_is_there():
    repo = otolith.open("memory:")
    main = racing_merge(repo, lambda: 4)

    assert main.merge("f").ok
    assert main.to_dict() == {"x": 4, "theirs": "precious"}


def test_a_commit_in_doubt_counts_once_when_it_is_tried_again(store):
    state = Repo(store).session("s")
    state.counter("n").add(1)
    state.list("l").append("a")
    state.commit()
    state.counter("n").add(1)
    state.list("l").append("b")
    store.plan = [
        Fault("write", at=store.calls["write"] + 1, kind="lose"),
        Fault("ref", at=store.calls["ref"] + 1),
    ]
    with pytest.raises(Unavailable):
        state.commit("in doubt")

    state.commit("again")

    assert (state["n"], state["l"]) == (2, ["a", "b"])
    fresh = Repo(store.inner).session("s")
    assert (fresh["n"], fresh["l"]) == (2, ["a", "b"])
    assert next(commit.message for commit in fresh.log()) == "in doubt"


def test_a_commit_in_doubt_that_did_not_land_is_made_again(store):
    state = Repo(store).session("s")
    state.counter("n").add(1)
    store.plan = [
        Fault("write", at=store.calls["write"] + 1),
        Fault("ref", at=store.calls["ref"] + 1),
    ]
    with pytest.raises(Unavailable):
        state.commit("in doubt")

    state.commit("again")

    assert Repo(store.inner).session("s")["n"] == 1


def test_edits_made_after_a_commit_in_doubt_land_once_as_well(store):
    state = Repo(store).session("s")
    state.counter("n").add(1)
    state.commit()
    state.counter("n").add(10)
    store.plan = [
        Fault("write", at=store.calls["write"] + 1, kind="lose"),
        Fault("ref", at=store.calls["ref"] + 1),
    ]
    with pytest.raises(Unavailable):
        state.commit("in doubt")
    other = Repo(store.inner).session("s")
    other.counter("n").add(100)
    other.commit()
    state.counter("n").add(1000)

    state.commit("again")

    assert Repo(store.inner).session("s")["n"] == 1111


def test_a_commit_that_lands_while_undo_looks_is_not_undone():
    class Slow(MemoryStore):
        hook: Any = None

        def moves(self, *args, **options):
            found = super().moves(*args, **options)
            hook, self.hook = self.hook, None
            if hook is not None:
                hook()
            return found

    store = Slow()
    repo = Repo(store)
    state = repo.session("s")
    for number in range(3):
        state["x"] = number
        state.commit(f"commit {number}")
    other = repo.session("s")

    def commit():
        other["precious"] = 1
        other.commit("by another")

    store.hook = commit
    with pytest.raises(otolith.StaleRef):
        state.undo()

    assert repo.session("s").to_dict() == {"x": 2, "precious": 1}
