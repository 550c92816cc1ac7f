"""Data inside of objects, lowered by codecs before it is pickled: frames are cut at columns."""

from __future__ import annotations

from typing import Any

from otolith.codecs import Codecs
from otolith.errors import BadValue
from otolith.types import Tagged


def lowered(thing: Any, codecs: Codecs) -> Tagged | None:
    """Return data inside of objects, lowered as far as it goes; None for what is not data."""
    if type(thing).__module__.partition(".")[0] not in _DATA or _is_inside_of_frames(thing):
        return None
    try:
        code, data = codecs.lower(thing)
        return Tagged(code, _all(data, codecs))
    except BadValue:
        return None


def _is_inside_of_frames(thing: Any) -> bool:
    """Tell whether an array is what pandas holds several columns in, which no codec knows."""
    return hasattr(thing, "_from_sequence") and getattr(thing, "ndim", 1) > 1


_DATA = frozenset({"numpy", "pandas", "pyarrow", "polars"})


def _all(data: Any, codecs: Codecs) -> Any:
    if type(data) is dict:
        return {key: _all(part, codecs) for key, part in data.items()}
    if type(data) is list:
        return [_all(part, codecs) for part in data]
    if type(data).__module__.partition(".")[0] in _DATA:
        code, inner = codecs.lower(data)
        return Tagged(code, _all(inner, codecs))
    return data
