"""What a commit promises when somebody else was faster, or the store refuses it.

What several handles, processes and threads on one repo promise each other.
"""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from otolith.care import prune, verify
from otolith.core import BareRepo, Branch
from otolith.errors import Corrupt, Error, MergeConflict, NotFound, StaleRef, Unavailable
from otolith.testing import Fault, FaultyStore
from tests.reference.repo_contract.fork import SESSION, fork, race, write
from tests.reference.repo_contract.merge import add, append
from tests.reference.repo_contract.state import WIDE

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
        self, repo: BareRepo, base: Any, first: Any, second: Any, merged: Any
    ) -> None:
        state = repo.session(SESSION)
        write(state, base)
        state.commit(allow_empty=True)
        loser = race(repo, lambda one: write(one, first), lambda two: write(two, second))
        loser["mark"] = 1
        made = loser.commit("second")
        assert loser.to_dict() == {**merged, "mark": 1}
        assert (len(made.parents), repo.resolve("trip/main")) == (1, made)

    def test_a_race_for_the_first_commit_is_merged_too(self, repo: BareRepo) -> None:
        loser = race(repo, lambda one: one.update(a=1), lambda two: two.update(b=2))
        loser.commit()
        assert loser.to_dict() == {"a": 1, "b": 2}

    def test_a_race_for_one_path_leaves_the_edits_staged_to_decide(self, repo: BareRepo) -> None:
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

    def test_a_refused_write_leaves_everything_as_it_was(
        self, repo: BareRepo, state: Branch
    ) -> None:
        here, there = fork(state, {"x": 1}, {"a": 1}, {"b": 2})
        faulty = FaultyStore(repo.store, [Fault("write")])
        before = here.head
        repo.backend.store = faulty
        here["c"] = 3
        with pytest.raises(Unavailable):
            here.commit()
        assert (here["c"], here.head) == (3, before)
        here.discard()
        for act in (lambda: here.merge(there), lambda: here.rollback("@~1"), here.undo):
            with pytest.raises(Unavailable):
                act()
            assert (here.to_dict(), here.head, here.is_clean) == ({"x": 1, "a": 1}, before, True)
        repo.backend.store = faulty.inner
        assert here.merge(there).ok

    def test_a_commit_whose_reply_was_lost_is_not_made_twice(
        self, repo: BareRepo, state: Branch
    ) -> None:
        state["n"] = 1
        state.commit()
        repo.backend.store = FaultyStore(repo.store, [Fault("write", kind="lose")])
        state.counter("n").add(1)
        state.commit()
        repo.backend.store = repo.backend.store.inner
        assert repo.session(SESSION)["n"] == 2
        assert len(list(state.log())) == 2

    @pytest.mark.parametrize("verb", ["commit", "stash"])
    def test_edits_of_what_was_collected_are_refused_and_break_nothing(
        self, repo: BareRepo, state: Branch, verb: str
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

    def test_a_commit_that_was_collected_cannot_be_merged(
        self, repo: BareRepo, state: Branch
    ) -> None:
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


THREADS, COMMITS = 8, 25


class SharingPromises:
    """Promises about working on one repo together."""

    def reopen(self, repo: BareRepo, folder: Path) -> BareRepo | None:
        raise NotImplementedError

    def test_eight_threads_commit_to_one_branch(self, repo: BareRepo) -> None:
        gate, failures = Barrier(THREADS), list[Error]()

        def work(number: int) -> None:
            state = repo.session(SESSION)
            gate.wait()
            try:
                for step in range(COMMITS):
                    state[f"worker {number}/{step}"] = step
                    state.commit(f"{number}: {step}")
            except Error as error:
                failures.append(error)

        threads = [Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        state = repo.session(SESSION)
        assert failures == []
        assert len(list(state.log())) == THREADS * COMMITS
        assert state.to_dict() == {
            f"worker {number}": {str(step): step for step in range(COMMITS)}
            for number in range(THREADS)
        }

    def test_a_handle_sees_what_others_committed_when_it_looks(self, repo: BareRepo) -> None:
        one, two = repo.session(SESSION), repo.session(SESSION)
        one["a"] = 1
        made = one.commit()
        assert "a" not in two
        assert (two.refresh(), two["a"]) == (made, 1)

    def test_looking_leaves_staged_edits_alone(self, repo: BareRepo) -> None:
        one, two = repo.session(SESSION), repo.session(SESSION)
        one["a"] = 1
        one.commit()
        two["b"] = 2
        two.refresh()
        assert two.to_dict() == {"b": 2}
        two.commit()
        assert two.to_dict() == {"a": 1, "b": 2}

    def test_stashed_edits_go_on_elsewhere(self, repo: BareRepo, tmp_path: Path) -> None:
        state = repo.session(SESSION)
        state["a"] = 1
        head = state.commit()
        state["a"] = 2
        state["wide"] = dict(WIDE)
        state.list("log").append("x")
        state.stash()
        again = self.reopen(repo, tmp_path) or repo
        other = again.session(SESSION)
        assert other.to_dict() == {"a": 1}
        other.unstash()
        assert other.to_dict() == {"a": 2, "wide": WIDE, "log": ["x"]}
        assert (other.head, other.policies()) == (head, {"log": "append"})
        other.commit("went on")
        third = again.session(SESSION)
        third.unstash()
        assert third.is_clean
        assert third.to_dict() == other.to_dict()
        again.close()

    def test_a_merge_in_progress_can_be_stashed(self, repo: BareRepo, state: Branch) -> None:
        here, there = fork(state, {"x": 1, "y": 1}, {"x": 2, "y": 2}, {"x": 3, "y": None})
        here.merge(there)
        here.resolve_conflict("x", take="theirs")
        here.stash()
        other = repo.session(SESSION)
        other.unstash()
        assert other.merging == there.head
        assert other.conflicts == here.conflicts
        assert [conflict.path for conflict in other.conflicts] == ["y"]
        other.resolve_conflict("y", take="theirs")
        assert len(other.commit().parents) == 2
        assert other.to_dict() == {"x": 3, "y": None}

    def test_stashed_edits_are_merged_if_the_branch_moved_on(self, repo: BareRepo) -> None:
        one, two = repo.session(SESSION), repo.session(SESSION)
        one["a"] = 1
        one.stash()
        two["b"] = 2
        two.commit()
        three = repo.session(SESSION)
        three.unstash()
        three.commit()
        assert three.to_dict() == {"a": 1, "b": 2}

    def test_a_stash_that_somebody_else_filled_is_not_overwritten(self, repo: BareRepo) -> None:
        one, two = repo.session(SESSION), repo.session(SESSION)
        one.unstash()
        two.unstash()
        one["a"] = 1
        two["a"] = 2
        one.stash()
        with pytest.raises(StaleRef):
            two.stash()
        three = repo.session(SESSION)
        three.unstash()
        assert three["a"] == 1
