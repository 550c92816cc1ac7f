"""What the host gives to a session: data as cells, anything else as a pickle that a worker loads.

The pickle goes one way only, from the program of the user into a sandbox; nothing is kept of it. A
class whose module a worker could not import, such as one of the user's own program, goes along.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from otolith.core import Reading
from otolith.errors import BadValue

_DATA = frozenset({
    "builtins", "datetime", "decimal", "numpy", "pandas", "pathlib", "polars", "pyarrow", "scipy",
    "torch", "uuid", "zoneinfo",
})  # fmt: skip
"""Where the types come from that are data to a session, whatever program has made them."""

_CONTAINERS = (dict, list, tuple, set, frozenset)
_INSTALLED = tuple(
    str(Path(sysconfig.get_path(name)).resolve())
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class Gift(NamedTuple):
    """Variables that a worker sets."""

    cells: dict[str, bytes]
    pickle: bytes


def gift_of(values: Mapping[str, object], state: Reading) -> Gift:
    """Return variables as a worker can take them.

    Raises:
        BadValue: one of them cannot be pickled.
    """
    cells: dict[str, bytes] = {}
    objects: dict[str, object] = {}
    for name, value in values.items():
        cell = _cell(value, state)
        if cell is None:
            objects[name] = value
        else:
            cells[name] = cell
    return Gift(cells, _pickled(objects))


def _cell(value: object, state: Reading) -> bytes | None:
    if not _is_data(value):
        return None
    try:
        return state.cells.put(value)
    except BadValue:
        return None


def _is_data(value: object) -> bool:
    kind = type(value)
    if kind.__module__.partition(".")[0] not in _DATA:
        return False
    if isinstance(value, dict):
        return all(_is_data(each) for pair in value.items() for each in pair)
    return not isinstance(value, _CONTAINERS) or all(map(_is_data, value))


def _pickled(objects: dict[str, object]) -> bytes:
    if not objects:
        return b""
    with _along(_strangers()):
        try:
            return bytes(cloudpickle.dumps(objects))
        except Exception as error:  # whatever the classes of a user raise
            raise BadValue(
                f"cannot hand over {', '.join(objects)}: {type(error).__name__}: {error}",
                hint="hand over data, or the path of a file",
            ) from error


def _strangers() -> list[ModuleType]:
    """Return the modules of the user's own program: a worker has only those that are installed."""
    found = []
    for module in list(sys.modules.values()):
        place: Any = getattr(module, "__file__", None)
        if isinstance(place, str) and not place.startswith(_INSTALLED) and _is_named(module):
            found.append(module)
    return found


def _is_named(module: ModuleType) -> bool:
    name = module.__name__
    is_ours = name.partition(".")[0] == __name__.partition(".")[0]
    return not is_ours and name != "__main__" and sys.modules.get(name) is module


@contextmanager
def _along(modules: list[ModuleType]) -> Iterator[None]:
    """Let classes of modules be pickled with what they are, and not only by their names."""
    known = cloudpickle.list_registry_pickle_by_value()
    fresh = [module for module in modules if module.__name__ not in known]
    for module in fresh:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in fresh:
            cloudpickle.unregister_pickle_by_value(module)
