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

Strings are in `strings`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from pandas._libs.sparse import IntIndex  # type: ignore[import-untyped]

from otolith.codecs.base import Form, Forming, Reading, check, demand
from otolith.codecs.pandas.dtypes import UNITS, lift_zone, lower_zone

_MASKED: dict[str, Any] = {
    "IntegerArray": pd.arrays.IntegerArray,
    "FloatingArray": pd.arrays.FloatingArray,
    "BooleanArray": pd.arrays.BooleanArray,
}


def plain(array: Any) -> Any:
    """Return numpy's own array where pandas only wraps it."""
    return array.to_numpy() if type(array) is pd.arrays.NumpyExtensionArray else array


def _lower_masked(array: Any) -> Form:
    data, mask = array._data, array._mask  # noqa: SLF001  # nothing public gives them uncopied
    if not mask.any():
        return {"type": type(array).__name__, "data": data, "mask": None}
    # What is under the mask is left over from some computation and not part of the value.
    return {
        "type": type(array).__name__,
        "data": np.where(mask, data.dtype.type(0), data),
        "mask": mask,
    }


def _lift_masked(form: Form) -> object:
    data, mask = check(form, data=np.ndarray, mask=(np.ndarray, type(None)))
    _column(data)
    demand(mask is None or mask.any(), "a mask masks nothing")
    return _MASKED[form["type"]](data, np.zeros(len(data), bool) if mask is None else mask)


def _lower_categorical(array: Any) -> Form:
    return {
        "type": "Categorical",
        "codes": array.codes,
        "categories": array.categories,
        "ordered": array.ordered,
    }


def _lift_categorical(form: Form) -> object:
    kinds = {"categories": pd.Index, "ordered": bool}
    codes, categories, ordered = check(form, codes=np.ndarray, **kinds)
    _column(codes, "i")
    return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(categories, ordered))


def _lower_datetimes(array: Any) -> Form:
    data = array.asi8.view(f"M8[{array.unit}]")
    return {"type": "DatetimeArray", "data": data, "zone": lower_zone(array.tz)}


def _lift_datetimes(form: Form) -> object:
    data, described = check(form, data=np.ndarray, zone=object)
    unit, zone = _ticks(data, "M"), lift_zone(described)
    if zone is None:
        return pd.array(data, dtype=data.dtype, copy=False)
    dtype = pd.DatetimeTZDtype(unit, zone)
    # As datetimes these would be taken for what the clock shows; as numbers they are UTC.
    return pd.array(data.view(np.int64), dtype=dtype, copy=False)


def _lower_timedeltas(array: Any) -> Form:
    return {"type": "TimedeltaArray", "data": array.asi8.view(f"m8[{array.unit}]")}


def _lift_timedeltas(form: Form) -> object:
    (data,) = check(form, data=np.ndarray)
    _ticks(data, "m")
    return pd.array(data, dtype=data.dtype, copy=False)


def _ticks(data: Any, kind: str) -> str:
    """Return the unit of datetimes or spans, once it is one that pandas has."""
    _column(data, kind)
    unit, count = np.datetime_data(data.dtype)
    demand(unit in UNITS and count == 1 and data.dtype.isnative, f"pandas has no {data.dtype}")
    return unit


def _lower_periods(array: Any) -> Form:
    return {"type": "PeriodArray", "data": array.asi8, "freq": array.freq}


def _lift_periods(form: Form) -> object:
    data, freq = check(form, data=np.ndarray, freq=pd.offsets.BaseOffset)
    _column(data)
    demand(data.dtype == np.int64, "periods are not kept as numbers")
    return pd.arrays.PeriodArray(data, dtype=pd.PeriodDtype(freq))


def _lower_intervals(array: Any) -> Form:
    return {
        "type": "IntervalArray",
        "left": array.left,
        "right": array.right,
        "closed": array.closed,
    }


def _lift_intervals(form: Form) -> object:
    left, right, closed = check(form, left=pd.Index, right=pd.Index, closed=str)
    return pd.arrays.IntervalArray.from_arrays(left, right, closed)


def _lower_sparse(array: Any) -> Form:
    return {
        "type": "SparseArray",
        "values": array.sp_values,
        "positions": array.sp_index.to_int_index().indices,
        "length": len(array),
        "fill": array.fill_value,
        "kind": array.kind,
    }


def _lift_sparse(form: Form) -> object:
    arrays: dict[str, Any] = {"values": np.ndarray, "positions": np.ndarray}
    values, positions, length, fill, kind = check(form, **arrays, length=int, fill=object, kind=str)
    _column(values)
    demand(positions.dtype == np.int32 and 0 <= length < 2**31, "not the positions of a few")
    demand(kind in ("integer", "block") and len(values) == len(positions), "not a sparse array")
    index = IntIndex(length, positions)
    placed = index if kind == "integer" else index.to_block_index()
    dtype = pd.SparseDtype(values.dtype, fill)
    # What is public for this is deprecated in one version of pandas and not there in another.
    return pd.arrays.SparseArray._simple_new(values, placed, dtype)  # noqa: SLF001


def _lower_arrow(array: Any) -> Form:
    return {"type": "ArrowExtensionArray", "data": array.__arrow_array__()}


def _lift_arrow(form: Form) -> object:
    (data,) = check(form, data=object)
    demand(type(data).__name__ == "ChunkedArray", "not a column of Arrow")
    return pd.ArrowDtype(data.type).__from_arrow__(data)


def _lower_wrapped(array: Any) -> Form:
    return {"type": "NumpyExtensionArray", "data": array.to_numpy()}


def _lift_wrapped(form: Form) -> object:
    (data,) = check(form, data=np.ndarray)
    _column(data)
    return pd.arrays.NumpyExtensionArray(data)


def _column(array: Any, kinds: str = "") -> None:
    fits = array.ndim == 1 and (not kinds or array.dtype.kind in kinds)
    demand(fits, f"not a column of the right type: {array.dtype}, {array.ndim} dimensions")


LOWER: dict[type, Forming] = {
    **dict.fromkeys(_MASKED.values(), _lower_masked),
    pd.Categorical: _lower_categorical,
    pd.arrays.DatetimeArray: _lower_datetimes,
    pd.arrays.TimedeltaArray: _lower_timedeltas,
    pd.arrays.PeriodArray: _lower_periods,
    pd.arrays.IntervalArray: _lower_intervals,
    pd.arrays.SparseArray: _lower_sparse,
    pd.arrays.ArrowExtensionArray: _lower_arrow,
    pd.arrays.NumpyExtensionArray: _lower_wrapped,
}

LIFT: dict[str, Reading] = {
    **dict.fromkeys(_MASKED, _lift_masked),
    "Categorical": _lift_categorical,
    "DatetimeArray": _lift_datetimes,
    "TimedeltaArray": _lift_timedeltas,
    "PeriodArray": _lift_periods,
    "IntervalArray": _lift_intervals,
    "SparseArray": _lift_sparse,
    "ArrowExtensionArray": _lift_arrow,
    "NumpyExtensionArray": _lift_wrapped,
}
