"""Python's own value types beyond plain data, each in one canonical form, and enumerations.

Forms (they never change, see `docs/reference/format-v1.md`)

    BIGINT     bytes        an int outside -2**63 .. 2**64-1: two's complement, big endian, shortest
    TEXT       bytes        a str with lone surrogates: UTF-8 that lets each surrogate pass
    TUPLE      list         the elements
    SET        dict         element -> None
    FROZENSET  dict         element -> None
    DECIMAL    str          scientific string of the General Decimal Arithmetic, with a capital E:
                            "1.50", "-0", "1E+5", "Infinity", "NaN", "-sNaN12"; digits are ASCII
    UUID       bytes        16 bytes, big endian
    PATH       [int, str]   0 PurePosixPath, 1 PureWindowsPath, 2 PosixPath, 3 WindowsPath; its str
    COMPLEX    [float, float]   real, imaginary
    BYTEARRAY  bytes        the content

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

    ENUM       [type name, str, value]      a member that has a name
               [type name, [str...], int]   flags combined: the names of those set, sorted, all bits

Rules
1. Only exact types are taken: a subclass may carry more than its base can hold.
2. A time is what the clock shows, never converted: the rules of a zone may change after a value was
   stored, and the value must not.
3. A member is stored by name, with its value to notice when its meaning has changed.
4. How a UUID was generated (`is_safe`) is not part of its value. A concrete path of the other
   platform comes back as the pure path of its flavour.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal, InvalidOperation
from enum import Enum, Flag
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from otolith.codecs.base import VERIFY, Lowering, identical, parts
from otolith.codecs.class_names import ClassNames
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Tag, Tagged

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_DAY = 86_400_000_000

# Constants: looking up a member of Tag each time would take as long as all the rest.
_DATE, _TIME, _DATETIME, _TIMEDELTA = Tag.DATE, Tag.TIME, Tag.DATETIME, Tag.TIMEDELTA
_FIRST, _LAST = date.min.toordinal(), date.max.toordinal()


def _lift_date(data: object) -> date:
    if type(data) is not int or not _FIRST <= data <= _LAST:
        raise Corrupt("a date is not stored as a day between the years 1 and 9999", hint=VERIFY)
    return date.fromordinal(data)


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
    return Tagged(_DATETIME, [clock, value.fold, lower_zone(zone)])


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
    return Tagged(_TIME, [clock, value.fold, lower_zone(zone)])


def _lift_time(data: object) -> time:
    clock, fold, zone = _parts(data, "time")
    if not 0 <= clock < _DAY:
        raise Corrupt("a time is out of range", hint=VERIFY)
    shown = _EPOCH + timedelta(microseconds=clock)
    return shown.time().replace(fold=fold, tzinfo=zone)


def _since_midnight(value: datetime | time) -> int:
    """Return what the clock shows, in microseconds."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _parts(data: object, what: str) -> tuple[int, int, tzinfo | None]:
    """Return the clock, fold and zone of a time or datetime."""
    if type(data) is int:
        return data, 0, None
    clock, fold, zone = parts(data, f"a {what}", int, int, object)
    if fold not in (0, 1) or (fold == 0 and zone is None):
        raise Corrupt(f"a {what} is not in its canonical form", hint=VERIFY)
    return clock, fold, None if zone is None else lift_zone(zone)


def lower_zone(zone: tzinfo | None) -> object:
    """Return the form of a zone, or raise BadValue."""
    if zone is None:
        return None
    if zone is UTC:
        return 0
    if type(zone) is timezone:
        # Only this distinguishes a name that was given from one that is made up when asked for.
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        clock = offset // timedelta(microseconds=1)
        return [clock, name[0]] if name else clock
    if type(zone) is ZoneInfo and zone.key is not None:
        return zone.key
    raise BadValue(
        f"cannot store a time zone of type {type(zone).__module__}.{type(zone).__qualname__}",
        hint="use zoneinfo.ZoneInfo with a key, or a fixed offset (datetime.timezone)",
    )


def lift_zone(zone: object) -> tzinfo:
    """Return the zone of a form, or raise Corrupt or UnknownType."""
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
    """Return the zone with a key, from the time zone data of this machine."""
    try:
        return ZoneInfo(key)
    except (KeyError, ValueError, OSError) as error:
        raise UnknownType(
            f"the time zone {key[:80]!r} is not known here",
            hint="install the system's time zone data, or the package tzdata",
        ) from error


