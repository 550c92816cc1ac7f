"""States keep their laws: what goes in comes out, and a diff tells exactly what differs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import otolith
from otolith.codecs import identical
from otolith.testing import strategies
from tests.reference.model_values import (
    ABSENT,
    ModelChange,
    Record,
    brute_changes,
    patched,
)

MANY = settings(max_examples=4 * settings().max_examples)

leaves = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x", "long " * 100])
nested = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.sampled_from(["a", "b", "c", 1, 2]), inner, max_size=4)
        | st.builds(Record, inner, inner)
    ),
    max_leaves=25,
)
states = st.dictionaries(st.sampled_from("pqr"), nested, max_size=3)


def committed(*goals):
    """Make each state of the one before; return the branch and the commits."""
    state = otolith.open("memory:").session("s")
    made = []
    for goal in goals:
        for name in list(state):
            if name not in goal:
                del state[name]
        state.update(goal)
        made.append(state.commit(allow_empty=True))
    return state, made


def parts_of(value):
    """Return the fields of a model as a dict; any other value as it is."""
    return vars(value) if type(value) is Record else value


def as_model(change):
    old = ABSENT if change.kind == "added" else change.old
    return ModelChange(change.keys, old, ABSENT if change.kind == "removed" else change.new)


def has_list(value):
    value = parts_of(value)
    if type(value) is dict:
        return any(map(has_list, value.values()))
    return type(value) is list


@MANY
@given(states, states)
def test_a_diff_turns_the_old_state_into_the_new(old, new):
    state, commits = committed(old, new)
    changes = [as_model(change) for change in state.diff(*commits)]
    assert identical(patched(old, changes), new, ordered=False)


@MANY
@given(states, states)
def test_a_diff_of_states_without_lists_equals_brute_force(old, new):
    if has_list(old) or has_list(new):
        return
    state, commits = committed(old, new)
    found = {change.keys: as_model(change) for change in state.diff(*commits)}
    expected = {change.path: change for change in brute_changes(old, new)}
    assert found.keys() == expected.keys()
    assert all(identical(found[path], expected[path]) for path in found)


@given(states, states)
def test_a_diff_is_empty_if_and_only_if_the_roots_are_equal(old, new):
    state, (first, second) = committed(old, new)
    are_same = identical(in_order(old), in_order(new))
    assert (state.diff(first, second) == []) == (first.root == second.root) == are_same


def in_order(state):
    """Return a state with its names in order, as they are shown."""
    return {name: state[name] for name in sorted(state)}


@MANY
@given(states)
def test_the_order_of_every_dict_comes_back(goal):
    state, (commit,) = committed(goal)
    assert repr(state.at(commit).to_dict()) == repr(in_order(goal))


@given(states, states)
def test_a_diff_backwards_names_the_same_places_in_maps(old, new):
    state, (first, second) = committed(old, new)
    there, back = state.diff(first, second), state.diff(second, first)
    assert {in_maps(old, each.keys) for each in there} == {in_maps(old, each.keys) for each in back}


def in_maps(value, keys):
    """Return how far a place is reached through maps: two lists may be matched in several ways."""
    steps = []
    for key in keys:
        value = parts_of(value)
        if type(value) is not dict:
            break
        steps.append(key)
        value = value.get(key)
    return tuple(steps)


@MANY
@given(strategies.rich_values())
def test_a_value_of_any_kind_comes_out_as_it_went_in(value):
    state, _ = committed({"x": value, "list": [value], "map": {"y": value}})
    state.refresh()
    assert identical(state["x"], value)
    assert identical(state["list/0"], value)
    assert identical(state["map"], {"y": value})
    assert identical(state.at("@")["x"], value)


@given(st.lists(st.tuples(strategies.paths(), st.integers(0, 9)), max_size=8))
def test_paths_of_any_letters_name_what_was_written_there(writes):
    state = otolith.open("memory:").session("s")
    kept: dict[str, int] = {}
    for path, value in writes:
        try:
            state[path] = value
        except otolith.Invalid:
            continue
        below = {other for other in kept if other.startswith(path + "/")}
        kept = {other: old for other, old in kept.items() if other not in below} | {path: value}
    assert {path: state[path] for path in kept} == kept
