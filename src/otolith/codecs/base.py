"""The Codec contract: values of one family, lowered to plainer data and lifted back.

The core keeps *plain data* by itself: None, bool, int of 64 bits, float, str, bytes, list, and
dict with any plain hashable key. Everything else is lowered one step at a time to a `Tagged`:
a code and data that is plainer than the value. The parts of that data may need lowering again;
whoever asked does the walking.
"""

from __future__ import annotations

from typing import Protocol

from otolith.types import Tagged


class Codec(Protocol):
    """Lowers and lifts the values of one family."""

    def lower(self, value: object) -> Tagged | None:
        """Return the value one step plainer, or None if it belongs to another codec.

        Raises:
            BadValue: it is of this family but cannot be kept; the message says why.
        """
        ...

    def lift(self, code: int, data: object) -> object:
        """Return the value that was lowered to this. `data` has been lifted already.

        Raises:
            UnknownType: the type it names is not known here, or has changed.
            Corrupt: the data is not what this code needs.
        """
        ...