# The caller's decimal context could change the letter of an exponent or silence a bad literal.
_EXACT = Context(capitals=1, traps=[InvalidOperation])

_PURE: tuple[type[PurePath], ...] = (PurePosixPath, PureWindowsPath)
_PATHS: tuple[type[PurePath], ...] = (*_PURE, PosixPath, WindowsPath)
_HERE = type(Path())


class PlainCodec:
    """The codec of Python's own value types."""

    def __init__(self) -> None:
        self.codes: frozenset[int] = frozenset(_LIFT)

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers values of exactly this type, if it is in the table."""
        return _LOWER.get(kind)

    def lift(self, code: int, data: object) -> object:
        """Return the value of a form."""
        return _LIFT[code](data)


def _lowering(code: Tag, form: Callable[[Any], object]) -> Lowering:
    """Return a lowering to a code, given the function that makes the form."""

    def lower(value: object) -> Tagged:
        return Tagged(code, form(value))

    return lower


def _lower_int(value: int) -> Tagged:
    # One bit more than the magnitude, for the sign; ~value of a negative is its magnitude less one.
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return Tagged(Tag.BIGINT, value.to_bytes((bits + 7) // 8, "big", signed=True))


def _lift_int(data: object) -> int:
    value = int.from_bytes(_bytes(data, "int"), "big", signed=True)
    if -(2**63) <= value < 2**64 or _lower_int(value).data != data:
        raise Corrupt("an int is not in its shortest form", hint=VERIFY)
    return value


def _lift_text(data: object) -> str:
    raw = _bytes(data, "str")
    try:
        value = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Corrupt("a str with surrogates is not UTF-8", hint=VERIFY) from error
    if not any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Corrupt("a str is marked as having surrogates and has none", hint=VERIFY)
    return value


def _lift_tuple(data: object) -> tuple[object, ...]:
    if type(data) is not list:
        raise Corrupt("a tuple is not stored as a list", hint=VERIFY)
    return tuple(data)


def _elements(data: object) -> dict[Any, None]:
    """Return the elements of a set, as keys."""
    if type(data) is not dict or any(value is not None for value in data.values()):
        raise Corrupt("a set is not stored as a dict of its elements", hint=VERIFY)
    return data


def _lift_decimal(data: object) -> Decimal:
    if type(data) is not str:
        raise Corrupt("a Decimal is not stored as a str", hint=VERIFY)
    try:
        value = Decimal(data, _EXACT)
    except InvalidOperation as error:
        raise Corrupt(f"{data[:40]!r} is not a Decimal", hint=VERIFY) from error
    if _EXACT.to_sci_string(value) != data:
        raise Corrupt(f"the Decimal {data[:40]!r} is not in its canonical form", hint=VERIFY)
    return value


def _lift_uuid(data: object) -> UUID:
    raw = _bytes(data, "UUID")
    if len(raw) != 16:
        raise Corrupt(f"a UUID has {len(raw)} bytes instead of 16", hint=VERIFY)
    return UUID(bytes=raw)


def _path_lowering(number: int) -> Lowering:
    """Return the lowering of one of the four kinds of paths."""
    pure = _PURE[number % 2]

    def lower(value: PurePath) -> Tagged:
        text = str(value)
        if number % 2 and pure(text).parts != value.parts:
            raise BadValue(f"cannot store {value!r}: its text reads as another path")
        return Tagged(Tag.PATH, [number, text])

    return lower


def _lift_path(data: object) -> PurePath:
    number, text = parts(data, "a path", int, str)
    if not 0 <= number < len(_PATHS):
        raise Corrupt(f"there is no kind {number} of paths", hint=VERIFY)
    pure: PurePath = _PURE[number % 2](text)
    if str(pure) != text:
        raise Corrupt(f"the path {text[:40]!r} is not in its canonical form", hint=VERIFY)
    kind: type[PurePath] = _PATHS[number]
    return kind(text) if issubclass(_HERE, kind) else pure


def _bytes(data: object, what: str) -> bytes:
    if type(data) is not bytes:
        raise Corrupt(f"the data of a {what} is not bytes", hint=VERIFY)
    return data


_LOWER: dict[type, Lowering] = {
    int: _lower_int,
    str: _lowering(Tag.TEXT, lambda value: value.encode("utf-8", "surrogatepass")),
    tuple: _lowering(Tag.TUPLE, list),
    set: _lowering(Tag.SET, dict.fromkeys),
    frozenset: _lowering(Tag.FROZENSET, dict.fromkeys),
    Decimal: _lowering(Tag.DECIMAL, _EXACT.to_sci_string),
    UUID: _lowering(Tag.UUID, lambda value: value.bytes),
    complex: _lowering(Tag.COMPLEX, lambda value: [value.real, value.imag]),
    bytearray: _lowering(Tag.BYTEARRAY, bytes),
    **{kind: _path_lowering(number) for number, kind in enumerate(_PATHS)},
    date: lambda value: Tagged(_DATE, value.toordinal()),
    timedelta: lambda value: Tagged(_TIMEDELTA, [value.days, value.seconds, value.microseconds]),
    datetime: _lower_datetime,
    time: _lower_time,
}

_LIFT: dict[int, Callable[[object], object]] = {
    Tag.BIGINT: _lift_int,
    Tag.TEXT: _lift_text,
    Tag.TUPLE: _lift_tuple,
    Tag.SET: lambda data: set(_elements(data)),
    Tag.FROZENSET: lambda data: frozenset(_elements(data)),
    Tag.DECIMAL: _lift_decimal,
    Tag.UUID: _lift_uuid,
    Tag.PATH: _lift_path,
    Tag.COMPLEX: lambda data: complex(*parts(data, "a complex", float, float)),
    Tag.BYTEARRAY: lambda data: bytearray(_bytes(data, "bytearray")),
    Tag.DATE: _lift_date,
    Tag.TIMEDELTA: _lift_timedelta,
    Tag.DATETIME: _lift_datetime,
    Tag.TIME: _lift_time,
}


class EnumCodec:
    """The codec of members of Enum and its subclasses."""

    codes: frozenset[int] = frozenset({Tag.ENUM})

    def __init__(self, names: ClassNames) -> None:
        self._names = names

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers members of an enumeration."""
        if not issubclass(kind, Enum):
            return None
        type_name, code = self._names.name_of(kind), Tag.ENUM

        def lower(value: Enum) -> Tagged:
            return Tagged(code, [type_name, _stored_name(value), value._value_])

        return lower

    def lift(self, code: int, data: object) -> object:
        """Return the stored member, or raise UnknownType if the enumeration has changed."""
        type_name, names, value = parts(data, "a member", str, object, object)
        if type(names) is not str:
            _check_flags(type_name, names, value)
        kind = self._names.find(type_name)
        if not issubclass(kind, Enum):
            raise _changed(type_name, "is no longer an enumeration")
        if type(names) is str:
            return _named(kind, type_name, names, value)
        return _combined(kind, type_name, names, value)


