"""A number for what a value holds now: equal numbers, equal content, at the speed of C.

The C pickler walks the value; whatever is not plain data is lowered by the codecs first, so a
fingerprint sees exactly what would be stored and the type of every part. It writes to memory and
is never read back: nothing is ever unpickled from it. Raw bytes are hashed where they are.

Two fingerprints that differ do not prove a change: a dict may have been reordered, or a set grown
and shrunk. Encoding decides then. Two that are equal do prove that there is none.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, TypeAlias

from xxhash import xxh3_128_intdigest

from otolith.errors import BadValue
from otolith.types import Raw, Tagged

Lower: TypeAlias = Callable[[object], Tagged]

_MOVED = (RuntimeError, RecursionError, ValueError, BufferError)
"""What the pickler raises for a value that is changing, goes round in a circle or is too deep."""


def fingerprint(value: object, lower: Lower) -> int | None:
    """Return the number, or None for a value that has none; encoding it says what is wrong.

    Raises:
        BadValue: a part of it cannot be kept.
    """
    sink = io.BytesIO()
    try:
        _Walk(sink, lower).dump(value)
    except BadValue:
        raise
    except _MOVED:
        return None
    return xxh3_128_intdigest(sink.getbuffer())


class _Walk(pickle.Pickler):
    """A pickler for one fingerprint. Without its memo, it sees content and not identity."""

    def __init__(self, sink: io.BytesIO, lower: Lower) -> None:
        super().__init__(sink, protocol=5)
        self.fast = True
        self._lower = lower

    def reducer_override(self, value: Any) -> Any:
        """Reduce what the pickler does not know to a code and plainer data."""
        if value is complex:
            return NotImplemented  # the pickler asks about what a reduction calls, too
        if type(value) is Raw:
            return complex, (value.view.nbytes, xxh3_128_intdigest(value.view))
        code, data = self._lower(value)
        return complex, (int(code), data)
