"""Frozen values: plain data that cannot be changed in place, such as the data of a statechart.

Data is frozen when it enters a snapshot. A `FrozenDict` is a dict and a `FrozenList` a list to
everything that reads them, but a guard or an action that tries to write gets an error instead of
changing an older snapshot. A frozen value is frozen all the way down, so freezing it again costs
nothing.

Frozen values share their parts, and a copy does not: a list that holds the list before it twice is
small here, and has a million items when it is written out after twenty rounds. `check_extent`
counts what a value would be, written out. Each container remembers its own count, so that only new
ones are counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

from otolith.errors import BadValue

DEEPEST = 100
"""How many containers may be nested in one another."""

MOST_ITEMS = 1_000_000
"""How many values a value computed by a chart may have, written out."""

_LARGEST = 10**4000
"""The largest int that Python still converts to text: it has a limit of 4300 digits."""
_SCALARS = frozenset({str, int, float, bool, type(None)})


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(
        "the data of a snapshot cannot be changed in place; an action returns its updates as a dict"
    )


class FrozenDict(dict[str, Any]):
    """A dict that cannot be changed."""

    __slots__ = ("extent",)
    extent: tuple[int, int]
    """What `check_extent` has counted; it is not set before."""

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _refuse
    __ior__ = _refuse

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __slots__ = ("extent",)
    extent: tuple[int, int]
    """What `check_extent` has counted; it is not set before."""

    __setitem__ = __delitem__ = append = extend = insert = pop = _refuse
    remove = clear = sort = reverse = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenList, (list(self),)


EMPTY = FrozenDict()


def freeze(value: Any, depth: int = 0) -> Any:
    """Return the value as frozen data; a frozen value is returned unchanged.

    Raises:
        BadValue: it is not plain data: a str, number, bool, None, or a list or dict of these.
    """
    kind = type(value)
    if kind in _SCALARS:
        if kind is float and not math.isfinite(value):
            raise BadValue(f"{value} is not a finite number", hint="JSON has finite numbers only")
        if kind is int and not -_LARGEST <= value <= _LARGEST:
            bits = value.bit_length()
            raise BadValue(f"an int has {bits} bits", hint="store it as a str, or as a float")
        return value
    if kind is FrozenDict or kind is FrozenList:
        return value
    if depth >= DEEPEST:
        raise BadValue(f"data is nested more than {DEEPEST} deep", hint="flatten it")
    if kind is dict or isinstance(value, Mapping):
        below = depth + 1
        return FrozenDict(
            {
                key if type(key) is str else _key(key): freeze(item, below)
                for key, item in value.items()
            }
        )
    if isinstance(value, list | tuple):
        return FrozenList([freeze(item, depth + 1) for item in value])
    return _plainer(value)


def check_extent(value: FrozenDict | FrozenList) -> tuple[int, int]:
    """Return how many values a frozen one contains, written out, and how deep it is nested.

    Raises:
        BadValue: there are more than `MOST_ITEMS`, or it is nested more than `DEEPEST` deep.
    """
    try:
        return value.extent
    except AttributeError:
        value.extent = _extent(value)
    return value.extent


def _extent(value: FrozenDict | FrozenList) -> tuple[int, int]:
    """Count the items of a container, and those of the containers in it."""
    count, depth = len(value), 0
    for item in value.values() if type(value) is FrozenDict else value:
        if type(item) is FrozenDict or type(item) is FrozenList:
            inner, below = check_extent(item)
            count += inner
            depth = max(depth, below)
    if count > MOST_ITEMS:
        raise BadValue(
            f"a value would have {count:,} items, written out, and at most {MOST_ITEMS:,} fit",
            hint="do not nest a value in itself again and again",
        )
    if depth >= DEEPEST:
        raise BadValue(f"data is nested more than {DEEPEST} deep", hint="flatten it")
    return count, depth + 1


def thaw(value: Any) -> Any:
    """Return a copy made of ordinary dicts and lists."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value


def with_items(holder: FrozenDict, items: Mapping[str, Any]) -> FrozenDict:
    """Return a copy of a frozen dict with other items, which must be frozen."""
    found = FrozenDict(holder)
    dict.update(found, items)  # this copy is not frozen yet
    return found


def with_item(holder: Any, key: Any, value: Any) -> Any:
    """Return a copy of a dict or list with one item set."""
    if isinstance(holder, dict):
        return FrozenDict({**holder, _key(key): value})
    if isinstance(holder, list) and type(key) is int and 0 <= key <= len(holder):
        return FrozenList([*holder[:key], value, *holder[key + 1 :]])
    raise BadValue(f"{key!r} is not a key of a {type(holder).__name__}")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str(key)
    raise BadValue(f"a key must be a str, got {key!r}")


def _plainer(value: Any) -> Any:
    """Return an enum or another kind of str or number as the plain value it stands for."""
    for plain in (str, bool, int, float):
        if isinstance(value, plain):
            return freeze(plain(getattr(value, "value", value)))
    raise BadValue(
        f"a {type(value).__name__} is not plain data",
        hint="use strings, numbers, booleans, None, and lists and dicts of these",
    )
