"""What a commit promises when somebody else was faster, or the store refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from otolith.care import prune, verify
from otolith.core import Branch, Repo
from otolith.errors import Corrupt, MergeConflict, NotFound, Unavailable
from otolith.testing.faults import Fault, FaultyStore
from otolith.testing.repo_contract.making import SESSION, fork, race, write
from otolith.testing.repo_contract.merging import add, append
from otolith.testing.repo_contract.state import WIDE

COLLECTED = (NotFound, Corrupt)
"""What is raised depends on what of it is still in a cache."""


class RacePromises:
    """Promises about commits that do not land at once."""

    @pytest.mark.parametrize(
        ("base", "first", "second", "merged"),
        [
            ({}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
            ({"m": {"x": 1, "y": 1}}, {"m/x": 2}, {"m/y": 3}, {"m": {"x": 2, "y": 3}}),
            ({"l": append("l", 0)}, {"l": append("l", 1)}, {"l": append("l", 2)}, {"l": [0, 1, 2]}),
            ({"n": add("n", 1)}, {"n": add("n", 10)}, {"n": add("n", 100)}, {"n": 111}),
            ({"x": 1}, {"x": 2}, {"x": 2}, {"x": 2}),
        ],
        ids=["paths", "fields", "appends", "counters", "equal"],
    )
    def test_a_lost_race_is_merged_inside_the_commit(
        self, repo: Repo, base: Any, first: Any, second: Any, merged: Any
    ) -> None:
        state = repo.session(SESSION)
        write(state, base)
        state.commit(allow_empty=True)
        loser = race(repo, lambda one: write(one, first), lambda two: write(two, second))
        loser["mark"] = 1
        made = loser.commit("second")
        assert loser.to_dict() == {**merged, "mark": 1}
        assert (len(made.parents), repo.resolve("trip/main")) == (1, made)

    def test_a_race_for_the_first_commit_is_merged_too(self, repo: Repo) -> None:
        loser = race(repo, lambda one: one.update(a=1), lambda two: two.update(b=2))
        loser.commit()
        assert loser.to_dict() == {"a": 1, "b": 2}

    def test_a_race_for_one_path_leaves_the_edits_staged_to_decide(self, repo: Repo) -> None:
        state = repo.session(SESSION)
        state["x"] = 1
        state.commit()
        loser = race(repo, lambda one: one.update(x=2, a=1), lambda two: two.update(x=3, b=1))
        with pytest.raises(MergeConflict) as refused:
            loser.commit()
        assert refused.value.paths == ("x",)
        assert loser.to_dict() == {"x": 3, "a": 1, "b": 1}
        assert [(c.base, c.ours, c.theirs) for c in loser.conflicts] == [(1, 3, 2)]
        loser.resolve_conflict("x", take="theirs")
        loser.commit()
        assert repo.session(SESSION).to_dict() == {"x": 2, "a": 1, "b": 1}

    def test_a_refused_write_leaves_everything_as_it_was(self, repo: Repo, state: Branch) -> None:
        here, there = fork(state, {"x": 1}, {"a": 1}, {"b": 2})
        faulty = FaultyStore(repo.store, [Fault("write")])
        before = here.head
        repo.archive.store = faulty
        here["c"] = 3
        with pytest.raises(Unavailable):
            here.commit()
        assert (here["c"], here.head) == (3, before)
        here.discard()
        for act in (lambda: here.merge(there), lambda: here.rollback("@~1"), here.undo):
            with pytest.raises(Unavailable):
                act()
            assert (here.to_dict(), here.head, here.is_clean) == ({"x": 1, "a": 1}, before, True)
        repo.archive.store = faulty.inner
        assert here.merge(there).ok

    def test_a_commit_whose_reply_was_lost_is_not_made_twice(
        self, repo: Repo, state: Branch
    ) -> None:
        state["n"] = 1
        state.commit()
        repo.archive.store = FaultyStore(repo.store, [Fault("write", kind="lose")])
        state.counter("n").add(1)
        state.commit()
        repo.archive.store = repo.archive.store.inner
        assert repo.session(SESSION)["n"] == 2
        assert len(list(state.log())) == 2

    @pytest.mark.parametrize("verb", ["commit", "shelve"])
    def test_edits_of_what_was_collected_are_refused_and_break_nothing(
        self, repo: Repo, state: Branch, verb: str
    ) -> None:
        if not repo.store.capabilities.collects:
            pytest.skip("this store does not collect")
        state.policy("wide", "ours")
        state.commit()
        state["wide"] = dict(WIDE)
        state.commit()
        stale = repo.session(SESSION)
        stale["wide/key 0001"] = "edited"
        state.undo()
        prune(repo, expire_seconds=0)
        with pytest.raises(COLLECTED):
            getattr(stale, verb)()
        assert verify(repo, level="deep").ok
        assert repo.session(SESSION).to_dict() == {}

    def test_a_commit_that_was_collected_cannot_be_merged(self, repo: Repo, state: Branch) -> None:
        if not repo.store.capabilities.collects:
            pytest.skip("this store does not collect")
        here, there = fork(state, {"wide": WIDE}, {"a": 1}, {"wide/key 0001": 2})
        gone = there.resolve("@")
        repo.delete_branch(SESSION, "other")
        prune(repo, expire_seconds=0)
        for act in (lambda: here.merge(gone), lambda: here.rollback(gone)):
            with pytest.raises(COLLECTED):
                act()
        assert verify(repo, level="deep").ok
        assert here.to_dict() == {"a": 1, "wide": WIDE}
