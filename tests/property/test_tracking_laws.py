"""Held values keep their laws: every change in place is found, and nothing else is."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import otolith
from otolith.codecs import identical
from otolith.core import Branch
from otolith.errors import BadValue
from otolith.state.tracker.held import HeldValues
from otolith.testing import strategies
from tests.unit.codecs import data as tables

MANY = settings(max_examples=2 * settings().max_examples)


@dataclass
class Box:
    content: object
    label: str = ""


class Pair(NamedTuple):
    left: object
    right: object


class Custom:
    """A class that only pickles keep."""

    def __init__(self, content):
        self.content = content

    def __eq__(self, other):
        return identical(self.content, other.content)

    __hash__ = None  # type: ignore[assignment]


def long_list(part):
    return [{"n": n, "text": "some text " * 5, "part": deepcopy(part)} for n in range(80)]


def wide_dict(part):
    return {f"key {n}": ["text " * 10, deepcopy(part)] for n in range(80)}


def wide_set(part):
    return {f"element {n} " * 5 for n in range(80)} | {repr(part)}


def raw(part):
    return np.arange(9_000) + len(repr(part))


plain = strategies.rich_values(max_leaves=6)
large = st.builds(
    lambda make, part: make(part),
    st.sampled_from([long_list, wide_dict, wide_set, raw]),
    st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2),
)
values = st.recursive(
    plain | large,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.dictionaries(strategies.rich_keys(), parts, max_size=3),
        st.builds(Box, parts, st.text(max_size=3)),
        st.builds(Pair, parts, parts),
        st.tuples(parts, parts),
    ),
    max_leaves=6,
)

# Changing values in place


def parts_of(value):
    if type(value) is dict:
        return list(value.values())
    if type(value) is Box:
        return [value.content]
    return list(value) if isinstance(value, list | tuple) else []


def mutables(value):
    """Return every container in a value that can be changed, the outermost first."""
    found, level = [], [value]
    while level:
        found += [each for each in level if type(each) in CHANGES]
        level = [part for each in level for part in parts_of(each)]
    return found


def change_list(value, draw):
    at = draw(st.integers(0, max(0, len(value) - 1)))
    how = draw(
        st.sampled_from(["append", "set", "delete", "insert", "swap", "twice", "run", "cut"])
    )
    if how == "append" or not value:
        value.append(draw(values))
    elif how == "set":
        value[at] = draw(values)
    elif how == "delete":
        del value[at]
    elif how == "insert":
        value.insert(at, draw(values))
    elif how == "swap":
        value[0], value[at] = value[at], value[0]
    elif how == "twice":
        value.append(value[at])
    elif how == "run":
        value[at:at] = [draw(st.integers(0, 3))] * draw(st.integers(1, 70))
    else:
        del value[at : at + draw(st.integers(1, 100))]


def change_dict(value, draw):
    how = draw(st.sampled_from(["new", "set", "delete", "order", "retype"]))
    keys = list(value)
    if how == "new" or not keys:
        value[draw(strategies.rich_keys())] = draw(values)
        return
    key = keys[draw(st.integers(0, len(keys) - 1))]
    if how == "set":
        value[key] = draw(values)
    elif how == "delete":
        del value[key]
    elif how == "order":
        value[key] = value.pop(key)
    else:
        old = value.pop(key)
        value[retyped(key)] = old


def change_set(value, draw):
    value.symmetric_difference_update(draw(st.sets(strategies.rich_keys(), max_size=2)))


def change_bytes(value, draw):
    value[0:1] = draw(st.binary(max_size=3))


def change_box(value, draw):
    if draw(st.booleans()):
        value.label = draw(st.text(max_size=3))
    else:
        value.content = draw(values)


def change_array(value, draw):
    if value.size and value.flags.writeable and not value.dtype.hasobject:
        value.reshape(-1)[draw(st.integers(0, value.size - 1))] = draw(st.integers(0, 2))


CHANGES = {
    list: change_list,
    dict: change_dict,
    set: change_set,
    bytearray: change_bytes,
    Box: change_box,
    np.ndarray: change_array,
}


def retyped(value):
    """Return what Python takes for equal, in another type, where there is such a thing."""
    if type(value) in (int, bool) and abs(value) < 2**53:
        return float(value)
    if type(value) is float and value in (0.0, 1.0):
        return bool(value)
    return value


def change_somewhere(value, draw):
    found = mutables(value)
    if found:
        target = found[draw(st.integers(0, len(found) - 1))]
        CHANGES[type(target)](target, draw)


def same(left, right):
    """Tell whether two values are the same; arrays and frames as strictly as the rest."""
    if type(left) is not type(right):
        return False
    if type(left) is Box:
        return left.label == right.label and same(left.content, right.content)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if type(left) is dict:
        kept = dict(left)
        return identical(dict.fromkeys(kept), dict.fromkeys(right)) and all(
            same(kept[key], right[key]) for key in kept
        )
    return tables.same(left, right)


# Imprints


def encoded(act):
    """Return what is encoded, or None if it is refused."""
    try:
        return act()
    except BadValue:
        return None


@MANY
@given(values, st.data())
def test_looking_again_finds_what_encoding_from_scratch_finds(value, data):
    cells = otolith.open("memory:").session("s").cells
    how = HeldValues(cells).imprinter
    imprint = encoded(lambda: how.encode(value))
    assume(imprint is not None)
    for _ in range(4):
        for _ in range(data.draw(st.integers(0, 3))):
            change_somewhere(value, data.draw)
        scratch = encoded(lambda: cells.put(deepcopy(value)))
        before, now = imprint, encoded(partial(how.update, value, imprint))
        assert (now is None) == (scratch is None)
        if now is None:
            return
        assert cells.same(now.cell, scratch)
        assert (now is before) == cells.same(before.cell, scratch)
        assert how.update(value, now) is now
        imprint = now


@given(values, values)
def test_a_value_in_the_place_of_another_is_encoded_as_from_scratch(old, new):
    cells = otolith.open("memory:").session("s").cells
    how = HeldValues(cells).imprinter
    imprint, scratch = encoded(lambda: how.encode(old)), encoded(lambda: cells.put(deepcopy(new)))
    assume(imprint is not None and scratch is not None)
    assert cells.same(how.update(new, imprint).cell, scratch)


# States


def kept(value):
    """Return a repo with a committed value, or skip what cannot be kept."""
    repo = otolith.open("memory:")
    state = repo.session("s")
    state["x"] = value
    try:
        state.commit()
    except BadValue:
        assume(False)
    return repo


leaves = st.one_of(values, tables.arrays(), tables.pandas_values(), st.builds(Custom, plain))


@MANY
@given(leaves)
def test_reading_makes_no_commit(value):
    state = kept(value).session("s")
    state["x"]
    state.to_dict()
    assert state.is_clean
    assert state.commit("nothing") == state.head


@MANY
@given(leaves)
def test_what_is_read_is_what_was_set(value):
    before = deepcopy(value)
    found = kept(value).session("s")["x"]
    assert found == before if type(value) is Custom else same(found, before)


@MANY
@given(values, st.data())
def test_what_was_changed_in_place_is_found_by_whoever_opens_the_state(value, data):
    repo = kept(value)
    for _ in range(2):
        state = repo.session("s")
        held = state["x"]
        for _ in range(2):
            change_somewhere(held, data.draw)
        before, is_same = state.head, same(held, state.at("@")["x"])
        try:
            made = state.commit()
        except BadValue:
            assume(False)
        assert is_same or made != before
        assert same(state["x"], held)
        assert same(repo.session("s")["x"], held)
        assert state.is_clean


@given(values, st.data())
def test_a_rollback_takes_back_what_was_changed_in_place(value, data):
    before = deepcopy(value)
    repo = kept(value)
    state = repo.session("s")
    change_somewhere(state["x"], data.draw)
    state["other"] = 1
    try:
        state.commit()
    except BadValue:
        assume(False)
    state.rollback(steps=1)
    assert same(state["x"], before)
    assert state.is_clean


RETYPED = [
    (1, True), (1, 1.0), (True, 1.0), (0.0, -0.0), (1.0, float("nan")), (float("nan"), None),
    ([1], (1,)), ((1,), Pair(1, 2)), (b"x", bytearray(b"x")), (b"x", "x"), ({1}, frozenset({1})),
    ({1: 2}, {True: 2}), ({}, []), ({"content": 1, "label": ""}, Box(1)), (Path("a"), "a"),
    (date(2026, 1, 1), "2026-01-01"), (2**70, float(2**70)), (np.int64(1), 1),
    (np.zeros(2), [0.0, 0.0]), (np.zeros(2), np.zeros(2, "f4")), (np.zeros(2), np.zeros((2, 1))),
]  # fmt: skip
WRAPS = st.sampled_from([
    lambda part: [part],
    lambda part: {"k": part},
    Box,
    lambda part: (0, [part]),
    lambda part: [*long_list(0), part],
    lambda part: {**wide_dict(0), "part": part},
    lambda part: Pair([part], wide_set(0)),
])  # fmt: skip


@MANY
@given(st.sampled_from(RETYPED), st.booleans(), st.lists(WRAPS, min_size=1, max_size=4))
def test_a_change_of_nothing_but_the_type_is_found_at_every_depth(pair, turned, wraps):
    old, new = deepcopy(pair[::-1] if turned else pair)
    inner = [old]
    value = inner
    for wrap in wraps:
        value = wrap(value)
    state = otolith.open("memory:").session("s")
    state["x"] = value
    first = state.commit()
    inner[0] = new
    assert not state.is_clean
    assert state.commit() != first
    assert same(state.repo.session("s")["x"], value)


# Aliases


@st.composite
def graphs(draw, arrays=True):
    """Draw objects of which later ones hold earlier ones, some of them several times."""
    nodes: list[object] = [draw(st.lists(st.integers(0, 3), max_size=2))]
    base = np.arange(24.0)
    for _ in range(draw(st.integers(1, 7))):
        some = [draw(st.sampled_from(nodes)) for _ in range(draw(st.integers(0, 3)))]
        kinds = ["list", "dict", "tuple", "box", "pair", "set", "bytes", "long"]
        nodes.append(node(draw(st.sampled_from([*kinds, *(["view"] * arrays)])), some, base, draw))
    keys = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True))
    top = {key: draw(st.sampled_from(nodes)) for key in keys}
    return {**top, "base": base} if arrays else top


def node(kind, some, base, draw):
    if kind == "list":
        return [*some, 0]
    if kind == "dict":
        return {draw(st.sampled_from(["x", "y", 1, (2, "z")])): part for part in some}
    if kind == "tuple":
        return (*some, 1)
    if kind == "box":
        return Box(some)
    if kind == "pair":
        return Pair(some, some[:1])
    if kind == "long":
        return [*some, *({"n": n, "text": "text " * 12} for n in range(70)), *some]
    if kind == "set":
        return {draw(st.integers(0, 3))}
    if kind == "bytes":
        return bytearray(b"x")
    return VIEWS[draw(st.integers(0, len(VIEWS) - 1))](base)


VIEWS = [
    lambda a: a,
    lambda a: a[::2],
    lambda a: a[::-1],
    lambda a: a[3:7],
    lambda a: a.reshape(4, 6),
    lambda a: a.reshape(4, 6)[1:, ::-2],
    lambda a: a.reshape(6, 4).T,
    lambda a: a.view("u1")[8:16],
]


def pattern(top):
    """Return which objects are where: a number for each, by place."""
    numbers: dict[int, int] = {}
    found: dict[tuple[object, ...], int] = {}
    keep: list[object] = []

    def walk(value, place):
        if type(value) in CHANGES:
            root = value
            while type(root) is np.ndarray and root.base is not None:
                root = root.base
            keep.append(root)
            found[place] = numbers.setdefault(id(root), len(numbers))
        if type(value) is dict:
            for key in sorted(value, key=repr):
                walk(value[key], (*place, key))
        else:
            for at, part in enumerate(parts_of(value)):
                walk(part, (*place, at))

    for key in sorted(top):
        walk(top[key], (key,))
    return found


def stored(top):
    repo = otolith.open("memory:")
    state = repo.session("s")
    state.update(top)
    state.commit()
    return repo


@MANY
@given(graphs(), st.randoms(use_true_random=False))
def test_who_shares_what_is_the_same_after_a_reload(top, random):
    state = stored(top).session("s")
    names = list(state)
    random.shuffle(names)
    found = {name: state[name] for name in names}
    assert pattern(found) == pattern(top)
    assert all(same(found[name], top[name]) for name in top)
    assert state.is_clean
    assert state.commit() == state.head


@MANY
@given(graphs(), st.data())
def test_a_change_through_one_name_is_seen_through_all_after_a_reload(top, data):
    repo = stored(top)
    for _ in range(2):
        state = repo.session("s")
        found = state.to_dict()
        targets = [each for each in mutables(list(found.values())) if type(each) is not Box]
        target = targets[data.draw(st.integers(0, len(targets) - 1))]
        touch(target)
        if data.draw(st.booleans()):
            state["new"] = target
        state.commit()
        live, again = state.to_dict(), repo.session("s").to_dict()
        assert all(same(again[name], live[name]) for name in live)
        assert pattern(again) == pattern(live)


def touch(target):
    if type(target) is list:
        target.append("touched")
    elif type(target) is dict:
        target["touched"] = True
    elif type(target) is set:
        target.add("touched")
    elif type(target) is bytearray:
        target += b"touched"
    else:
        target[...] = 77


@given(graphs(arrays=False), st.data())
def test_what_was_separated_stays_separate(top, data):
    repo = stored(top)
    state = repo.session("s")
    name = data.draw(st.sampled_from(sorted(top)))
    state[name] = deepcopy(state[name])
    state.commit()
    live = state.to_dict()
    assert pattern(repo.session("s").to_dict()) == pattern(live)


@MANY
@given(graphs(), st.data())
def test_a_writer_that_knows_no_aliases_separates_what_it_changes(top, data):
    repo = stored(top)
    state = repo.session("s")
    held = data.draw(st.booleans())
    before = state.to_dict() if held else {}
    other = Branch(repo.backend, state.ref)
    name = data.draw(st.sampled_from(sorted(set(top) - {"base"}) or ["base"]))
    other[name] = [other[name], "changed"]
    other.commit()
    wanted = other.to_dict()
    state.refresh()
    for found in (state.to_dict(), repo.session("s").to_dict()):
        assert all(same(found[key], wanted[key]) for key in wanted)
    assert state.is_clean
    assert len(before) in (0, len(wanted))


@MANY
@given(graphs(arrays=False), st.data())
def test_branches_that_both_made_aliases_merge_without_a_question_about_them(top, data):
    top = {"a": [1], "b": [1], "c": {"x": [1]}, **top}
    repo = stored(top)
    ours = repo.session("s")
    theirs = ours.fork("theirs")
    for number, state in enumerate((ours, theirs)):
        names = [data.draw(st.sampled_from(sorted(top))) for _ in range(2)]
        state[f"new {number}"] = [state[name] for name in names]
        if data.draw(st.booleans()):
            state["b"] = state["a"]
        if data.draw(st.booleans()):
            del state["c"]
        state.commit()
    merged = ours.merge(theirs)
    assert all(not conflict.path.startswith(".") for conflict in merged.conflicts)
    for conflict in ours.conflicts:
        ours.resolve_conflict(conflict.path, take="ours")
    ours.commit()
    wanted = Branch(repo.backend, ours.ref).to_dict()
    for state in (ours, repo.session("s")):
        assert all(same(state[key], wanted[key]) for key in wanted)
        assert state.is_clean
