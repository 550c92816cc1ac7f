"""The arrays that pandas adds to those of numpy, each as the arrays it is made of.

    IntegerArray, FloatingArray, BooleanArray   data, mask (or None); data is 0 under the mask
    Categorical            codes, categories, ordered
    DatetimeArray          data (datetime64, UTC where there is a zone), zone
    TimedeltaArray         data (timedelta64)
    PeriodArray            data (int64), freq
    IntervalArray          left, right, closed
    SparseArray            values, positions, length, fill, kind ("integer", "block")
    ArrowExtensionArray    data (a ChunkedArray of Arrow)
    NumpyExtensionArray    data
    StringArray            storage, na, lengths, missing, groups: buffers as in `buffers`

Buffers of Arrow's strings are passed on without copying where the strings lie in one piece.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from pandas._libs.sparse import IntIndex  # type: ignore[import-untyped]

from otolith.codecs.base import Form, FormLayout, require
from otolith.codecs.buffers import (
    join_chunks,
    pack_string_buffer,
    pack_strings,
    string_ends,
    unpack_strings,
    with_gaps,
)
from otolith.codecs.pandas.dtypes import UNITS, lift_zone, lower_zone, string_dtype, string_options
from otolith.errors import UnknownType
from otolith.types import Piece

_BEYOND_ASCII = 0x80
_MASKED = (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)


def unwrapped(array: Any) -> Any:
    """Return the array of numpy where pandas only wraps it."""
    return array.to_numpy() if type(array) is pd.arrays.NumpyExtensionArray else array


def _check_column(array: Any, kinds: str = "") -> None:
    fits = array.ndim == 1 and (not kinds or array.dtype.kind in kinds)
    require(fits, f"not a column of the right type: {array.dtype}, {array.ndim} dimensions")


def _lower_masked(array: Any) -> Form:
    """Return the data and the mask of a nullable array, normalized."""
    data, mask = array._data, array._mask  # noqa: SLF001  # nothing public gives them uncopied
    if not mask.any():
        return {"data": data, "mask": None}
    # What is under the mask is left over from some computation and not part of the value.
    return {"data": np.where(mask, data.dtype.type(0), data), "mask": mask}


def _lift_masked(kind: Any, data: Any, mask: Any) -> object:
    _check_column(data)
    require(mask is None or mask.any(), "a mask masks nothing")
    return kind(data, np.zeros(len(data), bool) if mask is None else mask)


def _lift_categorical(codes: Any, categories: Any, ordered: bool) -> object:  # noqa: FBT001
    _check_column(codes, "i")
    return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(categories, ordered))


def _lower_datetimes(array: Any) -> Form:
    return {"data": array.asi8.view(f"M8[{array.unit}]"), "zone": lower_zone(array.tz)}


def _lift_datetimes(data: Any, described: object) -> object:
    unit, zone = _checked_unit(data, "M"), lift_zone(described)
    if zone is None:
        return pd.array(data, dtype=data.dtype, copy=False)
    dtype = pd.DatetimeTZDtype(unit, zone)
    # As datetimes these would be taken for what the clock shows; as numbers they are UTC.
    return pd.array(data.view(np.int64), dtype=dtype, copy=False)


def _lift_timedeltas(data: Any) -> object:
    _checked_unit(data, "m")
    return pd.array(data, dtype=data.dtype, copy=False)


def _checked_unit(data: Any, kind: str) -> str:
    """Return the unit of datetimes or timedeltas, once it is one that pandas has."""
    _check_column(data, kind)
    unit, count = np.datetime_data(data.dtype)
    require(unit in UNITS and count == 1 and data.dtype.isnative, f"pandas has no {data.dtype}")
    return unit


def _lift_periods(data: Any, freq: Any) -> object:
    _check_column(data)
    require(data.dtype == np.int64, "periods are not stored as numbers")
    return pd.arrays.PeriodArray(data, dtype=pd.PeriodDtype(freq))


def _lower_sparse(array: Any) -> Form:
    return {
        "values": array.sp_values,
        "positions": array.sp_index.to_int_index().indices,
        "length": len(array),
        "fill": array.fill_value,
        "kind": array.kind,
    }


def _lift_sparse(values: Any, positions: Any, length: int, fill_value: Any, kind: str) -> object:
    _check_column(values)
    require(positions.dtype == np.int32 and 0 <= length < 2**31, "positions are not 32-bit numbers")
    require(kind in ("integer", "block") and len(values) == len(positions), "not a sparse array")
    index = IntIndex(length, positions)
    placed = index if kind == "integer" else index.to_block_index()
    dtype = pd.SparseDtype(values.dtype, fill_value)
    # What is public for this is deprecated in one version of pandas and absent in another.
    return pd.arrays.SparseArray._simple_new(values, placed, dtype)  # noqa: SLF001


def _lift_arrow(data: Any) -> object:
    require(type(data).__name__ == "ChunkedArray", "not a column of Arrow")
    return pd.ArrowDtype(data.type).__from_arrow__(data)


def _lift_wrapped(data: Any) -> object:
    _check_column(data)
    return pd.arrays.NumpyExtensionArray(data)


# Strings


def _lower_strings(array: Any) -> Form:
    """Return strings as buffers, whichever way pandas stores them."""
    storage, na = string_options(array.dtype)
    buffers = _pack_arrow(array) if storage == "pyarrow" else _pack_python(array)
    return {"storage": storage, "na": na, **buffers}


def _pack_python(array: Any) -> Form:
    values = np.asarray(array, dtype=object).tolist()
    if set(map(type, values)) == {str}:
        return pack_strings(values)
    missing = np.fromiter((not isinstance(each, str) for each in values), np.uint8, len(values))
    return pack_strings([str(each) if isinstance(each, str) else "" for each in values], missing)


def _pack_arrow(array: Any) -> Form:
    """Return the buffers of Arrow, without a copy where they are in one piece."""
    import pyarrow as pa  # type: ignore[import-untyped]

    whole = array.__arrow_array__().cast(pa.large_string())
    strings = whole.chunk(0) if whole.num_chunks == 1 else whole.combine_chunks()
    missing = np.zeros(len(strings), np.uint8)
    if strings.null_count:
        missing = strings.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
    _, offsets, data = strings.buffers()
    if not len(strings):
        return pack_strings([])
    ends = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    if np.diff(ends)[missing != 0].any():  # there are bytes under a null
        return _pack_python(array)
    return pack_string_buffer(ends, memoryview(b"" if data is None else data), missing)


def _lift_strings(storage: str, na: str, lengths: Any, missing: Any, groups: Any) -> object:
    dtype = string_dtype(storage, na)
    form = {"lengths": lengths, "missing": missing, "groups": groups}
    if storage == "pyarrow":
        return _unpack_arrow(form, dtype)
    strings, gaps = unpack_strings(form, gaps=1)
    return pd.array(with_gaps(strings, gaps, lambda _: dtype.na_value), dtype=dtype, copy=False)


def _unpack_arrow(form: Form, dtype: Any) -> object:
    """Return an array over the stored buffers, once they are known to be strings."""
    import pyarrow as pa

    ends, missing = string_ends(form, gaps=1)
    groups = form["groups"]
    data = groups.view if type(groups) is Piece else b"".join(map(join_chunks, groups))
    present = None if missing is None else np.packbits(missing == 0, bitorder="little")
    buffers = [each if each is None else pa.py_buffer(each) for each in (present, ends, data)]
    strings = pa.Array.from_buffers(pa.large_string(), len(ends) - 1, buffers)
    if len(data) and np.frombuffer(data, np.uint8).max() >= _BEYOND_ASCII:
        strings.validate(full=True)  # the ends were checked already; this checks the UTF-8
    return dtype.__from_arrow__(strings)


def _string_arrays() -> tuple[type, ...]:
    kinds = {pd.arrays.StringArray, pd.arrays.ArrowStringArray}
    for storage in ("python", "pyarrow"):
        # Some versions of pandas have another class for NaN; some need pyarrow to tell.
        with suppress(UnknownType, ImportError):
            kinds.add(string_dtype(storage, "nan").construct_array_type())
    return tuple(kinds)


_NUMPY = np.ndarray
_OPTIONAL = (np.ndarray, type(None))

LAYOUTS = (
    *(
        FormLayout(
            kind, partial(_lift_masked, kind), {"data": _NUMPY, "mask": _OPTIONAL}, _lower_masked
        )
        for kind in _MASKED
    ),
    FormLayout(
        pd.Categorical,
        _lift_categorical,
        {"codes": _NUMPY, "categories": pd.Index, "ordered": bool},
    ),
    FormLayout(
        pd.arrays.DatetimeArray, _lift_datetimes, {"data": _NUMPY, "zone": object}, _lower_datetimes
    ),
    FormLayout(
        pd.arrays.TimedeltaArray,
        _lift_timedeltas,
        {"data": _NUMPY},
        lambda array: {"data": array.asi8.view(f"m8[{array.unit}]")},
    ),
    FormLayout(
        pd.arrays.PeriodArray,
        _lift_periods,
        {"data": _NUMPY, "freq": pd.offsets.BaseOffset},
        lambda array: {"data": array.asi8, "freq": array.freq},
    ),
    FormLayout(
        pd.arrays.IntervalArray,
        pd.arrays.IntervalArray.from_arrays,
        {"left": pd.Index, "right": pd.Index, "closed": str},
    ),
    FormLayout(
        pd.arrays.SparseArray,
        _lift_sparse,
        {"values": _NUMPY, "positions": _NUMPY, "length": int, "fill": object, "kind": str},
        _lower_sparse,
    ),
    FormLayout(
        pd.arrays.ArrowExtensionArray,
        _lift_arrow,
        {"data": object},
        lambda array: {"data": array.__arrow_array__()},
    ),
    FormLayout(
        pd.arrays.NumpyExtensionArray,
        _lift_wrapped,
        {"data": _NUMPY},
        lambda array: {"data": array.to_numpy()},
    ),
    FormLayout(
        _string_arrays(),
        _lift_strings,
        {
            "storage": str,
            "na": str,
            "lengths": _NUMPY,
            "missing": _OPTIONAL,
            "groups": (list, Piece),
        },
        _lower_strings,
        name="StringArray",
    ),
)
