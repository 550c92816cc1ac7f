"""The checks themselves: of scalars, containers and models, each a function of one value.

As for type checkers, an int is a float and an instance of a subclass is what its base is. Unlike
for them, a bool is no number and a datetime no date: that is nearly always a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any, TypeAlias

from otolith.agent.checking.misfit import Misfit, named

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
