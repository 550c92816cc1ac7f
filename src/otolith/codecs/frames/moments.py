"""What pandas says about time: instants, spans, periods, offsets, and their zones.

    Timestamp   value, unit, zone, fold     value in units since 1970, UTC where there is a zone
    Timedelta   value, unit
    Period      ordinal, freq
    NaT         nothing: pandas has one of it
    offset      name, n, normalize, options

A zone is kept as `otolith.codecs.moments` keeps it; {"pytz": name or minutes} if pytz made it.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

from otolith.codecs.exact import identical
from otolith.codecs.forms import Form, Forming, Reading, check, demand
from otolith.codecs.moments import _lift_zone, _lower_zone
from otolith.errors import MissingExtra

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


def _lift_period(form: Form) -> object:
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


LOWER: dict[type, Forming] = {
    pd.Timestamp: _lower_timestamp,
    pd.Timedelta: _lower_timedelta,
    pd.Period: _lower_period,
    type(pd.NaT): lambda _: {"type": "NaT"},
    **dict.fromkeys(_OFFSETS.values(), _lower_offset),
}

LIFT: dict[str, Reading] = {
    "Timestamp": _lift_timestamp,
    "Timedelta": _lift_timedelta,
    "Period": _lift_period,
    "NaT": _lift_nat,
    "offset": _lift_offset,
}
