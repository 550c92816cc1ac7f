"""Frames, series, and the labels of rows and columns.

    DataFrame   columns [array], labels (an Index), index, attrs, unique
    Series      array, name, index, attrs, unique

    Index, CategoricalIndex, IntervalIndex, PeriodIndex    array, name
    DatetimeIndex, TimedeltaIndex                          array, name, freq (an offset, or None)
    RangeIndex                                             range [start, stop, step], name
    MultiIndex                                             levels (with their names), codes, sorted

`unique` is whether labels must be: the opposite of `flags.allows_duplicate_labels`. However pandas
holds the columns, several of a type in one block or each by itself, they are stored one by one, so
that a change in one is stored for that one, and one can be read without the others.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from otolith.codecs.base import Form, FormLayout, check, require
from otolith.codecs.pandas.arrays import unwrapped

_ARRAY = (np.ndarray, pd.api.extensions.ExtensionArray)
_SHARED: dict[str, Any] = {"index": pd.Index, "attrs": dict, "unique": bool}
_BLOCKS_LIMIT = 100  # from so many blocks on pandas warns that a frame is in pieces
_INT64_LIMIT = 2**63


def labels(head: Form) -> list[Any]:
    """Return the labels of the columns, given the form of a frame without its columns."""
    return list(check({"type": "DataFrame", "labels": head.get("labels")}, labels=pd.Index)[0])


def column(head: Form, position: int, array: object) -> Any:
    """Return the Series of one column, given the form of a frame without its columns.

    Raises:
        Corrupt: the array does not fit the frame.
    """
    form = {**head, "array": array}
    array, labels, index, attrs, unique = check(form, array=_ARRAY, labels=pd.Index, **_SHARED)
    require(0 <= position < len(labels), f"a frame has no column {position}")
    return _with_flags(_series(array, index, labels[position]), attrs, unique)


def _lower_frame(frame: Any) -> Form:
    return {
        # Nothing public gives the rows of a block without making a Series of each.
        "columns": list(frame._iter_column_arrays()),  # noqa: SLF001
        "labels": frame.columns,
        "index": frame.index,
        "attrs": frame.attrs,
        "unique": not frame.flags.allows_duplicate_labels,
    }


def _lift_frame(columns: list[Any], labels: Any, index: Any, *flags: Any) -> object:
    """Return a frame from its columns, as few blocks if there are many of them."""
    require(len(columns) == len(labels), "a frame has more or fewer columns than labels")
    series = {at: _series(array, index, None) for at, array in enumerate(columns)}
    # A copy joins columns of one type into one block.
    frame = pd.DataFrame(series, index=index, copy=len(columns) > _BLOCKS_LIMIT)
    frame.columns = labels
    return _with_flags(frame, *flags)


def _lower_series(series: Any) -> Form:
    return {
        "array": unwrapped(series.array),
        "name": series.name,
        "index": series.index,
        "attrs": series.attrs,
        "unique": not series.flags.allows_duplicate_labels,
    }


def _lift_series(array: Any, name: Any, index: Any, *flags: Any) -> object:
    """Return a series over its array, without a copy."""
    return _with_flags(_series(array, index, name), *flags)


def _series(array: Any, index: Any, name: Any) -> Any:
    require(isinstance(array, _ARRAY), "a column is not an array")
    series = pd.Series(array, index=index, name=name, dtype=array.dtype, copy=False)
    require(series.dtype == array.dtype, f"pandas has no column of {array.dtype}")
    return series


def _with_flags(table: Any, attrs: dict[Any, Any], unique: bool) -> Any:  # noqa: FBT001
    """Return a frame or series with its attributes, and whether its labels are unique."""
    if attrs:
        table.attrs = attrs
    if unique:
        table.flags.allows_duplicate_labels = False
    return table


def _lower_index(index: Any) -> Form:
    return {"array": unwrapped(index.array), "name": index.name}


def _lift_index(kind: str, array: Any, name: Any) -> Any:
    """Return an index, if pandas makes one of this class from the array."""
    index = pd.Index(array, dtype=array.dtype, name=name, copy=False, tupleize_cols=False)
    fits = type(index).__name__ == kind and index.dtype == array.dtype
    require(fits, f"an array of {array.dtype} is not a {kind}")
    return index


def _lift_regular_index(kind: str, array: Any, name: Any, freq: Any) -> object:
    index = _lift_index(kind, array, name)
    index.freq = freq
    return index


def _lift_range(bounds: list[Any], name: Any) -> object:
    fits = all(type(each) is int and abs(each) < _INT64_LIMIT for each in bounds)
    require(fits and len(bounds) == 3, "a range is not start, stop and step")
    return pd.RangeIndex(*bounds, name=name)


def _lower_multi(index: Any) -> Form:
    return {
        "levels": list(index.levels),
        "codes": [np.asarray(each) for each in index.codes],
        "sorted": index.sortorder,
    }


def _lift_multi(levels: list[Any], codes: list[Any], order: int | None) -> object:
    """Return a MultiIndex, once every code has a label."""
    for level, code in zip(levels, codes, strict=True):
        require(isinstance(level, pd.Index) and type(code) is np.ndarray, "not a level")
        require(code.ndim == 1 and code.dtype.kind == "i", "codes are not numbers")
        require(len(code) == len(codes[0]), "the levels of an index are of different lengths")
        within = not code.size or (code.min() >= -1 and code.max() < len(level))
        require(within, "a code has no label")
    require(order is None or (type(order) is int and 0 <= order <= len(levels)), "not an order")
    names = [level.name for level in levels]
    # What pandas verifies it may also change: a code of a missing label, for one.
    return pd.MultiIndex(
        levels=levels, codes=codes, names=names, sortorder=order, verify_integrity=False
    )


_INDEX: dict[str, Any] = {"array": _ARRAY, "name": object}
_REGULAR: dict[str, Any] = {**_INDEX, "freq": (pd.offsets.BaseOffset, type(None))}

LAYOUTS = (
    FormLayout(
        pd.DataFrame, _lift_frame, {"columns": list, "labels": pd.Index, **_SHARED}, _lower_frame
    ),
    FormLayout(
        pd.Series, _lift_series, {"array": _ARRAY, "name": object, **_SHARED}, _lower_series
    ),
    *(
        FormLayout(kind, partial(_lift_index, kind.__name__), _INDEX, _lower_index)
        for kind in (pd.Index, pd.CategoricalIndex, pd.IntervalIndex, pd.PeriodIndex)
    ),
    *(
        FormLayout(
            kind,
            partial(_lift_regular_index, kind.__name__),
            _REGULAR,
            lambda index: {**_lower_index(index), "freq": index.freq},
        )
        for kind in (pd.DatetimeIndex, pd.TimedeltaIndex)
    ),
    FormLayout(
        pd.RangeIndex,
        _lift_range,
        {"range": list, "name": object},
        lambda index: {"range": [index.start, index.stop, index.step], "name": index.name},
    ),
    FormLayout(
        pd.MultiIndex,
        _lift_multi,
        {"levels": list, "codes": list, "sorted": (int, type(None))},
        _lower_multi,
    ),
)
