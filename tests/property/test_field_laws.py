"""Models of every family keep the laws of dicts: they merge, differ and are stored by field."""

from __future__ import annotations

from collections import namedtuple
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from typing import Any

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import otolith
from otolith.codecs import identical

MANY = settings(max_examples=2 * settings().max_examples)


@dataclass
class Plain:
    a: Any
    b: Any
    c: Any


@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: Any
    c: Any


@attrs.define
class Defined:
    a: Any
    b: Any
    c: Any


class Struct(msgspec.Struct):
    a: Any
    b: Any
    c: Any


class Closed(pydantic.BaseModel):
    a: Any
    b: Any
    c: Any


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: Any
    b: Any
    c: Any


Named = namedtuple("Named", "a b c")  # noqa: PYI024

KINDS = [Plain, Frozen, Defined, Struct, Closed, Open, Named]
LONG = {"<text>": "long " * 4000, "<list>": ["an element of a list"] * 900}
"""By name, because failing examples are printed."""

values = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["", "x", "x" * 300, *LONG]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("xy"), inner, max_size=2)
        | st.sets(st.integers(0, 3), max_size=3)
    ),
    max_leaves=4,
).map(lambda value: LONG.get(value, value) if type(value) is str else value)
fields = st.tuples(values, values, values).map(lambda three: dict(zip("abc", three, strict=True)))
policies = ["error", "last-writer", "max", "min", "counter", "append", "map"]
rules = st.dictionaries(
    st.sampled_from(["m", "m/*", "m/a", "**", "*", "**/x"]), st.sampled_from(policies), max_size=2
)
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def fields_of(value):
    return {name: getattr(value, name) for name in "abc"}


def forked(base, ours, theirs, rules):
    """Return two branches that set one name to other values, which are copies of these."""
    base, ours, theirs = deepcopy((base, ours, theirs))
    ticks = count(1)
    state = otolith.open("memory:", clock=lambda: next(ticks) * 1000).session("s")
    state["m"] = base
    for pattern, name in rules.items():
        state.policy(pattern, name)
    state.commit()
    other = state.fork("other")
    for side, value in ((state, ours), (other, theirs)):
        side["m"] = value
        side.commit(allow_empty=True)
    return state, other


def is_stored_as_new(state):
    """Tell whether a value that came about by edits and merges is stored as an equal new one."""
    fresh = state.repo.session("fresh")
    fresh["m"] = state["m"]
    return state.cells.same(state.cell_at(("m",)), fresh.cell_at(("m",)))


@kinds
@MANY
@given(base=fields, ours=fields, theirs=fields, rules=rules)
def test_models_merge_as_dicts_of_their_fields(kind, base, ours, theirs, rules):
    if kind is Named and {"max", "min"} & {rules.get("m"), rules.get("*")}:
        return  # these compare tuples, and no dicts
    here, there = forked(kind(**base), kind(**ours), kind(**theirs), rules)
    plain, other = forked(base, ours, theirs, rules)

    result, expected = here.merge(there), plain.merge(other)

    assert result.kind == expected.kind
    assert [each.path for each in result.conflicts] == [each.path for each in expected.conflicts]
    assert identical(here["m"], kind(**plain["m"]))
    assert is_stored_as_new(here)


@kinds
@given(base=fields, ours=fields, theirs=fields, side=st.sampled_from(["ours", "theirs"]))
def test_conflicts_of_fields_are_decided_one_by_one(kind, base, ours, theirs, side):
    here, there = forked(kind(**base), kind(**ours), kind(**theirs), {})
    plain, other = forked(base, ours, theirs, {})
    for state, branch in ((here, there), (plain, other)):
        for conflict in state.merge(branch).conflicts:
            state.resolve_conflict(conflict.path, take=side)
        state.commit()

    assert identical(here["m"], kind(**plain["m"]))
    assert is_stored_as_new(here)


@kinds
@given(old=fields, new=fields)
def test_models_differ_as_dicts_of_their_fields(kind, old, new):
    here, there = forked(kind(**old), kind(**new), kind(**old), {})
    plain, other = forked(old, new, old, {})

    found, expected = here.diff(there.head, here.head), plain.diff(other.head, plain.head)

    assert [(each.kind, each.path) for each in found] == [
        (each.kind, each.path) for each in expected
    ]
    assert all(identical(a.new, b.new) for a, b in zip(found, expected, strict=True))


@kinds
@given(old=fields, name=st.sampled_from("abc"), value=values, is_held=st.booleans())
def test_a_field_can_be_set_by_its_path(kind, old, name, value, is_held):
    state, _ = forked(kind(**old), kind(**old), kind(**old), {})
    again = state.repo.session("s")
    if is_held:
        assert identical(again["m"], kind(**old))

    again[f"m/{name}"] = value

    assert identical(again[f"m/{name}"], value)
    assert identical(again["m"], kind(**{**old, name: value}))
    assert is_stored_as_new(again)
    again.commit()
    assert identical(again.at("@")["m"], again["m"])


extras = st.dictionaries(st.sampled_from("uvw"), st.integers(0, 3), max_size=3)


@MANY
@given(base=extras, ours=extras, theirs=extras)
def test_extra_attributes_merge_as_dicts_do(base, ours, theirs):
    rest = dict.fromkeys("abc")
    models = [Open(**rest, **more) for more in (base, ours, theirs)]
    here, there = forked(models[0], models[1], models[2], {})
    plain, other = forked(base, ours, theirs, {})

    result, expected = here.merge(there), plain.merge(other)

    assert [each.path for each in result.conflicts] == [each.path for each in expected.conflicts]
    assert identical(here["m"].__pydantic_extra__, plain["m"])
    assert here["m"].__pydantic_fields_set__ >= {*"abc", *plain["m"]}
    assert is_stored_as_new(here)


names = st.sets(st.sampled_from("abc"))


class Optional(pydantic.BaseModel):
    a: int = 0
    b: int = 0
    c: int = 0


@given(base=names, ours=names, theirs=names)
def test_a_field_was_set_if_a_side_says_so(base, ours, theirs):
    models = [Optional(**dict.fromkeys(each, 0)) for each in (base, ours, theirs)]
    here, there = forked(models[0], models[1], models[2], {})

    result = here.merge(there)

    added, gone = (ours | theirs) - base, base - (ours & theirs)
    assert result.ok
    assert here["m"].__pydantic_fields_set__ == (base | added) - gone
    assert is_stored_as_new(here)
