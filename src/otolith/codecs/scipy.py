"""Sparse matrices and arrays of scipy, kept as the arrays they consist of.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    SPARSE  {"type": "csr_array" and the like, "shape": [int], ...} and, by the layout,

    csr, csc, bsr   data, indices, indptr
    coo             data; coords: [one array for each axis]
    dia             data, offsets
    lil             data, indices, indptr: those of the rows, one after another
    dok             data; coords: [one array for each axis], sorted

These are numpy arrays, just as the matrix holds them: in the order and with the dtypes it has them,
duplicates and explicit zeros included. Whether indices are sorted, or free of duplicates, is not
kept: it can be seen from them, and scipy looks when it needs to know.

What is read is checked before scipy sees it, because scipy's loops trust their indices.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse  # type: ignore[import-untyped]

from otolith.codecs.base import Form, Forming, Forms, Reading, check, demand
from otolith.types import Tag

Array: TypeAlias = npt.NDArray[Any]


# Compressed: csr, csc, bsr


def _form_compressed(value: Any) -> Form:
    return {
        "type": type(value).__name__,
        "shape": list(value.shape),
        "data": np.asarray(value.data),
        "indices": np.asarray(value.indices),
        "indptr": np.asarray(value.indptr),
    }


def _read_compressed(form: Form) -> object:
    shape, data, indices, indptr = _compressed(form)
    across, along = (1, *shape)[-2:]
    if form["type"].startswith("csc"):
        across, along = along, across
    blocks = (1, 1) if data.ndim == 1 else data.shape[1:]
    demand(data.ndim == (3 if form["type"].startswith("bsr") else 1), "blocks are not blocks")
    demand(all(blocks) and not across % blocks[0] and not along % blocks[1], "blocks do not fit")
    _check_pointers(indices, indptr, across // blocks[0], along // blocks[1])
    made = getattr(sparse, form["type"])((data, indices, indptr), shape=shape)
    # Its constructor may have chosen other integers for the indices.
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def _compressed(form: Form) -> tuple[tuple[int, ...], Array, Array, Array]:
    shape, data, indices, indptr = check(
        form, shape=list, data=np.ndarray, indices=np.ndarray, indptr=np.ndarray
    )
    _check_indices(indices, indptr)
    demand(len(data) == len(indices), "there are not as many values as indices")
    return _shape(shape), data, indices, indptr


def _check_pointers(indices: Array, indptr: Array, across: int, along: int) -> None:
    demand(len(indptr) == across + 1, f"{across} rows have {len(indptr)} ends")
    demand(indptr[0] == 0 and indptr[-1] <= len(indices), "rows end outside the matrix")
    demand((indptr[:-1] <= indptr[1:]).all(), "a row ends before it starts")
    _check_bounds(indices, along)


# By coordinates: coo, dok


def _form_coo(value: Any) -> Form:
    return _form_coords(value, np.asarray(value.data), _coords(value))


def _form_dok(value: Any) -> Form:
    coo = value.tocoo()
    coords = [np.asarray(axis, np.int64) for axis in _coords(coo)]
    # A dict has no order of its own.
    order = np.lexsort(coords[::-1])
    return _form_coords(value, np.asarray(coo.data)[order], [axis[order] for axis in coords])


def _form_coords(value: Any, data: Array, coords: Any) -> Form:
    return {
        "type": type(value).__name__,
        "shape": list(value.shape),
        "data": data,
        "coords": [np.asarray(axis) for axis in coords],
    }


def _read_coo(form: Form) -> Any:
    shape, data, coords = check(form, shape=list, data=np.ndarray, coords=list)
    shape = _shape(shape)
    demand(data.ndim == 1 and len(coords) == len(shape), "there are not as many axes as lengths")
    _check_indices(*coords)
    for axis, length in zip(coords, shape, strict=True):
        demand(len(axis) == len(data), "there are not as many values as coordinates")
        _check_bounds(axis, length)
    kind = getattr(sparse, form["type"].replace("dok", "coo"))
    made = kind((data, tuple(coords)), shape=shape)
    made.data = data
    if hasattr(made, "coords"):
        made.coords = tuple(coords)
    else:
        made.row, made.col = coords
    return made


def _read_dok(form: Form) -> object:
    made = _read_coo(form).todok()
    demand(made.nnz == len(form["data"]), "a place has two values")
    return made


def _coords(coo: Any) -> Any:
    return coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)


# By diagonals and by rows: dia, lil


def _form_dia(value: Any) -> Form:
    return {
        "type": type(value).__name__,
        "shape": list(value.shape),
        "data": np.asarray(value.data),
        "offsets": np.asarray(value.offsets),
    }


def _read_dia(form: Form) -> object:
    shape, data, offsets = check(form, shape=list, data=np.ndarray, offsets=np.ndarray)
    _check_indices(offsets)
    demand(data.ndim == 2 and len(data) == len(offsets), "diagonals and offsets differ in number")
    demand(max(_shape(shape)) <= np.iinfo(offsets.dtype).max, "offsets are too short for the shape")
    demand(len(np.unique(offsets)) == len(offsets), "a diagonal is there twice")
    made = getattr(sparse, form["type"])((data, offsets), shape=_shape(shape))
    made.data, made.offsets = data, offsets
    return made


def _form_lil(value: Any) -> Form:
    lengths = [len(row) for row in value.rows]
    return {
        "type": type(value).__name__,
        "shape": list(value.shape),
        "data": np.array(list(chain.from_iterable(value.data)), value.dtype),
        "indices": np.array(list(chain.from_iterable(value.rows)), np.int64),
        "indptr": np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))),
    }


def _read_lil(form: Form) -> object:
    shape, data, indices, indptr = _compressed(form)
    demand(data.ndim == 1 and len(shape) == 2, "lists of rows are not those of a matrix")
    _check_pointers(indices, indptr, *shape)
    made = getattr(sparse, form["type"])(shape, dtype=data.dtype)
    for row, (start, stop) in enumerate(pairwise(indptr)):
        made.rows[row], made.data[row] = indices[start:stop].tolist(), data[start:stop].tolist()
    return made


# Checks


def _shape(lengths: list[object]) -> tuple[int, ...]:
    sound = [n for n in lengths if type(n) is int and 0 <= n < 2**63]
    demand(len(sound) == len(lengths) and lengths, "a shape is not a list of lengths")
    return tuple(sound)


def _check_indices(*arrays: Array) -> None:
    for array in arrays:
        sound = type(array) is np.ndarray and array.ndim == 1 and array.dtype in _INTEGERS
        demand(sound, "indices are not integers in one row")


def _check_bounds(indices: Array, length: int) -> None:
    demand(
        not len(indices) or (indices.min() >= 0 and indices.max() < length),
        f"an index is outside 0 to {length}",
    )


_INTEGERS = (np.dtype(np.int32), np.dtype(np.int64))
_LAYOUTS: dict[str, tuple[Forming, Reading]] = {
    "csr": (_form_compressed, _read_compressed),
    "csc": (_form_compressed, _read_compressed),
    "bsr": (_form_compressed, _read_compressed),
    "coo": (_form_coo, _read_coo),
    "dok": (_form_dok, _read_dok),
    "dia": (_form_dia, _read_dia),
    "lil": (_form_lil, _read_lil),
}
_KINDS = [f"{layout}_{sort}" for layout in _LAYOUTS for sort in ("matrix", "array")]

CODEC = Forms(
    Tag.SPARSE,
    {getattr(sparse, name): _LAYOUTS[name[:3]][0] for name in _KINDS},
    {name: _LAYOUTS[name[:3]][1] for name in _KINDS},
)
