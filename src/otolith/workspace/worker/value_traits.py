"""What a program can see of a value and a state does not keep: order, layout, read-only memory.

Beside a variable is written down, only where it is out of the ordinary:

    order       in which its dicts were filled (`ordering`)
    read_only   the places of arrays in it that cannot be written to
    by_rows     that it is a frame whose numbers lie row by row, as those of an array do: of all
                columns, or of those at some places
    known       what sparse arrays know of their own order, by their places
"""

from __future__ import annotations

import sys
from typing import Any

from otolith.agent.tracking.sharing import levels, part_at, places_of
from otolith.agent.tracking.views import identity, is_array
from otolith.agent.workspace.worker.ordering import Sorted, order_of, put_in_order
from otolith.core import Path

NAMES = ("order", "read_only", "by_rows", "known")

_SPARSE = ("_has_canonical_format", "_has_sorted_indices")


def traits_of(value: object, by: Sorted) -> dict[str, Any]:
    """Return the traits of a value, as plain data."""
    found = {
        "order": order_of(value, by),
        "read_only": _read_only(value, by),
        "by_rows": rows_of(value),
        "known": _known(value, by),
    }
    return {name: trait for name, trait in found.items() if trait}


def with_traits(value: Any, traits: dict[str, Any], inside: Path = ()) -> Any:
    """Return a value that has its traits again; `inside` is what it is a part of."""
    put_in_order(value, traits.get("order"), inside)
    for steps in traits.get("read_only", ()):
        if tuple(steps[: len(inside)]) == inside:
            part_at(value, tuple(steps[len(inside) :])).flags.writeable = False
    for steps, known in traits.get("known", ()):
        if tuple(steps[: len(inside)]) == inside:
            vars(part_at(value, tuple(steps[len(inside) :]))).update(known)
    return value if inside else by_rows(value, traits.get("by_rows"))


def _read_only(value: object, by: Sorted) -> list[list[Any]]:
    arrays = [each for level, _ in levels([value], set()) for each in level if is_array(each)]
    fixed = {identity(each) for each in arrays if not each.flags.writeable}
    if not fixed:
        return []
    places: list[tuple[Path, Any]] = places_of(value, fixed, by)
    return [list(steps) for steps, part in places if not part.flags.writeable]


def _known(value: object, by: Sorted) -> list[list[Any]]:
    """Return what the sparse arrays in a value have found out about themselves."""
    if "scipy.sparse" not in sys.modules:
        return []
    found = [
        each
        for level, _ in levels([value], set())
        for each in level
        if type(each).__module__.startswith("scipy.sparse")
    ]
    told = {id(each): {n: vars(each)[n] for n in _SPARSE if n in vars(each)} for each in found}
    if not any(told.values()):
        return []
    places: list[tuple[Path, Any]] = places_of(value, set(told), by)
    return [[list(steps), told[id(part)]] for steps, part in places if told[id(part)]]


def rows_of(value: Any) -> bool | list[list[int]]:
    """Return the columns of a frame of pandas that lie row by row, a list to an array of them.

    True if all do and are one array, False if none do.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or type(value) is not pandas.DataFrame or len(value.columns) < 2:
        return False
    blocks = value._mgr.blocks  # noqa: SLF001  # nothing public tells how a frame lies in memory
    found = [list(map(int, each.mgr_locs)) for each in blocks if _is_by_rows(each.values)]
    return True if found and len(blocks) == 1 else found


def _is_by_rows(held: Any) -> bool:
    """Tell whether an array that has a row for each column holds them the other way round."""
    if not is_array(held) or held.ndim != 2 or min(held.shape) < 2:
        return False
    return bool(abs(held.strides[0]) < abs(held.strides[1]))


def by_rows(frame: Any, rows: bool | list[list[int]] | None) -> Any:  # noqa: FBT001
    """Return a frame whose numbers lie row by row, as `rows_of` tells."""
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
