"""Handles behave like the collections they stand for."""

from __future__ import annotations

import pytest

from otolith import Repo
from otolith.errors import BadRef
from otolith.stores import MemoryStore


@pytest.fixture
def state():
    return Repo(MemoryStore(), author="test").session("job")


@pytest.mark.parametrize("key", [1, True, 1.0])
def test_equal_numbers_are_one_key_as_in_a_dict(state, key):
    state["map"] = {1: "first"}
    numbers = state.map("map")
    numbers[key] = "second"

    assert numbers[1] == numbers[True] == numbers[1.0] == "second"
    assert state["map"] == {1: "second"}
    assert [type(kept) for kept in state["map"]] == [int]


def test_equal_numbers_are_one_element_as_in_a_set(state):
    members = state.set("set")
    for number in (1, True, 1.0, 2**60, float(2**60), 0.5):
        members.add(number)

    assert len(members) == len(state["set"]) == 3
    members.discard(1.0)
    assert True not in members


def test_huge_and_strange_numbers_are_keys_too(state):
    numbers = state.map("map")
    for key in (10**400, float("inf"), -0.0):
        numbers[key] = str(key)

    assert numbers[10**400] == str(10**400)
    assert numbers[0] == "-0.0"


def test_changes_can_be_read_after_the_edits_are_dropped(state):
    state["text"] = "long " * 1000
    changes = state.status()
    state.discard()

    assert changes[0].new == "long " * 1000


def test_what_was_put_away_survives_edits_that_were_dropped(state):
    state["a"] = 1
    state.commit("a")
    state["b"] = 2
    state.stash()
    state.discard()
    state["c"] = 3
    state.commit("c")
    state.unstash()

    assert state["b"] == 2
    state.commit("b")
    assert state.to_dict() == {"a": 1, "b": 2, "c": 3}


def test_a_name_that_expressions_need_is_no_branch(state):
    state.commit("first")
    for name in ("HEAD", "@", "a~1", "-x", "a..b", ""):
        with pytest.raises(BadRef):
            state.fork(name)


def test_many_keys_are_staged_without_rebuilding_the_map_each_time(state):
    numbers = state.map("map")
    fresh = state.cells.objects.fresh
    numbers.update({f"key {number}": number for number in range(500)})

    assert not fresh
    assert len(numbers) == 500
