"""Labels of rows and columns.

Index, CategoricalIndex, IntervalIndex, PeriodIndex    array, name
DatetimeIndex, TimedeltaIndex                          array, name, freq (an offset, or None)
RangeIndex                                             range [start, stop, step], name
MultiIndex                                             levels (with their names), codes, sorted

Frames and series: columns as arrays of their own, and the labels they share.

    DataFrame   columns [array], labels (an Index), index, attrs, unique
    Series      array, name, index, attrs, unique

`unique` is whether labels must be: `flags.allows_duplicate_labels` the other way round. However
pandas holds the columns, several of a type in one block or each by itself, they are kept one by
one, so that what changes in one is stored for that one, and one can be read without the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from otolith.codecs.base import Form, Forming, Reading, check, demand
from otolith.codecs.pandas.arrays import plain

_ARRAY = (np.ndarray, pd.api.extensions.ExtensionArray)
_MANY = 100
"""From how many blocks on pandas warns that a frame is in pieces."""


def labels(head: dict[str, Any]) -> list[Any]:
    """Return the labels of the columns, given all of a frame's form but the columns."""
    return list(check({"type": "DataFrame", "labels": head.get("labels")}, labels=pd.Index)[0])


def column(head: dict[str, Any], position: int, array: object) -> Any:
    """Return the Series of one column of a frame, given all of its form but the columns.

    Raises:
        Corrupt: the array does not fit the frame.
    """
    form = {**head, "array": array}
    array, labels, index, attrs, unique = check(form, array=_ARRAY, labels=pd.Index, **_SHARED)
    demand(0 <= position < len(labels), f"a frame has no column {position}")
    return _finished(_series(array, index, labels[position]), attrs, unique)


def _lower_frame(frame: Any) -> Form:
    return {
        "type": "DataFrame",
        # Nothing public gives the rows of a block without making a Series of each.
        "columns": list(frame._iter_column_arrays()),  # noqa: SLF001
        "labels": frame.columns,
        "index": frame.index,
        **_lower_shared(frame),
    }


def _lower_series(series: Any) -> Form:
    return {
        "type": "Series",
        "array": plain(series.array),
        "name": series.name,
        "index": series.index,
        **_lower_shared(series),
    }


def _lower_shared(table: Any) -> Form:
    return {"attrs": table.attrs, "unique": not table.flags.allows_duplicate_labels}


def _lift_frame(form: Form) -> object:
    columns, labels, index, attrs, unique = check(form, columns=list, labels=pd.Index, **_SHARED)
    demand(len(columns) == len(labels), "a frame has more or fewer columns than labels")
    series = {at: _series(array, index, None) for at, array in enumerate(columns)}
    # A copy joins columns of one type into one block.
    frame = pd.DataFrame(series, index=index, copy=len(columns) > _MANY)
    frame.columns = labels
    return _finished(frame, attrs, unique)


def _lift_series(form: Form) -> object:
    array, name, index, attrs, unique = check(form, array=_ARRAY, name=object, **_SHARED)
    return _finished(_series(array, index, name), attrs, unique)


def _series(array: Any, index: Any, name: Any) -> Any:
    demand(isinstance(array, _ARRAY), "a column is not an array")
    series = pd.Series(array, index=index, name=name, dtype=array.dtype, copy=False)
    demand(series.dtype == array.dtype, f"pandas has no column of {array.dtype}")
    return series


def _finished(table: Any, attrs: dict[Any, Any], unique: bool) -> Any:  # noqa: FBT001
    if attrs:
        table.attrs = attrs
    if unique:
        table.flags.allows_duplicate_labels = False
    return table


_SHARED: dict[str, Any] = {"index": pd.Index, "attrs": dict, "unique": bool}

FRAME_LOWER: dict[type, Forming] = {pd.DataFrame: _lower_frame, pd.Series: _lower_series}
FRAME_LIFT: dict[str, Reading] = {"DataFrame": _lift_frame, "Series": _lift_series}


_WORD = 2**63


def _lower_index(index: Any) -> Form:
    return {"type": type(index).__name__, "array": plain(index.array), "name": index.name}


def _lift_index(form: Form) -> Any:
    array, name = check(form, array=_ARRAY, name=object)
    return _labels(form["type"], array, name)


def _labels(kind: str, array: Any, name: Any) -> Any:
    index = pd.Index(array, dtype=array.dtype, name=name, copy=False, tupleize_cols=False)
    fits = type(index).__name__ == kind and index.dtype == array.dtype
    demand(fits, f"an array of {array.dtype} is no {kind}")
    return index


def _lower_regular(index: Any) -> Form:
    return {**_lower_index(index), "freq": index.freq}


def _lift_regular(form: Form) -> object:
    freqs = (pd.offsets.BaseOffset, type(None))
    array, name, freq = check(form, array=_ARRAY, name=object, freq=freqs)
    index = _labels(form["type"], array, name)
    index.freq = freq
    return index


def _lower_range(index: Any) -> Form:
    steps = [index.start, index.stop, index.step]
    return {"type": "RangeIndex", "range": steps, "name": index.name}


def _lift_range(form: Form) -> object:
    steps, name = check(form, range=list, name=object)
    fits = len(steps) == 3 and all(type(each) is int and abs(each) < _WORD for each in steps)
    demand(fits, "a range is not start, stop and step")
    return pd.RangeIndex(*steps, name=name)


def _lower_multi(index: Any) -> Form:
    return {
        "type": "MultiIndex",
        "levels": list(index.levels),
        "codes": [np.asarray(each) for each in index.codes],
        "sorted": index.sortorder,
    }


def _lift_multi(form: Form) -> object:
    levels, codes, order = check(form, levels=list, codes=list, sorted=(int, type(None)))
    for level, code in zip(levels, codes, strict=True):
        demand(isinstance(level, pd.Index) and type(code) is np.ndarray, "not a level")
        demand(code.ndim == 1 and code.dtype.kind == "i", "codes are not numbers")
        demand(len(code) == len(codes[0]), "the levels of an index are of different lengths")
        within = not code.size or (code.min() >= -1 and code.max() < len(level))
        demand(within, "a code has no label")
    demand(order is None or (type(order) is int and 0 <= order <= len(levels)), "not an order")
    names = [level.name for level in levels]
    # What pandas verifies it may also change: a code of a missing label, for one.
    return pd.MultiIndex(
        levels=levels, codes=codes, names=names, sortorder=order, verify_integrity=False
    )


INDEX_LOWER: dict[type, Forming] = {
    **dict.fromkeys(
        (pd.Index, pd.CategoricalIndex, pd.IntervalIndex, pd.PeriodIndex), _lower_index
    ),
    **dict.fromkeys((pd.DatetimeIndex, pd.TimedeltaIndex), _lower_regular),
    pd.RangeIndex: _lower_range,
    pd.MultiIndex: _lower_multi,
}

INDEX_LIFT: dict[str, Reading] = {
    **dict.fromkeys(("Index", "CategoricalIndex", "IntervalIndex", "PeriodIndex"), _lift_index),
    **dict.fromkeys(("DatetimeIndex", "TimedeltaIndex"), _lift_regular),
    "RangeIndex": _lift_range,
    "MultiIndex": _lift_multi,
}
