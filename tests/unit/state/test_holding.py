"""Values that were handed out: one object for a path, whatever is done to the state under it."""

from __future__ import annotations

import pytest

import otolith
from otolith.core import Branch
from otolith.errors import BadPath, BadValue, KeyNotFound, MergeConflict, Unstorable


class Stubborn:
    """An object that nothing keeps."""

    def __reduce__(self):
        raise TypeError("no")


@pytest.fixture
def repo():
    return otolith.open("memory:")


@pytest.fixture
def state(repo):
    return repo.session("s")


def committed(state, **values):
    """Commit values, and return a state that has handed none of them out."""
    state.update(values)
    state.commit()
    return state.repo.session(state.session)


def plain(state):
    """Return a handle on the same branch that hands out copies."""
    return Branch(state.repo.backend, state.ref)


# One object for a path


def test_a_path_gives_the_same_object_each_time(state):
    state["a"] = {"b": [1]}
    state.commit()
    assert state["a"] is state["a"]
    assert state["a/b"] is state["a"]["b"]
    again = state.repo.session("s")
    assert again["a/b"] is again["a/b"]
    assert again["a"]["b"] is again["a/b"]


def test_what_was_assigned_is_the_object_that_is_held(state):
    value = {"b": [1]}
    state["a"] = value
    assert state["a"] is value
    inner: list[int] = []
    state["a/c"] = inner
    assert value["c"] is inner
    state.commit()
    assert state["a/c"] is inner


def test_a_value_below_one_that_is_read_later_is_the_same_object(state):
    state = committed(state, a={"b": {"c": [1]}})
    inner = state["a/b/c"]
    inner.append(2)
    assert state["a"]["b"]["c"] is inner
    assert state["a"] == {"b": {"c": [1, 2]}}


def test_an_element_of_a_list_is_one_object_under_each_of_its_names(state):
    state = committed(state, log=[{"a": 1}, {"b": 1}])
    last = state["log/-1"]
    assert state["log/1"] is last
    assert state[("log", 1)] is last
    assert state["log"][1] is last


def test_an_element_of_a_list_moves_with_the_list(state):
    state = committed(state, log=[{"a": 1}, {"b": 1}, {"c": 1}])
    middle = state["log/1"]
    del state["log/0"]
    middle["more"] = 1
    state.commit()
    assert state.at("@")["log"] == [{"b": 1, "more": 1}, {"c": 1}]
    state.list("log").insert(0, "first")
    assert state["log"] == ["first", {"b": 1, "more": 1}, {"c": 1}]


def test_an_element_that_was_set_by_path_is_found_by_every_path(state):
    state = committed(state, log=[1, 2])
    state["log/-1"] = {"a": 1}
    state["log/1/b"] = 2
    assert state["log"] == [1, {"a": 1, "b": 2}]


def test_a_plain_element_is_read_without_holding_its_list(state):
    state = committed(state, log=["text", [1]])
    assert state["log/0"] == "text"
    assert len(state._held) == 0


def test_what_belongs_to_otolith_is_not_changed_in_place(state):
    state.policy("a", "ours")
    state.commit()
    state[".policy"]["a"] = "bogus"
    assert state.is_clean
    assert state.policies() == {"a": "ours"}
    state.policy("b", "max")
    assert state[".policy"] == {"a": "ours", "b": "max"}


# Paths into what is held


@pytest.mark.parametrize("value", [(1,), {1}, b"x", bytearray(b"x")])
def test_what_has_no_parts_cannot_be_entered(state, value):
    state["x"] = value
    for path in ("x/a", "x/a/b"):
        with pytest.raises(BadPath, match="no parts"):
            state[path] = 1
    assert state["x"] == value
    assert state["x"] is value or type(value) is bytes  # bytes are not held, but read again


def test_a_key_that_no_dict_has_is_refused(state):
    state["x"] = {"a": 1}
    with pytest.raises(BadValue, match="cannot be a key"):
        state[("x", [1])] = 1
    with pytest.raises(BadValue, match="cannot be a key"):
        state[("x", [1])]
    assert ("x", "b") not in state


def test_a_key_that_is_not_a_path_is_refused(state):
    with pytest.raises(BadPath, match="not int"):
        state[3] = 1
    assert state.is_clean


def test_a_part_that_is_not_there_is_named(state):
    state["x"] = {"a": [1]}
    for path in ("x/b", "x/a/1", "x/a/0/c"):
        with pytest.raises(KeyNotFound, match=path):
            state[path]
        with pytest.raises(KeyNotFound):
            del state[path]


# Handles on what is held


def test_a_handle_writes_to_the_object_that_is_held(state):
    state["log"], state["m"], state["s"] = [1], {"a": {"b": 1}}, {1}
    log, inner, members = state["log"], state["m"]["a"], state["s"]
    state.list("log").append(2)
    state.list("log").insert(0, 0)
    state.map("m/a")["c"] = 2
    state.set("s").add(2)
    assert (log, inner, members) == ([0, 1, 2], {"b": 1, "c": 2}, {1, 2})
    assert state["log"] is log
    assert state["m"]["a"] is inner
    assert state["s"] is members


def test_a_handle_sees_what_was_changed_in_place(state):
    state["log"] = [1]
    state["log"].append(2)
    assert list(state.list("log")) == [1, 2]
    assert (state.size("log"), state.kind("log")) == (3, "list")


def test_a_list_that_a_handle_starts_inside_a_held_value_merges_by_appending(state):
    state["m"] = {}
    state.list("m/log").append(1)
    assert state["m"] == {"log": [1]}
    assert state.policies() == {"m/log": "append"}


