"""One column of a stored frame or table, without the others.

What a frame is lowered to has its columns in a list under "columns"; the rest is its *head*. The
codec of each library can make a column from the head and that column's own data.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from otolith.codecs.ondemand import DATA
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
