"""Checks: whether a value fits a type annotation, to the leaf and without converting it.

A check is a function of one value that raises `Misfit`. `Checks` takes each annotation apart once,
recursive ones too, and composes checks of scalars, containers and models; bounds in `Annotated`
(msgspec.Meta, annotated-types) are checks as well, and what pydantic knows is judged by pydantic.

What becomes of an annotation (`Checks.of`):

    None, bool, int, float, str, …     a scalar check, from a table
    X | Y, Literal, Annotated          a union, an enumeration, a check with bounds
    list[X], dict[K, V], Iterable[X]   a check of the container and of every part
    tuple[X, *tuple[Y, ...], Z]        a check of every part at its place
    type[X]                            a class that X is, or is derived from X
    dataclass, TypedDict, models       a check of every field (`models.py`)
    Annotated with pydantic's          the check of the type, then pydantic, which changes nothing
    TypeVar, NewType, type aliases     the check of what they stand for
    any other class                    isinstance

Of classes of other libraries (`NDArray[float64]`) only the class is checked. The parameters of a
`Callable`, the elements of an iterator and protocols that isinstance does not know cannot be
checked: `Checks.unchecked` lists such annotations, and a schema with one warns when it is made.

As for type checkers, an int is a float and an instance of a subclass is what its base is. Unlike
for them, a bool is not a number and a datetime is not a date: that is nearly always a mistake.
"""

from __future__ import annotations

import operator
import re
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any, TypeAlias

_SHORT = (bool, int, float, complex, str, bytes)
_SHOWN_CHARACTERS = 40


