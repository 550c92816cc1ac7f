"""One column of a stored frame or table, without the others.

What a frame is lowered to has its columns in a list under "columns"; the rest is its *head*. The
codec of each library can make a column from the head and that column's own data.

Values whose content lies in one object that never changes: a look at that object is enough.

Strings that Arrow holds are such. pandas puts another Arrow array in the place of the one it has
when a string is set, so the same array means the same strings. Numbers are not: Arrow may have them
in memory that numpy writes to.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, cast

from otolith.codecs.registry import DATA
from otolith.types import Tag

FRAMES = frozenset({Tag.FRAME, Tag.TABLE, Tag.POLARS})
"""The codes of values that have columns."""

_MODULES = {codec.code: codec.module for codec in DATA if codec.code in FRAMES}


def labels(code: int, head: dict[str, Any]) -> list[Any]:
    """Return the labels of the columns, in order."""
    return cast("list[Any]", import_module(_MODULES[Tag(code)]).labels(head))


def column(code: int, head: dict[str, Any], position: int, data: object) -> object:
    """Return one column: a Series of pandas or polars, or a ChunkedArray of Arrow.

    Raises:
        Corrupt: the data does not fit the head.
    """
    return cast("object", import_module(_MODULES[Tag(code)]).column(head, position, data))


def content_of(value: Any) -> object | None:
    """Return the object that has all of a value's content and never changes, if there is one."""
    kind = type(value)
    if kind.__module__ != "pandas.arrays" and not kind.__module__.startswith("pandas.core.arrays"):
        return None
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, pandas.arrays.ArrowStringArray):
        return None
    content: object = value.__arrow_array__()
    return content
