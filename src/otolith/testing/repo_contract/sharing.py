"""What several handles, processes and threads on one repo promise each other."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread

import pytest

from otolith.core import Branch, Repo
from otolith.errors import Error, StaleRef
from otolith.testing.repo_contract.making import SESSION, fork
from otolith.testing.repo_contract.state import WIDE

THREADS, COMMITS = 8, 25


class SharingPromises:
    """Promises about working on one repo together."""

    def reopen(self, repo: Repo, folder: Path) -> Repo | None:
        raise NotImplementedError

    def test_eight_threads_commit_to_one_branch(self, repo: Repo) -> None:
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

    def test_a_handle_sees_what_others_committed_when_it_looks(self, repo: Repo) -> None:
        one, two = repo.session(SESSION), repo.session(SESSION)
        one["a"] = 1
        made = one.commit()
        assert "a" not in two
        assert (two.refresh(), two["a"]) == (made, 1)

    def test_looking_leaves_staged_edits_alone(self, repo: Repo) -> None:
        one, two = repo.session(SESSION), repo.session(SESSION)
        one["a"] = 1
        one.commit()
        two["b"] = 2
        two.refresh()
        assert two.to_dict() == {"b": 2}
        two.commit()
        assert two.to_dict() == {"a": 1, "b": 2}

    def test_shelved_edits_go_on_elsewhere(self, repo: Repo, tmp_path: Path) -> None:
        state = repo.session(SESSION)
        state["a"] = 1
        head = state.commit()
        state["a"] = 2
        state["wide"] = dict(WIDE)
        state.list("log").append("x")
        state.shelve()
        again = self.reopen(repo, tmp_path) or repo
        other = again.session(SESSION)
        assert other.to_dict() == {"a": 1}
        other.unshelve()
        assert other.to_dict() == {"a": 2, "wide": WIDE, "log": ["x"]}
        assert (other.head, other.policies()) == (head, {"log": "append"})
        other.commit("went on")
        third = again.session(SESSION)
        third.unshelve()
        assert third.is_clean
        assert third.to_dict() == other.to_dict()
        again.close()

    def test_a_merge_in_progress_can_be_shelved(self, repo: Repo, state: Branch) -> None:
        here, there = fork(state, {"x": 1, "y": 1}, {"x": 2, "y": 2}, {"x": 3, "y": None})
        here.merge(there)
        here.resolve_conflict("x", take="theirs")
        here.shelve()
        other = repo.session(SESSION)
        other.unshelve()
        assert other.merging == there.head
        assert other.conflicts == here.conflicts
        assert [conflict.path for conflict in other.conflicts] == ["y"]
        other.resolve_conflict("y", take="theirs")
        assert len(other.commit().parents) == 2
        assert other.to_dict() == {"x": 3, "y": None}

    def test_shelved_edits_are_merged_if_the_branch_moved_on(self, repo: Repo) -> None:
        one, two = repo.session(SESSION), repo.session(SESSION)
        one["a"] = 1
        one.shelve()
        two["b"] = 2
        two.commit()
        three = repo.session(SESSION)
        three.unshelve()
        three.commit()
        assert three.to_dict() == {"a": 1, "b": 2}

    def test_a_shelf_that_somebody_else_filled_is_not_overwritten(self, repo: Repo) -> None:
        one, two = repo.session(SESSION), repo.session(SESSION)
        one.unshelve()
        two.unshelve()
        one["a"] = 1
        two["a"] = 2
        one.shelve()
        with pytest.raises(StaleRef):
            two.shelve()
        three = repo.session(SESSION)
        three.unshelve()
        assert three["a"] == 1
