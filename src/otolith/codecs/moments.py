"""Dates, times of day, instants and spans, with their zones, each in one canonical form.

The forms are seen by hashes and never change (`docs/reference/format-v1.md`):

    DATE       int                   days; 0001-01-01 is 1
    TIMEDELTA  [int, int, int]       days, seconds 0..86399, microseconds 0..999999
    TIME       int                   microseconds since midnight
               [int, fold, zone]     the same, where fold is 1 or there is a zone
    DATETIME   int                   microseconds from 1970-01-01 00:00 to what the clock shows
               [int, fold, zone]     the same, where fold is 1 or there is a zone

    fold       0 | 1
    zone       None                  naive
               int                   a fixed offset from UTC in microseconds, without a name
               [int, str]            a fixed offset with a name
               str                   the key of an IANA zone, as `zoneinfo.ZoneInfo` takes it

The time is always what the clock shows, never converted: a rule of a zone may change after a value
was kept, and the value must not.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from otolith.codecs.base import Lowering
from otolith.codecs.exact import VERIFY, parts
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Tag, Tagged

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_DAY = 86_400_000_000

# Looking up a member of Tag each time would take as long as all the rest.
_DATE, _TIME, _DATETIME, _TIMEDELTA = Tag.DATE, Tag.TIME, Tag.DATETIME, Tag.TIMEDELTA
_FIRST, _LAST = date.min.toordinal(), date.max.toordinal()


def _lift_date(data: object) -> date:
    if type(data) is not int or not _FIRST <= data <= _LAST:
        raise Corrupt("a date is not kept as a day between the years 1 and 9999", hint=VERIFY)
    return date.fromordinal(data)


def _lower_timedelta(value: timedelta) -> Tagged:
    return Tagged(_TIMEDELTA, [value.days, value.seconds, value.microseconds])


def _lift_timedelta(data: object) -> timedelta:
    days, seconds, microseconds = parts(data, "a timedelta", int, int, int)
    if abs(days) > timedelta.max.days or not 0 <= seconds * 1_000_000 + microseconds < _DAY:
        raise Corrupt("a timedelta is out of range", hint=VERIFY)
    if not 0 <= microseconds < 1_000_000:
        raise Corrupt("the microseconds of a timedelta are out of range", hint=VERIFY)
    return timedelta(days, seconds, microseconds)


def _lower_datetime(value: datetime) -> Tagged:
    clock = (value.toordinal() - _EPOCH_DAY) * _DAY + _since_midnight(value)
    zone = value.tzinfo
    if zone is None and not value.fold:
        return Tagged(_DATETIME, clock)
    return Tagged(_DATETIME, [clock, value.fold, _lower_zone(zone)])


def _lift_datetime(data: object) -> datetime:
    clock, fold, zone = _parts(data, "datetime")
    try:
        shown = _EPOCH + timedelta(microseconds=clock)
    except OverflowError as error:
        raise Corrupt("a datetime is out of range", hint=VERIFY) from error
    return shown if type(data) is int else shown.replace(fold=fold, tzinfo=zone)


def _lower_time(value: time) -> Tagged:
    clock = _since_midnight(value)
    zone = value.tzinfo
    if zone is None and not value.fold:
        return Tagged(_TIME, clock)
    return Tagged(_TIME, [clock, value.fold, _lower_zone(zone)])


def _lift_time(data: object) -> time:
    clock, fold, zone = _parts(data, "time")
    if not 0 <= clock < _DAY:
        raise Corrupt("a time is out of range", hint=VERIFY)
    shown = _EPOCH + timedelta(microseconds=clock)
    return shown.time().replace(fold=fold, tzinfo=zone)


def _since_midnight(value: datetime | time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _parts(data: object, what: str) -> tuple[int, int, tzinfo | None]:
    if type(data) is int:
        return data, 0, None
    clock, fold, zone = parts(data, f"a {what}", int, int, object)
    if fold not in (0, 1) or (fold == 0 and zone is None):
        raise Corrupt(f"a {what} is not in its canonical form", hint=VERIFY)
    return clock, fold, None if zone is None else _lift_zone(zone)


def _lower_zone(zone: tzinfo | None) -> object:
    if zone is None:
        return None
    if zone is UTC:
        return 0
    if type(zone) is timezone:
        return _lower_offset(zone)
    if type(zone) is ZoneInfo and zone.key is not None:
        return zone.key
    raise BadValue(
        f"cannot keep a time zone of type {type(zone).__module__}.{type(zone).__qualname__}",
        hint="use zoneinfo.ZoneInfo with a key, or a fixed offset (datetime.timezone)",
    )


def _lower_offset(zone: timezone) -> object:
    # The only way to tell a name that was given from the one that is made up when asked for.
    offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
    clock = offset // timedelta(microseconds=1)
    return [clock, name[0]] if name else clock


def _lift_zone(zone: object) -> tzinfo:
    if type(zone) is str:
        return _find_zone(zone)
    if type(zone) is int:
        return UTC if zone == 0 else timezone(_offset(zone))
    clock, name = parts(zone, "a time zone with a name", int, str)
    return timezone(_offset(clock), name)


def _offset(clock: int) -> timedelta:
    if abs(clock) >= _DAY:
        raise Corrupt("the offset of a time zone is a day or more", hint=VERIFY)
    return timedelta(microseconds=clock)


def _find_zone(key: str) -> tzinfo:
    try:
        return ZoneInfo(key)
    except (KeyError, ValueError, OSError) as error:
        raise UnknownType(
            f"the time zone {key[:80]!r} is not known here",
            hint="install the system's time zone data, or the package tzdata",
        ) from error


LOWER: dict[type, Lowering] = {
    date: lambda value: Tagged(_DATE, value.toordinal()),
    timedelta: _lower_timedelta,
    datetime: _lower_datetime,
    time: _lower_time,
}

LIFT: dict[int, Callable[[object], object]] = {
    Tag.DATE: _lift_date,
    Tag.TIMEDELTA: _lift_timedelta,
    Tag.DATETIME: _lift_datetime,
    Tag.TIME: _lift_time,
}
