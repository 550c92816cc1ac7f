"""Columns of strings, whichever way pandas stores them, as the buffers of `texts`.

    StringArray   storage, na, lengths, missing, groups

Buffers of Arrow are handed over without copying where the strings lie in one piece.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from otolith.codecs.chunks import gather
from otolith.codecs.forms import Form, Forming, Reading, check
from otolith.codecs.frames.dtypes import strings_dtype, strings_of
from otolith.codecs.texts import ends_of, fill, fold, fold_buffers, unfold
from otolith.errors import UnknownType
from otolith.types import Piece

_BEYOND_ASCII = 0x80


def _lower(array: Any) -> Form:
    storage, na = strings_of(array.dtype)
    text = _lower_arrow(array) if storage == "pyarrow" else _lower_python(array)
    return {"type": "StringArray", "storage": storage, "na": na, **text}


def _lower_python(array: Any) -> Form:
    values = np.asarray(array, dtype=object).tolist()
    if set(map(type, values)) == {str}:
        return fold(values)
    missing = np.fromiter((not isinstance(each, str) for each in values), np.uint8, len(values))
    return fold([str(each) if isinstance(each, str) else "" for each in values], missing)


def _lower_arrow(array: Any) -> Form:
    import pyarrow as pa  # type: ignore[import-untyped]

    whole = array.__arrow_array__().cast(pa.large_string())
    strings = whole.chunk(0) if whole.num_chunks == 1 else whole.combine_chunks()
    missing = np.zeros(len(strings), np.uint8)
    if strings.null_count:
        missing = strings.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
    _, offsets, data = strings.buffers()
    if not len(strings):
        return fold([])
    ends = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    if np.diff(ends)[missing != 0].any():  # something lies where nothing is meant to be
        return _lower_python(array)
    return fold_buffers(ends, memoryview(b"" if data is None else data), missing)


def _lift(form: Form) -> object:
    kinds: dict[str, Any] = {"missing": (np.ndarray, type(None)), "groups": (list, Piece)}
    storage, na, *_ = check(form, storage=str, na=str, lengths=np.ndarray, **kinds)
    dtype = strings_dtype(storage, na)
    return _lift_arrow(form, dtype) if storage == "pyarrow" else _lift_python(form, dtype)


def _lift_python(form: Form, dtype: Any) -> object:
    strings, missing = unfold(form, gaps=1)
    values = fill(strings, missing, lambda _: dtype.na_value)
    return pd.array(values, dtype=dtype, copy=False)


def _lift_arrow(form: Form, dtype: Any) -> object:
    import pyarrow as pa

    ends, missing = ends_of(form, gaps=1)
    groups = form["groups"]
    data = groups.view if type(groups) is Piece else b"".join(map(gather, groups))
    present = None if missing is None else np.packbits(missing == 0, bitorder="little")
    buffers = [each if each is None else pa.py_buffer(each) for each in (present, ends, data)]
    strings = pa.Array.from_buffers(pa.large_string(), len(ends) - 1, buffers)
    if len(data) and np.frombuffer(data, np.uint8).max() >= _BEYOND_ASCII:
        strings.validate(full=True)  # where strings end was checked; this is for their UTF-8
    return dtype.__from_arrow__(strings)


def _kinds() -> set[type]:
    kinds = {pd.arrays.StringArray, pd.arrays.ArrowStringArray}
    for storage in ("python", "pyarrow"):
        # Some versions of pandas have a class of its own for NaN; some need pyarrow to tell.
        with suppress(UnknownType, ImportError):
            kinds.add(strings_dtype(storage, "nan").construct_array_type())
    return kinds


LOWER: dict[type, Forming] = dict.fromkeys(_kinds(), _lower)
LIFT: dict[str, Reading] = {"StringArray": _lift}
