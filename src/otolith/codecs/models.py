"""Instances of model classes, stored with the name and the schema version of their class.

Form (it never changes, see `docs/reference/format-v1.md`)

    MODEL  [type name, version, fields]          dataclass, attrs, msgspec Struct, namedtuple
           [type name, version, fields, [more]]  the same, with attributes that are not fields
           [type name, version, fields, rest]    pydantic; rest is [names of fields that were set,
                                                 sorted; extra fields or None; private or None]
    STATE  [type name, version, state]           dataclass or attrs with its own `__getstate__` or
                                                 `__setstate__`; state is what the first returns

    type name   "module:Qualname", or as registered
    version     int, 1 or more: the class attribute __otolith_version__, 1 if there is none
    fields      dict: field name -> value, sorted by name: their order is that of the class
    more        dict: attribute name -> value, never empty

A stored name finds a class only among those registered or imported, and only a class of a known
family is ever made from it. A class that has changed is an error, unless an upgrade was registered
or migrations were declared for it; never a guess.

A *family* is one way of writing models: pydantic, msgspec, attrs, dataclass, namedtuple. It is
recognised by attributes of the class, without importing the library. It says which fields a class
has, what else of an instance must be stored, and how to make an instance from those without running
the code that checks or completes new ones.

A class with pickle methods of its own (`instance_state.py`) is stored as they say: by its state, as
data; by a pickle if it defines `__reduce__`, or is of another family. Instances that were stored by
their fields, before the class had such methods, are still read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, NamedTuple, TypeAlias, cast
from weakref import WeakKeyDictionary

from otolith.codecs.base import CACHED_HASH, VERIFY, Lowering, parts
from otolith.codecs.class_names import ClassNames
from otolith.codecs.instance_state import (
    become,
    can_change,
    has_more_slots,
    instance_with,
    more_attributes,
    pickle_protocol,
    set_attributes,
    state_of,
)
from otolith.codecs.migrations import migrate, migration_path
from otolith.codecs.placeholders import Opaque, cannot_pickle
from otolith.codecs.validators import validator_of
from otolith.errors import BadValue, Corrupt, Invalid, UnknownType
from otolith.types import Tag, Tagged

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: clear for classes that are written in C


class ModelFamily(NamedTuple):
    """One way of writing model classes."""

    name: str
    fields: Callable[[Any], tuple[str, ...] | None]
    """The fields of a class, or None if it is not of this family."""
    make: Callable[[Any, dict[str, Any], Any], object]
    """An instance, from its class, its fields, and what `rest` returned."""
    rest: Callable[[Any], object] | None = None
    """What is stored of an instance beside its fields, where there is more."""
    renew: Callable[[Any, StoredModel, dict[str, Any]], StoredModel] | None = None
    """The fields and rest to use after migrations have changed the fields."""


class StoredModel(NamedTuple):
    """The stored parts of an instance: its fields, and the rest where its family has one."""

    fields: dict[str, Any]
    rest: Any = None

    def named(self) -> dict[str, Any]:
        """Return everything that has a name: fields, and the extra ones of pydantic."""
        extra = self.rest[1] if type(self.rest) is list and len(self.rest) == 3 else None
        return {**extra, **self.fields} if type(extra) is dict else dict(self.fields)


def family_of(kind: type) -> tuple[ModelFamily, tuple[str, ...]] | None:
    """Return the family and the fields of a class, or None if it is not a model."""
    for family in _FAMILIES:
        fields = family.fields(kind)
        if fields is not None:
            return family, fields
    return None


def fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a model class, or None if its instances are not stored by fields."""
    if kind not in _fields:
        found = family_of(kind) if pickle_protocol(kind) is None else None
        _fields[kind] = None if found is None else found[1]
        _field_sets[kind] = frozenset(_fields[kind] or ())
    return _fields[kind]


_fields: WeakKeyDictionary[type, tuple[str, ...] | None] = WeakKeyDictionary()
_field_sets: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()


