"""Where a value could not be kept stands what it was, and stays so through any store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.codecs import Codecs, Lost
from otolith.core import Encoding
from otolith.errors import BadValue, Corrupt, Invalid
from otolith.types import Tag

LOST = Lost("builtins:generator", "cannot store a generator", "store the result")


def test_it_says_what_it_was_and_why():
    assert repr(LOST) == "<lost: builtins.generator, cannot store a generator>"


def test_it_is_made_from_what_was_refused():
    rows = (row for row in [1])
    with pytest.raises(BadValue) as raised:
        Codecs().lower(rows)

    lost = Lost.of(rows, raised.value)

    assert lost == Lost("builtins:generator", raised.value.message, raised.value.hint)
    assert "generator" in lost.why
    assert "store the result" in lost.hint


@given(st.builds(Lost, st.text(), st.text(), st.text()))
def test_it_comes_back_as_it_went_in(lost):
    code, data = Codecs().lower(lost)

    assert (code, data) == (Tag.LOST, [lost.type_name, lost.why, lost.hint])
    assert Codecs().lift(code, data) == lost


@pytest.mark.parametrize("codecs", [Codecs(), Codecs(opaque=True)])
def test_everybody_can_read_it_wherever_it_stands(codecs):
    encoding = Encoding(codecs)

    assert encoding.decode(encoding.encode({"in": [LOST]})) == {"in": [LOST]}


@pytest.mark.parametrize("data", [None, ["a", "b"], ["a", "b", 1], ["a", "b", "c", "d"]])
def test_what_does_not_have_the_form_is_corrupt(data):
    with pytest.raises(Corrupt):
        Codecs().lift(Tag.LOST, data)


def test_its_name_is_not_for_others():
    with pytest.raises(Invalid):
        Codecs().register(Lost, name="mine", lower=repr, lift=lambda _: LOST)


def test_it_cannot_be_changed():
    with pytest.raises(AttributeError):
        LOST.why = "no reason"  # type: ignore[misc]
