"""Labels of rows and columns.

Index, CategoricalIndex, IntervalIndex, PeriodIndex    array, name
DatetimeIndex, TimedeltaIndex                          array, name, freq (an offset, or None)
RangeIndex                                             range [start, stop, step], name
MultiIndex                                             levels (with their names), codes, sorted
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from otolith.codecs.forms import Form, Forming, Reading, check, demand
from otolith.codecs.frames.arrays import plain

_ARRAY = (np.ndarray, pd.api.extensions.ExtensionArray)
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


LOWER: dict[type, Forming] = {
    **dict.fromkeys(
        (pd.Index, pd.CategoricalIndex, pd.IntervalIndex, pd.PeriodIndex), _lower_index
    ),
    **dict.fromkeys((pd.DatetimeIndex, pd.TimedeltaIndex), _lower_regular),
    pd.RangeIndex: _lower_range,
    pd.MultiIndex: _lower_multi,
}

LIFT: dict[str, Reading] = {
    **dict.fromkeys(("Index", "CategoricalIndex", "IntervalIndex", "PeriodIndex"), _lift_index),
    **dict.fromkeys(("DatetimeIndex", "TimedeltaIndex"), _lift_regular),
    "RangeIndex": _lift_range,
    "MultiIndex": _lift_multi,
}
