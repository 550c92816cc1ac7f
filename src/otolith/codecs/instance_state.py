"""The state of an instance beside its fields: a class's own pickle methods, and other attributes.

A class that defines `__getstate__`, `__setstate__` or `__reduce__` says what of an instance is to
be stored: a secret that it leaves out must not be in a store either. `pickle_protocol` tells which
of them a class has. Methods that a library writes for its models (dataclasses, attrs, pydantic) do
not count: those only list the fields.

`more_attributes` are what an instance has beside its fields: set by `__post_init__`, by a subclass
that is not a model itself, or from outside. What a `cached_property` computed is not among them:
it is computed again, and reading it must not change what is stored.
"""

from __future__ import annotations

from functools import cached_property
from types import FunctionType, MemberDescriptorType
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from otolith.codecs.base import DERIVED
from otolith.errors import Corrupt

Protocol: TypeAlias = Literal["reduce", "state"]

_REDUCE = ("__reduce_ex__", "__reduce__", "__getnewargs_ex__")
_STATE = ("__getstate__", "__setstate__")
_LIBRARIES = frozenset({"attr", "collections", "dataclasses", "msgspec", "pydantic", "typing"})


def pickle_protocol(kind: type) -> Protocol | None:
    """Return which of the pickle methods a class defines itself, or None.

    "state" is `__getstate__` or `__setstate__`, "reduce" what replaces them altogether.
    """
    if kind not in _protocols:
        if any(_is_own(kind, name) for name in _REDUCE):
            _protocols[kind] = "reduce"
        else:
            _protocols[kind] = "state" if any(_is_own(kind, name) for name in _STATE) else None
    return _protocols[kind]


_protocols: WeakKeyDictionary[type, Protocol | None] = WeakKeyDictionary()


def _is_own(kind: type, name: str) -> bool:
    """Tell whether a method is written in Python, and not by a library of models."""
    method = getattr(kind, name, None)
    if not isinstance(method, FunctionType):
        return False
    return str(method.__globals__.get("__name__")).partition(".")[0] not in _LIBRARIES


def state_of(value: Any) -> object:
    """Return the state of an instance, as its class defines it."""
    return value.__getstate__()


def instance_with(kind: type, state: object) -> object:
    """Return an instance with this state, as unpickling makes it.

    Raises:
        Corrupt: the class has no `__setstate__`, and the state is not a dict of attributes.
    """
    value: Any = object.__new__(kind)
    if state is None:
        return value
    set_state = getattr(value, "__setstate__", None)
    if set_state is not None:
        set_state(state)
        return value
    own, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    for attributes in (own, slots):
        if attributes is None:
            continue
        if type(attributes) is not dict or any(type(name) is not str for name in attributes):
            raise Corrupt(
                f"the state of a {kind.__module__}:{kind.__qualname__} is not a dict of attributes",
                hint="define __setstate__ beside __getstate__, or run fsck",
            )
        set_attributes(value, attributes)
    return value


def set_attributes(value: object, attributes: dict[str, Any]) -> None:
    """Set attributes without running code of the class."""
    own = getattr(value, "__dict__", None)
    for name, part in attributes.items():
        slot = getattr(type(value), name, None)
        if isinstance(slot, MemberDescriptorType):
            slot.__set__(value, part)
        elif own is None:
            object.__setattr__(value, name, part)
        else:
            own[name] = part


def has_more_slots(kind: type, known: frozenset[str]) -> bool:
    """Tell whether a class has slots that are not fields."""
    return not _slots(kind) <= known


def more_attributes(value: object, known: frozenset[str]) -> dict[str, Any] | None:
    """Return the attributes of an instance that are not fields, by name, or None if it has none."""
    own = getattr(value, "__dict__", None)
    kind = type(value)
    found: dict[str, Any] = {}
    if own and not own.keys() <= known:
        names = own.keys() - known - DERIVED
        found = {name: own[name] for name in sorted(names) if not _is_cached(kind, name)}
    for name in _slots(kind) - known:
        part = getattr(value, name, _UNSET)
        if part is not _UNSET:
            found[name] = part
    return found or None


def can_change(kind: type) -> bool:
    """Tell whether instances of a model class can be given other fields: nothing forbids it."""
    if kind not in _changeable:
        frozen = [
            issubclass(kind, tuple),
            getattr(getattr(kind, "__dataclass_params__", None), "frozen", False),
            getattr(getattr(kind, "__struct_config__", None), "frozen", False),
            getattr(kind, "model_config", {}).get("frozen", False),
            getattr(kind.__setattr__, "__name__", "") == "_frozen_setattrs",  # of attrs
            _is_own(kind, "__setattr__"),
        ]
        _changeable[kind] = not any(frozen)
    return _changeable[kind]


_changeable: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def become(value: Any, other: Any) -> None:
    """Give an instance all that another of its class consists of, without running its code."""
    own = getattr(value, "__dict__", None)
    if own is not None:
        own.clear()  # what it has computed, too
        own.update(other.__dict__)
    names = {*getattr(type(value), "__struct_fields__", ()), *_all_slots(type(value))}
    for name in names - {"__dict__", "__weakref__"}:
        slot = getattr(type(value), name, None)
        if isinstance(slot, MemberDescriptorType):
            part = getattr(other, name, _UNSET)
            if part is not _UNSET:
                slot.__set__(value, part)
            elif getattr(value, name, _UNSET) is not _UNSET:
                slot.__delete__(value)


def _all_slots(kind: type) -> set[str]:
    """Return the names of all slots of a class."""
    slots = (vars(base).get("__slots__", ()) for base in kind.__mro__)
    return {name for each in slots for name in ((each,) if isinstance(each, str) else each)}


_UNSET = object()


def _is_cached(kind: type, name: str) -> bool:
    owners = (vars(base)[name] for base in kind.__mro__ if name in vars(base))
    return isinstance(next(owners, None), cached_property)


def _slots(kind: type) -> frozenset[str]:
    """Return the names of all slots of a class that are attributes of the program.

    Libraries of models make slots for what they compute, or have the fields in them.
    """
    if kind not in _slot_names:
        if any(hasattr(kind, mark) for mark in _OWN_SLOTS):
            return frozenset()
        names = _all_slots(kind) - DERIVED - {"__dict__", "__weakref__"}
        _slot_names[kind] = frozenset(names)
    return _slot_names[kind]


_OWN_SLOTS = ("__attrs_attrs__", "__pydantic_fields_set__", "__struct_fields__")
_slot_names: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()
