"""Members of enumerations come back by name, and a change of meaning is noticed."""

from __future__ import annotations

from enum import Enum

import pytest

from otolith.codecs import Codecs, Opaque, identical
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.testing import codec_contract
from otolith.types import Tag
from tests.unit.codecs import classes as c

CODECS = Codecs()
HERE = c.__name__


@pytest.mark.parametrize(
    "member",
    [
        *c.Color,
        *c.Level,
        *c.Word,
        *c.Odd,
        *c.Right,
        c.Right.ALL,
        c.Right(0),
        c.Right(3),
        c.Bits(3),
        c.Bits(0),
        c.Bits(9),
    ],
    ids=repr,
)
def test_a_member_comes_back_as_itself(member):
    lifted = codec_contract.walk_up(codec_contract.walk_down(member, CODECS), CODECS)

    assert identical(lifted, member)


def test_the_form_is_type_name_and_value():
    assert CODECS.lower(c.Color.GREEN) == (Tag.ENUM, [f"{HERE}:Color", "GREEN", "g"])
    assert CODECS.lower(c.Right.WRITE | c.Right.READ).data == [
        f"{HERE}:Right",
        ["READ", "WRITE"],
        3,
    ]
    assert CODECS.lower(c.Right.ALL).data == [f"{HERE}:Right", "ALL", 7]


def test_a_former_name_that_is_now_an_alias_is_understood():
    assert CODECS.lift(Tag.ENUM, [f"{HERE}:Color", "ALSO_RED", 1]) is c.Color.RED


@pytest.mark.parametrize(
    "data",
    [
        [f"{HERE}:Color", "BLUE", 1],
        [f"{HERE}:Color", "RED", 2],
        [f"{HERE}:Color", "RED", True],
        [f"{HERE}:Color", ["RED"], 1],
        [f"{HERE}:Right", ["READ", "RUN"], 3],
        [f"{HERE}:Right", ["READ"], 9],
        [f"{HERE}:Step", "RED", 1],
        ["nowhere:Color", "RED", 1],
    ],
    ids=repr,
)
def test_a_member_that_means_something_else_now_is_unknown(data):
    with pytest.raises(UnknownType) as raised:
        CODECS.lift(Tag.ENUM, data)

    assert "opaque=True" in raised.value.hint


@pytest.mark.parametrize(
    "data",
    [
        None,
        [f"{HERE}:Color", "RED"],
        [1, "RED", 1],
        [f"{HERE}:Right", [1], 1],
        [f"{HERE}:Right", ["READ", "WRITE"], "3"],
        [f"{HERE}:Color", None, 1],
    ],
    ids=repr,
)
def test_data_in_another_form_is_corrupt(data):
    with pytest.raises(Corrupt):
        CODECS.lift(Tag.ENUM, data)


def test_a_tool_carries_a_member_it_does_not_know():
    tool = Codecs(opaque=True)
    lifted = tool.lift(Tag.ENUM, ["nowhere:Color", "RED", 1])

    assert isinstance(lifted, Opaque)
    assert (lifted.type_name, lifted.fields) == ("nowhere:Color", ["RED", 1])
    assert tool.lower(lifted) == (Tag.ENUM, ["nowhere:Color", "RED", 1])


def test_a_local_enumeration_is_refused():
    local = Enum("local", "A B", qualname="f.<locals>.local")

    with pytest.raises(BadValue, match="local to a function"):
        CODECS.lower(local.A)
