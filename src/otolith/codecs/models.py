"""Instances of model classes, kept as data with the name and the schema version of their class.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    MODEL  [type name, version, fields]          dataclass, attrs, msgspec Struct, namedtuple
           [type name, version, fields, rest]    pydantic; rest is [names of fields that were set,
                                                 sorted; extra fields or None; private or None]

    type name   "module:Qualname", or as registered
    version     int, 1 or more: the class attribute __otolith_version__, 1 if there is none
    fields      dict: field name -> value

A stored name finds a class only among those registered or imported, and only a class of a known
family is ever made from it. A class that has changed is an error, unless an upgrade was registered
or migrations were declared for it; never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from otolith.codecs.base import Lowering
from otolith.codecs.exact import DERIVED, VERIFY, parts
from otolith.codecs.families import Family, Stored, family_of
from otolith.codecs.migrations import migrate, way
from otolith.codecs.names import Names
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Tag, Tagged

Upgrade: TypeAlias = Callable[[int, dict[str, Any]], dict[str, Any]]
"""Turns the fields stored with an older version, given first, into those of the class of today."""


class Shape(NamedTuple):
    """What is known of a model class, worked out once."""

    kind: type
    version: int
    family: Family
    fields: tuple[str, ...]
    known: frozenset[str]


class Models:
    """Lowers and lifts instances of model classes."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._shapes: dict[type, Shape] = {}
        self._upgrades: dict[type, Upgrade] = {}

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({Tag.MODEL})

    def upgrade(self, kind: type, upgrade: Upgrade) -> None:
        """Use this for stored fields that are not those of the class of today."""
        self._upgrades[kind] = upgrade

    def lowering(self, kind: type) -> Lowering | None:
        shape = self._shape(kind)
        if shape is None:
            return None
        _refuse_hidden_slots(shape)
        return _lowering(shape, self._names.name_of(kind))

    def lift(self, code: int, data: object) -> object:
        longer = type(data) is list and len(data) == 4
        kinds = (str, int, dict, list) if longer else (str, int, dict)
        name, version, fields, *rest = parts(data, "a model", *kinds)
        if version < 1 or any(type(field) is not str for field in fields):
            raise Corrupt(f"the model {name} has a bad version or bad field names", hint=VERIFY)
        shape = self._found(name)
        stored = self._of_today(shape, name, version, Stored(fields, rest[0] if rest else None))
        return shape.family.make(shape.kind, stored.fields, stored.rest)

    def today(
        self, name: str, version: int, fields: Collection[str], *, has_rest: bool
    ) -> tuple[str, int] | None:
        """Return the name and version such an instance would get today, None if it has them.

        Raises:
            UnknownType: its class is not known, or has changed and nothing says how.
        """
        shape = self._found(name)
        wrong = _difference(shape, version, fields, has_rest=has_rest)
        if wrong and shape.kind not in self._upgrades:
            if version >= shape.version:
                raise _changed(name, wrong)
            list(way(shape.kind, version, shape.version))
        today = self._names.name_of(shape.kind)
        return (today, shape.version) if wrong or today != name else None

    def _found(self, name: str) -> Shape:
        shape = self._shape(self._names.find(name))
        if shape is None:
            raise _changed(name, "is no model here")
        return shape

    def _of_today(self, shape: Shape, name: str, version: int, stored: Stored) -> Stored:
        wrong = _difference(shape, version, stored.fields, has_rest=stored.rest is not None)
        if not wrong:
            return stored
        if upgrade := self._upgrades.get(shape.kind):
            found = upgrade(version, stored.named())
        elif version < shape.version:
            found = migrate(shape.kind, stored.named(), old=version, new=shape.version)
        else:
            raise _changed(name, wrong)
        if type(found) is not dict:
            raise _changed(name, f"has an upgrade that returned {found!r}, not a dict of fields")
        renew = shape.family.renew
        today = renew(shape.kind, stored, found) if renew else Stored(found)
        wrong = _difference(shape, shape.version, today.fields, has_rest=renew is not None)
        if wrong:
            raise _changed(name, f"{wrong}, after its migration from version {version}")
        return today

    def _shape(self, kind: type) -> Shape | None:
        shape = self._shapes.get(kind)
        if shape is None and (found := family_of(kind)):
            family, fields = found
            shape = Shape(kind, _version(kind), family, fields, frozenset(fields))
            self._shapes[kind] = shape
        return shape


def _lowering(shape: Shape, name: str) -> Lowering:
    fields, known, version = shape.fields, shape.known, shape.version
    code, rest_of = Tag.MODEL, shape.family.rest

    def lower(value: object) -> Tagged:
        try:
            parts = {field: getattr(value, field) for field in fields}
        except AttributeError as error:
            raise BadValue(f"cannot keep a {name}: a field was never set: {error}") from error
        own = getattr(value, "__dict__", None)
        if own and not own.keys() <= known:
            _refuse_strays(shape.kind, name, own.keys() - known)
        data = [name, version, parts]
        return Tagged(code, data if rest_of is None else [*data, rest_of(value)])

    return lower


def _refuse_strays(kind: type, name: str, strays: set[str]) -> None:
    for stray in sorted(strays - DERIVED):
        owner = next((vars(base)[stray] for base in kind.__mro__ if stray in vars(base)), None)
        if not isinstance(owner, cached_property):
            raise BadValue(
                f"cannot keep a {name}: its attribute {stray!r} is not a field",
                hint="make it a field, or register a codec for the class",
            )


def _refuse_hidden_slots(shape: Shape) -> None:
    if shape.family.name not in {"dataclass", "namedtuple"}:
        return  # The others make slots of their own, for what they can compute again.
    for base in shape.kind.__mro__:
        slots = vars(base).get("__slots__", ())
        names = {slots} if isinstance(slots, str) else set(slots)
        if hidden := names - shape.known - {"__dict__", "__weakref__"}:
            raise BadValue(
                f"cannot keep a {shape.kind.__module__}:{shape.kind.__qualname__}:"
                f" its slot {min(hidden)!r} is not a field",
                hint="make it a field, or register a codec for the class",
            )


def _version(kind: type) -> int:
    version = getattr(kind, "__otolith_version__", 1)
    if type(version) is not int or not 1 <= version < 2**63:
        raise BadValue(
            f"{kind.__module__}:{kind.__qualname__} has the schema version {version!r}",
            hint="__otolith_version__ is an int, 1 or more",
        )
    return version


def _difference(shape: Shape, version: int, fields: Collection[str], *, has_rest: bool) -> str:
    if version != shape.version:
        return f"has version {shape.version} here and was stored with version {version}"
    if missing := shape.known.difference(fields):
        return f"has fields here that were not stored: {', '.join(sorted(missing))}"
    if len(fields) > len(shape.known):
        unknown = set(fields) - shape.known
        return f"was stored with fields it does not have here: {', '.join(sorted(unknown))}"
    if has_rest != (shape.family.rest is not None):
        return "is no longer the kind of model that was stored"
    return ""


def _changed(name: str, how: str) -> UnknownType:
    return UnknownType(
        f"the type {name} {how}",
        hint="the class has changed: raise its __otolith_version__ and declare a migration, give"
        " register_model an upgrade, or read with opaque=True",
    )
