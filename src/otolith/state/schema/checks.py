"""The checks themselves: of scalars, containers and models, each a function of one value.

As for type checkers, an int is a float and an instance of a subclass is what its base is. Unlike
for them, a bool is no number and a datetime no date: that is nearly always a mistake.

A value that does not fit its type: where, what was expected, what was found.

Bounds in Annotated: those of msgspec.Meta, annotated-types and pydantic's Field, as checks.

From annotations to checks: each annotation is taken apart once, recursive ones too.
"""

from __future__ import annotations

import operator
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any, TypeAlias

_SHORT = (bool, int, float, complex, str, bytes)
_SHOWN_CHARACTERS = 40


class Misfit(Exception):
    """Raised by a check. `path` is gathered by the checks around it, innermost key first."""

    def __init__(self, expected: str, found: object, *, said: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.found = found
        self.said = said
        self.path: list[object] = []

    def below(self, key: object) -> Misfit:
        """Note under which key of a container it was found."""
        self.path.append(key)
        return self

    def __str__(self) -> str:
        return f"{self.said or f'expected {self.expected}'}, found {shown(self.found)}"


def shown(value: object) -> str:
    """Return the type of a value, and the value if it is short by nature."""
    if value is None:
        return "None"
    name = named(type(value))
    if type(value) not in _SHORT:
        return name
    text = repr(value)
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return f"{name} {cut}"


def named(kind: type) -> str:
    """Return the name of a type as people write it."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


Check: TypeAlias = Callable[[Any], None]
"""Returns if the value fits, raises Misfit if it does not."""

_UNSET = object()


def whatever(_value: object) -> None:
    """Fits everything."""


def _none(value: object) -> None:
    if value is not None:
        raise Misfit("None", value)


def _bool(value: object) -> None:
    if type(value) is not bool:
        raise Misfit("bool", value)


def _int(value: object) -> None:
    if type(value) is not int and (type(value) is bool or not isinstance(value, int)):
        raise Misfit("int", value)


def _float(value: object) -> None:
    if type(value) is not float and (type(value) is bool or not isinstance(value, float | int)):
        raise Misfit("float", value)


def _complex(value: object) -> None:
    if type(value) is bool or not isinstance(value, complex | float | int):
        raise Misfit("complex", value)


def _str(value: object) -> None:
    if not isinstance(value, str):
        raise Misfit("str", value)


def _date(value: object) -> None:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise Misfit("datetime.date", value)


SCALARS: dict[Any, Check] = {
    None: _none,
    type(None): _none,
    bool: _bool,
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
    date: _date,
    object: whatever,
}


def instance(kind: type) -> Check:
    """Fits instances of a class."""
    expected = named(kind)

    def check(value: object) -> None:
        if type(value) is not kind and not isinstance(value, kind):
            raise Misfit(expected, value)

    return check


def every(checks: list[Check]) -> Check:
    """Fits what fits all of these."""

    def check(value: object) -> None:
        for each in checks:
            each(value)

    return check


def literal(options: tuple[Any, ...]) -> Check:
    """Fits these values, and no others that are merely equal to them."""
    known = {(type(option), option) for option in options}
    expected = " or ".join(map(repr, options))

    def check(value: object) -> None:
        try:
            fits = (type(value), value) in known
        except TypeError:
            fits = False
        if not fits:
            raise Misfit(expected, value)

    return check


def union(checks: list[Check]) -> Check:
    """Fits what fits one of these."""

    def check(value: object) -> None:
        misfits = []
        for each in checks:
            try:
                return each(value)
            except Misfit as misfit:
                misfits.append(misfit)
        # The member that got furthest is the one that was meant.
        deepest = max(misfits, key=lambda misfit: len(misfit.path))
        if deepest.path or len(misfits) == 1:
            raise deepest
        raise Misfit(" or ".join(dict.fromkeys(misfit.expected for misfit in misfits)), value)

    return check


def collection(kind: type, part: Check) -> Check:
    """Fits containers of one kind whose elements all fit."""
    is_ordered = not issubclass(kind, set | frozenset)
    whole = instance(kind)

    def check(value: Any) -> None:
        whole(value)
        at = 0
        try:
            for at, each in enumerate(value):  # noqa: B007 - it says where it went wrong
                part(each)
        except Misfit as misfit:
            raise misfit.below(str(at)) if is_ordered else misfit from None

    return check


def fixed(parts: list[Check]) -> Check:
    """Fits tuples of one length, each element with a check of its own."""

    def check(value: Any) -> None:
        if not isinstance(value, tuple) or len(value) != len(parts):
            raise Misfit(f"a tuple of {len(parts)}", value)
        at = 0
        try:
            for at, part in enumerate(parts):
                part(value[at])
        except Misfit as misfit:
            raise misfit.below(str(at)) from None

    return check


def mapping(kind: type, key_check: Check, part: Check) -> Check:
    """Fits mappings of one kind whose keys and values all fit."""
    whole = instance(kind)

    def check(value: Any) -> None:
        whole(value)
        key: object = None
        try:
            for key, each in value.items():
                _check_key(key_check, key)
                part(each)
        except Misfit as misfit:
            raise misfit.below(key) from None

    return check


def _check_key(check: Check, key: object) -> None:
    try:
        check(key)
    except Misfit as misfit:
        raise Misfit(f"a key that is {misfit.expected}", key) from None


def model(kind: type, parts: list[tuple[str, Check]]) -> Check:
    """Fits instances of a model class whose fields all fit."""
    whole = instance(kind)

    def check(value: Any) -> None:
        whole(value)
        name = ""
        try:
            for name, part in parts:
                part(getattr(value, name, _UNSET))
        except Misfit as misfit:
            found = "nothing: it was never set" if misfit.found is _UNSET else ""
            raise (_unset(misfit) if found else misfit).below(name) from None

    return check


def _unset(misfit: Misfit) -> Misfit:
    return Misfit(misfit.expected, None, said=f"expected {misfit.expected}, and it was never set")


def typed_dict(kind: type, parts: dict[str, Check], required: frozenset[str]) -> Check:
    """Fits dicts with the keys of a TypedDict and no others."""

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise Misfit(f"a dict as {named(kind)}", value)
        if missing := required - value.keys():
            said = f"expected a key {min(missing)!r}, as {named(kind)} has it"
            raise Misfit("", value, said=said)
        name: object = None
        try:
            for name, each in value.items():
                if name not in parts:
                    raise Misfit(f"no other keys than {', '.join(parts)}", each)
                parts[name](each)
        except Misfit as misfit:
            raise misfit.below(name) from None

    return check


_SPEAKERS = {"msgspec", "annotated_types", "pydantic"}

_COMPARED: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "gt": (operator.gt, "> {}"),
    "ge": (operator.ge, ">= {}"),
    "lt": (operator.lt, "< {}"),
    "le": (operator.le, "<= {}"),
    "multiple_of": (lambda value, bound: value % bound == 0, "a multiple of {}"),
    "min_length": (lambda value, bound: len(value) >= bound, "at least {} long"),
    "max_length": (lambda value, bound: len(value) <= bound, "at most {} long"),
    "pattern": (lambda value, bound: re.search(bound, value) is not None, "text like {!r}"),
    "func": (lambda value, bound: bool(bound(value)), "accepted by {}"),
}


def constraints(metadata: Iterable[Any]) -> Iterator[Callable[[Any], None]]:
    """Yield a check for each bound that is known; other annotations mean nothing here."""
    for each in metadata:
        if type(each).__module__.partition(".")[0] not in _SPEAKERS:
            continue
        inner = getattr(each, "metadata", None)
        if isinstance(inner, list | tuple):  # pydantic's Field holds a list of bounds
            yield from constraints(inner)
        for name, (holds, text) in _COMPARED.items():
            bound = getattr(each, name, None)
            if bound is not None:
                yield _bounded(holds, bound, text)


def _bounded(holds: Callable[[Any, Any], bool], bound: Any, text: str) -> Callable[[Any], None]:
    expected = text.format(getattr(bound, "__qualname__", bound))

    def check(value: Any) -> None:
        try:
            fits = holds(value, bound)
        except (TypeError, ValueError, ArithmeticError):
            fits = False
        if not fits:
            raise Misfit(expected, value)

    return check


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
            scalar = SCALARS.get(hint)
            if scalar is not None:
                return scalar
        if name := _special(hint):
            return self._special(name, hint)
        origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
        if not isinstance(origin, type):
            return whatever
        return (
            self._model_check(self, origin, hint)
            or (self._container(origin, args) if args or hint == tuple[()] else None)
            or instance(origin)
        )

    def _special(self, name: str, hint: Any) -> Check:
        args = typing.get_args(hint)
        if name == "Union":
            return union([self.of(arg) for arg in args])
        if name == "Literal":
            return literal(args)
        if name == "Annotated":
            return every([self.of(args[0]), *constraints(args[1:])])
        if name == "Wrapper":
            return self.of(args[0])
        if name == "NewType":
            return self.of(hint.__supertype__)
        if name == "TypeAliasType":
            return self.of(hint.__value__)
        return self._variable(hint) if name == "TypeVar" else whatever

    def _variable(self, hint: Any) -> Check:
        if hint.__constraints__:
            return union([self.of(each) for each in hint.__constraints__])
        return whatever if hint.__bound__ is None else self.of(hint.__bound__)

    def _container(self, origin: type, args: tuple[Any, ...]) -> Check | None:
        if origin.__module__ not in _PLAIN_HOMES:  # an array of float64 is an array
            return None
        if issubclass(origin, tuple):
            return self._tuple(args)
        if issubclass(origin, Mapping) and len(args) == 2:
            return mapping(origin, self.of(args[0]), self.of(args[1]))
        if issubclass(origin, Collection) and len(args) == 1:
            return collection(origin, self.of(args[0]))
        return None

    def _tuple(self, args: tuple[Any, ...]) -> Check:
        if len(args) == 2 and args[1] is Ellipsis:
            return collection(tuple, self.of(args[0]))
        return fixed([self.of(arg) for arg in args])


class _Later:
    """Stands for a check that is being made, in what it is made of."""

    def __init__(self) -> None:
        self.target: Check = whatever

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
