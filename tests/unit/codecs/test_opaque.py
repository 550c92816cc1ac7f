"""A tool that does not know a type can read, carry and write its values without harm."""

from __future__ import annotations

import pytest
from hypothesis import given

from otolith.codecs import Codecs, Opaque, identical
from otolith.errors import Corrupt
from otolith.testing import codec_contract, strategies
from otolith.types import Tag, Tagged

TOOL = Codecs(opaque=True)


def stored(fields, *, name="myapp:User"):
    return Tagged(Tag.MODEL, [name, 2, fields])


def test_it_shows_what_was_stored():
    lifted = TOOL.lift(*stored({"name": "Ada"}))

    assert isinstance(lifted, Opaque)
    assert (lifted.type_name, lifted.version, lifted.fields) == ("myapp:User", 2, {"name": "Ada"})
    assert repr(lifted) == "Opaque('myapp:User', version=2, fields={'name': 'Ada'})"


@given(strategies.rich_values())
def test_it_is_lowered_to_exactly_what_was_stored(content):
    tagged = codec_contract.walk_down(content, TOOL)
    outer = Tagged(
        Tag.MODEL, codec_contract.walk_down(["myapp:User", 2, {"content": content}], TOOL)
    )
    lifted = codec_contract.walk_up(outer, TOOL)

    assert isinstance(lifted, Opaque)
    assert identical(codec_contract.walk_down(lifted, TOOL), outer)
    assert identical(codec_contract.walk_down(lifted, Codecs()), outer)
    assert identical(tagged, codec_contract.walk_down(content, TOOL))


@given(strategies.rich_values())
def test_every_one_can_be_a_key_and_is_found_again(content):
    tagged = codec_contract.walk_down(["myapp:User", 2, {"content": content}], TOOL)
    one, other = (TOOL.lift(Tag.MODEL, codec_contract.walk_up(tagged, TOOL)) for _ in range(2))

    assert one == other
    assert {one: 1}[other] == 1


def test_two_that_would_be_stored_differently_are_two_keys():
    lifted = [TOOL.lift(*stored({"x": x})) for x in (1, True, 1.0, 0.0, -0.0)]

    assert len(set(lifted)) == 5


def test_a_registered_type_and_a_newer_code_are_carried_too():
    money, newer = TOOL.lift(Tag.CUSTOM, ["money", 3, [5]]), TOOL.lift(99, b"?")

    assert isinstance(money, Opaque)
    assert isinstance(newer, Opaque)
    assert (money.type_name, money.version, money.fields) == ("money", 3, [5])
    assert (newer.type_name, newer.version, newer.fields) == ("tag 99", 1, b"?")
    assert [TOOL.lower(money), TOOL.lower(newer)] == [(Tag.CUSTOM, ["money", 3, [5]]), (99, b"?")]


def test_damage_is_not_taken_for_an_unknown_type():
    with pytest.raises(Corrupt):
        TOOL.lift(Tag.MODEL, ["myapp:User", "2", {}])
