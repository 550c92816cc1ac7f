"""Reading and writing places in nested dicts and lists, by a path of keys."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeAlias

from otolith.errors import BadPath, KeyNotFound

Path: TypeAlias = tuple[Any, ...]
State: TypeAlias = dict[Any, Any]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"

    def __deepcopy__(self, memo: object) -> _Absent:
        return self


ABSENT: Any = _Absent()
"""Where there is no value."""


def find(value: Any, path: Path) -> Any:
    """Return what is at a path, or ABSENT."""
    for key in path:
        if type(value) is list:
            at = index(key, len(value))
            value = ABSENT if at is None else value[at]
        elif type(value) is dict:
            value = value.get(key, ABSENT)
        else:
            return ABSENT
    return value


def put(state: State, path: Path, value: Any) -> State:
    """Return a copy with a value put at a path; dicts on the way are made.

    Raises:
        BadPath: something on the way has no parts.
        KeyNotFound: a list on the way is too short.
    """
    changed = deepcopy(state)
    _write(changed, path, deepcopy(value), ())
    return changed


def remove(state: State, path: Path) -> State:
    """Return a copy without what is at a path."""
    if find(state, path) is ABSENT:
        raise KeyNotFound(f"nothing at {path}")
    changed = deepcopy(state)
    holder = find(changed, path[:-1])
    del holder[index(path[-1], len(holder)) if type(holder) is list else path[-1]]
    return changed


def _write(holder: Any, path: Path, value: Any, above: Path) -> None:
    here = (*above, path[0])
    if type(holder) is list:
        key: Any = index(path[0], len(holder))
        if key is None:
            raise KeyNotFound(f"nothing at {here}")
    elif type(holder) is dict:
        key = path[0]
    else:
        raise BadPath(f"{above} has no parts")
    if len(path) == 1:
        holder[key] = value
        return
    if type(holder) is dict:
        holder.setdefault(key, {})
    _write(holder[key], path[1:], value, here)


def index(key: Any, length: int) -> int | None:
    """Return the index that a key of a path names in a list of this length."""
    if type(key) is str:
        digits = key.removeprefix("-")
        key = int(key) if digits.isdecimal() else None
    if type(key) is not int or not -length <= key < length:
        return None
    return key + length if key < 0 else key
