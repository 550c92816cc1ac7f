"""Sparse matrices come back in their layout, part by part."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse  # type: ignore[import-untyped]

import otolith
from otolith.errors import Corrupt, UnknownType
from otolith.types import Tag
from tests.unit.codecs.storing import again, damaged, data_of, encoded, lift

DENSE = np.array([[0, 1.5, 0, 0], [2.5, 0, 0, -1]])
LAYOUTS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
KINDS = [getattr(sparse, f"{layout}_{sort}") for layout in LAYOUTS for sort in ("matrix", "array")]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def assert_same(back, value):
    assert type(back) is type(value)
    assert back.shape == value.shape
    assert back.dtype == value.dtype
    assert np.array_equal(back.toarray(), value.toarray())


@every_kind
@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.bool_, np.complex64])
def test_matrices_come_back_as_they_were(kind, dtype):
    value = kind(DENSE.astype(dtype))

    assert_same(again(value), value)
    assert encoded(again(value)) == encoded(value)


@every_kind
def test_matrices_without_values_come_back(kind):
    for shape in [(3, 5), (1, 1)]:
        assert_same(again(kind(np.zeros(shape))), kind(np.zeros(shape)))


@every_kind
def test_a_matrix_comes_back_through_a_repo(kind):
    value = kind(np.eye(300))
    repo = otolith.open("memory:")
    session = repo.session("a")
    session["m"] = value
    session.commit("kept")

    assert_same(repo.session("a")["m"], value)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.coo_array, sparse.dok_array])
def test_arrays_of_one_axis_come_back(kind):
    assert_same(again(kind(DENSE[1])), kind(DENSE[1]))


def test_arrays_of_three_axes_come_back():
    value = sparse.coo_array(np.arange(8.0).reshape(2, 2, 2))

    assert_same(again(value), value)


def test_indices_keep_their_order_their_dtype_and_their_duplicates():
    value = sparse.csr_array(
        (np.array([1.0, 0.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3], np.int64)), shape=(1, 3)
    )
    value.indices = value.indices.astype(np.int64)

    back = again(value)

    assert back.indices.tolist() == [2, 0, 2]
    assert back.data.tolist() == [1.0, 0.0, 3.0]
    assert back.indices.dtype == back.indptr.dtype == np.int64


def test_blocks_keep_their_size():
    assert again(sparse.bsr_array(np.eye(6), blocksize=(3, 2))).blocksize == (3, 2)


def test_looking_at_a_matrix_does_not_change_how_it_is_kept():
    value = sparse.coo_array(DENSE).tocsr()
    before = encoded(value)
    assert value.has_sorted_indices
    assert value.has_canonical_format

    assert encoded(value) == before


def test_a_dict_of_keys_has_no_order():
    one, two = sparse.dok_array((2, 2)), sparse.dok_array((2, 2))
    one[0, 0], one[1, 1] = 1.0, 2.0
    two[1, 1], two[0, 0] = 2.0, 1.0

    assert encoded(one) == encoded(two)


def test_a_change_in_place_is_seen():
    value = sparse.csr_array(DENSE)
    before = encoded(value)
    value.data[0] = 9.0

    assert encoded(value) != before


def _bend(kind, **parts):
    return {**data_of(kind(DENSE)), **parts}


@pytest.mark.parametrize(
    "data",
    [
        _bend(sparse.csr_array, indices=np.array([1, 0, 99], np.int32)),
        _bend(sparse.csr_array, indices=np.array([1, 0, -1], np.int32)),
        _bend(sparse.csr_array, indices=np.array([1.0, 0.0, 3.0])),
        _bend(sparse.csr_array, indptr=np.array([0, 1, 99], np.int32)),
        _bend(sparse.csr_array, indptr=np.array([0, 3, 1], np.int32)),
        _bend(sparse.csr_array, indptr=np.array([0, 3], np.int32)),
        _bend(sparse.csr_array, indptr=np.array([], np.int32)),
        _bend(sparse.csr_array, shape=[2**40, 4]),
        _bend(sparse.csr_array, shape=[]),
        _bend(sparse.csr_array, data=np.array([1.0])),
        _bend(sparse.bsr_array, data=np.zeros((1, 0, 2))),
        _bend(sparse.bsr_array, data=np.zeros((2, 3, 2))),
        _bend(sparse.coo_array, coords=[np.array([0, 1, 99])] * 2),
        _bend(sparse.coo_array, coords=[np.array([0, 1, 1])]),
        _bend(sparse.dok_array, coords=[np.array([0, 0, 0])] * 2),
        _bend(sparse.dia_array, offsets=np.array([1, 1, 1], np.int32)),
        _bend(sparse.lil_array, indptr=np.array([0, 99, 3])),
        {"type": "csr_array"},
        {"type": "csr_array", "shape": [1, 1], "data": 1, "indices": 2, "indptr": 3},
    ],
)
def test_parts_that_do_not_fit_are_refused(data):
    with pytest.raises(Corrupt):
        lift(Tag.SPARSE, data)


@given(st.sampled_from(KINDS), st.data())
def test_damaged_data_is_refused_or_is_a_sound_matrix(kind, draw):
    data = data_of(kind(DENSE))
    try:
        value = lift(Tag.SPARSE, draw.draw(damaged(data)))
    except (Corrupt, UnknownType):
        return
    if prod(value.shape) < 10_000:
        value.toarray()
