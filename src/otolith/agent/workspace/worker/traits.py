"""What a program can see of a value and a state does not keep: order, layout, read-only memory.

Beside a variable is written down, only where it is out of the ordinary:

    order       in which its dicts were filled (`ordering`)
    read_only   the places of arrays in it that cannot be written to
    by_rows     that it is a frame whose numbers lie row by row, as those of an array do
"""

from __future__ import annotations

import sys
from typing import Any

from otolith.agent.tracking.sharing import levels, part_at, places_of
from otolith.agent.tracking.views import identity, is_array
from otolith.agent.workspace.worker.ordering import Sorted, order_of, put_in_order
from otolith.core import Path

NAMES = ("order", "read_only", "by_rows")


def traits_of(value: object, by: Sorted) -> dict[str, Any]:
    """Return the traits of a value, as plain data."""
    found = {
        "order": order_of(value, by),
        "read_only": _read_only(value, by),
        "by_rows": is_by_rows(value),
    }
    return {name: trait for name, trait in found.items() if trait}


def with_traits(value: Any, traits: dict[str, Any], inside: Path = ()) -> Any:
    """Return a value that has its traits again; `inside` is what it is a part of."""
    put_in_order(value, traits.get("order"), inside)
    for steps in traits.get("read_only", ()):
        if tuple(steps[: len(inside)]) == inside:
            part_at(value, tuple(steps[len(inside) :])).flags.writeable = False
    return by_rows(value) if traits.get("by_rows") and not inside else value


def _read_only(value: object, by: Sorted) -> list[list[Any]]:
    arrays = [each for level, _ in levels([value], set()) for each in level if is_array(each)]
    fixed = {identity(each) for each in arrays if not each.flags.writeable}
    if not fixed:
        return []
    places: list[tuple[Path, Any]] = places_of(value, fixed, by)
    return [list(steps) for steps, part in places if not part.flags.writeable]


def is_by_rows(value: Any) -> bool:
    """Tell whether a frame of pandas was made of an array whose rows follow each other."""
    pandas = sys.modules.get("pandas")
    if pandas is None or type(value) is not pandas.DataFrame or len(value.columns) < 2:
        return False
    blocks = value._mgr.blocks  # noqa: SLF001  # nothing public tells how a frame lies in memory
    held: Any = blocks[0].values if len(blocks) == 1 else None
    return is_array(held) and not held.flags.c_contiguous


def by_rows(frame: Any) -> Any:
    """Return a frame whose numbers lie row by row."""
    pandas, numpy = sys.modules["pandas"], sys.modules["numpy"]
    data = numpy.ascontiguousarray(frame.to_numpy())
    made = pandas.DataFrame(data, index=frame.index, columns=frame.columns, copy=False)
    made.attrs = frame.attrs
    made.flags.allows_duplicate_labels = frame.flags.allows_duplicate_labels
    return made
