"""Values that contain themselves are stored, compared, merged and shown, and all of that ends."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest

import otolith
from otolith.errors import KeyNotFound


@dataclass
class Node:
    name: str
    parent: Node | None = None
    kids: list[Node] = field(default_factory=list)

    def add(self, name):
        self.kids.append(Node(name, self))
        return self.kids[-1]


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


def loops():
    whole: list[Any] = [1]
    named: dict[str, Any] = {"x": 1}
    root = Node("root")
    whole.append(whole)
    named["self"] = named
    root.add("child").add("grandchild")
    return {"list": whole, "dict": named, "node": root}


def test_a_list_a_dict_and_a_tree_with_parents_come_back(state):
    state.update(loops())
    later = reopened(state)
    assert later["list"][1] is later["list"]
    assert later["dict"]["self"] is later["dict"]
    assert later["node"].kids[0].kids[0].parent.parent is later["node"]
    assert later.is_clean


@pytest.mark.parametrize("name", ["list", "dict", "node"])
def test_changes_inside_are_found(state, name):
    state.update(loops())
    before = state.commit()
    later = reopened(state)
    value = later[name]
    if name == "list":
        value[1][1].append(2)
    elif name == "dict":
        value["self"]["y"] = 2
    else:
        value.kids[0].name = "other"
    after = later.commit()
    assert [change.path for change in later.diff(before, after)] == [name]
    again = reopened(later)[name]
    assert {"list": lambda: again[2], "dict": lambda: again["y"], "node": lambda: 2}[name]() == 2


def test_a_long_dict_that_comes_to_contain_itself_is_one_object_again(state):
    big: dict[str, Any] = {f"k{at}": [at] * 20 for at in range(2000)}
    state["big"] = big
    state.commit()
    big["self"] = big
    later = reopened(state)
    assert later["big"]["self"] is later["big"]
    del later["big"]["self"]
    assert reopened(later)["big"] == {f"k{at}": [at] * 20 for at in range(2000)}


def test_a_tree_of_dicts_whose_parts_know_what_they_are_in_comes_back(state):
    """To follow every way through it takes for ever."""
    root: dict[str, Any] = {"name": "root", "parts": []}
    root["parts"] += [{"name": name, "in": root, "parts": []} for name in "abc"]
    state["long"] = [*({"n": n, "text": "x" * 50} for n in range(200)), (root,)]
    (found,) = reopened(state)["long"][-1]
    assert [part["in"] is found for part in found["parts"]] == [True] * 3


def test_keys_share_a_circle(state):
    first: list[Any] = [1]
    second: list[Any] = [2]
    first.append(second)
    second.append(first)
    state["a"], state["b"] = first, {"in": second}
    later = reopened(state)
    assert later["a"][1] is later["b"]["in"]
    assert later["b"]["in"][1] is later["a"]


def test_paths_lead_into_a_value_that_contains_itself(state):
    state.update(loops())
    later = reopened(state)
    assert later["dict/self/self/x"] == 1
    assert later.at("@")["dict/self/x"] == 1
    again = reopened(later)
    again["dict/self/y"] = [5]
    assert again["dict"]["y"] == [5]
    del reopened(again)["dict/y"]
    with pytest.raises(KeyNotFound):
        later["dict/self/none"]


def test_branches_that_both_changed_such_a_value_conflict(state):
    state.update(loops())
    state.commit()
    other = state.fork("other")
    other["dict"]["theirs"] = 1
    other.commit()
    state["dict"]["ours"] = 2
    state["list"].append(3)
    state.commit()
    merge = state.merge("other")
    assert [each.path for each in merge.conflicts] == ["dict"]


def test_such_values_are_shown_to_their_end(state):
    state.update(loops())
    state.commit()
    text = otolith.view(state, focus="full")
    assert "[1, <itself>]" in text
    assert "parent: <same as kids/0>" in text


def test_rollback_brings_the_circle_back(state):
    state.update(loops())
    first = state.commit()
    state["dict"]["self"] = None
    state["node"].kids[0].parent = None
    state.commit()
    state.rollback(first)
    assert state["dict"]["self"] is state["dict"]
    assert state["node"].kids[0].parent is state["node"]


def test_a_value_without_pickle_may_contain_itself():
    with otolith.open("memory:", pickle="never") as repo:
        state = repo.session("s")
        state.update(loops())
        assert reopened(state)["list"][1][0] == 1


def test_a_circle_between_two_keys_gets_no_longer_names_than_it_has(state):
    node: dict[str, Any] = {"name": "root", "children": []}
    node["children"] = [{"name": name, "parent": node, "children": []} for name in "ab"]
    state["node"], state["first"] = node, node["children"][0]
    again = reopened(state)
    assert again["first"]["parent"] is again["node"]
    groups = again._tracker.aliases._groups.values()
    assert max(len(place.path) for group in groups for place in group) <= 5


def test_a_circle_leads_through_a_sealed_object_that_two_keys_have(state):
    """While its parts are joined, the numbers of its parts change."""
    node = Node("n")
    table: defaultdict[str, list[Any]] = defaultdict(list, z=[2, node.kids])
    node.kids += [table, node]  # type: ignore[list-item]
    state["node"], state["table"] = node, table
    again = reopened(state)
    kids = again["node"].kids
    assert kids[0] is again["table"]
    assert kids[1] is again["node"]
    assert again["table"]["z"][1] is kids
