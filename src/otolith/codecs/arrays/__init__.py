"""The door of arrays: what numpy has, lowered to its type, shape and memory.

CODEC         arrays, scalars, types, masked arrays, matrices, records, random generators
lower_array   the form of one array
lift_array    the array of one form
"""

from __future__ import annotations

import numpy as np

from otolith.codecs.arrays import chance, relatives
from otolith.codecs.arrays.memory import lift_array, lower_array
from otolith.codecs.forms import Forms
from otolith.types import Tag

__all__ = ["CODEC", "lift_array", "lower_array"]

CODEC = Forms(
    Tag.ARRAY,
    {np.ndarray: lower_array, **relatives.LOWER, **chance.LOWER},
    {"ndarray": lift_array, **relatives.LIFT, **chance.LIFT},
)
