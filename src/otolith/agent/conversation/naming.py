"""What a function is called, so that what it once said is found again, and not what another said.

A name is not enough: two lambdas have one, as have the methods of two objects. So the code counts,
what it closes over, and what a partial was given, as far as these are plain values. Of an object
that may change nobody can tell what it will say. It is only known as itself: as long as this
process lasts, and in no other.
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
_DEEPEST, _HASH_BYTES = 8, 4


_NAMES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_IDENTITIES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_HELD: dict[int, tuple[Any, str]] = {}
"""Those that can be no key, or not be followed: held, so that no other gets their number."""


def name_of(function: Any) -> str:
    """Return a name that tells a function from others; it keeps the one that it got first.

    What it closes over may change while it works, as a count of its calls does.
    """
    try:
        known = _NAMES.get(function)
        return _NAMES.setdefault(function, _named(function)) if known is None else known
    except TypeError:  # it cannot be looked up, or not be followed
        return _named(function)


def _named(function: Any) -> str:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    kind = inner if hasattr(inner, "__qualname__") else type(inner)
    name = f"{getattr(kind, '__module__', '')}.{kind.__qualname__}"
    return f"{name}#{digest(_mark(function, 0, {}).encode())[:_HASH_BYTES].hex()}"


def _mark(value: Any, depth: int, seen: dict[int, tuple[int, Any]]) -> str:
    """Return a text that is the same for what will do the same, as far as that can be told.

    What was `seen` before is only referred to, by when that was.
    """
    if type(value) in _PLAIN:
        return repr(value)
    if id(value) in seen:
        return f"#{seen[id(value)][0]}"
    parts = None if depth > _DEEPEST else _parts(value)
    if parts is None:
        return _identity(value)
    seen[id(value)] = len(seen), value  # held: nothing else may get its number meanwhile
    inner = ",".join([_mark(part, depth + 1, seen) for part in parts])
    return f"{type(value).__name__}({inner})"


def _parts(value: Any) -> Iterable[Any] | None:
    """Return what a value is made of; None if that does not tell what it is."""
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, FunctionType):
        return _of_function(value)
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_consts
    if isinstance(value, type | BuiltinFunctionType):
        return str(value.__module__), value.__qualname__
    if isinstance(value, ModuleType):
        return (value.__name__,)
    return _of_data(value)


def _of_function(function: FunctionType) -> Iterable[Any]:
    cells = function.__closure__ or ()
    closed = tuple(_inside(cell) for cell in cells)
    given = function.__defaults__, function.__kwdefaults__
    return function.__module__, function.__qualname__, function.__code__, *given, closed


def _inside(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that has no value yet
        return None


def _of_data(value: Any) -> Iterable[Any] | None:
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


def _identity(value: Any) -> str:
    """Return a text that nothing else has, here or in another process."""
    try:
        return _IDENTITIES.setdefault(value, uuid4().hex)
    except TypeError:  # it cannot be looked up, or not be followed
        return _HELD.setdefault(id(value), (value, uuid4().hex))[1]
