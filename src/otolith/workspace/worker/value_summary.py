"""The summary of a variable: type, shape, columns, size, preview; or why it was lost.

It is stored beside the variable, so that its description does not have to read it. A merge merges
values, and takes the summary of one side: so a summary of data says of which value it is (`of`),
and one of another value is made again by those who read it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from reprlib import Repr
from typing import Any

from otolith.core import digest

_PREVIEW = 200
_COLUMNS = 50
_VALUE_ID_BYTES = 8

_short = Repr()
_short.maxstring = _short.maxother = 120
_short.maxlist = _short.maxtuple = _short.maxset = _short.maxdict = 6
_short.maxlevel = 3


def type_name(value: object) -> str:
    """Return the name of a type as a person would write it."""
    kind = type(value)
    name = kind.__qualname__
    return name if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{name}"


def describe(value: Any) -> dict[str, Any]:
    """Return what is worth knowing of a value, as plain data. Nothing that it raises gets out."""
    found: dict[str, Any] = {"type": type_name(value)}
    shape = _try(lambda: [int(each) for each in value.shape])
    if isinstance(shape, list):
        found["shape"] = shape
    columns = _columns(value)
    if columns is not None:
        found["columns"] = columns[:_COLUMNS]
    length = _try(lambda: len(value)) if "shape" not in found else None
    if isinstance(length, int) and not isinstance(value, type):
        found["length"] = length
    found["bytes"] = _bytes(value)
    found["preview"] = _preview(value)
    return found


def value_id(cell: bytes) -> bytes:
    """Return what a summary calls the value in a settled cell."""
    return digest(cell)[:_VALUE_ID_BYTES]


def is_summary_of(entry: Mapping[str, Any], cell: bytes) -> bool:
    """Tell whether an entry of `vars` describes the data in a settled cell.

    One that an earlier version wrote does not say, and is believed.
    """
    return entry.get("of") in (None, value_id(cell))


def _columns(value: Any) -> list[list[str]] | None:
    if type(value).__name__ not in ("DataFrame", "Table", "LazyFrame"):
        return None
    pairs = _try(lambda: [[str(name), str(kind)] for name, kind in _typed(value)])
    return pairs if isinstance(pairs, list) else None


def _typed(value: Any) -> Any:
    if hasattr(value, "dtypes") and hasattr(value.dtypes, "items"):
        return value.dtypes.items()
    schema = value.schema
    if hasattr(schema, "items"):
        return schema.items()
    return zip(schema.names, schema.types, strict=True)


def _bytes(value: Any) -> int:
    for ask in (
        lambda: int(value.nbytes),
        lambda: int(value.memory_usage(index=True).sum()),
        lambda: int(value.estimated_size()),
        lambda: sys.getsizeof(value),
    ):
        size = _try(ask)
        if isinstance(size, int):
            return size
    return 0


def _preview(value: Any) -> str:
    text = _try(lambda: _short.repr(value))
    said = text if isinstance(text, str) else f"<{type_name(value)}>"
    return said.encode("utf-8", "replace").decode()[:_PREVIEW]


def _try(ask: Any) -> Any:
    """Return the answer of somebody else's code, or what it raised."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001  # a repr is the user's, and may raise anything
        return error


def why(error: Exception) -> str:
    """Return what went wrong, in one line."""
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0][:200]}" if first else type(error).__name__


def hint(name: str, value: object) -> str:
    """Return what to do instead of storing the value of a variable."""
    kind = type(value).__name__.lower()
    for word, hint in _HINTS.items():
        if word in kind:
            return hint.format(name=name)
    return f"store what {name} is made from, and make it again"


_RESOURCE = 'register it: workspace.resource("{name}", factory="module:function")'
_HINTS = {
    "generator": "consume {name}, and store the list",
    "iterator": "consume {name}, and store the list",
    "textiowrapper": "store the path of {name}, and open it again",
    "buffered": "store the path of {name}, and open it again",
    "connection": _RESOURCE,
    "cursor": "fetch the rows of {name}, and store them",
    "socket": _RESOURCE,
    "lock": "make a new {name}; nothing holds it after a restart",
    "thread": "join {name}, and store the result",
    "match": "store {name}.groups() or {name}.groupdict()",
    "coroutine": "await {name}, and store the result",
}
