"""The order of dicts keeps its laws, on both sides of the length at which they become trees."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import otolith
from otolith.care import verify
from otolith.codecs import Codecs
from otolith.core import BareRepo
from otolith.stores import MemoryStore
from tests.reference.model_values import brute_merge

SEEDS = st.integers(0, 2**32)
NAMES = [f"key {number}" for number in range(40)]


def bare_repo() -> BareRepo:
    clock = count(1)
    return BareRepo(
        MemoryStore(), codec=Codecs(), clock=lambda: next(clock), author="", entropy=bytes
    )


def some_dict(chance: random.Random, names: list[str] = NAMES) -> dict[str, Any]:
    keys = chance.sample(names, chance.randrange(len(names) + 1))
    if chance.random() < 0.3:
        keys.sort()
    return {key: some_value(chance) for key in keys}


def some_value(chance: random.Random) -> Any:
    """Return a value of a length at which a few of them are a tree, or many are none."""
    kind = chance.random()
    if kind < 0.2:
        return dict.fromkeys(chance.sample("abc", chance.randrange(4)), 0)
    return chance.choice(("v", "w")) * chance.choice((1, 1, 60, 300, 900, 3000))


def edit_randomly(chance: random.Random, value: Any, model: dict[str, Any]) -> None:
    """Make the same edit of two mappings."""
    key = chance.choice(NAMES)
    match chance.randrange(6):
        case 0 | 1:
            value[key] = model[key] = some_value(chance)
        case 2 | 3 if key in model:
            del value[key], model[key]
        case 4 if key in model:
            part = model.pop(key)
            del value[key]
            value[key] = model[key] = part
        case _:
            new = f"new {chance.randrange(9)}"
            value[new] = model[new] = chance.randrange(9)


def shown(value: Any) -> str:
    """Spell out a value, with its order."""
    return repr(value)


def root_of(value: dict[str, Any]) -> str:
    state = bare_repo().session("fresh")
    state["m"] = value
    return state.commit().root


@given(SEEDS)
def test_edits_by_path_make_the_dict_that_python_makes(seed):
    chance = random.Random(seed)
    repo = bare_repo()
    state = repo.session("s")
    state["m"] = model = some_dict(chance)
    model = dict(model)
    for _ in range(chance.randrange(25)):
        edit_randomly(chance, state.map("m"), model)
        if chance.random() < 0.3:
            state.commit()
        if chance.random() < 0.3:
            assert shown(state["m"]) == shown(model)
    commit = state.commit(allow_empty=True)
    assert shown(repo.at(commit)["m"]) == shown(model)
    assert list(state.map("m")) == list(model)
    assert commit.root == root_of(model)
    assert verify(repo, level="deep").problems == []


@given(SEEDS)
def test_changes_in_place_make_the_dict_that_python_makes(seed):
    chance = random.Random(seed)
    repo = otolith.open("memory:")
    state = repo.session("s")
    state["m"] = some_dict(chance)
    model = dict(state["m"])
    for _ in range(chance.randrange(12)):
        for _ in range(chance.randrange(4)):
            edit_randomly(chance, state["m"], model)
        if chance.random() < 0.2:
            keys = chance.sample(list(model), len(model))
            state["m"] = {key: model[key] for key in keys}
            model = dict(state["m"])
        commit = state.commit(allow_empty=True)
        assert shown(repo.at(commit)["m"]) == shown(model)
    fresh = repo.session("fresh")
    fresh["m"] = model
    assert fresh.commit(allow_empty=True).root == state.commit(allow_empty=True).root


@given(SEEDS)
def test_roots_are_equal_if_and_only_if_content_and_order_are(seed):
    chance = random.Random(seed)
    value = some_dict(chance)
    other = {key: value[key] for key in chance.sample(list(value), len(value))}
    assert (root_of(value) == root_of(other)) == (list(value) == list(other))


@given(SEEDS)
def test_a_merge_of_dicts_has_the_order_that_brute_force_gives_it(seed):
    chance = random.Random(seed)
    base = some_dict(chance)
    ours, theirs = dict(base), dict(base)
    for side in (ours, theirs):
        for _ in range(chance.randrange(4)):
            edit_randomly(chance, side, dict(side))
        if chance.random() < 0.3:
            keys = chance.sample(list(side), len(side))
            turned = {key: side[key] for key in keys}
            side.clear()
            side.update(turned)
    repo = bare_repo()
    here = repo.session("s")
    here["m"] = base
    here.commit()
    there = here.fork("there")
    here["m"], there["m"] = ours, theirs
    here.commit(allow_empty=True)
    there.commit(allow_empty=True)
    back = there.fork("back")
    mine, yours = here.resolve("@"), there.resolve("@")
    expected, conflicts = brute_merge({"m": base}, {"m": ours}, {"m": theirs})
    one, two = here.merge(yours), back.merge(mine)
    assert {each.path for each in one.conflicts} == {"/".join(each.path) for each in conflicts}
    assert shown(here["m"]) == shown(expected["m"])
    if one.commit is not None and two.commit is not None:
        assert one.commit.root == two.commit.root == root_of(here["m"])
