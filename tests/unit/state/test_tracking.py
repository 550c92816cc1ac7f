"""Imprints: what changed is found, exactly, and what did not costs no encoding."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import otolith
from otolith.errors import BadValue
from otolith.state.tracker.held import HeldValues


@dataclass
class Box:
    content: Any


@dataclass
class Other:
    content: object


@dataclass(eq=False)
class Label:
    text: str


class Track:
    """A value, and its imprint of when it was last looked at."""

    def __init__(self, value, cells=None):
        repo = otolith.open("memory:")
        self.cells = repo.session("s").cells
        self.how = HeldValues(self.cells).imprinter
        self.value = value
        self.imprint = self.how.encode(value)

    def is_changed(self):
        """Look again; what is found must be what encoding from scratch gives."""
        before, self.imprint = self.imprint, self.how.update(self.value, self.imprint)
        assert self.cells.same(self.imprint.cell, self.cells.put(deepcopy(self.value)))
        again = self.how.update(self.value, self.imprint)
        assert again is self.imprint
        return self.imprint is not before


def long_list(count: int = 400) -> list[Any]:
    return [{"number": number, "text": "some text " * 3} for number in range(count)]


def wide_dict(count: int = 400) -> dict[Any, Any]:
    return {f"key {number}": {"number": number, "text": "text " * 5} for number in range(count)}


def boxes() -> dict[Any, Any]:
    return {number: Box("x" * 50) for number in range(200)}


def big(count=100):
    return ["content " * 10] * count


SHAPES: dict[str, Callable[[Any], Any]] = {
    "list": lambda part: [*long_list(), part],
    "dict": lambda part: {**wide_dict(), "part": part},
    "long dict in list": lambda part: [wide_dict(), {**wide_dict(), "part": [part]}],
    "long list in dict": lambda part: {"a": long_list(), "b": [*long_list(), {"x": part}]},
    "model": lambda part: Box([*long_list(), part]),
    "tuple": lambda part: (1, [*long_list(), (part,)]),
    "dict of models": lambda part: {**boxes(), "part": Box(part)},
}


PARTS: dict[str, list[Any]] = {
    "list": [-1],
    "dict": ["part"],
    "long dict in list": [1, "part", 0],
    "long list in dict": ["b", -1, "x"],
    "model": ["content", -1],
    "tuple": [1, -1],
    "dict of models": ["part", "content"],
}


def inside(shape, value):
    """Return the container that holds the part of a shape, and the key it is under."""
    *path, last = PARTS[shape]
    for step in path:
        value = value.content if type(value) is Box else value[step]
    return value, last


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (1, True), (1, 1.0), (0.0, -0.0), (1.0, float("nan")), ("1", b"1"), (b"x", bytearray(b"x")),
        ([1], (1,)), ({1}, frozenset({1})), ({1: None}, {True: None}), ({1: None}, {1}),
        (Box(1), Other(1)), (None, False), ("", None), ([], {}), (np.float64(1), 1.0),
        (np.array([1]), np.array([1.0])), (np.array([1]), [1]), (2**70, float(2**70)),
    ],
    ids=repr,
)  # fmt: skip
def test_a_change_of_nothing_but_the_type_is_found(shape, old, new):
    if shape == "tuple":
        old, new = (old,), (new,)
    track = Track(SHAPES[shape](old))
    assert not track.is_changed()
    holder, key = inside(shape, track.value)
    if type(holder) is Box:
        holder.content = new
    else:
        holder[key] = new
    assert track.is_changed()


def test_a_nan_is_the_same_as_another_nan_of_the_same_bits():
    track = Track([float("nan"), *long_list()])
    track.value[0] = float("nan")
    assert not track.is_changed()
    track.value[0] = -float("nan")
    assert track.is_changed()


@pytest.mark.parametrize("make", [dict, wide_dict])
def test_another_order_of_a_dict_is_a_change(make):
    value = make() or {"a": 1, "b": 2}
    track = Track(value)
    for key in reversed(list(value)):
        value[key] = value.pop(key)
    assert track.is_changed()


@pytest.mark.parametrize("at", [0, 1, 300, -2, -1])
def test_a_key_of_a_wide_dict_that_moves_to_the_end_is_a_change_unless_it_is_there(at):
    value = wide_dict()
    track = Track(value)
    key = list(value)[at]
    value[key] = value.pop(key)
    assert track.is_changed() == (at != -1)
    track.value = {each: value[each] for each in sorted(value)}
    assert track.is_changed()


def test_a_key_that_equals_another_takes_its_own_place():
    track = Track({1: "x" * 20_000, 5: "y"})
    track.value = {True: "x" * 20_000, 5: "y"}
    assert track.is_changed()
    track.value = {5: "y", 1: "x" * 20_000}
    assert track.is_changed()


def test_a_set_that_grew_and_shrank_is_no_change():
    track = Track({"s": set(range(10))})
    track.value["s"].update(range(1000, 4000))
    track.value["s"] -= set(range(1000, 4000))
    assert not track.is_changed()


@pytest.mark.parametrize("at", [0, 70, 399, 400])
@pytest.mark.parametrize("count", [0, 1, 100])
@pytest.mark.parametrize("gone", [0, 1, 130])
def test_a_splice_of_a_long_list_is_found(at, count, gone):
    track = Track(long_list())
    track.value[at : at + gone] = [{"new": number} for number in range(count)]
    assert track.is_changed() == bool(count or (gone and at < 400))


def test_elements_appended_one_by_one_are_found():
    track = Track(long_list())
    for number in range(200):
        track.value.append({"n": number})
        assert track.is_changed()


@pytest.mark.parametrize("change", [list.sort, list.reverse, list.clear])
def test_a_list_in_another_order_is_another_list(change):
    track = Track([f"{number * 7919 % 1000:04}" * 5 for number in range(400)])
    change(track.value)
    assert track.is_changed()


def test_an_element_that_moved_and_shrank_is_where_it_is_now():
    value: list[Any] = [{"n": number, "text": "x" * 20} for number in range(200)]
    value[70] = {"tree": big()}
    track = Track(value)
    tree = value.pop(70)
    tree["tree"] = 0
    value.insert(65, tree)
    value[80:80] = ["new"] * 10
    assert track.is_changed()


def test_elements_with_trees_of_their_own_are_followed_when_they_move():
    value: list[Any] = [{"tree": big(), "n": number} for number in range(20)] + long_list()
    track = Track(value)
    value.insert(0, "first")
    assert track.is_changed()
    value[5]["tree"].append("more")
    del value[1]
    assert track.is_changed()
    value[3], value[9] = value[9], value[3]
    value[3]["tree"] = "short"
    assert track.is_changed()
    assert not track.is_changed()


@pytest.mark.parametrize("wrap", [lambda part: part, Box, lambda part: {"x": part}])
@pytest.mark.parametrize("make", [long_list, wide_dict])
def test_a_value_that_shrinks_and_grows_across_the_limit_is_found_each_time(make, wrap):
    inner = make()
    track, kept = Track(wrap(inner)), inner.copy()
    inner.clear()
    assert track.is_changed()
    inner.extend(kept) if type(inner) is list else inner.update(kept)
    assert track.is_changed()


def test_a_key_that_is_replaced_by_an_equal_one_of_another_type_is_found():
    track = Track({**wide_dict(), 1: "one", 0.0: "zero", 5: big()})
    for old, new in ((1, True), (0.0, -0.0), (5, 5.0)):
        value = track.value.pop(old)
        track.value[new] = value
        assert track.is_changed()


@pytest.mark.parametrize("shape", ["short", "long"])
def test_two_keys_that_are_stored_alike_are_refused(shape):
    track = Track({} if shape == "short" else wide_dict())
    track.value[float("nan")] = 1
    assert track.is_changed()
    track.value[float("nan")] = 2
    with pytest.raises(BadValue, match="same encoding"):
        track.how.update(track.value, track.imprint)


@pytest.mark.parametrize("make", [set, lambda keys: dict.fromkeys(keys, 1)], ids=["set", "dict"])
def test_a_key_that_changes_by_itself_is_found(make):
    labels = [Label(f"label {number} " * 3) for number in range(300)]
    track = Track(make(labels))
    labels[7].text = "other"
    assert track.is_changed()


def test_an_array_that_changes_in_every_way_is_found():
    track = Track({"array": np.arange(50_000.0), **wide_dict()})
    array = track.value["array"]
    array[40_000] = -1
    assert track.is_changed()
    array.shape = (100, 500)
    assert track.is_changed()
    array.dtype = "i8"
    assert track.is_changed()
    array.flags.writeable = False
    track.is_changed()


def test_a_value_that_changes_while_it_is_encoded_is_refused():
    value = wide_dict(40)
    track = Track(value)
    lower, count = track.how.lower, iter(range(10**9))

    def changing(part):
        value["key 1"]["number"] = next(count)
        return lower(part)

    track.how.lower = changing  # type: ignore[method-assign]
    value["box"] = Box(1)
    with pytest.raises(BadValue, match="changed while it was being encoded"):
        track.how.update(value, track.imprint)


@pytest.mark.parametrize(
    "content",
    [[1, 2], [1.5, 2.5], ["a", "b"], [True, False], np.array([None, "x"], object)],
    ids=str,
)
def test_showing_a_masked_array_makes_no_commit(content):
    state = otolith.open("memory:").session("s")
    masked = state["m"] = np.ma.array(content, mask=[False, True])
    first = state.commit()
    assert repr(masked)
    assert state.is_clean
    assert state.commit() == first
    masked.fill_value = content[1]
    assert state.commit() != first


def test_a_method_of_a_list_is_that_of_the_list_in_the_state():
    state = otolith.open("memory:").session("s")
    numbers = state["numbers"] = [1]
    state["add"] = numbers.append
    state.commit()
    state["add"](2)
    state.commit()
    assert numbers == [1, 2]
    again = state.repo.session(state.session)
    again["add"](3)
    assert again["numbers"] == [1, 2, 3]
    again.commit()
    assert state.repo.session(state.session)["numbers"] == [1, 2, 3]
