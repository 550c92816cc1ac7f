"""Merges at the edges: nothing is glued, dropped, doubled or rounded, and all can be decided."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

import pytest

import otolith
from otolith.codecs import Codecs
from otolith.errors import BadValue, StaleRef
from otolith.stores import MemoryStore


@pytest.fixture
def repo():
    return otolith.open("memory:")


def forked(repo, policies=(), **base):
    main = repo.session("s")
    for name, value in base.items():
        main[name] = value
    for pattern, policy in dict(policies).items():
        main.policy(pattern, policy)
    main.commit(allow_empty=True)
    return main, main.fork("fork")


def merged(repo, policy, base, ours, theirs):
    main, fork = forked(repo, {"x": policy}, x=base)
    main["x"], fork["x"] = ours, theirs
    main.commit()
    fork.commit()
    return main.merge(fork), main


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ("l1\n", "l1\nA", "l1\nB"),
        ("a\nb\n", "a\nb", "a\nb\nc\n"),
        ("", "hello", "world"),
    ],
)
def test_lines_that_would_be_glued_together_are_a_conflict(repo, base, ours, theirs):
    merge, main = merged(repo, "text", base, ours, theirs)

    assert [conflict.path for conflict in merge.conflicts] == ["x"]
    assert main["x"] == ours


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        ("a\nb", "a\nX\nb", "A\nb", "A\nX\nb"),
        ("a\nb\n", "a\nb\nc\n", "0\na\nb\n", "0\na\nb\nc\n"),
        ("a\nb\n", "a\nb", "0\na\nb\n", "0\na\nb"),
    ],
)
def test_lines_that_end_are_joined(repo, base, ours, theirs, expected):
    merge, main = merged(repo, "text", base, ours, theirs)

    assert merge.ok
    assert main["x"] == expected


# ---------------------------------------------------------------- rules


def test_a_pattern_does_not_decide_about_the_rules_themselves(repo):
    main, fork = forked(repo, {"*": "last-writer"}, x=0)
    fork.policy("n", "counter")
    fork.commit()
    main.policy("log", "append")
    main.commit()

    assert main.merge(fork).ok
    assert main.policies() == {"*": "last-writer", "n": "counter", "log": "append"}


@pytest.mark.parametrize("make", ["counter", "list"])
def test_a_key_with_a_star_is_no_pattern(repo, make):
    main, _ = forked(repo)
    if make == "counter":
        main.counter("hits/*").add(1)
    else:
        main.list("hits/*").append("a")
    main["hits/n"] = 5
    main.commit()
    fork = main.fork("other")
    fork["hits/n"], main["hits/n"] = 7, 9
    fork.commit()
    main.commit()

    assert [conflict.path for conflict in main.merge(fork).conflicts] == ["hits/n"]


def test_a_counter_under_a_key_with_a_star_counts(repo):
    main, _ = forked(repo)
    main.counter("hits/*").add(1)
    main.commit()
    fork = main.fork("other")
    for branch in (main, fork):
        branch.counter("hits/*").add(10)
        branch.commit()

    assert main.merge(fork).ok
    assert main["hits/*"] == 21


def test_a_pattern_of_many_stars_is_matched_quickly(repo):
    main, fork = forked(repo, {"*a" * 25 + "*b": "max"}, **{"a" * 60: 0})
    main["a" * 60], fork["a" * 60] = 1, 2
    main.commit()
    fork.commit()

    assert len(main.merge(fork).conflicts) == 1


@pytest.mark.parametrize(
    ("pattern", "path", "is_one"),
    [
        ("a*c", "abc", True),
        ("a*c", "ac", True),
        ("a*c", "abcd", False),
        ("*b*d*", "abcde", True),
        ("*b*d*", "adcbe", False),
        ("a*/x", "abc/x", True),
        ("a*/x", "abc/d/x", False),
        ("**/x", "a/b/x", True),
        ("a/**", "a/b/c", True),
        ("*a*ab", "aab", True),
        ("*ab*ab", "ab", False),
    ],
)
def test_stars_stand_for_any_letters_of_one_key(repo, pattern, path, is_one):
    main, fork = forked(repo, {pattern: "max"}, z=0)
    main[path], fork[path] = 1, 2
    main.commit()
    fork.commit()

    assert main.merge(fork).ok is is_one


# ---------------------------------------------------------------- crossed decisions


def test_equal_decisions_are_no_question(repo):
    main = repo.session("s")
    main["x"] = [0]
    main.commit()
    other = main.fork("other")
    other["x"], main["x"] = [2], [1]
    theirs, ours = other.commit(), main.commit()
    for branch, commit in ((main, theirs), (other, ours)):
        branch.merge(commit)
        branch.resolve_conflict("x", value=[3])
        branch.commit()

    assert main.merge(other).ok
    assert main["x"] == [3]


def crossed(repo, start, sides, decisions, rules=None):
    """Two branches change x, merge each other's change, and each decides for itself."""
    main = repo.session("s")
    for pattern, rule in (rules or {}).items():
        main.policy(pattern, rule)
    main["x"] = start
    main.commit()
    other = main.fork("other")
    heads = []
    for branch, value in zip((main, other), sides, strict=True):
        write(branch, value)
        heads.append(branch.commit())
    for branch, commit, value in zip((main, other), reversed(heads), decisions, strict=True):
        branch.merge(commit)
        write(branch, value)
        for conflict in branch.conflicts:
            branch.resolve_conflict(conflict.path, take="ours")
        branch.commit()
    return main, other


