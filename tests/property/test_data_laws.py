"""Arrays and frames of every kind come back from a store as they were."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given

import otolith
from otolith.codecs import Codecs, identical
from otolith.testing import walk_down
from tests.unit.codecs import data

CODECS = Codecs()


def returned(value):
    repo = otolith.open("memory:")
    session = repo.session("a")
    session["value"] = value
    session.commit()
    return repo.session("a")["value"]


@given(data.arrays())
def test_an_array_comes_back_bit_by_bit(array):
    assert data.same(returned(array), array)


@given(data.scalars())
def test_a_scalar_of_numpy_comes_back_with_its_type(value):
    assert data.same(returned(value), value)


@given(data.pandas_values())
def test_what_pandas_holds_comes_back_in_every_respect(value):
    assert data.same(returned(value), value)


@given(data.arrays() | data.pandas_values())
def test_a_copy_and_what_comes_back_are_stored_like_the_first(value):
    lowered = walk_down(value, CODECS)

    assert identical(walk_down(deepcopy(value), CODECS), lowered)
    assert identical(walk_down(returned(value), CODECS), lowered)
