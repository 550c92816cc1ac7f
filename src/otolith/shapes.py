"""Shapes: data from a store or a document, checked once where it comes in.

Code that reads plain data (a snapshot, a message, a note) declares which fields it has and of which
kind each is, and gets them only if all of it fits. So no later code has to check again, and data
that was forged or damaged is refused here.

    fields(data, "the note", {"text": str}, {"tags": list})   # {'text': …}, or Corrupt
    sound(data, Note, "the note")                             # a struct of msgspec, or Corrupt

A kind is a class, or several. An `int` must not be a bool and has 64 bits, a `float` may be an int,
a `list` may be a tuple and a `dict` any mapping with strings for keys; `object` is anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from msgspec import ValidationError, convert

from otolith.errors import Corrupt, Error, Invalid

T = TypeVar("T")
Kind: TypeAlias = "type | tuple[type, ...]"
Shape: TypeAlias = "Mapping[str, Kind]"

NOTHING = type(None)
FUNCTION: type = Callable  # type: ignore[assignment]
"""Anything that can be called."""
_LIMIT = 1 << 63
_HINT = "run otolith fsck, or restore an older one"


def fields(
    data: object,
    what: str,
    needed: Shape,
    optional: Shape | None = None,
    *,
    is_open: bool = False,
    error: type[Error] = Corrupt,
) -> dict[str, Any]:
    """Return the fields of a dict: all that are needed, some that are optional, and no others.

    With `is_open` there may be others, written by a newer version; they are left out. `what` names
    the data in messages.

    Raises:
        Corrupt, or `error`: it is not such a dict.
    """
    if not _fits(data, dict):
        raise error(f"{what} is a {type(data).__name__}, not a dict of fields", hint=_HINT)
    assert isinstance(data, Mapping)
    known = {**needed, **(optional or {})}
    for name in needed:
        if name not in data:
            raise error(f"{what} has no {name}", hint=_HINT)
    found = {name: value for name, value in data.items() if name in known}
    if len(found) < len(data) and not is_open:
        other = next(name for name in data if name not in known)
        raise error(f"{what} has an unknown field {other[:80]!r}", hint=_HINT)
    for name, value in found.items():
        if not fits(value, known[name]):
            raise error(f"the {name} of {what} is a {type(value).__name__}", hint=_HINT)
    return found


def sound(data: object, kind: type[T], what: str) -> T:
    """Return an instance of a struct from a dict of its fields; others are left out.

    `what` names the data in messages.

    Raises:
        Corrupt: it is not such a dict.
    """
    try:
        return convert(data, kind)
    except ValidationError as error:
        raise Corrupt(f"{what} cannot be read: {error}", hint=_HINT) from None


def items(data: object, what: str, *kinds: Kind, error: type[Error] = Corrupt) -> list[Any]:
    """Return a list that has one element of each of these kinds.

    Raises:
        Corrupt, or `error`: it is not such a list.
    """
    if not isinstance(data, list | tuple) or len(data) != len(kinds):
        raise error(f"{what} must be a list of {len(kinds)} elements", hint=_HINT)
    if not all(map(fits, data, kinds)):
        raise error(f"{what} has an element of the wrong type", hint=_HINT)
    return list(data)


def several(data: object, what: str, kind: Kind, *, error: type[Error] = Corrupt) -> list[Any]:
    """Return a list whose elements are all of a kind.

    Raises:
        Corrupt, or `error`: it is not such a list.
    """
    if not isinstance(data, list | tuple) or not all(fits(each, kind) for each in data):
        raise error(f"{what} must be a list, with elements of one type", hint=_HINT)
    return list(data)


def mapping(data: object, what: str, kind: Kind, *, error: type[Error] = Corrupt) -> dict[str, Any]:
    """Return a dict with any names, whose values are all of a kind.

    Raises:
        Corrupt, or `error`: it is not such a dict.
    """
    if not _fits(data, dict):
        raise error(f"{what} must be a dict with strings as keys", hint=_HINT)
    assert isinstance(data, Mapping)
    if not all(fits(each, kind) for each in data.values()):
        raise error(f"{what} has a value of the wrong type", hint=_HINT)
    return dict(data)


def fits(value: object, kind: Kind) -> bool:
    """Tell whether a value is of a kind, or of one of several."""
    if isinstance(kind, tuple):
        return any(_fits(value, each) for each in kind)
    return _fits(value, kind)


def _fits(value: object, kind: type) -> bool:
    if kind is int:
        return type(value) is int and -_LIMIT <= value < _LIMIT
    if kind is float:
        return type(value) is float or _fits(value, int)
    if kind is list:
        return isinstance(value, list | tuple)
    if kind is dict:
        return isinstance(value, Mapping) and all(type(name) is str for name in value)
    return isinstance(value, kind)


def check_argument(
    value: object,
    name: str,
    kind: Kind,
    wanted: str,
    *,
    hint: str = "",
    error: type[Error] = Invalid,
) -> None:
    """Refuse an argument of the wrong type at once, before it fails somewhere inside.

    Raises:
        Invalid, or `error`: it is not of that kind; `wanted` says what it must be, as in "a list of
            steps".
    """
    if not fits(value, kind):
        got = repr(value) if isinstance(value, str | int | float) else type(value).__name__
        raise error(f"{name} must be {wanted}, got {got}", hint=hint)