def write(branch, value):
    if value is not None:
        branch["x"] = value
    elif "x" in branch:
        del branch["x"]


@pytest.mark.parametrize(
    ("start", "sides", "decisions"),
    [
        (0, (1, 2), (1, 0)),
        (0, (1, 2), (0, 2)),
        (0, (1, None), (1, 0)),
        (0, (1, None), (None, 0)),
        ([0], ([1], [2]), ([1], [0])),
        ({"a": 0, "b": 0}, ({"a": 1, "b": 0}, None), ({"a": 1, "b": 0}, {"a": 0, "b": 0})),
    ],
)
def test_a_decision_for_the_old_value_is_a_decision(repo, start, sides, decisions):
    main, other = crossed(repo, start, sides, decisions)

    for branch, theirs in ((main, other), (other, main)):
        ours = branch.get("x")
        (conflict,) = branch.merge(theirs.head).conflicts
        assert conflict.path == "x"
        assert conflict.base == start
        assert branch.get("x") == ours
        branch.discard()


def test_a_dispute_deep_inside_is_shown_as_what_came_before(repo):
    main = repo.session("s")
    main["x"] = {"deep": {"value": 0, "other": 5}}
    main.commit()
    other = main.fork("other")
    other["x/deep/value"], main["x/deep/value"] = 2, 1
    theirs, ours = other.commit(), main.commit()
    for branch, commit in ((main, theirs), (other, ours)):
        branch.merge(commit)
        branch.resolve_conflict("x/deep/value", take="ours")
        branch.commit()
    del other["x"]
    other.commit()

    (conflict,) = main.merge(other).conflicts

    assert conflict.path == "x"
    assert conflict.base == {"deep": {"value": 0, "other": 5}}


def test_a_policy_decides_what_was_decided_in_two_ways(repo):
    main, other = crossed(repo, 0, (1, 2), (1, 0), rules={"x": "error"})
    for branch in (main, other):
        branch.policy("x", "max")
        branch.commit()

    assert main.merge(other).ok
    assert main["x"] == 1


def test_a_rule_that_two_sides_decided_in_two_ways_is_asked_about(repo):
    main = repo.session("s")
    main.policy("x", "max")
    main["x"] = 0
    main.commit()
    other = main.fork("other")
    main.policy("x", "min")
    other.policy("x", "counter")
    ours, theirs = main.commit(), other.commit()
    for branch, commit, rule in ((main, theirs, "min"), (other, ours, "max")):
        branch.merge(commit)
        branch.policy("x", rule)
        branch.commit()

    (conflict,) = main.merge(other).conflicts

    assert conflict.path == ".policy/x"
    assert (conflict.base, conflict.ours, conflict.theirs) == ("max", "min", "max")


# ---------------------------------------------------------------- keys that are equal


@pytest.mark.parametrize(("mine", "yours"), [(1, 1.0), (1.0, 1), (True, 1), (1, True)])
def test_keys_that_python_takes_for_one_are_one(repo, mine, yours):
    main, fork = forked(repo, m={})
    main.map("m")[mine] = "ours"
    fork.map("m")[yours] = "theirs"
    main.commit()
    fork.commit()

    (conflict,) = main.merge(fork).conflicts
    main.resolve_conflict(conflict.path, take="theirs")
    main.commit()

    assert len(main.map("m")) == 1
    assert repo.session("s")["m"] == {1: "theirs"}


@pytest.mark.parametrize(("mine", "yours"), [(1, 1.0), (1.0, 1), (True, 1), (1, True)])
def test_elements_that_python_takes_for_one_are_one(repo, mine, yours):
    main, fork = forked(repo, m={5})
    main["m"], fork["m"] = {5, mine}, {5, yours}
    main.commit()
    fork.commit()

    assert main.merge(fork).ok
    assert len(main.set("m")) == 2
    assert repo.session("s")["m"] == {5, 1}