def attributes_of(value: object) -> dict[str, Any] | None:
    """Return all stored attributes of an instance of a model, or None if it is not one."""
    kind = type(value)
    names = fields_of(kind)
    if names is None:
        return None
    found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return {**found, **(more_attributes(value, _field_sets[kind]) or {})}


def named_parts(value: Any) -> dict[str, Any] | None:
    """Return all that an instance of a model has under a name, or None if it is not one.

    That is what `attributes_of` returns, and the extra and private attributes of pydantic. An
    `Opaque` has the parts of the model that it stands for.
    """
    if type(value) is Opaque:
        tables = _opaque_tables(value)
        return {name: part for table in tables for name, part in table.items()} or None
    found = attributes_of(value)
    if found is not None:
        for table in _PYDANTIC_TABLES:
            found |= getattr(value, table, None) or {}
    return found


_PYDANTIC_TABLES = ("__pydantic_extra__", "__pydantic_private__")


def may_have(value: object, name: str) -> bool:
    """Tell whether an instance of a model has, or can be given, a part of this name."""
    if type(value) is Opaque:
        return name in (named_parts(value) or {})
    if name in (fields_of(type(value)) or ()) or name in (named_parts(value) or {}):
        return True
    return getattr(value, "__pydantic_extra__", None) is not None and not name.startswith("_")


def with_named_part(value: Any, name: str, part: object) -> Any:
    """Return an instance of a model with another part: itself, or a copy if it is frozen.

    Raises:
        Invalid: its class refuses the part.
    """
    if type(value) is Opaque:
        return _opaque_with(value, name, part)
    kind = type(value)
    new, check = _copy_with(value, name, part), validator_of(kind)
    why = "" if check is None else check(new)
    if check is not None and why and not check(value):
        raise _refused(kind, name, why)
    try:
        setattr(value, name, part)
    except AttributeError:
        return new
    except Exception as error:  # setters are the user's, and may raise anything
        if getattr(kind, "model_config", {}).get("frozen"):
            return new
        raise _refused(kind, name, str(error)) from error
    return value


def without_named_part(value: Any, name: str) -> None:
    """Remove an attribute of a model, which is not a field.

    Raises:
        Invalid: the class does not allow it.
    """
    try:
        delattr(value, name)
    except Exception as error:  # as above
        raise _refused(type(value), name, str(error)) from error


def updated_in_place(value: Any, fresh: Any, update: Callable[[Any, Any], Any]) -> bool:
    """Give an instance of a model what a fresh one has; return False if it cannot be changed.

    `update` returns what a part becomes, given the old and the new one. `fresh` is used up.
    """
    mine, parts = named_parts(value), named_parts(fresh)
    if mine is None or parts is None or not can_change(type(value)):
        return False
    for name, part in parts.items():
        new = update(mine.get(name), part)
        tables = (getattr(fresh, table, None) or {} for table in _PYDANTIC_TABLES)
        table = next((table for table in tables if name in table), None)
        if table is None:
            set_attributes(fresh, {name: new})
        else:
            table[name] = new
    become(value, fresh)
    return True


def _copy_with(value: Any, name: str, part: object) -> Any:
    """Return a copy of an instance of a model with another part, without calling its class."""
    kind = type(value)
    family, names = cast("tuple[ModelFamily, tuple[str, ...]]", family_of(kind))
    fields = {field: getattr(value, field) for field in names if hasattr(value, field)}
    more, rest = more_attributes(value, frozenset(names)) or {}, None
    if name in names:
        fields[name] = part
    if family.rest is not None:
        given, extra, private = cast("list[Any]", family.rest(value))
        is_private = private is not None and name in private
        rest = [given if is_private else sorted({*given, name}), extra, private]
        if name not in names:
            at = 2 if is_private else 1
            rest[at] = {**rest[at], name: part}
    elif name not in names:
        more[name] = part
    try:
        new = family.make(kind, fields, rest)
    except UnknownType as error:
        raise _refused(kind, name, error.hint) from error
    set_attributes(new, more)
    return new


