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

What pandas says about time: instants, spans, periods, offsets, and their zones.

    Timestamp   value, unit, zone, fold     value in units since 1970, UTC where there is a zone
    Timedelta   value, unit
    Period      ordinal, freq
    NaT         nothing: pandas has one of it
    offset      name, n, normalize, options

A zone is kept as `otolith.codecs.plain` keeps it; {"pytz": name or minutes} if pytz made it.

Columns of strings, whichever way pandas stores them, as the buffers of `texts`.

    StringArray   storage, na, lengths, missing, groups

Buffers of Arrow are handed over without copying where the strings lie in one piece.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from otolith.codecs.base import Form, Forming, Reading, check, demand, identical
from otolith.codecs.buffers import ends_of, fill, fold, fold_buffers, gather, unfold
from otolith.codecs.plain import _lift_zone, _lower_zone
from otolith.errors import MissingExtra, UnknownType
from otolith.types import Piece

UNITS = ("s", "ms", "us", "ns")

_OFFSETS: dict[str, Any] = {
    name: kind
    for name in set(pd.offsets.__all__) - {"BaseOffset", "Tick"}
    if isinstance(kind := getattr(pd.offsets, name), type)
    if kind.__name__ == name and issubclass(kind, pd.offsets.BaseOffset)
}


def lower_zone(zone: tzinfo | None) -> object:
    """Return the form of a zone; pytz makes zones of its own.

    Raises:
        BadValue: it is of a kind that has no form.
    """
    if zone is None or type(zone).__module__.partition(".")[0] != "pytz":
        return _lower_zone(zone)
    name: str | None = zone.zone  # type: ignore[attr-defined]
    return {"pytz": zone._minutes if name is None else name}  # type: ignore[attr-defined]  # noqa: SLF001


def lift_zone(form: object) -> tzinfo | None:
    """Return the zone of a form.

    Raises:
        Corrupt: it is no form of a zone.
        UnknownType: this machine does not know it.
        MissingExtra: it needs pytz.
    """
    if type(form) is dict:
        return _lift_pytz(form)
    return None if form is None else _lift_zone(form)


def _lift_pytz(form: dict[Any, Any]) -> tzinfo:
    try:
        import pytz  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra("a time zone of pytz needs pytz", hint="pip install pytz") from error
    name = form.get("pytz")
    demand(form.keys() == {"pytz"} and type(name) in (str, int), "not a time zone of pytz")
    zone: tzinfo = pytz.timezone(name) if type(name) is str else pytz.FixedOffset(name)
    demand(lower_zone(zone) == form, "a time zone of pytz goes by another name")
    return zone


def _lower_timestamp(value: Any) -> Form:
    zone = value.tzinfo
    return {
        "type": "Timestamp",
        "value": int(value.asm8.view(np.int64)),
        "unit": value.unit,
        "zone": lower_zone(zone),
        "fold": value.fold if zone is None else 0,  # else it follows from the zone
    }


def _lift_timestamp(form: Form) -> object:
    value, unit, described, fold = check(form, value=int, unit=str, zone=object, fold=int)
    demand(unit in UNITS and fold in (0, 1), "not a unit, or not a fold")
    made = pd.Timestamp(np.datetime64(value, unit))
    demand(made is not pd.NaT, "a Timestamp is missing")
    zone = lift_zone(described)
    if zone is not None:
        demand(fold == 0, "a fold beside a zone")
        return made.tz_localize("UTC").tz_convert(zone)
    return made.replace(fold=1) if fold else made


def _lower_timedelta(value: Any) -> Form:
    return {"type": "Timedelta", "value": int(value.asm8.view(np.int64)), "unit": value.unit}


def _lift_timedelta(form: Form) -> object:
    value, unit = check(form, value=int, unit=str)
    demand(unit in UNITS, "not a unit")
    made = pd.Timedelta(np.timedelta64(value, unit))
    demand(made is not pd.NaT, "a Timedelta is missing")
    return made


def _lower_period(value: Any) -> Form:
    return {"type": "Period", "ordinal": value.ordinal, "freq": value.freq}


def _lift_period_value(form: Form) -> object:
    ordinal, freq = check(form, ordinal=int, freq=pd.offsets.BaseOffset)
    made = pd.Period(ordinal=ordinal, freq=freq)
    demand(made is not pd.NaT, "a Period is missing")
    return made


def _lower_offset(value: Any) -> Form:
    # The calendar is made from the other options, and cannot be taken apart.
    options = {name: part for name, part in value.kwds.items() if name != "calendar"}
    return {
        "type": "offset",
        "name": type(value).__name__,
        "n": value.n,
        "normalize": value.normalize,
        "options": options,
    }


def _lift_offset(form: Form) -> object:
    name, n, normalize, options = check(form, name=str, n=int, normalize=bool, options=dict)
    demand(name in _OFFSETS, f"pandas has no offset {name[:40]!r}")
    more = {"normalize": True} if normalize else {}
    made = _OFFSETS[name](n, **more, **options)
    demand(identical(_lower_offset(made), form), "an offset has other options than it is kept with")
    return made


def _lift_nat(form: Form) -> object:
    check(form)
    return pd.NaT


MOMENT_LOWER: dict[type, Forming] = {
    pd.Timestamp: _lower_timestamp,
    pd.Timedelta: _lower_timedelta,
    pd.Period: _lower_period,
    type(pd.NaT): lambda _: {"type": "NaT"},
    **dict.fromkeys(_OFFSETS.values(), _lower_offset),
}

MOMENT_LIFT: dict[str, Reading] = {
    "Timestamp": _lift_timestamp,
    "Timedelta": _lift_timedelta,
    "Period": _lift_period_value,
    "NaT": _lift_nat,
    "offset": _lift_offset,
}


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
    return _lift_arrow_strings(form, dtype) if storage == "pyarrow" else _lift_python(form, dtype)


def _lift_python(form: Form, dtype: Any) -> object:
    strings, missing = unfold(form, gaps=1)
    values = fill(strings, missing, lambda _: dtype.na_value)
    return pd.array(values, dtype=dtype, copy=False)


def _lift_arrow_strings(form: Form, dtype: Any) -> object:
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


STRING_LOWER: dict[type, Forming] = dict.fromkeys(_kinds(), _lower)
STRING_LIFT: dict[str, Reading] = {"StringArray": _lift}
