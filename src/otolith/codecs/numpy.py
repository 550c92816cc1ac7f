"""Arrays: the type of their elements, their shape, and their memory, which is handed over as it is.

    ndarray    dtype, shape, order, and one of
               data     raw bytes, in the order of memory: "C" or "F"
               text     the strings, None and NaN of an array of objects, see `texts`
               items    other objects, in C order, in lists of 64
               fields   one array for each field, where some fields are objects

An array that is not contiguous becomes so. Bytes that are no part of a value, as between fields,
are kept too: an array that was not touched is the same bytes each time it is looked at.
"""

from __future__ import annotations

from math import isnan, nan, prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from otolith.codecs.arrays.dtypes import Dtype, lift_dtype, lower_dtype
from otolith.codecs.chunks import pour, weigh
from otolith.codecs.forms import Form, check, demand
from otolith.codecs.texts import fill, fold, unfold
from otolith.types import Piece, Raw

Array: TypeAlias = npt.NDArray[Any]

_GROUP = 64
"""How many objects are one value to the store: about as many as fit in one packed object."""

_TEXT_ROWS = 64
"""From how many strings on buffers are shorter than a list."""

_NONE, _NAN = 1, 2
_HEAD: dict[str, Any] = {"dtype": (str, dict), "shape": list, "order": str}
_LAST_DIMENSION = 2**63 - 1


def lower_array(array: Array) -> Form:
    """Return the form of an array."""
    dtype, flags = array.dtype, array.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        array = array.copy(order="K")
    order = "F" if array.flags.fnc else "C"
    form = {
        "type": "ndarray",
        "dtype": lower_dtype(dtype),
        "shape": list(array.shape),
        "order": order,
    }
    if not dtype.hasobject:
        return {**form, "data": raw(array)}
    if dtype.names is not None:
        return {**form, "fields": [array[name] for name in dtype.names]}
    return {**form, **_lower_objects(array.reshape(-1).tolist())}


def raw(array: Array) -> Raw:
    """Return the memory of an array without objects; only what is not contiguous is copied."""
    if not array.nbytes:
        return Raw(b"")
    flat = array.reshape(-1, order="F" if array.flags.fnc else "C")
    return Raw(flat.view(np.uint8).data)


def lift_array(form: Form) -> Array:
    """Return the array of a form.

    Raises:
        Corrupt: the form is not that of an array.
    """
    rest = form.keys() - {"type", *_HEAD}
    demand(len(rest) == 1, "an array is kept with too much, or without its content")
    kind = rest.pop()
    lift = _CONTENT.get(kind)
    demand(lift, f"an array has no {str(kind)[:40]!r}")
    described, dimensions, order, content = check(form, **_HEAD, **{kind: (list, dict, Piece)})
    dtype, shape = lift_dtype(described), shape_of(dimensions)
    array = lift(dtype, shape, order, content)  # type: ignore[misc]  # demanded above
    fits = array.dtype == dtype and order == ("F" if array.flags.fnc else "C")
    demand(fits, "the order of an array is not what its shape allows")
    return array


def shape_of(dimensions: list[Any]) -> tuple[int, ...]:
    """Return a shape, once it is known to be one."""
    fits = all(type(each) is int and 0 <= each <= _LAST_DIMENSION for each in dimensions)
    demand(fits, "the shape of an array is not a list of lengths")
    return tuple(dimensions)


def filled(dtype: Dtype, shape: tuple[int, ...], order: Any, chunks: object) -> Array:
    """Return memory with these bytes in it: new memory, or that of a piece."""
    demand(not dtype.hasobject, "an array of objects is kept as raw bytes")
    size = prod(shape) * dtype.itemsize
    demand(weigh(chunks) == size, f"an array of {size} bytes has {weigh(chunks)}")
    if size and type(chunks) is Piece:
        return np.ndarray(shape, dtype, chunks.view, order=order)
    # np.empty makes the elements of empty strings one byte long.
    array: Array = np.empty(shape, dtype, order) if size else np.ndarray(shape, dtype, order=order)
    if size:
        pour(chunks, raw(array).view)
    return array


def _lower_objects(values: list[Any]) -> Form:
    return {"text": _text(values)} if _is_text(values) else {"items": _grouped(values)}


def _is_text(values: list[Any]) -> bool:
    if len(values) < _TEXT_ROWS:
        return False
    kinds = set(map(type, values))
    if not kinds <= {str, type(None), float}:
        return False
    return float not in kinds or all(type(each) is not float or isnan(each) for each in values)


def _text(values: list[Any]) -> Form:
    if set(map(type, values)) == {str}:
        return fold(values)
    kinds = (0 if type(each) is str else _NONE if each is None else _NAN for each in values)
    missing = np.fromiter(kinds, np.uint8, len(values))
    return fold([each if type(each) is str else "" for each in values], missing)


def _grouped(values: list[Any]) -> list[list[Any]]:
    return [values[start : start + _GROUP] for start in range(0, len(values), _GROUP)]


def _lift_text(dtype: Dtype, shape: tuple[int, ...], order: Any, form: Any) -> Array:
    demand(type(form) is dict and form.keys() == {"lengths", "missing", "groups"}, "not a text")
    strings, missing = unfold(form, gaps=_NAN)
    demand(len(strings) >= _TEXT_ROWS, "a short array of strings is kept as a long one")
    values = fill(strings, missing, lambda kind: None if kind == _NONE else nan)
    return _shaped(values, dtype, shape, order)


def _lift_items(dtype: Dtype, shape: tuple[int, ...], order: Any, groups: Any) -> Array:
    demand(type(groups) is list and all(type(each) is list for each in groups), "not in groups")
    values = [value for group in groups for value in group]
    lengths = [len(group) for group in groups]
    demand(lengths == [len(group) for group in _grouped(values)], "objects are grouped otherwise")
    demand(not _is_text(values), "an array of strings is kept as one of objects")
    return _shaped(np.fromiter(values, np.object_, len(values)), dtype, shape, order)


def _shaped(values: Array, dtype: Dtype, shape: tuple[int, ...], order: Any) -> Array:
    demand(dtype.kind in "OT", "objects are kept in an array of something else")
    demand(prod(shape) == len(values), "an array has more or fewer objects than its shape")
    array: Array = np.empty(shape, dtype, order)
    array[...] = values.reshape(shape)
    return array


def _lift_fields(dtype: Dtype, shape: tuple[int, ...], order: Any, fields: Any) -> Array:
    demand(dtype.hasobject and dtype.names and type(fields) is list, "not the fields of an array")
    for name, field in zip(dtype.names or (), fields, strict=True):
        kind = dtype[name]
        fits = type(field) is np.ndarray and field.dtype == kind.base
        demand(fits and field.shape == shape + kind.shape, f"the field {name!r} does not fit")
    array: Array = np.zeros(shape, dtype, order)
    for name, field in zip(dtype.names or (), fields, strict=True):
        array[name] = field
    return array


_CONTENT = {"data": filled, "text": _lift_text, "items": _lift_items, "fields": _lift_fields}
