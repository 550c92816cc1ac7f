"""Members of enumerations, kept by name, with the value to notice when its meaning has changed.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    ENUM  [type name, str, value]      a member that has a name
          [type name, [str...], int]   flags combined: the names of those set, sorted, and all bits
"""

from __future__ import annotations

from enum import Enum, Flag

from otolith.codecs.base import Lowering
from otolith.codecs.exact import VERIFY, identical, parts
from otolith.codecs.names import Names
from otolith.errors import Corrupt, UnknownType
from otolith.types import Tag, Tagged


class Enums:
    """Lowers and lifts members of Enum and all that derive from it."""

    def __init__(self, names: Names) -> None:
        self._names = names

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({Tag.ENUM})

    def lowering(self, kind: type) -> Lowering | None:
        if not issubclass(kind, Enum):
            return None
        type_name, code = self._names.name_of(kind), Tag.ENUM

        def lower(value: Enum) -> Tagged:
            return Tagged(code, [type_name, _called(value), value._value_])

        return lower

    def lift(self, code: int, data: object) -> object:
        type_name, called, value = parts(data, "a member", str, object, object)
        if type(called) is not str:
            _check_flags(type_name, called, value)
        kind = self._names.find(type_name)
        if not issubclass(kind, Enum):
            raise _changed(type_name, "is no longer an enumeration")
        if type(called) is str:
            return _named(kind, type_name, called, value)
        return _combined(kind, type_name, called, value)


def _called(value: Enum) -> str | list[str]:
    name = value._name_
    if name in type(value).__members__:
        return name
    return sorted(flag._name_ for flag in type(value) if _is_set(flag, value))


def _is_set(flag: Enum, value: Enum) -> bool:
    return bool(flag._value_ & value._value_)


def _named(kind: type[Enum], type_name: str, name: str, value: object) -> Enum:
    member = kind.__members__.get(name)
    if member is None:
        raise _changed(type_name, f"has no member {name!r}")
    if not identical(member._value_, value):
        raise _changed(type_name, f"has another value for {name!r}")
    return member


def _check_flags(type_name: str, names: object, value: object) -> None:
    if type(names) is not list or any(type(name) is not str for name in names):
        raise Corrupt(f"flags of {type_name} are not kept with their names", hint=VERIFY)
    if type(value) is not int:
        raise Corrupt(f"flags of {type_name} are not kept with their bits", hint=VERIFY)


def _combined(kind: type[Enum], type_name: str, names: list[str], value: int) -> Enum:
    if not issubclass(kind, Flag):
        raise _changed(type_name, "is no longer an enumeration of flags")
    try:
        member = kind(value)
    except (ValueError, TypeError) as error:
        raise _changed(type_name, f"does not take the bits {value}") from error
    if type(member) is not kind or member._value_ != value or _called(member) != names:
        raise _changed(type_name, f"has other names for the bits {value}")
    return member


def _changed(type_name: str, how: str) -> UnknownType:
    return UnknownType(
        f"the type {type_name} {how}",
        hint="the class has changed: restore the member, or read with opaque=True",
    )
