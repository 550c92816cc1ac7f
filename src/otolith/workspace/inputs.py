"""What the host gives to a session: data as cells, anything else as a pickle that a worker loads.

The pickle goes one way only, from the program of the user into a sandbox; nothing is kept of it. A
class whose module a worker could not import, such as one of the user's own program, goes along.
"""

from __future__ import annotations

import io
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]

from otolith.core import StateReader
from otolith.errors import BadValue
from otolith.workspace.worker.classes import CACHES

_DATA = frozenset({
    "datetime", "decimal", "numpy", "pandas", "pathlib", "polars", "pyarrow", "scipy", "torch",
    "uuid", "zoneinfo",
})  # fmt: skip
"""Where types come from that are data to a session, as long as they hold nothing else."""

_SCALARS = (bool, int, float, complex, str, bytes, bytearray, type(None))
_CONTAINERS = (dict, list, tuple, set, frozenset)
_INSTALLED = tuple(
    str(Path(sysconfig.get_path(name)).resolve())
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class InputValues(NamedTuple):
    """Variables that a worker sets."""

    cells: dict[str, bytes]
    pickle: bytes


def gift_of(
    values: Mapping[str, object], state: StateReader, *, are_objects: bool = False
) -> InputValues:
    """Return variables as a worker can take them; none as data, if `are_objects`.

    Raises:
        BadValue: one of them cannot be pickled.
    """
    cells: dict[str, bytes] = {}
    objects: dict[str, object] = {}
    for name, value in values.items():
        _refuse_module(name, value)
        cell = None if are_objects else _cell(value, state)
        if cell is None:
            objects[name] = value
        else:
            cells[name] = cell
    return InputValues(cells, _pickled(objects))


def _cell(value: object, state: StateReader) -> bytes | None:
    try:
        return state.cells.put(value) if _is_data(value) else None
    except (BadValue, RecursionError):  # it is too deep, or goes round in circles
        return None


def _is_data(value: object) -> bool:
    kind = type(value)
    if kind in _CONTAINERS:
        parts: Any = value.items() if isinstance(value, dict) else value
        return all(map(_is_data, parts))
    return kind in _SCALARS or kind.__module__.partition(".")[0] in _DATA


def _pickled(objects: dict[str, object]) -> bytes:
    if not objects:
        return b""
    with _along(_strangers()):
        sink = io.BytesIO()
        try:
            _Pickler(sink).dump(objects)
            return sink.getvalue()
        except Exception as error:  # whatever the classes of a user raise
            raise BadValue(
                f"cannot hand over {', '.join(objects)}: {type(error).__name__}: {error}",
                hint="hand over data, or the path of a file",
            ) from error


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Leaves out what libraries keep on classes for themselves."""

    def reducer_override(self, obj: Any) -> Any:
        """Say how something is pickled, or that it is as always."""
        if isinstance(obj, type):
            for name in CACHES & vars(obj).keys():
                delattr(obj, name)
        return super().reducer_override(obj)


def _strangers() -> list[ModuleType]:
    """Return the modules of the user's own program: a worker has only those that are installed."""
    found = list(sys.modules.values())
    return [module for module in found if _is_strange(module) and _is_named(module)]


def _is_strange(module: ModuleType) -> bool:
    place: Any = getattr(module, "__file__", None)
    if not isinstance(place, str) or place.startswith(_INSTALLED):
        return False
    return module.__name__.partition(".")[0] != __name__.partition(".")[0]


def _is_named(module: ModuleType) -> bool:
    return module.__name__ != "__main__" and sys.modules.get(module.__name__) is module


def _refuse_module(name: str, value: object) -> None:
    if isinstance(value, ModuleType) and _is_strange(value):
        raise BadValue(
            f"cannot hand over {name}: no worker can import {value.__name__}",
            hint="write its file to the work folder, and import it in the code",
        )


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
