"""The types of columns and the scalars that pandas adds to those of numpy.

    CategoricalDtype   categories (an Index, or None), ordered
    DatetimeTZDtype    unit, zone
    PeriodDtype        freq
    IntervalDtype      subtype, closed
    SparseDtype        subtype, fill
    StringDtype        storage ("python", "pyarrow"), na ("NA", "nan")
    ArrowDtype         of (a type of Arrow)
    nullable           name ("Int64", "boolean", …)

    Timestamp          value, unit, zone, fold     value in units since 1970, UTC if there is a zone
    Timedelta          value, unit
    Period             ordinal, freq
    Interval           left, right, closed
    NaT, NA            nothing: pandas has one of each
    offset             name, n, normalize, options

A zone is stored as in `otolith.codecs.plain`; {"pytz": name or minutes} if pytz made it.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from otolith.codecs import plain
from otolith.codecs.base import Form, FormLayout, identical, in_key_order, require
from otolith.errors import MissingExtra, UnknownType

UNITS = ("s", "ms", "us", "ns")

_CLOSED = ("left", "right", "both", "neither")
_NULLABLE: dict[str, Any] = {
    kind.name: kind
    for kind in (
        pd.BooleanDtype, pd.Float32Dtype, pd.Float64Dtype, pd.Int8Dtype, pd.Int16Dtype,
        pd.Int32Dtype, pd.Int64Dtype, pd.UInt8Dtype, pd.UInt16Dtype, pd.UInt32Dtype, pd.UInt64Dtype,
    )
}  # fmt: skip
_OFFSETS: dict[str, Any] = {
    name: kind
    for name in set(pd.offsets.__all__) - {"BaseOffset", "Tick"}
    if isinstance(kind := getattr(pd.offsets, name), type)
    if kind.__name__ == name and issubclass(kind, pd.offsets.BaseOffset)
}


# Zones


def lower_zone(zone: tzinfo | None) -> object:
    """Return the form of a zone, also of one that pytz made.

    Raises:
        BadValue: it is of a kind that cannot be stored.
    """
    if zone is None or type(zone).__module__.partition(".")[0] != "pytz":
        return plain.lower_zone(zone)
    name: str | None = zone.zone  # type: ignore[attr-defined]
    return {"pytz": zone._minutes if name is None else name}  # type: ignore[attr-defined]  # noqa: SLF001


def lift_zone(form: object) -> tzinfo | None:
    """Return the zone of a form.

    Raises:
        Corrupt: it is not the form of a zone.
        UnknownType: this machine does not know it.
        MissingExtra: it needs pytz.
    """
    if type(form) is not dict:
        return None if form is None else plain.lift_zone(form)
    try:
        import pytz  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra("a time zone of pytz needs pytz", hint="pip install pytz") from error
    name = form.get("pytz")
    require(form.keys() == {"pytz"} and type(name) in (str, int), "not a time zone of pytz")
    zone: tzinfo = pytz.timezone(name) if type(name) is str else pytz.FixedOffset(name)
    require(lower_zone(zone) == form, "a time zone of pytz has another name")
    return zone


# Scalars


def _lower_timestamp(value: Any) -> Form:
    zone = value.tzinfo
    return {
        "type": "Timestamp",
        "value": int(value.asm8.view(np.int64)),
        "unit": value.unit,
        "zone": lower_zone(zone),
        "fold": value.fold if zone is None else 0,  # else it follows from the zone
    }


def _lift_timestamp(value: int, unit: Any, described: object, fold: int) -> object:
    require(unit in UNITS and fold in (0, 1), "not a unit, or not a fold")
    made = _present(pd.Timestamp(np.datetime64(value, unit)))
    zone = lift_zone(described)
    if zone is not None:
        require(fold == 0, "a fold beside a zone")
        return made.tz_localize("UTC").tz_convert(zone)
    return made.replace(fold=1) if fold else made


def _lift_timedelta(value: int, unit: Any) -> object:
    require(unit in UNITS, "not a unit")
    return _present(pd.Timedelta(np.timedelta64(value, unit)))


def _present(value: Any) -> Any:
    """Return a moment or a span, once it is not NaT, which has another form."""
    require(value is not pd.NaT, "a moment or a span is missing")
    return value


def _lower_offset(value: Any) -> Form:
    # The calendar is made from the other options, and cannot be taken apart.
    options = {name: part for name, part in value.kwds.items() if name != "calendar"}
    return {
        "name": type(value).__name__,
        "n": value.n,
        "normalize": value.normalize,
        "options": in_key_order(options),
    }


def _lift_offset(name: str, n: int, normalize: bool, options: dict[str, Any]) -> object:  # noqa: FBT001
    require(name in _OFFSETS, f"pandas has no offset {name[:40]!r}")
    more = {"normalize": True} if normalize else {}
    made = _OFFSETS[name](n, **more, **options)
    form = {"name": name, "n": n, "normalize": normalize, "options": options}
    is_same = identical(_lower_offset(made), form, ordered=False)
    require(is_same, "an offset has other options than are stored")
    return made


# Types


def string_options(dtype: Any) -> tuple[str, str]:
    """Return how a type of strings stores them, and its value for a missing one."""
    if dtype.storage == "pyarrow_numpy":  # what pandas 2.2 calls it
        return "pyarrow", "nan"
    return dtype.storage, "NA" if dtype.na_value is pd.NA else "nan"


def string_dtype(storage: object, na: object) -> Any:
    """Return the type of strings with these options.

    Raises:
        Corrupt: there is none.
        UnknownType: this pandas has none.
    """
    require(storage in ("python", "pyarrow") and na in ("NA", "nan"), "not a type of strings")
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


def _lower_string_dtype(dtype: Any) -> Form:
    storage, na = string_options(dtype)
    return {"storage": storage, "na": na}


def _lift_zoned_dtype(unit: str, zone: object) -> object:
    require(unit in UNITS, "not a unit")
    return pd.DatetimeTZDtype(unit, lift_zone(zone))


def _lift_interval_dtype(subtype: Any, closed: str | None) -> object:
    require(closed is None or closed in _CLOSED, "not a way to be closed")
    return pd.IntervalDtype(subtype, closed)


def _lift_nullable(name: str) -> object:
    require(name in _NULLABLE, f"pandas has no type {name[:40]!r}")
    return _NULLABLE[name]()


_NONE = type(None)
_OFFSET = pd.offsets.BaseOffset

LAYOUTS = (
    FormLayout(
        pd.CategoricalDtype,
        pd.CategoricalDtype,
        {"categories": (pd.Index, _NONE), "ordered": (bool, _NONE)},
    ),
    FormLayout(
        pd.DatetimeTZDtype,
        _lift_zoned_dtype,
        {"unit": str, "zone": object},
        lambda dtype: {"unit": dtype.unit, "zone": lower_zone(dtype.tz)},
    ),
    FormLayout(pd.PeriodDtype, pd.PeriodDtype, {"freq": _OFFSET}),
    FormLayout(
        pd.IntervalDtype,
        _lift_interval_dtype,
        {
            "subtype": (np.dtype, pd.api.extensions.ExtensionDtype, _NONE),
            "closed": (str, _NONE),
        },
    ),
    FormLayout(
        pd.SparseDtype,
        pd.SparseDtype,
        {"subtype": np.dtype, "fill": object},
        lambda dtype: {"subtype": dtype.subtype, "fill": dtype.fill_value},
    ),
    FormLayout(pd.StringDtype, string_dtype, {"storage": str, "na": str}, _lower_string_dtype),
    FormLayout(
        pd.ArrowDtype, pd.ArrowDtype, {"of": object}, lambda dtype: {"of": dtype.pyarrow_dtype}
    ),
    FormLayout(tuple(_NULLABLE.values()), _lift_nullable, {"name": str}, name="nullable"),
    FormLayout(
        pd.Timestamp,
        _lift_timestamp,
        {"value": int, "unit": str, "zone": object, "fold": int},
        _lower_timestamp,
    ),
    FormLayout(
        pd.Timedelta,
        _lift_timedelta,
        {"value": int, "unit": str},
        lambda value: {"value": int(value.asm8.view(np.int64)), "unit": value.unit},
    ),
    FormLayout(
        pd.Period,
        lambda ordinal, freq: _present(pd.Period(ordinal=ordinal, freq=freq)),
        {"ordinal": int, "freq": _OFFSET},
    ),
    FormLayout(pd.Interval, pd.Interval, {"left": object, "right": object, "closed": str}),
    FormLayout(type(pd.NaT), lambda: pd.NaT, {}, name="NaT"),
    FormLayout(type(pd.NA), lambda: pd.NA, {}, name="NA"),
    FormLayout(
        tuple(_OFFSETS.values()),
        _lift_offset,
        {"name": str, "n": int, "normalize": bool, "options": dict},
        _lower_offset,
        name="offset",
    ),
)
