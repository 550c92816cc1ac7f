"""The physical form of an object."""

from __future__ import annotations

from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from otolith.stores.sqlite.delta import (
    DEPTH_LIMIT,
    PATCH,
    SPLICE,
    DamagedRow,
    StoredObject,
    base_of,
    common_prefix,
    common_suffix,
    decode,
    depth_of,
    encode,
    kind_of,
)

NOISE = b"".join(bytes([a ^ b for b in range(0, 256, 7)]) for a in range(120))


def restored(row, base):
    return decode(row, base.data if base_of(row) is not None else b"")


@given(st.binary(max_size=400), st.binary(max_size=400), st.binary(max_size=400), st.binary())
def test_what_is_encoded_is_decoded(head, old, new, tail):
    base = StoredObject(1 << 33, 3, head + old + tail)
    row = encode(head + new + tail, base)
    assert restored(row, base) == head + new + tail
    assert base_of(row) in {None, base.id}


def test_a_small_change_is_a_small_splice():
    base = StoredObject(7, 0, b"head" + NOISE)
    row = encode(b"HEAD" + NOISE[:900] + b"sixty bytes" * 5 + NOISE[960:], base)
    assert (kind_of(row), depth_of(row), base_of(row)) == (SPLICE, 1, 7)
    assert len(row) < 60 + 16


def test_changes_in_several_places_are_a_patch():
    base = StoredObject(7, 0, b"head" + NOISE)
    data = bytearray(base.data)
    for place in range(100, len(data), 700):
        data[place] ^= 255
    row = encode(bytes(data), base)
    assert kind_of(row) == PATCH
    assert len(row) < 150
    assert restored(row, base) == data


def test_a_chain_ends_at_its_limit():
    row = encode(b"HEAD" + NOISE, StoredObject(7, DEPTH_LIMIT, b"head" + NOISE))
    assert base_of(row) is None


def test_a_frame_that_claims_too_much_is_not_believed():
    huge = zstandard.ZstdCompressor().compress(bytes(65 << 20))
    with pytest.raises(DamagedRow, match="claims"):
        decode(b"\x01" + huge, b"")


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_a_damaged_row_is_damaged_or_other_bytes_but_never_a_crash(row, base):
    with suppress(DamagedRow):
        decode(row, base)


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=300))
def test_the_common_ends_are_the_longest(shared, one, other):
    a, b = shared + one, shared + other
    most = min(len(a), len(b))
    naive = next((at for at in range(most) if a[at] != b[at]), most)
    assert common_prefix(a, b, 0, most) == naive
    assert common_suffix(a[::-1], b[::-1], most) == naive