class Misfit(Exception):
    """Raised by a check: what was expected, what was found, and where (innermost key first)."""

    def __init__(self, expected: str, found: object, *, message: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.found = found
        self.message = message
        self.path: list[object] = []

    def below(self, key: object) -> Misfit:
        """Add the key of the container that it was found under."""
        self.path.append(key)
        return self

    def __str__(self) -> str:
        return f"{self.message or f'expected {self.expected}'}, found {describe(self.found)}"


def describe(value: object) -> str:
    """Return the type of a value, and the value itself if it is a scalar."""
    if value is None:
        return "None"
    name = type_name(type(value))
    if type(value) not in _SHORT:
        return name
    text = repr(value)
    cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    return f"{name} {cut}"


def type_name(kind: type) -> str:
    """Return the name of a type, as in source code."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


Check: TypeAlias = Callable[[Any], None]
"""Returns if the value fits, raises Misfit if it does not."""

_UNSET = object()


def accept_any(_value: object) -> None:
    """Accept everything."""


def _scalar(expected: str, *kinds: type, but: type | tuple[()] = ()) -> Check:
    """Return a check that accepts instances of some types, and none of a type derived from them."""
    first = kinds[0]

    def check(value: object) -> None:
        """Raise Misfit unless the value fits."""
        if type(value) is not first and (isinstance(value, but) or not isinstance(value, kinds)):
            raise Misfit(expected, value)

    return check


_NONE = _scalar("None", type(None))

SCALARS: dict[Any, Check] = {
    None: _NONE,
    type(None): _NONE,
    bool: _scalar("bool", bool),
    int: _scalar("int", int, but=bool),
    float: _scalar("float", float, int, but=bool),
    complex: _scalar("complex", complex, float, int, but=bool),
    str: _scalar("str", str),
    date: _scalar("datetime.date", date, but=datetime),
    object: accept_any,
}


def instance_of(kind: type) -> Check:
    """Return a check that accepts instances of a class."""
    expected = type_name(kind)

    def check(value: object) -> None:
        """Raise Misfit unless the value fits."""
        if type(value) is not kind and not isinstance(value, kind):
            raise Misfit(expected, value)

    return check


def all_of(checks: list[Check]) -> Check:
    """Return a check that accepts what all of these accept."""

    def check(value: object) -> None:
        """Raise Misfit unless the value fits."""
        for each in checks:
            each(value)

    return check


def literal(options: tuple[Any, ...]) -> Check:
    """Return a check that accepts these values, and none that is merely equal to one."""
    known = {(type(option), option) for option in options}
    expected = " or ".join(map(repr, options))

    def check(value: object) -> None:
        """Raise Misfit unless the value fits."""
        try:
            fits = (type(value), value) in known
        except TypeError:
            fits = False
        if not fits:
            raise Misfit(expected, value)

    return check


def union(checks: list[Check]) -> Check:
    """Return a check that accepts what one of these accepts."""

    def check(value: object) -> None:
        """Raise Misfit unless the value fits."""
        misfits = []
        for each in checks:
            try:
                return each(value)
            except Misfit as misfit:
                misfits.append(misfit)
        # The alternative that matched deepest is most likely the intended one.
        deepest = max(misfits, key=lambda misfit: len(misfit.path))
        if deepest.path or len(misfits) == 1:
            raise deepest
        raise Misfit(" or ".join(dict.fromkeys(misfit.expected for misfit in misfits)), value)

    return check


def collection(kind: type, part: Check) -> Check:
    """Return a check of containers of one kind and of their elements."""
    is_ordered = not issubclass(kind, set | frozenset)
    whole = instance_of(kind)

    def check(value: Any) -> None:
        """Raise Misfit unless the value fits."""
        whole(value)
        at = 0
        try:
            for at, each in enumerate(value):  # noqa: B007 - the error needs the position
                part(each)
        except Misfit as misfit:
            raise misfit.below(str(at)) if is_ordered else misfit from None

    return check


def tuple_of(parts: list[Check]) -> Check:
    """Return a check of tuples of one length, with one check for each element."""

    def check(value: Any) -> None:
        """Raise Misfit unless the value fits."""
        if not isinstance(value, tuple) or len(value) != len(parts):
            raise Misfit(f"a tuple of {len(parts)}", value)
        at = 0
        try:
            for at, part in enumerate(parts):
                part(value[at])
        except Misfit as misfit:
            raise misfit.below(str(at)) from None

    return check


def tuple_with_middle(first: list[Check], middle: Check, last: list[Check]) -> Check:
    """Return a check of tuples that have any number of equal parts between others."""
    least = len(first) + len(last)

    def check(value: Any) -> None:
        """Raise Misfit unless the value fits."""
        if not isinstance(value, tuple) or len(value) < least:
            raise Misfit(f"a tuple of at least {least}", value)
        parts = [*first, *[middle] * (len(value) - least), *last]
        at = 0
        try:
            for at, part in enumerate(parts):
                part(value[at])
        except Misfit as misfit:
            raise misfit.below(str(at)) from None

    return check


def subclass_of(kinds: tuple[type, ...]) -> Check:
    """Return a check that accepts classes, and those derived from them."""
    expected = "a class that is " + " or ".join(map(type_name, kinds)) + ", or derived from it"

    def check(value: Any) -> None:
        """Raise Misfit unless the value fits."""
        if not isinstance(value, type) or not issubclass(value, kinds):
            raise Misfit(expected, value)

    return check


def refuse_any(value: object) -> None:
    """Refuse everything."""
    raise Misfit("no value at all", value)


def mapping(kind: type, key_check: Check, part: Check) -> Check:
    """Return a check of mappings of one kind, of their keys and their values."""
    whole = instance_of(kind)

    def check(value: Any) -> None:
        """Raise Misfit unless the value fits."""
        whole(value)
        key: object = None
        try:
            for key, each in value.items():
                try:
                    key_check(key)
                except Misfit as misfit:
                    raise Misfit(f"a key that is {misfit.expected}", key) from None
                part(each)
        except Misfit as misfit:
            raise misfit.below(key) from None

    return check


def model(kind: type, parts: list[tuple[str, Check]]) -> Check:
    """Return a check of instances of a model class, and of their fields."""
    whole = instance_of(kind)

    def check(value: Any) -> None:
        """Raise Misfit unless the value fits."""
        whole(value)
        name = ""
        try:
            for name, part in parts:
                part(getattr(value, name, _UNSET))
        except Misfit as misfit:
            if misfit.found is _UNSET:
                expected = f"expected {misfit.expected}, and it was never set"
                misfit = Misfit(misfit.expected, None, message=expected)
            raise misfit.below(name) from None

    return check


def typed_dict(kind: type, parts: dict[str, Check], required: frozenset[str]) -> Check:
    """Return a check of dicts with the keys of a TypedDict, and no others."""

    def check(value: Any) -> None:
        """Raise Misfit unless the value fits."""
        if not isinstance(value, dict):
            raise Misfit(f"a dict as {type_name(kind)}", value)
        if missing := required - value.keys():
            message = f"expected a key {min(missing)!r}, as {type_name(kind)} has it"
            raise Misfit("", value, message=message)
        name: object = None
        try:
            for name, each in value.items():
                if name not in parts:
                    raise Misfit(f"no other keys than {', '.join(parts)}", each)
                parts[name](each)
        except Misfit as misfit:
            raise misfit.below(name) from None

    return check


_BOUND_LIBRARIES = {"msgspec", "annotated_types"}

_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "gt": (operator.gt, "> {}"),
    "ge": (operator.ge, ">= {}"),
    "lt": (operator.lt, "< {}"),
    "le": (operator.le, "<= {}"),
    "multiple_of": (lambda value, bound: value % bound == 0, "a multiple of {}"),
    "min_length": (lambda value, bound: len(value) >= bound, "at least {} long"),
    "max_length": (lambda value, bound: len(value) <= bound, "at most {} long"),
    "pattern": (lambda value, bound: re.search(bound, value) is not None, "text like {!r}"),
    "func": (lambda value, bound: bool(bound(value)), "accepted by {}"),
    "tz": (lambda value, bound: (value.tzinfo is not None) is bool(bound), "with tz={}"),
}


def constraints(metadata: Iterable[Any]) -> Iterator[Callable[[Any], None]]:
    """Yield a check for each bound that is known; other annotations are ignored."""
    for each in metadata:
        if type(each).__module__.partition(".")[0] not in _BOUND_LIBRARIES:
            continue
        for name, (holds, text) in _BOUNDS.items():
            bound = getattr(each, name, None)
            if bound is not None:
                yield _bounded(holds, bound, text)


def _bounded(holds: Callable[[Any, Any], bool], bound: Any, text: str) -> Callable[[Any], None]:
    """Return a check that a comparison with a bound holds."""
    expected = text.format(getattr(bound, "__qualname__", bound))

    def check(value: Any) -> None:
        """Raise Misfit unless the value fits."""
        try:
            fits = holds(value, bound)
        except (TypeError, ValueError, ArithmeticError, AttributeError):
            fits = False
        if not fits:
            raise Misfit(expected, value)

    return check


ModelCheck: TypeAlias = "Callable[[Checks, Any, Any], Check | None]"
"""Returns the check of a model class, or of what pydantic annotates; None for anything else."""

_UNION = (typing.Union, types.UnionType)
_WRAPPERS = {"ClassVar", "Final", "NotRequired", "ReadOnly", "Required", "Unpack"}
_PLAIN_HOMES = ("builtins", "collections", "collections.abc")


class Checks:
    """Makes checks of annotations; `model_check` makes those of model classes."""

    def __init__(self, model_check: ModelCheck) -> None:
        self._model_check = model_check
        self._made: dict[Any, Check] = {}
        self.unchecked: list[Any] = []
        """Annotations of which only the class is checked, or nothing."""

    def of(self, hint: Any) -> Check:
        """Return the check of an annotation.

        Raises:
            Invalid: a name in the annotations of a class it mentions is not known.
        """
        try:
            found = self._made.get(hint)
        except TypeError:  # an unhashable part of Annotated: made each time
            return self._make(hint)
        if found is None:
            later = _ForwardCheck()
            self._made[hint] = later.check
            found = self._made[hint] = later.target = self._make(hint)
        return found

    def _make(self, hint: Any) -> Check:
        """Build the check of an annotation."""
        if hint is None or isinstance(hint, type):
            scalar = SCALARS.get(hint)
            if scalar is not None:
                return scalar
        if name := _special(hint):
            return self._special(name, hint)
        origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
        if not isinstance(origin, type):
            return self._unchecked(hint, accept_any)
        found = self._model_check(self, origin, hint)
        if found is None and (args or hint == tuple[()]):
            found = self._container(origin, args)
        if found is not None:
            return found
        whole = instance_of(origin)
        is_plain = origin.__module__ in _PLAIN_HOMES
        return self._unchecked(hint, whole) if args and is_plain else whole

    def _unchecked(self, hint: Any, check: Check) -> Check:
        self.unchecked.append(hint)
        return check

    def _special(self, name: str, hint: Any) -> Check:
        """Build the check of a special form of typing, by its name."""
        args = typing.get_args(hint)
        if name == "Union":
            return union([self.of(arg) for arg in args])
        if name == "Literal":
            return literal(args)
        if name == "Annotated":
            return self._annotated(hint, args)
        if name == "Wrapper":
            return self.of(args[0])
        if name == "NewType":
            return self.of(hint.__supertype__)
        if name == "TypeAliasType":
            return self.of(_alias_value(hint))
        if name in ("Any", "Never", "LiteralString"):
            return {"Any": accept_any, "Never": refuse_any, "LiteralString": SCALARS[str]}[name]
        if name != "TypeVar":
            return self._unchecked(hint, accept_any)
        if hint.__constraints__:
            return union([self.of(each) for each in hint.__constraints__])
        return accept_any if hint.__bound__ is None else self.of(hint.__bound__)

    def _annotated(self, hint: Any, args: tuple[Any, ...]) -> Check:
        parts = [self.of(args[0]), *constraints(args[1:])]
        by_library = self._model_check(self, typing.Annotated, hint)
        return all_of(parts if by_library is None else [*parts, by_library])

    def _container(self, origin: type, args: tuple[Any, ...]) -> Check | None:
        """Build the check of a container and its parts; None for other types."""
        if origin.__module__ not in _PLAIN_HOMES:  # an array of float64 is an array
            return None
        if issubclass(origin, tuple):
            return self._tuple(args)
        if origin is type:
            return self._class(args[0])
        if issubclass(origin, Counter):
            return mapping(origin, self.of(args[0]), SCALARS[int])
        if issubclass(origin, Mapping) and len(args) == 2:
            return mapping(origin, self.of(args[0]), self.of(args[1]))
        if issubclass(origin, Iterable) and not issubclass(origin, Iterator) and len(args) == 1:
            return collection(origin, self.of(args[0]))
        return None

    def _tuple(self, args: tuple[Any, ...]) -> Check:
        if len(args) == 2 and args[1] is Ellipsis:
            return collection(tuple, self.of(args[0]))
        at = next((at for at, arg in enumerate(args) if _is_unpacked(arg)), None)
        if at is None:
            return tuple_of([self.of(arg) for arg in args])
        inside = typing.get_args(_unpacked(args[at]))
        if len(inside) != 2 or inside[1] is not Ellipsis:  # *tuple[int, str], or *Ts
            is_open = not inside
            flat = args[:at] + (() if is_open else inside) + args[at + 1 :]
            if not is_open:
                return self._tuple(flat)
            inside = (Any, ...)
        first, last = (list(map(self.of, part)) for part in (args[:at], args[at + 1 :]))
        return tuple_with_middle(first, self.of(inside[0]), last)

    def _class(self, hint: Any) -> Check:
        """Build the check of `type[X]`."""
        bound = getattr(hint, "__bound__", None)
        hint = bound if isinstance(hint, typing.TypeVar) and bound is not None else hint
        alternatives = typing.get_args(hint) if _special(hint) == "Union" else (hint,)
        kinds = tuple(typing.get_origin(each) or each for each in alternatives)
        if hint is Any or isinstance(hint, typing.TypeVar):
            return instance_of(type)
        if not all(isinstance(each, type) for each in kinds):
            return self._unchecked(type[hint], instance_of(type))
        return subclass_of(kinds)


def _is_unpacked(hint: Any) -> bool:
    """Tell whether a part of a tuple stands for several: `*tuple[int, ...]` or `Unpack[…]`."""
    return bool(getattr(hint, "__unpacked__", False)) or _is_unpack(hint)


def _is_unpack(hint: Any) -> bool:
    return getattr(typing.get_origin(hint), "_name", None) == "Unpack"


def _unpacked(hint: Any) -> Any:
    return typing.get_args(hint)[0] if _is_unpack(hint) else hint


def _alias_value(hint: Any) -> Any:
    """Return what a type alias stands for; the parameters of a generic one are substituted."""
    alias = typing.get_origin(hint) or hint
    given = dict(zip(alias.__type_params__, typing.get_args(hint), strict=False))
    return substituted(alias.__value__, given)


def substituted(hint: Any, given: dict[Any, Any]) -> Any:
    """Return an annotation with type parameters replaced."""
    if not given:
        return hint
    if _is_hashable(hint) and hint in given:
        return given[hint]
    open_parameters = getattr(hint, "__parameters__", ())
    if not open_parameters or isinstance(hint, type):
        return hint
    return hint[tuple(given.get(each, each) for each in open_parameters)]


def _is_hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True


class _ForwardCheck:
    """The check of a recursive annotation, while its parts are being made."""

    def __init__(self) -> None:
        self.target: Check = accept_any

    def check(self, value: object) -> None:
        """Apply the finished check."""
        self.target(value)


def _special(hint: Any) -> str | None:
    """Return the kind of an annotation that is not a class."""
    origin = typing.get_origin(hint)
    if origin in _UNION:
        return "Union"
    if origin is typing.Literal:
        return "Literal"
    if hasattr(hint, "__metadata__"):
        return "Annotated"
    if getattr(origin, "_name", None) in _WRAPPERS:
        return "Wrapper"
    for name in (type(hint).__name__, type(origin).__name__):
        if name in ("NewType", "TypeVar", "TypeAliasType"):
            return name
    if hint in (typing.Never, typing.NoReturn):
        return "Never"
    if hint in (Any, typing.LiteralString):
        return "Any" if hint is Any else "LiteralString"
    kind = origin or hint
    is_protocol = getattr(kind, "_is_protocol", False)
    return "Protocol" if is_protocol and not getattr(kind, "_is_runtime_protocol", False) else None
