"""Arrays, frames and tables as text: what they are on one line, and their content as JSON.

No library is imported here. A value of one is told by what it can do, and only asked for its
content by the names that these libraries share.
"""

from __future__ import annotations

from typing import Any

_LIBRARIES = frozenset({"numpy", "pandas", "polars", "pyarrow", "scipy", "torch", "PIL"})


def is_data(value: object) -> bool:
    """Tell whether a value is an array, a frame or the like."""
    return type(value).__module__.partition(".")[0] in _LIBRARIES


def describe(value: Any) -> str:
    """Return what it is, on one line: its type, its shape, and the types in it."""
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not shape:
        return " ".join(str(value).split())
    size = " x ".join(map(str, shape))
    return f"<{kind} {size}{_types(value)}>"


def _types(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return f" of {dtype}"
    labels = getattr(value, "column_names", None) or getattr(value, "columns", None)
    if labels is None or not all(hasattr(label, "__hash__") for label in labels):
        return ""
    return ": " + ", ".join(map(str, labels))


def content(value: Any) -> object:
    """Return the content as lists and dicts, or as text where a library offers neither."""
    if hasattr(value, "to_pydict"):  # Arrow's tables
        return value.to_pydict()
    if hasattr(value, "to_pylist"):  # Arrow's arrays
        return value.to_pylist()
    if hasattr(value, "iloc") and hasattr(value, "columns"):  # pandas; labels may occur twice
        names, width = list(value.columns), len(value.columns)
        return [[names[at], value.iloc[:, at].tolist()] for at in range(width)]
    if hasattr(value, "get_columns"):  # polars
        return [[column.name, column.to_list()] for column in value.get_columns()]
    for name in ("tolist", "to_list"):
        if hasattr(value, name):
            return getattr(value, name)()
    return str(value)
