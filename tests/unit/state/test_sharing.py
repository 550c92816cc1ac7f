"""One object under several names is still one after a reload, and two stay two."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import otolith
from otolith.core import Branch
from otolith.errors import NotFound


@dataclass
class Node:
    name: str
    links: list[Any] = field(default_factory=list)


class Pair(NamedTuple):
    left: object
    right: object


@pytest.fixture
def repo():
    return otolith.open("memory:")


@pytest.fixture
def state(repo):
    return repo.session("s")


def reopened(state):
    """Commit, and return the state as another process finds it."""
    state.commit()
    return state.repo.session(state.session, branch=state.name)


def plain(state):
    """Return a handle on the same branch that hands out copies."""
    return Branch(state.repo.backend, state.ref)


def is_unchanged(state):
    """Tell whether reading everything makes nothing to commit."""
    state.to_dict()
    return state.is_clean and state.commit() == state.head


# What is kept


def test_two_keys_of_one_list_are_one_list_again(state):
    state["a"] = state["b"] = [1]
    again = reopened(state)
    assert again["b"] is again["a"]
    again["a"].append(2)
    third = reopened(again)
    assert (third["a"], third["b"]) == ([1, 2], [1, 2])
    assert is_unchanged(third)


@pytest.mark.parametrize("first", ["a", "b/x", "b", "c"])
def test_whichever_name_is_read_first_the_others_come_along(state, first):
    shared = [1]
    state["a"], state["b"], state["c"] = shared, {"x": shared, "y": 0}, Node("c", [shared])
    again = reopened(state)
    again[first]
    assert again["a"] is again["b/x"] is again["b"]["x"] is again["c"].links[0]
    assert is_unchanged(again)


def test_a_part_that_is_shared_is_one_however_it_is_held(state):
    state["b"] = {"x": [1], "y": 0}
    state = reopened(state)
    state["a"] = state["b/x"]
    again = reopened(state)
    assert again["b"]["x"] is again["a"]
    assert is_unchanged(again)


def test_what_is_shared_within_one_value_is_shared_again(state):
    twin = {"n": 1}
    state["x"] = {"z": twin, "a": [twin, (twin,)], "m": Node("m", [twin]), "p": Pair(twin, [twin])}
    again = reopened(state)
    x = again["x"]
    parts = [x["z"], x["a"][0], x["a"][1][0], x["m"].links[0], x["p"].left, x["p"].right[0]]
    assert len(set(map(id, parts))) == 1
    parts[3]["n"] = 2
    third = reopened(again)["x"]
    assert third["z"] == third["p"].left == {"n": 2}


def test_what_is_shared_inside_of_what_is_shared_is_kept(state):
    inner = [1]
    outer = {"inner": inner}
    state["a"], state["b"], state["c"] = outer, [outer], inner
    again = reopened(state)
    assert again["c"] is again["a"]["inner"]
    assert again["b"][0] is again["a"]
    assert is_unchanged(again)


def test_keys_of_every_kind_lead_to_what_is_shared(state):
    shared = [1]
    keys = [1, "1", (1, frozenset({"x", "y"})), None, b"k"]
    state["x"] = dict.fromkeys(keys, shared)
    state["y"] = shared
    again = reopened(state)
    assert all(again["x"][key] is again["y"] for key in keys)
    assert is_unchanged(again)


@pytest.mark.parametrize("kind", [set, bytearray, dict, Node])
def test_objects_of_every_mutable_kind_are_shared(state, kind):
    shared = kind("") if kind is Node else kind()
    state["a"], state["b"] = [shared], shared
    again = reopened(state)
    assert again["a"][0] is again["b"]


def test_values_that_never_change_are_not_written_down(state):
    pair = (1, ("x", b"y"))
    state["a"], state["b"], state["c"] = pair, [pair, ()], {"x": (), "y": "text"}
    state.commit()
    assert ".aliases" not in state


def test_reading_in_another_order_changes_nothing(state):
    shared: list[Any] = []
    state["m"] = {"z": shared, "a": {"y": shared, "b": shared}}
    state["l"] = [shared]
    again = reopened(state)
    assert list(again["m"]) == ["z", "a"]
    assert is_unchanged(again)


# What is separated stays separate


def test_equal_values_that_are_two_stay_two(state):
    state["a"], state["b"] = [1], [1]
    again = reopened(state)
    again["a"].append(2)
    assert again["b"] == [1]


def test_what_was_separated_stays_separate(state):
    state["a"] = state["b"] = [1]
    again = reopened(state)
    again["b"] = list(again["a"])
    third = reopened(again)
    assert third["a"] is not third["b"]
    assert ".aliases" not in third


def test_a_writer_that_knows_no_aliases_separates_what_it_changes(state):
    state["a"] = state["b"] = state["c"] = [1]
    state.commit()
    other = plain(state)
    other["b"] = [2]
    other.commit()
    again = state.repo.session("s")
    assert again["a"] is again["c"]
    assert (again["a"], again["b"]) == ([1], [2])
    assert is_unchanged(again)
    again["n"] = 1
    again.commit()
    other = plain(again)
    other["b"] = [1]
    other.commit()
    third = again.repo.session("s")
    assert third["b"] is not third["a"]


def test_others_that_are_still_one_stay_one_when_the_first_was_changed(state):
    state["a"] = state["b"] = state["c"] = [1]
    state.commit()
    other = plain(state)
    other["a"] = [2]
    other.commit()
    again = state.repo.session("s")
    assert again["b"] is again["c"]
    assert again["a"] == [2]
    assert is_unchanged(again)


def test_a_change_by_others_separates_objects_that_are_held(state):
    state["a"] = state["b"] = shared = [1]
    state.commit()
    other = plain(state)
    other["b"] = [2]
    other.commit()
    state.refresh()
    assert (state["a"], state["b"]) == ([1], [2])
    assert state["a"] is shared
    assert state.is_clean
    shared.append(3)
    state.commit()
    assert state.at("@").to_dict() == {"a": [1, 3], "b": [2]}


def test_objects_that_others_made_one_are_one_here(repo):
    one, two = repo.session("s"), repo.session("s")
    one["a"], one["b"] = [1], [1]
    one.commit()
    two.refresh()
    assert two["a"] is not two["b"]
    one["b"] = one["a"]
    one.commit()
    two.refresh()
    assert two["a"] is two["b"]
    assert two.is_clean


@pytest.mark.parametrize("verb", ["discard", "rollback", "undo"])
def test_going_back_brings_aliases_back(state, verb):
    state["a"] = state["b"] = shared = [1]
    state.commit()
    shared.append(2)
    state["b"] = [1]
    if verb != "discard":
        state.commit()
    getattr(state, verb)()
    assert state["a"] is state["b"]
    assert state["a"] == [1]
    assert state.is_clean


def test_going_back_to_when_they_were_two_makes_them_two(state):
    state["a"], state["b"] = [1], [1]
    first = state.commit()
    state["b"] = state["a"]
    state["a"].append(2)
    state.commit()
    state.rollback(first)
    assert (state["a"], state["b"]) == ([1], [1])
    assert state["a"] is not state["b"]
    assert state.is_clean


def test_an_alias_to_what_is_removed_is_removed(state):
    state["a"] = state["b"] = [1]
    state = reopened(state)
    state["n"] = 1
    del state["b"]
    state.commit()
    assert state.repo.session("s")["a"] == [1]
    del state["a"]
    state.commit()
    assert ".aliases" not in state


# Writing to one of several places


def test_a_path_writes_through_every_name(state):
    state["a"] = {"x": 1}
    state["b"] = state["a"]
    again = reopened(state)
    again["a/x"] = 2
    again["b/y"] = 3
    del again["a/x"]
    assert again.commit() != state.head
    assert again.at("@").to_dict() == {"a": {"y": 3}, "b": {"y": 3}}


def test_a_handle_writes_through_every_name(state):
    state["a"], state["m"] = [1], {"x": 1}
    state["b"], state["n"] = state["a"], {"inner": state["m"]}
    again = reopened(state)
    again.list("a").append(2)
    again.list("b").insert(0, 0)
    again.map("n/inner")["y"] = 2
    again.commit()
    assert again.at("@").to_dict() == {
        "a": [0, 1, 2],
        "b": [0, 1, 2],
        "m": {"x": 1, "y": 2},
        "n": {"inner": {"x": 1, "y": 2}},
    }


def test_a_handle_leaves_what_is_shared_beside_it_shared(state):
    twin = Node("twin")
    state["a"] = [twin, twin, 0]
    state.list("a")[2] = 1
    assert state["a"][0] is state["a"][1] is twin


# Merging


def test_branches_that_both_made_aliases_merge(state):
    state["a"], state["b"], state["c"] = [1], [1], [1]
    state.commit()
    other = state.fork("other")
    state["b"] = state["a"]
    state.commit()
    other["c"] = other["a"]
    other.commit()
    assert state.merge(other).ok
    assert state["a"] is state["b"] is state["c"]
    assert is_unchanged(state)
    again = state.repo.session("s")
    assert again["a"] is again["b"] is again["c"]


def test_branches_that_disagree_about_aliases_merge(state):
    state["a"], state["b"], state["c"] = [1], [1], [1]
    state.policy("**", "error")
    state.commit()
    other = state.fork("other")
    state["c"] = state["a"]
    state.commit()
    other["c"] = other["b"]
    other.commit()
    assert state.merge(other).ok
    assert is_unchanged(state)
    assert state.to_dict() == {"a": [1], "b": [1], "c": [1]}


def test_a_branch_that_removed_an_alias_merges_with_one_that_added_to_it(state):
    state["a"] = state["b"] = [1]
    state["c"] = [1]
    state.commit()
    other = state.fork("other")
    del state["b"]
    state.commit()
    other["c"] = other["a"]
    other["a"].append(2)
    other.commit()
    state.merge(other)
    for conflict in state.conflicts:
        assert conflict.path == "b"
        state.resolve_conflict("b", take="ours")
    state.commit()
    assert state.to_dict() == {"a": [1, 2], "c": [1, 2]}
    assert state["a"] is state["c"]


def test_a_branch_that_removed_the_first_place_merges_with_one_that_shares_it_deeper(state):
    dropped, kept = [0], [1]
    state["dropped"], state["kept"], state["pair"] = dropped, kept, (dropped, kept)
    state.commit()
    other = state.fork("other")
    del state["dropped"]
    state.commit()
    other["shared"] = [other["pair"]]
    other.commit()
    state.merge(other)

    for merged in (state, state.repo.session("s")):
        assert merged["shared"][0] is merged["pair"]
        assert merged["pair"][1] is merged["kept"]
        assert merged.is_clean


def test_a_merge_that_changes_one_of_two_places_separates_them(state):
    state["a"] = state["b"] = [1]
    state.commit()
    other = plain(state.fork("other"))
    other["b"] = [2]
    other.commit()
    state["n"] = 1
    state.commit()
    assert state.merge(other).ok
    assert (state["a"], state["b"]) == ([1], [2])
    assert is_unchanged(state)


# Arrays


VIEWS = {
    "same": lambda a: a,
    "strided": lambda a: a[::2],
    "reversed": lambda a: a[::-1],
    "offset": lambda a: a[3:7],
    "reshaped": lambda a: a.reshape(4, 6),
    "column": lambda a: a.reshape(4, 6)[:, 1],
    "transposed": lambda a: a.reshape(4, 6).T,
    "bytes": lambda a: a.view("u1"),
    "scalar": lambda a: a[5:6].reshape(()),
    "backwards matrix": lambda a: a.reshape(4, 6)[::-2, ::-1],
}


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("first", ["array", "view"])
def test_a_view_of_an_array_is_a_view_again(state, make, first):
    array = np.arange(24.0)
    state["array"], state["view"] = array, make(array)
    again = reopened(state)
    again[first]
    assert np.shares_memory(again["array"], again["view"])
    again["array"] += 1
    assert np.array_equal(again["view"], make(again["array"]))
    third = reopened(again)
    assert np.array_equal(third["view"], make(array + 1))
    view = third["view"]
    assert is_unchanged(third)
    assert third["view"] is view


def test_views_inside_of_values_are_views_again(state):
    array = np.arange(10)
    state["x"] = {"all": [array], "part": Node("n", [array[2:5]]), "pair": (array[::3],)}
    again = reopened(state)["x"]
    again["all"][0][:] = 7
    assert set(again["part"].links[0]) == set(again["pair"][0]) == {7}


def test_arrays_that_only_look_alike_stay_two(state):
    state["a"], state["b"] = np.zeros(5), np.zeros(5)
    again = reopened(state)
    assert is_unchanged(again)
    again["a"][:] = 1
    assert not again["b"].any()


def test_a_change_of_the_array_by_others_separates_the_view(state):
    array = np.arange(6)
    state["array"], state["view"] = array, array[::2]
    state.commit()
    other = plain(state)
    other["array"] = np.arange(6) * 2
    other.commit()
    again = state.repo.session("s")
    assert list(again["view"]) == [0, 2, 4]
    assert not np.shares_memory(again["array"], again["view"])
    assert is_unchanged(again)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_empty_views_do_no_harm(state, shape):
    array = np.zeros(6)
    state["array"], state["view"] = array, array[:0].reshape(shape)
    again = reopened(state)
    assert again["view"].shape == shape
    assert is_unchanged(again)


def test_arrays_of_objects_do_no_harm(state):
    array = np.array([1, "x", None], dtype=object)
    state["array"], state["view"] = array, array[:2]
    again = reopened(state)
    assert list(again["view"]) == [1, "x"]
    assert is_unchanged(again)


def test_a_view_that_may_not_be_written_to_stays_so(state):
    array = np.arange(6)
    view = array[1:]
    view.flags.writeable = False
    state["array"], state["view"] = array, view
    again = reopened(state)
    assert list(again["view"]) == [1, 2, 3, 4, 5]
    assert is_unchanged(again)


def test_an_alias_of_what_is_not_there_any_more_is_nothing(state):
    state["a"] = state["b"] = [1]
    state.commit()
    other = plain(state)
    del other["a"]
    other.commit()
    again = state.repo.session("s")
    assert again["b"] == [1]
    with pytest.raises(NotFound):
        again["a"]
    assert is_unchanged(again)


def test_a_place_that_is_assigned_leaves_the_others_as_they_are(state):
    state["a"] = state["b"] = state["c"] = [1]
    again = reopened(state)
    again["b"] = [2]
    third = reopened(again)
    assert third["a"] is third["c"]
    assert third.to_dict() == {"a": [1], "b": [2], "c": [1]}


def test_views_whose_array_was_changed_elsewhere_make_no_commit_of_their_own(state):
    whole = np.arange(24.0)
    state["a"], state["b"], state["base"] = whole[:], whole[::2], whole
    state.commit()
    held = reopened(state)
    held.to_dict()
    other = Branch(held.repo.backend, held.ref)
    other["a"] = "changed"
    other.commit()

    held.refresh()

    assert held["a"] == "changed"
    assert held.is_clean
    held["n"] = 1
    held.commit()
    held["base"][2] = 7.0
    assert held["b"][1] == 7.0
    assert held.repo.session("s")["b"][1] == 2.0
    held.commit()
    assert held.repo.session("s")["b"][1] == 7.0


def test_a_record_that_leads_in_circles_is_followed_no_further(state):
    """Two branches may each have put one thing into the other; their records are merged anyway."""
    state["a"], state["b"] = {"x": [1]}, {"y": [2]}
    state.commit()
    record = {
        ("a",): [("a",), None],
        ("b", "y"): [("a",), None],
        ("b",): [("b",), None],
        ("a", "x"): [("b",), None],
        ("a", "x", "z"): [("a", "x", "z"), None],
        ("b", "q"): [("a", "x", "z"), None],
    }
    state.write_reserved((".aliases",), state.cells.put(record))
    state.commit()

    assert reopened(state).to_dict() == {"a": {"x": [1]}, "b": {"y": [2]}}


EQUAL = {
    "list": lambda: [4],
    "set": lambda: {4},
    "dict in key order": lambda: {"a": 1, "z": 2},
    "dict in another order": lambda: {"z": 2, "a": 1},
    "bytearray": lambda: bytearray(b"a"),
}


@pytest.mark.parametrize("kind", EQUAL)
@pytest.mark.parametrize("verb", ["rollback", "undo", "discard"])
def test_equal_values_that_were_two_are_two_again(state, kind, verb):
    make = EQUAL[kind]
    state["v"], state["w"] = make(), make()
    first = state.commit("two")
    state["v"] = state["w"]
    if verb != "discard":
        state.commit("one")
    {"rollback": lambda: state.rollback(first), "undo": state.undo, "discard": state.discard}[
        verb
    ]()
    assert state["v"] is not state["w"]
    assert state["v"] == state["w"] == make()


@pytest.mark.parametrize("kind", EQUAL)
@pytest.mark.parametrize("edit", ["again", "other", "remove"])
@pytest.mark.parametrize("verb", ["rollback", "undo", "discard"])
def test_what_was_one_object_is_one_again_in_any_order(state, kind, edit, verb):
    shared = EQUAL[kind]()
    state["v"], state["w"] = {"in": shared}, [shared]
    first = state.commit("one")
    if edit == "again":
        state["v"]["in"] = EQUAL[kind]()
    elif edit == "other":
        state["v"] = 5
    else:
        del state["v"]
    if verb != "discard":
        state.commit("changed")
    {"rollback": lambda: state.rollback(first), "undo": state.undo, "discard": state.discard}[
        verb
    ]()
    assert state["v"]["in"] is state["w"][0]


def test_a_value_that_was_assigned_again_is_shared_after_a_discard(state):
    shared = {0}
    state["v"] = state["w"] = state["y"] = shared
    shared.update({8, 16})
    state.commit("one")
    state["v"] = shared
    state.discard()
    assert state["v"] is state["w"] is state["y"]


def test_a_snapshot_shares_what_is_shared_in_a_value(state):
    shared = [1]
    state["pair"], state["other"] = {"a": shared, "b": (shared,)}, shared
    commit = state.commit("one")
    pair = state.at(commit)["pair"]
    assert pair["a"] is pair["b"][0]
    everything = state.at(commit).to_dict()
    assert everything["pair"]["a"] is everything["other"]
    assert state.at(commit)["pair/b"] == ([1],)


def test_an_object_in_several_places_of_a_circle_and_elsewhere_is_one(state):
    state["a"] = shared = {"k": 1}
    circle: list[Any] = [shared, shared]
    circle.append(circle)
    state["x"] = circle
    again = reopened(state)
    assert again["x"][0] is again["x"][1] is again["a"]
    assert again["x"][2] is again["x"]


def test_a_place_that_is_removed_and_set_to_a_copy_is_another_object(state):
    state["first"] = state["second"] = [1]
    state.commit()
    del state["second"]
    state["second"] = [1]
    state.commit()
    later = state.repo.session(state.session)
    assert later["first"] is not later["second"]


def test_a_rollback_shares_again_what_was_removed_and_set_to_a_copy(state):
    state["first"] = state["second"] = [1]
    before = state.commit()
    del state["second"]
    state["second"] = [1]
    state.rollback(before, discard=True)
    assert state["first"] is state["second"]


def test_discard_separates_what_a_model_had_in_two_places(state):
    state["node"] = Node("n", [[1], [1]])
    state.commit()
    state["node"].links[1] = state["node"].links[0]
    state.discard()
    first, second = state["node"].links
    assert first is not second


FORGED = {
    "a number": 5,
    "an entry without a first place": {("a",): []},
    "a view that is none": {("a",): [("b",), 7]},
    "a view of numbers": {("a",): [("a",), [1, 2, 3, 4]]},
    "places that are texts": {"a": ["a", None]},
    "no path": {(): [(), None]},
    "a path without end": {("a",) * n: [("a",), None] for n in range(1, 60)},
    "a part of itself": {("a",): [("a",), None], ("a", "x"): [("a",), None]},
    "places that are not there": {("q", n): [("a",), None] for n in range(99)},
    "an index out of range": {("a",): [("a",), None], ("c", 99): [("a",), None]},
}


@pytest.mark.parametrize("record", FORGED.values(), ids=FORGED)
def test_a_forged_record_changes_no_value(state, record):
    values = {"a": {"x": [1]}, "b": {"x": [1]}, "c": [{"x": [1]}]}
    state.update(values)
    state.commit()
    state.write_reserved((".aliases",), state.cells.put(record))
    state.commit()
    later = state.repo.session(state.session)
    assert {key: later[key] for key in later} == values
    later["d"] = 1
    later.commit()
    assert state.repo.session(state.session).to_dict() == {**values, "d": 1}
