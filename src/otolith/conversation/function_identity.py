"""Identities of functions: names under which results of a function are stored and found again.

A qualified name is not enough: all lambdas share one, as do the methods of two objects. So the
code counts, what it closes over, and what a partial was given, as far as these are plain values.
What an object that may change will return cannot be known. It is identified by itself: as long as
this process lasts, and in no other process.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from otolith.core import digest

_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_MAX_DEPTH, _HASH_BYTES = 8, 4

_NAMES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_OBJECT_NAMES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_UNHASHABLE_NAMES: dict[int, tuple[Any, str]] = {}
"""Objects that cannot be weak keys. They are referenced, so that no other object gets their id."""


def function_identity(function: Any) -> str:
    """Return a name that no function with other code or other values has.

    A function keeps its first name, since what it closes over may change while it works, as a
    count of its calls does.
    """
    try:
        known = _NAMES.get(function)
        return _NAMES.setdefault(function, _new_name(function)) if known is None else known
    except TypeError:  # it cannot be a weak key
        return _new_name(function)


def _new_name(function: Any) -> str:
    """Return the qualified name of a function, with a hash of what it does."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    name = f"{getattr(named, '__module__', '')}.{named.__qualname__}"
    return f"{name}#{digest(_describe(function, 0, {}).encode())[:_HASH_BYTES].hex()}"


def _describe(value: Any, depth: int, seen: dict[int, tuple[int, Any]]) -> str:
    """Return a text that is equal for values that will do the same, as far as that can be known.

    A value that was `seen` before is described by its number.
    """
    if type(value) in _PLAIN:
        return repr(value)
    if id(value) in seen:
        return f"#{seen[id(value)][0]}"
    parts = None if depth > _MAX_DEPTH else _parts(value)
    if parts is None:
        return _object_name(value)
    seen[id(value)] = len(seen), value  # referenced: no other value may get its id before the end
    inner = ",".join([_describe(part, depth + 1, seen) for part in parts])
    return f"{type(value).__name__}({inner})"


def _parts(value: Any) -> Iterable[Any] | None:
    """Return the values that decide what a value does; None if they are not known."""
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, FunctionType):
        closed = tuple(_closed_value(cell) for cell in value.__closure__ or ())
        defaults = value.__defaults__, value.__kwdefaults__
        return value.__module__, value.__qualname__, value.__code__, *defaults, closed
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_consts
    if isinstance(value, type | BuiltinFunctionType):
        return str(value.__module__), value.__qualname__
    if isinstance(value, ModuleType):
        return (value.__name__,)
    return _parts_of_data(value)


def _parts_of_data(value: Any) -> Iterable[Any] | None:
    """Return the elements of a container, or the fields of a frozen dataclass."""
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, Mapping):
        return [pair for key in sorted(value, key=repr) for pair in (key, value[key])]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    settings: Any = getattr(type(value), "__dataclass_params__", None)
    if settings is not None and settings.frozen:
        return type(value), *(getattr(value, field.name) for field in fields(value))
    return None


def _closed_value(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that has no value yet
        return None


def _object_name(value: Any) -> str:
    """Return a name that nothing else has, in this process or another."""
    try:
        return _OBJECT_NAMES.setdefault(value, uuid4().hex)
    except TypeError:  # it cannot be a weak key
        return _UNHASHABLE_NAMES.setdefault(id(value), (value, uuid4().hex))[1]
