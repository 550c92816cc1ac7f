"""Which rule decides at which path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.core.merge.policies import NAMES, Policies, check_pattern, check_policy
from otolith.core.paths import format_path
from otolith.errors import BadPath, BadPolicy


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("*", "a", True),
        ("*", "a/b", False),
        ("a/*", "a/b", True),
        ("a/*", "a", False),
        ("a/*/c", "a/b/c", True),
        ("a/*/c", "a/c", False),
        ("**", "a/b/c", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/b/b/c", True),
        ("**/c", "c", True),
        ("**/c", "a/b/c", True),
        ("**/c", "a/bc", False),
        ("log-*", "log-1", True),
        ("log-*", "log-1/x", False),
        ("a.b", "axb", False),
        ("a+*", "a+1", True),
    ],
)
def test_a_pattern_fits_a_path(pattern, path, fits):
    found = Policies({pattern: "max"}).find(tuple(path.split("/")))
    assert found == ("max" if fits else None)


def test_an_exact_path_beats_a_pattern():
    rules = Policies({"a/b": "min", "a/*********": "max"})
    assert rules.find(("a", "b")) == "min"


def test_a_longer_pattern_beats_a_shorter():
    rules = Policies({"**": "ours", "a/**": "theirs", "a/b-*": "max", "a/b/*": "min"})
    assert [rules.find(tuple(path.split("/"))) for path in ("x", "a/c", "a/b-1", "a/b/c")] == [
        "ours",
        "theirs",
        "max",
        "min",
    ]


def test_patterns_of_one_length_are_tried_in_order_of_their_text():
    for rules in ({"*b": "max", "a*": "min"}, {"a*": "min", "*b": "max"}):
        assert Policies(rules).find(("ab",)) == "max"


def test_a_pattern_for_all_depths_leaves_maps_to_be_merged():
    rules = Policies({"**": "ours", "plans/*": "max", "one": "min"})
    assert rules.find(("a",), is_map=True) is None
    assert rules.find(("plans", "a"), is_map=True) == "max"
    assert rules.find(("one",), is_map=True) == "min"


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4).map(tuple))
def test_a_path_is_an_exact_rule_for_itself(keys):
    text = format_path(keys)
    assert Policies({text: "max"}).find(keys) == "max"


@pytest.mark.parametrize("name", [*NAMES, "call:known"])
def test_every_policy_is_one(name):
    assert check_policy(name, {"known": lambda base, ours, theirs: ours}) == name


@pytest.mark.parametrize("name", ["", "MAX", "call:", "call:unknown", "known"])
def test_other_names_are_refused_with_those_that_exist(name):
    with pytest.raises(BadPolicy, match="last-writer"):
        check_policy(name, {"known": lambda base, ours, theirs: ours})


def test_a_pattern_is_a_path():
    with pytest.raises(BadPath):
        check_pattern("a//*")