def test_a_handle_removes_what_is_held(state):
    state["m"] = {"a": {"x": [1]}, "b": 1}
    del state.map("m")["a"]
    assert state["m"] == {"b": 1}


# The state moves


def test_others_changes_arrive_in_the_object_that_is_held(repo):
    one, two = repo.session("s"), repo.session("s")
    one["a"] = {"log": [1], "seen": {1}}
    one.commit()
    held, log, seen = one["a"], one["a"]["log"], one["a"]["seen"]
    two.refresh()
    two["a"]["log"].append(2)
    two["a"]["seen"].add(2)
    two.commit()
    one.refresh()
    assert one["a"] is held
    assert (held["log"], held["seen"]) == ([1, 2], {1, 2})
    assert (held["log"], held["seen"]) == (log, seen)
    assert held["log"] is log
    assert held["seen"] is seen


@pytest.mark.parametrize("verb", ["discard", "rollback", "undo"])
def test_going_back_reaches_the_object_that_is_held(state, verb):
    state["a"] = {"log": [1]}
    state.commit()
    log = state["a/log"]
    log.append(2)
    if verb != "discard":
        state.commit()
    getattr(state, verb)()
    assert state["a/log"] is log
    assert log == [1]
    assert state.is_clean
    log.append(3)
    state.commit()
    assert state.at("@")["a"] == {"log": [1, 3]}


def test_discarding_drops_what_was_never_committed(state):
    state["a"] = 1
    state.commit()
    state["b"], state["c/d"] = [1], {}
    state.discard()
    assert state.to_dict() == {"a": 1}


def test_a_race_that_was_lost_shows_what_the_winner_did(repo):
    one, two = repo.session("s"), repo.session("s")
    one["a"], one["b"] = {"x": 0}, [0]
    one.commit()
    two.refresh()
    assert (two["a"], two["b"]) == ({"x": 0}, [0])
    one["a"]["x"], one["b"] = 1, [1]
    one.commit()
    two["a"]["x"] = 2
    with pytest.raises(MergeConflict):
        two.commit()
    assert two["b"] == [1]
    two["b"].append(2)
    two["a"]["x"] = 3
    two.commit()
    assert repo.session("s").to_dict() == {"a": {"x": 3}, "b": [1, 2]}


def test_a_side_that_is_taken_reaches_the_object_that_is_held(repo):
    one, two = repo.session("s"), repo.session("s")
    one["a"] = {"x": [0]}
    one.commit()
    two.refresh()
    inner = two["a"]["x"]
    one["a"]["x"], two["a"]["y"] = "theirs", 1
    one.commit()
    inner.append(1)
    with pytest.raises(MergeConflict):
        two.commit()
    two["new"] = ["assigned meanwhile"]
    two.resolve_conflict("a/x", take="theirs")
    assert two["a"] == {"x": "theirs", "y": 1}
    two.commit()
    assert repo.session("s").to_dict() == {
        "a": {"x": "theirs", "y": 1},
        "new": ["assigned meanwhile"],
    }
    assert two["a"] == {"x": "theirs", "y": 1}


def test_a_change_beside_a_conflict_does_not_settle_it(repo):
    one, two = repo.session("s"), repo.session("s")
    one["a"] = {"x": 0, "y": 0}
    one.commit()
    two.refresh()
    one["a"]["x"], two["a"]["x"] = 1, 2
    one.commit()
    with pytest.raises(MergeConflict):
        two.commit()
    two["a"]["y"] = 5
    with pytest.raises(MergeConflict, match="a/x"):
        two.commit()
    two["a"]["x"] = 3
    two.commit()
    assert repo.session("s")["a"] == {"x": 3, "y": 5}


def test_a_list_that_holds_one_object_twice_takes_two_values_apart(state):
    twin = [0]
    state["a"] = [twin, twin]
    state.commit()
    other = plain(state)
    other["a"] = [[1], [2]]
    other.commit()
    state.refresh()
    assert state["a"] == [[1], [2]]
    assert state.is_clean


# Values that cannot be kept


def test_a_value_that_cannot_be_kept_is_named_at_commit_and_nothing_is_lost(state):
    state["a"] = {"x": 1}
    first = state.commit()
    state["a"]["x"] = Stubborn()
    state["f"], state["g"] = lambda: 1, {"deep": [Stubborn()]}
    state["b"] = [1]
    with pytest.raises(Unstorable) as caught:
        state.commit()
    assert set(caught.value.values) == {"a", "f", "g"}
    assert state.head == first
    assert state.repo.session("s").to_dict() == {"a": {"x": 1}}
    state["a"]["x"], state["g"] = 2, 3
    del state["f"]
    state.commit()
    assert state.repo.session("s").to_dict() == {"a": {"x": 2}, "g": 3, "b": [1]}


def test_a_value_that_came_back_to_what_it_was_is_kept_again(state):
    big = ["x" * 50] * 500
    state["a"], state["n"] = list(big), 0
    assert not state.is_clean
    state["a"].append(Stubborn())
    state.commit(skip_unstorable=True)
    state["a"].pop()
    state.commit()
    assert state.repo.session("s")["a"] == big


def test_going_back_to_the_head_drops_changes_in_place(state):
    state["plan"] = [1]
    head = state.commit()
    plan = state["plan"]
    plan.append(2)

    state.rollback(head, discard=True)

    assert plan == [1]
    assert state["plan"] is plan
    assert state.is_clean
