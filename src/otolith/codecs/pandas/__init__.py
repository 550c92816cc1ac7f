"""The door of frames: what pandas has, lowered column by column.

CODEC    frames, series, indexes, arrays, types and scalars
column   the Series of one column, for whoever reads a frame without its other columns
labels   what the columns of such a frame are called
"""

from __future__ import annotations

from otolith.codecs.base import Forms
from otolith.codecs.pandas import arrays, dtypes, frames
from otolith.codecs.pandas.frames import column, labels
from otolith.types import Tag

__all__ = ["CODEC", "column", "labels"]

_LOWER = (
    frames.FRAME_LOWER,
    frames.INDEX_LOWER,
    arrays.LOWER,
    dtypes.STRING_LOWER,
    dtypes.LOWER,
    dtypes.MOMENT_LOWER,
)
_LIFT = (
    frames.FRAME_LIFT,
    frames.INDEX_LIFT,
    arrays.LIFT,
    dtypes.STRING_LIFT,
    dtypes.LIFT,
    dtypes.MOMENT_LIFT,
)

CODEC = Forms(
    Tag.FRAME,
    {kind: form for table in _LOWER for kind, form in table.items()},
    {name: read for table in _LIFT for name, read in table.items()},
)
