"""Data from a store or a document, checked once at the door.

Whatever holds plain data (a snapshot, a message, a note) says which fields it has and of which kind
each is, and is handed them when all of it fits. Behind the door nobody has to ask again, and what
somebody prepared is refused here, not somewhere inside.

A kind is a class, or several. An `int` is no bool and has 64 bits, a `float` may be an int, a
`list` may be a tuple and a `dict` any mapping with strings for keys; `object` is anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from otolith.errors import Corrupt, Error

Kind: TypeAlias = "type | tuple[type, ...]"
Shape: TypeAlias = "Mapping[str, Kind]"

NOTHING = type(None)
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
    """Return the fields of a dict: all that are needed, some that are optional, and no other.

    With `is_open` others may be there, as a newer writer may have put them; they are left out.

    Raises:
        Corrupt, or `error`: it is no such dict.
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
        raise error(f"{what} has a field {other[:80]!r}, which is not known here", hint=_HINT)
    for name, value in found.items():
        if not fits(value, known[name]):
            raise error(f"the {name} of {what} is a {type(value).__name__}", hint=_HINT)
    return found


def items(data: object, what: str, *kinds: Kind, error: type[Error] = Corrupt) -> list[Any]:
    """Return a list that has one element of each of these kinds.

    Raises:
        Corrupt, or `error`: it is no such list.
    """
    if not isinstance(data, list | tuple) or len(data) != len(kinds):
        raise error(f"{what} is no list of {len(kinds)}", hint=_HINT)
    if not all(map(fits, data, kinds)):
        raise error(f"{what} has elements of other kinds than it should", hint=_HINT)
    return list(data)


def several(data: object, what: str, kind: Kind, *, error: type[Error] = Corrupt) -> list[Any]:
    """Return a list whose elements are all of a kind.

    Raises:
        Corrupt, or `error`: it is no such list.
    """
    if not isinstance(data, list | tuple) or not all(fits(each, kind) for each in data):
        raise error(f"{what} is no list, or has elements that it cannot have", hint=_HINT)
    return list(data)


def mapping(data: object, what: str, kind: Kind, *, error: type[Error] = Corrupt) -> dict[str, Any]:
    """Return a dict with any names, whose values are all of a kind.

    Raises:
        Corrupt, or `error`: it is no such dict.
    """
    if not _fits(data, dict):
        raise error(f"{what} is no dict of names and values", hint=_HINT)
    assert isinstance(data, Mapping)
    if not all(fits(each, kind) for each in data.values()):
        raise error(f"{what} has values that it cannot have", hint=_HINT)
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
