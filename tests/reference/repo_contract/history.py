"""What the past promises: commits and their names, forks, diffs, logs, blame, tags, undo."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from otolith.care import verify
from otolith.core import BareRepo, Branch, Commit
from otolith.errors import (
    BadRef,
    CommitNotFound,
    Invalid,
    NotFound,
    RefExists,
    RefNotFound,
    Uncommitted,
)
from tests.reference.repo_contract.fork import SESSION, fork
from tests.reference.repo_contract.state import LONG, WIDE

YEAR_MICROSECONDS = 365 * 24 * 3600 * 1_000_000


def steps(state: Branch, count: int) -> list[Commit]:
    """Commit 0, 1, 2 … under `n`."""
    made = []
    for number in range(count):
        state["n"] = number
        made.append(state.commit(f"step {number}"))
    return made


class HistoryPromises:
    """Promises about what was."""

    def test_a_commit_tells_what_it_is(self, state: Branch) -> None:
        first = steps(state, 1)[0]
        state["n"] = 1
        second = state.commit("why", author="me", kind="tool", meta={"cost": 1})
        assert (second.parents, second.message, second.author) == ((first.id,), "why", "me")
        assert (second.kind, second.meta, second.generation) == ("tool", {"cost": 1}, 2)
        assert second.time > first.time
        assert second.stats is not None
        assert second.stats.objects >= 2
        assert state.at(second.id).commit == second

    def test_a_state_can_be_read_as_it_was(self, state: Branch) -> None:
        made = steps(state, 4)
        assert [state.at(commit)["n"] for commit in made] == [0, 1, 2, 3]

    @pytest.mark.parametrize(
        ("expression", "number"),
        [("@", 4), ("main", 4), ("@~1", 3), ("main~2", 2), ("@^", 3), ("@^^", 2), ("@~2^", 1),
         ("@{1}", 3), ("main@{2}", 2), ("@{0}~1", 3), ("v1", 1), ("v1~1", 0), ("trip/main", 4),
         ("trip", 4), ("session/trip/main", 4), ("HEAD~3", 1), ("~1", 3), ("@^0", 4)],
    )  # fmt: skip
    def test_an_expression_names_a_commit(
        self, repo: BareRepo, state: Branch, expression: str, number: int
    ) -> None:
        repo.tag("v1", steps(state, 5)[1])
        assert state.at(expression)["n"] == number

    def test_no_session_takes_the_name_of_a_commit(self, repo: BareRepo, state: Branch) -> None:
        (made,) = steps(state, 1)
        for name in (made.id, made.id[:8]):
            other = repo.session(name)
            other["n"] = "other"
            other.commit()
            assert repo.resolve(name) == made
            assert repo.resolve(f"{name}/main") == other.head

    def test_the_second_parent_is_what_was_merged(self, state: Branch) -> None:
        ours, theirs = fork(state, {}, {"a": 1}, {"b": 2})
        before, merged = (ours.head, theirs.head), ours.merge(theirs).commit
        assert merged is not None
        assert (ours.resolve("@^1"), ours.resolve("@^2")) == before
        with pytest.raises(CommitNotFound, match="has no parent 3"):
            ours.resolve("@^3")

    def test_the_first_digits_of_an_id_name_a_commit(self, repo: BareRepo, state: Branch) -> None:
        made = steps(state, 3)
        for commit in made:
            for digits in (9, 10, 64):
                assert repo.resolve(commit.id[:digits]) == commit

    def test_digits_that_begin_two_ids_are_refused(self, repo: BareRepo) -> None:
        seen: dict[str, str] = {}
        for number in range(5000):
            state = repo.session(str(number))
            id = state.commit(str(number)).id
            if id[:4] in seen:
                break
            seen[id[:4]] = id
        else:
            pytest.fail("5000 commits, and no two ids begin alike")
        with pytest.raises(BadRef, match=f"{id[:4]} is the beginning of 2 commits"):
            repo.resolve(id[:4])
        assert repo.resolve(id[:12]).id == id

    @pytest.mark.parametrize("expression", ["nobody", "@~9", "@{9}", "v9", "0000", "a b", "@^2"])
    def test_a_name_that_means_nothing_is_refused(self, state: Branch, expression: str) -> None:
        steps(state, 2)
        with pytest.raises(NotFound):
            state.at(expression)

    @pytest.mark.parametrize(
        "name", ["", "a b", "a~1", "a^", "..", "a//b", "a@{1}", "/a", "x.lock"]
    )
    def test_a_bad_name_is_refused(self, repo: BareRepo, state: Branch, name: str) -> None:
        made = steps(state, 1)[0]
        for act in (
            lambda: state.fork(name),
            lambda: repo.tag(name, made),
            lambda: repo.session("x", branch=name),
        ):
            with pytest.raises(BadRef):
                act()

    def test_an_empty_name_of_a_session_is_refused(self, repo: BareRepo) -> None:
        with pytest.raises(BadRef):
            repo.session("")

    def test_a_branch_without_commits_has_no_past(self, state: Branch) -> None:
        assert list(state.log()) == []
        for act in (lambda: state.at("@"), lambda: state.fork("x"), state.rollback):
            with pytest.raises(RefNotFound):
                act()
        with pytest.raises(NotFound):
            state.undo()

    def test_a_fork_writes_no_objects(self, repo: BareRepo, state: Branch) -> None:
        state["wide"], state["long"] = dict(WIDE), deepcopy(LONG)
        state.commit()
        before = repo.store.usage().objects
        other = state.fork("cheaper")
        assert repo.store.usage().objects == before
        assert other.head == state.head
        assert other["wide"] == WIDE

    def test_a_fork_goes_its_own_way(self, state: Branch) -> None:
        steps(state, 2)
        other = state.fork("cheaper", at="@~1")
        other["n"] = "other"
        other.commit()
        assert (state["n"], other["n"]) == (1, "other")

    def test_a_fork_leaves_staged_edits_where_they_are(self, state: Branch) -> None:
        steps(state, 1)
        state["n"] = "staged"
        assert state.fork("cheaper")["n"] == 0
        assert state["n"] == "staged"

    def test_a_fork_needs_a_free_name(self, state: Branch) -> None:
        steps(state, 1)
        state.fork("cheaper")
        for name in ("cheaper", "main"):
            with pytest.raises(RefExists, match=name):
                state.fork(name)

    def test_a_deleted_branch_is_gone_and_its_commits_are_not(
        self, repo: BareRepo, state: Branch
    ) -> None:
        made = steps(state, 1)[0]
        state.fork("cheaper")
        repo.delete_branch(SESSION, "cheaper")
        assert list(repo.branches(SESSION)) == ["main"]
        assert repo.at(made)["n"] == 0
        with pytest.raises(RefNotFound):
            repo.delete_branch(SESSION, "cheaper")

    def test_a_diff_lists_what_was_added_removed_and_changed(self, state: Branch) -> None:
        state["same"], state["gone"], state["plan"] = dict(WIDE), 1, {"a": 1, "b": [1, 2, 3]}
        first = state.commit()
        del state["gone"]
        state["plan/a"], state["plan/c"] = 2, {"x": 1}
        state.list("plan/b").insert(1, "new")
        state["same/key 0007"] = 7
        second = state.commit()
        found = [(c.kind, c.path, c.old, c.new) for c in state.diff(first, second)]
        assert found == [
            ("removed", "gone", 1, None),
            ("changed", "plan/a", 1, 2),
            ("added", "plan/b/1", None, "new"),
            ("added", "plan/c", None, {"x": 1}),
            ("changed", "same/key 0007", WIDE["key 0007"], 7),
        ]
        assert state.diff(first, first) == []
        assert [change.path for change in state.diff(second, first)] == [c[1] for c in found]

    def test_a_diff_is_against_the_staged_state_by_default(self, state: Branch) -> None:
        steps(state, 2)
        state["n"] = "staged"
        assert [(c.old, c.new) for c in state.diff()] == [(1, "staged")]
        assert [(c.old, c.new) for c in state.diff("@~1")] == [(0, "staged")]
        assert [(c.old, c.new) for c in state.diff("@~1", "@")] == [(0, 1)]

    def test_a_rollback_is_a_new_commit_and_history_stays(self, state: Branch) -> None:
        made = steps(state, 3)
        back = state.rollback(made[0])
        assert (state["n"], back.root, back.kind) == (0, made[0].root, "rollback")
        assert [commit.id for commit in state.log()] == [
            back.id, *(commit.id for commit in reversed(made)),
        ]  # fmt: skip

    def test_a_rollback_refuses_to_drop_staged_edits_unless_it_is_told_to(
        self, state: Branch
    ) -> None:
        made = steps(state, 2)
        state["n"] = "staged"
        for act in (
            state.rollback,
            lambda: state.rollback(made[0]),
            lambda: state.rollback(steps=1),
        ):
            with pytest.raises(Uncommitted, match="discard=True"):
                act()
        assert (state["n"], state.head) == ("staged", made[1])
        assert state.rollback(discard=True).root == made[0].root
        assert (state["n"], state.is_clean) == (0, True)

    def test_rollbacks_in_a_row_go_further_back_each_time(self, state: Branch) -> None:
        made = steps(state, 4)
        assert [state.rollback(steps=1).root for _ in range(3)] == [made[n].root for n in (2, 1, 0)]
        with pytest.raises(CommitNotFound, match="before its first commit"):
            state.rollback()
        state["n"] = "new"
        new = state.commit()
        assert state.earlier(1) == made[0]
        assert (state.rollback().root, state.rollback(new).root) == (made[0].root, new.root)

    def test_steps_back_are_counted_over_rollbacks_merges_and_forks(self, state: Branch) -> None:
        made = steps(state, 3)
        state.rollback()
        other = state.fork("other")
        assert other.earlier() == made[0]
        other["side"] = 1
        side = other.commit()
        state["n"] = "main"
        state.commit()
        state.merge(other)
        assert state.earlier(2) == made[1]
        assert state.earlier(3) == made[0]
        assert other.rollback().root == made[1].root
        assert other.rollback().root == made[0].root
        assert other.rollback(side).root == side.root

    @pytest.mark.parametrize("count", ["1", 0, -1, True, 1.0])
    def test_steps_are_counted_from_one(self, state: Branch, count: Any) -> None:
        steps(state, 2)
        with pytest.raises(Invalid, match="steps must be an int, at least 1"):
            state.rollback(steps=count)

    def test_a_rollback_goes_to_a_target_or_by_steps(self, state: Branch) -> None:
        made = steps(state, 2)
        with pytest.raises(Invalid, match="both"):
            state.rollback(made[0], steps=1)

    def test_the_log_is_the_latest_first(self, state: Branch) -> None:
        made = steps(state, 5)
        assert list(state.log()) == made[::-1]
        assert list(state.log(limit=2)) == [made[4], made[3]]
        assert list(state.log("@~3")) == [made[1], made[0]]

    def test_the_log_shows_no_commit_before_its_descendants(self, state: Branch) -> None:
        ours, theirs = fork(state, {"z": 0}, {"a": 1}, {"b": 2})
        ours.merge(theirs)
        theirs["b"] = 3
        theirs.commit()
        ours.merge(theirs)
        shown = [commit.id for commit in ours.log()]
        assert len(shown) == len(set(shown)) == 6
        for commit in ours.log():
            assert all(shown.index(parent) > shown.index(commit.id) for parent in commit.parents)

    def test_the_log_of_a_path_shows_who_changed_it(self, state: Branch) -> None:
        made = steps(state, 2)
        state["other"] = 1
        state.commit()
        del state["n"]
        gone = state.commit()
        assert list(state.log(path="n")) == [gone, made[1], made[0]]
        assert list(state.log(path="n", limit=1)) == [gone]

    def test_blame_names_who_set_a_value(self, state: Branch) -> None:
        made = steps(state, 2)
        state["other"] = dict(WIDE)
        added = state.commit()
        state["other/key 0003"] = 3
        changed = state.commit()
        assert _blamed(state, "n") == {"n": made[1].id}
        assert _blamed(state) == {"n": made[1].id, "other": changed.id}
        by_key = _blamed(state, "other")
        assert by_key.pop("other/key 0003") == changed.id
        assert set(by_key.values()) == {added.id}
        assert _blamed(state, "n", at="@~3") == {"n": made[0].id}
        assert state.blame("missing") == []

    def test_blame_looks_through_merges(self, state: Branch) -> None:
        base = {"m": {"a": 0, "b": 0, "c": 0}, "n": 0}
        ours, theirs = fork(state, base, {"m/a": 1}, {"m/b": 2, "n": 5})
        heads = ours.head, theirs.head
        ours.merge(theirs)
        assert heads[0] is not None
        assert heads[1] is not None
        assert _blamed(ours, "m") == {
            "m/a": heads[0].id, "m/b": heads[1].id, "m/c": heads[0].parents[0],
        }  # fmt: skip
        assert _blamed(ours, "n") == {"n": heads[1].id}

    def test_a_tag_does_not_move(self, repo: BareRepo, state: Branch) -> None:
        made = steps(state, 2)
        repo.tag("v1", made[0])
        steps(state, 3)
        with pytest.raises(RefExists):
            repo.tag("v1", made[1])
        assert repo.tags() == {"v1": made[0]}
        repo.tag("v1", made[1], force=True)
        assert repo.resolve("v1") == made[1]
        repo.delete_tag("v1")
        with pytest.raises(RefNotFound):
            repo.resolve("v1")

    def test_undo_goes_back_and_redo_forward(self, state: Branch) -> None:
        made = steps(state, 3)
        assert (state.undo(), state["n"]) == (made[1], 1)
        assert (state.undo(), state["n"]) == (made[0], 0)
        assert (state.redo(), state["n"]) == (made[1], 1)
        state["n"] = "new"
        new = state.commit()
        with pytest.raises(NotFound, match="nothing to redo"):
            state.redo()
        assert (state.undo(), state.redo()) == (made[1], new)

    def test_undo_ends_where_the_branch_began(self, state: Branch) -> None:
        made = steps(state, 2)
        other = state.fork("cheaper")
        state.undo()
        empty = state.undo()
        assert (state.to_dict(), state.head, empty.parents) == ({}, empty, ())
        for branch in (state, other):
            with pytest.raises(NotFound, match="nothing to undo"):
                branch.undo()
        assert [state.redo(), state.redo()] == made
        with pytest.raises(NotFound, match="nothing to redo"):
            state.redo()

    def test_work_goes_on_after_the_first_commit_was_undone(
        self, repo: BareRepo, state: Branch
    ) -> None:
        steps(state, 1)
        state.undo()
        state["again"] = 1
        made = state.commit()
        assert repo.session(SESSION).to_dict() == {"again": 1}
        assert (state.undo().kind, state.redo()) == ("undo", made)
        assert verify(repo).ok

    def test_undo_takes_back_merges_and_rollbacks(self, state: Branch) -> None:
        ours, theirs = fork(state, {}, {"a": 1}, {"b": 2})
        before = ours.head
        ours.merge(theirs)
        merged = ours.head
        ours.rollback("@~1")
        assert (ours.undo(), ours.undo()) == (merged, before)
        assert ours.to_dict() == {"a": 1}

    def test_undo_leaves_staged_edits_alone(self, state: Branch) -> None:
        steps(state, 2)
        state["n"] = "staged"
        for act in (state.undo, state.redo, lambda: state.merge("@~1")):
            with pytest.raises(Uncommitted):
                act()
        assert state["n"] == "staged"

    def test_a_commit_of_the_kind_undo_is_a_commit(self, state: Branch) -> None:
        made = steps(state, 2)
        state["n"] = "x"
        state.commit("step 1", kind="undo")
        state.undo()
        assert state.undo() == made[0]

    @pytest.mark.parametrize("jump", [-YEAR_MICROSECONDS, YEAR_MICROSECONDS])
    def test_times_increase_along_history_whatever_the_clock_does(
        self, repo: BareRepo, state: Branch, jump: int
    ) -> None:
        clock = repo.clock
        steps(state, 2)
        repo.backend.clock = lambda: clock() + jump
        ours, theirs = fork(state, {"a": 0}, {"b": 1}, {"c": 1})
        repo.backend.clock = clock
        ours.merge(theirs)
        steps(ours, 2)
        shown = list(ours.log())
        times = {commit.id: commit.time for commit in shown}
        assert all(commit.time > times[parent] for commit in shown for parent in commit.parents)
        assert len(shown) == 8
        assert ours.undo() == shown[1]


def _blamed(state: Branch, path: Any = (), **at: str) -> dict[str, str]:
    return {blame.path: blame.commit.id for blame in state.blame(path, **at)}
