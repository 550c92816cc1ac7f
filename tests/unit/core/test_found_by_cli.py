"""Promises of the stash that only several processes need: what a terminal found missing."""

from __future__ import annotations

import pytest

import otolith


@pytest.fixture
def open_again(tmp_path):
    repos = []

    def opened():
        repos.append(otolith.open(tmp_path / "a.db"))
        branch = repos[-1].session("s")
        branch.unstash()
        return branch

    yield opened
    for repo in repos:
        repo.close()


def test_a_commit_after_stashing_takes_the_stash_down(open_again):
    here = open_again()
    here["a"] = 1
    here.stash()
    here.commit("kept")

    there = open_again()

    assert there.is_clean
    assert there.head is not None
    assert there.head.message == "kept"


def test_two_terminals_that_stage_at_once_do_not_lose_edits(open_again):
    here, there = open_again(), open_again()
    here["a"] = 1
    here.stash()
    there["b"] = 2

    with pytest.raises(otolith.StaleRef):
        there.stash()

    assert dict(open_again()) == {"a": 1}


def test_stashing_again_and_again_goes_on_from_the_last_time(open_again):
    here = open_again()
    for number in range(3):
        here["a"] = number
        here.stash()

    assert open_again()["a"] == 2


def test_staging_the_way_back_empties_the_stash(open_again):
    here = open_again()
    here["a"] = 1
    here.commit("one")
    here["a"] = 2
    here.stash()
    here["a"] = 1
    here.stash()

    assert open_again().is_clean


def test_a_merge_in_progress_is_taken_up_by_another_process(open_again):
    here = open_again()
    here["a"] = 1
    here.commit("base")
    other = here.fork("other")
    other["a"] = 2
    theirs = other.commit("theirs")
    here["a"] = 3
    here.commit("ours")
    here.merge("other")
    here.stash()

    there = open_again()

    assert there.merging == theirs
    assert [conflict.path for conflict in there.conflicts] == ["a"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({}, "map"),
        ([1], "list"),
        ("x", "str"),
        (b"x", "bytes"),
        (1, "int"),
        (True, "bool"),
        (None, "NoneType"),
        (1.5, "float"),
        ((1,), "tuple"),
        ({1}, "set"),
        (1 << 80, "bigint"),
    ],
)
def test_the_kind_of_a_value_is_known_by_name(open_again, value, kind):
    here = open_again()
    here["a"] = value

    assert here.kind("a") == kind
