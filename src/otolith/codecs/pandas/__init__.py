"""The door of pandas: frames, series, indexes, arrays, types and scalars, column by column.

Forms (they never change, see `docs/reference/format-v1.md`): FRAME is a dict with a "type" and the
parts that `frames`, `arrays` and `dtypes` list for it.

CODEC    the codec of pandas
column   the Series of one column, for a caller that reads a frame without its other columns
labels   the labels of the columns of such a frame
"""

from __future__ import annotations

from otolith.codecs.base import FormCodec
from otolith.codecs.pandas import arrays, dtypes, frames
from otolith.codecs.pandas.frames import column, labels
from otolith.types import Tag

__all__ = ["CODEC", "column", "labels"]

CODEC = FormCodec(Tag.FRAME, (*frames.LAYOUTS, *arrays.LAYOUTS, *dtypes.LAYOUTS))