def _stored_name(value: Enum) -> str | list[str]:
    """Return the name of a member, or the names of the flags that are set in it."""
    name = value._name_
    if name in type(value).__members__:
        return name
    return sorted(flag._name_ for flag in type(value) if flag._value_ & value._value_)


def _named(kind: type[Enum], type_name: str, name: str, value: object) -> Enum:
    """Return the member with a name, if it has the stored value."""
    member = kind.__members__.get(name)
    if member is None:
        raise _changed(type_name, f"has no member {name!r}")
    if not identical(member._value_, value, ordered=False):
        raise _changed(type_name, f"has another value for {name!r}")
    return member


def _check_flags(type_name: str, names: object, value: object) -> None:
    if type(names) is not list or any(type(name) is not str for name in names):
        raise Corrupt(f"flags of {type_name} are not stored with their names", hint=VERIFY)
    if type(value) is not int:
        raise Corrupt(f"flags of {type_name} are not stored with their bits", hint=VERIFY)


def _combined(kind: type[Enum], type_name: str, names: list[str], value: int) -> Enum:
    """Return the member that combines flags, if the names of the bits are the stored ones."""
    if not issubclass(kind, Flag):
        raise _changed(type_name, "is no longer an enumeration of flags")
    try:
        member = kind(value)
    except (ValueError, TypeError) as error:
        raise _changed(type_name, f"does not take the bits {value}") from error
    if type(member) is not kind or member._value_ != value or _stored_name(member) != names:
        raise _changed(type_name, f"has other names for the bits {value}")
    return member


def _changed(type_name: str, how: str) -> UnknownType:
    return UnknownType(
        f"the type {type_name} {how}",
        hint="the class has changed: restore the member, or read with opaque=True",
    )
