"""Which variables share objects: those have to be kept, and fetched, together.

Only objects that can change count. What many unrelated objects have in common by nature does not:
numbers and texts, types, functions of libraries, constants of classes.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from otolith.agent.tracking.fixed import is_fixed
from otolith.agent.tracking.views import identity, is_array
from otolith.agent.workspace.worker.namespace import Namespace

_APART = (
    tuple,
    frozenset,
    type,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ModuleType,
    types.CodeType,
    types.MappingProxyType,
    property,
    staticmethod,
    classmethod,
)
_APART_BY_NAME = frozenset({
    "dtype", "cython_function_or_method", "fused_cython_function", "Pattern", "ufunc",
    "StringDtype", "CategoricalDtype", "DatetimeTZDtype", "Timestamp", "Timedelta", "Interval",
    "Period", "NaTType", "NAType", "_lru_list_elem", "DataType", "Tagged", "Raw",
})  # fmt: skip


def shareable(met: Mapping[int, object], namespace: Namespace) -> dict[int, object]:
    """Return what can be shared between variables, by identity; arrays by that of their memory."""
    constants = _constants({type(thing) for thing in met.values()})
    return {
        identity(thing) if is_array(thing) else id: thing
        for id, thing in met.items()
        if id not in constants and _can_change(thing, namespace)
    }


def _can_change(thing: Any, namespace: Namespace) -> bool:
    kind = type(thing)
    if kind is types.FunctionType:
        return thing.__globals__ is namespace
    return not (_is_apart(kind) or thing is namespace)


def _is_apart(kind: type) -> bool:
    """Tell whether instances of a type are in many unrelated objects by nature."""
    known = _known.get(kind)
    if known is None:
        names = (parent.__name__ for parent in kind.__mro__)
        known = is_fixed(kind) or issubclass(kind, _APART) or not _APART_BY_NAME.isdisjoint(names)
        _known[kind] = known
    return known


_known: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _constants(kinds: Iterable[type]) -> set[int]:
    """Return the identities of what is in classes: it is the same for all their instances."""
    return {
        id(constant)
        for kind in kinds
        for parent in kind.__mro__
        for constant in vars(parent).values()
    }


def united(shared: Mapping[str, Iterable[int]]) -> list[list[str]]:
    """Return names in groups: those that have an identity in common are in one."""
    leader: dict[str, str] = {name: name for name in shared}
    owner: dict[int, str] = {}

    def lead(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for name, identities in shared.items():
        for each in identities:
            other = owner.setdefault(each, name)
            leader[lead(name)] = lead(other)
    groups: dict[str, list[str]] = {}
    for name in sorted(shared):
        groups.setdefault(lead(name), []).append(name)
    return list(groups.values())
