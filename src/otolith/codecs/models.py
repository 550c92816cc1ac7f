"""The families of model classes, told apart by what their classes carry, none of them imported.

A family says which fields a class has, what else of an instance must be kept, and how to make an
instance from those without running the code that checks or completes new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from otolith.codecs.exact import CACHED_HASH, VERIFY, parts
from otolith.errors import Corrupt, UnknownType

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: clear for classes that are written in C


class Family(NamedTuple):
    """One way of writing model classes."""

    name: str
    fields: Callable[[Any], tuple[str, ...] | None]
    """The fields of a class, or None if it is not of this family."""
    make: Callable[[Any, dict[str, Any], Any], object]
    """An instance from its class, its fields, and what `rest` gave."""
    rest: Callable[[Any], object] | None = None
    """What is kept of an instance beside its fields, where there is more."""
    renew: Callable[[Any, Stored, dict[str, Any]], Stored] | None = None
    """What is made of the rest when migrations have made something else of the fields."""


class Stored(NamedTuple):
    """What of an instance is stored: its fields, and the rest where its family has one."""

    fields: dict[str, Any]
    rest: Any = None

    def named(self) -> dict[str, Any]:
        """Return everything that has a name: fields, and the extra ones of pydantic."""
        extra = self.rest[1] if type(self.rest) is list and len(self.rest) == 3 else None
        return {**extra, **self.fields} if type(extra) is dict else dict(self.fields)


def family_of(kind: type) -> tuple[Family, tuple[str, ...]] | None:
    """Return the family and the fields of a class, or None if it is not a model."""
    for family in _FAMILIES:
        fields = family.fields(kind)
        if fields is not None:
            return family, fields
    return None


def fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a model class, or None if it is not one."""
    if kind not in _fields:
        found = family_of(kind)
        _fields[kind] = None if found is None else found[1]
    return _fields[kind]


_fields: WeakKeyDictionary[type, tuple[str, ...] | None] = WeakKeyDictionary()


def _dataclass(kind: type) -> tuple[str, ...] | None:
    if not is_dataclass(kind) or not _is_bare(kind):
        return None
    return tuple(field.name for field in dataclass_fields(kind))


def _attrs(kind: Any) -> tuple[str, ...] | None:
    attributes = getattr(kind, "__attrs_attrs__", None)
    if not isinstance(attributes, tuple) or not _is_bare(kind):
        return None
    return tuple(attribute.name for attribute in attributes)


def _struct(kind: Any) -> tuple[str, ...] | None:
    return _strings(getattr(kind, "__struct_fields__", None))


def _namedtuple(kind: Any) -> tuple[str, ...] | None:
    return _strings(getattr(kind, "_fields", None)) if issubclass(kind, tuple) else None


def _pydantic(kind: Any) -> tuple[str, ...] | None:
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
    given = sorted(value.__pydantic_fields_set__)
    return [given, value.__pydantic_extra__, value.__pydantic_private__]


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


def _renew_pydantic(kind: Any, stored: Stored, found: dict[str, Any]) -> Stored:
    """Sort what migrations made into fields and extra ones; what is new counts as set."""
    before = stored.named()
    former = stored.rest if stored.rest is not None else [sorted(before), None, None]
    given, _, private = parts(former, "what was set in a model", list, object, object)
    fields = {name: part for name, part in found.items() if name in kind.model_fields}
    extra = {name: part for name, part in found.items() if name not in fields}
    now_given = sorted(name for name in found if name in given or name not in before)
    keeps_extra = extra or _may_have_extra(kind, set())
    rest = [now_given, extra if keeps_extra else None, _renewed_private(kind, private)]
    return Stored(fields, rest)


def _renewed_private(kind: Any, stored: object) -> dict[str, Any] | None:
    """Keep the private attributes there still are, and start the new ones as a new model does."""
    known = {} if _is_root_model(kind) else kind.__private_attributes__
    kept = {name: stored[name] for name in known if name in stored} if type(stored) is dict else {}
    fresh = {name: known[name].get_default() for name in known if name not in kept}
    kept |= {name: part for name, part in fresh.items() if not _is_undefined(part)}
    return kept if known else None


def _is_undefined(part: object) -> bool:
    return type(part).__name__ == "PydanticUndefinedType"


def _check_named(kind: Any, named: object, *, allowed: Callable[[Any, set[str]], bool]) -> None:
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
    Family("pydantic", _pydantic, _make_pydantic, _pydantic_rest, _renew_pydantic),
    Family("msgspec", _struct, _make_struct),
    Family("attrs", _attrs, _make_attrs),
    Family("dataclass", _dataclass, _make_bare),
    Family("namedtuple", _namedtuple, _make_namedtuple),
)
