"""A mapping by paths over Python's own dicts and lists, as they stand."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, MutableMapping
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any, TypeVar

from otolith.agent.tracking.held import index_of, put_part, remove_part
from otolith.core import Path, format_path, parse_own_path, parse_path
from otolith.errors import BadPath, BadValue, KeyNotFound

T = TypeVar("T")
_NOTHING = object()


class Containers(MutableMapping[str, Any]):
    """Values by path. A path goes down through dicts and lists; threads take turns."""

    def __init__(self) -> None:
        self._root: dict[Any, Any] = {}
        self._turns = RLock()

    def turn(self) -> AbstractContextManager[object]:
        """Return what keeps other threads out."""
        return self._turns

    def __getitem__(self, path: str | Path) -> Any:
        keys = parse_path(path)
        with self._turns:
            value: Any = self._root
            for depth, key in enumerate(keys):
                value = _part(value, key, keys[: depth + 1])
            return value

    def __setitem__(self, path: str | Path, value: object) -> None:
        keys = parse_own_path(path)
        for key in keys:
            _check_key(key, keys)
        with self._turns:
            put_part(self._root, (), keys, value)

    def __delitem__(self, path: str | Path) -> None:
        keys = parse_own_path(path)
        with self._turns:
            remove_part(self._root, (), keys)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str | tuple) and self.get(path, _NOTHING) is not _NOTHING

    def get(self, path: str | Path, default: Any = None) -> Any:
        """Return the value at a path, or the default if nothing is there."""
        try:
            return self[path]
        except KeyNotFound:
            return default

    def __iter__(self) -> Iterator[str]:
        return iter([format_path((key,)) for key in self._root])

    def __len__(self) -> int:
        return len(self._root)

    def names(self, path: str | Path = ()) -> builtins.list[str]:
        """Return the keys at a path, as parts of paths; the top by default."""
        return [format_path((key,)) for key in self.map(path)] if path else [*self]

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state; its values are those that are held, not copies."""
        return {name: self[name] for name in self}

    def kind(self, path: str | Path = ()) -> str:
        """Name what is at a path: map, list, or the type of anything else."""
        name = type(self[path] if path else self._root).__name__
        return "map" if name == "dict" else name

    # What Versioned has handles for: the containers themselves, made if they are missing

    def list(self, path: str | Path) -> builtins.list[Any]:
        """Return the list at a path."""
        return self._container(path, builtins.list)

    def map(self, path: str | Path) -> dict[Any, Any]:
        """Return the dict at a path."""
        return self._container(path, dict)

    def set(self, path: str | Path) -> builtins.set[Any]:
        """Return the set at a path."""
        return self._container(path, builtins.set)

    def counter(self, path: str | Path) -> Counter:
        """Return a handle on a number to add to."""
        return Counter(self, path)

    def _container(self, path: str | Path, kind: type[T]) -> T:
        with self._turns:
            found = self.get(path, _NOTHING)
            if found is _NOTHING:
                found = self[path] = kind()
        if not isinstance(found, kind):
            raise BadPath(
                f"{format_path(parse_path(path))} is a {type(found).__name__},"
                f" not a {kind.__name__}",
                hint="choose another path",
            )
        return found


class Counter:
    """A number that is added to."""

    def __init__(self, state: Containers, path: str | Path) -> None:
        self._state = state
        self._path = parse_path(path)

    @property
    def value(self) -> Any:
        """The number; 0 if nothing was added yet."""
        return self._state.get(self._path, 0)

    def add(self, amount: Any = 1) -> Any:
        """Add to the number and return it."""
        with self._state.turn():
            self._state[self._path] = value = self.value + amount
        return value

    def __int__(self) -> int:
        return int(self.value)


def _part(value: Any, key: object, path: Path) -> Any:
    if type(value) is list:
        at = index_of(key, len(value))
        if at is not None:
            return value[at]
    elif type(value) is dict:
        _check_key(key, path)
        if key in value:
            return value[key]
    raise KeyNotFound(
        f"nothing at {format_path(path)}", hint="list(state) shows what is at the top"
    )


def _check_key(key: object, path: Path) -> None:
    try:
        hash(key)
    except TypeError:
        raise BadValue(f"{format_path(path)}: {key!r} cannot be a key") from None


def copied(value: Any, known: dict[int, Any]) -> Any:
    """Return a copy of the dicts and lists in a value, in which what was one is still one."""
    if type(value) not in (dict, list):
        return value
    if id(value) not in known:
        known[id(value)] = twin = type(value)()
        if type(value) is dict:
            twin.update({key: copied(part, known) for key, part in value.items()})
        else:
            twin.extend(copied(part, known) for part in value)
    return known[id(value)]
