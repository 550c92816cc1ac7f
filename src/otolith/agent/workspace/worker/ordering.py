"""The order of dicts, which a program can see and a state does not keep.

A state keeps dicts by their keys, so that equal ones are the same. Here the order of their filling
is written down beside them: once for all dicts with the same keys, as most have one order, and by
its place for each that differs.

    {"keys": [[key, …], …], "places": [[[step, …], [key, …]], …]}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from otolith.agent.tracking.sharing import levels, part_at
from otolith.core import Path

Order = dict[str, list[Any]]
Sorted = Callable[[Any], bytes]
"""Gives the bytes that a key is sorted by."""


def order_of(value: object, by: Sorted) -> Order | None:
    """Return the order of the dicts in a value, or None if all are sorted."""
    found = Counter(tuple(each) for each in _dicts(value))
    common: dict[frozenset[Any], tuple[Any, ...]] = {}
    for keys, _ in found.most_common():
        common.setdefault(frozenset(keys), keys)
    is_one = len(common) == len(found)
    usual = [list(keys) for keys in common.values() if not _is_sorted(keys, by)]
    if not usual and is_one:
        return None
    places = [] if is_one else [[list(s), list(d)] for s, d in _unusual(value, common, (), set())]
    return {"keys": usual, "places": places}


def put_in_order(value: Any, order: Order | None, inside: Path = ()) -> None:
    """Give the dicts in a value the order they had; `inside` is what the value is a part of."""
    if not order:
        return
    usual = {frozenset(keys): keys for keys in order["keys"]}
    for each in _dicts(value):
        keys = usual.get(frozenset(each))
        if keys is not None:
            _reorder(each, keys)
    for steps, keys in order["places"]:
        if tuple(steps[: len(inside)]) == inside:
            _reorder(part_at(value, tuple(steps[len(inside) :])), keys)


def _dicts(value: object) -> Iterator[dict[Any, Any]]:
    for level, _ in levels([value], set()):
        for each in level:
            if type(each) is dict:
                yield each
            elif type(each).__name__ in ("DataFrame", "Series") and getattr(each, "attrs", None):
                yield from _dicts(each.attrs)


def _is_sorted(keys: tuple[Any, ...], by: Sorted) -> bool:
    places = list(map(by, keys))
    return places == sorted(places)


def _unusual(
    value: Any, common: dict[frozenset[Any], tuple[Any, ...]], path: Path, seen: set[int]
) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """Yield the places of dicts that are not in the order that most with their keys have."""
    if type(value) not in (dict, list, tuple) or id(value) in seen:
        return
    seen.add(id(value))
    if type(value) is dict and common[frozenset(value)] != tuple(value):
        yield path, tuple(value)
    parts = value.items() if type(value) is dict else enumerate(value)
    for step, part in parts:
        yield from _unusual(part, common, (*path, step), seen)


def _reorder(value: dict[Any, Any], keys: list[Any]) -> None:
    if len(value) == len(keys) and all(key in value for key in keys) and list(value) != keys:
        parts = {key: value[key] for key in keys}
        value.clear()
        value.update(parts)
