"""Canonical bytes: one value, one encoding; the edges of what can be kept."""

from __future__ import annotations

import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.codecs import Codecs, identical
from otolith.core.trees.encoding import MAX_DEPTH, Encoding, TooBig
from otolith.errors import BadValue, Error
from otolith.testing import strategies

ENCODING = Encoding(Codecs())


@given(strategies.rich_values())
def test_what_is_encoded_is_decoded(value):
    assert identical(ENCODING.decode(ENCODING.encode(value)), value)


@given(st.dictionaries(strategies.rich_keys(), st.integers(), max_size=6), st.randoms())
def test_the_order_of_a_dict_is_part_of_it(value, chance):
    items = list(value.items())
    chance.shuffle(items)
    is_same = list(map(ENCODING.key, dict(items))) == list(map(ENCODING.key, value))
    assert (ENCODING.encode(dict(items)) == ENCODING.encode(value)) == is_same


@given(st.sets(strategies.rich_keys(), max_size=6))
def test_the_order_of_a_set_does_not_matter(value):
    again: set[object] = set()
    for element in sorted(value, key=repr):
        again.add(element)
    assert ENCODING.encode(again) == ENCODING.encode(value)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, "c0"),
        (True, "c3"),
        (0, "00"),
        (127, "7f"),
        (128, "cc80"),
        (-1, "ff"),
        (-33, "d0df"),
        (2**63 - 1, "cf7fffffffffffffff"),
        (2**64 - 1, "cfffffffffffffffff"),
        (-(2**63), "d38000000000000000"),
        (1.0, "cb3ff0000000000000"),
        (-0.0, "cb8000000000000000"),
        ("é", "a2c3a9"),
        (b"x", "c40178"),
        ([1, []], "920190"),
        ({"a": 2, "b": 1}, "82a16102a16201"),
        ({"b": 1, "a": 2}, "82a16201a16102"),
        ({1: 0, "z": 0, "": 0}, "830100a17a00a000"),
    ],
)
def test_plain_data_is_messagepack_in_its_shortest_form(value, data):
    assert ENCODING.encode(value).hex() == data


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**63), -(2**63) - 1])
def test_ints_at_the_edges_of_64_bits_come_back(value):
    again = ENCODING.decode(ENCODING.encode(value))
    assert (again, type(again)) == (value, int)


@pytest.mark.parametrize("bits", ["7ff8000000000000", "fff8000000000123", "7ff8000000000001"])
def test_a_nan_has_its_bits_again(bits):
    odd = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert math.isnan(odd)
    for value in ([odd], {"a": odd, "b": [1, odd]}, [(odd,)]):
        assert bits in ENCODING.encode(value).hex()
    assert struct.pack(">d", ENCODING.decode(ENCODING.encode(odd))).hex() == bits


def test_two_keys_that_are_stored_alike_are_refused():
    with pytest.raises(BadValue, match="NaN"):
        ENCODING.encode({float("nan"): 1, float("nan"): 2})
    alone = ENCODING.decode(ENCODING.encode({math.nan: 1}))
    assert identical(alone, {math.nan: 1})


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d\ude00"])
def test_lone_surrogates_come_back_in_values_and_keys(text):
    assert ENCODING.decode(ENCODING.encode({text: [text]})) == {text: [text]}


def test_keys_sort_strings_first_by_code_point():
    keys = [b"x", 5, "z", "é", "a", None, "\U0001f600", "\uffff"]
    found = sorted(keys, key=ENCODING.key)
    assert found[:5] == ["a", "z", "é", "\uffff", "\U0001f600"]


@given(strategies.rich_keys())
def test_a_key_comes_back_from_its_key_bytes(key):
    assert identical(ENCODING.unkey(ENCODING.key(key)), key)


@pytest.mark.parametrize("key", [[], {}, set(), ([],)])
def test_what_cannot_be_hashed_is_no_key(key):
    with pytest.raises(BadValue, match="cannot be a key"):
        ENCODING.key(key)


def nested(depth, kind):
    value = 0
    for _ in range(depth):
        value = kind(value)
    return value


@pytest.mark.parametrize(
    "kind",
    [lambda value: [value], lambda value: {"k": value}, lambda value: (value,)],
    ids=["list", "dict", "tuple"],
)
def test_the_depth_of_a_value_has_a_limit(kind):
    deep = nested(90, kind)
    assert identical(ENCODING.decode(ENCODING.encode(deep)), deep)
    with pytest.raises(BadValue, match=f"deeper than {MAX_DEPTH}"):
        ENCODING.encode(nested(MAX_DEPTH + 1, kind))


def test_the_part_that_cannot_be_kept_is_named():
    with pytest.raises(BadValue, match="at a/1/b"):
        ENCODING.encode({"x": 1, "a": [1, {"b": object()}]})


def test_a_value_that_is_certain_to_be_too_long_is_not_encoded():
    with pytest.raises(TooBig):
        ENCODING.encode(list(range(1000)), limit=100)


@given(st.binary(max_size=30))
def test_any_bytes_are_decoded_or_refused_by_an_error_of_our_own(data):
    with suppress(Error):
        ENCODING.decode(data)


@given(strategies.rich_keys(), strategies.rich_values(), st.lists(strategies.rich_values()))
def test_containers_are_cut_into_the_encodings_of_their_parts(key, value, more):
    data = ENCODING.encode({key: value})
    assert ENCODING.split_map(data) == {ENCODING.key(key): ENCODING.encode(value)}
    assert ENCODING.split_list(ENCODING.encode(more)) == [ENCODING.encode(part) for part in more]
