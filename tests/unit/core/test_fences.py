"""Fences of a handle: whoever lost the right to write does not move a branch, nor its stash."""

from __future__ import annotations

import pytest

import otolith
from otolith import Repo
from otolith.errors import Fenced, Unavailable
from otolith.stores import Batch, MemoryStore
from otolith.testing import Fault, FaultyStore

WRITES = {
    "commit": lambda state: state.commit(),
    "stash": lambda state: state.stash(),
    "rollback": lambda state: state.rollback(discard=True),
    "undo": lambda state: (state.discard(), state.undo()),
    "undo everything": lambda state: (state.discard(), state.undo(), state.undo(), state.undo()),
    "fork": lambda state: state.fork("other"),
    "fast-forward": lambda state: (state.discard(), state.merge("ahead")),
    "transact": lambda state: (state.discard(), state.transact(lambda s: s.update(x=9))),
}


@pytest.fixture
def repo():
    with otolith.open("memory:") as repo:
        yield repo


def lost(repo):
    """Return a handle with an edit, whose right to write somebody else has now."""
    state = repo.session("job")
    state.commit_as("ann", fences={"job": 1})
    for number in range(3):
        state["x"] = number
        state.commit()
    ahead = state.fork("ahead")
    ahead["y"] = 1
    ahead.commit()
    state["x"] = "late"
    repo.store.write(Batch(fences={"job": 2}))
    return state


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written_by_a_handle_whose_fence_is_too_low(repo, write):
    state = lost(repo)
    before = repo.store.refs()
    with pytest.raises(Fenced):
        WRITES[write](state)
    assert repo.store.refs() == before


def test_a_stash_is_not_removed_by_a_handle_whose_fence_is_too_low(repo):
    state = repo.session("job")
    state.commit_as("ann", fences={"job": 1})
    state["x"] = 1
    state.commit()
    state["x"] = 2
    state.stash()
    repo.store.write(Batch(fences={"job": 2}))
    state.discard()
    with pytest.raises(Fenced):
        state.stash()
    other = repo.session("job")
    other.unstash()
    assert other["x"] == 2


def test_the_fences_of_an_edit_are_written_with_it(repo):
    state = repo.session("job")
    state["x"] = 1
    state.carry({"job": 5})
    state.commit()
    with pytest.raises(Fenced):
        repo.store.write(Batch(fences={"job": 4}))
    state["x"] = 2
    repo.store.write(Batch(fences={"job": 6}))
    state.commit("without them")


def test_the_fences_of_an_edit_are_dropped_with_it(repo):
    state = repo.session("job")
    state["x"] = 1
    state.carry({"job": 5})
    state.discard()
    state["x"] = 2
    state.commit()
    repo.store.write(Batch(fences={"job": 4}))


def test_a_transaction_that_runs_again_carries_what_its_last_run_did(repo):
    state, other = repo.session("job"), repo.session("job")
    runs: list[int] = []

    def edit(state):
        runs.append(len(runs))
        state["x"] = len(runs)
        state.carry({f"run {len(runs)}": 5})
        if len(runs) == 1:
            other["y"] = 1
            other.commit()

    state.transact(edit)
    assert runs == [0, 1]
    repo.store.write(Batch(fences={"run 1": 1}))
    with pytest.raises(Fenced):
        repo.store.write(Batch(fences={"run 2": 1}))


def test_a_commit_without_a_reply_is_sent_again_with_its_fences():
    store = FaultyStore(MemoryStore())
    state = Repo(store, author="test").session("job")
    state["x"] = 1
    state.commit()

    def edit(state):
        state["x"] = 2
        state.carry({"job": 5})

    store.plan = [Fault("write")]
    with pytest.raises(Unavailable):
        state.transact(edit, patience_seconds=0)
    store.plan = []
    state.commit()
    assert state["x"] == 2
    with pytest.raises(Fenced):
        store.write(Batch(fences={"job": 4}))


def test_a_stash_does_not_have_what_a_commit_without_a_reply_has_landed():
    store = FaultyStore(MemoryStore())
    repo = Repo(store, author="test")
    state = repo.session("job")
    state.counter("n").add(1)
    state.commit()
    state.counter("n").add(1)
    store.plan = [Fault("write", kind="lose"), Fault("ref", at=store.calls["ref"] + 1)]
    with pytest.raises(Unavailable):
        state.commit()
    store.plan = []
    state.stash()
    other = repo.session("job")
    other.unstash()
    other["x"] = 1
    other.commit()
    assert other["n"] == 2