def _opaque_tables(value: Opaque) -> list[dict[str, Any]]:
    """Return the fields of a model of an unknown class, and its other attributes."""
    code, data = value.tagged
    if code != Tag.MODEL or type(data) is not list:
        return []
    rest = data[3] if len(data) == 4 and type(data[3]) is list else []
    return [table for table in (data[2], *rest) if type(table) is dict]


def _opaque_with(value: Opaque, name: str, part: object) -> Opaque:
    """Return a model of an unknown class with another part."""

    def changed(each: Any) -> Any:
        return {**each, name: part} if type(each) is dict and name in each else each

    kind, version, fields, *rest = cast("list[Any]", value.tagged.data)
    if rest and len(rest[0]) == 3 and not any(name in (each or ()) for each in rest[0][2:]):
        rest = [[sorted({*rest[0][0], name}), *rest[0][1:]]]
    rest = [list(map(changed, each)) for each in rest]
    return Opaque(Tagged(value.tagged.code, [kind, version, changed(fields), *rest]))


def _refused(kind: type, name: str, why: str) -> Invalid:
    """Return the error for a part that the class of a model refuses."""
    return Invalid(
        f"a {kind.__qualname__} refuses this {name}: {why}",
        hint="give it another value, or replace the whole",
    )


def _dataclass_field_names(kind: type) -> tuple[str, ...] | None:
    if not is_dataclass(kind) or not _is_bare(kind):
        return None
    return tuple(field.name for field in dataclass_fields(kind))


def _attrs_field_names(kind: Any) -> tuple[str, ...] | None:
    attributes = getattr(kind, "__attrs_attrs__", None)
    if not isinstance(attributes, tuple) or not _is_bare(kind):
        return None
    return tuple(attribute.name for attribute in attributes)


def _struct_field_names(kind: Any) -> tuple[str, ...] | None:
    return _strings(getattr(kind, "__struct_fields__", None))


def _namedtuple_field_names(kind: Any) -> tuple[str, ...] | None:
    return _strings(getattr(kind, "_fields", None)) if issubclass(kind, tuple) else None


def _pydantic_field_names(kind: Any) -> tuple[str, ...] | None:
    if not hasattr(kind, "__pydantic_fields_set__"):
        return None
    fields = getattr(kind, "model_fields", None)
    return tuple(fields) if isinstance(fields, dict) else None


def _strings(names: object) -> tuple[str, ...] | None:
    if isinstance(names, tuple) and all(type(name) is str for name in names):
        return names
    return None


def _is_bare(kind: type) -> bool:
    # A dataclass that is also an exception or a dict has content which is in none of its fields.
    return all(base.__flags__ & _HEAP_TYPE for base in kind.__mro__ if base is not object)


def _make_bare(kind: type, fields: dict[str, Any], _rest: object) -> object:
    """Return an instance with these attributes, without calling its constructor."""
    value: object = object.__new__(kind)
    for name, part in fields.items():
        object.__setattr__(value, name, part)
    return value


def _make_attrs(kind: type, fields: dict[str, Any], rest: object) -> object:
    value = _make_bare(kind, fields, rest)
    code = getattr(kind.__hash__, "__code__", None)
    if code is not None and CACHED_HASH in code.co_names:
        object.__setattr__(value, CACHED_HASH, None)
    return value


def _make_struct(kind: Any, fields: dict[str, Any], _rest: object) -> object:
    # Only its constructor makes a struct. What __post_init__ did to a field is then put back.
    try:
        value = kind(**fields)
    except (TypeError, ValueError) as error:
        raise UnknownType(
            f"the type {kind.__module__}:{kind.__qualname__} does not accept its stored fields",
            hint=f"its __post_init__ says: {error}",
        ) from error
    for name, part in fields.items():
        getattr(kind, name).__set__(value, part)
    return value


def _make_namedtuple(kind: Any, fields: dict[str, Any], _rest: object) -> object:
    return tuple.__new__(kind, [fields[name] for name in kind._fields])


def _pydantic_rest(value: Any) -> object:
    given, private = sorted(value.__pydantic_fields_set__), value.__pydantic_private__
    in_order = None if private is None else dict(sorted(private.items()))
    return [given, value.__pydantic_extra__, in_order]


