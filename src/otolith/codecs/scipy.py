"""Sparse matrices and arrays of scipy, stored as the arrays they consist of.

Forms (they never change, see `docs/reference/format-v1.md`)

    SPARSE  {"type": "csr_array" and the like, "shape": [int], ...} and, by the layout,

    csr, csc, bsr   data, indices, indptr
    coo             data; coords: [one array for each axis]
    dia             data, offsets
    lil             data, indices, indptr: those of the rows, one after another
    dok             data; coords: [one array for each axis], sorted

These are numpy arrays, just as the matrix holds them: in the order and with the dtypes it has them,
duplicates and explicit zeros included. Whether indices are sorted, or free of duplicates, is not
stored: it can be computed from them, and scipy does when it needs to know.

What is read is checked before scipy sees it, because the loops of scipy trust their indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse  # type: ignore[import-untyped]

from otolith.codecs.base import Form, FormCodec, FormLayout, require
from otolith.types import Tag

Array: TypeAlias = npt.NDArray[Any]


def _lower_arrays(*names: str) -> Callable[[Any], Form]:
    """Return the function that lowers a matrix to its shape and the arrays with these names."""

    def lower(value: Any) -> Form:
        arrays = {name: np.asarray(getattr(value, name)) for name in names}
        return {"shape": list(value.shape), **arrays}

    return lower


# Compressed: csr, csc, bsr


def _lift_compressed(
    name: str, lengths: list[Any], data: Array, indices: Array, indptr: Array
) -> object:
    shape = _checked_shape(lengths, data, indices, indptr)
    across, along = (1, *shape)[-2:]
    if name.startswith("csc"):
        across, along = along, across
    blocks = (1, 1) if data.ndim == 1 else data.shape[1:]
    require(data.ndim == (3 if name.startswith("bsr") else 1), "blocks are not blocks")
    require(all(blocks) and not across % blocks[0] and not along % blocks[1], "blocks do not fit")
    _check_pointers(indices, indptr, across // blocks[0], along // blocks[1])
    made = getattr(sparse, name)((data, indices, indptr), shape=shape)
    # Its constructor may have chosen other integers for the indices.
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def _checked_shape(
    lengths: list[Any], data: Array, indices: Array, indptr: Array
) -> tuple[int, ...]:
    _check_indices(indices, indptr)
    require(len(data) == len(indices), "there are not as many values as indices")
    return _shape(lengths)


def _check_pointers(indices: Array, indptr: Array, across: int, along: int) -> None:
    """Check that rows ascend, end inside of the indices, and that indices are inside of a row."""
    require(len(indptr) == across + 1, f"{across} rows have {len(indptr)} ends")
    require(indptr[0] == 0 and indptr[-1] <= len(indices), "rows end outside the matrix")
    require((indptr[:-1] <= indptr[1:]).all(), "a row ends before it starts")
    _check_bounds(indices, along)


# By coordinates: coo, dok


def _lower_coo(value: Any) -> Form:
    return {
        "shape": list(value.shape),
        "data": np.asarray(value.data),
        "coords": [np.asarray(axis) for axis in _coords(value)],
    }


def _lower_dok(value: Any) -> Form:
    coo = value.tocoo()
    coords = [np.asarray(axis, np.int64) for axis in _coords(coo)]
    # The order of a dict is not part of the value.
    order = np.lexsort(coords[::-1])
    return {
        "shape": list(value.shape),
        "data": np.asarray(coo.data)[order],
        "coords": [axis[order] for axis in coords],
    }


def _lift_coo(name: str, lengths: list[Any], data: Array, coords: list[Any]) -> Any:
    shape = _shape(lengths)
    require(data.ndim == 1 and len(coords) == len(shape), "there are not as many axes as lengths")
    _check_indices(*coords)
    for axis, length in zip(coords, shape, strict=True):
        require(len(axis) == len(data), "there are not as many values as coordinates")
        _check_bounds(axis, length)
    kind = getattr(sparse, name.replace("dok", "coo"))
    made = kind((data, tuple(coords)), shape=shape)
    made.data = data
    if hasattr(made, "coords"):
        made.coords = tuple(coords)
    else:
        made.row, made.col = coords
    return made


def _lift_dok(name: str, lengths: list[Any], data: Array, coords: list[Any]) -> object:
    made = _lift_coo(name, lengths, data, coords).todok()
    require(made.nnz == len(data), "a place has two values")
    return made


def _coords(coo: Any) -> Any:
    """Return the coordinates; scipy before 1.13 has two attributes for them."""
    return coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)


# By diagonals and by rows: dia, lil


def _lift_dia(name: str, lengths: list[Any], data: Array, offsets: Array) -> object:
    shape = _shape(lengths)
    _check_indices(offsets)
    require(data.ndim == 2 and len(data) == len(offsets), "diagonals and offsets differ in number")
    require(max(shape) <= np.iinfo(offsets.dtype).max, "offsets are too short for the shape")
    require(len(np.unique(offsets)) == len(offsets), "a diagonal is there twice")
    made = getattr(sparse, name)((data, offsets), shape=shape)
    made.data, made.offsets = data, offsets
    return made


def _lower_lil(value: Any) -> Form:
    lengths = [len(row) for row in value.rows]
    return {
        "shape": list(value.shape),
        "data": np.array(list(chain.from_iterable(value.data)), value.dtype),
        "indices": np.array(list(chain.from_iterable(value.rows)), np.int64),
        "indptr": np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))),
    }


def _lift_lil(name: str, lengths: list[Any], data: Array, indices: Array, indptr: Array) -> object:
    shape = _checked_shape(lengths, data, indices, indptr)
    require(data.ndim == 1 and len(shape) == 2, "lists of rows are not those of a matrix")
    _check_pointers(indices, indptr, *shape)
    made = getattr(sparse, name)(shape, dtype=data.dtype)
    for row, (start, stop) in enumerate(pairwise(indptr)):
        made.rows[row], made.data[row] = indices[start:stop].tolist(), data[start:stop].tolist()
    return made


# Checks


def _shape(lengths: list[Any]) -> tuple[int, ...]:
    """Return a shape, once it is a list of lengths."""
    is_shape = lengths and all(type(n) is int and 0 <= n < 2**63 for n in lengths)
    require(is_shape, "a shape is not a list of lengths")
    return tuple(lengths)


def _check_indices(*arrays: Array) -> None:
    """Check that arrays are one-dimensional, and of an integer type that scipy uses."""
    for array in arrays:
        sound = type(array) is np.ndarray and array.ndim == 1 and array.dtype in _INTEGERS
        require(sound, "indices are not integers in one row")


def _check_bounds(indices: Array, length: int) -> None:
    require(
        not len(indices) or (indices.min() >= 0 and indices.max() < length),
        f"an index is outside 0 to {length}",
    )


_INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
_COMPRESSED = {"shape": list, "data": np.ndarray, "indices": np.ndarray, "indptr": np.ndarray}
_COORDINATES = {"shape": list, "data": np.ndarray, "coords": list}
_DIAGONALS = {"shape": list, "data": np.ndarray, "offsets": np.ndarray}
_LAYOUTS: dict[str, tuple[Callable[..., object], Mapping[str, type], Callable[[Any], Form]]] = {
    "csr": (_lift_compressed, _COMPRESSED, _lower_arrays("data", "indices", "indptr")),
    "csc": (_lift_compressed, _COMPRESSED, _lower_arrays("data", "indices", "indptr")),
    "bsr": (_lift_compressed, _COMPRESSED, _lower_arrays("data", "indices", "indptr")),
    "coo": (_lift_coo, _COORDINATES, _lower_coo),
    "dok": (_lift_dok, _COORDINATES, _lower_dok),
    "dia": (_lift_dia, _DIAGONALS, _lower_arrays("data", "offsets")),
    "lil": (_lift_lil, _COMPRESSED, _lower_lil),
}

CODEC = FormCodec(
    Tag.SPARSE,
    (
        FormLayout(getattr(sparse, name), partial(lift, name), parts, lower)
        for layout, (lift, parts, lower) in _LAYOUTS.items()
        for name in (f"{layout}_matrix", f"{layout}_array")
    ),
)