@pytest.mark.parametrize("policy", ["append", "counter", "error", "max"])
def test_elements_of_sets_ask_no_policy(repo, policy):
    main, fork = forked(repo, {"tags/**": policy}, tags={"a"})
    main["tags"], fork["tags"] = {"a", "x", "y"}, {"x"}
    main.commit()
    fork.commit()

    assert main.merge(fork).ok
    assert main["tags"] == {"x", "y"}


# ---------------------------------------------------------------- values of unknown classes


@dataclass
class Order:
    item: str


def test_a_conflict_about_an_unknown_class_can_be_looked_at_and_decided():
    store = MemoryStore()
    known = Codecs()
    known.register_model(Order, name="shop:Order")
    repo = otolith.Repo(store, codecs=known)
    main, fork = forked(repo, {"x": "error"}, x=Order("base"))
    main["x"], fork["x"] = Order("ours"), Order("theirs")
    main.commit()
    fork.commit()

    stranger = otolith.Repo(store, codecs=Codecs())
    state = stranger.session("s")
    (conflict,) = state.merge("fork").conflicts
    assert (conflict.path, conflict.kind) == ("x", "edit/edit")
    assert "Order" in repr(conflict.theirs)
    state.resolve_conflict("x", take="theirs")
    state.commit()

    assert otolith.Repo(store, codecs=known).session("s")["x"] == Order("theirs")


@pytest.mark.parametrize("key", ["", "a/b", "~:7", 7, None, (1, "x"), Decimal("1.5"), b"raw"])
def test_a_conflict_at_a_key_of_any_type_can_be_stashed_and_decided(repo, key):
    main, fork = forked(repo, x={key: {"n": "base"}})
    main["x"][key]["n"], fork["x"][key]["n"] = "ours", "theirs"
    main.commit()
    fork.commit()
    assert not main.merge(fork).ok
    main.stash()

    again = repo.session("s")
    again.unstash()
    (conflict,) = again.conflicts
    assert conflict.keys == ("x", key, "n")
    again.resolve_conflict(conflict.keys, take="theirs")
    again.commit()
    assert again["x"] == {key: {"n": "theirs"}}
    main.discard()


# ---------------------------------------------------------------- numbers


def test_counters_of_decimals_are_exact_whatever_the_context(repo):
    start = Decimal("12345678901234567890123456789.01")
    with localcontext(prec=5):
        merge, main = merged(repo, "counter", start, start + 0, start)
        assert merge.ok
    merge, main = merged(
        otolith.open("memory:"),
        "counter",
        start,
        Decimal("12345678901234567890123456790.02"),
        Decimal("12345678901234567890123456790.01"),
    )

    assert merge.ok
    assert main["x"] == Decimal("12345678901234567890123456791.02")


@pytest.mark.parametrize(
    ("ours", "theirs"), [(math.inf, -math.inf), (math.inf, 1.0), (math.nan, 1.0), (1e308, 1.1e308)]
)
def test_counters_that_are_no_numbers_any_more_are_a_conflict(repo, ours, theirs):
    merge, _ = merged(repo, "counter", 0.0, ours, theirs)

    assert len(merge.conflicts) == 1


# ---------------------------------------------------------------- stashes


def test_a_branch_that_is_deleted_takes_its_stash_along(repo):
    state = repo.session("s", branch="b")
    state["x"] = 1
    state.commit()
    state["x"] = "stashed"
    state.stash()
    repo.delete_branch("s", "b")
    again = repo.session("s", branch="b")
    again["y"] = 1
    again.commit()

    again.unstash()

    assert again.to_dict() == {"y": 1}


def test_a_handle_that_never_looked_does_not_replace_what_another_stashed(repo):
    _main, _ = forked(repo, x=1)
    first, second = repo.session("s"), repo.session("s")
    first["a"], second["b"] = "first", "second"
    first.stash()

    with pytest.raises(StaleRef):
        second.stash()

    assert second["b"] == "second"
    fresh = repo.session("s")
    fresh.unstash()
    assert fresh["a"] == "first"


# ---------------------------------------------------------------- values that hold themselves


@pytest.mark.parametrize("how", ["append", "key"])
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_a_handle_refuses_a_value_that_holds_itself_twice(repo, how, kind):
    value: object
    if kind == "list":
        circle: list[object] = []
        circle += [circle, circle]
        value = circle
    else:
        ring: dict[str, object] = {}
        ring |= {"a": ring, "b": ring}
        value = ring
    state = repo.session("s")

    def put() -> None:
        if how == "append":
            state.list("x").append(value)
        else:
            state.map("x")["k"] = value

    with pytest.raises(BadValue):
        put()