def _make_pydantic(kind: Any, fields: dict[str, Any], rest: object) -> object:
    given, extra, private = parts(rest, "what was set in a model", list, object, object)
    if any(type(name) is not str for name in given) or sorted(set(given)) != given:
        raise Corrupt("the set fields of a model are not a sorted list of names", hint=VERIFY)
    _check_named(kind, extra, allowed=_may_have_extra)
    _check_named(kind, private, allowed=_may_have_private)
    value: object = object.__new__(kind)
    object.__setattr__(value, "__dict__", dict(fields))
    object.__setattr__(value, "__pydantic_fields_set__", set(given))
    if not _is_root_model(kind):
        object.__setattr__(value, "__pydantic_extra__", extra)
        object.__setattr__(value, "__pydantic_private__", private)
    return value


def _renew_pydantic(kind: Any, stored: StoredModel, found: dict[str, Any]) -> StoredModel:
    """Divide the result of migrations into fields and extra ones; new ones count as set."""
    before = stored.named()
    former = stored.rest if stored.rest is not None else [sorted(before), None, None]
    given, _, private = parts(former, "what was set in a model", list, object, object)
    fields = {name: part for name, part in found.items() if name in kind.model_fields}
    extra = {name: part for name, part in found.items() if name not in fields}
    now_given = sorted(name for name in found if name in given or name not in before)
    keeps_extra = extra or _may_have_extra(kind, set())
    rest = [now_given, extra if keeps_extra else None, _renewed_private(kind, private)]
    return StoredModel(fields, rest)


def _renewed_private(kind: Any, stored: object) -> dict[str, Any] | None:
    """Return the private attributes that still exist, and defaults for the new ones."""
    known = {} if _is_root_model(kind) else kind.__private_attributes__
    former = stored if type(stored) is dict else {}
    private = {name: former[name] for name in known if name in former}
    for name in known.keys() - private.keys():
        default = known[name].get_default()
        if type(default).__name__ != "PydanticUndefinedType":
            private[name] = default
    return private if known else None


def _check_named(kind: Any, named: object, *, allowed: Callable[[Any, set[str]], bool]) -> None:
    """Check that a pydantic model may have these extra fields or private attributes."""
    if named is None:
        return
    if type(named) is not dict or any(type(name) is not str for name in named):
        raise Corrupt("what a model has beside its fields is not named", hint=VERIFY)
    if not allowed(kind, set(named)):
        raise UnknownType(
            f"the type {kind.__module__}:{kind.__qualname__} was stored with more than it can have"
            f" here: {', '.join(sorted(named)) or 'extra fields'}",
            hint="the class has changed: allow them again, or read with opaque=True",
        )


def _may_have_extra(kind: Any, _names: set[str]) -> bool:
    return not _is_root_model(kind) and kind.model_config.get("extra") == "allow"


def _may_have_private(kind: Any, names: set[str]) -> bool:
    return not _is_root_model(kind) and names <= kind.__private_attributes__.keys()


def _is_root_model(kind: Any) -> bool:
    return getattr(kind, "__pydantic_root_model__", False) is True


_FAMILIES = (
    ModelFamily("pydantic", _pydantic_field_names, _make_pydantic, _pydantic_rest, _renew_pydantic),
    ModelFamily("msgspec", _struct_field_names, _make_struct),
    ModelFamily("attrs", _attrs_field_names, _make_attrs),
    ModelFamily("dataclass", _dataclass_field_names, _make_bare),
    ModelFamily("namedtuple", _namedtuple_field_names, _make_namedtuple),
)


Upgrade: TypeAlias = Callable[[int, dict[str, Any]], dict[str, Any]]
"""Turns the fields stored with an older version, given first, into current fields."""


class ModelShape(NamedTuple):
    """The properties of a model class, computed once."""

    kind: type
    version: int
    family: ModelFamily
    fields: tuple[str, ...]
    known: frozenset[str]


