"""The door of frames: what pandas has, lowered column by column.

CODEC    frames, series, indexes, arrays, types and scalars
column   the Series of one column, for whoever reads a frame without its other columns
labels   what the columns of such a frame are called
"""

from __future__ import annotations

from otolith.codecs.forms import Forms
from otolith.codecs.frames import arrays, dtypes, indexes, moments, strings, tables
from otolith.codecs.frames.tables import column, labels
from otolith.types import Tag

__all__ = ["CODEC", "column", "labels"]

_KINDS = (tables, indexes, arrays, strings, dtypes, moments)

CODEC = Forms(
    Tag.FRAME,
    {kind: form for module in _KINDS for kind, form in module.LOWER.items()},
    {name: read for module in _KINDS for name, read in module.LIFT.items()},
)
