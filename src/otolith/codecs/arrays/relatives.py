"""What else numpy has besides arrays: scalars, types, and the subclasses of arrays it brings along.

scalar        dtype, data: bytes; of str_ and bytes_ the str or bytes; with objects: an array
dtype         dtype
matrix        as ndarray
recarray      as ndarray
MaskedArray   data, mask, fill, hard, info
masked        nothing: numpy has one of it
"""

from __future__ import annotations

from typing import Any

import numpy as np

from otolith.codecs.arrays.dtypes import Dtype, lift_dtype, lower_dtype
from otolith.codecs.arrays.memory import Array, filled, lift_array, lower_array
from otolith.codecs.forms import Form, Forming, Reading, check, demand
from otolith.errors import BadValue

_TEXTS: dict[str, type] = {"U": np.str_, "S": np.bytes_}
_EXTENDED = 63  # bits of the mantissa of a long double that has bytes which mean nothing


def _lower_scalar(value: np.generic[Any]) -> Form:
    dtype = value.dtype
    if dtype.hasobject:
        return {"type": "scalar", "dtype": lower_dtype(dtype), "data": np.asarray(value)}
    return {"type": "scalar", "dtype": lower_dtype(dtype), "data": _meant(value.tobytes(), dtype)}


def _meant(data: bytes, dtype: Dtype) -> bytes:
    """Return the bytes of a scalar; those that only fill up a long double change by themselves."""
    if dtype.char not in "gG" or np.finfo(np.longdouble).nmant != _EXTENDED:
        return data
    size = np.dtype("g").itemsize
    halves = [data[start : start + 10] for start in range(0, len(data), size)]
    return b"".join(half.ljust(size, b"\0") for half in halves)


def _lower_text(value: np.str_ | np.bytes_) -> Form:
    # An array strips the zeros at the end of a string; a scalar has them.
    if isinstance(value, str):
        return {"type": "scalar", "dtype": "U", "data": str.__str__(value)}
    return {"type": "scalar", "dtype": "S", "data": bytes(value)}


def _lift_scalar(form: Form) -> object:
    described, data = check(form, dtype=(str, dict), data=(bytes, str, np.ndarray))
    if described in ("U", "S"):
        demand(type(data) is (str if described == "U" else bytes), "a text is no text")
        return _TEXTS[described](data)
    dtype = lift_dtype(described)
    demand(dtype.kind not in "OSUT" and dtype.subdtype is None, "not the type of a scalar")
    if dtype.hasobject:
        demand(type(data) is np.ndarray and data.dtype == dtype and not data.shape, "no scalar")
        return data[()]
    demand(type(data) is bytes and _meant(data, dtype) == data, "a scalar is not kept as bytes")
    return filled(dtype, (), "C", [data] if data else [])[()]


def _lower_view(name: str) -> Forming:
    def lower(array: Array) -> Form:
        if odd := vars(array).keys() - {"_getitem"}:  # a matrix leaves this one behind
            raise BadValue(
                f"cannot keep the attributes of a {name}: {', '.join(sorted(odd))}",
                hint="keep them beside it, under names of their own",
            )
        return {**lower_array(array.view(np.ndarray)), "type": name}

    return lower


def _lift_matrix(form: Form) -> object:
    array = lift_array(form)
    demand(array.ndim == 2, "a matrix has not two dimensions")
    return array.view(np.matrix)


def _lift_recarray(form: Form) -> object:
    array = lift_array(form)
    demand(array.dtype.names is None or array.dtype.type is np.record, "not of records")
    return array.view(np.recarray)


def _lower_masked(array: np.ma.MaskedArray[Any, Any]) -> Form:
    mask = np.ma.getmask(array)
    fill = array._fill_value  # type: ignore[attr-defined]  # noqa: SLF001  # asking aloud sets it
    return {
        "type": "MaskedArray",
        "data": array.data,
        "mask": None if mask is np.ma.nomask else mask,
        "fill": None if fill is None else np.asarray(fill, array.dtype),
        "hard": array.hardmask,
        "info": array._optinfo,  # type: ignore[attr-defined]  # noqa: SLF001
    }


def _lift_masked(form: Form) -> object:
    kinds = {"mask": (np.ndarray, type(None)), "fill": (np.ndarray, type(None))}
    data, mask, fill, hard, info = check(form, data=np.ndarray, **kinds, hard=bool, info=dict)
    if mask is not None:
        fits = mask.shape == data.shape and mask.dtype == np.ma.make_mask_descr(data.dtype)
        demand(fits, "the mask of an array does not fit it")
    demand(fill is None or (fill.dtype == data.dtype and not fill.shape), "a fill does not fit")
    given: Any = np.ma.nomask if mask is None else mask
    array: Any = np.ma.MaskedArray(data, mask=given, hard_mask=hard, copy=False)
    array._fill_value = fill  # noqa: SLF001  # as it was, even where numpy would choose another
    array._optinfo = info  # noqa: SLF001
    return array


def _lower_constant(_: object) -> Form:
    return {"type": "masked"}


def _lift_constant(form: Form) -> object:
    check(form)
    return np.ma.masked


def _lower_type(dtype: Dtype) -> Form:
    return {"type": "dtype", "dtype": lower_dtype(dtype)}


def _lift_type(form: Form) -> Dtype:
    (described,) = check(form, dtype=(str, dict))
    return lift_dtype(described)


def _kinds_of_dtypes() -> set[type]:
    scalars = {kind for kind in np.sctypeDict.values() if kind is not np.object_}
    named = {kind for kind in vars(np.dtypes).values() if isinstance(kind, type)}
    return {type(np.dtype(kind)) for kind in (*scalars, np.object_, np.record)} | named


LOWER: dict[type, Forming] = {
    **dict.fromkeys((*np.sctypeDict.values(), np.record), _lower_scalar),
    **dict.fromkeys(_kinds_of_dtypes(), _lower_type),
    np.str_: _lower_text,
    np.bytes_: _lower_text,
    np.matrix: _lower_view("matrix"),
    np.recarray: _lower_view("recarray"),
    np.ma.MaskedArray: _lower_masked,
    type(np.ma.masked): _lower_constant,
}

LIFT: dict[str, Reading] = {
    "scalar": _lift_scalar,
    "dtype": _lift_type,
    "matrix": _lift_matrix,
    "recarray": _lift_recarray,
    "MaskedArray": _lift_masked,
    "masked": _lift_constant,
}
