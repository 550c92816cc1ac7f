"""What merges promise: each policy, conflicts as values, races won inside, nothing half done.

What conflicts promise: they are values, they wait, and each is settled once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from otolith.core import BareRepo, Branch
from otolith.errors import BadPolicy, Invalid, KeyNotFound, MergeConflict
from tests.reference.repo_contract.fork import DELETE, fork


def add(path: str, amount: Any = 1) -> Any:
    """Return an edit that counts."""
    return lambda state: state.counter(path).add(amount)


def append(path: str, *values: Any) -> Any:
    """Return an edit that appends."""
    return lambda state: state.list(path).extend(values)


def rule(pattern: str, name: str) -> Any:
    """Return an edit that chooses a policy."""
    return lambda state: state.policy(pattern, name)


POLICIES = [
    # policy, base, ours, theirs, merged; no answer is a conflict
    ("error", 1, 2, 3, None),
    ("ours", 1, 2, 3, 2),
    ("theirs", 1, 2, 3, 3),
    ("last-writer", 1, 2, 3, 3),
    ("max", 1, 2, 3, 3),
    ("max", 1, "text", 3, None),
    ("max", 1.0, float("nan"), 3.0, None),
    ("min", 1, 2, 3, 2),
    ("counter", 1, 2, 4, 5),
    ("counter", 1, 2.5, 4, 5.5),
    ("counter", 1, "text", 4, None),
    ("counter", 1.0, 10**400, 1.5, None),
    ("set", {1, 2}, {1, 2, 3}, {2}, {2, 3}),
    ("set", {1}, {2}, [3], None),
    ("append", [1], [1, 2], [1, 3], [1, 2, 3]),
    ("append", [1, 2], [1, 5], [1, 6], None),
    ("append", [1], 2, [1, 3], None),
    ("map", {"a": 1}, {"a": 1, "b": 2}, {"a": 1, "c": 3}, {"a": 1, "b": 2, "c": 3}),
    ("map", {"a": 1}, 5, {"a": 2}, None),
    ("text", "a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"),
    ("text", "a\n", "b\n", "c\n", None),
    ("text", "a", 1, "b", None),
    ("call:join", 1, 2, 3, [1, 2, 3]),
]

TWINS = [
    # policy, base, what both sides make of it, merged
    ("append", [1], [1, 2], [1, 2, 2]),
    ("counter", 1, 3, 5),
    ("set", {1}, {1, 2}, {1, 2}),
    ("map", {"a": 1}, {"a": 2}, {"a": 2}),
    ("text", "a\n", "a\nb\n", "a\nb\n"),
]


class Case(NamedTuple):
    """What each side makes of a value under a policy, and what the merge makes of it."""

    policy: str
    base: Any
    ours: Any
    theirs: Any
    merged: Any


class MergePromises:
    """Promises about two branches that become one."""

    @pytest.mark.parametrize("case", [Case(*case) for case in POLICIES], ids=str)
    def test_a_policy_decides_where_both_sides_changed(
        self, repo: BareRepo, state: Branch, case: Case
    ) -> None:
        repo.resolver("join", lambda base, ours, theirs: [base, ours, theirs])
        start = {"deep/x": case.base, "rule": rule("deep/*", case.policy)}
        here, there = fork(state, start, {"deep/x": case.ours}, {"deep/x": case.theirs})
        result = here.merge(there)
        if case.merged is None:
            assert [conflict.path for conflict in result.conflicts] == ["deep/x"]
        else:
            assert (result.kind, here["deep/x"]) == ("merged", case.merged)

    @pytest.mark.parametrize(("policy", "base", "both", "merged"), TWINS)
    def test_equal_edits_are_one_unless_they_add(
        self, state: Branch, policy: str, base: Any, both: Any, merged: Any
    ) -> None:
        start = {"x": base, "rule": rule("x", policy)}
        here, there = fork(state, start, {"x": both, "a": 1}, {"x": both, "b": 1})
        assert here.merge(there).ok
        assert here["x"] == merged

    def test_equal_edits_are_a_conflict_where_the_policy_is_error(self, state: Branch) -> None:
        start = {"x": 1, "rule": rule("x", "error")}
        here, there = fork(state, start, {"x": 2, "a": 1}, {"x": 2, "b": 1})
        assert [(each.path, each.ours) for each in here.merge(there).conflicts] == [("x", 2)]
        here.resolve_conflict("x", take="ours")
        here.commit()
        assert there.merge(here).kind == "fast-forward"

    @pytest.mark.parametrize("take", ["ours", "theirs", None])
    def test_two_removals_are_a_conflict_where_the_policy_is_error(
        self, state: Branch, take: str | None
    ) -> None:
        start = {"seat": "free", "rule": rule("seat", "error")}
        here, there = fork(state, start, {"seat": DELETE, "a": 1}, {"seat": DELETE, "b": 1})
        (found,) = here.merge(there).conflicts
        assert (found.path, found.kind, found.absent) == (
            "seat",
            "delete/delete",
            ("ours", "theirs"),
        )
        if take is None:
            del here["seat"]
        else:
            here.resolve_conflict("seat", take=take)
        here.commit()
        assert here.to_dict() == {"a": 1, "b": 1}
        assert there.merge(here).kind == "fast-forward"

    @pytest.mark.parametrize("policy", ["append", "counter"])
    def test_what_both_sides_removed_is_gone(self, state: Branch, policy: str) -> None:
        start = {"x": [1] if policy == "append" else 1, "rule": rule("x", policy)}
        here, there = fork(state, start, {"x": DELETE, "a": 1}, {"x": DELETE})
        assert here.merge(there).ok
        assert here.to_dict() == {"a": 1}

    def test_where_one_side_changed_no_policy_is_asked(self, repo: BareRepo, state: Branch) -> None:
        repo.resolver("refuse", lambda base, ours, theirs: 1 / 0)
        start = {"a": 1, "b": 1, "c": 1, "rule": rule("**", "call:refuse")}
        here, there = fork(state, start, {"a": 2, "c": DELETE}, {"b": 3})
        assert here.merge(there).ok
        assert here.to_dict() == {"a": 2, "b": 3}

    def test_without_a_policy_maps_lists_and_sets_merge_inside(self, state: Branch) -> None:
        base = {"m": {"a": 1, "b": 2}, "l": [1, 2, 3, 4, 5], "s": {1, 2}}
        ours = {"m/a": 5, "l": [0, 1, 2, 3, 4, 5], "s": {2, 3}}
        theirs = {"m/b": DELETE, "l": [1, 2, 4, 5, 6], "s": {1, 2, 4}}
        here, there = fork(state, base, ours, theirs)
        assert here.merge(there).kind == "merged"
        assert here.to_dict() == {"m": {"a": 5}, "l": [0, 1, 2, 4, 5, 6], "s": {2, 3, 4}}

    def test_handles_bring_their_policy(self, state: Branch) -> None:
        here, there = fork(
            state,
            {"n": add("n", 5), "log": append("log", "start")},
            {"n": add("n"), "log": append("log", "x")},
            {"n": add("n"), "log": append("log", "x")},
        )
        assert here.policies() == {"n": "counter", "log": "append"}
        assert here.merge(there).ok
        assert here.to_dict() == {"n": 7, "log": ["start", "x", "x"]}

    def test_a_policy_of_ones_own_is_not_replaced_by_a_handle(self, state: Branch) -> None:
        state.policy("n*", "max")
        state.counter("n1").add(1)
        assert state.policies() == {"n*": "max"}

    @pytest.mark.parametrize(
        ("patterns", "path", "policy"),
        [
            ({"*": "max"}, "a", "max"),
            ({"*": "max"}, "a/b", None),
            ({"**": "max"}, "a/b", "max"),
            ({"**/b": "max"}, "b", "max"),
            ({"**/b": "max"}, "a/c/b", "max"),
            ({"a/**": "max"}, "a/b/c", "max"),
            ({"a/**/c": "max"}, "a/c", "max"),
            ({"a/*": "max", "a/b": "min"}, "a/b", "min"),
            ({"**": "max", "a/*": "min"}, "a/b", "min"),
            ({"a/b*": "max"}, "a/bcd", "max"),
        ],
    )
    def test_an_exact_path_beats_a_pattern_and_a_longer_one_a_shorter(
        self, state: Branch, patterns: dict[str, str], path: str, policy: str | None
    ) -> None:
        base = {path: 1} | {text: rule(text, name) for text, name in patterns.items()}
        here, there = fork(state, base, {path: 2}, {path: 3})
        result = here.merge(there)
        assert result.ok == (policy is not None)
        assert here[path] == {"max": 3, "min": 2, None: 2}[policy]

    def test_policies_are_versioned_with_the_state(self, state: Branch) -> None:
        here, there = fork(state, {"x": 1}, {"x": 2}, {"x": 3, "rule": rule("x", "max")})
        assert here.merge(there).ok
        assert (here["x"], here.policies()) == (3, {"x": "max"})
        here.rollback("@~1")
        assert here.policies() == {}

    @pytest.mark.parametrize("name", ["nonsense", "call:nobody", ""])
    def test_a_policy_that_is_none_is_refused(self, state: Branch, name: str) -> None:
        with pytest.raises(BadPolicy):
            state.policy("x", name)
        assert state.is_clean

    def test_the_later_write_wins_whoever_merges(self, state: Branch) -> None:
        start = {"x": 1, "y": 1, "rule": rule("*", "last-writer")}
        here, there = fork(state, start, {"x": 2, "y": 2}, {"x": 3})
        here["y"] = 4
        here.commit()
        there["z"] = 1
        there.commit()
        back = there.fork("back")
        here.merge(there)
        back.merge("main~1")
        assert here.to_dict() == back.to_dict() == {"x": 3, "y": 4, "z": 1}

    def test_a_merge_says_what_it_did(self, state: Branch) -> None:
        here, there = fork(state, {}, {"a": 1}, {"b": 1})
        merged = here.merge(there, message="together", author="me")
        assert merged.commit is not None
        assert (merged.kind, merged.commit.kind, merged.commit.message) == (
            "merged", "merge", "together",
        )  # fmt: skip
        assert (merged.ok, merged.commit.author, len(merged.commit.parents)) == (True, "me", 2)
        assert here.merge("other").kind == "up-to-date"
        assert there.merge("main").kind == "fast-forward"
        assert there.head == here.head

    def test_a_session_without_commits_takes_the_other_as_it_is(self, repo: BareRepo) -> None:
        state = repo.session("one")
        state["a"] = 1
        made = state.commit()
        assert repo.session("two").merge(made).kind == "fast-forward"
        assert repo.session("two").head == made

    def test_sessions_that_share_nothing_merge_too(self, repo: BareRepo) -> None:
        one, two = repo.session("one"), repo.session("two")
        one["a"], two["b"] = 1, 2
        one.commit()
        two.commit()
        assert one.merge(two).kind == "merged"
        assert one.to_dict() == {"a": 1, "b": 2}


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
