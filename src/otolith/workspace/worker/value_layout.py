"""The layout of a value, which a program can see and a state does not store.

It is noted beside a variable, only where it is out of the ordinary:

    order       the order of keys in its dicts; no longer written (below)
    read_only   the paths of arrays in it that cannot be written to
    by_rows     whether it is a frame whose numbers lie row by row, as those of an array do: True
                for all columns, or lists of their numbers
    known       what sparse arrays know of their own order, by their paths

Dicts have their order in the state itself (decision 35). Before they did, it was noted here: once
for all dicts with the same keys, as most have one order, and by path for each that differs. Such a
note is read, and the step that reads the variable stores it anew, with its order and no note:

    {"keys": [[key, …], …], "places": [[[step, …], [key, …]], …]}
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from otolith.codecs import part_at
from otolith.core import Path
from otolith.state.tracker.shared_objects import identity, is_array, levels, places_of

Order = dict[str, list[Any]]
SortKey = Callable[[Any], bytes]
"""Returns the bytes that a key is sorted by."""


def _restore_order(value: Any, order: Order | None, inside: Path = ()) -> None:
    """Restore the order of keys; `inside` is the path of the value in its variable."""
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
    """Yield the dicts in a value."""
    for level, _ in levels([value], set()):
        for each in level:
            if type(each) is dict:
                yield each
            elif type(each).__name__ in ("DataFrame", "Series") and getattr(each, "attrs", None):
                yield from _dicts(each.attrs)


def _reorder(value: dict[Any, Any], keys: list[Any]) -> None:
    """Give a dict the order of some keys, if it has exactly these."""
    if len(value) == len(keys) and all(key in value for key in keys) and list(value) != keys:
        parts = {key: value[key] for key in keys}
        value.clear()
        value.update(parts)


NAMES = ("order", "read_only", "by_rows", "known")

_SPARSE = ("_has_canonical_format", "_has_sorted_indices")


def layout_of(value: object, by: SortKey) -> dict[str, Any]:
    """Return the layout of a value as plain data, without what is ordinary."""
    found = {
        "read_only": _read_only(value, by),
        "by_rows": row_layout(value),
        "known": _known(value, by),
    }
    return {name: each for name, each in found.items() if each}


def with_layout(value: Any, layout: dict[str, Any], inside: Path = ()) -> Any:
    """Return a value with its layout restored; `inside` is its path in its variable."""
    _restore_order(value, layout.get("order"), inside)
    for steps in layout.get("read_only", ()):
        if tuple(steps[: len(inside)]) == inside:
            part_at(value, tuple(steps[len(inside) :])).flags.writeable = False
    for steps, known in layout.get("known", ()):
        if tuple(steps[: len(inside)]) == inside:
            vars(part_at(value, tuple(steps[len(inside) :]))).update(known)
    return value if inside else with_row_layout(value, layout.get("by_rows"))


def usual_layout(layout: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a layout that suits another value: the order of its keys."""
    order = layout.get("order")
    return {"order": {"keys": order["keys"], "places": []}} if order else {}


def _read_only(value: object, by: SortKey) -> list[list[Any]]:
    """Return the paths of arrays that cannot be written to."""
    arrays = [each for level, _ in levels([value], set()) for each in level if is_array(each)]
    fixed = {identity(each) for each in arrays if not each.flags.writeable}
    if not fixed:
        return []
    places: list[tuple[Path, Any]] = places_of(value, fixed, by)
    return [list(steps) for steps, part in places if not part.flags.writeable]


def _known(value: object, by: SortKey) -> list[list[Any]]:
    """Return the flags that the sparse arrays in a value have computed."""
    if "scipy.sparse" not in sys.modules:
        return []
    found = [
        each
        for level, _ in levels([value], set())
        for each in level
        if type(each).__module__.startswith("scipy.sparse")
    ]
    flags = {id(each): {n: vars(each)[n] for n in _SPARSE if n in vars(each)} for each in found}
    if not any(flags.values()):
        return []
    places: list[tuple[Path, Any]] = places_of(value, set(flags), by)
    return [[list(steps), flags[id(part)]] for steps, part in places if flags[id(part)]]


def row_layout(value: Any) -> bool | list[list[int]]:
    """Return the columns of a pandas frame that lie row by row, one list for each block.

    True if all do and are one block, False if none do.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or type(value) is not pandas.DataFrame or len(value.columns) < 2:
        return False
    blocks = value._mgr.blocks  # noqa: SLF001  # nothing public tells how a frame lies in memory
    found = [list(map(int, each.mgr_locs)) for each in blocks if _is_by_rows(each.values)]
    return True if found and len(blocks) == 1 else found


def _is_by_rows(held: Any) -> bool:
    """Tell whether a block, which has a row for each column, is stored column-major."""
    if not is_array(held) or held.ndim != 2 or min(held.shape) < 2:
        return False
    return bool(abs(held.strides[0]) < abs(held.strides[1]))


def with_row_layout(frame: Any, rows: bool | list[list[int]] | None) -> Any:  # noqa: FBT001
    """Return a frame whose numbers lie row by row, as `row_layout` returned it."""
    if not rows:
        return frame
    pandas, numpy = sys.modules["pandas"], sys.modules["numpy"]
    if rows is True:
        data = numpy.ascontiguousarray(frame.to_numpy())
        made = pandas.DataFrame(data, index=frame.index, columns=frame.columns, copy=False)
    else:
        manager = frame._mgr  # noqa: SLF001  # as above; the parts are those that pickles have
        blocks = _rearranged(frame, rows)
        made = pandas.DataFrame._from_mgr(type(manager)(blocks, manager.axes), manager.axes)  # noqa: SLF001
    made.attrs = frame.attrs
    made.flags.allows_duplicate_labels = frame.flags.allows_duplicate_labels
    return made


def _rearranged(frame: Any, rows: list[list[int]]) -> tuple[Any, ...]:
    """Return the blocks of a frame with the given columns stored row by row."""
    numpy, block = sys.modules["numpy"], sys.modules["pandas._libs.internals"]._unpickle_block  # noqa: SLF001
    moved = {place for places in rows for place in places}
    blocks: list[Any] = []
    for each in frame._mgr.blocks:  # noqa: SLF001
        places = list(map(int, each.mgr_locs))
        stay = [at for at, place in enumerate(places) if place not in moved]
        if len(stay) == len(places):
            blocks.append(each)
        elif stay:
            blocks.append(block(each.values[stay], numpy.array([places[at] for at in stay]), 2))
    for places in rows:
        data = numpy.ascontiguousarray(frame.iloc[:, places].to_numpy())
        blocks.append(block(data.T, numpy.array(places), 2))
    return tuple(blocks)