class ModelCodec:
    """The codec of instances of model classes."""

    codes: frozenset[int] = frozenset({Tag.MODEL, Tag.STATE})

    def __init__(self, names: ClassNames) -> None:
        self._names = names
        self._shapes: dict[type, ModelShape] = {}
        self._upgrades: dict[type, Upgrade] = {}

    def upgrade(self, kind: type, upgrade: Upgrade) -> None:
        """Use this for stored fields that are not those of the current class."""
        self._upgrades[kind] = upgrade

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers instances of a model class."""
        shape = self._shape(kind)
        if shape is None:
            return None
        protocol = pickle_protocol(kind)
        if protocol is None:
            return _lowering(shape, self._names.name_of(kind))
        if protocol == "state" and shape.family.name in _BARE:
            return _state_lowering(shape, self._names.name_of(kind))
        return None

    def lift(self, code: int, data: object) -> object:
        """Return an instance, after migrations if its class has changed since."""
        if code == Tag.STATE:
            return self._lift_state(data)
        longer = type(data) is list and len(data) == 4
        kinds = (str, int, dict, list) if longer else (str, int, dict)
        name, version, fields, *rest = parts(data, "a model", *kinds)
        if version < 1 or any(type(field) is not str for field in fields):
            raise Corrupt(f"the model {name} has a bad version or bad field names", hint=VERIFY)
        shape = self._shape_named(name)
        stored = self._current(shape, name, version, StoredModel(fields, rest[0] if rest else None))
        fields = {field: stored.fields[field] for field in shape.fields}
        if shape.family.rest is not None or stored.rest is None:
            return shape.family.make(shape.kind, fields, stored.rest)
        if type(stored.rest) is list and len(stored.rest) > 1:
            raise _changed(name, "is no longer the kind of model that was stored")
        (more,) = parts(stored.rest, "what a model has beside its fields", dict)
        if any(type(attribute) is not str for attribute in more):
            raise Corrupt(f"the model {name} has attributes without names", hint=VERIFY)
        value = shape.family.make(shape.kind, fields, None)
        set_attributes(value, more)
        return value

    def _lift_state(self, data: object) -> object:
        """Return an instance with the state that its class returned for it."""
        name, version, state = parts(data, "the state of a model", str, int, object)
        shape = self._shape_named(name)
        if version < 1 or shape.family.name not in _BARE:
            raise _changed(name, "is no longer the kind of model that was stored")
        if version != shape.version:
            state = self._migrated(shape, name, version, state)
        return instance_with(shape.kind, state)

    def _migrated(self, shape: ModelShape, name: str, version: int, state: object) -> object:
        """Return the state of an older version as it would be today."""
        if type(state) is not dict:
            raise _changed(name, _difference(shape, version, (), has_rest=False))
        if upgrade := self._upgrades.get(shape.kind):
            return upgrade(version, state)
        return migrate(shape.kind, state, old=version, new=shape.version)

    def current_type(
        self, name: str, version: int, fields: Collection[str], *, has_rest: bool
    ) -> tuple[str, int] | None:
        """Return the name and version such an instance would get now, None if it has them.

        Raises:
            UnknownType: its class is not known, or has changed and nothing says how.
        """
        shape = self._shape_named(name)
        wrong = _difference(shape, version, fields, has_rest=has_rest)
        if wrong and shape.kind not in self._upgrades:
            if version >= shape.version:
                raise _changed(name, wrong)
            list(migration_path(shape.kind, version, shape.version))
        today = self._names.name_of(shape.kind)
        return (today, shape.version) if wrong or today != name else None

    def current_state_type(self, name: str, version: int) -> tuple[str, int] | None:
        """Return the name and version that a stored state would get now, None if it has them.

        Raises:
            UnknownType: its class is not known, or nothing says how to read this version.
        """
        shape = self._shape_named(name)
        if version != shape.version and shape.kind not in self._upgrades:
            list(migration_path(shape.kind, version, shape.version))
        today = self._names.name_of(shape.kind), shape.version
        return today if today != (name, version) else None

    def _shape_named(self, name: str) -> ModelShape:
        shape = self._shape(self._names.find(name))
        if shape is None:
            raise _changed(name, "is not a model here")
        return shape

    def _current(
        self, shape: ModelShape, name: str, version: int, stored: StoredModel
    ) -> StoredModel:
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
        today = renew(shape.kind, stored, found) if renew else _with_more(stored, found)
        wrong = _difference(shape, shape.version, today.fields, has_rest=renew is not None)
        if wrong:
            raise _changed(name, f"{wrong}, after its migration from version {version}")
        return today

    def _shape(self, kind: type) -> ModelShape | None:
        shape = self._shapes.get(kind)
        if shape is None and (found := family_of(kind)):
            family, fields = found
            shape = ModelShape(kind, _version(kind), family, fields, frozenset(fields))
            self._shapes[kind] = shape
        return shape


_BARE = frozenset({"attrs", "dataclass"})
"""Families whose instances are nothing but their attributes."""


def _lowering(shape: ModelShape, name: str) -> Lowering:
    fields, known, version = sorted(shape.fields), shape.known, shape.version
    code, rest_of = Tag.MODEL, shape.family.rest
    has_slots = has_more_slots(shape.kind, known)

    def lower(value: object) -> Tagged:
        try:
            parts = {field: getattr(value, field) for field in fields}
        except AttributeError as error:
            raise BadValue(f"cannot store a {name}: a field was never set: {error}") from error
        data = [name, version, parts]
        own = getattr(value, "__dict__", None)
        more = None
        if has_slots or (own and not own.keys() <= known):
            more = more_attributes(value, known)
        if rest_of is not None:
            _refuse_attributes(name, more)
            return Tagged(code, [*data, rest_of(value)])
        return Tagged(code, data if more is None else [*data, [more]])

    return lower


def _state_lowering(shape: ModelShape, name: str) -> Lowering:
    """Return the function that lowers instances by the state that their class returns."""
    version = shape.version

    def lower(value: object) -> Tagged:
        try:
            state = state_of(value)
        except Exception as error:  # __getstate__ is the user's, and may raise anything
            raise cannot_pickle(type(value), error) from error
        return Tagged(Tag.STATE, [name, version, state])

    return lower


def _refuse_attributes(name: str, more: dict[str, Any] | None) -> None:
    """Raise BadValue for attributes of a pydantic model that it does not know of."""
    if more:
        raise BadValue(
            f"cannot store a {name}: its attribute {next(iter(more))!r} is not a field",
            hint="make it a field or a private attribute, or register a codec for the class",
        )


def _with_more(stored: StoredModel, found: dict[str, Any]) -> StoredModel:
    """Return migrated fields, and the other attributes that have not become fields."""
    if type(stored.rest) is not list or len(stored.rest) != 1 or type(stored.rest[0]) is not dict:
        return StoredModel(found)
    more = {name: part for name, part in stored.rest[0].items() if name not in found}
    return StoredModel(found, [more] if more else None)


def _version(kind: type) -> int:
    """Return the schema version of a class."""
    version = getattr(kind, "__otolith_version__", 1)
    if type(version) is not int or not 1 <= version < 2**63:
        raise BadValue(
            f"{kind.__module__}:{kind.__qualname__} has the schema version {version!r}",
            hint="__otolith_version__ is an int, 1 or more",
        )
    return version


def _difference(shape: ModelShape, version: int, fields: Collection[str], *, has_rest: bool) -> str:
    """Return how a stored instance differs from the current class, or an empty text."""
    if version != shape.version:
        return f"has version {shape.version} here and was stored with version {version}"
    if missing := shape.known.difference(fields):
        return f"has fields here that were not stored: {', '.join(sorted(missing))}"
    if len(fields) > len(shape.known):
        unknown = set(fields) - shape.known
        return f"was stored with fields it does not have here: {', '.join(sorted(unknown))}"
    if shape.family.rest is not None and not has_rest:
        return "is no longer the kind of model that was stored"
    return ""


def _changed(name: str, how: str) -> UnknownType:
    return UnknownType(
        f"the type {name} {how}",
        hint="the class has changed: raise its __otolith_version__ and declare a migration, give"
        " register_model an upgrade, or read with opaque=True",
    )
