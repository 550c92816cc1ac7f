"""What a state promises about the values it hands out: they are held, or they are copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from otolith.core import Branch, Repo
from otolith.errors import BadValue, Error, Unstorable
from otolith.testing.repo_contract.making import SESSION

THREADS, COMMITS = 8, 20


class Unkept:
    """An object that nothing can keep."""

    def __reduce__(self) -> str:
        raise TypeError("this object cannot be kept")


UNKEPT = [Unkept(), [1, {"x": Unkept()}], {"x": lambda: 1}]


class EitherPromises:
    """Promises about values, whoever holds them."""

    @pytest.mark.parametrize("value", UNKEPT, ids=["object", "list", "dict"])
    def test_a_handle_names_a_value_that_cannot_be_kept_and_changes_nothing(
        self, state: Branch, value: Any
    ) -> None:
        state["a/b"] = 1
        state.list("log").append(1)
        writes: list[Callable[[], None]] = [
            lambda: state.map("a").__setitem__("b", value),
            lambda: state.list("log").append(value),
            lambda: state.list("a/new").append(value),
            lambda: state.list("log").insert(0, value),
        ]
        for write in writes:
            with pytest.raises(BadValue, match=r"^(a|log)"):
                write()
        assert state.to_dict() == {"a": {"b": 1}, "log": [1]}
        assert state.policies() == {"log": "append"}


class CopyPromises(EitherPromises):
    """Promises of a bare branch: what goes in and comes out is a copy."""

    @pytest.mark.parametrize("value", UNKEPT, ids=["object", "list", "dict"])
    def test_a_value_that_cannot_be_kept_is_named_and_changes_nothing(
        self, state: Branch, value: Any
    ) -> None:
        state["a/b"] = 1
        with pytest.raises(BadValue, match=r"^a/b"):
            state["a/b"] = value
        assert state.to_dict() == {"a": {"b": 1}}

    def test_what_contains_itself_is_refused(self, state: Branch) -> None:
        loop: list[Any] = []
        loop.append(loop)
        with pytest.raises(BadValue, match="nested deeper"):
            state["loop"] = loop

    def test_changing_a_value_that_was_read_changes_nothing(self, state: Branch) -> None:
        state["a"] = {"b": [1]}
        state["a"]["b"].append(2)
        assert state["a"] == {"b": [1]}

    def test_changing_a_value_after_it_was_set_changes_nothing(self, state: Branch) -> None:
        value = {"b": [1]}
        state["a"] = value
        value["b"].append(2)
        assert state["a"] == {"b": [1]}


class HeldPromises(EitherPromises):
    """Promises of a state: what it hands out is what it keeps."""

    def reopen(self, repo: Repo, folder: Path) -> Repo | None:
        raise NotImplementedError

    def test_a_path_gives_the_same_object_each_time(self, state: Branch) -> None:
        value = {"b": [1]}
        state["a"] = value
        assert state["a"] is value
        state.commit()
        assert state["a"] is value
        assert state["a/b"] is value["b"]

    def test_a_change_of_what_was_read_is_part_of_the_next_commit(
        self, repo: Repo, tmp_path: Path
    ) -> None:
        state = repo.session(SESSION)
        state["a"] = {"b": [1], "c": {1}}
        state.commit()
        state["a"]["b"].append(2)
        state["a/c"].add(2)
        assert not state.is_clean
        assert [change.path for change in state.status()] == ["a/b/1", "a/c"]
        state.commit()
        assert state.status() == []
        again = self.reopen(repo, tmp_path) or repo
        found = again.session(SESSION)
        assert found.to_dict() == {"a": {"b": [1, 2], "c": {1, 2}}}
        again.close()

    def test_a_change_of_what_was_set_is_part_of_the_next_commit(self, state: Branch) -> None:
        value = {"b": [1]}
        state["a"] = value
        value["b"].append(2)
        assert state["a"] == {"b": [1, 2]}
        assert state.at(state.commit())["a"] == {"b": [1, 2]}

    def test_a_change_before_a_snapshot_is_not_in_it(self, state: Branch) -> None:
        state["a"] = [1]
        old = state.at(state.commit())
        state["a"].append(2)
        assert (old["a"], state["a"]) == ([1], [1, 2])

    def test_reading_makes_no_commit(self, repo: Repo) -> None:
        state = repo.session(SESSION)
        state["s"], state["m"], state["t"] = {"b", "a", "c"}, {"z": 1, "a": {3, 1}}, ([1], {2})
        made = state.commit()
        other = repo.session(SESSION)
        other.to_dict()
        assert other.is_clean
        assert other.commit("nothing") == made

    def test_discarding_takes_back_what_was_changed_in_place(self, state: Branch) -> None:
        state["a"] = value = {"b": [1]}
        state.commit()
        value["b"].append(2)
        state.discard()
        assert value == {"b": [1]}
        assert state["a"] is value

    @pytest.mark.parametrize("value", UNKEPT, ids=["object", "list", "dict"])
    def test_a_value_that_cannot_be_kept_is_named_by_the_commit_and_nothing_is_lost(
        self, repo: Repo, state: Branch, value: Any
    ) -> None:
        state["a/b"], state["c"] = 1, [1]
        first = state.commit()
        state["a/b"], state["new"] = value, [2]
        state["c"].append(2)
        with pytest.raises(Unstorable, match="a/b") as refused:
            state.commit()
        assert list(refused.value.values) == ["a/b"]
        assert repo.session(SESSION).head == first
        assert (state["a/b"], state["c"], state["new"]) == (value, [1, 2], [2])
        state["a/b"] = 2
        assert state.at(state.commit()).to_dict() == {"a": {"b": 2}, "c": [1, 2], "new": [2]}

    def test_what_contains_itself_is_named_by_the_commit(self, state: Branch) -> None:
        loop: list[Any] = []
        loop.append(loop)
        state["loop"], state["a"] = loop, 1
        with pytest.raises(Unstorable, match="has itself inside") as refused:
            state.commit()
        assert list(refused.value.values) == ["loop"]
        loop.clear()
        assert state.at(state.commit()).to_dict() == {"loop": [], "a": 1}

    def test_one_object_under_two_names_is_one_again(self, repo: Repo, tmp_path: Path) -> None:
        state = repo.session(SESSION)
        shared = [1]
        state["a"], state["b"] = shared, {"x": [shared]}
        state.commit()
        again = self.reopen(repo, tmp_path) or repo
        found = again.session(SESSION)
        found["a"].append(2)
        assert found["b"] == {"x": [[1, 2]]}
        assert found.at(found.commit()).to_dict() == {"a": [1, 2], "b": {"x": [[1, 2]]}}
        again.close()

    def test_eight_threads_share_one_state(self, repo: Repo) -> None:
        state, gate, failures = repo.session(SESSION), Barrier(THREADS), list[Error]()
        for number in range(THREADS):
            state[f"worker {number}"] = {"log": [], "seen": set()}
        state.commit()

        def work(number: int) -> None:
            gate.wait()
            try:
                for step in range(COMMITS):
                    mine = state[f"worker {number}"]
                    mine["log"].append(step)
                    mine["seen"].add(step)
                    state[f"worker {(number + step) % THREADS}"]["seen"].copy()
                    state.commit(f"{number}: {step}")
            except Error as error:
                failures.append(error)

        threads = [Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        whole = {"log": list(range(COMMITS)), "seen": set(range(COMMITS))}
        assert failures == []
        assert repo.session(SESSION).to_dict() == {f"worker {n}": whole for n in range(THREADS)}
