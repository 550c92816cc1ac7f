"""The quick way to encode plain data and the thorough one give the same bytes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.codecs import Codecs
from otolith.core.trees.encoding import MAX_DEPTH, Encoding, TooBig, encode_plain

ENCODING = Encoding(Codecs())
UNLIMITED = 1 << 62

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text()
    | st.binary(max_size=80)
    | st.tuples(st.integers())
)
KEYS = st.text() | st.integers() | st.booleans()
VALUES = st.recursive(ATOMS, lambda parts: st.lists(parts) | st.dictionaries(KEYS, parts))


def thoroughly(value: object) -> bytes:
    return ENCODING._pack(ENCODING._plain(value, 0, [UNLIMITED]))


@given(VALUES)
def test_both_ways_give_the_same_bytes(value):
    quick = encode_plain(value, UNLIMITED) if type(value) in (list, dict) else None

    assert quick is None or quick == thoroughly(value)


@given(
    st.recursive(
        st.integers(0, 9) | st.text(), lambda p: st.lists(p) | st.dictionaries(st.text(), p)
    )
)
def test_plain_data_takes_the_quick_way(value):
    assert type(value) not in (list, dict) or encode_plain(value, UNLIMITED) == thoroughly(value)


@pytest.mark.parametrize(
    "value", [[(1,)], [2**64], [-(2**63) - 1], {1: 2}, ["\ud800"], [b"", bytearray()]]
)
def test_what_c_would_write_otherwise_goes_the_other_way(value):
    assert encode_plain(value, UNLIMITED) is None


def test_a_nan_has_its_bits_either_way():
    value = [math.nan, -math.nan]
    assert encode_plain(value, UNLIMITED) == thoroughly(value)


def test_what_contains_itself_goes_the_other_way_and_is_refused_there():
    value: list[object] = []
    value.append(value)

    assert encode_plain(value, UNLIMITED) is None


def test_a_value_that_is_too_long_is_told_before_it_is_encoded():
    with pytest.raises(TooBig):
        encode_plain([[1] * 50, [2] * 50], 100)


def test_depth_counts_the_same_either_way():
    value: list[object] = []
    for _ in range(MAX_DEPTH - 1):
        value = [value]

    assert encode_plain(value, UNLIMITED) in (None, thoroughly(value))
