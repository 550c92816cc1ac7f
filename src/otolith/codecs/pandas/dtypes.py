"""The types of columns that pandas adds to those of numpy, and two of its scalars.

CategoricalDtype   categories (an Index, or None), ordered
DatetimeTZDtype    unit, zone
PeriodDtype        freq
IntervalDtype      subtype, closed
SparseDtype        subtype, fill
StringDtype        storage ("python", "pyarrow"), na ("NA", "nan")
ArrowDtype         of (a type of Arrow)
nullable           name ("Int64", "boolean", …)
Interval           left, right, closed
NA                 nothing: pandas has one of it
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from otolith.codecs.forms import Form, Forming, Reading, check, demand
from otolith.codecs.frames.moments import UNITS, lift_zone, lower_zone
from otolith.errors import UnknownType

_CLOSED = ("left", "right", "both", "neither")
_NULLABLE: dict[str, Any] = {
    kind.name: kind
    for kind in (
        pd.BooleanDtype, pd.Float32Dtype, pd.Float64Dtype, pd.Int8Dtype, pd.Int16Dtype,
        pd.Int32Dtype, pd.Int64Dtype, pd.UInt8Dtype, pd.UInt16Dtype, pd.UInt32Dtype, pd.UInt64Dtype,
    )
}  # fmt: skip


def strings_of(dtype: Any) -> tuple[str, str]:
    """Return how a type of strings stores them, and what it has for a missing one."""
    if dtype.storage == "pyarrow_numpy":  # what pandas 2.2 calls it
        return "pyarrow", "nan"
    return dtype.storage, "NA" if dtype.na_value is pd.NA else "nan"


def strings_dtype(storage: object, na: object) -> Any:
    """Return the type of strings that is so.

    Raises:
        Corrupt: there is none.
        UnknownType: this pandas has none.
    """
    demand(storage in ("python", "pyarrow") and na in ("NA", "nan"), "not a type of strings")
    if na == "NA":
        return pd.StringDtype(storage)
    try:
        return pd.StringDtype(storage, na_value=np.nan)
    except TypeError as error:
        if storage == "pyarrow":
            return pd.StringDtype("pyarrow_numpy")
        raise UnknownType(
            "strings with NaN for missing ones need a newer pandas", hint="install pandas 3"
        ) from error


def _lower_categorical(dtype: Any) -> Form:
    return {"type": "CategoricalDtype", "categories": dtype.categories, "ordered": dtype.ordered}


def _lift_categorical(form: Form) -> object:
    kinds = {"categories": (pd.Index, type(None)), "ordered": (bool, type(None))}
    return pd.CategoricalDtype(*check(form, **kinds))


def _lower_zoned(dtype: Any) -> Form:
    return {"type": "DatetimeTZDtype", "unit": dtype.unit, "zone": lower_zone(dtype.tz)}


def _lift_zoned(form: Form) -> object:
    unit, zone = check(form, unit=str, zone=object)
    demand(unit in UNITS, "not a unit")
    return pd.DatetimeTZDtype(unit, lift_zone(zone))


def _lift_period(form: Form) -> object:
    return pd.PeriodDtype(*check(form, freq=pd.offsets.BaseOffset))


def _lower_interval_dtype(dtype: Any) -> Form:
    return {"type": "IntervalDtype", "subtype": dtype.subtype, "closed": dtype.closed}


def _lift_interval_dtype(form: Form) -> object:
    types = (np.dtype, pd.api.extensions.ExtensionDtype, type(None))
    subtype, closed = check(form, subtype=types, closed=(str, type(None)))
    demand(closed is None or closed in _CLOSED, "not a way to be closed")
    return pd.IntervalDtype(subtype, closed)


def _lower_sparse(dtype: Any) -> Form:
    return {"type": "SparseDtype", "subtype": dtype.subtype, "fill": dtype.fill_value}


def _lift_sparse(form: Form) -> object:
    return pd.SparseDtype(*check(form, subtype=np.dtype, fill=object))


def _lower_strings(dtype: Any) -> Form:
    storage, na = strings_of(dtype)
    return {"type": "StringDtype", "storage": storage, "na": na}


def _lift_strings(form: Form) -> object:
    return strings_dtype(*check(form, storage=str, na=str))


def _lift_arrow(form: Form) -> object:
    return pd.ArrowDtype(*check(form, of=object))


def _lift_nullable(form: Form) -> object:
    (name,) = check(form, name=str)
    demand(name in _NULLABLE, f"pandas has no type {name[:40]!r}")
    return _NULLABLE[name]()


def _lower_interval(value: Any) -> Form:
    return {
        "type": "Interval",
        "left": value.left,
        "right": value.right,
        "closed": value.closed,
    }


def _lift_interval(form: Form) -> object:
    return pd.Interval(*check(form, left=object, right=object, closed=str))


def _lift_na(form: Form) -> object:
    check(form)
    return pd.NA


LOWER: dict[type, Forming] = {
    pd.CategoricalDtype: _lower_categorical,
    pd.DatetimeTZDtype: _lower_zoned,
    pd.PeriodDtype: lambda dtype: {"type": "PeriodDtype", "freq": dtype.freq},
    pd.IntervalDtype: _lower_interval_dtype,
    pd.SparseDtype: _lower_sparse,
    pd.StringDtype: _lower_strings,
    pd.ArrowDtype: lambda dtype: {"type": "ArrowDtype", "of": dtype.pyarrow_dtype},
    **{kind: lambda dtype: {"type": "nullable", "name": dtype.name} for kind in _NULLABLE.values()},
    pd.Interval: _lower_interval,
    type(pd.NA): lambda _: {"type": "NA"},
}

LIFT: dict[str, Reading] = {
    "CategoricalDtype": _lift_categorical,
    "DatetimeTZDtype": _lift_zoned,
    "PeriodDtype": _lift_period,
    "IntervalDtype": _lift_interval_dtype,
    "SparseDtype": _lift_sparse,
    "StringDtype": _lift_strings,
    "ArrowDtype": _lift_arrow,
    "nullable": _lift_nullable,
    "Interval": _lift_interval,
    "NA": _lift_na,
}
