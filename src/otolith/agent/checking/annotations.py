"""From annotations to checks: each annotation is taken apart once, recursive ones too."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from otolith.agent.checking import kinds
from otolith.agent.checking.constraints import constraints
from otolith.agent.checking.kinds import Check

ModelCheck: TypeAlias = "Callable[[Checks, type, Any], Check | None]"
"""Makes the check of a model class, given also as it is annotated; None for any other class."""

_UNION = (typing.Union, types.UnionType)
_WRAPPERS = {"ClassVar", "Final", "NotRequired", "ReadOnly", "Required", "Unpack"}
_PLAIN_HOMES = ("builtins", "collections", "collections.abc")


class Checks:
    """Makes checks of annotations. What a model class asks for, `model_check` knows."""

    def __init__(self, model_check: ModelCheck) -> None:
        self._model_check = model_check
        self._made: dict[Any, Check] = {}

    def of(self, hint: Any) -> Check:
        """Return the check of an annotation.

        Raises:
            Invalid: a name in the annotations of a class it mentions is not known.
        """
        try:
            found = self._made.get(hint)
        except TypeError:  # an unhashable part of Annotated: made anew each time
            return self._make(hint)
        if found is None:
            later = _Later()
            self._made[hint] = later.check
            found = self._made[hint] = later.target = self._make(hint)
        return found

    def _make(self, hint: Any) -> Check:
        if hint is None or isinstance(hint, type):
            scalar = kinds.SCALARS.get(hint)
            if scalar is not None:
                return scalar
        if name := _special(hint):
            return self._special(name, hint)
        origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
        if not isinstance(origin, type):
            return kinds.whatever
        return (
            self._model_check(self, origin, hint)
            or (self._container(origin, args) if args or hint == tuple[()] else None)
            or kinds.instance(origin)
        )

    def _special(self, name: str, hint: Any) -> Check:
        args = typing.get_args(hint)
        if name == "Union":
            return kinds.union([self.of(arg) for arg in args])
        if name == "Literal":
            return kinds.literal(args)
        if name == "Annotated":
            return kinds.every([self.of(args[0]), *constraints(args[1:])])
        if name == "Wrapper":
            return self.of(args[0])
        if name == "NewType":
            return self.of(hint.__supertype__)
        if name == "TypeAliasType":
            return self.of(hint.__value__)
        return self._variable(hint) if name == "TypeVar" else kinds.whatever

    def _variable(self, hint: Any) -> Check:
        if hint.__constraints__:
            return kinds.union([self.of(each) for each in hint.__constraints__])
        return kinds.whatever if hint.__bound__ is None else self.of(hint.__bound__)

    def _container(self, origin: type, args: tuple[Any, ...]) -> Check | None:
        if origin.__module__ not in _PLAIN_HOMES:  # an array of float64 is an array
            return None
        if issubclass(origin, tuple):
            return self._tuple(args)
        if issubclass(origin, Mapping) and len(args) == 2:
            return kinds.mapping(origin, self.of(args[0]), self.of(args[1]))
        if issubclass(origin, Collection) and len(args) == 1:
            return kinds.collection(origin, self.of(args[0]))
        return None

    def _tuple(self, args: tuple[Any, ...]) -> Check:
        if len(args) == 2 and args[1] is Ellipsis:
            return kinds.collection(tuple, self.of(args[0]))
        return kinds.fixed([self.of(arg) for arg in args])


class _Later:
    """Stands for a check that is being made, in what it is made of."""

    def __init__(self) -> None:
        self.target: Check = kinds.whatever

    def check(self, value: object) -> None:
        self.target(value)


def _special(hint: Any) -> str | None:
    """Name what an annotation is, if it is no class."""
    origin = typing.get_origin(hint)
    if origin in _UNION:
        return "Union"
    if origin is typing.Literal:
        return "Literal"
    if hasattr(hint, "__metadata__"):
        return "Annotated"
    if getattr(origin, "_name", None) in _WRAPPERS:
        return "Wrapper"
    name = type(hint).__name__
    if name in ("NewType", "TypeVar", "TypeAliasType"):
        return name
    return "Whatever" if hint is Any or _is_loose_protocol(origin or hint) else None


def _is_loose_protocol(kind: Any) -> bool:
    is_protocol = getattr(kind, "_is_protocol", False)
    return bool(is_protocol) and not getattr(kind, "_is_runtime_protocol", False)
