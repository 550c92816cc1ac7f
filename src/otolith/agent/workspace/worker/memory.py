"""Arrays that overlap in memory which none of them covers: its owner is no variable.

A state keeps views as views of another array that is in it. Where there is none, as the owner has
no name, variables that overlap are kept as objects, in one pickle that has the memory as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from otolith.agent.tracking.sharing import Order, levels, places_of
from otolith.agent.tracking.views import STAND_IN, identity, is_array, view_in

_WORK = 10_000
_ALIGNED_BYTES = 64


def adrift(held: Mapping[str, object], met: Iterable[object], order: Order) -> set[str]:
    """Return the variables that overlap with others, or with what objects met, beyond any of them.

    `held` are variables that are data.
    """
    if "numpy" not in sys.modules:
        return set()
    others = [thing for thing in met if is_array(thing)]
    common = _common(held, {identity(each) for each in others})
    if not common:
        return set()
    arrays = [
        (name, part)
        for name, value in held.items()
        for _, part in places_of(value, common, order)
        if is_array(part)
    ]
    groups: dict[int, list[tuple[str, Any]]] = {}
    for name, part in [*arrays, *(("", other) for other in others)]:
        if identity(part) in common:
            groups.setdefault(identity(part), []).append((name, part))
    return {name for group in groups.values() if _is_adrift(group) for name, _ in group if name}


def span(arrays: list[Any]) -> Any:
    """Return the memory that arrays of one owner look at, as bytes: no more of it than they do."""
    owner = arrays[0]
    if owner.dtype.hasobject or any(each is owner for each in arrays[1:]):
        return owner
    start = addresses(owner)[0]
    bounds = list(map(addresses, arrays[1:]))
    low = (min(low for low, _ in bounds) - start) // _ALIGNED_BYTES * _ALIGNED_BYTES
    high = max(high for _, high in bounds) - start
    return owner.reshape(-1, order="A").view("u1")[low:high]


def addresses(array: Any) -> tuple[int, int]:
    """Return where the memory of an array starts and ends."""
    low, high = sys.modules["numpy"].lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def beneath(array: Any) -> Any:
    """Return the array that an array looks at; None if it looks at none."""
    base = array.base
    if type(base).__name__ == STAND_IN:
        base = base.base
    return base if is_array(base) else None


def owner_of(array: Any) -> Any:
    """Return the array that all those look at which look at the same memory."""
    while (base := beneath(array)) is not None:
        array = base
    return array if array.flags.forc and (array.size or not array.dtype.hasobject) else None


def _common(held: Mapping[str, object], others: set[int]) -> set[int]:
    """Return the memory that arrays in more than one place look at."""
    once, twice = set(others), set[int]()
    for value in held.values():
        for each in _memory(value):
            (twice if each in once else once).add(each)
    return twice


def _memory(value: object) -> Iterator[int]:
    """Yield the memory of the arrays in a value, twice if two of them look at it."""
    numpy = sys.modules["numpy"]
    seen: set[int] = set()
    arrays: set[int] = set()
    for level, again in levels([value], seen):
        if numpy.ndarray in set(map(type, level)):
            new = {identity(each) for each in level if is_array(each)}
            arrays |= new
            yield from new
        yield from again & arrays


def _is_adrift(group: list[tuple[str, Any]]) -> bool:
    solid = [part for name, part in group if name and part.flags.forc]
    whole = max(solid, key=lambda part: int(part.nbytes), default=None)
    distinct = list({id(part): part for _, part in group}.values())
    beyond = [each for each in distinct if not _is_covered(whole, each)]
    return any(other is not each and _overlap(each, other) for each in beyond for other in distinct)


def _is_covered(whole: Any, array: Any) -> bool:
    return array is whole or (whole is not None and view_in(whole, array) is not None)


def _overlap(one: Any, other: Any) -> bool:
    numpy = sys.modules["numpy"]
    try:
        return bool(numpy.shares_memory(one, other, max_work=_WORK))
    except numpy.exceptions.TooHardError:
        return True
