"""What conflicts promise: they are values, they wait, and each is settled once."""

from __future__ import annotations

from typing import Any

import pytest

from otolith.core import Branch
from otolith.errors import Invalid, KeyNotFound, MergeConflict
from otolith.testing.repo_contract.making import DELETE, fork
from otolith.testing.repo_contract.merging import add, rule


class ConflictPromises:
    """Promises about what no rule decides."""

    def test_a_conflict_is_a_value_with_three_sides(self, state: Branch) -> None:
        base = {"x": 1, "gone": 1, "none": 1}
        ours = {"x": 2, "gone": DELETE, "new": "a", "none": None}
        theirs = {"x": 3, "gone": 4, "new": "b", "none": DELETE}
        here, there = fork(state, base, ours, theirs)
        result = here.merge(there)
        assert (result.kind, result.commit, result.ok) == ("conflicted", None, False)
        assert here.conflicts == sorted(result.conflicts)
        found = {c.path: (c.kind, c.base, c.ours, c.theirs, c.absent) for c in here.conflicts}
        assert found == {
            "x": ("edit/edit", 1, 2, 3, ()),
            "gone": ("edit/delete", 1, None, 4, ("ours",)),
            "new": ("add/add", None, "a", "b", ("base",)),
            "none": ("edit/delete", 1, None, None, ("theirs",)),
        }

    def test_while_a_merge_waits_our_side_is_staged_where_it_disagrees(self, state: Branch) -> None:
        here, there = fork(state, {"x": 1}, {"x": 2, "a": 1}, {"x": 3, "b": 1})
        here.merge(there)
        assert here.to_dict() == {"x": 2, "a": 1, "b": 1}
        assert here.merging == there.head
        assert not here.is_clean

    @pytest.mark.parametrize(
        ("take", "merged"),
        [
            ("ours", {"x": 2, "none": None}),
            ("theirs", {"x": 3, "gone": 4}),
            ("base", {"x": 1, "gone": 1, "none": 1}),
        ],
    )
    def test_a_conflict_is_settled_by_taking_a_side(
        self, state: Branch, take: str, merged: dict[str, Any]
    ) -> None:
        base = {"x": 1, "gone": 1, "none": 1}
        ours, theirs = {"x": 2, "gone": DELETE, "none": None}, {"x": 3, "gone": 4, "none": DELETE}
        here, there = fork(state, base, ours, theirs)
        here.merge(there)
        for conflict in here.conflicts:
            here.resolve_conflict(conflict.path, take=take)
        made = here.commit("settled")
        assert here.to_dict() == merged
        assert len(made.parents) == 2
        assert (here.merge(there).kind, here.conflicts, here.merging) == ("up-to-date", [], None)

    @pytest.mark.parametrize(
        "settle",
        [
            lambda state: state.__setitem__("deep/x", 9),
            lambda state: state.__delitem__("deep/x"),
            lambda state: state.__setitem__("deep", {"x": 9}),
            lambda state: state.map("deep").update(x=9),
            lambda state: state.counter("deep/x").add(5),
            lambda state: state.resolve_conflict("deep/x", value=9),
        ],
    )
    def test_writing_to_a_path_settles_its_conflict(self, state: Branch, settle: Any) -> None:
        here, there = fork(state, {"deep/x": 1}, {"deep/x": 2}, {"deep/x": 3})
        here.merge(there)
        settle(here)
        assert here.conflicts == []
        assert len(here.commit().parents) == 2

    def test_choosing_a_policy_settles_a_conflict_of_policies(self, state: Branch) -> None:
        here, there = fork(state, {"a/b": 1}, {"r": rule("a/b", "max")}, {"r": rule("a/b", "min")})
        here.merge(there)
        assert len(here.conflicts) == 1
        here.policy("a/b", "ours")
        assert here.conflicts == []
        here.commit()
        assert here.policies() == {"a/b": "ours"}

    def test_a_commit_waits_for_every_conflict(self, state: Branch) -> None:
        here, there = fork(state, {"x": 1, "y": 1}, {"x": 2, "y": 2}, {"x": 3, "y": 3})
        before = here.head
        here.merge(there)
        here.resolve_conflict("x", take="theirs")
        with pytest.raises(MergeConflict) as refused:
            here.commit()
        assert (refused.value.paths, here.head) == (("y",), before)
        with pytest.raises(KeyNotFound, match="x"):
            here.resolve_conflict("x", take="ours")
        with pytest.raises(Invalid, match="mine"):
            here.resolve_conflict("y", take="mine")
        here.resolve_conflict("y", take="ours")
        here.commit()
        assert here.to_dict() == {"x": 3, "y": 2}

    def test_conflicts_never_become_part_of_a_commit(self, state: Branch) -> None:
        here, there = fork(state, {"x": 1}, {"x": 2}, {"x": 3})
        clean = there.fork("clean")
        clean["x"] = 2
        root = clean.commit().root
        here.merge(there)
        here["x"] = 2
        assert here.commit().root == root

    def test_discarding_gives_a_merge_up(self, state: Branch) -> None:
        here, there = fork(state, {"x": 1}, {"x": 2}, {"x": 3, "b": 1})
        before = here.head
        here.merge(there)
        here.discard()
        assert (here.to_dict(), here.conflicts, here.merging) == ({"x": 2}, [], None)
        assert (here.is_clean, here.commit()) == (True, before)

    # Histories that cross

    def test_branches_that_merged_each_other_count_nothing_twice(self, state: Branch) -> None:
        here, there = fork(state, {"n": add("n", 1)}, {"n": add("n", 10)}, {"n": add("n", 100)})
        ours, theirs = here.head, there.head
        assert ours is not None
        assert theirs is not None
        for round in range(4):
            here.merge(theirs)
            there.merge(ours)
            here.counter("n").add(1000)
            there.list("log").append(round)
            ours, theirs = here.commit(), there.commit()
        assert here.merge(there).ok
        assert here.to_dict() == {"n": 4111, "log": [0, 1, 2, 3]}

    def test_a_question_that_was_answered_on_both_sides_is_asked_again_if_answers_differ(
        self, state: Branch
    ) -> None:
        here, there = fork(state, {"x": 1}, {"x": 2}, {"x": 3})
        ours, theirs = here.resolve("@"), there.resolve("@")
        here.merge(theirs)
        here.resolve_conflict("x", take="ours")
        here.commit()
        there.merge(ours)
        there.resolve_conflict("x", take="ours")
        there.commit()
        assert [(c.ours, c.theirs) for c in here.merge(there).conflicts] == [(2, 3)]
