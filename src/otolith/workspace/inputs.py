"""The values that the host sets in a session: data as cells, anything else in a pickle.

A worker loads the pickle. It goes one way only, from the program of the user into a sandbox, and is
not stored. A class that a worker could not import, such as one of the user's own program, is
pickled by value.
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

_DATA_MODULES = frozenset({
    "datetime", "decimal", "numpy", "pandas", "pathlib", "polars", "pyarrow", "scipy", "torch",
    "uuid", "zoneinfo",
})  # fmt: skip
"""The packages whose types are data to a session, as long as they hold nothing else."""

_SCALARS = (bool, int, float, complex, str, bytes, bytearray, type(None))
_CONTAINERS = (dict, list, tuple, set, frozenset)
_INSTALLED = tuple(
    str(Path(sysconfig.get_path(name)).resolve())
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


class InputValues(NamedTuple):
    """Variables that a worker sets before it runs code."""

    cells: dict[str, bytes]
    pickle: bytes


def input_values(
    values: Mapping[str, object], state: StateReader, *, are_objects: bool = False
) -> InputValues:
    """Return variables in the form that a worker takes; with `are_objects`, none as data.

    Raises:
        BadValue: one of them cannot be pickled.
    """
    cells: dict[str, bytes] = {}
    objects: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, ModuleType) and _is_uninstalled(value):
            raise BadValue(
                f"cannot send {name}: no worker can import {value.__name__}",
                hint="write its file to the work folder, and import it in the code",
            )
        try:
            if are_objects or not _is_data(value):
                objects[name] = value
            else:
                cells[name] = state.cells.put(value)
        except (BadValue, RecursionError):  # it is too deep, or contains itself
            objects[name] = value
    return InputValues(cells, _pickle(objects))


def _is_data(value: object) -> bool:
    """Tell whether a value consists of types that are stored as data."""
    kind = type(value)
    if kind in _CONTAINERS:
        parts: Any = value.items() if isinstance(value, dict) else value
        return all(map(_is_data, parts))
    return kind in _SCALARS or kind.__module__.partition(".")[0] in _DATA_MODULES


def _pickle(objects: dict[str, object]) -> bytes:
    """Pickle objects by name; empty bytes if there are none."""
    if not objects:
        return b""
    with _pickled_by_value():
        sink = io.BytesIO()
        try:
            _Pickler(sink).dump(objects)
            return sink.getvalue()
        except Exception as error:  # classes of a user may raise anything
            raise BadValue(
                f"cannot send {', '.join(objects)}: {type(error).__name__}: {error}",
                hint="send data, or the path of a file",
            ) from error


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Leaves out the caches that libraries have on classes."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how something is pickled, or that it is pickled as usual."""
        if isinstance(obj, type):
            for name in CACHES & vars(obj).keys():
                delattr(obj, name)
        return super().reducer_override(obj)


def _is_uninstalled(module: ModuleType) -> bool:
    """Tell whether a module is part of the user's own program, which a worker does not have."""
    path: Any = getattr(module, "__file__", None)
    if not isinstance(path, str) or path.startswith(_INSTALLED):
        return False
    return module.__name__.partition(".")[0] != __name__.partition(".")[0]


@contextmanager
def _pickled_by_value() -> Iterator[None]:
    """Let classes of the user's own modules be pickled by value, not only by their names."""
    known = cloudpickle.list_registry_pickle_by_value()
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name not in known and name != "__main__" and _is_uninstalled(module)
        and module.__name__ == name
    ]  # fmt: skip
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
