"""Staged edits: written down as they come, and read as if they were there."""

from __future__ import annotations

import pytest

import otolith
from otolith.errors import BadPath, KeyNotFound
from otolith.stores import MemoryStore
from otolith.testing import FaultyStore


@pytest.fixture
def state():
    return otolith.open("memory:").session("s")


def test_a_value_can_be_entered_after_it_was_staged(state):
    state["a"] = {"b": {"c": 1}}
    state["a/b/d"] = 2
    assert state["a"] == {"b": {"c": 1, "d": 2}}


def test_a_removed_map_starts_anew(state):
    state["a"] = {"b": 1}
    del state["a"]
    state["a/c"] = 2
    assert state["a"] == {"c": 2}


def test_removing_the_last_key_leaves_an_empty_map(state):
    state["a/b"] = 1
    del state["a/b"]
    assert state.to_dict() == {"a": {}}


def test_appends_are_seen_before_they_are_applied(state):
    log = state.list("log")
    log.append(1)
    log.append(2)
    assert (len(log), log[-1], state["log/0"], "log/1" in state) == (2, 2, 1, True)
    log.append(3)
    assert state["log"] == [1, 2, 3]


def test_a_list_that_waits_for_appends_can_be_removed_and_replaced(state):
    state.list("log").append(1)
    del state["log"]
    assert "log" not in state
    state.list("log").append(2)
    state["log"] = ["other"]
    state.list("log").append(3)
    assert state["log"] == ["other", 3]


def test_an_element_of_a_list_that_waits_for_appends_can_be_set(state):
    state.list("log").extend([1, 2])
    state["log/-1"] = {"a": 1}
    state["log/1/b"] = 2
    state.list("log").append(3)
    assert state["log"] == [1, {"a": 1, "b": 2}, 3]


def test_elements_of_long_lists_are_edited_in_place(state):
    state["log"] = [{"text": "x" * 50, "parts": [number]} for number in range(500)]
    state.commit()
    state["log/250/text"] = "new"
    state.list("log/251/parts").append("more")
    made = state.commit()
    assert state["log/250"] == {"text": "new", "parts": [250]}
    assert state["log/251/parts"] == [251, "more"]
    assert made.stats.objects < 8


@pytest.mark.parametrize("path", ["l/2", "l/-3", "l/x", "l/~:2", "l/2/deep"])
def test_a_place_beyond_a_list_is_not_found(state, path):
    state["l"] = [1, 2]
    with pytest.raises(KeyNotFound):
        state[path] = 1
    with pytest.raises(KeyNotFound):
        del state[path]
    assert state["l"] == [1, 2]


@pytest.mark.parametrize("value", [5, "text", None, (1,), {1}])
def test_what_has_no_parts_cannot_be_entered(state, value):
    state["x"], state["l"] = value, [value]
    for path in ("x/a", "x/a/b", "l/0/a"):
        with pytest.raises(BadPath, match="no parts"):
            state[path] = 1
    assert (state["x"], state["l"]) == (value, [value])


def test_a_commit_after_many_edits_of_one_path_writes_the_last(state):
    for number in range(100):
        state[f"n/{number % 3}"] = number
    assert state["n"] == {"0": 99, "1": 97, "2": 98}
    assert state.commit().stats.objects == 2


def test_a_cold_read_calls_the_store_once_for_each_level_of_the_tree():
    store = FaultyStore(MemoryStore())
    state = otolith.Repo(store).session("s")
    state.update({f"key {number}": number for number in range(5000)})
    state.commit()
    root = state.cell_at(())
    assert root is not None
    tree = state.cells.tree(root)
    assert tree is not None
    levels = store.read([tree.hash])[tree.hash][1] + 1
    state = otolith.Repo(store).session("s")
    before = store.calls["read"]

    assert state["key 4321"] == 4321
    assert store.calls["read"] - before == levels > 2
    assert state["key 4321"] == 4321
    assert store.calls["read"] - before == levels
