"""Values whose content lies in one object that never changes: a look at that object is enough.

Strings that Arrow holds are such. pandas puts another Arrow array in the place of the one it has
when a string is set, so the same array means the same strings. Numbers are not: Arrow may have them
in memory that numpy writes to.
"""

from __future__ import annotations

import sys
from typing import Any


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
