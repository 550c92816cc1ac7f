"""What is pickled shares objects with plain data, and with what else is pickled, after a reload."""

from __future__ import annotations

import io
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import otolith
from otolith.errors import BadValue, Denied
from otolith.state.tracker.fingerprints import fingerprint


class Own:
    """Not a model: it is pickled."""

    def __init__(self, *parts: object) -> None:
        self.parts = list(parts)


class Scarce:
    """Can be loaded only so often."""

    left = 0

    def __init__(self, part: object) -> None:
        self.part = part

    def __setstate__(self, state: Any) -> None:
        if not Scarce.left:
            raise ValueError("none left")
        Scarce.left -= 1
        vars(self).update(state)


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


SEALED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "own class": (Own, lambda sealed: sealed.parts[0]),
    "defaultdict": (lambda part: defaultdict(list, k=part), lambda sealed: sealed["k"]),
    "OrderedDict": (lambda part: OrderedDict(z=1, k=part), lambda sealed: sealed["k"]),
    "deque": (lambda part: deque([0, part]), lambda sealed: sealed[1]),
}


@pytest.mark.parametrize("kind", SEALED)
def test_a_list_beside_and_inside_of_a_pickled_object_is_one(state, kind):
    make, part_of = SEALED[kind]
    part = [1]
    state["v"] = [make(part), part]
    again = reopened(state)
    sealed, beside = again["v"]
    assert part_of(sealed) is beside
    beside.append(2)
    assert part_of(reopened(again)["v"][0]) == [1, 2]


@pytest.mark.parametrize("kind", SEALED)
@pytest.mark.parametrize("first", ["a", "b"])
def test_a_list_under_one_key_is_in_a_pickled_object_under_another(state, kind, first):
    make, part_of = SEALED[kind]
    state["a"] = part = [1]
    state["b"] = {"deep": make(part)}
    again = reopened(state)
    assert again[first] is not None
    assert part_of(again["b"]["deep"]) is again["a"]
    assert again.is_clean


def test_two_pickled_objects_share_what_is_in_both(state):
    part = {"n": [1]}
    state["a"], state["b"] = Own(part), deque([part["n"], part])
    again = reopened(state)
    assert again["b"][1] is again["a"].parts[0]
    assert again["b"][0] is again["b"][1]["n"]
    assert again.is_clean


def test_a_pickled_object_that_leads_back_to_its_list_is_in_a_circle_again(state):
    own = Own()
    own.parts.append(circle := [own])
    state["v"] = circle
    again = reopened(state)["v"]
    assert again[0].parts[0] is again


def test_pickled_objects_that_lead_to_each_other_over_two_keys_do_so_again(state):
    one, other = Own(), Own()
    one.parts.append([other])
    other.parts.append({"back": one})
    state["one"], state["other"] = one, other
    again = reopened(state)
    assert again["one"].parts[0][0] is again["other"]
    assert again["other"].parts[0]["back"] is again["one"]


def test_a_snapshot_shares_what_pickled_objects_share(state):
    part = [1]
    state["v"] = [Own(part), part]
    state["w"] = part
    commit = state.commit()
    shown = state.at(commit)
    own, beside = shown["v"]
    assert own.parts[0] is beside
    whole = shown.to_dict()
    assert whole["v"][0].parts[0] is whole["w"]


@pytest.mark.parametrize("verb", ["rollback", "undo", "discard"])
def test_going_back_separates_and_joins_pickled_objects(state, verb):
    state["a"], state["b"] = [1], Own([1])
    apart = state.commit()
    state["b"].parts[0] = state["a"]
    if verb == "discard":
        state.discard()
    else:
        state.commit()
        state.rollback(apart) if verb == "rollback" else state.undo()
    assert state["b"].parts[0] is not state["a"]
    state["b"].parts[0].append(2)
    assert state["a"] == [1]


def test_an_object_that_the_program_has_stays_the_one_in_the_state(repo, state):
    mine = state["a"] = [1]
    state.commit()
    other = repo.session("s")
    other["b"], other["c"] = Own(other["a"]), deque([other["a"]])
    other.commit()
    state.refresh()
    assert state["b"].parts[0] is state["c"][0] is state["a"] is mine


def test_who_may_not_unpickle_reads_plain_data_that_is_shared(tmp_path):
    with otolith.open(str(tmp_path / "a.db")) as repo:
        state = repo.session("s")
        state["a"] = part = [1]
        state["b"] = Own(part)
        state.commit()
    with otolith.open(str(tmp_path / "a.db"), pickle="never") as repo:
        careful = repo.session("s")
        assert careful["a"] == [1]
        with pytest.raises(Denied):
            careful["b"]


def test_an_object_that_cannot_be_copied_keeps_what_it_has(state):
    part = [1]
    state["v"] = [Scarce(part), part]
    state.commit()
    Scarce.left = 1
    again = reopened(state)["v"]
    assert again[0].part == again[1] == [1]


def test_strings_that_are_one_object_make_no_difference(state):
    word = "some words"
    part = [word]
    state["a"], state["b"] = Own(word, part), Own(part, word)
    again = reopened(state)
    assert again["a"].parts[1] is again["b"].parts[0]
    assert again.is_clean


@pytest.mark.parametrize("make", [lambda: io.BytesIO(b"a"), lambda: io.StringIO("a"), deque, Own])
def test_looking_into_a_pickled_object_does_not_change_it(state, make):
    state["v"] = make()
    first = state.commit()
    assert state.commit() == first
    assert reopened(state).is_clean


def test_an_array_that_was_read_with_a_sealed_object_is_shared_with_a_key(state):
    """Its memory belongs to the pickle that was read."""
    state["sealed"] = deque([np.arange(6.0)])
    state.commit()
    later = state.repo.session(state.session)
    later["array"] = later["sealed"][0]
    later.commit()
    last = state.repo.session(state.session)
    assert np.shares_memory(last["array"], last["sealed"][0])


def _read_again(state):
    """Return the state as another process finds it, with everything in it read."""
    later = state.repo.session(state.session)
    for key in later:
        later[key]
    return later


def _text() -> str:
    """Return a text that is not one object with an equal one."""
    return f"k{len([])}"


def test_texts_that_are_equal_and_not_one_object_separate_nothing(state):
    shared = {"k1": 1}
    state["q"], state["r"] = {_text(): shared}, shared
    state.commit()
    second = _read_again(state)
    inner = Own(second["q"])
    second["r"][_text()] = inner
    second.commit()
    third = _read_again(second)
    third["s"] = Own(third["r"])
    third.commit()
    last = _read_again(third)
    assert last["s"].parts[0] is last["r"]


def test_reading_a_circle_with_equal_texts_changes_nothing(state):
    table: OrderedDict[str, object] = OrderedDict()
    first: dict[str, object] = {}
    second: dict[str, object] = {_text(): [first]}
    table["z"], first[_text()] = second, table
    state.update(p=first, q=second, r={_text(): table})
    state.commit()
    assert _read_again(state).is_clean


def test_a_value_without_end_has_no_fingerprint_wherever_that_shows():
    """In a model that contains itself, the calls may run out while a sealed object is pickled."""

    def lower(value: object) -> Any:
        try:
            return lower(value)
        except RecursionError as error:
            raise BadValue("it has no end") from error

    assert fingerprint(Own(), lower) is None
