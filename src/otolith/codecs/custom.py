"""Types of one's own, lowered and lifted by functions that were registered for them.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    CUSTOM  [registered name, version, data]    version is an int, 1 or more
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from otolith.codecs.base import Lowering
from otolith.codecs.exact import VERIFY, parts
from otolith.errors import BadValue, Corrupt, Error, Exists, Invalid, UnknownType
from otolith.types import Tag, Tagged

# What code that meets unexpected data raises; anything else is a defect that should be seen.
_MISFITS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


class Registered(NamedTuple):
    """How one type is kept."""

    kind: type
    name: str
    version: int
    lower: Callable[[Any], object]
    lifts: Mapping[int, Callable[[Any], object]]


class Customs:
    """Lowers and lifts values of registered types."""

    def __init__(self) -> None:
        self._by_kind: dict[type, Registered] = {}
        self._by_name: dict[str, Registered] = {}

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({Tag.CUSTOM})

    def register(self, entry: Registered) -> None:
        """Keep values of this type from now on.

        Raises:
            Exists: the name or the type is already registered.
            Invalid: the version is not an int, 1 or more, or the name is empty.
        """
        if entry.name in self._by_name or entry.kind in self._by_kind:
            raise Exists(
                f"{entry.name!r} or its type {entry.kind.__qualname__} is already registered",
                hint="register each type once, under a name of its own",
            )
        if not entry.name or any(type(each) is not int or each < 1 for each in entry.lifts):
            raise Invalid(
                f"cannot register {entry.name!r} with versions {sorted(entry.lifts)}",
                hint="give it a name, and versions that are ints, 1 or more",
            )
        self._by_name[entry.name] = self._by_kind[entry.kind] = entry

    def lowering(self, kind: type) -> Lowering | None:
        entry = self._by_kind.get(kind)
        return None if entry is None else _lowering(entry)

    def lift(self, code: int, data: object) -> object:
        name, version, content = parts(data, "a value of a registered type", str, int, object)
        if version < 1:
            raise Corrupt(f"a value of {name!r} has the version {version}", hint=VERIFY)
        lift = self._lift(name, version)
        try:
            return lift(content)
        except Error:
            raise
        except _MISFITS as error:
            raise Corrupt(
                f"the codec registered as {name!r} could not read what is stored: {error!r}",
                hint="verify the store; if it is sound, the codec's lift is at fault",
            ) from error

    def today(self, name: str, version: int) -> tuple[str, int] | None:
        """Return the name and version such a value would get today, None if it has them.

        Raises:
            UnknownType: it is not registered, or not for this version.
        """
        self._lift(name, version)
        today = self._by_name[name].version
        return (name, today) if today != version else None

    def _lift(self, name: str, version: int) -> Callable[[Any], object]:
        entry = self._by_name.get(name)
        if entry is None:
            raise UnknownType(
                f"the type {name!r} is not registered here",
                hint="register its codec before reading, or read with opaque=True",
            )
        if version not in entry.lifts:
            raise UnknownType(
                f"{name!r} is registered as version {entry.version}, stored as version {version}",
                hint="register it with older={version: lift}, or read with opaque=True",
            )
        return entry.lifts[version]


def _lowering(entry: Registered) -> Lowering:
    def lower(value: object) -> Tagged:
        try:
            data = entry.lower(value)
        except Error:
            raise
        except _MISFITS as error:
            raise BadValue(
                f"the codec registered as {entry.name!r} could not lower a value: {error!r}",
                hint="correct the codec's lower, or the value",
            ) from error
        return Tagged(Tag.CUSTOM, [entry.name, entry.version, data])

    return lower
